// SPDX-License-Identifier: BSD-2-Clause
#include "guard.h"

#include <bpf/bpf.h>
#include <time.h>

#include "log.h"
#include "session.h"

#define CALIBRATION_CALLS 2000
/*
 * What a hit costs the program afterwards: its caches and branch predictors
 * are not what they were.  Measured beside what the trap and the BPF program take
 * (AMD EPYC): 1.4 to 2.2 us in small programs (json, asyncio), 10 to 30 us in ones
 * with a large working set (pandas, Django, threads in zlib).  With this in
 * between, programs of the second kind stay within --max-overhead, too.
 */
#define COLD_NS 5000
/* Less CPU time than this in a look says nothing. */
#define LEAST_CPU 0.002

/*
 * Stand-ins for the two kinds of probed instruction.  In assembly, because the
 * compiler must neither inline them nor choose another first instruction.
 */
void guard_push_target(void);
void guard_nop5_target(void);
#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	".globl guard_push_target\n.type guard_push_target, @function\n"
	"guard_push_target: push %rbp\n pop %rbp\n ret\n"
	".size guard_push_target, . - guard_push_target\n"
	".balign 64\n"
	".globl guard_nop5_target\n.type guard_nop5_target, @function\n"
	"guard_nop5_target: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n ret\n"
	".size guard_nop5_target, . - guard_nop5_target\n"
	".popsection\n");
#else
void __attribute__((noinline)) guard_push_target(void)
{
	__asm__ volatile("");
}
void __attribute__((noinline)) guard_nop5_target(void)
{
	__asm__ volatile("nop");
}
#endif

double guard_process_cpu(pid_t pid)
{
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts))
		return -1;
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static double time_calls(void (*fn)(void))
{
	double start = monotonic_seconds();

	for (int i = 0; i < CALIBRATION_CALLS; i++)
		fn();
	return (monotonic_seconds() - start) / CALIBRATION_CALLS * 1e9;
}

/* Nanoseconds that a hit on fn costs: our process is not traced, so the program returns at once. */
static double calibrate(struct probes *probes, void (*fn)(void))
{
	double without = time_calls(fn), with;
	struct probes_links *links;

	if (probes_attach_self(probes, (u64)(uintptr_t)fn, &links))
		return -1;
	time_calls(fn); /* the kernel optimises some sites at the first hit */
	with = time_calls(fn);
	probes_detach(probes, 0, links);
	return with > without ? with - without : 0;
}

void guard_open(struct guard *g, struct probes *probes)
{
	*g = (struct guard){.stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME)};
	g->trap_ns = calibrate(probes, guard_push_target);
	g->fast_trap_ns = calibrate(probes, guard_nop5_target);
	log_debug("a hit costs %.0f ns beside its program, at the trampoline %.0f ns", g->trap_ns,
		  g->fast_trap_ns);
}

void guard_close(struct guard *g)
{
	if (g->stats_fd >= 0)
		close(g->stats_fd);
	g->stats_fd = -1;
}

double guard_slowdown(struct guard *g, const struct probes *probes, double cpu, bool fast)
{
	double trap = fast ? g->fast_trap_ns : g->trap_ns;
	double lost, ran, now = monotonic_seconds();
	u64 runs, ns;

	g->core_share = -1;
	if (g->stats_fd < 0 || trap < 0 || cpu < 0)
		return -1;
	probes_run_stats(probes, &runs, &ns);
	lost = ((double)(runs - g->runs) * (trap + COLD_NS) + (double)(ns - g->run_ns)) / 1e9;
	ran = cpu - g->cpu;
	if (!g->looked) /* only a beginning */
		ran = 0;
	g->runs = runs;
	g->run_ns = ns;
	g->cpu = cpu;
	if (g->looked && now > g->when)
		g->core_share = lost / (now - g->when);
	g->when = now;
	g->looked = true;
	if (ran < LEAST_CPU)
		return -1;
	/* What was lost is part of what it ran. */
	return lost < ran * 0.99 ? lost / (ran - lost) : 100;
}
