/* SPDX-License-Identifier: BSD-2-Clause */
/* The BPF side: open, configure, load, attach, detach.  Only drain.c looks inside. */
#ifndef PHT_PROBES_H
#define PHT_PROBES_H

#include "check.h"
#include "plan.h"

struct probes; /* opaque */

struct probes_config {
	u64 seed;
	u64 interval;	  /* sizes the live table */
	u64 temporary_ns; /* a block that lived no longer was temporary */
	bool threads;	  /* keep the stacks of different threads apart */
	const struct host_features *host;
};

/* libbpf speaks only under -vv; call before anything else. */
void probes_log_init(void);
/* Load the programs.  0, or -errno after one line. */
int probes_open(const struct probes_config *config, struct probes **out);
/* Detaches everything that is still attached. */
void probes_close(struct probes *probes);

struct probes_links; /* the probes of one process */

/* Place the probes of a plan; from here on the process is traced. */
int probes_attach(struct probes *probes, pid_t pid, const struct plan *plan,
		  struct probes_links **out);
/*
 * Add the trampoline's sites, at offsets of the file behind fd, to links.  pid:
 * of one process only, since children share the file with their parent; -1: of all.
 * -errno without a message: the caller may try another kind of site.
 */
int probes_attach_sites(struct probes *probes, int fd, u64 alloc_offset, u64 free_offset, pid_t pid,
			struct probes_links *links);
/* Trace a process by sites alone, or change how; *out has no probes yet. */
int probes_attach_none(struct probes *probes, pid_t pid, const struct pht_proc *proc,
		       struct probes_links **out);
/* What BPF itself samples in a process that is traced: one in so many bytes from now on. */
int probes_set_interval(struct probes *probes, pid_t pid, u64 interval);
/* The signal that ended a process that was traced until then; 0: none, or not known. */
int probes_exit_signal(const struct probes *probes, pid_t pid);
/* The end of that thread of the process is to be told (PHT_EV_ANCHOR). */
int probes_set_anchor(struct probes *probes, pid_t pid, u32 tid);
/* Remove those two again, in the background. */
void probes_detach_sites(struct probes *probes, struct probes_links *links);
/* Trace page faults of a process.  0, or -errno after one line. */
int probes_attach_faults(struct probes *probes, pid_t pid, const struct pht_proc *proc);
/*
 * Forget the process's configuration, so that probes have no effect any more,
 * and have them removed in the background; links may be NULL.
 */
void probes_detach(struct probes *probes, pid_t pid, struct probes_links *links);

/*
 * The process has forked: take its probes' traps out of children that are not
 * traced themselves, in the background.  Where the kernel does so by itself
 * nothing is done.
 */
void probes_leave_children(struct probes *probes, pid_t pid, const struct probes_links *links);
/*
 * The thread that the probes of a plan were placed for has ended: place them for
 * another one of the process.  0, -ENOTSUP (the kernel knows processes by their
 * first thread only, and may take the probes away at any time) or -errno.
 */
int probes_move(struct probes *probes, struct probes_links *links, pid_t tid);

/* A probe on a function of our own at its run-time address.  Detach with pid 0. */
int probes_attach_self(const struct probes *probes, u64 addr, struct probes_links **out);
/* The programs for events of followed processes (breakpoint.h). */
struct bpf_program *probes_breakpoint_program(const struct probes *probes);
struct bpf_program *probes_birth_program(const struct probes *probes);
/* How often and for how many ns all probe programs have run (guard.h turns that on). */
void probes_run_stats(const struct probes *probes, u64 *runs, u64 *ns);

/*
 * How often the kernel has left out a run of any of our programs because one was running
 * on that CPU already.  0 before 5.12, which does not count it.
 */
u64 probes_missed(const struct probes *probes);

enum probes_map {
	MAP_PROCS,
	MAP_THREADS,
	MAP_LIVE,
	MAP_STACKS,
	MAP_SITES,
	MAP_PEAKS,
	MAP_LIVES,
	MAP_EVENTS,
	MAP_COUNTERS,
	MAP_FOLLOW,
};
int probes_map_fd(const struct probes *probes, enum probes_map map);

#endif
