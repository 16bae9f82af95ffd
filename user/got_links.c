// SPDX-License-Identifier: BSD-2-Clause
#include "got_links.h"

#include <errno.h>
#include <string.h>

#define LINKS_MAX      4096
#define NAMESPACES_MAX 64
#define NAME_MAX_LEN   4096
#define PAGE	       4096ul

/* The layouts of <link.h>, which older systems' headers know only in part. */
struct remote_debug {
	u32 version, pad;
	u64 map, brk;
	u32 state, pad2;
	u64 ldbase;
	u64 next; /* of another namespace: version 2 and later only */
};

struct remote_link {
	u64 addr, name, ld, next, prev;
};

#define DEBUG_V1_LEN	 offsetof(struct remote_debug, next)
#define STATE_CONSISTENT 0

static u64 mix(u64 h, const void *data, size_t len)
{
	const u8 *p = data;

	while (len--)
		h = (h ^ *p++) * 0x100000001b3;
	return h;
}

static u64 mix_words(u64 h, const u64 *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ v[i]) * 0x100000001b3;
	/* a multiplication carries upwards only */
	return h ^ h >> 32;
}

/* The name tells apart two files that were loaded to one place, one after the other. */
static u64 mix_name(pid_t pid, u64 h, u64 addr)
{
	char buf[256];

	for (size_t done = 0; addr && done < NAME_MAX_LEN;) {
		size_t len = PAGE - addr % PAGE, n;

		if (len > sizeof(buf))
			len = sizeof(buf);
		if (proc_read(pid, addr, buf, len))
			break;
		n = strnlen(buf, len);
		h = mix(h, buf, n);
		if (n < len)
			break;
		addr += len;
		done += len;
	}
	return h;
}

static int add_namespace(pid_t pid, struct got_links *l, u64 at, u32 ns)
{
	struct remote_link link;

	/* the chain may be crafted into a ring: go no further than the list can take */
	while (at && l->n < LINKS_MAX) {
		u64 key[4];
		int err = proc_read(pid, at, &link, sizeof(link));

		if (err)
			return err;
		l->v[l->n++] = (struct got_link){.dynamic = link.ld, .ns = ns};
		key[0] = ns;
		key[1] = at;
		key[2] = link.addr;
		key[3] = link.ld;
		l->signature = mix_words(l->signature, key, ARRAY_SIZE(key));
		l->signature = mix_name(pid, l->signature, link.name);
		at = link.next;
	}
	return 0;
}

static int read_debug(pid_t pid, u64 addr, struct remote_debug *d)
{
	int err;

	memset(d, 0, sizeof(*d));
	err = proc_read(pid, addr, d, DEBUG_V1_LEN);
	if (!err && d->version >= 2)
		err = proc_read(pid, addr, d, sizeof(*d));
	return err;
}

static int add_namespaces(pid_t pid, struct got_links *l, u64 r_debug)
{
	for (u32 ns = 0; r_debug && ns < NAMESPACES_MAX; ns++) {
		struct remote_debug d;
		int err = read_debug(pid, r_debug, &d);

		if (!err)
			err = add_namespace(pid, l, d.map, ns);
		if (err)
			return err;
		if (!ns) {
			l->brk = d.brk;
			l->linker = d.ldbase;
		}
		l->settled &= d.state == STATE_CONSISTENT;
		r_debug = d.next;
	}
	return 0;
}

int got_links_read(pid_t pid, u64 r_debug, struct got_links *out)
{
	struct got_links l = {.settled = true, .signature = 0xcbf29ce484222325};
	int err;

	if (!r_debug)
		return -ENOENT;
	l.v = calloc(LINKS_MAX, sizeof(*l.v));
	if (!l.v)
		return -ENOMEM;
	err = add_namespaces(pid, &l, r_debug);
	if (!err && !l.n)
		err = -ENOENT;
	if (err) {
		got_links_free(&l);
		return err;
	}
	*out = l;
	return 0;
}

void got_links_free(struct got_links *links)
{
	free(links->v);
	*links = (struct got_links){0};
}

int got_links_find(const struct got_links *links, u64 dynamic, u32 *ns)
{
	for (size_t i = 0; i < links->n; i++) {
		if (links->v[i].dynamic != dynamic)
			continue;
		*ns = links->v[i].ns;
		return 0;
	}
	return -ENOENT;
}

u64 got_maps_signature(const struct proc_maps *maps)
{
	u64 h = 0xcbf29ce484222325;

	for (size_t i = 0; i < maps->n; i++) {
		const struct proc_map *m = &maps->v[i];
		u64 key[4] = {m->start, m->end, m->offset, m->inode};

		if (m->x && m->inode)
			h = mix_words(h, key, ARRAY_SIZE(key));
	}
	return h;
}
