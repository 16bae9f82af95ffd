// SPDX-License-Identifier: BSD-2-Clause
/*
 * Uprobe programs must stay on their thread's own stack (bpf/ownstack.bpf.h): each of them has
 * a tail call, which is what makes the kernel do so.  Needs no privilege: nothing is loaded.
 */
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "pyheaptrace.skel.h"

static bool has_tail_call(const struct bpf_program *prog)
{
	const struct bpf_insn *insns = bpf_program__insns(prog);

	for (size_t i = 0; i < bpf_program__insn_cnt(prog); i++)
		if (insns[i].code == (BPF_JMP | BPF_CALL) && !insns[i].src_reg &&
		    insns[i].imm == BPF_FUNC_tail_call)
			return true;
	return false;
}

static void test_every_uprobe_program(void **state)
{
	struct pyheaptrace_bpf *skel = pyheaptrace_bpf__open();
	struct bpf_program *prog;
	int uprobes = 0, others = 0;

	assert_non_null(skel);
	bpf_object__for_each_program(prog, skel->obj)
	{
		bool uprobe = !strcmp(bpf_program__section_name(prog), "uprobe");

		if (has_tail_call(prog) != uprobe)
			fail_msg("%s: %s", bpf_program__name(prog),
				 uprobe ? "no tail call" : "a tail call for nothing");
		uprobes += uprobe;
		others += !uprobe;
	}
	/* Were they found at all? */
	assert_true(uprobes > 20);
	assert_true(others > 3);
	pyheaptrace_bpf__destroy(skel);
}

/* And it is never taken. */
static void test_switched_off(void **state)
{
	struct pyheaptrace_bpf *skel = pyheaptrace_bpf__open();

	assert_non_null(skel);
	assert_int_equal(skel->rodata->cfg_tail_call, 0);
	pyheaptrace_bpf__destroy(skel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_uprobe_program),
		cmocka_unit_test(test_switched_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
