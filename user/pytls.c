// SPDX-License-Identifier: BSD-2-Clause
#include "pytls.h"

#include <errno.h>

#include "proc.h"
#include "pytls_machine.h"
#include "pythreads.h"

#define CODE_MAX 96
/* Static TLS lies close to the thread pointer; dynamic blocks are anywhere. */
#define STATIC_SPAN (16 << 20)
#define MODULES_MAX 65536
#define KEYS_MAX    1024

/* Both return the variable's value; the second came with 3.13. */
static const char *const getters[] = {"_PyThreadState_GetCurrent", "PyThreadState_GetUnchecked"};

static int find_ref(struct elf_file *elf, struct tls_ref *ref)
{
	for (size_t i = 0; i < ARRAY_SIZE(getters); i++) {
		u8 code[CODE_MAX];
		struct elf_sym sym;
		size_t len;

		if (elf_find_sym(elf, getters[i], &sym))
			continue;
		len = sym.size && sym.size < sizeof(code) ? sym.size : sizeof(code);
		/* An unsized function at the very end of the text is not worth a retry. */
		if (!elf_read(elf, sym.value, code, len) &&
		    !pytls_decode(elf_machine(elf), code, len, sym.value, ref))
			return 0;
	}
	return -ENOENT;
}

/* Where the variable is, after the dynamic linker had its say. */
struct tls_var {
	u32 kind; /* enum pht_tls_kind */
	u64 module;
	s64 offset;
};

static int from_pair(const struct pyinfo *info, u64 addr, s64 offset, struct tls_var *var)
{
	u64 pair[2];
	int err = proc_read(info->pid, addr, pair, sizeof(pair));

	if (err)
		return err;
	/* Module 0: a lazy entry that nothing has relocated yet. */
	if (!pair[0] || pair[0] > MODULES_MAX)
		return -ENOENT;
	var->kind = PHT_TLS_DTV;
	var->module = pair[0];
	var->offset = (s64)(pair[1] + (u64)offset);
	return 0;
}

static int from_tpoff(s64 tpoff, s64 offset, struct tls_var *var)
{
	var->kind = PHT_TLS_STATIC;
	var->offset = (s64)((u64)tpoff + (u64)offset);
	return var->offset > -STATIC_SPAN && var->offset < STATIC_SPAN ? 0 : -ENOENT;
}

/* A descriptor's argument is the offset itself, or points to a {module, offset} pair. */
static int from_desc(const struct pyinfo *info, u64 addr, s64 offset, struct tls_var *var)
{
	u64 desc[2];
	int err = proc_read(info->pid, addr, desc, sizeof(desc));

	if (err)
		return err;
	if (!from_tpoff((s64)desc[1], offset, var))
		return 0;
	return from_pair(info, desc[1], offset, var);
}

static int resolve(const struct pyinfo *info, const struct tls_ref *ref, struct tls_var *var)
{
	u64 got = ref->got + info->object_bias, tpoff;
	int err;

	switch (ref->kind) {
	case TLS_REF_TP:
		return from_tpoff(0, ref->offset, var);
	case TLS_REF_GOT:
		err = proc_read(info->pid, got, &tpoff, sizeof(tpoff));
		return err ? err : from_tpoff((s64)tpoff, ref->offset, var);
	case TLS_REF_PAIR:
		return from_pair(info, got, ref->offset, var);
	case TLS_REF_DESC:
		return from_desc(info, got, ref->offset, var);
	}
	return -ENOENT;
}

/*
 * The module's block in one thread.  glibc's vector has 16 bytes a module
 * {block, to_free}, and only a dynamic block has something to free; musl's
 * has 8.  -ENOENT: none yet, or dynamic.
 */
static int static_block(const struct pyinfo *info, const struct pytls_machine *m, u64 tp,
			u64 module, u64 *block)
{
	u64 dtv, entry[2] = {0};
	u64 stride = info->musl ? 8 : 16;
	int err = proc_read(info->pid, tp + m->dtv, &dtv, sizeof(dtv));

	if (!err)
		err = proc_read(info->pid, dtv + module * stride, entry, stride);
	if (err)
		return err;
	if (!entry[0] || entry[0] == UINT64_MAX || entry[1])
		return -ENOENT;
	*block = entry[0];
	return 0;
}

/* Make var static when its block is at the same place in every thread there is. */
static void reduce(const struct pyinfo *info, const struct pytls_machine *m,
		   const struct pythread *v, int n, struct tls_var *var)
{
	s64 delta = 0;

	for (int i = 0; i < n; i++) {
		u64 tp = v[i].thread_id + m->tp, block;
		s64 d;

		if (!v[i].thread_id)
			continue;
		if (static_block(info, m, tp, var->module, &block))
			return;
		d = (s64)(block - tp);
		if (!d || d <= -STATIC_SPAN || d >= STATIC_SPAN || (delta && d != delta))
			return;
		delta = d;
	}
	if (delta)
		from_tpoff(delta, var->offset, var);
}

/* Threads come and go while we look; a second look is usually whole. */
static int read_threads(const struct pyinfo *info, struct pythread *v)
{
	int n = -EFAULT;

	for (int try = 0; try < 10 && n == -EFAULT; try++) {
		if (try)
			usleep(1000);
		n = pythreads_read(info, v, PYTHREADS_MAX);
	}
	return n;
}

/*
 * What the variable may hold in a thread: 0 (no GIL), or a thread state of
 * that very thread.  False when some thread shows anything else.
 */
static bool plausible(const struct pyinfo *info, const struct pytls_machine *m,
		      const struct pythread *v, int n, const struct tls_var *var)
{
	for (int i = 0; i < n; i++) {
		u64 tp = v[i].thread_id + m->tp, value;
		bool known = false;

		/* Not bound to a thread yet. */
		if (!v[i].thread_id)
			continue;
		if (proc_read(info->pid, tp + (u64)var->offset, &value, sizeof(value)))
			return false;
		for (int k = 0; k < n && !known; k++)
			known = v[k].tstate == value && v[k].thread_id == v[i].thread_id;
		if (value && !known)
			return false;
	}
	return true;
}

/* A torn look can fail; a wrong offset fails every time. */
static bool verify(const struct pyinfo *info, const struct pytls_machine *m, struct pythread *v,
		   const struct tls_var *var)
{
	for (int try = 0; try < 10; try++) {
		int n = read_threads(info, v);

		if (n >= 0 && plausible(info, m, v, n, var))
			return true;
	}
	return false;
}

static int find_variable(struct pyinfo *info, struct elf_file *elf)
{
	AUTO_FREE struct pythread *v = calloc(PYTHREADS_MAX, sizeof(*v));
	struct pytls_machine machine;
	struct tls_var var = {0};
	struct tls_ref ref;
	int err, n;

	if (!v)
		return -ENOMEM;
	err = pytls_machine(info->pid, elf_machine(elf), &machine);
	if (!err)
		err = find_ref(elf, &ref);
	if (!err)
		err = resolve(info, &ref, &var);
	if (err)
		return err;
	/* A thread that ends meanwhile makes the reduction fail without need. */
	for (int try = 0; try < 5 && var.kind == PHT_TLS_DTV; try++) {
		n = read_threads(info, v);
		reduce(info, &machine, v, n, &var);
	}
	if (var.kind == PHT_TLS_STATIC && !verify(info, &machine, v, &var))
		return -ENOENT;
	/* The tracer walks glibc's vector only. */
	if (var.kind == PHT_TLS_DTV && info->musl)
		return -ENOENT;
	info->tls_kind = var.kind;
	info->tls_module = var.kind == PHT_TLS_DTV ? (u32)var.module : 0;
	info->tls_offset = var.offset;
	return 0;
}

/* Py_tss_t is {int _is_initialized; pthread_key_t _key}. */
static int find_key(struct pyinfo *info)
{
	u32 tss[2];
	int err;

	if (info->off.rt_autotss_key == PHT_ABSENT)
		return -ENOENT;
	err = proc_read(info->pid, info->runtime + info->off.rt_autotss_key - 4, tss, sizeof(tss));
	if (err)
		return err;
	if (tss[0] != 1 || tss[1] >= KEYS_MAX)
		return -ENOENT;
	info->tss_key = tss[1];
	return 0;
}

int pytls_find(struct pyinfo *info, struct elf_file *elf)
{
	int err = find_key(info);

	if (err != -ESRCH && err != -EPERM && info->off.rt_tstate_current == PHT_ABSENT)
		err = find_variable(info, elf);
	return err == -ESRCH || err == -EPERM ? err : 0;
}
