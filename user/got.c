// SPDX-License-Identifier: BSD-2-Clause
#include "got.h"

#include <errno.h>
#include <string.h>

#include "elf.h"
#include "got_elf.h"
#include "got_links.h"
#include "got_reloc.h"
#include "log.h"

#define OBJECTS_MAX 4096
#define RELOCS_MAX  (1u << 25) /* of all objects together */

/* The loaded objects while they are looked through. */
struct scan {
	pid_t pid;
	const struct pyinfo *info;
	const struct proc_maps *maps;
	struct got_elf *elfs; /* owned */
	size_t n;
	struct got_links links;
	bool linked;	  /* links is valid */
	u64 phdr, interp; /* from the auxiliary vector; 0 = not there */
	u64 budget;	  /* relocations that may still be read */
	struct got_slots *out;
};

static int read_auxv(struct scan *s)
{
	AUTO_FCLOSE FILE *f = NULL;
	char path[64];
	u64 pair[2];

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)s->pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : errno == EACCES ? -EPERM : -errno;
	while (fread(pair, sizeof(pair), 1, f) == 1 && pair[0] != AT_NULL) {
		if (pair[0] == AT_PHDR)
			s->phdr = pair[1];
		else if (pair[0] == AT_BASE)
			s->interp = pair[1];
	}
	return 0;
}

static bool is_fatal(int err)
{
	return err == -ESRCH || err == -EPERM || err == -ENOMEM;
}

/* Every mapping of a file's first bytes may be an object, whether the linker lists it or not. */
static int find_objects(struct scan *s)
{
	s->elfs = calloc(OBJECTS_MAX, sizeof(*s->elfs));
	if (!s->elfs)
		return -ENOMEM;
	for (size_t i = 0; i < s->maps->n; i++) {
		const struct proc_map *m = &s->maps->v[i];
		struct got_elf *o = &s->elfs[s->n];
		int err;

		if (m->offset || !m->inode || !m->r || m->shared)
			continue;
		if (s->n == OBJECTS_MAX) {
			s->out->skipped++;
			continue;
		}
		err = got_elf_read(s->pid, s->maps, m, o);
		if (is_fatal(err))
			return err;
		if (err && err != -ENOEXEC) {
			log_debug("cannot read the dynamic section of %s", m->path);
			s->out->skipped++;
		}
		if (err)
			continue;
		o->is_exe = got_elf_has(o, s->phdr, 1);
		if (o->is_exe)
			s->out->r_debug = o->debug;
		s->n++;
	}
	return 0;
}

static int read_links(struct scan *s)
{
	int err = got_links_read(s->pid, s->out->r_debug, &s->links);

	if (is_fatal(err))
		return err;
	s->linked = !err;
	if (err) {
		s->out->r_debug = 0;
		s->out->signature = got_maps_signature(s->maps);
		s->out->settled = true;
		return 0;
	}
	s->out->brk = s->links.brk;
	s->out->signature = s->links.signature;
	s->out->settled = s->links.settled;
	return 0;
}

static bool holds(const struct scan *s, const struct got_elf *o, enum alloc_func f)
{
	return s->out->real[f] && got_elf_has(o, s->out->real[f], 1);
}

static bool holds_allocator(const struct scan *s, const struct got_elf *o)
{
	return holds(s, o, AF_MALLOC);
}

static bool is_linker(const struct scan *s, const struct got_elf *o)
{
	if (holds_allocator(s, o))
		return false; /* musl: both in one */
	return (s->interp && o->start == s->interp) ||
	       (s->linked && s->links.linker && o->start == s->links.linker);
}

static enum got_origin origin_of(const struct scan *s, const struct got_elf *o)
{
	if (o->start < s->info->object_end && s->info->object_start < o->end)
		return GOT_OF_INTERPRETER;
	return holds_allocator(s, o) ? GOT_OF_ALLOCATOR : GOT_OF_LIBRARY;
}

/* Also notes the other name's function where it is one of its own (gperftools). */
static bool defines(const struct scan *s, const struct got_elf *o, enum alloc_func f)
{
	const char *alias = got_func_alias(f);
	u64 addr;

	if (alias && got_elf_find(s->pid, o, alias, &addr)) {
		if (holds(s, o, f))
			s->out->alias[f] = addr;
		return true;
	}
	return got_elf_defines(s->pid, o, got_func_symbol(f));
}

/* A second malloc among the objects: then it takes the linker to tell where a name leads. */
static void find_definitions(const struct scan *s, struct got_elf *o)
{
	for (int f = 0; f < AF_NR; f++) {
		if (!s->out->real[f] || !defines(s, o, f))
			continue;
		o->defines |= 1ull << f;
		s->out->rival[f] |= !holds(s, o, f);
	}
}

static int add_object(struct scan *s, const struct got_elf *o)
{
	struct got_slots *out = s->out;
	struct got_object *obj = &out->objects[out->nobjects];
	size_t first = out->n;
	int err;

	*obj = (struct got_object){
		.path = strdup(o->map->path),
		.start = o->start,
		.end = o->end,
		.bias = o->bias,
		.of = origin_of(s, o),
	};
	if (!obj->path)
		return -ENOMEM;
	if (!s->linked || got_links_find(&s->links, o->dynamic, &obj->ns))
		obj->ns = GOT_NO_NAMESPACE;
	err = got_reloc_scan(s->pid, s->maps, o, (u32)out->nobjects++, &s->budget, out);
	for (size_t i = first; i < out->n; i++)
		out->v[i].of = obj->of;
	if (err && !is_fatal(err)) {
		log_debug("cannot read all relocations of %s", o->map->path);
		out->skipped++;
		err = 0;
	}
	return err;
}

static int scan_objects(struct scan *s)
{
	int err = 0;

	if (!s->n)
		return 0;
	s->out->objects = calloc(s->n, sizeof(*s->out->objects));
	if (!s->out->objects)
		return -ENOMEM;
	for (size_t i = 0; !err && i < s->n; i++) {
		if (is_linker(s, &s->elfs[i]))
			continue;
		find_definitions(s, &s->elfs[i]);
		err = add_object(s, &s->elfs[i]);
	}
	return err;
}

static void judge(const struct got_slots *slots, struct got_slot *s)
{
	u64 real = slots->real[s->func];

	s->swappable = false;
	if (real && s->value && (s->value == real || s->value == slots->alias[s->func])) {
		s->state = GOT_RESOLVED;
		s->swappable = true;
	} else if (s->stub && s->value == s->stub) {
		s->state = GOT_LAZY;
		s->swappable = real && !slots->objects[s->object].ns && !slots->rival[s->func];
	} else if (s->value && s->value == slots->via_exe[s->func]) {
		s->state = GOT_VIA_EXE;
	} else {
		s->state = GOT_OTHER;
	}
}

/* Where a pointer to the executable's PLT entry leads in the end. */
static bool exe_leads_there(const struct got_slots *slots, enum alloc_func f)
{
	for (size_t i = 0; i < slots->n; i++) {
		const struct got_slot *s = &slots->v[i];
		const struct got_object *o = &slots->objects[s->object];

		if (s->func == f && s->kind == GOT_JUMP_SLOT && slots->via_exe[f] >= o->start &&
		    slots->via_exe[f] < o->end)
			return s->swappable;
	}
	return false;
}

static void judge_all(struct got_slots *slots)
{
	bool leads[AF_NR] = {false};

	for (size_t i = 0; i < slots->n; i++)
		judge(slots, &slots->v[i]);
	for (int f = 0; f < AF_NR; f++)
		leads[f] = slots->via_exe[f] && exe_leads_there(slots, f);
	for (size_t i = 0; i < slots->n; i++)
		if (slots->v[i].state == GOT_VIA_EXE)
			slots->v[i].swappable = leads[slots->v[i].func];
}

static int run_scan(struct scan *s)
{
	int err = read_auxv(s);

	if (!err)
		err = find_objects(s);
	if (!err)
		err = read_links(s);
	if (!err)
		err = scan_objects(s);
	if (err)
		return err;
	judge_all(s->out);
	/* what changed while we looked may have been seen half */
	if (got_changed(s->pid, s->out))
		s->out->settled = false;
	return 0;
}

int got_scan(const struct pyinfo *info, const struct proc_maps *maps,
	     const struct alloc_family *heap, const struct alloc_family *mm, struct got_slots *out)
{
	struct got_slots slots = {0};
	struct scan s = {
		.pid = info->pid, .info = info, .maps = maps, .budget = RELOCS_MAX, .out = &slots};
	int err;

	for (int f = 0; f < AF_NR; f++) {
		const struct alloc_family *from = got_is_mapping(f) ? mm : heap;

		if (got_func_symbol(f) && from->f[f].vaddr)
			slots.real[f] = from->f[f].vaddr + from->bias;
	}
	if (!slots.real[AF_MALLOC])
		return -ENOENT;
	err = run_scan(&s);
	free(s.elfs);
	got_links_free(&s.links);
	if (err) {
		got_slots_free(&slots);
		return err;
	}
	*out = slots;
	return 0;
}

void got_slots_free(struct got_slots *slots)
{
	for (size_t i = 0; i < slots->nobjects; i++)
		free(slots->objects[i].path);
	free(slots->objects);
	free(slots->v);
	*slots = (struct got_slots){0};
}

int got_refresh(pid_t pid, struct got_slots *slots)
{
	for (size_t i = 0; i < slots->n; i++) {
		struct got_slot *s = &slots->v[i];
		u64 value = 0;
		int err = proc_read(pid, s->addr, &value, sizeof(value));

		if (is_fatal(err))
			return err;
		s->value = err ? 0 : value;
	}
	judge_all(slots);
	return 0;
}

bool got_changed(pid_t pid, const struct got_slots *slots)
{
	struct got_links links;
	struct proc_maps maps;
	bool changed;

	if (!slots->settled)
		return true;
	if (slots->r_debug) {
		if (got_links_read(pid, slots->r_debug, &links))
			return true;
		changed = !links.settled || links.signature != slots->signature;
		got_links_free(&links);
		return changed;
	}
	if (proc_maps_read(pid, &maps))
		return true;
	changed = got_maps_signature(&maps) != slots->signature;
	proc_maps_free(&maps);
	return changed;
}
