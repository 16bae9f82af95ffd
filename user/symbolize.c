// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize.h"

#include <errno.h>

#include "hashmap.h"
#include "intern.h"
#include "pycode.h"
#include "threads.h"

/* A code object as first seen; err tells why it has no names. */
struct code_entry {
	struct pycode code;
	const char *file, *function;
	int err;
};

struct symbolizer {
	struct intern *names;
	struct hashmap codes;  /* (tgid and address, ident) -> struct code_entry */
	struct hashmap stacks; /* stack id -> struct sym_stack */
	struct sym_stack *lost;
	struct threads *threads;
	u64 code_gone, name_unreadable;
};

static void code_entry_free(void *p)
{
	struct code_entry *e = p;

	pycode_free(&e->code);
	free(e);
}

static struct frame note(struct symbolizer *sym, const char *what)
{
	return (struct frame){intern(sym->names, what), intern(sym->names, ""), 0, FRAME_OTHER};
}

/* Room for n frames and a thread. */
static struct sym_stack *stack_new(u32 n)
{
	struct sym_stack *s;

	return calloc(1, sizeof(*s) + (n + 1) * sizeof(s->frames[0]));
}

struct symbolizer *symbolizer_new(void)
{
	struct symbolizer *sym = calloc(1, sizeof(*sym));

	if (!sym)
		return NULL;
	sym->names = intern_new();
	sym->lost = stack_new(1);
	if (sym->names)
		sym->threads = threads_new(sym->names);
	if (!sym->lost || !sym->threads) {
		symbolizer_free(sym);
		return NULL;
	}
	sym->lost->nframes = 1;
	sym->lost->frames[0] = note(sym, "<stack lost>");
	return sym;
}

void symbolizer_free(struct symbolizer *sym)
{
	if (!sym)
		return;
	hashmap_clear(&sym->codes, code_entry_free);
	hashmap_clear(&sym->stacks, free);
	free(sym->lost);
	threads_free(sym->threads);
	intern_free(sym->names);
	free(sym);
}

/* Addresses have 47 bits; the pid goes above them. */
static u64 code_key(const struct pyinfo *info, u64 code)
{
	return code ^ (u64)info->pid << 47;
}

/* Takes the entry over. */
static struct code_entry *code_put(struct symbolizer *sym, u64 key, u32 ident, struct code_entry *e)
{
	if (!e->err) {
		e->file = intern(sym->names, e->code.filename);
		e->function = intern(sym->names, e->code.name);
		/* Only the table is still needed. */
		free(TAKE_PTR(e->code.filename));
		free(TAKE_PTR(e->code.name));
	}
	if (!hashmap_put(&sym->codes, key, ident, e))
		return e;
	code_entry_free(e);
	return NULL;
}

static struct code_entry *code_get(struct symbolizer *sym, const struct pyinfo *info,
				   const struct pht_frame *f)
{
	u64 key = code_key(info, f->code);
	u32 ident = f->ident & ~PHT_IDENT_GEN;
	struct code_entry *e = hashmap_get(&sym->codes, key, ident);

	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->err = pycode_read(info->pid, &info->off, f->code, ident, &e->code);
	return code_put(sym, key, ident, e);
}

void symbolize_code(struct symbolizer *sym, const struct pyinfo *info,
		    const struct pht_code_head *rec)
{
	u64 key = code_key(info, rec->ev.value);
	struct code_entry *e;
	struct pycode whole;

	if (hashmap_get(&sym->codes, key, rec->ident))
		return;
	e = calloc(1, sizeof(*e));
	if (!e)
		return;
	e->err = pycode_from_record(rec, &e->code);
	if (e->err && !pycode_read(info->pid, &info->off, rec->ev.value, rec->ident, &whole)) {
		pycode_free(&e->code);
		e->code = whole;
		e->err = 0;
	}
	/* Names without lines are better than neither. */
	if (e->err == -EAGAIN)
		e->err = 0;
	if (e->err)
		code_entry_free(e);
	else
		code_put(sym, key, rec->ident, e);
}

/* False for frames that tracebacks leave out. */
static bool resolve(struct symbolizer *sym, const struct pyinfo *info, const struct pht_frame *f,
		    struct frame *out)
{
	const struct code_entry *e = code_get(sym, info, f);
	bool incomplete = false;

	if (e && !e->err) {
		s32 line = pycode_line(&info->off, &e->code, f->pos, f->ident & PHT_IDENT_GEN,
				       &incomplete);

		*out = (struct frame){e->function, e->file, line, FRAME_PYTHON};
		return !incomplete;
	}
	if (e && e->err == -EAGAIN)
		sym->code_gone++;
	else
		sym->name_unreadable++;
	*out = note(sym, e && e->err == -EAGAIN ? "<code freed>" : "<name unreadable>");
	return true;
}

static int add_thread(struct symbolizer *sym, const struct pyinfo *info,
		      const struct pht_stack_thread *seen, struct sym_stack *s)
{
	bool python = threads_is_bootstrap(&s->frames[s->nframes - 1]);

	s->thread = threads_frame(sym->threads, info, seen, python);
	if (!s->thread)
		return -ENOMEM;
	s->frames[s->nframes++] = *s->thread;
	return 0;
}

const struct sym_stack *symbolize_stack(struct symbolizer *sym, const struct pyinfo *info,
					u64 stack_id, const struct pht_stack *stack)
{
	struct sym_stack *s = hashmap_get(&sym->stacks, stack_id, 0);
	u32 n = stack->nframes > PHT_MAX_FRAMES ? PHT_MAX_FRAMES : stack->nframes;

	if (s)
		return s;
	s = stack_new(n ? n : 1);
	if (!s)
		return NULL;
	for (u32 i = 0; i < n; i++)
		if (resolve(sym, info, &stack->frames[i], &s->frames[s->nframes]))
			s->nframes++;
	s->truncated = stack->flags & (PHT_STACK_TRUNCATED | PHT_STACK_UNREADABLE);
	if (!s->nframes)
		s->frames[s->nframes++] = note(sym, stack->flags & PHT_STACK_NO_PYTHON
							    ? "<thread without Python state>"
							    : "<no Python frames>");
	if ((stack->thread.known && add_thread(sym, info, &stack->thread, s)) ||
	    hashmap_put(&sym->stacks, stack_id, 0, s)) {
		free(s);
		return NULL;
	}
	return s;
}

void symbolizer_refresh(struct symbolizer *sym, const struct pyinfo *info)
{
	if (!threads_refresh(sym->threads, info))
		return;
	for (size_t i = 0; i < sym->stacks.cap; i++) {
		struct sym_stack *s = sym->stacks.slots[i].value;

		if (s && s->thread)
			s->frames[s->nframes - 1] = *s->thread;
	}
}

const struct sym_stack *symbolizer_get(const struct symbolizer *sym, u64 stack_id)
{
	return hashmap_get(&sym->stacks, stack_id, 0);
}

const struct sym_stack *symbolizer_lost(const struct symbolizer *sym)
{
	return sym->lost;
}

void symbolizer_losses(const struct symbolizer *sym, u64 losses[PHT_LOSS_NR])
{
	losses[PHT_LOSS_code_gone] += sym->code_gone;
	losses[PHT_LOSS_name_unreadable] += sym->name_unreadable + intern_refused(sym->names);
}
