/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A user of PyMem_SetAllocator() that keeps what it replaced where nobody can
 * see it.  Loaded by hooked.py with ctypes; needs no Python headers.
 *
 * Build: cc -O1 -shared -fPIC hook.c -o hook.so
 */
#include <stddef.h>

typedef struct {
	void *ctx;
	void *(*malloc)(void *ctx, size_t size);
	void *(*calloc)(void *ctx, size_t n, size_t size);
	void *(*realloc)(void *ctx, void *p, size_t size);
	void (*free)(void *ctx, void *p);
} allocator;

extern void PyMem_GetAllocator(int domain, allocator *out);
extern void PyMem_SetAllocator(int domain, allocator *in);

static allocator saved[3];
static unsigned long calls;

static const allocator *below(const void *ctx)
{
	calls++;
	return &saved[(size_t)ctx - 1];
}

static void *hook_malloc(void *ctx, size_t size)
{
	const allocator *a = below(ctx);

	return a->malloc(a->ctx, size);
}

static void *hook_calloc(void *ctx, size_t n, size_t size)
{
	const allocator *a = below(ctx);

	return a->calloc(a->ctx, n, size);
}

static void *hook_realloc(void *ctx, void *p, size_t size)
{
	const allocator *a = below(ctx);

	return a->realloc(a->ctx, p, size);
}

static void hook_free(void *ctx, void *p)
{
	const allocator *a = below(ctx);

	a->free(a->ctx, p);
}

void hook_install(void)
{
	for (size_t domain = 0; domain < 3; domain++) {
		allocator hook = {(void *)(domain + 1), hook_malloc, hook_calloc, hook_realloc,
				  hook_free};

		PyMem_GetAllocator((int)domain, &saved[domain]);
		PyMem_SetAllocator((int)domain, &hook);
	}
}

void hook_remove(void)
{
	for (int domain = 0; domain < 3; domain++)
		PyMem_SetAllocator(domain, &saved[domain]);
}

unsigned long hook_calls(void)
{
	return calls;
}
