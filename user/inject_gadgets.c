// SPDX-License-Identifier: BSD-2-Clause
#include "inject.h"

#ifdef __x86_64__
#include <errno.h>
#include <string.h>

#include "procmem.h"

#define CHUNK	 (64 << 10)
#define MAX_TEXT (256ull << 20)

struct pattern {
	u8 len;
	u8 bytes[9];
};

/* rt_sigreturn as the two C libraries, and most others, write it. */
static const struct pattern sigreturns[] = {
	{9, {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}},
	{7, {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05}},
};

/* The file shows the text without making it resident in the target. */
struct text {
	int fd, mem;
	const struct proc_map *map;
};

static size_t text_read(const struct text *t, u64 at, u8 *buf, size_t len)
{
	u64 left = t->map->end - t->map->start - at;
	ssize_t n;

	if (len > left)
		len = left;
	if (t->fd < 0)
		return procmem_read(t->mem, t->map->start + at, buf, len) ? 0 : len;
	n = pread(t->fd, buf, len, (off_t)(t->map->offset + at));
	return n > 0 ? (size_t)n : 0;
}

static void scan(const u8 *buf, size_t n, u64 addr, struct inject_gadgets *found)
{
	const u8 *p;

	for (size_t i = 0; i < ARRAY_SIZE(sigreturns) && !found->sigreturn; i++) {
		p = memmem(buf, n, sigreturns[i].bytes, sigreturns[i].len);
		if (p)
			found->sigreturn = addr + (u64)(p - buf);
	}
	p = found->ret ? NULL : memchr(buf, 0xc3, n);
	if (p)
		found->ret = addr + (u64)(p - buf);
}

/* What the file promised must be what the memory holds. */
static bool verify(int mem, const struct inject_gadgets *g)
{
	u8 buf[9], ret;

	if (!g->sigreturn || !g->ret || procmem_read(mem, g->ret, &ret, 1) || ret != 0xc3 ||
	    procmem_read(mem, g->sigreturn, buf, sizeof(buf)))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(sigreturns); i++)
		if (!memcmp(buf, sigreturns[i].bytes, sigreturns[i].len))
			return true;
	return false;
}

static bool search(pid_t pid, int mem, const struct proc_map *map, u8 *buf,
		   struct inject_gadgets *out)
{
	struct inject_gadgets found = {0};
	AUTO_CLOSE int fd = proc_open_map(pid, map);
	struct text text = {.fd = fd, .mem = mem, .map = map};
	u64 size = map->end - map->start;

	for (u64 at = 0; at < size && at < MAX_TEXT && !(found.sigreturn && found.ret);) {
		size_t n = text_read(&text, at, buf, CHUNK);

		if (n < sizeof(sigreturns[0].bytes))
			break;
		scan(buf, n, map->start + at, &found);
		if (n < CHUNK)
			break;
		at += CHUNK - sizeof(sigreturns[0].bytes);
	}
	if (!verify(mem, &found))
		return false;
	*out = found;
	return true;
}

static bool is_libc(const char *path)
{
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	return !strncmp(base, "libc.", 5) || !strncmp(base, "libc-", 5) ||
	       !strncmp(base, "ld-musl", 7);
}

int inject_find_gadgets(pid_t pid, int mem, const struct proc_maps *maps,
			struct inject_gadgets *out)
{
	AUTO_FREE u8 *buf = malloc(CHUNK);

	if (!buf)
		return -ENOMEM;
	for (int libc = 1; libc >= 0; libc--) {
		for (size_t i = 0; i < maps->n; i++) {
			const struct proc_map *m = &maps->v[i];

			if (!m->x || m->w || !m->inode || is_libc(m->path) != libc)
				continue;
			if (search(pid, mem, m, buf, out))
				return 0;
		}
	}
	return -ENOENT;
}
#endif
