// SPDX-License-Identifier: BSD-2-Clause
/*
 * Random programs against a simple model: threads allocate, resize and free
 * through layers that call one another as real allocators do, overlapping in
 * time, with addresses reused at once.  At R = 1 live set and totals must be
 * the model's; at larger R an exact thinning of them, and unbiased.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "alloc_model.h"

/* Every tracked block is one of the model's; how many there are. */
static __u64 check_live(void)
{
	__u64 found = 0;

	for (int i = 0; i < NSLOTS; i++) {
		const struct block *b = &m.slots[i];
		__u64 addr = slot_addr(i, b->domain);
		const struct pht_live *v;

		assert_int_not_equal(b->owner, BUSY);
		v = sim_live(b->domain == PHT_DOM_POOL ? addr & ~(SIM_POOL - 1ull) : addr);
		if (b->owner != USED || !v)
			continue;
		found++;
		assert_int_equal(v->size, b->size);
		assert_int_equal(v->domain, b->domain);
		assert_int_equal(sim_stack_line(v->stack_id), 2 * b->line);
	}
	assert_int_equal(shim_count(&live), found);
	return found;
}

static void check_counters(void)
{
	for (int i = 0; i < PHT_LOSS_NR; i++)
		assert_int_equal(sim_loss(i), 0);
	assert_int_equal(sim_stat(PHT_STAT_CALLS), m.calls);
	assert_int_equal(sim_stat(PHT_STAT_BYTES), m.bytes);
	assert_int_equal(sim_stat(PHT_STAT_POOLS), m.pools);
	for (int i = 0; i < NTHREADS; i++) {
		__u64 id = (__u64)SIM_TGID << 32 | sim.threads[i].tid;
		const struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);

		assert_int_equal(th ? th->depth : 0, 0);
	}
}

static void check_exact(void)
{
	__u64 used = 0;

	for (int i = 0; i < NSLOTS; i++)
		used += m.slots[i].owner == USED;
	assert_int_equal(check_live(), used);
	check_counters();
	for (int line = 0; line < NLINES; line++)
		for (__u32 dom = 0; dom < PHT_DOM_NR; dom++) {
			struct pht_site s = sim_site(2 * line, dom);

			assert_int_equal(s.alloc_bytes, m.alloc_bytes[line][dom]);
			assert_int_equal(s.alloc_blocks16, m.allocs[line][dom] << 16);
			assert_int_equal(s.freed_bytes, m.freed_bytes[line][dom]);
			assert_int_equal(s.freed_blocks16, m.frees[line][dom] << 16);
		}
}

static void test_exact(void **state)
{
	(void)state;
	for (__u64 seed = 1; seed <= 2000; seed++) {
		model_init(seed, seed & 1, 1, seed & 2);
		run(200);
		check_exact();
	}
}

/* At any interval: no block that is not there, none twice, every call counted once. */
static void test_thinned(void **state)
{
	(void)state;
	for (__u64 seed = 1; seed <= 1000; seed++) {
		struct pht_site all;
		__u64 tracked;

		model_init(seed, seed & 1, 1 + seed % 3 * 100 + (seed & 4) * 1000, seed & 2);
		run(200);
		tracked = check_live();
		check_counters();
		all = sim_site(-1, PHT_DOM_NR);
		assert_int_equal(all.samples - all.freed_samples, tracked);
		assert_int_equal(sim_stat(PHT_STAT_SAMPLES), all.samples);
	}
}

/*
 * The sum of the weights over many runs against the truth: each run's error
 * has mean zero, and its spread is measured from the runs themselves.
 */
static void check_unbiased(__u64 interval, bool pool_mode)
{
	double sum = 0, sum2 = 0, truth = 0, mean, err;
	int n = 600;

	for (int i = 0; i < n; i++) {
		double off = 0;

		model_init(7000 + i, i & 1, interval, pool_mode);
		run(150);
		for (int line = 0; line < NLINES; line++) {
			off -= m.truth[line];
			truth += m.truth[line];
		}
		off += sim_site(-1, PHT_DOM_NR).alloc_bytes;
		sum += off;
		sum2 += off * off;
	}
	mean = sum / n;
	err = sqrt((sum2 / n - mean * mean) / n);
	if (fabs(mean) > 3 * err || !(err > 0) || err * n > truth * 0.05)
		fail_msg("R %llu: off by %g +- %g a run, of %g", interval, mean, err, truth / n);
}

static void test_unbiased(void **state)
{
	(void)state;
	check_unbiased(300, false);
	check_unbiased(4096, false);
	check_unbiased(65536, false);
	check_unbiased(4096, true);
	check_unbiased(65536, true);
}

static int teardown(void **state)
{
	(void)state;
	shim_reset();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_exact, teardown),
		cmocka_unit_test_teardown(test_thinned, teardown),
		cmocka_unit_test_teardown(test_unbiased, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
