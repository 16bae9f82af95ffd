// SPDX-License-Identifier: BSD-2-Clause
#include "capture_decode.h"

#include <errno.h>
#include <string.h>

#include "capture_fields.h"
#include "capture_rows.h"

int decoder_init(struct decoder *d, struct stacks *stacks)
{
	*d = (struct decoder){.stacks = stacks, .names = intern_new()};
	return d->names ? 0 : -ENOMEM;
}

void decoder_free(struct decoder *d)
{
	intern_free(d->names);
	free(d->strings);
	free(d->frames.ids);
	free(d->tree.ids);
	snapshot_free(&d->now);
}

static int map_add(struct id_map *map, u32 id, u32 max)
{
	if (map->n >= max)
		return -EBADMSG;
	if (map->n == map->cap) {
		u32 cap = map->cap ? map->cap * 2 : 256;
		u32 *bigger = reallocarray(map->ids, cap, sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		map->ids = bigger;
		map->cap = cap;
	}
	map->ids[map->n++] = id;
	return 0;
}

static int add_string(struct decoder *d, const char *text)
{
	if (d->nstrings >= INTERN_MAX_STRINGS)
		return -EBADMSG;
	if (d->nstrings == d->strings_cap) {
		u32 cap = d->strings_cap ? d->strings_cap * 2 : 256;
		const char **bigger = reallocarray(d->strings, cap, sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		d->strings = bigger;
		d->strings_cap = cap;
	}
	d->strings[d->nstrings++] = intern(d->names, text);
	return 0;
}

static int decode_strings(struct decoder *d, struct inbuf *in)
{
	char text[INTERN_MAX_LENGTH + 1];

	while (in->p < in->end) {
		u64 len = get_varint(in);
		const u8 *bytes = len < sizeof(text) ? get_bytes(in, len) : NULL;
		int err;

		if (!bytes || in->failed)
			return -EBADMSG;
		memcpy(text, bytes, len);
		text[len] = '\0';
		err = add_string(d, text);
		if (err)
			return err;
	}
	return 0;
}

/* An error of the store as one of the file's. */
static int store_error(int err)
{
	return err == -E2BIG ? -EBADMSG : err;
}

static int decode_frames(struct decoder *d, struct inbuf *in)
{
	while (in->p < in->end) {
		u64 function = get_varint(in), file = get_varint(in);
		u64 line = get_varint(in), kind = get_varint(in);
		struct frame f;
		u32 id;
		int err;

		if (in->failed || function >= d->nstrings || file >= d->nstrings ||
		    line > INT32_MAX)
			return -EBADMSG;
		f = (struct frame){d->strings[function], d->strings[file], line,
				   kind > FRAME_THREAD ? FRAME_OTHER : kind};
		err = store_error(stacks_add_frame(d->stacks, &f, &id))
			      ?: map_add(&d->frames, id, STACKS_MAX_FRAMES);
		if (err)
			return err;
	}
	return 0;
}

/* The store's number of one of the file's stacks; -EBADMSG: it has no such stack. */
static int find_stack(const struct decoder *d, u64 file_id, u32 *out)
{
	if (file_id >= STACK_FIRST + (u64)d->tree.n)
		return -EBADMSG;
	*out = file_id < STACK_FIRST ? file_id : d->tree.ids[file_id - STACK_FIRST];
	return 0;
}

static int decode_stacks(struct decoder *d, struct inbuf *in)
{
	while (in->p < in->end) {
		u64 parent_id = get_varint(in), frame = get_varint(in);
		u32 parent, id;
		int err;

		if (in->failed || frame >= d->frames.n)
			return -EBADMSG;
		err = find_stack(d, parent_id, &parent) ?:
		      store_error(stacks_push(d->stacks, parent, d->frames.ids[frame], &id)) ?:
		      map_add(&d->tree, id, STACKS_MAX_NODES);
		if (err)
			return err;
	}
	return 0;
}

static void decode_loss(struct snapshot *s, struct inbuf *in)
{
	u64 count = get_varint(in);
	char name[64];

	get_text(in, name, sizeof(name));
	for (int i = 0; i < PHT_LOSS_NR; i++)
		if (!strcmp(loss_name(i), name))
			s->losses[i] = count;
}

/* True when the table had it. */
static bool decode_by_table(struct snapshot *s, u32 id, struct inbuf *in)
{
	for (size_t i = 0; i < CAPTURE_TEXTS; i++) {
		if (capture_texts[i].id != id)
			continue;
		get_text(in, field_at(s, capture_texts[i].offset), capture_texts[i].size);
		return true;
	}
	for (size_t i = 0; i < CAPTURE_NUMBERS; i++) {
		if (capture_numbers[i].id != id)
			continue;
		*(u64 *)field_at(s, capture_numbers[i].offset) = get_varint(in);
		return true;
	}
	return false;
}

static void decode_field(struct snapshot *s, u32 id, struct inbuf *in)
{
	if (decode_by_table(s, id, in))
		return;
	switch (id) {
	case FIELD_PID:
		s->pid = get_varint(in) & INT32_MAX;
		break;
	case FIELD_DURATION:
		s->duration = get_double(in);
		break;
	case FIELD_OVERHEAD:
		s->overhead = get_double(in);
		break;
	case FIELD_COVERAGE_SHARE:
		s->coverage_share = get_double(in);
		break;
	case FIELD_COVERAGE_COMPLETE:
		s->coverage_complete = get_varint(in) != 0;
		break;
	case FIELD_FINAL:
		s->final = get_varint(in) != 0;
		break;
	case FIELD_PEAK_SECONDS:
		s->peak_seconds = get_double(in);
		break;
	case FIELD_LOSS:
		decode_loss(s, in);
		break;
	default:
		break; /* from a later version of the same format */
	}
}

static int decode_head(struct inbuf *in, struct snapshot *out)
{
	struct snapshot s = {
		.overhead = -1, .coverage_share = -1, .sample_interval = 1, .peak_seconds = -1};
	struct inbuf part = {0};
	u32 id;

	while (get_section(in, &id, &part)) {
		decode_field(&s, id, &part);
		if (part.failed)
			return -EBADMSG;
	}
	if (in->failed || s.duration < 0 || s.duration > 1e12 || s.peak_seconds > 1e12)
		return -EBADMSG;
	/* The owned parts may have come before. */
	s.rows = out->rows;
	s.nrows = out->nrows;
	s.sizes = out->sizes;
	s.nsizes = out->nsizes;
	s.ages = out->ages;
	s.nages = out->nages;
	s.lives = out->lives;
	s.nlives = out->nlives;
	*out = s;
	return 0;
}

static int decode_bins(struct inbuf *in, struct snap_bin **out, size_t *n)
{
	struct snap_bin *bins = calloc(SNAP_MAX_BINS, sizeof(*bins));

	if (!bins)
		return -ENOMEM;
	free(*out);
	*out = bins;
	*n = 0;
	while (in->p < in->end) {
		u64 domain = get_varint(in), log2 = get_varint(in);
		struct snap_bin bin = {.domain =
					       domain < SNAP_DOMAINS ? domain : SNAP_DOMAIN_UNKNOWN,
				       .log2 = log2};

		bin.bytes = get_real(in);
		bin.blocks = get_real(in);
		bin.samples = get_varint(in);
		if (in->failed || *n >= SNAP_MAX_BINS || log2 > 63 || !sum_in_range(bin.bytes) ||
		    !sum_in_range(bin.blocks))
			return -EBADMSG;
		bins[(*n)++] = bin;
	}
	return 0;
}

static int decode_section(struct decoder *d, u32 id, struct inbuf *in, struct snapshot *change)
{
	switch (id) {
	case SECT_HEAD:
		return decode_head(in, change);
	case SECT_STRINGS:
		return decode_strings(d, in);
	case SECT_FRAMES:
		return decode_frames(d, in);
	case SECT_STACKS:
		return decode_stacks(d, in);
	case SECT_ROWS:
		return decode_rows(d, in, change);
	case SECT_SIZES:
		return decode_bins(in, &change->sizes, &change->nsizes);
	case SECT_AGES:
		return decode_bins(in, &change->ages, &change->nages);
	case SECT_LIVES:
		return decode_bins(in, &change->lives, &change->nlives);
	default:
		return 0;
	}
}

/* All of a block into change, of which the rows are those that changed. */
static int decode_change(struct decoder *d, struct inbuf *in, struct snapshot *change)
{
	struct inbuf part = {0};
	bool head = false;
	u32 id;

	while (get_section(in, &id, &part)) {
		int err = decode_section(d, id, &part, change);

		if (!err && part.failed)
			err = -EBADMSG;
		if (err)
			return err;
		head |= id == SECT_HEAD;
	}
	return in->failed || !head ? -EBADMSG : 0;
}

int decode_snapshot(struct decoder *d, const u8 *payload, size_t len)
{
	struct inbuf in = {.p = payload, .end = len ? payload + len : payload};
	struct snapshot change = {0};
	int err;

	if (!len)
		return -EBADMSG;
	err = decode_change(d, &in, &change) ?: apply_rows(&d->now, &change);
	if (err) {
		snapshot_free(&change);
		return err;
	}
	free(change.rows);
	change.rows = d->now.rows;
	change.nrows = d->now.nrows;
	d->now.rows = NULL;
	snapshot_free(&d->now);
	d->now = change;
	return 0;
}
