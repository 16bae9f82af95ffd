/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who refers to an object, or to the instances of a type: every block in use
 * is searched for their addresses.  What a list, dict, set or instance keeps in
 * a block of its own is attributed to it.
 */
#ifndef PHT_CENSUS_REFS_H
#define PHT_CENSUS_REFS_H

#include "census.h"

#define CENSUS_REFS_TARGETS (1u << 21) /* more instances than that are not looked for */
#define CENSUS_REFS_BLOCKS  (1u << 20) /* data blocks that refer to one, remembered */
#define CENSUS_REFS_SHOWN   20

struct census_ref_row {
	char *module, *name; /* owned; of the referrer's type; NULL: a block of no known owner */
	u64 holders, references;
};

struct census_refs {
	char *what; /* owned: as asked for */
	u64 targets, targets_left_out;
	struct census_ref_row *row; /* owned; most references first */
	size_t nrow;
	struct {
		u64 addr, references;
		char *module, *name; /* owned */
	} holder[CENSUS_REFS_SHOWN]; /* the first that were met */
	size_t nholder;
	u64 blocks_left_out; /* data blocks that could not be remembered */
};

/*
 * what: "0x7f…" (an address), or a type's name with or without its module.
 * 0; -ENOENT (no such type), -EINVAL (no address), -errno of reading.
 */
int census_refs_find(struct census_heap *h, struct census_typer *t, const char *what,
		     struct census_refs *out);
void census_refs_free(struct census_refs *refs);
int census_refs_text(const struct census_refs *refs, size_t top, FILE *out);
int census_refs_json(const struct census_refs *refs, FILE *out);

#endif
