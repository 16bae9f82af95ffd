// SPDX-License-Identifier: BSD-2-Clause
/* Anonymous memory outside the heaps: threads' stacks and blocks that malloc mapped. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "glibc_heap.h"
#include "rss_collect.h"

#define PAGE	  4096ull
#define BATCH	  512
#define TCB_TAIL  8192 /* a thread's descriptor lies in the last bytes of its stack */
#define TASKS_MAX 65536

static bool is_anon(const struct proc_map *m)
{
	return !m->inode && m->r && m->w && !m->shared && (!m->path[0] || m->path[1] == 'a');
}

static void take_whole_map(struct rss_view *v, size_t i, enum rss_kind kind)
{
	const struct proc_map *m = &v->smaps.v[i].map;

	if (!rss_claim(v, m->start, m->end))
		rss_give(v, m->start, m->end, kind);
}

static size_t find_map(const struct rss_view *v, u64 addr)
{
	for (size_t i = 0; i < v->smaps.n; i++)
		if (addr < v->smaps.v[i].map.end)
			return addr >= v->smaps.v[i].map.start ? i : v->smaps.n;
	return v->smaps.n;
}

/* The stack pointer of a thread that sits in the kernel; 0 = it runs. */
static u64 thread_sp(pid_t pid, const char *tid)
{
	AUTO_FCLOSE FILE *f = NULL;
	char path[96], line[256];
	u64 sp = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/syscall", (int)pid, tid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return 0;
	if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %" SCNx64, &sp) == 1)
		return sp;
	/* Not in a system call: "-1 SP PC". */
	return sscanf(line, "-1 %" SCNx64, &sp) == 1 ? sp : 0;
}

static int stacks_by_pointer(struct rss_view *v)
{
	char path[64];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)v->pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	for (u32 n = 0; n < TASKS_MAX && (e = readdir(dir));) {
		size_t i;

		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		n++;
		v->out->threads++;
		i = find_map(v, thread_sp(v->pid, e->d_name));
		if (i < v->smaps.n && is_anon(&v->smaps.v[i].map))
			take_whole_map(v, i, RSS_STACK_THREADS);
	}
	closedir(dir);
	return 0;
}

/* glibc and musl: the descriptor begins with its own address. */
static bool has_descriptor(const u8 *tail, size_t len, u64 addr)
{
	for (size_t o = 0; o + 24 <= len; o += 16) {
		u64 w[3];

		memcpy(w, tail + o, sizeof(w));
		if (w[0] == addr + o && (w[2] == addr + o || w[1] == addr + o))
			return true;
	}
	return false;
}

/* Stacks of running threads, and those kept for the next thread. */
static int stacks_by_descriptor(struct rss_view *v)
{
	for (size_t i = 1; i < v->smaps.n; i++) {
		const struct proc_map *m = &v->smaps.v[i].map, *guard = &v->smaps.v[i - 1].map;
		u8 tail[TCB_TAIL];
		size_t len = m->end - m->start < TCB_TAIL ? m->end - m->start : TCB_TAIL;
		int err;

		if (!is_anon(m) || guard->end != m->start || guard->r || guard->w ||
		    !v->smaps.v[i].rss || rss_claimed(v, m->start, m->end))
			continue;
		err = reader_read(&v->reader, m->end - len, tail, len);
		if (err == -ESRCH || err == -EPERM || err == -ETIMEDOUT)
			return err;
		if (!err && has_descriptor(tail, len, m->end - len))
			take_whole_map(v, i, RSS_STACK_THREADS);
	}
	return 0;
}

int rss_take_stacks(struct rss_view *v)
{
	int err;

	for (size_t i = 0; i < v->smaps.n; i++)
		if (!strcmp(v->smaps.v[i].map.path, "[stack]"))
			take_whole_map(v, i, RSS_STACK_MAIN);
	err = stacks_by_pointer(v);
	return err ? err : stacks_by_descriptor(v);
}

/*
 * The next up to BATCH resident pages of [from, end).  No others: reading a page that
 * is not there makes the kernel put one, and a table for it, into the process.
 */
static size_t next_pages(const struct residency *r, u64 from, u64 end, u64 *pages)
{
	size_t n = 0;

	for (from = residency_next(r, from, end); from < end && n < BATCH;
	     from = residency_next(r, from + PAGE, end))
		pages[n++] = from;
	return n;
}

/* The part of anonymous memory that is looked through, and how far a block may reach. */
struct gap {
	u64 from, end, limit;
};

/* Blocks that malloc mapped begin at a page; between them may be anything. */
static int scan_gap(struct rss_view *v, size_t i, struct gap *g)
{
	u64 pages[BATCH];
	u8 heads[BATCH][GLIBC_MMAPPED_HEAD];
	bool ok[BATCH];
	size_t n;

	while (g->from < g->end && (n = next_pages(&v->map[i].res, g->from, g->end, pages))) {
		int err = reader_gather(&v->reader, pages, n, heads, sizeof(heads[0]), ok);

		if (err)
			return err;
		for (size_t k = 0; k < n; k++) {
			u64 size, user;

			if (!ok[k] || pages[k] < g->from)
				continue;
			size = glibc_mmapped_chunk(heads[k], pages[k], g->limit, &user);
			g->from = pages[k] + (size ? size : PAGE);
			if (!size)
				continue;
			rss_give(v, pages[k], g->from, RSS_MALLOC_MMAP);
			v->out->mmapped_chunks++;
		}
		if (g->from <= pages[n - 1])
			g->from = pages[n - 1] + PAGE;
	}
	return 0;
}

/*
 * Where anonymous memory that begins at `at` in mapping i ends.  numpy sets
 * flags for all but the first page of a block, which cuts its mapping in two.
 */
static u64 limit_of(const struct rss_view *v, size_t i, u64 end)
{
	while (end == v->smaps.v[i].map.end && i + 1 < v->smaps.n &&
	       v->smaps.v[i + 1].map.start == end && is_anon(&v->smaps.v[i + 1].map)) {
		u64 next = v->smaps.v[++i].map.end;

		if (rss_claimed(v, end, next))
			break;
		end = next;
	}
	return end;
}

int rss_take_mmapped_chunks(struct rss_view *v)
{
	struct gap g = {0};
	size_t c = 0;

	for (size_t i = 0; i < v->smaps.n; i++) {
		const struct proc_map *m = &v->smaps.v[i].map;

		if (!is_anon(m) || !v->smaps.v[i].rss)
			continue;
		/* A block found in the mapping before may reach into this one. */
		if (g.from < m->start)
			g.from = m->start;
		while (c < v->nclaim && v->claim[c].end <= m->start)
			c++;
		for (size_t k = c; g.from < m->end; k++) {
			bool more = k < v->nclaim && v->claim[k].start < m->end;
			int err;

			g.end = more ? v->claim[k].start : m->end;
			g.limit = more ? g.end : limit_of(v, i, g.end);
			err = scan_gap(v, i, &g);
			if (err)
				return err;
			if (!more)
				break;
			if (g.from < v->claim[k].end)
				g.from = v->claim[k].end;
		}
	}
	return 0;
}
