// SPDX-License-Identifier: BSD-2-Clause
#include "governor.h"

#include <errno.h>
#include <time.h>

#include "log.h"

#define LOOK_NS 150000000L
/* R is raised by at most this factor at once, and lowered by half. */
#define RAISE_MAX 16.0
/*
 * So little of a core is nobody's loss: a process that is idle most of the time
 * would otherwise get hardly a sample for 5 % of next to nothing.
 */
#define LEAST_CORE 0.002
/* Below this part of what may be lost R is lowered again; twice of it is left then. */
#define CALM	  0.25
#define CALM_IDLE 0.4

void governor_open(struct governor *g, struct probes *probes, double max_overhead_percent)
{
	guard_open(&g->guard, probes);
	g->budget = max_overhead_percent / 100;
}

void governor_close(struct governor *g)
{
	guard_close(&g->guard);
}

/* Over all processes together: the programs' statistics do not tell them apart. */
static double measure(struct governor *g, struct probes *probes, struct session *s, size_t n)
{
	double cpu = 0, slowdown;
	bool fast = true, probed = false;

	for (size_t i = 0; i < n; i++) {
		double used = s[i].ended == 0 ? guard_process_cpu(s[i].info.pid) : -1;

		if (used > 0)
			cpu += used;
		if (s[i].collector && !s[i].collector->throttle)
			fast = false;
		if (s[i].collector && !s[i].collector->no_probes)
			probed = true;
	}
	if (!probed)
		return -1;
	slowdown = guard_slowdown(&g->guard, probes, cpu, fast);
	for (size_t i = 0; i < n && slowdown >= 0; i++) {
		s[i].overhead = slowdown;
		s[i].overhead_core = g->guard.core_share;
	}
	return slowdown;
}

void governor_reset(struct governor *g)
{
	g->guard.looked = false;
}

static bool all_throttle(const struct session *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i].collector && !s[i].collector->throttle)
			return false;
	return true;
}

int governor_admit(struct governor *g, struct probes *probes, struct session *s, size_t n,
		   bool narrow)
{
	double slowdown;

	measure(g, probes, s, n);
	if (all_throttle(s, n))
		return 0;
	nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	slowdown = measure(g, probes, s, n);
	if (slowdown <= g->budget)
		return 0;
	if (narrow) {
		log_warn("probing process %d would make it %.0f %% slower, more than "
			 "--max-overhead allows (%.0f %%): only growth is traced",
			 s->info.pid, slowdown * 100, g->budget * 100);
		return -E2BIG;
	}
	return log_err_r(
		-E2BIG,
		"probing process %d would make it %.0f %% slower, more than "
		"--max-overhead allows (%.0f %%); use --collector=trampoline or growth, or "
		"raise --max-overhead",
		s->info.pid, slowdown * 100, g->budget * 100);
}

/* How much of what may be lost is lost: 1 = all of it. */
static double strain(const struct governor *g, double slowdown, double *calm)
{
	double of_budget = slowdown / g->budget, of_least = g->guard.core_share / LEAST_CORE;
	bool idle = of_least >= 0 && of_least < of_budget;

	*calm = idle ? CALM_IDLE : CALM;
	return idle ? of_least : of_budget;
}

static void adjust(struct governor *g, struct session *s, double slowdown)
{
	double calm, spent = strain(g, slowdown, &calm);
	u64 interval = s->interval;

	if (spent > 1) {
		double factor = 1.2 * spent;

		interval *= factor < RAISE_MAX ? factor : RAISE_MAX;
	} else if (spent < calm && interval > s->interval_asked) {
		interval = interval / 2 > s->interval_asked ? interval / 2 : s->interval_asked;
	}
	if (interval == s->interval || s->collector->throttle(s, interval))
		return;
	log_info("process %d: %.1f %% slower; one sample per %llu bytes from here on", s->info.pid,
		 slowdown * 100, (unsigned long long)interval);
	s->interval = interval;
}

void governor_tick(struct governor *g, struct probes *probes, struct session *s, size_t n)
{
	double slowdown = measure(g, probes, s, n);

	if (slowdown < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		if (!s[i].collector)
			continue;
		if (s[i].collector->throttle) {
			adjust(g, &s[i], slowdown);
		} else if (slowdown > g->budget) {
			log_warn(
				"process %d became %.0f %% slower, more than --max-overhead allows "
				"(%.0f %%): tracing it ends here",
				s[i].info.pid, slowdown * 100, g->budget * 100);
			session_stop(&s[i], probes, "tracing cost more than --max-overhead allows");
		}
	}
}
