/* SPDX-License-Identifier: BSD-2-Clause */
/* A code object read out of a target. */
#ifndef PHT_PYCODE_H
#define PHT_PYCODE_H

#include <stdbool.h>
#include <sys/types.h>

#include "pht_abi.h"
#include "util.h"

#define PYCODE_PATH_CLIP 4096
#define PYCODE_NAME_CLIP 1024

struct pycode {
	char *filename; /* owned, UTF-8, undecodable parts as \xNN, clipped to 4 KiB */
	char *name;	/* co_qualname where there is one, else co_name; owned, clipped to 1 KiB */
	s32 firstlineno;
	s32 firsttraceable; /* code units; 0 before 3.11 */
	u8 *linetable;	    /* owned, at most 1 MiB */
	size_t linetable_len;
	u32 ident; /* as pht_frame.ident, bit 0 clear */
};

/*
 * Read the code object at addr.  The ident is taken before and after, so a
 * code object that is replaced meanwhile gives -EAGAIN, and so does one whose
 * ident is not want_ident (bit 0 is ignored).  0, -EAGAIN, -EFAULT, -ESRCH, -EINVAL.
 */
int pycode_read(pid_t pid, const struct pht_pyoffsets *off, u64 addr, u32 want_ident,
		struct pycode *out);
/* What pht_frame.ident would be now, bit 0 clear. */
int pycode_ident(pid_t pid, const struct pht_pyoffsets *off, u64 addr, u32 *out);
/*
 * The same from a record that the unwinder sent.  -EAGAIN: the names are
 * there but the line table is not, or (*out untouched) -ENODATA: nor are they.
 */
int pycode_from_record(const struct pht_code_head *rec, struct pycode *out);
void pycode_free(struct pycode *code);

/*
 * Line of a frame position (pht_frame.pos) or 0 when the table gives none.
 * *incomplete is set for frames that tracebacks leave out (before the first
 * traceable instruction; not for generators).
 */
s32 pycode_line(const struct pht_pyoffsets *off, const struct pycode *code, s32 pos, bool generator,
		bool *incomplete);

/* n bytes of code points of kind (1, 2 or 4) bytes into a new UTF-8 string of at most max bytes. */
int pystr_decode(const u8 *raw, size_t n, unsigned kind, size_t max, char **out);

/* Read a str object into a new UTF-8 string. */
int pystr_read(pid_t pid, const struct pht_pyoffsets *off, u64 addr, size_t max, char **out);

#endif
