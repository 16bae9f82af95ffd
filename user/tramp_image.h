/* SPDX-License-Identifier: BSD-2-Clause */
/* The code image of the trampoline: made for one set of originals, and recognised again. */
#ifndef PHT_TRAMP_IMAGE_H
#define PHT_TRAMP_IMAGE_H

#include <stdbool.h>

#include "pht_tramp.h"
#include "util.h"

enum tramp_flavour {
	TRAMP_TCB = 1,	/* per-thread words in glibc's thread block */
	TRAMP_SLOT = 2, /* per-thread words in hashed slots of the data region */
};

struct tramp_image_spec {
	enum tramp_flavour flavour;
	u64 small_max;	      /* largest mem or obj request counted before the call */
	u32 big_mode;	      /* PHT_TRAMP_BIG_* */
	u64 orig[PHT_TFN_NR]; /* 0 = this entry is not to be used */
	/*
	 * Where the page puts the originals back when it finds itself left alone, by a
	 * tracer that died or in a child of fork; 0 = nowhere.
	 */
	u64 home[PHT_TFN_TABLES];
};

/* Fill image[PHT_TRAMP_CODE_SIZE].  0, -EINVAL, or -ENOTSUP on this machine. */
int tramp_image_build(const struct tramp_image_spec *spec, u8 *image);

/*
 * Is this, byte for byte but for probes at the sites, an image that this build
 * would make?  Then its specification is stored.  The bytes come from a target.
 */
bool tramp_image_parse(const u8 *image, struct tramp_image_spec *spec);

/*
 * Parameters for a mean gap of r bytes; r <= 1 takes every call.  gen is
 * 1..PHT_TRAMP_GEN_MAX.
 */
struct pht_tramp_params tramp_params_make(u32 gen, u64 r);

#define PHT_TRAMP_R_MAX	  (1ull << 40)
#define PHT_TRAMP_GEN_MAX 0x7fffffffu

#endif
