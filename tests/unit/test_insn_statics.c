// SPDX-License-Identifier: BSD-2-Clause
/* user/insn_statics.c on code of this very program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "insn_statics.h"

u64 st_first, st_second, st_far, st_never;
u32 st_count, st_array[8];

/* Never run, only read. */
void st_code(void);
void st_code_end(void);

#ifdef __x86_64__
__asm__(".text\n"
	".globl st_code, st_code_end\n"
	"st_code:\n"
	"	endbr64\n"
	"	mov st_first(%rip), %rax\n"
	"	cmp %rax, %rdi\n"
	"	je 2f\n"
	"	mov st_count(%rip), %ecx\n"
	"1:	mov st_first(%rip), %rax\n" /* again: not listed twice */
	"	lea st_array(%rip), %rdx\n"
	"	mov (%rdx,%rcx,4), %eax\n"
	"	mov %fs:0x2000, %rax\n" /* thread-local: no static */
	"	dec %ecx\n"
	"	jnz 1b\n"
	"	mov st_second(%rip), %rax\n"
	"	mov $0x40000, %esi\n"
	"	call st_never_called\n"
	"	ret\n"
	"st_never_called:\n"
	"	mov st_never(%rip), %rax\n"
	"	ret\n"
	"2:	mov st_far(%rip), %rax\n"
	"	jmp 1b\n"
	"st_code_end:\n");

static size_t fetch(void *ctx, u64 addr, u8 *buf, size_t len)
{
	u64 end = (u64)(uintptr_t)st_code_end;

	(void)ctx;
	if (addr < (u64)(uintptr_t)st_code || addr >= end)
		return 0;
	if (len > end - addr)
		len = end - addr;
	memcpy(buf, (const void *)(uintptr_t)addr, len);
	/* no more code behind it, but enough bytes to decode the last of it */
	return len;
}

static size_t none(void *ctx, u64 addr, u8 *buf, size_t len)
{
	(void)ctx;
	(void)addr;
	(void)buf;
	(void)len;
	return 0;
}

static size_t position(const struct insn_static *st, size_t n, const void *what, u32 size)
{
	for (size_t i = 0; i < n; i++) {
		if (st[i].addr != (u64)(uintptr_t)what)
			continue;
		assert_int_equal(st[i].size, size);
		return i;
	}
	return SIZE_MAX;
}

static void test_what_code_names(void **state)
{
	struct insn_static st[16];
	size_t n = insn_statics((u64)(uintptr_t)st_code, fetch, NULL, st, ARRAY_SIZE(st));
	size_t first = position(st, n, &st_first, 8), second = position(st, n, &st_second, 8);

	(void)state;
	assert_int_equal(first, 0);
	assert_true(position(st, n, &st_count, 4) < n);
	assert_true(position(st, n, st_array, 0) < second);
	assert_true(second < n);
	assert_true(position(st, n, (void *)0x40000, 0) < n);
	assert_int_equal(position(st, n, &st_never, 8), SIZE_MAX);
	assert_int_equal(position(st, n, (void *)0x2000, 8), SIZE_MAX);
	assert_int_equal(n, 6); /* with the far part's, once */
}

static void test_bounds(void **state)
{
	struct insn_static st[2];

	(void)state;
	assert_int_equal(insn_statics((u64)(uintptr_t)st_code, fetch, NULL, st, 2), 2);
	assert_int_equal(insn_statics((u64)(uintptr_t)st_code, fetch, NULL, st, 0), 0);
	assert_int_equal(insn_statics((u64)(uintptr_t)st_code, none, NULL, st, 2), 0);
	assert_int_equal(insn_statics(0, fetch, NULL, st, 2), 0);
}
#endif

int main(void)
{
#ifdef __x86_64__
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_code_names),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
#else
	print_message("x86-64 only\n");
	return 0;
#endif
}
