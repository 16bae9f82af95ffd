// SPDX-License-Identifier: BSD-2-Clause
/* Probe sites and branch targets, on code of real allocators and on rubbish. */
#include <setjmp.h>
#include <stdarg.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "insn.h"
#include "insn_refs.h"

#ifdef __x86_64__

struct site_case {
	const char *name;
	const u8 *code;
	size_t len;
	int nargs;
	bool needs_return, null_skip_ok;
	u64 offset;
	enum probe_cost cost;
};

#define CODE(...) (const u8[]){__VA_ARGS__}, sizeof((const u8[]){__VA_ARGS__})

static const struct site_case site_cases[] = {
	{"glibc 2.36 malloc: push r12",
	 CODE(0x41, 0x54, 0x55, 0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x10, 0x80, 0x3d, 0x46,
	      0x1b, 0x14, 0x00, 0x00, 0x0f, 0x84, 0xf8, 0x01, 0x00, 0x00),
	 1, true, false, 0, PROBE_EMULATED},
	{"glibc 2.36 free: push behind the NULL test",
	 CODE(0x48, 0x85, 0xff, 0x0f, 0x84, 0xbf, 0x00, 0x00, 0x00, 0x55, 0x48, 0x8d, 0x77, 0xf0,
	      0x53, 0x48, 0x83, 0xec, 0x18),
	 1, false, true, 9, PROBE_EMULATED},
	{"the same when NULL matters: the je",
	 CODE(0x48, 0x85, 0xff, 0x0f, 0x84, 0xbf, 0x00, 0x00, 0x00, 0x55, 0x48, 0x8d, 0x77, 0xf0,
	      0x53, 0x48, 0x83, 0xec, 0x18),
	 1, false, false, 3, PROBE_EMULATED},
	{"glibc 2.36 aligned_alloc: je behind a cmp with memory",
	 CODE(0x80, 0x3d, 0x71, 0x0e, 0x14, 0x00, 0x00, 0x74, 0x07, 0xe9, 0x32, 0xf6, 0xff, 0xff,
	      0x66, 0x90, 0x48, 0x83, 0xec, 0x18),
	 2, true, false, 7, PROBE_EMULATED},
	{"glibc 2.36 posix_memalign: push behind a cmp",
	 CODE(0x80, 0x3d, 0x01, 0x02, 0x14, 0x00, 0x00, 0x41, 0x54, 0x49, 0x89, 0xd4, 0x55), 3,
	 true, false, 7, PROBE_EMULATED},
	{"glibc 2.36 mmap: jne, r10 is no argument",
	 CODE(0x41, 0x89, 0xca, 0x41, 0xf7, 0xc1, 0xff, 0x0f, 0x00, 0x00, 0x75, 0x14, 0xb8, 0x09,
	      0x00, 0x00, 0x00, 0x0f, 0x05),
	 6, true, false, 10, PROBE_EMULATED},
	{"glibc 2.36 munmap: a system call stops the search",
	 CODE(0xb8, 0x0b, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73,
	      0x01, 0xc3),
	 2, false, false, 0, PROBE_STEPPED},
	{"glibc 2.36 mremap: sub rsp moves the return address",
	 CODE(0x48, 0x83, 0xec, 0x58, 0x4c, 0x89, 0x44, 0x24, 0x40, 0x31, 0xc0, 0x83, 0xf9, 0x07,
	      0x77, 0x58),
	 5, true, false, 0, PROBE_STEPPED},
	{"the same without a return half: ja",
	 CODE(0x48, 0x83, 0xec, 0x58, 0x4c, 0x89, 0x44, 0x24, 0x40, 0x31, 0xc0, 0x83, 0xf9, 0x07,
	      0x77, 0x58),
	 5, false, false, 14, PROBE_EMULATED},
	{"glibc 2.36 reallocarray: mul writes rdx",
	 CODE(0x48, 0x89, 0xf0, 0x48, 0xf7, 0xe2, 0x48, 0x89, 0xc6, 0x70, 0x05, 0xe9, 0x40, 0xb8,
	      0xf8, 0xff),
	 3, true, false, 0, PROBE_STEPPED},
	{"glibc 2.43 malloc: js", CODE(0x48, 0x85, 0xff, 0x78, 0x71, 0x48, 0x8d, 0x47, 0x17), 1,
	 true, false, 3, PROBE_EMULATED},
	{"glibc 2.43 realloc: only the je keeps rdi and rsi",
	 CODE(0x49, 0x89, 0xf1, 0x48, 0x85, 0xff, 0x0f, 0x84, 0x44, 0x03, 0x00, 0x00, 0x41, 0x57),
	 2, true, false, 6, PROBE_EMULATED},
	{"glibc 2.43 free: nothing cheap soon behind the NULL test",
	 CODE(0x48, 0x85, 0xff, 0x0f, 0x84, 0xe7, 0x00, 0x00, 0x00, 0x40, 0xf6, 0xc7, 0x0f, 0x4c,
	      0x8b, 0x47, 0xf8, 0x49, 0x83, 0xe2, 0xf8, 0xc3),
	 1, false, true, 3, PROBE_EMULATED},
	{"CET malloc: push behind endbr64",
	 CODE(0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x57), 1, true, false, 4,
	 PROBE_EMULATED},
	{"CET free with NULL test and frame pointer",
	 CODE(0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x85, 0xff, 0x74, 0x20, 0x55, 0x48, 0x89, 0xe5), 1,
	 false, true, 9, PROBE_EMULATED},
	{"CET function with nothing cheap: endbr64 itself",
	 CODE(0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf7, 0x55), 1, true, false, 0, PROBE_STEPPED},
	{"musl 1.2.3 malloc: jmp", CODE(0xe9, 0x6b, 0x19, 0x00, 0x00, 0x66, 0x2e, 0x0f, 0x1f, 0x84),
	 1, true, false, 0, PROBE_EMULATED},
	{"musl 1.2.3 reallocarray: je",
	 CODE(0x48, 0x89, 0xd1, 0x48, 0x85, 0xd2, 0x74, 0x08, 0x48, 0x89, 0xf0, 0x48, 0xf7, 0xe1),
	 3, true, false, 6, PROBE_EMULATED},
	{"CPython 3.11 PyMem_RawMalloc, PGO: near js",
	 CODE(0x48, 0x85, 0xff, 0x0f, 0x88, 0x32, 0xa2, 0xf2, 0xff, 0x48, 0x8b, 0x05), 1, true,
	 false, 3, PROBE_EMULATED},
	{"CPython 3.11 PyObject_Malloc: rsi is free to change",
	 CODE(0x48, 0x89, 0xfe, 0x48, 0x85, 0xff, 0x78, 0x10, 0x48, 0x8b, 0x3d), 1, true, false, 6,
	 PROBE_EMULATED},
	{"jcxz and loop are not emulated", CODE(0x89, 0xc0, 0xe3, 0x02, 0x55, 0xc3, 0xc3), 1, true,
	 false, 0, PROBE_STEPPED},
	{"push imm is not emulated", CODE(0x6a, 0x01, 0x58, 0xc3), 1, true, false, 0,
	 PROBE_STEPPED},
	{"patchable entry: behind the nop5",
	 CODE(0x0f, 0x1f, 0x44, 0x00, 0x00, 0x48, 0x89, 0xf8, 0xc3), 1, true, false, 5,
	 PROBE_STEPPED},
	{"a partial write to an argument counts: mov dil, 0", CODE(0x40, 0xb7, 0x00, 0x55, 0xc3), 1,
	 true, false, 0, PROBE_STEPPED},
	{"loop back to the push",
	 CODE(0x48, 0x89, 0xf8, 0x55, 0x5d, 0x48, 0xff, 0xc8, 0x75, 0xf9, 0xc3), 1, true, false, 0,
	 PROBE_STEPPED},
	{"loop back to before the push",
	 CODE(0x48, 0x89, 0xf8, 0x89, 0xc8, 0x55, 0x5d, 0xff, 0xc8, 0x75, 0xf8, 0xc3), 1, true,
	 false, 0, PROBE_STEPPED},
	{"NULL branch that lands on the push", CODE(0x48, 0x85, 0xff, 0x74, 0x00, 0x55, 0xc3), 1,
	 false, true, 3, PROBE_EMULATED},
	{"the NULL test must be of rdi", CODE(0x48, 0x85, 0xf6, 0x74, 0x05, 0x55, 0xc3), 1, false,
	 true, 3, PROBE_EMULATED},
	{"cut off within the first instruction", CODE(0x48, 0x8d), 1, true, false, 0,
	 PROBE_STEPPED},
};

static void test_sites(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(site_cases); i++) {
		const struct site_case *c = &site_cases[i];
		const struct prologue_query q = {
			.code = c->code,
			.len = c->len,
			.vaddr = 0x98930,
			.nargs = c->nargs,
			.needs_return = c->needs_return,
			.null_skip_ok = c->null_skip_ok,
		};
		struct probe_site site = insn_probe_site(&q);

		if (site.offset != c->offset || site.cost != c->cost)
			fail_msg("%s: got +%lu cost %d", c->name, (unsigned long)site.offset,
				 site.cost);
	}
}

/* The known size hides what follows: a jump in the next function is not ours. */
static void test_size_limits_view(void **state)
{
	/* mov rax,rdi; push rbp; ret | jmp to the push */
	static const u8 code[] = {0x48, 0x89, 0xf8, 0x55, 0xc3, 0xeb, 0xfc};
	struct prologue_query q = {
		.code = code,
		.len = sizeof(code),
		.vaddr = 0x1000,
		.nargs = 1,
		.needs_return = true,
	};

	assert_int_equal(insn_probe_site(&q).offset, 0);
	q.size = 5;
	assert_int_equal(insn_probe_site(&q).offset, 3);
}

/* Invariants that hold for any bytes: the site is inside, on an opcode of its cost. */
static void check_site(const struct prologue_query *q)
{
	struct probe_site site = insn_probe_site(q);
	u8 op;

	if (!site.offset)
		return;
	assert_true(site.offset < q->len);
	op = q->code[site.offset];
	if (site.cost == PROBE_EMULATED)
		assert_true((op >= 0x50 && op <= 0x57) || op == 0x41 || op == 0x90 || op == 0xeb ||
			    op == 0xe9 || op == 0xe8 || (op >= 0x70 && op <= 0x7f) || op == 0x0f);
}

static void test_hostile(void **state)
{
	u64 targets[8], seed = 42;
	u8 code[96];

	for (int round = 0; round < 20000; round++) {
		struct prologue_query q = {.code = code, .nargs = round % 8};

		for (size_t i = 0; i < sizeof(code); i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			code[i] = (u8)(seed >> 56);
		}
		q.len = (size_t)(seed >> 20) % (sizeof(code) + 1);
		q.size = (seed >> 30) & 1 ? seed >> 33 : 0;
		q.vaddr = (seed >> 31) & 1 ? UINT64_MAX - 16 : 0x1000;
		q.needs_return = (seed >> 32) & 1;
		q.null_skip_ok = (seed >> 34) & 1;
		check_site(&q);
		assert_true(insn_branch_targets(code, q.len, q.vaddr, targets, 8) <= 8);
	}
}

struct image {
	const u8 *code;
	size_t len;
	u64 addr;
};

static size_t fetch_image(void *ctx, u64 addr, u8 *buf, size_t len)
{
	const struct image *im = ctx;
	u64 at = addr - im->addr;

	if (at >= im->len)
		return 0;
	if (len > im->len - at)
		len = im->len - at;
	memcpy(buf, im->code + at, len);
	return len;
}

static bool peek_none(void *ctx, u64 addr, u64 *value)
{
	*value = addr ^ (u64)(uintptr_t)ctx;
	return addr & 1;
}

/* Any bytes: bounded results, no bad access (the sanitizers watch). */
static void test_hostile_refs(void **state)
{
	u8 code[5000];
	struct insn_ref refs[16];
	struct insn_facts facts;
	u64 seed = 7;

	for (int round = 0; round < 400; round++) {
		struct image im = {.code = code, .addr = round & 1 ? 0x1000 : UINT64_MAX - 100};

		for (size_t i = 0; i < sizeof(code); i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			code[i] = (u8)(seed >> 56);
		}
		im.len = (seed >> 20) % sizeof(code);
		assert_true(insn_refs(code, im.len, im.addr, peek_none, NULL, refs, 16) <= 16);
		if (insn_facts(im.addr, fetch_image, &im, &facts))
			continue;
		assert_true(facts.ncalls <= INSN_FACTS_CALLS && facts.njumps <= INSN_FACTS_CALLS);
	}
}

static void test_refs(void **state)
{
	/* mov rax,[rip+0x10]; mov rdx,[rax+8]; cmp rdx,0x4321; jmp [rax+0x10]; mov [rip],rdx */
	static const u8 code[] = {0x48, 0x8b, 0x05, 0x10, 0x00, 0x00, 0x00, 0x48, 0x8b, 0x50,
				  0x08, 0x48, 0x81, 0xfa, 0x21, 0x43, 0x00, 0x00, 0xff, 0x60,
				  0x10, 0x48, 0x89, 0x15, 0x00, 0x00, 0x00, 0x00};
	struct insn_ref r[8];

	/* the slot at 0x401017 is odd, so it can be read: it holds its own address */
	assert_int_equal(insn_refs(code, sizeof(code), 0x401000, peek_none, NULL, r, 8), 4);
	assert_int_equal(r[0].kind, INSN_REF_LOAD);
	assert_int_equal(r[0].value, 0x401017);
	assert_int_equal(r[1].value, 0x40101f);
	assert_int_equal(r[2].kind, INSN_REF_CMP);
	assert_int_equal(r[2].value, 0x4321);
	assert_int_equal(r[3].kind, INSN_REF_LOAD);
	assert_int_equal(r[3].value, 0x401027);
}

static void test_facts(void **state)
{
	/* cmp rsi,0x1ff; ja +8; call far; ret; (no code) | call far2; jmp far3 */
	static const u8 code[] = {0x48, 0x81, 0xfe, 0xff, 0x01, 0x00, 0x00, 0x77, 0x07,
				  0xe8, 0x00, 0x10, 0x00, 0x00, 0xc3, 0x06, 0xe8, 0x00,
				  0x20, 0x00, 0x00, 0xe9, 0x00, 0x30, 0x00, 0x00};
	struct image im = {.code = code, .len = sizeof(code), .addr = 0x1000};
	struct insn_facts f;

	assert_int_equal(insn_facts(0x1000, fetch_image, &im, &f), 0);
	assert_true(f.small_limit);
	assert_false(f.mi_limit);
	assert_int_equal(f.ncalls, 2);
	assert_int_equal(f.njumps, 1);
	assert_int_equal(f.jumps[0], 0x401a);
	assert_int_equal(insn_facts(0x5000, fetch_image, &im, &f), -EFAULT);
}

static struct insn_facts facts_of(const u8 *code, size_t len)
{
	struct image im = {.code = code, .len = len, .addr = 0x1000};
	struct insn_facts f;

	assert_int_equal(insn_facts(0x1000, fetch_image, &im, &f), 0);
	return f;
}

/* As clang compiles pymalloc's question. */
static void test_limit_of_clang(void **state)
{
	/* lea rax,[rsi-0x201]; cmp rax,-0x200; ret */
	u8 lea[] = {0x48, 0x8d, 0x86, 0xff, 0xfd, 0xff, 0xff,
		    0x48, 0x3d, 0x00, 0xfe, 0xff, 0xff, 0xc3};
	/* add rsi,-0x201; cmp rsi,-0x200; ret */
	static const u8 add[] = {0x48, 0x81, 0xc6, 0xff, 0xfd, 0xff, 0xff, 0x48,
				 0x81, 0xfe, 0x00, 0xfe, 0xff, 0xff, 0xc3};
	/* lea rax,[rsi-0x401]; cmp rax,-0x400: a limit, but another */
	static const u8 other[] = {0x48, 0x8d, 0x86, 0xff, 0xfb, 0xff, 0xff,
				   0x48, 0x3d, 0x00, 0xfc, 0xff, 0xff, 0xc3};

	assert_true(facts_of(lea, sizeof(lea)).small_limit);
	assert_true(facts_of(add, sizeof(add)).small_limit);
	assert_false(facts_of(other, sizeof(other)).small_limit);
	/* the comparison alone tells nothing */
	assert_false(facts_of(lea + 7, sizeof(lea) - 7).small_limit);
	lea[3] = 0xfe; /* nor with something else taken off */
	assert_false(facts_of(lea, sizeof(lea)).small_limit);
}

static void test_branch_targets(void **state)
{
	/* call +0x100; jmp inside; jne far; jmp *rax; call again; a byte that is no code */
	static const u8 code[] = {0xe8, 0x00, 0x01, 0x00, 0x00, 0xeb, 0x01, 0x06, 0x0f, 0x85, 0x00,
				  0x10, 0x00, 0x00, 0xff, 0xe0, 0xe8, 0xf0, 0x00, 0x00, 0x00};
	u64 t[4];

	assert_int_equal(insn_branch_targets(code, sizeof(code), 0x4000, t, 4), 2);
	assert_int_equal(t[0], 0x4105);
	assert_int_equal(t[1], 0x500e);
	assert_int_equal(insn_branch_targets(code, sizeof(code), 0x4000, t, 1), 1);
	assert_int_equal(insn_branch_targets(code, sizeof(code), 0x4000, t, 0), 0);
	assert_int_equal(insn_branch_targets(code, 0, 0x4000, t, 4), 0);
}

#endif

#ifdef __aarch64__
static void test_aarch64(void **state)
{
	/* bl +0x100; b back to the start; nop; b -4 */
	static const u32 code[] = {0x94000040, 0x17ffffff, 0xd503201f, 0x17fffffc};
	const struct prologue_query q = {.code = (const u8 *)code, .len = sizeof(code), .nargs = 1};
	u64 t[4];

	assert_int_equal(insn_branch_targets((const u8 *)code, sizeof(code), 0x4000, t, 4), 2);
	assert_int_equal(t[0], 0x4100);
	assert_int_equal(t[1], 0x3ffc);
	assert_int_equal(insn_probe_site(&q).offset, 0);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef __x86_64__
		cmocka_unit_test(test_sites),	     cmocka_unit_test(test_size_limits_view),
		cmocka_unit_test(test_hostile),	     cmocka_unit_test(test_branch_targets),
		cmocka_unit_test(test_refs),	     cmocka_unit_test(test_facts),
		cmocka_unit_test(test_hostile_refs), cmocka_unit_test(test_limit_of_clang),
#endif
#ifdef __aarch64__
		cmocka_unit_test(test_aarch64),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
