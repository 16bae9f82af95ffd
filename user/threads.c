// SPDX-License-Identifier: BSD-2-Clause
#include "threads.h"

#include <errno.h>
#include <string.h>

#include "hashmap.h"
#include "proc.h"
#include "pyattr.h"

#define NAME_MAX_BYTES 256
/* /proc tells times in hundredths of a second, whatever the kernel's own are. */
#define NS_PER_TICK 10000000

struct thread {
	struct frame frame;
	u64 start_ns, object;
	u32 tid;
	bool ended;
	bool from_python; /* the name is that of a Thread object */
};

struct threads {
	struct intern *names;
	struct hashmap known; /* (start, tid) -> struct thread, owned */
	struct hashmap ids;   /* tid -> how many threads had it */
	struct frame others;
};

struct threads *threads_new(struct intern *names)
{
	struct threads *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->names = names;
	t->others =
		(struct frame){intern(names, "<other threads>"), intern(names, ""), 0, FRAME_OTHER};
	return t;
}

void threads_free(struct threads *t)
{
	if (!t)
		return;
	hashmap_clear(&t->known, free);
	hashmap_clear(&t->ids, NULL);
	free(t);
}

bool threads_is_bootstrap(const struct frame *f)
{
	static const char file[] = "threading.py";
	size_t len = f->file ? strlen(f->file) : 0;

	if (f->kind != FRAME_PYTHON)
		return false;
	/* Names are qualified from 3.11 on. */
	return (!strcmp(f->function, "Thread._bootstrap") || !strcmp(f->function, "_bootstrap")) &&
	       len >= sizeof(file) - 1 && !strcmp(f->file + len - (sizeof(file) - 1), file);
}

u32 thread_frame_tid(const struct frame *f)
{
	unsigned int tid;

	return f->kind == FRAME_THREAD && sscanf(f->file, "tid %u", &tid) == 1 ? tid : 0;
}

/* 0 if the thread is still there; its comm. */
static int look(const struct pyinfo *info, const struct thread *th, char *comm, size_t size)
{
	u64 ticks;
	int err = proc_thread(info->pid, th->tid, &ticks, comm, size);

	return err ?: ticks == th->start_ns / NS_PER_TICK ? 0 : -ESRCH;
}

/* The name that its Thread object has, and the thread id that this says is its own; 0 = none. */
static int python_name(const struct pyinfo *info, const struct thread *th, char *buf, size_t size,
		       u32 *native_id)
{
	const struct pylayout *l = info->free_threaded ? NULL : pylayout_find(info->version);
	pid_t pid = (pid_t)th->tid;
	struct reader r = reader_proc(&pid);
	int err;

	if (!l || !th->object)
		return -ENOENT;
	/* Through the thread itself: the first one may have ended; or else through that. */
	err = pyattr_str(l, &r, th->object, "_name", buf, size);
	if (err == -ESRCH) {
		pid = info->pid;
		err = pyattr_str(l, &r, th->object, "_name", buf, size);
	}
	if (!err && !*buf)
		err = -ENOENT;
	if (!err && pyattr_u32(l, &r, th->object, "_native_id", native_id))
		*native_id = 0;
	return err;
}

/* True if it has another name now. */
static bool rename_to(struct threads *t, struct thread *th, const char *name)
{
	const char *own = intern(t->names, name);
	bool changed = th->frame.function != own;

	th->frame.function = own;
	return changed;
}

/*
 * Read the name of a thread.  A Thread object belongs to it for as long as it
 * runs: what was read is its name if it still runs afterwards.  If not, the
 * object may have been freed, and another one be in its place, of another thread.
 */
static bool examine(struct threads *t, const struct pyinfo *info, struct thread *th)
{
	char name[NAME_MAX_BYTES], comm[32];
	u32 native_id = 0;
	bool python = !python_name(info, th, name, sizeof(name), &native_id);

	if (look(info, th, comm, sizeof(comm))) {
		th->ended = true;
		if (!python || native_id != th->tid)
			return false;
	}
	if (python) {
		th->from_python = true;
		return rename_to(t, th, name);
	}
	if (th->from_python || (pid_t)th->tid == info->pid || !*comm)
		return false;
	return rename_to(t, th, comm);
}

static struct thread *add(struct threads *t, const struct pyinfo *info,
			  const struct pht_stack_thread *seen)
{
	uintptr_t nth = (uintptr_t)hashmap_get(&t->ids, seen->tid, 0) + 1;
	struct thread *th = calloc(1, sizeof(*th));
	char comm[sizeof(seen->comm) + 1] = "", id[48];

	if (!th)
		return NULL;
	th->tid = seen->tid;
	th->start_ns = seen->start_ns;
	memcpy(comm, seen->comm, sizeof(seen->comm));
	snprintf(id, sizeof(id), nth > 1 ? "tid %u #%lu" : "tid %u", seen->tid, (unsigned long)nth);
	th->frame.kind = FRAME_THREAD;
	th->frame.file = intern(t->names, id);
	rename_to(t, th, (pid_t)th->tid == info->pid ? "MainThread" : *comm ? comm : "?");
	if (hashmap_put(&t->ids, seen->tid, 0, (void *)nth) ||
	    hashmap_put(&t->known, seen->start_ns, seen->tid, th)) {
		free(th);
		return NULL;
	}
	return th;
}

const struct frame *threads_frame(struct threads *t, const struct pyinfo *info,
				  const struct pht_stack_thread *seen, bool python)
{
	struct thread *th;
	bool is_new;

	if (!seen->tid)
		return &t->others;
	th = hashmap_get(&t->known, seen->start_ns, seen->tid);
	is_new = !th;
	if (is_new)
		th = add(t, info, seen);
	if (!th)
		return NULL;
	if (is_new || (python && !th->object)) {
		th->object = python ? seen->object : 0;
		examine(t, info, th);
	}
	return &th->frame;
}

bool threads_refresh(struct threads *t, const struct pyinfo *info)
{
	bool changed = false;

	for (size_t i = 0; i < t->known.cap; i++) {
		struct thread *th = t->known.slots[i].value;

		if (th && !th->ended)
			changed |= examine(t, info, th);
	}
	return changed;
}
