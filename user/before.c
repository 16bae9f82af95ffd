// SPDX-License-Identifier: BSD-2-Clause
#include "before.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "census.h"
#include "proc.h"

#define DEADLINE_NS (30ull * 1000 * 1000 * 1000)

struct before {
	struct pyinfo info; /* a copy of its own */
	struct report_before result;
	char names[REPORT_BEFORE_TYPES][64];
	atomic_bool ready;
	atomic_int users; /* the thread and the session: the last one frees */
};

static void drop(struct before *b)
{
	if (atomic_fetch_sub(&b->users, 1) > 1)
		return;
	free(b->info.object_path);
	free(b);
}

static void summarize(struct before *b, const struct census *c)
{
	struct report_before *r = &b->result;

	r->objects = c->objects;
	r->bytes = c->object_bytes;
	for (size_t i = 0; i < c->nrow && r->ntypes < REPORT_BEFORE_TYPES; i++) {
		const struct census_row *row = &c->row[i];
		bool builtin = !row->module || !strcmp(row->module, "builtins");

		if (!row->name)
			continue;
		snprintf(b->names[r->ntypes], sizeof(b->names[0]), "%s%s%s",
			 builtin ? "" : row->module, builtin ? "" : ".", row->name);
		r->types[r->ntypes].name = b->names[r->ntypes];
		r->types[r->ntypes].count = row->count;
		r->types[r->ntypes].bytes = row->bytes;
		r->ntypes++;
	}
}

static void *run(void *arg)
{
	struct before *b = arg;
	struct pytypes_known known = {0};
	struct census_opts opts = {0};
	struct proc_maps maps = {0};
	pid_t pid = b->info.pid;
	struct reader r = reader_proc(&pid);
	struct census c;
	int err = proc_maps_read(pid, &maps);

	r.deadline = reader_now() + DEADLINE_NS;
	if (!err)
		err = census_find_known(&b->info, &maps, &known);
	if (!err)
		err = census_take_reader(&b->info, &r, &maps, &known, &opts, &c);
	proc_maps_free(&maps);
	if (!err) {
		summarize(b, &c);
		census_free(&c);
		atomic_store(&b->ready, true);
	}
	drop(b);
	return NULL;
}

struct before *before_start(const struct pyinfo *info)
{
	struct before *b;
	pthread_t thread;

	/* Its objects are where no census finds them: that is not none. */
	if (info->free_threaded)
		return NULL;
	b = calloc(1, sizeof(*b));
	if (!b)
		return NULL;
	b->info = *info;
	b->info.object_path = info->object_path ? strdup(info->object_path) : NULL;
	atomic_init(&b->users, 2);
	if (pthread_create(&thread, NULL, run, b)) {
		free(b->info.object_path);
		free(b);
		return NULL;
	}
	pthread_detach(thread);
	return b;
}

const struct report_before *before_get(struct before *b)
{
	return b && atomic_load(&b->ready) ? &b->result : NULL;
}

void before_end(struct before *b)
{
	if (b)
		drop(b);
}
