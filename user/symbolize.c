// SPDX-License-Identifier: BSD-2-Clause
#include "symbolize.h"

#include <errno.h>

#include "hashmap.h"
#include "intern.h"
#include "pycode.h"

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
	u64 code_gone, name_unreadable;
};

static void code_entry_free(void *p)
{
	struct code_entry *e = p;

	pycode_free(&e->code);
	free(e);
}

static struct sym_stack *one_frame(struct symbolizer *sym, const char *what)
{
	struct sym_stack *s = calloc(1, sizeof(*s) + sizeof(s->frames[0]));

	if (!s)
		return NULL;
	s->nframes = 1;
	s->frames[0] = (struct frame){ intern(sym->names, what), intern(sym->names, ""), 0,
				       FRAME_OTHER };
	return s;
}

struct symbolizer *symbolizer_new(void)
{
	struct symbolizer *sym = calloc(1, sizeof(*sym));

	if (!sym)
		return NULL;
	sym->names = intern_new();
	sym->lost = sym->names ? one_frame(sym, "<stack lost>") : NULL;
	if (!sym->lost) {
		symbolizer_free(sym);
		return NULL;
	}
	return sym;
}

void symbolizer_free(struct symbolizer *sym)
{
	if (!sym)
		return;
	hashmap_clear(&sym->codes, code_entry_free);
	hashmap_clear(&sym->stacks, free);
	free(sym->lost);
	intern_free(sym->names);
	free(sym);
}

static struct code_entry *code_get(struct symbolizer *sym, const struct pyinfo *info,
				   const struct pht_frame *f)
{
	/* Addresses have 47 bits; the pid goes above them. */
	u64 a = f->code ^ (u64)info->pid << 47;
	u64 b = f->ident & ~PHT_IDENT_GEN;
	struct code_entry *e = hashmap_get(&sym->codes, a, b);

	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->err = pycode_read(info->pid, &info->off, f->code, f->ident, &e->code);
	if (!e->err) {
		e->file = intern(sym->names, e->code.filename);
		e->function = intern(sym->names, e->code.name);
	}
	if (hashmap_put(&sym->codes, a, b, e)) {
		code_entry_free(e);
		return NULL;
	}
	return e;
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

		*out = (struct frame){ e->function, e->file, line, FRAME_PYTHON };
		return !incomplete;
	}
	if (e && e->err == -EAGAIN)
		sym->code_gone++;
	else
		sym->name_unreadable++;
	*out = (struct frame){
		intern(sym->names, e && e->err == -EAGAIN ? "<code freed>" : "<name unreadable>"),
		intern(sym->names, ""), 0, FRAME_OTHER
	};
	return true;
}

const struct sym_stack *symbolize_stack(struct symbolizer *sym, const struct pyinfo *info,
					u64 stack_id, const struct pht_stack *stack)
{
	struct sym_stack *s = hashmap_get(&sym->stacks, stack_id, 0);
	u32 n = stack->nframes > PHT_MAX_FRAMES ? PHT_MAX_FRAMES : stack->nframes;

	if (s)
		return s;
	s = calloc(1, sizeof(*s) + n * sizeof(s->frames[0]));
	if (!s)
		return NULL;
	for (u32 i = 0; i < n; i++)
		if (resolve(sym, info, &stack->frames[i], &s->frames[s->nframes]))
			s->nframes++;
	s->truncated = stack->flags & (PHT_STACK_TRUNCATED | PHT_STACK_UNREADABLE);
	if (!s->nframes) {
		free(s);
		s = one_frame(sym, stack->flags & PHT_STACK_NO_PYTHON ?
					   "<thread without Python state>" :
					   "<no Python frames>");
		if (!s)
			return NULL;
	}
	if (hashmap_put(&sym->stacks, stack_id, 0, s)) {
		free(s);
		return NULL;
	}
	return s;
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
