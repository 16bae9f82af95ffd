// SPDX-License-Identifier: BSD-2-Clause
#include "pythreads.h"

#include "proc.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define MAX_INTERPS 64
/* Enough to believe a chain, and a bound on the work that a crafted target can cause. */
#define MAX_DEPTH 256
#define MAX_WALKS 16
#define MAX_FRAME 128
#define MAX_NAME  65536

static int read_u64(const struct pyinfo *info, u64 addr, u64 *out)
{
	return proc_read(info->pid, addr, out, sizeof(*out));
}

/* addr + off of a field that this version has. */
static int read_field(const struct pyinfo *info, u64 addr, u32 off, u64 *out)
{
	return read_u64(info, addr + off, out);
}

static int read_frame_head(const struct pyinfo *info, u64 tstate, u64 *frame)
{
	const struct pht_pyoffsets *o = &info->off;
	u64 at;
	int err = read_field(info, tstate, o->ts_frame, &at);

	if (!err && o->cf_frame != PHT_ABSENT)
		err = at ? read_field(info, at, o->cf_frame, &at) : 0;
	if (!err)
		*frame = at;
	return err;
}

static int read_thread(const struct pyinfo *info, u64 tstate, u64 interp, struct pythread *t)
{
	const struct pht_pyoffsets *o = &info->off;
	int err = read_field(info, tstate, o->ts_interp, &t->interp);

	if (!err)
		err = read_field(info, tstate, o->ts_thread_id, &t->thread_id);
	if (!err)
		err = read_frame_head(info, tstate, &t->frame);
	t->tstate = tstate;
	return err ? err : t->interp == interp ? 0 : -EFAULT;
}

int pythreads_read(const struct pyinfo *info, struct pythread *v, size_t max)
{
	const struct pht_pyoffsets *o = &info->off;
	u64 interp, tstate;
	size_t n = 0;
	int err = read_field(info, info->runtime, o->rt_interp_head, &interp);

	for (int i = 0; !err && interp; i++) {
		if (i == MAX_INTERPS)
			return -EFAULT;
		err = read_field(info, interp, o->in_threads_head, &tstate);
		while (!err && tstate && n < max) {
			err = read_thread(info, tstate, interp, &v[n++]);
			if (!err)
				err = read_field(info, tstate, o->ts_next, &tstate);
		}
		if (!err)
			err = read_field(info, interp, o->in_next, &interp);
	}
	return err ? err : (int)n;
}

/* A compact str of believable length. */
static bool is_name(const struct pyinfo *info, u64 addr)
{
	const struct pht_pyoffsets *o = &info->off;
	u32 state, kind;
	u64 len;

	if (!addr || addr & 7 || proc_read(info->pid, addr + o->str_state, &state, sizeof(state)) ||
	    read_field(info, addr, o->str_length, &len))
		return false;
	kind = (state >> o->str_kind_shift) & 7;
	return (state >> o->str_compact_bit) & 1 && (kind == 1 || kind == 2 || kind == 4) &&
	       len <= MAX_NAME;
}

static bool is_code(const struct pyinfo *info, u64 addr)
{
	static const char code[] = "code";
	const struct pht_pyoffsets *o = &info->off;
	u64 type, name, co_name, co_filename;
	char text[sizeof(code)];

	if (!addr || addr & 7 || read_field(info, addr, o->ob_type, &type) ||
	    read_field(info, type, o->tp_name, &name) ||
	    proc_read(info->pid, name, text, sizeof(text)) || memcmp(text, code, sizeof(code)))
		return false;
	return !read_field(info, addr, o->co_name, &co_name) &&
	       !read_field(info, addr, o->co_filename, &co_filename) && is_name(info, co_name) &&
	       is_name(info, co_filename);
}

static u64 word_at(const u8 *frame, u32 off)
{
	u64 value;

	memcpy(&value, frame + off, sizeof(value));
	return value;
}

enum verdict { GOOD, IDLE, BAD };

/*
 * Down to the end of the chain, which must have a frame with code.  A thread that
 * runs none has only the frame at the bottom of every stack (3.15), a shim.
 */
static enum verdict walk(const struct pyinfo *info, u64 frame)
{
	const struct pht_pyoffsets *o = &info->off;
	u8 buf[MAX_FRAME];
	int n = 0, depth;

	if (o->fr_size > sizeof(buf))
		return BAD;
	for (depth = 0; frame && depth < MAX_DEPTH; depth++) {
		bool shim;
		u64 back;

		if (proc_read(info->pid, frame, buf, o->fr_size))
			return BAD;
		shim = o->fr_owner != PHT_ABSENT && buf[o->fr_owner] >= o->fr_skip_owner;
		if (!shim) {
			if (!is_code(info, word_at(buf, o->fr_code) & ~(u64)o->code_tag_mask))
				return BAD;
			n++;
		}
		back = word_at(buf, o->fr_back);
		if (back == frame)
			return BAD;
		frame = back;
	}
	return n ? GOOD : depth == 1 ? IDLE : BAD;
}

/* One look at the whole process. */
static int look(const struct pyinfo *info, struct pythread *v, enum verdict *verdict)
{
	int n = pythreads_read(info, v, PYTHREADS_MAX);

	*verdict = IDLE;
	if (n == -ESRCH || n == -EPERM)
		return n;
	if (n < 0)
		*verdict = BAD;
	for (int i = 0, walks = 0; i < n && *verdict != GOOD && walks < MAX_WALKS; i++) {
		enum verdict seen;

		if (!v[i].frame)
			continue;
		walks++;
		seen = walk(info, v[i].frame);
		if (seen != IDLE)
			*verdict = seen;
	}
	return 0;
}

int pythreads_check(const struct pyinfo *info)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	AUTO_FREE struct pythread *v = calloc(PYTHREADS_MAX, sizeof(*v));
	enum verdict verdict = BAD;
	int err = 0;

	if (!v)
		return -ENOMEM;
	/* A running target is seen torn now and then; wrong offsets fail every time. */
	for (int try = 0; try < 50 && !err && verdict == BAD; try++) {
		if (try)
			nanosleep(&pause, NULL);
		err = look(info, v, &verdict);
	}
	if (err)
		return err;
	return verdict == BAD ? -ENOTSUP : 0;
}
