// SPDX-License-Identifier: BSD-2-Clause
/* What is loaded, and with which maps, on kernels that we are not running on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <bpf/libbpf.h>
#include <cmocka.h>
#include <linux/bpf.h>

#include "probe_maps.h"
#include "probe_style.h"
#include "pyheaptrace.skel.h"

static enum attach_style choose(const char *asked, struct host_features host)
{
	if (asked)
		setenv("PHT_ATTACH", asked, 1);
	else
		unsetenv("PHT_ATTACH");
	return probe_style_choose(&host);
}

static void test_best_there_is(void **state)
{
	assert_int_equal(choose(NULL, (struct host_features){0}), STYLE_PERF);
	assert_int_equal(choose(NULL, (struct host_features){.attach_cookie = true}), STYLE_COOKIE);
	assert_int_equal(
		choose(NULL, (struct host_features){.attach_cookie = true, .uprobe_multi = true}),
		STYLE_MULTI);
	assert_int_equal(
		choose(NULL, (struct host_features){.uprobe_multi = true, .uprobe_session = true}),
		STYLE_SESSION);
}

static void test_less_on_request(void **state)
{
	const struct host_features all = {
		.attach_cookie = true, .uprobe_multi = true, .uprobe_session = true};

	assert_int_equal(choose("multi", all), STYLE_MULTI);
	assert_int_equal(choose("cookie", all), STYLE_COOKIE);
	assert_int_equal(choose("perf", all), STYLE_PERF);
	assert_int_equal(choose("session", all), STYLE_SESSION);
	assert_int_equal(choose("nonsense", all), STYLE_SESSION);
	/* Never more than there is. */
	assert_int_equal(choose("multi", (struct host_features){.attach_cookie = true}),
			 STYLE_COOKIE);
}

static bool loaded(enum attach_style style, const char *name)
{
	struct pyheaptrace_bpf *skel = pyheaptrace_bpf__open();
	struct bpf_program *prog;
	bool yes;

	assert_non_null(skel);
	probe_style_configure(skel, style);
	prog = bpf_object__find_program_by_name(skel->obj, name);
	assert_non_null(prog);
	yes = bpf_program__autoload(prog);
	pyheaptrace_bpf__destroy(skel);
	return yes;
}

static void test_programs(void **state)
{
	static const char *const names[] = {
		[STYLE_SESSION] = "session_any",
		[STYLE_MULTI] = "cookie_enter",
		[STYLE_COOKIE] = "cookie_return",
		[STYLE_PERF] = "return_malloc",
	};
	const bool same[] = {[STYLE_MULTI] = true, [STYLE_COOKIE] = true, [STYLE_PERF] = false};

	for (enum attach_style style = STYLE_SESSION; style <= STYLE_PERF; style++)
		for (enum attach_style of = STYLE_SESSION; of <= STYLE_PERF; of++)
			assert_int_equal(loaded(style, names[of]),
					 of == style || (same[of] && same[style]));
	/* Whatever the style: the trampoline's, and what watches processes. */
	assert_true(loaded(STYLE_PERF, "tramp_alloc"));
	assert_true(loaded(STYLE_SESSION, "process_exec"));
}

static bool grows(const struct bpf_map *map)
{
	return bpf_map__map_flags(map) & BPF_F_NO_PREALLOC;
}

static void test_maps_that_grow(void **state)
{
	struct pyheaptrace_bpf *skel = pyheaptrace_bpf__open();

	assert_non_null(skel);
	probe_maps_size(skel, 512 * 1024, false, true);
	assert_true(grows(skel->maps.live) && grows(skel->maps.threads));
	assert_true(grows(skel->maps.stacks) && grows(skel->maps.sites));
	assert_int_equal(bpf_map__max_entries(skel->maps.live), 256 * 1024);
	probe_maps_size(skel, 1, false, true);
	assert_int_equal(bpf_map__max_entries(skel->maps.live), 4 * 1024 * 1024);
	pyheaptrace_bpf__destroy(skel);
}

/* Every hash map must be preallocated, or a kernel before 6.1 warns, and may panic on it. */
static void test_maps_that_cannot(void **state)
{
	struct pyheaptrace_bpf *skel = pyheaptrace_bpf__open();
	struct bpf_map *map;

	assert_non_null(skel);
	probe_maps_size(skel, 1, false, false);
	bpf_object__for_each_map(map, skel->obj)
	{
		if (grows(map))
			fail_msg("%s grows", bpf_map__name(map));
	}
	assert_int_equal(bpf_map__max_entries(skel->maps.live), 1024 * 1024);
	assert_int_equal(bpf_map__max_entries(skel->maps.threads), 4096);
	pyheaptrace_bpf__destroy(skel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_best_there_is),	 cmocka_unit_test(test_less_on_request),
		cmocka_unit_test(test_programs),	 cmocka_unit_test(test_maps_that_grow),
		cmocka_unit_test(test_maps_that_cannot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
