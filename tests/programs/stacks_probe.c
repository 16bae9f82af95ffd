// SPDX-License-Identifier: BSD-2-Clause
/*
 * A Python extension that allocates on demand, and nothing else on the same
 * line: its functions take no arguments and return None, so that a stack
 * sampled in one of them is known to be that of its own allocation.
 *
 * The few declarations of CPython's stable ABI that it needs are written out:
 * one build then serves every version, and no Python headers have to be there.
 * It is linked with no libc, and takes that of the process: musl, or another glibc.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct object object;
typedef object *(*method)(object *self, object *arg);

struct method_def {
	const char *name;
	method call;
	int flags;
	const char *doc;
};

struct module_slot {
	int id;
	void *value;
};

/* An object's header, with a GIL and without. */
struct header {
	ptrdiff_t refs;
	void *type;
};

struct header_ft {
	size_t owner;
	uint16_t flags;
	uint8_t mutex, gc_bits;
	uint32_t refs;
	ptrdiff_t shared_refs;
	void *type;
};

/* What follows it: the rest of PyModuleDef_Base, and the module. */
struct module {
	object *(*init)(void);
	ptrdiff_t index;
	object *copy;
	const char *name, *doc;
	ptrdiff_t size;
	struct method_def *methods;
	struct module_slot *slots;
	void *traverse, *clear, *free;
};

struct module_def {
	struct header header;
	struct module module;
};

struct module_def_ft {
	struct header_ft header;
	struct module module;
};

#pragma weak mallopt /* musl has none */

enum { METH_NOARGS = 4, METH_O = 8 };
enum { SLOT_MULTIPLE_INTERPRETERS = 3, SLOT_GIL = 4 };
#define PER_INTERPRETER_GIL ((void *)2)
#define GIL_NOT_USED	    ((void *)1)

extern object _Py_NoneStruct __attribute__((weak));
extern const unsigned long Py_Version __attribute__((weak)); /* since 3.11 */
/* From 3.13 on: a cookie, the version, and whether there is no GIL. */
extern const uint64_t _PyRuntime[] __attribute__((weak));
extern object *PyModuleDef_Init(void *def);
extern void Py_IncRef(object *o);
extern size_t PyLong_AsSize_t(object *o);
extern void *PyMem_RawMalloc(size_t n);
extern void PyMem_RawFree(void *p);
extern void *PyObject_Malloc(size_t n);
extern void PyObject_Free(void *p);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *state);

/* Of the next allocation, by thread: another may come between. */
static _Thread_local size_t next_size;

static object *none(void)
{
	Py_IncRef(&_Py_NoneStruct);
	return &_Py_NoneStruct;
}

/* The compiler must not see that the block is not used. */
static void *volatile sink;

static object *set_size(object *self, object *arg)
{
	(void)self;
	next_size = PyLong_AsSize_t(arg);
	return none();
}

static object *hit_malloc(object *self, object *arg)
{
	void *p = malloc(next_size);

	(void)self;
	(void)arg;
	sink = p;
	free(p);
	return none();
}

static object *hit_raw(object *self, object *arg)
{
	void *p = PyMem_RawMalloc(next_size);

	(void)self;
	(void)arg;
	sink = p;
	PyMem_RawFree(p);
	return none();
}

static object *hit_object(object *self, object *arg)
{
	void *p = PyObject_Malloc(next_size);

	(void)self;
	(void)arg;
	sink = p;
	PyObject_Free(p);
	return none();
}

/* As zlib, hashlib and numpy do it: other threads run Python meanwhile. */
static object *hit_nogil(object *self, object *arg)
{
	void *state = PyEval_SaveThread();
	void *p;

	(void)self;
	(void)arg;
	usleep(200);
	p = malloc(next_size);
	sink = p;
	free(p);
	PyEval_RestoreThread(state);
	return none();
}

static void *stranger(void *arg)
{
	void *p = malloc(*(size_t *)arg);

	sink = p;
	free(p);
	return NULL;
}

/* In a thread that Python knows nothing of. */
static object *hit_stranger(object *self, object *arg)
{
	size_t size = next_size;
	pthread_t thread;

	(void)self;
	(void)arg;
	if (!pthread_create(&thread, NULL, stranger, &size))
		pthread_join(thread, NULL);
	return none();
}

static struct method_def methods[] = {
	{"set_size", set_size, METH_O, NULL},
	{"hit_malloc", hit_malloc, METH_NOARGS, NULL},
	{"hit_raw", hit_raw, METH_NOARGS, NULL},
	{"hit_object", hit_object, METH_NOARGS, NULL},
	{"hit_nogil", hit_nogil, METH_NOARGS, NULL},
	{"hit_stranger", hit_stranger, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

/* Preloaded, it halts the interpreter before its first instruction, for a tracer to come. */
__attribute__((constructor)) static void halt(void)
{
	if (!getenv("STACKS_HALT"))
		return;
	unsetenv("STACKS_HALT");
	unsetenv("LD_PRELOAD");
	raise(SIGSTOP);
}

static struct module_slot no_slots[] = {{0, NULL}};
static struct module_slot slots_312[] = {
	{SLOT_MULTIPLE_INTERPRETERS, PER_INTERPRETER_GIL},
	{0, NULL},
};

/* An extension that does not say that it can do without has the GIL switched on. */
static struct module_slot slots_ft[] = {
	{SLOT_MULTIPLE_INTERPRETERS, PER_INTERPRETER_GIL},
	{SLOT_GIL, GIL_NOT_USED},
	{0, NULL},
};

#define MODULE                                                                                     \
	{                                                                                          \
		.name = "stacks_probe", .methods = methods, .slots = no_slots                      \
	}
static struct module_def module = {{.refs = 1}, MODULE};
static struct module_def_ft module_ft = {{.refs = UINT32_MAX}, MODULE};

static int free_threaded(void)
{
	return &Py_Version && Py_Version >= 0x030d0000 && _PyRuntime[2];
}

__attribute__((visibility("default"))) object *PyInit_stacks_probe(void)
{
	if (&Py_Version && Py_Version >= 0x030c0000)
		module.module.slots = slots_312;
	module_ft.module.slots = slots_ft;
	/* Large blocks from the heap: a mapping each would be another story, and slow. */
	if (&mallopt) {
		mallopt(M_MMAP_THRESHOLD, 1 << 30);
		mallopt(M_TRIM_THRESHOLD, 1 << 30);
		mallopt(M_ARENA_MAX, 1);
	}
	return PyModuleDef_Init(free_threaded() ? (void *)&module_ft : (void *)&module);
}
