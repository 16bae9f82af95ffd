/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The code that runs inside a target, as two position-independent images:
 * one keeps its per-thread words in glibc's thread block, one in slots
 * hashed by thread pointer.  Layout and registers at the sites: pht_tramp.h.
 *
 * Only rax, rcx, rdx, rsi, rdi and r8-r11 are used, as any C function may.
 * The images are data to the tracer: they are copied, never run in place.
 *
 * The rules that keep the target right, whatever happens to the tracer:
 *  - an entry always ends in the original function, called with its own
 *    arguments, and returns what that returned;
 *  - sites are nops followed by ret;
 *  - nothing here waits, takes a lock or loops without a constant bound;
 *  - data that read as zeros (in a child of fork) mean "disabled".
 */
#ifndef IMG
#include "pht_tramp.h"

#ifdef __x86_64__
#define CAT_(a, b) a##b
#define CAT(a, b)  CAT_(a, b)
#define SYM(x)	   CAT(IMG, CAT(_, x))

#define IMG    pht_tramp_tcb
#define HASHED 0
#include "tramp_page.S"
#undef IMG
#undef HASHED

#define IMG    pht_tramp_slot
#define HASHED 1
#include "tramp_page.S"
#endif /* __x86_64__ */

	.section .note.GNU-stack,"",@progbits

#else /* IMG */

#define BASE	  SYM(base)
#define HDR(off)  (BASE + (off))(%rip)
#define CTL(off)  (BASE + PHT_TRAMP_CTL + (off))(%rip)
#define ORIG(fn)  (BASE + PHT_TRAMP_ORIG + 8 * (fn))(%rip)

/* SLOT: r9 = this thread's words, where they are not in the thread block; rcx is lost. */
#undef THR
#undef SLOT
#if HASHED
#define THR(off) (off)(%r9)
#define SLOT                                                                            \
	mov	%fs:0, %r9;                                                             \
	shr	$8, %r9;                                                                \
	and	$0x3ff0, %r9d;                                                          \
	lea	(BASE + PHT_TRAMP_SLOTS)(%rip), %rcx;                                   \
	add	%rcx, %r9
#else
#define THR(off) %fs:(PHT_TCB_OFFSET + (off))
#define SLOT
#endif

#undef ARGS
#undef FIX
#undef JUMP
#undef SMALL
#undef ANY
#undef FREE
#undef REALLOC
#undef ENTRY

/* What the tails expect: r10 = bytes (or address), r11 = original, r8d = who was called. */
#define ARGS(size, fn, dom)                                                             \
	mov	size, %r10;                                                             \
	mov	ORIG(fn), %r11;                                                         \
	mov	$(dom), %r8d

/* An operand of the instruction before, filled in when the image is built. */
#define FIX(size, what)                                                                 \
	.pushsection CAT(.rodata.fix., IMG),"a",@progbits;                              \
	.long	9f - (size) - BASE, what;                                               \
	.popsection;                                                                    \
9:

/* On to the original, without a load: rax is lost. */
#define JUMP(fn)                                                                        \
	movabs	$0x1111111111111111, %rax;                                              \
	FIX(8, fn)                                                                      \
	jmp	*%rax

/*
 * mem and obj: what pymalloc serves is counted here, the rest further down.
 * That rest includes 0 bytes, which cannot hold a mark unless all is taken.
 */
#define SMALL(size, fn, dom)                                                              \
	cmp	$0x11111111, size;                                                      \
	FIX(4, PHT_FIX_SMALL)                                                           \
	ja	2f;                                                                     \
	SLOT;                                                                           \
	sub	size, THR(PHT_THR_COUNT);                                               \
	jle	1f;                                                                     \
	JUMP(fn);                                                                       \
1:	ARGS(size, fn, dom);                                                            \
	test	%r10, %r10;                                                             \
	jnz	SYM(small);                                                             \
	jmp	SYM(big);                                                               \
2:	ARGS(size, fn, dom);                                                            \
	jmp	SYM(big)

/* raw and libc: all that does not come from inside a call that is counted. */
#define ANY(size, fn, dom)                                                              \
	SLOT;                                                                           \
	cmpl	$0, THR(PHT_THR_NEST);                                                  \
	jne	1f;                                                                     \
	sub	size, THR(PHT_THR_COUNT);                                               \
	jle	1f;                                                                     \
	JUMP(fn);                                                                       \
1:	ARGS(size, fn, dom);                                                            \
	jmp	SYM(any_slow)

#define FREE(ptr, fn)                                                                   \
	mov	ptr, %rcx;                                                              \
	lea	(BASE + PHT_TRAMP_FILTER)(%rip), %rax;                                  \
	shr	$PHT_FILTER_SHIFT, %rcx;                                                \
	movzwl	%cx, %ecx;                                                              \
	cmpb	$0, (%rax, %rcx);                                                       \
	jne	1f;                                                                     \
	JUMP(fn);                                                                       \
1:	ARGS(ptr, fn, 0);                                                               \
	jmp	SYM(free_hit)

#define REALLOC(ptr, size, fn, dom)                                                     \
	mov	ptr, %rax;                                                              \
	ARGS(size, fn, dom);                                                            \
	jmp	SYM(realloc)

#define ENTRY(fn)                                                                       \
	.org	BASE + PHT_ENTRY(fn), 0xcc;                                             \
	endbr64

	.section CAT(.rodata.fix., IMG),"a",@progbits
	.balign	4
	.globl	SYM(fix)
	.globl	SYM(fix_end)
	.hidden	SYM(fix)
	.hidden	SYM(fix_end)
SYM(fix):

	.section CAT(.rodata., IMG),"a",@progbits
	.balign	4096
	.globl	SYM(start)
	.globl	SYM(end)
	.hidden	SYM(start)
	.hidden	SYM(end)
SYM(start):
BASE:
	.skip	PHT_TRAMP_TEXT	/* header: filled in when the image is built */

/* CPython's tables: malloc(ctx, n), calloc(ctx, n, m), realloc(ctx, p, n), free(ctx, p). */
	ENTRY(PHT_TFN_RAW + 0)
	ANY(%rsi, PHT_TFN_RAW + 0, PHT_TS_RAW)

	ENTRY(PHT_TFN_RAW + 1)
	mov	%rsi, %rax
	imul	%rdx, %rax
	jo	3f
	ANY(%rax, PHT_TFN_RAW + 1, PHT_TS_RAW)
3:	jmp	*ORIG(PHT_TFN_RAW + 1)

	ENTRY(PHT_TFN_RAW + 2)
	REALLOC(%rsi, %rdx, PHT_TFN_RAW + 2, PHT_TS_RAW)

	ENTRY(PHT_TFN_RAW + 3)
	FREE(%rsi, PHT_TFN_RAW + 3)

	ENTRY(PHT_TFN_MEM + 0)
	SMALL(%rsi, PHT_TFN_MEM + 0, PHT_TS_MEM)

	ENTRY(PHT_TFN_MEM + 1)
	mov	%rsi, %rax
	imul	%rdx, %rax
	jo	3f
	SMALL(%rax, PHT_TFN_MEM + 1, PHT_TS_MEM)
3:	jmp	*ORIG(PHT_TFN_MEM + 1)

	ENTRY(PHT_TFN_MEM + 2)
	REALLOC(%rsi, %rdx, PHT_TFN_MEM + 2, PHT_TS_MEM | PHT_TS_NEST | PHT_TS_SMALL)

	ENTRY(PHT_TFN_MEM + 3)
	FREE(%rsi, PHT_TFN_MEM + 3)

	ENTRY(PHT_TFN_OBJ + 0)
	SMALL(%rsi, PHT_TFN_OBJ + 0, PHT_TS_OBJ)

	ENTRY(PHT_TFN_OBJ + 1)
	mov	%rsi, %rax
	imul	%rdx, %rax
	jo	3f
	SMALL(%rax, PHT_TFN_OBJ + 1, PHT_TS_OBJ)
3:	jmp	*ORIG(PHT_TFN_OBJ + 1)

	ENTRY(PHT_TFN_OBJ + 2)
	REALLOC(%rsi, %rdx, PHT_TFN_OBJ + 2, PHT_TS_OBJ | PHT_TS_NEST | PHT_TS_SMALL)

	ENTRY(PHT_TFN_OBJ + 3)
	FREE(%rsi, PHT_TFN_OBJ + 3)

/* libc's family, as extension modules call it.  A size beyond 2^63 always fails. */
	ENTRY(PHT_TFN_MALLOC)
	test	%rdi, %rdi
	js	3f
	ANY(%rdi, PHT_TFN_MALLOC, PHT_TS_LIBC)
3:	jmp	*ORIG(PHT_TFN_MALLOC)

	ENTRY(PHT_TFN_CALLOC)
	mov	%rdi, %rax
	imul	%rsi, %rax
	jo	3f
	test	%rax, %rax
	js	3f
	ANY(%rax, PHT_TFN_CALLOC, PHT_TS_LIBC)
3:	jmp	*ORIG(PHT_TFN_CALLOC)

	ENTRY(PHT_TFN_REALLOC)
	REALLOC(%rdi, %rsi, PHT_TFN_REALLOC, PHT_TS_LIBC | PHT_TS_ZEROFREE)

	ENTRY(PHT_TFN_FREE)
	FREE(%rdi, PHT_TFN_FREE)

	ENTRY(PHT_TFN_ALIGNED_ALLOC)
	test	%rsi, %rsi
	js	3f
	ANY(%rsi, PHT_TFN_ALIGNED_ALLOC, PHT_TS_LIBC)
3:	jmp	*ORIG(PHT_TFN_ALIGNED_ALLOC)

	ENTRY(PHT_TFN_MEMALIGN)
	test	%rsi, %rsi
	js	3f
	ANY(%rsi, PHT_TFN_MEMALIGN, PHT_TS_LIBC)
3:	jmp	*ORIG(PHT_TFN_MEMALIGN)

	ENTRY(PHT_TFN_POSIX_MEMALIGN)
	test	%rdx, %rdx
	js	3f
	ARGS(%rdx, PHT_TFN_POSIX_MEMALIGN, PHT_TS_LIBC)
	jmp	SYM(posix_memalign)
3:	jmp	*ORIG(PHT_TFN_POSIX_MEMALIGN)

	ENTRY(PHT_TFN_REALLOCARRAY)
	mov	%rdi, %rax
	mov	%rsi, %rcx
	imul	%rdx, %rcx
	jno	3f
	mov	$-1, %rcx	/* it fails, and the old block lives on */
/* It calls realloc, in some libcs through a slot that leads here. */
3:	ARGS(%rcx, PHT_TFN_REALLOCARRAY, PHT_TS_LIBC | PHT_TS_ZEROFREE | PHT_TS_NEST)
	jmp	SYM(realloc)

	ENTRY(PHT_TFN_VALLOC)
	test	%rdi, %rdi
	js	3f
	ANY(%rdi, PHT_TFN_VALLOC, PHT_TS_LIBC)
3:	jmp	*ORIG(PHT_TFN_VALLOC)

	ENTRY(PHT_TFN_PVALLOC)
	test	%rdi, %rdi
	js	3f
	ANY(%rdi, PHT_TFN_PVALLOC, PHT_TS_LIBC)
3:	jmp	*ORIG(PHT_TFN_PVALLOC)

/* Mappings are rare: the kernel side samples them. */
	ENTRY(PHT_TFN_MMAP)
	cmpl	$0, CTL(PHT_CTL_GEN)
	jne	SYM(mmap)
	jmp	*ORIG(PHT_TFN_MMAP)

	ENTRY(PHT_TFN_MUNMAP)
	cmpl	$0, CTL(PHT_CTL_GEN)
	je	1f
	push	%rdi
	push	%rsi
	mov	%rsi, %rdx
	mov	$PHT_TS_MMAP, %esi
	call	SYM(free_site)
	pop	%rsi
	pop	%rdi
1:	jmp	*ORIG(PHT_TFN_MUNMAP)

	ENTRY(PHT_TFN_MREMAP)
	cmpl	$0, CTL(PHT_CTL_GEN)
	jne	SYM(mremap)
	jmp	*ORIG(PHT_TFN_MREMAP)

/*
 * rdi = list of struct pht_tramp_swap, esi = how many, rsp = a signal frame.
 * A stopped thread is sent here; rt_sigreturn puts it back where it was, with
 * or without a tracer.
 */
	.org	BASE + PHT_TRAMP_SWAP, 0xcc
	endbr64
1:	test	%esi, %esi
	jz	2f
	mov	(%rdi), %rdx
	mov	8(%rdi), %rax
	mov	16(%rdi), %rcx
	lock cmpxchg	%rcx, (%rdx)
	mov	%rax, 24(%rdi)
	add	$32, %rdi
	dec	%esi
	jmp	1b
2:	mov	$15, %eax
	syscall
	ud2

/* A raw or libc call with a counting call below it, or with a mark in it. */
	.balign	64
SYM(any_slow):
	mov	THR(PHT_THR_NEST), %eax
	test	%eax, %eax
	jz	SYM(sampled)
	/* A word left behind by a longjmp is not below us, or far away. */
	sub	%esp, %eax
	cmp	$PHT_NEST_WINDOW, %eax
	jb	1f
	sub	%r10, THR(PHT_THR_COUNT)
	jle	SYM(sampled)
1:	jmp	*%r11

/* A call that pymalloc would serve: if there is a mark, the raw domain is to serve it. */
	.balign	64
SYM(small):
	testl	$PHT_CTL_F_PAD, CTL(PHT_CTL_FLAGS)
	jz	SYM(sampled)
	call	SYM(decide)
	jnz	2f
	call	SYM(orphaned)
	jmp	*%r11
2:	push	%r10
	push	%r8
	push	%rcx
	mov	HDR(PHT_TRAMP_SMALL_MAX), %rax
	inc	%rax
	cmp	ORIG(PHT_TFN_MEM + 1), %r11
	je	3f
	cmp	ORIG(PHT_TFN_OBJ + 1), %r11
	je	3f
	mov	%rax, %rsi
	jmp	4f
3:	mov	$1, %esi
	mov	%rax, %rdx
4:	call	SYM(nest)
	call	*%r11
	call	SYM(unnest)
	pop	%rcx
	pop	%rsi
	pop	%rdx
	test	%rax, %rax
	jz	SYM(failed)
	mov	%rax, %rdi
	jmp	SYM(taken)

/* The gap ended in this call: take it if there is a mark. */
	.balign	64
SYM(sampled):
	call	SYM(decide)
	jnz	1f
	call	SYM(orphaned)
	jmp	*%r11
1:	push	%r10
	push	%r8
	push	%rcx
	call	*%r11
	pop	%rcx
	pop	%rsi
	pop	%rdx
	test	%rax, %rax
	jz	SYM(failed)
	mov	%rax, %rdi
/* rdi = address, esi = who, rdx = bytes, rcx = R, rax = what to return, rsp -> caller. */
SYM(taken):
	mov	CTL(PHT_CTL_GEN), %r11d
	call	SYM(watched)
	je	SYM(abandoned)
	call	SYM(insert)
	lock incq CTL(PHT_CTL_SAMPLES)
SYM(report):
	mov	CTL(PHT_CTL_SITE), %r9d
	cmp	$PHT_SITE_NOP1, %r9d
	je	SYM(alloc_nop1)
	cmp	$PHT_SITE_NOP5, %r9d
	je	SYM(alloc_nop5)
	cmp	$PHT_SITE_NOP10, %r9d
	je	SYM(alloc_nop10)
	ret
SYM(failed):
	lock incq CTL(PHT_CTL_FAILED)
	ret

/*
 * Probes are there before this is enabled and go after it is disabled: one
 * that is gone went with the tracer.  The parameters may be a new tracer's by
 * now, hence the exchange; who was called through a table knows that it is
 * mapped.
 */
SYM(abandoned):
	push	%rax
	mov	%r11d, %eax
	xor	%r9d, %r9d
	test	%eax, %eax
	jz	1f
	lock cmpxchg %r9d, CTL(PHT_CTL_GEN)
	jne	1f
	lock incq CTL(PHT_CTL_EXPIRED)
	cmp	$PHT_TS_OBJ, %esi
	ja	1f
	call	SYM(go_home)
1:	pop	%rax
	ret

/* Zero flag: the byte at the site in use is as we wrote it.  Only r9 is lost. */
SYM(watched):
	mov	CTL(PHT_CTL_SITE), %r9d
	cmp	$PHT_SITE_NOP1, %r9d
	je	1f
	cmp	$PHT_SITE_NOP5, %r9d
	je	2f
	cmp	$PHT_SITE_NOP10, %r9d
	je	3f
	test	%rsp, %rsp	/* no site, no probe: nothing to miss */
	ret
1:	cmpb	$0x90, SYM(alloc_nop1)(%rip)
	ret
2:	cmpb	$0x0f, SYM(alloc_nop5)(%rip)
	ret
3:	cmpb	$0x66, SYM(alloc_nop10)(%rip)
	ret

/*
 * r8d = who was called, and there was no mark: a child of fork, whose data read
 * as zeros, goes home, for nobody comes to restore its tables.  As go_home.
 */
SYM(orphaned):
	cmpl	$0, CTL(PHT_CTL_STATE)
	jne	1f
	cmp	$PHT_TS_OBJ, %r8d
	jbe	SYM(go_home)
1:	ret

/*
 * Put the originals back where our entries still stand.  Each exchange is
 * whole, and a table with pointers of both kinds works as well.  rax, rcx and
 * r9 are lost.
 */
SYM(go_home):
	push	%rdx
	push	%rsi
	push	%rdi
	lea	BASE + PHT_ENTRY(0)(%rip), %rdi
	lea	HDR(PHT_TRAMP_ORIG), %rsi
	mov	$PHT_TFN_TABLES, %ecx
1:	mov	(PHT_TRAMP_HOME - PHT_TRAMP_ORIG)(%rsi), %rdx
	test	%rdx, %rdx
	jz	2f
	mov	%rdi, %rax
	cmp	%rax, (%rdx)
	jne	2f
	mov	(%rsi), %r9
	lock cmpxchg %r9, (%rdx)
2:	add	$(PHT_ENTRY(1) - PHT_ENTRY(0)), %rdi
	add	$8, %rsi
	dec	%ecx
	jnz	1b
	pop	%rdi
	pop	%rsi
	pop	%rdx
	ret

/* A mem or obj request that pymalloc does not serve, or nobody knows who does. */
	.balign	64
SYM(big):
	cmpl	$PHT_TRAMP_BIG_RAW, HDR(PHT_TRAMP_BIG_MODE)
	je	2f
	SLOT
	mov	THR(PHT_THR_NEST), %ecx
	test	%ecx, %ecx
	jz	1f
	sub	%esp, %ecx
	cmp	$PHT_NEST_WINDOW, %ecx
	jb	2f
1:	push	%r10
	push	%r8
	push	%r8		/* alignment */
	call	SYM(nest)
	call	*%r11
	call	SYM(unnest)
	pop	%rsi
	pop	%rsi
	pop	%rdx
	test	%rax, %rax
	jnz	SYM(count)
	ret
2:	jmp	*%r11

/* The begin of a counting call, from its own frame; rax, r9 and rcx are lost. */
SYM(nest):
	SLOT
	lea	8(%rsp), %eax
	or	$1, %eax	/* never 0 */
	mov	%eax, THR(PHT_THR_NEST)
	ret

/* The end of a counting call, from its own frame; r9 and rcx are lost. */
SYM(unnest):
	SLOT
	lea	8(%rsp), %ecx
	or	$1, %ecx
	cmp	%ecx, THR(PHT_THR_NEST)
	jne	1f
	movl	$0, THR(PHT_THR_NEST)
1:	ret

/* Count a call that has returned: rax = address, esi = who, rdx = bytes, rsp -> caller. */
SYM(count):
	test	%rdx, %rdx
	js	1f
	SLOT
	sub	%rdx, THR(PHT_THR_COUNT)
	jg	1f
	mov	%rdx, %r10
	push	%rax
	push	%rsi
	push	%rdx
	call	SYM(decide)
	pop	%rdx
	pop	%rsi
	pop	%rax
	mov	%rax, %rdi
	jnz	SYM(taken)
	push	%rax
	mov	%esi, %r8d
	call	SYM(orphaned)
	pop	%rax
1:	ret

/*
 * rax = old address, r10 = bytes, r11 = original, r8d = who.  The old block
 * leaves the set before the original can hand its address to another thread;
 * it comes back if the original fails.
 */
	.balign	64
SYM(realloc):
	SLOT
	mov	THR(PHT_THR_NEST), %ecx
	test	%ecx, %ecx
	jz	1f
	sub	%esp, %ecx
	cmp	$PHT_NEST_WINDOW, %ecx
	jae	1f
	jmp	*%r11
1:	sub	$56, %rsp
	mov	%r8, (%rsp)
	mov	%r10, 8(%rsp)
	mov	%rax, 16(%rsp)
	mov	%rdi, 32(%rsp)
	mov	%rax, %rdi
	call	SYM(remove)
	mov	%rax, 24(%rsp)
	test	%eax, %eax
	jz	2f
	push	%rsi
	mov	$PHT_TS_REALLOC, %esi
	call	SYM(report_free)
	pop	%rsi
2:	mov	32(%rsp), %rdi
	testl	$PHT_TS_NEST, (%rsp)
	jz	3f
	testl	$PHT_TS_SMALL, (%rsp)
	jz	8f
	testl	$PHT_CTL_F_PAD, CTL(PHT_CTL_FLAGS)
	jz	8f
	test	%r10, %r10
	jz	8f
	cmp	HDR(PHT_TRAMP_SMALL_MAX), %r10
	jbe	SYM(realloc_small)
8:	call	SYM(nest)
	call	*%r11
	call	SYM(unnest)
	jmp	4f
3:	call	*%r11
4:	mov	(%rsp), %rsi
	mov	8(%rsp), %rdx
	test	%rax, %rax
	jz	5f
	add	$56, %rsp
	and	$PHT_TS_DOMAIN, %esi
	jmp	SYM(count)
SYM(realloc_failed):
5:	cmpl	$0, 24(%rsp)
	je	7f
	test	$PHT_TS_ZEROFREE, %esi
	jz	6f
	test	%rdx, %rdx
	jz	7f		/* libc: realloc(p, 0) is free(p) */
6:	mov	16(%rsp), %rdi
	add	$56, %rsp
	and	$PHT_TS_DOMAIN, %esi
	or	$PHT_TS_UNDO, %esi
	xor	%ecx, %ecx
	call	SYM(insert)
	lock incq CTL(PHT_CTL_UNDONE)
	cmpl	$0, CTL(PHT_CTL_GEN)
	jne	SYM(report)
	ret
7:	add	$56, %rsp
	ret

/*
 * A realloc to a size that pymalloc serves: as with malloc, a mark makes it
 * the raw domain's.  So it counts before the call, whatever becomes of it.
 */
	.balign	64
SYM(realloc_small):
	SLOT
	xor	%eax, %eax
	sub	%r10, THR(PHT_THR_COUNT)
	mov	%rax, 40(%rsp)
	jg	1f
	call	SYM(decide)
	mov	%rcx, 40(%rsp)
	jz	1f
	mov	HDR(PHT_TRAMP_SMALL_MAX), %rdx
	inc	%rdx
1:	call	SYM(nest)
	call	*%r11
	call	SYM(unnest)
	mov	(%rsp), %esi
	mov	8(%rsp), %rdx
	test	%rax, %rax
	jz	2f
	mov	40(%rsp), %rcx
	add	$56, %rsp
	and	$PHT_TS_DOMAIN, %esi
	mov	%rax, %rdi
	test	%rcx, %rcx
	jnz	SYM(taken)
	ret
2:	cmpq	$0, 40(%rsp)
	je	SYM(realloc_failed)
	lock incq CTL(PHT_CTL_FAILED)
	jmp	SYM(realloc_failed)

/* posix_memalign(out, alignment, bytes): the address is stored, not returned. */
	.balign	64
SYM(posix_memalign):
	SLOT
	mov	THR(PHT_THR_NEST), %ecx
	test	%ecx, %ecx
	jz	1f
	sub	%esp, %ecx
	cmp	$PHT_NEST_WINDOW, %ecx
	jb	2f
1:	sub	%r10, THR(PHT_THR_COUNT)
	jg	2f
	call	SYM(decide)
	jnz	3f
2:	jmp	*%r11
3:	push	%rdi
	push	%r10
	push	%rcx
	call	*%r11
	pop	%rcx
	pop	%rdx
	pop	%rdi
	mov	$PHT_TS_LIBC, %esi
	test	%eax, %eax
	jnz	SYM(failed)
	mov	(%rdi), %rdi
	test	%rdi, %rdi
	jnz	SYM(taken)
	ret

/* Zero flag: not inside a call that is counted.  Keeps all but r11. */
	.balign	64
SYM(nested):
	push	%rcx
	push	%r9
	SLOT
	mov	THR(PHT_THR_NEST), %r11d
	pop	%r9
	pop	%rcx
	test	%r11d, %r11d
	jz	1f
	sub	%esp, %r11d
	cmp	$PHT_NEST_WINDOW, %r11d
	sbb	%r11d, %r11d
1:	ret

SYM(mmap):
	call	SYM(nested)
	jnz	1f
	push	%rcx
	push	%rsi
	push	%rsi		/* alignment */
	call	*ORIG(PHT_TFN_MMAP)
	pop	%rdx
	pop	%rdx
	pop	%r8
	cmp	$-1, %rax
	je	2f
	mov	%rax, %rdi
	mov	$PHT_TS_MMAP, %esi
	xor	%ecx, %ecx
	jmp	SYM(report)
1:	jmp	*ORIG(PHT_TFN_MMAP)
2:	ret

/* As realloc; what it moves may be whole, or part of what mmap gave. */
SYM(mremap):
	call	SYM(nested)
	jnz	3f
	push	%rdi
	push	%rdx
	push	%rsi
	mov	$(PHT_TS_MMAP | PHT_TS_REALLOC), %esi
	call	SYM(free_site)
	mov	(%rsp), %rsi
	call	*ORIG(PHT_TFN_MREMAP)
	pop	%rsi
	pop	%rdx
	pop	%rdi
	xor	%ecx, %ecx
	xor	%r8d, %r8d
	mov	$(PHT_TS_MMAP | PHT_TS_UNDO), %esi
	cmp	$-1, %rax
	je	SYM(report)
	mov	$PHT_TS_MMAP, %esi
	mov	%rax, %rdi
	jmp	SYM(report)
3:	jmp	*ORIG(PHT_TFN_MREMAP)

/* A free whose address shares a filter byte with a sample: r10 = address, r11 = original. */
	.balign	64
SYM(free_hit):
	push	%rdi
	push	%rsi
	mov	%r10, %rdi
	call	SYM(remove)
	test	%eax, %eax
	jz	1f
	xor	%esi, %esi
	call	SYM(report_free)
1:	pop	%rsi
	pop	%rdi
	jmp	*%r11

/* rdi = address, esi = flags. */
SYM(report_free):
	cmpl	$0, CTL(PHT_CTL_GEN)
	je	1f
	lock incq CTL(PHT_CTL_FREES)
/* Only r9 is lost. */
SYM(free_site):
	mov	CTL(PHT_CTL_SITE), %r9d
	cmp	$PHT_SITE_NOP1, %r9d
	je	SYM(free_nop1)
	cmp	$PHT_SITE_NOP5, %r9d
	je	SYM(free_nop5)
	cmp	$PHT_SITE_NOP10, %r9d
	je	SYM(free_nop10)
1:	ret

/* r8d = index of rdi's byte in the filter. */
#undef GRANULE
#define GRANULE                                                                         \
	mov	%rdi, %r8;                                                              \
	shr	$PHT_FILTER_SHIFT, %r8;                                                 \
	movzwl	%r8w, %r8d

/* r9d = offset of rdi's bucket in the set; r8 is lost. */
#undef HASH
#define HASH                                                                            \
	mov	%rdi, %r8;                                                              \
	mov	%rdi, %r9;                                                              \
	shr	$4, %r8;                                                                \
	shr	$20, %r9;                                                               \
	xor	%r9d, %r8d;                                                             \
	movzwl	%r8w, %r8d;                                                             \
	mov	%r8d, %r9d;                                                             \
	shr	$4, %r9d;                                                               \
	shl	$7, %r9d

/*
 * Remember the address rdi, which is ours as long as the caller owns the
 * block; esi gets PHT_TS_LOST when its bucket is full.  r8-r11 are lost.
 */
	.balign	64
SYM(insert):
	testl	$PHT_CTL_F_ALL, CTL(PHT_CTL_FLAGS)
	jnz	5f
	push	%rax
	HASH
	lea	(BASE + PHT_TRAMP_SET)(%rip), %r10
	add	%r9, %r10
	/* Its free was missed, by whoever does not come through here. */
	mov	$(PHT_SET_WAYS - 1), %r9d
1:	cmp	%rdi, (%r10, %r9, 8)
	je	4f
	dec	%r9d
	jns	1b
	mov	$(PHT_SET_WAYS - 1), %r9d
2:	xor	%eax, %eax
	cmp	%rax, (%r10, %r9, 8)
	jne	3f
	lock cmpxchg	%rdi, (%r10, %r9, 8)
	jne	3f
	GRANULE
	lea	(BASE + PHT_TRAMP_FILTER)(%rip), %r9
	cmpb	$PHT_FILTER_TOP, (%r9, %r8)
	jae	4f
	lock incb	(%r9, %r8)
	jmp	4f
3:	dec	%r9d
	jns	2b
	lock incq CTL(PHT_CTL_LOST)
	or	$PHT_TS_LOST, %esi
4:	pop	%rax
5:	ret

/* Forget the address rdi: rax = 1 if it was sampled, else 0.  r8 and r9 are lost. */
	.balign	64
SYM(remove):
	xor	%eax, %eax
	test	%rdi, %rdi
	jz	3f
	push	%rcx
	GRANULE
	lea	(BASE + PHT_TRAMP_FILTER)(%rip), %rcx
	add	%r8, %rcx
	movzbl	(%rcx), %r8d
	test	%r8d, %r8d
	jz	2f
	inc	%eax
	test	$PHT_FILTER_ALL, %r8b
	jnz	2f
	HASH
	lea	(BASE + PHT_TRAMP_SET)(%rip), %r8
	add	%r9, %r8
	mov	$(PHT_SET_WAYS - 1), %r9d
1:	cmp	%rdi, (%r8, %r9, 8)
	je	4f
	dec	%r9d
	jns	1b
	incq	CTL(PHT_CTL_FALSE)
	xor	%eax, %eax
2:	pop	%rcx
3:	ret
4:	push	%rdx
	mov	%rdi, %rax
	xor	%edx, %edx
	lock cmpxchg	%rdx, (%r8, %r9, 8)
	pop	%rdx
	mov	$0, %eax
	jne	2b
	inc	%eax
	cmpb	$PHT_FILTER_STUCK, (%rcx)
	jae	2b
	lock decb	(%rcx)
	jmp	2b

/*
 * A gap ended within a call for r10 bytes: rcx = R if the call holds a mark,
 * else 0, flags accordingly; the next gap is set.  Keeps all but rax and r9.
 *
 * The marks are a Poisson process, so what remains of a gap at the end of a
 * block, or at a point that was known to hold no mark, is a fresh gap.
 */
	.balign	64
SYM(decide):
	SLOT
	mov	CTL(PHT_CTL_GEN), %ecx
	test	%ecx, %ecx
	jz	8f
	push	%rdx
	push	%rsi
	push	%r8
	mov	%ecx, %eax
	and	$(PHT_TRAMP_NPARAMS - 1), %eax
	shl	$5, %eax
	lea	CTL(PHT_CTL_PARAMS), %r8
	add	%rax, %r8
	cmp	%ecx, PHT_PAR_GEN(%r8)
	jne	7f		/* seen half-written: later */
	lock decq CTL(PHT_CTL_BUDGET)
	js	6f
	xor	%esi, %esi
	mov	THR(PHT_THR_GEN), %eax
	test	%eax, %eax
	jle	1f		/* no gap yet, or one cut short */
	/* A gap drawn with earlier parameters ends in a mark of that process. */
	mov	%eax, %edx
	and	$(PHT_TRAMP_NPARAMS - 1), %edx
	shl	$5, %edx
	add	$PHT_CTL_PARAMS, %edx
	lea	CTL(0), %rsi
	add	%rdx, %rsi
	mov	PHT_PAR_R(%rsi), %rdx
	cmp	%eax, PHT_PAR_GEN(%rsi)
	mov	$0, %esi
	jne	1f
	mov	%rdx, %rsi
	test	%rsi, %rsi
	jz	1f
	call	SYM(draw)
	jmp	3f
1:	call	SYM(draw)
	cmp	%r10, %rax
	ja	2f
	mov	PHT_PAR_R(%r8), %rsi
	call	SYM(draw)
	jmp	3f
2:	sub	%r10, %rax
3:	cmp	$PHT_GAP_MAX, %rax
	jbe	4f
	mov	$PHT_GAP_MAX, %eax
	or	$PHT_GEN_CUT, %ecx
4:	mov	%rax, THR(PHT_THR_COUNT)
	mov	%ecx, THR(PHT_THR_GEN)
	mov	%rsi, %rcx
	pop	%r8
	pop	%rsi
	pop	%rdx
	test	%rcx, %rcx
	ret
6:	lock incq CTL(PHT_CTL_EXPIRED)
7:	pop	%r8
	pop	%rsi
	pop	%rdx
8:	incq	CTL(PHT_CTL_IDLE)
	movq	$PHT_GAP_IDLE, THR(PHT_THR_COUNT)
	movl	$0, THR(PHT_THR_GEN)
	xor	%ecx, %ecx
	ret

/*
 * rax = a gap for the parameters at r8; rdx is lost.  gap = min + floor(-R ln u):
 * u from a counter and a mixing function, so that threads never share a draw;
 * its logarithm from the leading bit and a table with linear interpolation.
 */
SYM(draw):
	push	%rcx
	push	%rsi
	movabs	$0x9e3779b97f4a7c15, %rdx
	mov	%rdx, %rax
	lock xadd %rax, CTL(PHT_CTL_RNG)
	add	%rdx, %rax
	mov	%rax, %rdx
	shr	$30, %rdx
	xor	%rdx, %rax
	movabs	$0xbf58476d1ce4e5b9, %rdx
	imul	%rdx, %rax
	mov	%rax, %rdx
	shr	$27, %rdx
	xor	%rdx, %rax
	movabs	$0x94d049bb133111eb, %rdx
	imul	%rdx, %rax
	mov	%rax, %rdx
	shr	$31, %rdx
	xor	%rdx, %rax
	or	$1, %rax
	bsr	%rax, %rdx
	mov	$63, %ecx
	sub	%edx, %ecx
	shl	%cl, %rax
	mov	%rax, %rdx
	shr	$55, %rdx
	movzbl	%dl, %edx
	lea	HDR(PHT_TRAMP_LOG2), %rsi
	lea	(%rsi, %rdx, 8), %rsi
	shr	$23, %rax
	mov	%eax, %eax
	mov	4(%rsi), %edx
	imul	%rdx, %rax
	shr	$32, %rax
	mov	(%rsi), %edx
	add	%rdx, %rax
	inc	%ecx
	shl	$32, %rcx
	sub	%rax, %rcx	/* -log2(u), 32 bits of fraction */
	mov	%rcx, %rax
	mulq	PHT_PAR_K(%r8)
	shrd	$48, %rdx, %rax
	add	PHT_PAR_MIN(%r8), %rax
	pop	%rsi
	pop	%rcx
	ret

/* The sites: what the kernel can probe cheaply differs between its versions. */
#undef SITE
#define SITE(off) .org BASE + (off), 0xcc
	SITE(PHT_SITE_ALLOC(PHT_SITE_NOP1))
SYM(alloc_nop1):
	.byte	0x90
	ret
	SITE(PHT_SITE_ALLOC(PHT_SITE_NOP5))
SYM(alloc_nop5):
	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00
	ret
	SITE(PHT_SITE_ALLOC(PHT_SITE_NOP10))
SYM(alloc_nop10):
	.byte	0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00
	ret
	SITE(PHT_SITE_FREE(PHT_SITE_NOP1))
SYM(free_nop1):
	.byte	0x90
	ret
	SITE(PHT_SITE_FREE(PHT_SITE_NOP5))
SYM(free_nop5):
	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00
	ret
	SITE(PHT_SITE_FREE(PHT_SITE_NOP10))
SYM(free_nop10):
	.byte	0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00
	ret
	.org	BASE + PHT_TRAMP_CODE_SIZE, 0xcc
SYM(end):

	.section CAT(.rodata.fix., IMG),"a",@progbits
SYM(fix_end):

#endif /* IMG */
