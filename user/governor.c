// SPDX-License-Identifier: BSD-2-Clause
#include "governor.h"

#include <errno.h>
#include <time.h>

#include "log.h"

#define LOOK_NS 150000000L
/* R is raised by at most this factor at once, and lowered by half. */
#define RAISE_MAX 16.0

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
	for (size_t i = 0; i < n && slowdown >= 0; i++)
		s[i].overhead = slowdown;
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

static void adjust(struct governor *g, struct session *s, double slowdown)
{
	u64 interval = s->interval;

	if (slowdown > g->budget) {
		double factor = 1.2 * slowdown / g->budget;

		interval *= factor < RAISE_MAX ? factor : RAISE_MAX;
	} else if (slowdown < g->budget / 4 && interval > s->interval_asked) {
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
