// SPDX-License-Identifier: BSD-2-Clause
#include "tramp_image.h"

#include <errno.h>
#include <string.h>

#ifdef __x86_64__
extern const u8 pht_tramp_tcb_start[], pht_tramp_slot_start[];
extern const struct pht_tramp_fix pht_tramp_tcb_fix[], pht_tramp_tcb_fix_end[];
extern const struct pht_tramp_fix pht_tramp_slot_fix[], pht_tramp_slot_fix_end[];

static const struct source {
	const u8 *code;
	const struct pht_tramp_fix *fix, *fix_end;
} sources[] = {
	[TRAMP_TCB] = {pht_tramp_tcb_start, pht_tramp_tcb_fix, pht_tramp_tcb_fix_end},
	[TRAMP_SLOT] = {pht_tramp_slot_start, pht_tramp_slot_fix, pht_tramp_slot_fix_end},
};
#else
static const struct source {
	const u8 *code;
	const struct pht_tramp_fix *fix, *fix_end;
} sources[1];
#endif

static void fill_operands(const struct source *src, const struct tramp_image_spec *spec, u8 *image)
{
	const u32 small = spec->small_max < INT32_MAX ? (u32)spec->small_max : INT32_MAX;

	for (const struct pht_tramp_fix *f = src->fix; f < src->fix_end; f++) {
		if (f->what == PHT_FIX_SMALL)
			memcpy(image + f->at, &small, sizeof(small));
		else
			memcpy(image + f->at, &spec->orig[f->what], sizeof(spec->orig[0]));
	}
}

/*
 * log2(1 + i / 256) with 32 bits of fraction, by repeated squaring: integers
 * only, so that every build and every libm makes the same image.
 */
static u64 log2_fraction(u32 i)
{
	u64 x = (u64)(256 + i) << 23; /* 1.31 */
	u64 frac = 0;

	for (int bit = 0; bit < 32; bit++) {
		x = (x * x) >> 31;
		frac <<= 1;
		if (x >> 32) {
			frac |= 1;
			x >>= 1;
		}
	}
	return frac;
}

struct log2_step {
	u32 base;
	u32 delta;
};

static void fill_log2(struct log2_step *table)
{
	for (u32 i = 0; i < 256; i++) {
		u64 next = i == 255 ? 1ull << 32 : log2_fraction(i + 1);

		table[i].base = (u32)log2_fraction(i);
		table[i].delta = (u32)(next - table[i].base);
	}
}

int tramp_image_build(const struct tramp_image_spec *spec, u8 *image)
{
	struct pht_tramp_header hdr = {
		.magic = PHT_TRAMP_MAGIC,
		.version = PHT_TRAMP_VERSION,
		.flavour = spec->flavour,
		.small_max = spec->small_max,
		.big_mode = spec->big_mode,
	};
	struct log2_step table[256];
	const struct source *src;

	_Static_assert(sizeof(hdr) <= PHT_TRAMP_LOG2, "header");
	_Static_assert(PHT_TRAMP_LOG2 + sizeof(table) <= PHT_TRAMP_TEXT, "table");
	if (spec->flavour >= ARRAY_SIZE(sources) || !sources[spec->flavour].code)
		return -ENOTSUP;
	src = &sources[spec->flavour];
	if (spec->big_mode != PHT_TRAMP_BIG_RAW && spec->big_mode != PHT_TRAMP_BIG_COUNT)
		return -EINVAL;
	memcpy(hdr.orig, spec->orig, sizeof(hdr.orig));
	memcpy(hdr.home, spec->home, sizeof(hdr.home));
	fill_log2(table);
	memcpy(image, src->code, PHT_TRAMP_CODE_SIZE);
	fill_operands(src, spec, image);
	memcpy(image, &hdr, sizeof(hdr));
	memcpy(image + PHT_TRAMP_LOG2, table, sizeof(table));
	return 0;
}

/*
 * What stands at the sites is the kernel's while a probe is there: that of a
 * living tracer, or of one that is about to be gone.
 */
static void take_sites(u8 *image, const u8 *from)
{
	static const u8 lengths[] = {
		[PHT_SITE_NOP1] = 1,
		[PHT_SITE_NOP5] = 5,
		[PHT_SITE_NOP10] = 10,
	};

	for (u32 kind = PHT_SITE_NOP1; kind < ARRAY_SIZE(lengths); kind++) {
		memcpy(image + PHT_SITE_ALLOC(kind), from + PHT_SITE_ALLOC(kind), lengths[kind]);
		memcpy(image + PHT_SITE_FREE(kind), from + PHT_SITE_FREE(kind), lengths[kind]);
	}
}

bool tramp_image_parse(const u8 *image, struct tramp_image_spec *spec)
{
	struct tramp_image_spec s = {0};
	struct pht_tramp_header hdr;
	AUTO_FREE u8 *want = malloc(PHT_TRAMP_CODE_SIZE);

	memcpy(&hdr, image, sizeof(hdr));
	if (!want || hdr.magic != PHT_TRAMP_MAGIC || hdr.version != PHT_TRAMP_VERSION)
		return false;
	if (hdr.flavour != TRAMP_TCB && hdr.flavour != TRAMP_SLOT)
		return false;
	s.flavour = hdr.flavour;
	s.small_max = hdr.small_max;
	s.big_mode = hdr.big_mode;
	memcpy(s.orig, hdr.orig, sizeof(s.orig));
	memcpy(s.home, hdr.home, sizeof(s.home));
	if (tramp_image_build(&s, want))
		return false;
	take_sites(want, image);
	if (memcmp(want, image, PHT_TRAMP_CODE_SIZE))
		return false;
	*spec = s;
	return true;
}

struct pht_tramp_params tramp_params_make(u32 gen, u64 r)
{
	struct pht_tramp_params par = {.gen = gen, .min = 1, .r = r};

	if (r <= 1) {
		par.min = 0;
		par.r = 1;
		return par;
	}
	if (par.r > PHT_TRAMP_R_MAX)
		par.r = PHT_TRAMP_R_MAX;
	/* 5814540 = ln 2 * 2^23; r has at most 41 bits. */
	par.k = par.r * 5814540 / 128;
	return par;
}
