// SPDX-License-Identifier: BSD-2-Clause
#include "pyoffsets.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define NO PHT_ABSENT

/* Two mutexes lie before these _PyRuntime fields; their size is the architecture's. */
#define AFTER_MUTEXES(x86_64) ((x86_64) + 2 * ((u32)sizeof(pthread_mutex_t) - 40))

/* What 3.8 and 3.9, and nearly 3.10, have in common: PyFrameObject as the frame. */
#define OLD_FRAMES                                                                                 \
	.rt_alloc_raw = NO, .rt_alloc_arena = NO, .in_next = 0, .in_threads_head = 8,              \
	.ts_next = 8, .ts_interp = 16, .ts_frame = 24, .cf_frame = NO, .ts_thread_id = 176,        \
	.ts_native_id = NO, .ts_status = NO, .fr_back = 24, .fr_code = 32, .fr_owner = NO,         \
	.fr_skip_owner = NO, .fr_owner_gen = NO, .code_tag_mask = 0, .co_filename = 104,           \
	.co_name = 112, .co_qualname = NO, .co_firstlineno = 40, .co_linetable = 120,              \
	.co_code_adaptive = NO, .co_firsttraceable = NO, .co_version = NO, .fr_tlbc = NO,          \
	.co_tlbc = NO

/* What all frames since 3.11 have in common. */
#define NEW_FRAMES                                                                                 \
	.ts_next = 8, .ts_interp = 16, .fr_pos = 56, .fr_owner_gen = 1,                            \
	.pos_kind = PHT_POS_INSTR_PTR, .line_kind = PHT_LINE_LOCATIONS, .co_filename = 112,        \
	.co_name = 120, .co_qualname = 128, .co_linetable = 136, .fr_tlbc = NO, .co_tlbc = NO

/* str before PEP 623 removed wstr, and after. */
#define STR_COMMON                                                                                 \
	.ob_type = 8, .tp_name = 24, .str_length = 16, .str_state = 32, .str_kind_shift = 2,       \
	.str_compact_bit = 5, .str_ascii_bit = 6, .bytes_size = 16, .bytes_data = 32
#define OLD_STR STR_COMMON, .str_data_ascii = 48, .str_data_compact = 72
#define NEW_STR STR_COMMON, .str_data_ascii = 40, .str_data_compact = 56

/* What the tables of 3.13 and newer lack, and differs between their versions only. */
#define WITH_TABLE NEW_FRAMES, .rt_tstate_current = NO, .cf_frame = NO, .fr_skip_owner = 3

/*
 * One row a minor version.  For 3.13 and newer, fields that _Py_DebugOffsets
 * has are overwritten from it; the row holds what it lacks.
 */
static const struct pht_pyoffsets rows[] = {
	[8] = {OLD_FRAMES, OLD_STR, .rt_finalizing = 16, .rt_interp_head = 32, .rt_interp_main = 40,
	       .rt_tstate_current = AFTER_MUTEXES(1368), .rt_autotss_key = AFTER_MUTEXES(1396),
	       .in_id = 16, .fr_pos = 104, .fr_locals = 360, .fr_size = 108,
	       .pos_kind = PHT_POS_LASTI_BYTES, .line_kind = PHT_LINE_LNOTAB},
	[9] = {OLD_FRAMES, OLD_STR, .rt_finalizing = 16, .rt_interp_head = 32, .rt_interp_main = 40,
	       .rt_tstate_current = AFTER_MUTEXES(568), .rt_autotss_key = AFTER_MUTEXES(588),
	       .in_id = 24, .fr_pos = 104, .fr_locals = 360, .fr_size = 108,
	       .pos_kind = PHT_POS_LASTI_BYTES, .line_kind = PHT_LINE_LNOTAB},
	[10] = {OLD_FRAMES, OLD_STR, .rt_finalizing = 16, .rt_interp_head = 32,
		.rt_interp_main = 40, .rt_tstate_current = AFTER_MUTEXES(568),
		.rt_autotss_key = AFTER_MUTEXES(588), .in_id = 24, .fr_pos = 96, .fr_locals = 352,
		.fr_size = 100, .pos_kind = PHT_POS_LASTI_UNITS, .line_kind = PHT_LINE_LINETABLE},
	[11] = {NEW_FRAMES,
		OLD_STR,
		.rt_finalizing = 24,
		.rt_interp_head = 40,
		.rt_interp_main = 48,
		.rt_tstate_current = AFTER_MUTEXES(576),
		.rt_autotss_key = AFTER_MUTEXES(596),
		.rt_alloc_raw = NO,
		.rt_alloc_arena = NO,
		.in_next = 0,
		.in_id = 48,
		.in_threads_head = 16,
		.ts_frame = 56,
		.cf_frame = 8,
		.ts_thread_id = 152,
		.ts_native_id = 160,
		.ts_status = NO,
		.fr_back = 48,
		.fr_code = 32,
		.fr_owner = 69,
		.fr_skip_owner = NO,
		.fr_locals = 72,
		.fr_size = 72,
		.co_firstlineno = 72,
		.co_code_adaptive = 184,
		.co_version = NO,
		.co_firsttraceable = 168},
	[12] = {NEW_FRAMES,
		NEW_STR,
		.rt_finalizing = 24,
		.rt_interp_head = 40,
		.rt_interp_main = 48,
		.rt_tstate_current = NO,
		.rt_autotss_key = 1548,
		.rt_alloc_raw = 96,
		.rt_alloc_arena = 360,
		.in_next = 0,
		.in_id = 8,
		.in_threads_head = 72,
		.ts_frame = 56,
		.cf_frame = 0,
		.ts_thread_id = 136,
		.ts_native_id = 144,
		.ts_status = 24,
		.fr_back = 8,
		.fr_code = 0,
		.fr_owner = 70,
		.fr_skip_owner = 3,
		.fr_locals = 72,
		.fr_size = 72,
		.co_firstlineno = 68,
		.co_code_adaptive = 192,
		.co_version = 92,
		.co_firsttraceable = 176},
	[13] = {WITH_TABLE, NEW_STR, .rt_autotss_key = 1532, .co_firsttraceable = 184,
		.co_version = 92},
	[14] = {WITH_TABLE, NEW_STR, .rt_autotss_key = 1532, .co_firsttraceable = 192,
		.co_version = 92, .code_tag_mask = 3},
	[15] = {WITH_TABLE, NEW_STR, .rt_autotss_key = NO, .co_firsttraceable = 192,
		.co_version = 92, .code_tag_mask = 3},
};

/*
 * The same for free-threaded builds: an object's header is larger by 16, and
 * from 3.14 on the interned state of a str has a byte for itself.
 */
static const struct pht_pyoffsets ft_rows[] = {
	[13] = {WITH_TABLE, .rt_autotss_key = 1532, .co_firsttraceable = 200, .co_version = 108,
		.str_kind_shift = 2, .str_compact_bit = 5, .str_ascii_bit = 6},
	[14] = {WITH_TABLE, .rt_autotss_key = 1532, .co_firsttraceable = 208, .co_version = 108,
		.code_tag_mask = 3, .str_kind_shift = 8, .str_compact_bit = 11,
		.str_ascii_bit = 12},
	[15] = {WITH_TABLE, .rt_autotss_key = NO, .co_firsttraceable = 208, .co_version = 108,
		.code_tag_mask = 3, .str_kind_shift = 8, .str_compact_bit = 11,
		.str_ascii_bit = 12},
};

/* How large an object's header is, without and with free threading. */
static const u32 header_size[] = {16, 32};

/* From interpreters.head, in every _PyRuntime that starts with _Py_DebugOffsets. */
#define HEAD_TO_MAIN	    8
#define HEAD_TO_ALLOC_RAW   72
#define HEAD_TO_ALLOC_ARENA 344

#define DEBUG_FIRST_MINOR   13
#define DEBUG_MINORS	    3
#define DEBUG_COOKIE	    "xdebugpy"
#define DEBUG_VERSION	    8
#define DEBUG_FREE_THREADED 16

/* Structs whose size the table states, and the sizes that are believable. */
enum debug_struct {
	S_RUNTIME,
	S_INTERP,
	S_THREAD,
	S_FRAME,
	S_CODE,
	S_OBJECT,
	S_TYPE,
	S_BYTES,
	S_STR,
	S_NR
};

static const struct {
	u16 pos[DEBUG_MINORS];
	u32 min, max;
} debug_structs[S_NR] = {
	[S_RUNTIME] = {{24, 24, 24}, 1024, 16 << 20},  [S_INTERP] = {{48, 48, 48}, 1024, 16 << 20},
	[S_THREAD] = {{152, 176, 176}, 160, 64 << 10}, [S_FRAME] = {{224, 248, 312}, 64, 1024},
	[S_CODE] = {{272, 312, 376}, 128, 4096},       [S_OBJECT] = {{352, 400, 464}, 16, 32},
	[S_TYPE] = {{368, 416, 480}, 128, 4096},       [S_BYTES] = {{512, 592, 688}, 33, 64},
	[S_STR] = {{536, 616, 712}, 48, 128},
};

#define MAY_LACK    0x80
#define FIELD(name) offsetof(struct pht_pyoffsets, name)

/*
 * Field, its position in the table per minor version (0: it has none), its own
 * width, its struct.  MAY_LACK: 0 says that the build does not have it.
 */
static const struct debug_field {
	u16 dst;
	u16 pos[DEBUG_MINORS];
	u8 width;
	u8 of; /* enum debug_struct */
} debug_fields[] = {
	{FIELD(rt_finalizing), {32, 32, 32}, 8, S_RUNTIME},
	{FIELD(rt_interp_head), {40, 40, 40}, 8, S_RUNTIME},
	{FIELD(in_id), {56, 56, 56}, 8, S_INTERP},
	{FIELD(in_next), {64, 64, 64}, 8, S_INTERP},
	{FIELD(in_threads_head), {72, 72, 72}, 8, S_INTERP},
	{FIELD(ts_next), {168, 192, 192}, 8, S_THREAD},
	{FIELD(ts_interp), {176, 200, 200}, 8, S_THREAD},
	{FIELD(ts_frame), {184, 208, 208}, 8, S_THREAD},
	{FIELD(ts_thread_id), {192, 216, 240}, 8, S_THREAD},
	{FIELD(ts_native_id), {200, 224, 248}, 8, S_THREAD},
	{FIELD(ts_status), {216, 240, 264}, 4, S_THREAD},
	{FIELD(fr_back), {232, 256, 320}, 8, S_FRAME},
	{FIELD(fr_code), {240, 264, 328}, 8, S_FRAME},
	{FIELD(fr_pos), {248, 272, 336}, 8, S_FRAME},
	{FIELD(fr_owner), {264, 288, 352}, 1, S_FRAME},
	{FIELD(fr_locals), {256, 280, 344}, 8, S_FRAME},
	{FIELD(co_filename), {280, 320, 384}, 8, S_CODE},
	{FIELD(co_name), {288, 328, 392}, 8, S_CODE},
	{FIELD(co_qualname), {296, 336, 400}, 8, S_CODE},
	{FIELD(co_linetable), {304, 344, 408}, 8, S_CODE},
	{FIELD(co_firstlineno), {312, 352, 416}, 4, S_CODE},
	{FIELD(co_code_adaptive), {344, 384, 448}, 1, S_CODE},
	{FIELD(fr_tlbc), {0, 304, 368}, 4, S_FRAME | MAY_LACK},
	{FIELD(co_tlbc), {0, 392, 456}, 8, S_CODE | MAY_LACK},
	{FIELD(ob_type), {360, 408, 472}, 8, S_OBJECT},
	{FIELD(tp_name), {376, 424, 488}, 8, S_TYPE},
	{FIELD(bytes_size), {520, 600, 696}, 8, S_BYTES},
	{FIELD(bytes_data), {528, 608, 704}, 1, S_BYTES},
	{FIELD(str_state), {544, 624, 720}, 4, S_STR},
	{FIELD(str_length), {552, 632, 728}, 8, S_STR},
	{FIELD(str_data_ascii), {560, 640, 736}, 1, S_STR},
};

static const u16 debug_sizes[DEBUG_MINORS] = {584, 760, 888};

static u32 minor_of(u32 version_hex)
{
	return version_hex >> 24 == 3 ? (version_hex >> 16) & 0xff : 0;
}

static u64 get_u64(const u8 *table, size_t pos)
{
	u64 value;

	memcpy(&value, table + pos, sizeof(value));
	return value;
}

size_t pyoffsets_debug_len(u32 version_hex)
{
	u32 i = minor_of(version_hex) - DEBUG_FIRST_MINOR;

	return i < DEBUG_MINORS ? debug_sizes[i] : 0;
}

int pyoffsets_debug_head(const u8 *table, size_t len, u32 *version_hex, bool *free_threaded)
{
	u64 version, ft;

	if (len < DEBUG_FREE_THREADED + 8 || memcmp(table, DEBUG_COOKIE, 8))
		return -EINVAL;
	version = get_u64(table, DEBUG_VERSION);
	ft = get_u64(table, DEBUG_FREE_THREADED);
	if (version > UINT32_MAX || version >> 24 != 3 || ft > 1)
		return -EINVAL;
	*version_hex = (u32)version;
	*free_threaded = ft;
	return 0;
}

static void set_field(struct pht_pyoffsets *o, u16 dst, u32 value)
{
	memcpy((u8 *)o + dst, &value, sizeof(value));
}

/* What the unwinder reads of a code object in one go must hold all that it looks for. */
static bool code_fits(const struct pht_pyoffsets *o)
{
	const u32 at[] = {o->co_filename, o->co_name, o->co_qualname, o->co_linetable,
			  o->co_version};

	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		if (at[i] < o->co_firstlineno || at[i] + 8 > o->co_firstlineno + PHT_CODE_READ)
			return false;
	return true;
}

/* Both that lead to a copy of the bytecode, or none. */
static bool copies_fit(const struct pht_pyoffsets *o)
{
	return (o->fr_tlbc == NO) == (o->co_tlbc == NO);
}

/* Every offset must lie, with its field, inside the struct it belongs to. */
static int apply_debug(const u8 *table, u32 col, bool free_threaded, struct pht_pyoffsets *o)
{
	u64 size[S_NR];

	for (size_t i = 0; i < S_NR; i++) {
		size[i] = get_u64(table, debug_structs[i].pos[col]);
		if (size[i] < debug_structs[i].min || size[i] > debug_structs[i].max)
			return -EINVAL;
	}
	for (size_t i = 0; i < ARRAY_SIZE(debug_fields); i++) {
		const struct debug_field *f = &debug_fields[i];
		u64 value;

		if (!f->pos[col])
			continue;
		value = get_u64(table, f->pos[col]);
		if (!value && f->of & MAY_LACK)
			continue;
		if (value > size[f->of & ~MAY_LACK] - f->width)
			return -EINVAL;
		set_field(o, f->dst, (u32)value);
	}
	if (size[S_OBJECT] != header_size[free_threaded])
		return -EINVAL;
	if (size[S_RUNTIME] < o->rt_interp_head + HEAD_TO_ALLOC_ARENA + 40u)
		return -EINVAL;
	o->rt_interp_main = o->rt_interp_head + HEAD_TO_MAIN;
	o->rt_alloc_raw = o->rt_interp_head + HEAD_TO_ALLOC_RAW;
	o->rt_alloc_arena = o->rt_interp_head + HEAD_TO_ALLOC_ARENA;
	if (o->rt_autotss_key != NO) {
		o->rt_autotss_key += o->rt_interp_head;
		if (o->rt_autotss_key + 4ull > size[S_RUNTIME])
			return -EINVAL;
	}
	/* PyUnicodeObject is PyCompactUnicodeObject and one pointer. */
	o->str_data_compact = (u32)size[S_STR] - 8;
	return code_fits(o) && copies_fit(o) && o->co_firsttraceable + 4ull <= o->co_code_adaptive
		       ? 0
		       : -EINVAL;
}

static u32 max_u32(u32 a, u32 b)
{
	return a > b ? a : b;
}

/* One read of a frame takes everything the walker uses, in whole words. */
static int set_frame_size(struct pht_pyoffsets *o)
{
	u32 end = max_u32(max_u32(o->fr_back, o->fr_code), o->fr_pos) + 8;

	end = max_u32(end, o->fr_owner + 1);
	if (o->fr_tlbc != NO)
		end = max_u32(end, o->fr_tlbc + 4);
	end = (end + 7) & ~7u;
	if (end > 128)
		return -EINVAL;
	o->fr_size = end;
	return 0;
}

int pyoffsets_fill(u32 version_hex, bool free_threaded, const u8 *debug_offsets, size_t len,
		   struct pht_pyoffsets *out)
{
	u32 minor = minor_of(version_hex), table_version;
	size_t want = pyoffsets_debug_len(version_hex);
	struct pht_pyoffsets o;
	bool table_ft;
	int err;

	if (minor < PY_MINOR_MIN || minor > PY_MINOR_MAX || (free_threaded && !want))
		return -ENOTSUP;
	o = free_threaded ? ft_rows[minor] : rows[minor];
	if (want) {
		if (!debug_offsets || len < want ||
		    pyoffsets_debug_head(debug_offsets, len, &table_version, &table_ft) ||
		    minor_of(table_version) != minor || table_ft != free_threaded)
			return -EINVAL;
		err = apply_debug(debug_offsets, minor - DEBUG_FIRST_MINOR, free_threaded, &o);
		if (!err)
			err = set_frame_size(&o);
		if (err)
			return err;
	}
	*out = o;
	return 0;
}

u32 pyoffsets_initialized(u32 version_hex, const struct pht_pyoffsets *off)
{
	/* The int before the pointer; from 3.11 on there is padding between them. */
	return off->rt_finalizing - (version_hex >= 0x030b0000 ? 8 : 4);
}

int pyoffsets_pymalloc(u32 version_hex, u32 *pool_size, u32 *arena_size)
{
	u32 minor = minor_of(version_hex);

	if (minor < PY_MINOR_MIN || minor > PY_MINOR_MAX)
		return -ENOTSUP;
	*pool_size = minor < 10 ? 4096 : 16384;
	*arena_size = minor < 10 ? 256 << 10 : 1 << 20;
	return 0;
}
