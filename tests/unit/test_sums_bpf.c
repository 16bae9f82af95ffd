// SPDX-License-Identifier: BSD-2-Clause
/* bpf/sums.bpf.h: what was live at the peak, how long blocks lived, which were temporary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>

#include <cmocka.h>

#include "alloc_sim.h"
#include "estimate.h"

#define T (&sim.threads[0])

#define MS     1000000ull
#define LINES  12
#define BLOCKS 64

static int setup(void **state)
{
	(void)state;
	sim_init(true, 1, 100);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	shim_reset();
	return 0;
}

static const struct pht_peak *peak_now(void)
{
	__u32 tgid = SIM_TGID;

	return bpf_map_lookup_elem(&peaks, &tgid);
}

/* What a site held at the peak, as user space finds out. */
static const struct pht_sums *at_peak(const struct pht_site *s)
{
	return s->peak_epoch >= peak_now()->epoch ? &s->peak : &s->live;
}

/* The same of a line. */
static struct pht_sums line_at_peak(__s32 line)
{
	struct pht_sums sum = {0};

	shim_each(&sites, e)
	{
		const struct pht_site_key *key = (const void *)e->key;
		const struct pht_sums *s = at_peak(e->value);

		if (line >= 0 && sim_stack_line(key->stack_id) != line)
			continue;
		sum.bytes += s->bytes;
		sum.blocks16 += s->blocks16;
		sum.samples += s->samples;
		sum.var += s->var;
	}
	return sum;
}

static struct pht_life all_lives(void)
{
	struct pht_life sum = {0};

	shim_each(&lives, e)
	{
		const struct pht_life *life = e->value;

		for (int i = 0; i < PHT_LIFE_BUCKETS; i++) {
			sum.bytes[i] += life->bytes[i];
			sum.blocks16[i] += life->blocks16[i];
			sum.samples[i] += life->samples[i];
		}
	}
	return sum;
}

static struct pht_sums temporary_now(void)
{
	struct pht_sums sum = {0};

	shim_each(&sites, e)
	{
		const struct pht_site *s = e->value;

		sum.bytes += s->temporary.bytes;
		sum.blocks16 += s->temporary.blocks16;
		sum.samples += s->temporary.samples;
		sum.var += s->temporary.var;
	}
	return sum;
}

/* ---- the peak, against a program that keeps its own books */

static struct model {
	__u64 size[BLOCKS];
	int line[BLOCKS];
	__u64 live[LINES], blocks[LINES], total;
	__u64 peak[LINES], peak_blocks[LINES], most;
} model;

static __u64 address(int i)
{
	return 0x100000 + 0x10000ull * i;
}

static void model_grow(int i, int line, __u64 size)
{
	model.size[i] = size;
	model.line[i] = line;
	model.live[line] += size;
	model.blocks[line]++;
	model.total += size;
	if (model.total <= model.most)
		return;
	model.most = model.total;
	memcpy(model.peak, model.live, sizeof(model.peak));
	memcpy(model.peak_blocks, model.blocks, sizeof(model.blocks));
}

static void model_shrink(int i)
{
	model.live[model.line[i]] -= model.size[i];
	model.blocks[model.line[i]]--;
	model.total -= model.size[i];
	model.size[i] = 0;
}

static void step(__u64 *rng)
{
	__u64 r = pht_rng_next(rng);
	int i = r % BLOCKS, line = (r >> 8) % LINES;
	__u64 size = 1 + (r >> 16) % 60000;

	sim_line(T, 2 * line);
	if (!model.size[i]) {
		sim_run(T, PHT_FN_MALLOC, size, 0, 0, address(i));
		model_grow(i, line, size);
	} else if (r >> 60 == 0) {
		/* Fails: as if nothing had happened. */
		sim_run(T, PHT_FN_REALLOC, address(i), 1ull << 60, 0, 0);
	} else if (r >> 60 < 4) {
		sim_run(T, PHT_FN_REALLOC, address(i), size, 0, address(i));
		model_shrink(i);
		model_grow(i, line, size);
	} else {
		sim_run(T, PHT_FN_FREE, address(i), 0, 0, 0);
		model_shrink(i);
	}
}

static void check_model(void)
{
	const struct pht_peak *peak = peak_now();

	assert_int_equal(peak->live, model.total);
	assert_int_equal(peak->max, model.most);
	for (int line = 0; line < LINES; line++) {
		struct pht_sums s = line_at_peak(2 * line);

		assert_int_equal(s.bytes, model.peak[line]);
		assert_int_equal(s.blocks16, model.peak_blocks[line] << 16);
		assert_int_equal(s.samples, model.peak_blocks[line]);
		assert_int_equal(s.var, 0);
	}
}

static void peak_is_what_was_live_then(void **state)
{
	__u64 rng = 7;

	(void)state;
	memset(&model, 0, sizeof(model));
	for (int i = 0; i < 20000; i++) {
		step(&rng);
		check_model();
	}
	/* Not a walk that rose to the end: the peak has been left, and most lines changed. */
	assert_true(model.total < model.most);
}

static void peak_has_its_time_and_allocations(void **state)
{
	const struct pht_site *s = NULL;

	(void)state;
	sim_run(T, PHT_FN_MALLOC, 1000, 0, 0, 0x10000);
	sim_run(T, PHT_FN_MALLOC, 2000, 0, 0, 0x20000);
	shim.now += 5 * MS;
	sim_run(T, PHT_FN_FREE, 0x20000, 0, 0, 0);
	sim_run(T, PHT_FN_MALLOC, 1999, 0, 0, 0x30000);
	assert_int_equal(peak_now()->max, 3000);
	assert_true(peak_now()->time_ns < 5 * MS);
	shim_each(&sites, e) s = e->value;
	assert_int_equal(s->peak.bytes, 3000);
	assert_int_equal(s->peak_alloc_bytes, 3000);
	assert_int_equal(s->peak_alloc_blocks16, 2 << 16);
	assert_int_equal(s->peak_samples, 2);
	assert_int_equal(s->alloc_bytes, 4999);
	/* One byte more than ever. */
	sim_run(T, PHT_FN_MALLOC, 2, 0, 0, 0x40000);
	assert_int_equal(peak_now()->max, 3001);
	assert_true(peak_now()->time_ns > 5 * MS);
	assert_int_equal(at_peak(s)->bytes, 3001);
	assert_int_equal(peak_now()->pools, 0);
}

static void mappings_are_live_with_what_is_left(void **state)
{
	(void)state;
	sim_call4(T, PHT_FN_MMAP, 0, 40960, 3, 0x22);
	sim_ret(T, 0x1000000);
	sim_run(T, PHT_FN_MUNMAP, 0x1000000, 4096, 0, 0);
	assert_int_equal(peak_now()->live, 36864);
	assert_int_equal(peak_now()->max, 40960);
	assert_int_equal(line_at_peak(-1).bytes, 40960);
	sim_run(T, PHT_FN_MUNMAP, 0x1001000, 36864, 0, 0);
	assert_int_equal(peak_now()->live, 0);
	assert_int_equal(line_at_peak(-1).bytes, 40960);
}

static void pools_are_told(void **state)
{
	(void)state;
	sim.proc.always_return = 1u << PHT_FN_PY_POOL;
	sim_proc_store();
	sim_run(T, PHT_FN_PY_POOL, 1, 0, 0, 0x40030);
	sim_run(T, PHT_FN_PY_POOL, 2, 0, 0, 0x40030);
	assert_int_equal(peak_now()->pools, 2);
	/* Nobody saw when the first one ended. */
	assert_int_equal(shim_count(&lives), 0);
	assert_int_equal(temporary_now().samples, 0);
}

/* ---- lifetimes */

static void buckets_have_their_bounds(void **state)
{
	(void)state;
	assert_int_equal(life_bucket(0), 0);
	assert_int_equal(life_bucket(~0ull), PHT_LIFE_BUCKETS - 1);
	for (__u32 i = 0; i < PHT_LIFE_BUCKETS; i++) {
		__u64 from = (__u64)nearbyint(life_from(i) * 1e9);

		assert_int_equal(life_bucket(from), i);
		if (i)
			assert_int_equal(life_bucket(from - 1), i - 1);
	}
	assert_true(isinf(life_to(PHT_LIFE_BUCKETS - 1)));
	assert_true(life_to(3) == life_from(4));
}

/* Allocate, let some time go by, free. */
static void live_for(__u64 ns, __u64 size)
{
	sim_run(T, PHT_FN_MALLOC, size, 0, 0, 0x10000);
	/* The look at the clock at the free is 1 ns itself. */
	shim.now += ns - 1;
	sim_run(T, PHT_FN_FREE, 0x10000, 0, 0, 0);
}

static void lifetimes_are_counted(void **state)
{
	struct pht_life life;

	(void)state;
	assert_int_equal(cfg_temporary_ns, 10 * MS);
	live_for(10000, 100);
	live_for(16383, 100);
	live_for(16384, 1000);
	live_for(10 * MS - 100, 5000);
	live_for(10 * MS + 100, 7000);
	live_for(20000 * MS, 9);
	life = all_lives();
	assert_int_equal(life.bytes[0], 200);
	assert_int_equal(life.blocks16[0], 2 << 16);
	assert_int_equal(life.samples[0], 2);
	assert_int_equal(life.bytes[1], 1000);
	assert_int_equal(life.bytes[life_bucket(10 * MS)], 12000);
	assert_int_equal(life.bytes[life_bucket(20000 * MS)], 9);
	assert_int_equal(temporary_now().bytes, 6200);
	assert_int_equal(temporary_now().samples, 4);
	assert_int_equal(temporary_now().blocks16, 4 << 16);
	assert_int_equal(sim_site(-1, PHT_DOM_NR).freed_bytes, 13209);
}

/* A realloc ends a block, unless it fails. */
static void reallocs_end_lives(void **state)
{
	(void)state;
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10000);
	shim.now += 100 * MS;
	sim_run(T, PHT_FN_REALLOC, 0x10000, 1ull << 60, 0, 0);
	assert_int_equal(shim_count(&lives), 0);
	assert_int_equal(peak_now()->live, 100);
	sim_run(T, PHT_FN_REALLOC, 0x10000, 300, 0, 0x20000);
	assert_int_equal(all_lives().bytes[life_bucket(100 * MS)], 100);
	assert_int_equal(temporary_now().samples, 0);
	assert_int_equal(peak_now()->live, 300);
	sim_run(T, PHT_FN_FREE, 0x20000, 0, 0, 0);
	assert_int_equal(temporary_now().bytes, 300);
	assert_int_equal(peak_now()->live, 0);
}

/* An address handed out again says that the block before is gone, not when it went. */
static void unseen_ends_have_no_age(void **state)
{
	(void)state;
	sim_run(T, PHT_FN_MALLOC, 100, 0, 0, 0x10000);
	sim_run(T, PHT_FN_MALLOC, 200, 0, 0, 0x10000);
	assert_int_equal(shim_count(&lives), 0);
	assert_int_equal(sim_site(-1, PHT_DOM_NR).freed_bytes, 100);
	assert_int_equal(peak_now()->live, 200);
	assert_int_equal(peak_now()->max, 200);
}

static void full_table_is_counted(void **state)
{
	(void)state;
	shim_limit(&lives, 1);
	sim_line(T, 2);
	live_for(100, 10);
	sim_line(T, 4);
	live_for(100, 20);
	assert_int_equal(sim_loss(PHT_LOSS_life_map_full), 1);
	assert_int_equal(all_lives().bytes[0], 10);
	assert_int_equal(sim_site(-1, PHT_DOM_NR).freed_bytes, 30);
	assert_int_equal(temporary_now().bytes, 30);
}

/* ---- sampled */

#define RUNS 3000

static struct estimate interval_of(const struct pht_sums *s)
{
	struct estimator e = estimate_of_sums((double)s->bytes, s->blocks16 / 65536.0,
					      s->var * 65536.0, s->samples);

	return estimate_interval(&e);
}

/* Blocks of two sizes come, stay, and go in two ages; more small ones than large ones. */
static void run_program(__u64 *rng, double *peak, double *temporary)
{
	__u64 sizes[400];

	*peak = *temporary = 0;
	for (int i = 0; i < 400; i++) {
		sizes[i] = i % 10 ? 200 + pht_rng_next(rng) % 800 : 9000;
		sim_run(T, PHT_FN_MALLOC, sizes[i], 0, 0, 0x100000 + 0x10000ull * i);
		*peak += (double)sizes[i];
	}
	for (int i = 0; i < 400; i += 2) {
		sim_run(T, PHT_FN_FREE, 0x100000 + 0x10000ull * i, 0, 0, 0);
		*temporary += (double)sizes[i];
	}
	shim.now += 50 * MS;
	for (int i = 1; i < 400; i += 2)
		sim_run(T, PHT_FN_FREE, 0x100000 + 0x10000ull * i, 0, 0, 0);
}

static bool inside(const struct estimate *e, double truth)
{
	return e->low <= truth && truth <= e->high;
}

static void estimates_are_unbiased_and_intervals_hold(void **state)
{
	double peak_error = 0, temporary_error = 0;
	int peak_hits = 0, temporary_hits = 0;
	__u64 rng = 99;

	(void)state;
	for (int run = 0; run < RUNS; run++) {
		struct estimate p, t;
		struct pht_sums sums;
		double peak, temporary;

		sim_init(true, 4096, 1000 + 7 * run);
		run_program(&rng, &peak, &temporary);
		assert_int_equal((__s64)peak_now()->live, 0);
		sums = line_at_peak(-1);
		assert_int_equal(sums.bytes, peak_now()->max);
		p = interval_of(&sums);
		sums = temporary_now();
		t = interval_of(&sums);
		peak_error += p.value / peak - 1;
		temporary_error += t.value / temporary - 1;
		peak_hits += inside(&p, peak);
		temporary_hits += inside(&t, temporary);
	}
	print_message("peak: mean error %+.2f %%, %d of %d inside; temporary: %+.2f %%, %d\n",
		      100 * peak_error / RUNS, peak_hits, RUNS, 100 * temporary_error / RUNS,
		      temporary_hits);
	/* Four standard errors, of means and of shares. */
	assert_true(fabs(peak_error / RUNS) < 0.005);
	assert_true(fabs(temporary_error / RUNS) < 0.005);
	assert_true(peak_hits >= RUNS * 934 / 1000);
	assert_true(temporary_hits >= RUNS * 934 / 1000);
}

/* The variance as added up in whole numbers is that of the formula. */
static void variance_in_fixed_point(void **state)
{
	static const __u64 intervals[] = {2, 100, 4096, 1 << 19, 1 << 30, 1ull << 32};

	(void)state;
	sampling_tables_fill(log_table, weight_table);
	for (size_t i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++)
		for (__u64 size = 1; size < intervals[i] * 40; size = size * 3 + 1) {
			__u64 w = pht_weight_bytes(size, intervals[i], weight_table);
			double got = 65536.0 * (double)pht_weight_var(size, intervals[i], w);
			struct estimator e = {0};

			estimate_add(&e, size, intervals[i]);
			/* Weights are whole bytes and good to 1e-5. */
			assert_true(fabs(got - e.var) <=
				    65536 + 2e-3 * e.var + ((double)w * 2e-5 + 1) * (double)w);
		}
	assert_int_equal(pht_weight_var(100, 1, 100), 0);
	assert_int_equal(pht_weight_var(100, 1ull << 40, 1ull << 40), 1ull << 48);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(peak_is_what_was_live_then),
		TEST(peak_has_its_time_and_allocations),
		TEST(mappings_are_live_with_what_is_left),
		TEST(pools_are_told),
		TEST(buckets_have_their_bounds),
		TEST(lifetimes_are_counted),
		TEST(reallocs_end_lives),
		TEST(unseen_ends_have_no_age),
		TEST(full_table_is_counted),
		TEST(estimates_are_unbiased_and_intervals_hold),
		TEST(variance_in_fixed_point),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
