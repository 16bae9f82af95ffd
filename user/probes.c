// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#include "log.h"
#include "probe_maps.h"
#include "probes_priv.h"
#include "sampling_tables.h"

/* Ten at most for each of 256 processes, and some fifty of our own. */
#define FILES_WANTED 4096

static int libbpf_log(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char line[1024];

	if (log_level() < (level == LIBBPF_DEBUG ? 3 : 2))
		return 0;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = 0;
	log_debug("%s", line);
	return 0;
}

void probes_log_init(void)
{
	libbpf_set_print(libbpf_log);
}

/* A program that we started has those that it was given: it was forked before. */
static void raise_limits(void)
{
	struct rlimit memlock = {RLIM_INFINITY, RLIM_INFINITY}, files;

	/* Kernels before 5.11 charge maps to this limit. */
	setrlimit(RLIMIT_MEMLOCK, &memlock);
	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= FILES_WANTED)
		return;
	files.rlim_cur = files.rlim_max < FILES_WANTED ? files.rlim_max : FILES_WANTED;
	setrlimit(RLIMIT_NOFILE, &files);
}

int probes_open(const struct probes_config *config, struct probes **out)
{
	struct probes *probes = calloc(1, sizeof(*probes));
	int err;

	if (!probes)
		return log_err_r(-ENOMEM, "out of memory");
	raise_limits();
	probes->later = later_new();
	probes->style = probe_style_choose(config->host);
	probes->skel = pyheaptrace_bpf__open();
	if (!probes->skel) {
		err = log_err_r(-errno, "cannot open the BPF object: %s", strerror(errno));
		goto fail;
	}
	probe_style_configure(probes->skel, probes->style);
	probes->skel->rodata->cfg_seed = config->seed;
	probes->skel->rodata->cfg_temporary_ns = config->temporary_ns;
	probes->skel->rodata->cfg_threads = config->threads;
	sampling_tables_fill(probes->skel->bss->log_table, probes->skel->bss->weight_table);
	probe_maps_size(probes->skel, config->interval, config->threads, config->host->map_growth);
	err = pyheaptrace_bpf__load(probes->skel);
	if (err) {
		log_error("the kernel refuses the BPF programs: %s (see pyheaptrace check, "
			  "or -vv for the reason)",
			  strerror(-err));
		goto fail;
	}
	probes->skel->links.process_exit = bpf_program__attach(probes->skel->progs.process_exit);
	probes->skel->links.process_exec = bpf_program__attach(probes->skel->progs.process_exec);
	probes->skel->links.process_fork = bpf_program__attach(probes->skel->progs.process_fork);
	if (!probes->skel->links.process_exit || !probes->skel->links.process_exec ||
	    !probes->skel->links.process_fork) {
		err = log_err_r(-errno, "cannot watch process exits: %s", strerror(errno));
		goto fail;
	}
	*out = probes;
	return 0;
fail:
	probes_close(probes);
	return err;
}

void probes_close(struct probes *probes)
{
	if (!probes)
		return;
	later_free(probes->later);
	pyheaptrace_bpf__destroy(probes->skel);
	free(probes);
}

int probes_attach_none(struct probes *probes, pid_t pid, const struct pht_proc *proc,
		       struct probes_links **out)
{
	struct probes_links *links = calloc(1, sizeof(*links));
	u32 key = pid;
	int err;

	if (!links)
		return log_err_r(-ENOMEM, "out of memory");
	err = bpf_map_update_elem(probes_map_fd(probes, MAP_PROCS), &key, proc, BPF_ANY);
	if (err) {
		free(links);
		return log_err_r(err, "cannot configure tracing: %s", strerror(-err));
	}
	*out = links;
	return 0;
}

static int proc_entry(const struct probes *probes, pid_t pid, struct pht_proc *proc)
{
	u32 key = pid;

	return bpf_map_lookup_elem(probes_map_fd(probes, MAP_PROCS), &key, proc);
}

/* One that is not there any more is not made again. */
static int proc_entry_change(const struct probes *probes, pid_t pid, const struct pht_proc *proc)
{
	u32 key = pid;

	return bpf_map_update_elem(probes_map_fd(probes, MAP_PROCS), &key, proc, BPF_EXIST);
}

int probes_set_interval(struct probes *probes, pid_t pid, u64 interval)
{
	struct pht_proc proc;
	int err = proc_entry(probes, pid, &proc);

	if (err)
		return err;
	proc.interval = interval;
	return proc_entry_change(probes, pid, &proc);
}

int probes_exit_signal(const struct probes *probes, pid_t pid)
{
	struct pht_proc proc;

	return proc_entry(probes, pid, &proc) ? 0 : (int)proc.exit_signal;
}

int probes_set_anchor(struct probes *probes, pid_t pid, u32 tid)
{
	struct pht_proc proc;
	int err = proc_entry(probes, pid, &proc);

	if (err)
		return err;
	proc.anchor = tid;
	return proc_entry_change(probes, pid, &proc);
}

int probes_attach_faults(struct probes *probes, pid_t pid, const struct pht_proc *proc)
{
	struct pyheaptrace_bpf *skel = probes->skel;
	u32 key = pid;
	int err;

	if (!skel->links.page_fault)
		skel->links.page_fault = bpf_program__attach(skel->progs.page_fault);
	if (!skel->links.page_fault)
		return log_err_r(-errno, "this kernel has no page fault tracepoint: %s",
				 strerror(errno));
	err = bpf_map_update_elem(probes_map_fd(probes, MAP_PROCS), &key, proc, BPF_ANY);
	return err ? log_err_r(err, "cannot configure tracing: %s", strerror(-err)) : 0;
}

int probes_attach_self(const struct probes *probes, u64 addr, struct probes_links **out)
{
	struct probes_links *links = calloc(1, sizeof(*links));
	struct proc_maps maps = {0};
	const struct proc_map *map;
	int err = links ? proc_maps_read(getpid(), &maps) : -ENOMEM;

	map = err ? NULL : proc_maps_find(&maps, addr);
	if (map)
		links->perf[0] = bpf_program__attach_uprobe(probes->skel->progs.tramp_free, false,
							    getpid(), "/proc/self/exe",
							    addr - map->start + map->offset);
	if (map && !links->perf[0])
		err = -errno;
	proc_maps_free(&maps);
	if (err || !map) {
		free(links);
		return err ?: -ENOENT;
	}
	links->nperf = 1;
	*out = links;
	return 0;
}

struct bpf_program *probes_breakpoint_program(const struct probes *probes)
{
	return probes->skel->progs.breakpoint;
}

struct bpf_program *probes_birth_program(const struct probes *probes)
{
	return probes->skel->progs.process_birth;
}

static int program_info(const struct bpf_program *prog, struct bpf_prog_info *info)
{
	u32 len = sizeof(*info);
	int fd = bpf_program__fd(prog);

	*info = (struct bpf_prog_info){0};
	return fd < 0 ? -ENOENT : bpf_obj_get_info_by_fd(fd, info, &len);
}

u64 probes_missed(const struct probes *probes)
{
	struct bpf_program *prog;
	struct bpf_prog_info info;
	u64 missed = 0;

	bpf_object__for_each_program(prog, probes->skel->obj) if (!program_info(prog, &info))
		missed += info.recursion_misses;
	return missed;
}

void probes_run_stats(const struct probes *probes, u64 *runs, u64 *ns)
{
	struct bpf_program *prog;

	*runs = *ns = 0;
	bpf_object__for_each_program(prog, probes->skel->obj)
	{
		struct bpf_prog_info info;

		/* The rest runs at faults and exits of the whole machine. */
		if (bpf_program__type(prog) != BPF_PROG_TYPE_KPROBE || program_info(prog, &info))
			continue;
		*runs += info.run_cnt;
		*ns += info.run_time_ns;
	}
}

int probes_map_fd(const struct probes *probes, enum probes_map map)
{
	const struct bpf_map *maps[] = {
		[MAP_PROCS] = probes->skel->maps.procs,
		[MAP_THREADS] = probes->skel->maps.threads,
		[MAP_LIVE] = probes->skel->maps.live,
		[MAP_STACKS] = probes->skel->maps.stacks,
		[MAP_SITES] = probes->skel->maps.sites,
		[MAP_PEAKS] = probes->skel->maps.peaks,
		[MAP_LIVES] = probes->skel->maps.lives,
		[MAP_EVENTS] = probes->skel->maps.events,
		[MAP_COUNTERS] = probes->skel->maps.counters,
		[MAP_FOLLOW] = probes->skel->maps.follow,
	};

	return bpf_map__fd(maps[map]);
}
