// SPDX-License-Identifier: BSD-2-Clause
/* The probes of one process: placed, moved to another thread, removed. */
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "bpfsys.h"
#include "log.h"
#include "probe_children.h"
#include "probes_priv.h"

/* Traps to be taken out of children. */
struct sweep {
	struct plan *plan; /* owned */
	pid_t pid;	   /* the parent */
	int prog_fd;
	u32 type;
};

static const char *const func_names[PHT_FN_NR] = {
	[PHT_FN_MALLOC] = "malloc",
	[PHT_FN_CALLOC] = "calloc",
	[PHT_FN_REALLOC] = "realloc",
	[PHT_FN_REALLOCARRAY] = "reallocarray",
	[PHT_FN_FREE] = "free",
	[PHT_FN_POSIX_MEMALIGN] = "posix_memalign",
	[PHT_FN_ALIGNED] = "aligned",
	[PHT_FN_VALLOC] = "valloc",
	[PHT_FN_PVALLOC] = "pvalloc",
	[PHT_FN_MMAP] = "mmap",
	[PHT_FN_MUNMAP] = "munmap",
	[PHT_FN_MREMAP] = "mremap",
	[PHT_FN_PY_MALLOC] = "py_malloc",
	[PHT_FN_PY_CALLOC] = "py_calloc",
	[PHT_FN_PY_REALLOC] = "py_realloc",
	[PHT_FN_PY_FREE] = "py_free",
	[PHT_FN_PY_POOL] = "py_pool",
};

static int attach_multi(struct probes_links *links, const struct bpf_program *prog, u32 type,
			pid_t pid, const struct plan *plan, int object, bool ret, bool only_ret)
{
	u64 offsets[PLAN_MAX_PROBES], cookies[PLAN_MAX_PROBES];
	char path[32];
	u32 n = 0;
	int fd;

	for (size_t i = 0; i < plan->nprobes; i++) {
		const struct plan_probe *p = &plan->probes[i];

		if (p->object != object || (only_ret && !p->with_return))
			continue;
		offsets[n] = p->offset;
		cookies[n++] = p->cookie;
	}
	if (!n)
		return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", plan->fds[object]);
	fd = bpfsys_uprobe_multi(bpf_program__fd(prog), type, path, offsets, cookies, n, pid, ret);
	if (fd < 0)
		return fd;
	links->fds[links->nfds++] = fd;
	return 0;
}

static int attach_object(struct probes *probes, struct probes_links *links, pid_t pid,
			 const struct plan *plan, int object)
{
	struct pyheaptrace_bpf *skel = probes->skel;

	if (probes->style == STYLE_SESSION)
		return attach_multi(links, skel->progs.session_any, PHT_BPF_TRACE_UPROBE_SESSION,
				    pid, plan, object, false, false);
	/* Returns first: a call that entered without one would seem to be pending for ever. */
	return attach_multi(links, skel->progs.cookie_return, PHT_BPF_TRACE_UPROBE_MULTI, pid, plan,
			    object, true, true)
		       ?: attach_multi(links, skel->progs.cookie_enter, PHT_BPF_TRACE_UPROBE_MULTI,
				       pid, plan, object, false, false);
}

/* The program for one half of a function's calls, where it cannot be told by a cookie. */
static struct bpf_program *program_of(struct probes *probes, u32 func, bool ret)
{
	char name[32];

	snprintf(name, sizeof(name), "%s_%s", ret ? "return" : "enter", func_names[func]);
	return bpf_object__find_program_by_name(probes->skel->obj, name);
}

static int attach_perf(struct probes *probes, struct probes_links *links, pid_t pid,
		       const struct plan *plan, const struct plan_probe *p, bool ret)
{
	DECLARE_LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = ret);
	struct bpf_program *prog;
	struct bpf_link *link;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", plan->fds[p->object]);
	if (probes->style == STYLE_COOKIE) {
		opts.bpf_cookie = p->cookie;
		prog = ret ? probes->skel->progs.cookie_return : probes->skel->progs.cookie_enter;
	} else {
		prog = program_of(probes, p->func, ret);
	}
	if (!prog)
		return -ENOENT;
	link = bpf_program__attach_uprobe_opts(prog, pid, path, p->offset, &opts);
	if (!link)
		return -errno;
	links->perf[links->nperf++] = link;
	return 0;
}

static int attach_all(struct probes *probes, struct probes_links *links, pid_t pid,
		      const struct plan *plan)
{
	int err = 0;

	if (probes->style == STYLE_SESSION || probes->style == STYLE_MULTI) {
		for (int object = 0; object < (int)ARRAY_SIZE(plan->fds) && !err; object++)
			err = attach_object(probes, links, pid, plan, object);
		return err;
	}
	for (size_t i = 0; i < plan->nprobes && !err; i++) {
		const struct plan_probe *p = &plan->probes[i];

		if (p->with_return)
			err = attach_perf(probes, links, pid, plan, p, true);
		if (!err)
			err = attach_perf(probes, links, pid, plan, p, false);
	}
	return err;
}

int probes_attach(struct probes *probes, pid_t pid, const struct plan *plan,
		  struct probes_links **out)
{
	struct probes_links *links;
	int err = probes_attach_none(probes, pid, &plan->proc, &links);

	if (err)
		return err;
	links->plan = plan_copy(plan);
	err = attach_all(probes, links, pid, plan);
	if (err) {
		probes_detach(probes, pid, links);
		return log_err_r(err, "cannot place probes in process %d: %s", pid,
				 err == -ESRCH ? "it exited" : strerror(-err));
	}
	*out = links;
	return 0;
}

static void free_plan(struct plan *plan)
{
	if (plan)
		plan_free(plan);
	free(plan);
}

static void remove_probes(void *arg)
{
	struct probes_links *links = arg;

	for (size_t i = 0; i < ARRAY_SIZE(links->sites); i++)
		bpf_link__destroy(links->sites[i]);
	for (size_t i = 0; i < links->nfds; i++)
		close(links->fds[i]);
	for (size_t i = 0; i < links->nperf; i++)
		bpf_link__destroy(links->perf[i]);
	free_plan(links->plan);
	free(links);
}

void probes_detach_sites(struct probes *probes, struct probes_links *links)
{
	struct probes_links *old = calloc(1, sizeof(*old));

	if (old) {
		memcpy(old->sites, links->sites, sizeof(old->sites));
		later_do(probes->later, remove_probes, old);
	}
	for (size_t i = 0; i < ARRAY_SIZE(links->sites); i++) {
		if (!old)
			bpf_link__destroy(links->sites[i]);
		links->sites[i] = NULL;
	}
}

int probes_attach_sites(struct probes *probes, int fd, u64 alloc_offset, u64 free_offset, pid_t pid,
			struct probes_links *links)
{
	const u64 offsets[] = {alloc_offset, free_offset};
	struct bpf_program *const progs[] = {probes->skel->progs.tramp_alloc,
					     probes->skel->progs.tramp_free};
	DECLARE_LIBBPF_OPTS(bpf_uprobe_opts, opts);
	char path[32];

	/* A perf link: cheaper a hit than uprobe_multi. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		links->sites[i] =
			bpf_program__attach_uprobe_opts(progs[i], pid, path, offsets[i], &opts);
		if (!links->sites[i]) {
			int err = -errno;

			probes_detach_sites(probes, links);
			return err;
		}
	}
	return 0;
}

void probes_detach(struct probes *probes, pid_t pid, struct probes_links *links)
{
	u32 key = pid;

	bpf_map_delete_elem(probes_map_fd(probes, MAP_PROCS), &key);
	if (links)
		later_do(probes->later, remove_probes, links);
}

/* Not if the kernel would take them for nobody's: its first thread has ended. */
static void sweep(void *arg)
{
	struct sweep *s = arg;
	char comm[32];
	u64 start;

	if (!proc_thread(s->pid, (u32)s->pid, &start, comm, sizeof(comm)))
		probe_children_sweep(s->plan, s->prog_fd, s->type);
	free_plan(s->plan);
	free(s);
}

void probes_leave_children(struct probes *probes, pid_t pid, const struct probes_links *links)
{
	bool session = probes->style == STYLE_SESSION;
	struct sweep *s = NULL;

	if (links->nfds && links->plan)
		s = calloc(1, sizeof(*s));
	if (!s)
		return;
	s->plan = plan_copy(links->plan);
	if (!s->plan) {
		free(s);
		return;
	}
	s->pid = pid;
	s->prog_fd = bpf_program__fd(session ? probes->skel->progs.session_any
					     : probes->skel->progs.cookie_enter);
	s->type = session ? PHT_BPF_TRACE_UPROBE_SESSION : PHT_BPF_TRACE_UPROBE_MULTI;
	later_do(probes->later, sweep, s);
}

int probes_move(struct probes *probes, struct probes_links *links, pid_t tid)
{
	struct probes_links *old;

	/* Of a process without its first thread; whoever removes a probe removes these. */
	if (!links->nperf)
		return -ENOTSUP;
	old = links->plan ? calloc(1, sizeof(*old)) : NULL;
	if (!old)
		return -ENOMEM;
	memcpy(old->perf, links->perf, sizeof(old->perf));
	old->nperf = links->nperf;
	links->nperf = 0;
	later_do(probes->later, remove_probes, old);
	return attach_all(probes, links, tid, links->plan);
}
