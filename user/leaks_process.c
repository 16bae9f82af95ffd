// SPDX-License-Identifier: BSD-2-Clause
#include "leaks_process.h"

#include <math.h>

#define MIN_LOOKS  8
#define MIN_GROWTH (2 << 20) /* of the resident set, to speak of growth */
#define MIN_SHARE  0.03	     /* and this share of it */
#define EACH_HALF  0.15	     /* of the growth is in each half: it goes on */
#define EXPLAINED  0.5	     /* by live memory at least: no fragmentation */

const char *leaks_process_key(enum leaks_process_kind kind)
{
	static const char *const keys[LEAKS_RSS_KINDS] = {
		[LEAKS_RSS_LEVEL] = "level",
		[LEAKS_RSS_LIVE] = "live",
		[LEAKS_RSS_FRAGMENTATION] = "fragmentation",
		[LEAKS_RSS_UNKNOWN] = "unknown",
	};

	return keys[kind];
}

static size_t look_at(const double *times, size_t n, double t)
{
	size_t i = 0;

	while (i + 1 < n && times[i] < t)
		i++;
	return i;
}

static bool grows(double first, double middle, double last)
{
	double growth = last - first;

	if (growth < MIN_GROWTH || growth < MIN_SHARE * first)
		return false;
	return middle - first >= EACH_HALF * growth && last - middle >= EACH_HALF * growth;
}

void leaks_judge_process(const double *times, const u64 *rss, const struct leaks_look *total,
			 size_t n, struct leaks_process *v)
{
	double span = n ? times[n - 1] : 0, half, seconds;
	size_t from = look_at(times, n, span / 4), middle = look_at(times, n, span * 5 / 8);

	*v = (struct leaks_process){.kind = LEAKS_RSS_UNKNOWN};
	if (n < MIN_LOOKS || middle <= from || n - 1 <= middle)
		return;
	/* The first quarter is left out: a process that has just been attached to settles. */
	v->since = times[from];
	seconds = span - v->since;
	v->rss_growth = (double)rss[n - 1] - (double)rss[from];
	v->rss_per_hour = v->rss_growth / seconds * 3600;
	/* As if no block were in both looks: never too narrow. */
	half = 1.96 * sqrt((double)total[n - 1].var + total[from].var);
	v->growth.value = (double)total[n - 1].live - total[from].live;
	v->growth.low = v->growth.value - half;
	v->growth.high = v->growth.value + half;
	if (!grows(rss[from], rss[middle], rss[n - 1]))
		v->kind = LEAKS_RSS_LEVEL;
	else if (v->growth.high < EXPLAINED * v->rss_growth)
		v->kind = LEAKS_RSS_FRAGMENTATION;
	else
		v->kind = LEAKS_RSS_LIVE;
}
