/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The one description of a CPython build that the BPF unwinder and the
 * user-space readers share.  Every field is a byte offset (or a small size);
 * a field that a version does not have holds PHT_ABSENT.  user/pyoffsets.c
 * fills it from a table (3.8-3.12) or from _Py_DebugOffsets (3.13+).
 */
#ifndef PHT_PYOFFSETS_H
#define PHT_PYOFFSETS_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define PHT_ABSENT 0xffffffffu

/* All of a code object's pointers lie within this many bytes from co_firstlineno on. */
#define PHT_CODE_READ 88

/* How a frame's position field is to be read. */
enum pht_pos_kind {
	PHT_POS_LASTI_BYTES, /* int f_lasti, in bytes (3.9 and older) */
	PHT_POS_LASTI_UNITS, /* int f_lasti, in 2-byte code units (3.10) */
	PHT_POS_INSTR_PTR,   /* pointer into the code object's bytecode (3.11+) */
};

/* How lines are encoded in the code object's line table. */
enum pht_line_kind {
	PHT_LINE_LNOTAB,    /* 3.9 and older */
	PHT_LINE_LINETABLE, /* 3.10 */
	PHT_LINE_LOCATIONS, /* 3.11+ */
};

struct pht_pyoffsets {
	/* _PyRuntime */
	__u32 rt_finalizing;
	__u32 rt_interp_head;
	__u32 rt_interp_main;
	__u32 rt_tstate_current; /* <= 3.11 */
	__u32 rt_autotss_key;	 /* u32 pthread key, <= 3.14 */
	__u32 rt_alloc_raw;	 /* allocators.standard.raw, 3.12+; mem +40, obj +80 */
	__u32 rt_alloc_arena;	 /* allocators.obj_arena, 3.12+ */
	/* PyInterpreterState */
	__u32 in_next;
	__u32 in_id;
	__u32 in_threads_head;
	/* PyThreadState */
	__u32 ts_next;
	__u32 ts_interp;
	__u32 ts_frame; /* the frame, or the cframe when cf_frame is present */
	__u32 cf_frame; /* frame pointer inside the cframe (3.11, 3.12) */
	__u32 ts_thread_id;
	__u32 ts_native_id;
	__u32 ts_status;
	/* frame */
	__u32 fr_back;
	__u32 fr_code;
	__u32 fr_pos;
	__u32 fr_owner;	     /* char, 3.11+ */
	__u32 fr_skip_owner; /* owners >= this are shims, never code (3.12+: 3) */
	__u32 fr_owner_gen;  /* owner value of generator frames (1), 3.11+ */
	__u32 fr_locals;     /* first of the local variables; not part of fr_size */
	__u32 fr_size;	     /* bytes that one read of a frame must cover */
	__u32 pos_kind;	     /* enum pht_pos_kind */
	__u32 code_tag_mask; /* low bits to clear in fr_code (3 on 3.14+, else 0) */
	__u32 fr_tlbc; /* int: which copy of the bytecode runs, 0 = co_code_adaptive (3.14t+) */
	/* PyCodeObject */
	__u32 co_filename;
	__u32 co_name;
	__u32 co_qualname; /* 3.11+ */
	__u32 co_firstlineno;
	__u32 co_linetable;
	__u32 co_code_adaptive;	 /* start of inline bytecode, 3.11+ */
	__u32 co_tlbc;		 /* -> {ssize_t n; void *copy[n]}, absent when fr_tlbc is */
	__u32 co_firsttraceable; /* int, units, 3.11+ */
	__u32 co_version;	 /* u32, 3.12+: 0, or like that of no code object before */
	__u32 line_kind;	 /* enum pht_line_kind */
	/* PyObject, str and bytes */
	__u32 ob_type;
	__u32 tp_name;
	__u32 str_length;
	__u32 str_state;
	__u32 str_kind_shift; /* bits of state: kind (3 wide), compact, ascii */
	__u32 str_compact_bit;
	__u32 str_ascii_bit;
	__u32 str_data_ascii;
	__u32 str_data_compact;
	__u32 bytes_size;
	__u32 bytes_data;
};

#endif
