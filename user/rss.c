// SPDX-License-Identifier: BSD-2-Clause
#include "rss.h"

#include <errno.h>
#include <string.h>

#include "freeze.h"
#include "log.h"
#include "rss_collect.h"

#define DEADLINE_NS	(30ull * 1000000000)
#define FREEZE_MS	1000
#define UNEXPLAINED_MIN (64u << 10) /* leftovers below this are not listed one by one */

static bool starts(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

static bool is_shared_memory(const struct proc_map *m)
{
	return starts(m->path, "/dev/shm/") || starts(m->path, "/memfd:") ||
	       starts(m->path, "/SYSV") || starts(m->path, "/dev/zero") ||
	       starts(m->path, "[anon_shmem");
}

/* Data that starts as zeros follows its file's writable mapping. */
static bool is_bss(const struct rss_view *v, size_t i)
{
	const struct proc_map *m = &v->smaps.v[i].map, *before;

	if (!i || m->inode || m->path[0] || !m->w)
		return false;
	before = &v->smaps.v[i - 1].map;
	return before->end == m->start && before->inode && before->w && !before->shared;
}

/* What a mapping's pages are when no allocator or thread has them. */
static enum rss_kind kind_of_rest(const struct rss_view *v, size_t i)
{
	const struct proc_map *m = &v->smaps.v[i].map;

	if (m->inode || m->path[0] == '/')
		return is_shared_memory(m) ? RSS_SHARED : m->x ? RSS_FILE_CODE : RSS_FILE_DATA;
	if (!strcmp(m->path, "[heap]"))
		return v->out->glibc_known ? RSS_MALLOC_OTHER : RSS_ANON;
	if (starts(m->path, "[anon:"))
		return RSS_NAMED;
	if (m->path[0])
		return RSS_KERNEL;
	return is_bss(v, i) ? RSS_BSS : RSS_ANON;
}

/* Pages came and went since: what was given must add up to what smaps says. */
static u64 settle(struct rss_map *m)
{
	u64 sum = 0, scaled = 0;

	for (int k = 0; k < RSS_KINDS; k++)
		sum += m->kind[k];
	if (sum <= m->s->rss)
		return m->s->rss - sum;
	for (int k = 0; k < RSS_KINDS; k++) {
		m->kind[k] = (u64)((double)m->kind[k] * ((double)m->s->rss / (double)sum));
		scaled += m->kind[k];
	}
	return m->s->rss > scaled ? m->s->rss - scaled : 0;
}

static int add_named(struct rss_named **list, size_t *n, const char *name, struct rss_named add)
{
	struct rss_named *v;

	/* The mappings of a file are neighbours: look no further back than this. */
	for (size_t i = *n; i-- > 0 && *n - i <= 64;)
		if (!strcmp((*list)[i].name, name) && !add.start) {
			(*list)[i].resident += add.resident;
			(*list)[i].swap += add.swap;
			(*list)[i].anon += add.anon;
			(*list)[i].maps++;
			return 0;
		}
	if (!(*n & (*n - 1))) {
		v = reallocarray(*list, *n ? *n * 2 : 1, sizeof(*v));
		if (!v)
			return -ENOMEM;
		*list = v;
	}
	add.name = strdup(name);
	if (!add.name)
		return -ENOMEM;
	add.maps = 1;
	(*list)[(*n)++] = add;
	return 0;
}

static int name_map(struct rss_view *v, size_t i, enum rss_kind kind, u64 rest)
{
	const struct smap *s = &v->smaps.v[i];
	struct rss_named add = {.resident = s->rss, .swap = s->swap, .anon = s->anon};
	struct rss *out = v->out;

	if (s->map.inode || s->map.path[0] == '/')
		return s->rss || s->swap ? add_named(&out->file, &out->nfile, s->map.path, add) : 0;
	add.resident = rest;
	if (kind == RSS_NAMED && rest)
		return add_named(&out->anon, &out->nanon, s->map.path, add);
	if (kind != RSS_ANON || rest < UNEXPLAINED_MIN)
		return 0;
	add.start = s->map.start;
	return add_named(&out->anon, &out->nanon, s->map.path, add);
}

static int finish_map(struct rss_view *v, size_t i)
{
	struct rss_map *m = &v->map[i];
	enum rss_kind kind = kind_of_rest(v, i);
	struct rss *out = v->out;
	u64 rest = settle(m), private = 0;

	if (kind == RSS_FILE_CODE || kind == RSS_FILE_DATA || kind == RSS_SHARED) {
		private = m->s->anon < rest ? m->s->anon : rest;
		m->kind[RSS_FILE_PRIVATE] += private;
	}
	m->kind[kind] += rest - private;
	for (int k = 0; k < RSS_KINDS; k++)
		out->kind[k] += m->kind[k];
	out->rss += m->s->rss;
	out->pss += m->s->pss;
	out->uss += m->s->private;
	out->swap += m->s->swap;
	out->thp += m->s->thp;
	out->hugetlb += m->s->hugetlb;
	return name_map(v, i, kind, rest - private);
}

static int larger_first(const void *a, const void *b)
{
	const struct rss_named *x = a, *y = b;

	return x->resident < y->resident ? 1 : x->resident > y->resident ? -1 : 0;
}

static int finish(struct rss_view *v)
{
	struct rss *out = v->out;
	u64 moved;
	int err = 0;

	for (size_t i = 0; i < v->smaps.n && !err; i++)
		err = finish_map(v, i);
	if (err)
		return err;
	/* What free() set aside counts as in use for the heap itself. */
	moved = v->moved_to_cache < out->kind[RSS_MALLOC_USED] ? v->moved_to_cache
							       : out->kind[RSS_MALLOC_USED];
	out->kind[RSS_MALLOC_USED] -= moved;
	out->kind[RSS_MALLOC_CACHED] += moved;
	if (out->nfile)
		qsort(out->file, out->nfile, sizeof(*out->file), larger_first);
	if (out->nanon)
		qsort(out->anon, out->nanon, sizeof(*out->anon), larger_first);
	return 0;
}

static int read_residency(struct rss_view *v)
{
	v->map = calloc(v->smaps.n + 1, sizeof(*v->map));
	if (!v->map)
		return -ENOMEM;
	for (size_t i = 0; i < v->smaps.n; i++) {
		const struct smap *s = &v->smaps.v[i];
		int err;

		v->map[i].s = s;
		/* Only anonymous memory is ever split. */
		if (s->map.inode)
			err = 0;
		else
			err = residency_read(v->pid, s->map.start, s->map.end, s->rss,
					     &v->map[i].res);
		if (err)
			return err;
	}
	return 0;
}

static int look(struct rss_view *v)
{
	int err = smaps_read(v->pid, &v->smaps);

	if (!err)
		err = proc_maps_read(v->pid, &v->maps);
	if (!err)
		err = read_residency(v);
	/* Pages go first to who certainly has them. */
	if (!err)
		err = rss_take_pymalloc(v);
	if (!err)
		err = rss_take_glibc(v);
	if (!err)
		err = rss_take_stacks(v);
	if (!err)
		err = rss_take_mmapped_chunks(v);
	return err ? err : finish(v);
}

static void view_free(struct rss_view *v)
{
	for (size_t i = 0; v->map && i < v->smaps.n; i++)
		residency_free(&v->map[i].res);
	free(v->map);
	free(v->claim);
	smaps_free(&v->smaps);
	proc_maps_free(&v->maps);
}

static bool thp_always(void)
{
	AUTO_FCLOSE FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
	char line[128];

	return f && fgets(line, sizeof(line), f) && strstr(line, "[always]");
}

static void fill_head(pid_t pid, const struct pyinfo *info, struct rss *out)
{
	char pte[64];
	unsigned long long kib;

	out->pid = pid;
	proc_comm(pid, out->comm, sizeof(out->comm));
	snprintf(out->python, sizeof(out->python), "%s", info->version_str);
	out->alloc_mode = py_alloc_mode_name(info->alloc_mode);
	out->thp_always = thp_always();
	if (!proc_status(pid, "VmPTE", pte, sizeof(pte)) && sscanf(pte, "%llu", &kib) == 1)
		out->page_tables = kib * 1024;
}

static int collect(pid_t pid, const struct pyinfo *info, bool freeze, struct rss *out)
{
	struct rss_view v = {.pid = pid, .info = info, .out = out};
	struct freeze *f = NULL;
	u64 begin = reader_now();
	int err;

	v.reader = reader_proc(&v.pid);
	v.reader.deadline = begin + DEADLINE_NS;
	if (freeze) {
		err = freeze_start(pid, FREEZE_MS, &f);
		if (err)
			return log_err_r(err, "cannot stop process %d: %s", (int)pid,
					 strerror(-err));
	}
	proc_rss(pid, &out->statm_rss);
	err = look(&v);
	if (f)
		out->frozen_ns = freeze_end(f);
	out->took_ns = reader_now() - begin;
	view_free(&v);
	if (err)
		log_error("cannot read the memory of process %d: %s", (int)pid,
			  err == -ESRCH ? "it has exited" : strerror(-err));
	return err;
}

int rss_collect(pid_t pid, bool freeze, struct rss *out)
{
	struct rss r = {0};
	struct pyinfo info;
	int err = pyinfo_examine(pid, &info);

	if (err)
		return err;
	fill_head(pid, &info, &r);
	err = collect(pid, &info, freeze, &r);
	pyinfo_free(&info);
	if (err) {
		rss_free(&r);
		return err;
	}
	*out = r;
	return 0;
}

static void free_named(struct rss_named *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].name);
	free(v);
}

void rss_free(struct rss *r)
{
	free_named(r->file, r->nfile);
	free_named(r->anon, r->nanon);
	free(r->arena);
	*r = (struct rss){0};
}
