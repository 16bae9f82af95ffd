/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * User-space stand-ins for the kernel side of the headers in bpf/: helpers,
 * maps, registers, the current task and the target's memory.  Include before
 * them; the same source then runs under cmocka and the sanitizers.
 *
 * Maps are stricter than the kernel's: an element that is deleted or replaced
 * is freed at once, so a pointer kept across that is caught by ASan.
 */
#ifndef PHT_BPF_SHIM_H
#define PHT_BPF_SHIM_H

#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The headers carry clang's loop pragmas for the verifier's sake. */
#pragma GCC diagnostic ignored "-Wunknown-pragmas"

#define SEC(name)
#define __uint(name, val) int(*name)[val]
#define __type(name, val) __typeof__(val) *name
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define __noinline __attribute__((noinline))

/* Whose table of bpf/machine.bpf.h the test is for. */
#ifndef __TARGET_ARCH_arm64
#define __TARGET_ARCH_x86
#endif

/* What the probes see of the registers: any order will do. */
struct pt_regs {
	unsigned long parm[6];
	unsigned long sp, rc, ip, ret;
};
#define PT_REGS_PARM1(ctx) ((ctx)->parm[0])
#define PT_REGS_PARM2(ctx) ((ctx)->parm[1])
#define PT_REGS_PARM3(ctx) ((ctx)->parm[2])
#define PT_REGS_PARM4(ctx) ((ctx)->parm[3])
#define PT_REGS_SP(ctx)	   ((ctx)->sp)
#define PT_REGS_RC(ctx)	   ((ctx)->rc)
#define PT_REGS_IP(ctx)	   ((ctx)->ip)
#define PT_REGS_RET(ctx)   ((ctx)->ret) /* only where a register has it */

struct mm_struct;
struct task_struct;
struct signal_struct {
	struct {
		int counter;
	} live;
	unsigned int flags;
	struct task_struct *group_exec_task;
};
struct signal_struct___old {
	struct task_struct *group_exit_task;
};
struct task_struct {
	__u64 start_boottime;
	struct mm_struct *mm;
	struct signal_struct *signal;
	int pid, tgid, exit_code;
	struct {
		unsigned long fsbase;
		struct {
			unsigned long tp_value;
		} uw;
	} thread;
};
#define SHIM_READ2(src, field)		 ((src)->field)
#define SHIM_READ3(src, field, more)	 ((src)->field->more)
#define SHIM_READ(_1, _2, _3, name, ...) name
#define BPF_CORE_READ(...)		 SHIM_READ(__VA_ARGS__, SHIM_READ3, SHIM_READ2, )(__VA_ARGS__)

#define bpf_core_field_exists(field) true

#define SHIM_MAPS    16
#define SHIM_BUCKETS 1024
#define SHIM_KEY     16
#define SHIM_REGIONS 512
#define SHIM_EVENTS  4096
#define SHIM_RECORDS 256

struct shim_elem {
	struct shim_elem *next;
	void *value; /* owned; exactly value_size bytes, for ASan */
	unsigned char key[SHIM_KEY];
};

struct shim_map {
	const void *id; /* the object in bpf/maps.bpf.h */
	size_t key_size, value_size;
	__u32 max, n;
	unsigned char *array; /* owned; array maps only */
	struct shim_elem *buckets[SHIM_BUCKETS];
};

/* A readable piece of the target's memory. */
struct shim_region {
	__u64 start, size;
	unsigned char *bytes; /* owned */
};

static struct {
	__u64 id;  /* tgid << 32 | tid */
	__u64 now; /* each look at the clock takes 1 ns */
	struct task_struct task;
	char comm[16];
	struct shim_map maps[SHIM_MAPS];
	struct shim_region regions[SHIM_REGIONS];
	size_t nregions;
	long reads;	/* of user memory so far */
	long fail_read; /* this one, counted from 1, fails; 0 = none */
	unsigned char events[SHIM_EVENTS][16];
	size_t nevents, max_events;
	void *records[SHIM_RECORDS]; /* owned; reserved and submitted ones */
	size_t nrecords, max_records, submitted;
	const void *refuse_update; /* this map is out of memory */
	void (*before_update)(const void *map_id);
	long signal_error; /* what sending a signal comes to */
	int signals;	   /* that were sent */
} shim;

static inline void shim_elem_free(struct shim_elem *e)
{
	free(e->value);
	free(e);
}

/* Forget all: maps, memory, events, faults.  Also the start of every test. */
static inline void shim_reset(void)
{
	for (size_t i = 0; i < SHIM_MAPS; i++) {
		for (size_t b = 0; b < SHIM_BUCKETS; b++)
			for (struct shim_elem *e = shim.maps[i].buckets[b], *next; e; e = next) {
				next = e->next;
				shim_elem_free(e);
			}
		free(shim.maps[i].array);
	}
	for (size_t i = 0; i < shim.nregions; i++)
		free(shim.regions[i].bytes);
	/* The verifier insists that what was reserved is submitted. */
	if (shim.submitted != shim.nrecords)
		abort();
	for (size_t i = 0; i < shim.nrecords; i++)
		free(shim.records[i]);
	memset(&shim, 0, sizeof(shim));
	shim.max_events = SHIM_EVENTS;
	shim.max_records = SHIM_RECORDS;
}

static inline struct shim_map *shim_map_get(const void *id, size_t key_size, size_t value_size,
					    __u32 max, int type)
{
	struct shim_map *m = shim.maps;

	while (m->id && m->id != id)
		if (++m == shim.maps + SHIM_MAPS)
			abort();
	if (m->id)
		return m;
	m->id = id;
	m->key_size = key_size;
	m->value_size = value_size;
	m->max = max;
	if (type == BPF_MAP_TYPE_PERCPU_ARRAY)
		m->array = calloc(max, value_size);
	if (key_size > SHIM_KEY || (type == BPF_MAP_TYPE_PERCPU_ARRAY && !m->array))
		abort();
	return m;
}

#define SHIM_NUM(field) (sizeof(*(field)) / sizeof(int))
#define shim_map_of(m)                                                                             \
	shim_map_get(m, sizeof(*(m)->key), sizeof(*(m)->value), SHIM_NUM((m)->max_entries),        \
		     SHIM_NUM((m)->type))
/* The pointer, once the compiler has agreed that it is of the map's type. */
#define SHIM_TYPED(p, of) (1 ? (p) : (of))

static inline struct shim_elem **shim_find(struct shim_map *m, const void *key)
{
	const unsigned char *k = key;
	__u32 h = 2166136261u;
	struct shim_elem **at;

	for (size_t i = 0; i < m->key_size; i++)
		h = (h ^ k[i]) * 16777619u;
	at = &m->buckets[(h ^ h >> 16) % SHIM_BUCKETS];
	while (*at && memcmp((*at)->key, key, m->key_size))
		at = &(*at)->next;
	return at;
}

static inline void *shim_lookup(struct shim_map *m, const void *key)
{
	struct shim_elem *e;
	__u32 index;

	if (m->array) {
		memcpy(&index, key, sizeof(index));
		return index < m->max ? m->array + index * m->value_size : NULL;
	}
	e = *shim_find(m, key);
	return e ? e->value : NULL;
}

static inline long shim_update(struct shim_map *m, const void *key, const void *value, __u64 flags)
{
	struct shim_elem **at, *e;
	void *copy;

	if (shim.before_update)
		shim.before_update(m->id);
	if (shim.refuse_update == m->id)
		return -ENOMEM;
	at = shim_find(m, key);
	if (*at && flags == BPF_NOEXIST)
		return -EEXIST;
	if (!*at && flags == BPF_EXIST)
		return -ENOENT;
	if (!*at && m->n >= m->max)
		return -E2BIG;
	copy = malloc(m->value_size);
	if (!copy)
		abort();
	memcpy(copy, value, m->value_size);
	if (*at) {
		free((*at)->value);
		(*at)->value = copy;
		return 0;
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		abort();
	memcpy(e->key, key, m->key_size);
	e->value = copy;
	*at = e;
	m->n++;
	return 0;
}

static inline long shim_delete(struct shim_map *m, const void *key)
{
	struct shim_elem **at = shim_find(m, key), *e = *at;

	if (!e)
		return -ENOENT;
	*at = e->next;
	m->n--;
	shim_elem_free(e);
	return 0;
}

#define bpf_map_lookup_elem(m, k) shim_lookup(shim_map_of(m), SHIM_TYPED(k, (m)->key))
#define bpf_map_update_elem(m, k, v, flags)                                                        \
	shim_update(shim_map_of(m), SHIM_TYPED(k, (m)->key), SHIM_TYPED(v, (m)->value), flags)
#define bpf_map_delete_elem(m, k) shim_delete(shim_map_of(m), SHIM_TYPED(k, (m)->key))

/* Entries in a map, and each of them: key and value are pointers of the map's types. */
#define shim_count(m)	    (shim_map_of(m)->n)
#define shim_limit(m, most) (shim_map_of(m)->max = (most))
#define shim_each(m, e)                                                                            \
	for (size_t bucket_ = 0; bucket_ < SHIM_BUCKETS; bucket_++)                                \
		for (struct shim_elem *e = shim_map_of(m)->buckets[bucket_]; e; e = e->next)

static inline long bpf_ringbuf_output(const void *map, const void *data, __u64 size, __u64 flags)
{
	(void)map;
	(void)flags;
	if (size > sizeof(shim.events[0]))
		abort();
	if (shim.nevents >= shim.max_events)
		return -EAGAIN;
	memcpy(shim.events[shim.nevents++], data, size);
	return 0;
}

/* Records of their own list: most tests count events and have no use for these. */
static inline void *bpf_ringbuf_reserve(const void *map, __u64 size, __u64 flags)
{
	void *record;

	(void)map;
	(void)flags;
	if (shim.nrecords >= shim.max_records)
		return NULL;
	/* Not zeroed, as the kernel's is not. */
	record = malloc(size);
	if (!record)
		abort();
	memset(record, 0xa5, size);
	return shim.records[shim.nrecords++] = record;
}

static inline void bpf_ringbuf_submit(const void *record, __u64 flags)
{
	(void)flags;
	if (record != shim.records[shim.submitted++])
		abort();
}

static inline __u64 bpf_ringbuf_query(const void *map, __u64 what)
{
	(void)map;
	return what == BPF_RB_RING_SIZE ? SHIM_RECORDS : shim.nrecords;
}

/* Make target memory at start readable; the bytes, zeroed, for the test to fill. */
static inline unsigned char *shim_mem(__u64 start, size_t size)
{
	struct shim_region *r = &shim.regions[shim.nregions++];

	if (shim.nregions > SHIM_REGIONS)
		abort();
	*r = (struct shim_region){start, size, calloc(1, size)};
	if (!r->bytes)
		abort();
	return r->bytes;
}

/* Where target address addr is on this side, if len bytes of it are readable. */
static inline unsigned char *shim_at(__u64 addr, size_t len)
{
	for (size_t i = 0; i < shim.nregions; i++) {
		const struct shim_region *r = &shim.regions[i];

		if (addr >= r->start && len <= r->size && addr - r->start <= r->size - len)
			return r->bytes + (addr - r->start);
	}
	return NULL;
}

static inline void shim_poke(__u64 addr, __u64 value)
{
	unsigned char *at = shim_at(addr, sizeof(value));

	if (!at)
		abort();
	memcpy(at, &value, sizeof(value));
}

/* As the kernel's: all or nothing, and what cannot be read becomes zeroes. */
static inline long bpf_probe_read_user(void *dst, __u32 size, const void *src)
{
	const unsigned char *at = shim_at((__u64)src, size);

	if (!size)
		return 0;
	if (++shim.reads == shim.fail_read)
		at = NULL;
	if (!at) {
		memset(dst, 0, size);
		return -EFAULT;
	}
	memcpy(dst, at, size);
	return 0;
}

static inline __u64 bpf_get_current_pid_tgid(void)
{
	return shim.id;
}

static inline __u64 bpf_get_current_task(void)
{
	return (__u64)&shim.task;
}

static inline long bpf_send_signal(__u32 signal)
{
	(void)signal;
	shim.signals += !shim.signal_error;
	return shim.signal_error;
}

static inline long bpf_get_current_comm(void *buf, __u32 size)
{
	if (size != sizeof(shim.comm))
		abort();
	memcpy(buf, shim.comm, size);
	return 0;
}

static inline __u64 bpf_ktime_get_ns(void)
{
	return ++shim.now;
}

#endif
