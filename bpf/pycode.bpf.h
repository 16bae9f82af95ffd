/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Code objects as the unwinder sees them, on the stack of the thread that runs
 * them: the only moment at which they are known to be alive.  Hence both what
 * tells one from its successor at the same address, and its names, which are
 * sent to user space when it is first seen.
 */
#ifndef PHT_PYCODE_BPF_H
#define PHT_PYCODE_BPF_H

#include "maps.bpf.h"
#include "pht_ident.h"

/* One read from co_firstlineno on covers the pointers in every version. */
#define CODE_READ PHT_CODE_READ
/* Most names and their headers are no longer. */
#define HEAD_READ 128

/* Fields need not be aligned in the copy; the machines that BPF runs on do not mind. */
static __always_inline __u64 field_u64(const __u8 *buf, __u32 at)
{
	return pht_load_u64(buf + (at & 127));
}

static __always_inline __s32 field_s32(const __u8 *buf, __u32 at)
{
	return (__s32)pht_load_u32(buf + (at & 127));
}

/* The compiler drops bounds that it can prove; the verifier forgets how. */
static __always_inline __u64 bounded(__u64 n, __u64 max)
{
	asm volatile("" : "+r"(n));
	return n > max ? max : n;
}

struct code_pointers {
	__u64 filename, name, table;
	__s32 firstlineno;
	__u32 ident;   /* without the contents */
	__u32 version; /* 0 = none */
};

static __always_inline long code_pointers_read(const struct pht_pyoffsets *off, __u8 *buf,
					       __u64 code, struct code_pointers *out)
{
	__u32 base = off->co_firstlineno, name = off->co_qualname;

	if (bpf_probe_read_user(buf, CODE_READ, (void *)(code + base)))
		return -1;
	if (name == PHT_ABSENT)
		name = off->co_name;
	out->filename = field_u64(buf, off->co_filename - base);
	out->name = field_u64(buf, name - base);
	out->table = field_u64(buf, off->co_linetable - base);
	out->firstlineno = *(__s32 *)buf;
	out->version = off->co_version == PHT_ABSENT ? 0 : field_s32(buf, off->co_version - base);
	out->ident =
		pht_ident(field_u64(buf, off->co_name - base), out->filename, out->firstlineno);
	return 0;
}

/*
 * One read for an object's header and the beginning of its contents, where
 * what follows it can be read as well; no more than the header otherwise.
 * How many bytes it were; 0 = none.
 */
static __always_inline __u32 head_read(__u8 *buf, __u64 at, __u32 head)
{
	if (!bpf_probe_read_user(buf, HEAD_READ, (void *)at))
		return HEAD_READ;
	return bpf_probe_read_user(buf, head, (void *)at) ? 0 : head;
}

/* Of a span found in an object at `from`, `got` bytes of which are in buf.  0 = unreadable. */
static __always_inline __u64 span_hash(__u8 *buf, __u64 from, __u32 got,
				       const struct pht_span *span)
{
	__u32 n = pht_window_size(span);
	__u64 at = pht_window_at(span) - from;

	if (at + n > got) {
		at = HEAD_READ;
		if (bpf_probe_read_user(buf + HEAD_READ, bounded(n, PHT_ID_WINDOW),
					(void *)pht_window_at(span)))
			return 0;
	}
	return at <= HEAD_READ ? pht_window_hash(span, buf + at) : 0;
}

static __always_inline __u64 str_hash(const struct pht_pyoffsets *off, __u8 *buf, __u64 addr)
{
	__u64 from = addr + off->str_length;
	__u32 got = head_read(buf, from, PHT_STR_HEAD);
	struct pht_span span;

	if (!got)
		return 0;
	span = pht_str_span(off, buf, addr);
	return span.kind ? span_hash(buf, from, got, &span) : 0;
}

static __always_inline __u64 bytes_hash(const struct pht_pyoffsets *off, __u8 *buf, __u64 addr)
{
	struct pht_span span = {.at = addr + off->bytes_data};
	__u64 from = addr + off->bytes_size;
	__u32 got = head_read(buf, from, 8);

	if (!got || field_u64(buf, 0) > PHT_SPAN_MAX)
		return 0;
	span.size = field_u64(buf, 0);
	return span_hash(buf, from, got, &span);
}

/*
 * The pointers' hash with what they lead to.  A global function, for the
 * verifier: it takes no pointers, so what it needs is in the thread's scratch.
 */
__noinline int pht_contents_ident(__u32 ident, __u64 name, __u64 filename, __u64 table)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);

	if (!th)
		return ident;
	ident = pht_ident_add(ident, PHT_PART_NAME, str_hash(&th->off, th->code, name));
	ident = pht_ident_add(ident, PHT_PART_FILE, str_hash(&th->off, th->code, filename));
	return pht_ident_add(ident, PHT_PART_TABLE, bytes_hash(&th->off, th->code, table));
}

/* What tells this code object from a later one at the same address; 0 = unreadable. */
static __always_inline __u32 code_ident(const struct pht_pyoffsets *off, __u8 *buf, __u32 tgid,
					__u64 code)
{
	struct pht_code_key key = {.code = code, .tgid = tgid};
	struct code_pointers p;
	__u32 ident, *known;

	if (code_pointers_read(off, buf, code, &p))
		return 0;
	key.ident = p.version;
	if (p.version) {
		known = bpf_map_lookup_elem(&idents, &key);
		if (known)
			return *known;
	}
	ident = pht_contents_ident(p.ident, p.name, p.filename, p.table);
	if (p.version)
		bpf_map_update_elem(&idents, &key, &ident, BPF_ANY);
	return ident;
}

static __always_inline long str_find(const struct pht_pyoffsets *off, __u8 *buf, __u64 addr,
				     struct pht_span *span)
{
	if (bpf_probe_read_user(buf, PHT_STR_HEAD, (void *)(addr + off->str_length)))
		return -1;
	*span = pht_str_span(off, buf, addr);
	return span->kind ? 0 : -1;
}

static __always_inline long bytes_find(const struct pht_pyoffsets *off, __u8 *buf, __u64 addr,
				       struct pht_span *span)
{
	__u64 size;

	if (bpf_probe_read_user(buf, 8, (void *)(addr + off->bytes_size)))
		return -1;
	size = field_u64(buf, 0);
	if (size > PHT_SPAN_MAX)
		return -1;
	span->at = addr + off->bytes_data;
	span->size = size;
	span->kind = 0;
	return 0;
}

/* The contents of one record; what does not fit, or is not there, has no size. */
struct code_spans {
	struct pht_span name, file, table;
	__u32 have; /* 1 << enum pht_ident_part */
};

#define HAVE(s, part) ((s)->have & 1u << (part))

static __always_inline void code_spans_find(const struct pht_pyoffsets *off, __u8 *buf,
					    const struct code_pointers *p, struct code_spans *s)
{
	s->have = 0;
	if (!str_find(off, buf, p->name, &s->name) && s->name.size <= PHT_CODE_NAME_LARGE)
		s->have |= 1u << PHT_PART_NAME;
	if (!str_find(off, buf, p->filename, &s->file) && s->file.size <= PHT_CODE_FILE_LARGE)
		s->have |= 1u << PHT_PART_FILE;
	if (!bytes_find(off, buf, p->table, &s->table) && s->table.size <= PHT_CODE_TABLE_LARGE)
		s->have |= 1u << PHT_PART_TABLE;
}

static __always_inline bool fits(const struct code_spans *s, enum pht_ident_part part,
				 const struct pht_span *span, __u32 room)
{
	return !HAVE(s, part) || span->size <= room;
}

/* Copy a span to where it belongs in a record; its size there, or what stands for none. */
static __always_inline __u32 span_copy(const struct code_spans *s, enum pht_ident_part part,
				       const struct pht_span *span, __u8 *to, __u32 room)
{
	__u32 size = span->size;

	if (!HAVE(s, part) || size > room)
		return PHT_ABSENT;
	if (bpf_probe_read_user(to, bounded(size, room), (void *)span->at))
		return PHT_ABSENT;
	return size;
}

/*
 * Two sizes of record: what a function of a page needs, and what covers nearly
 * all.  Their fields are at fixed places, so that every bound is a constant.
 */
#define CODE_SEND(class)                                                                           \
	do {                                                                                       \
		struct pht_code_##class *rec = bpf_ringbuf_reserve(&events, sizeof(*rec), 0);      \
                                                                                                   \
		if (!rec)                                                                          \
			return -1;                                                                 \
		rec->head = head;                                                                  \
		rec->head.size = sizeof(*rec);                                                     \
		rec->head.name_size =                                                              \
			span_copy(&s, PHT_PART_NAME, &s.name, rec->name, sizeof(rec->name));       \
		rec->head.file_size =                                                              \
			span_copy(&s, PHT_PART_FILE, &s.file, rec->file, sizeof(rec->file));       \
		rec->head.table_size =                                                             \
			span_copy(&s, PHT_PART_TABLE, &s.table, rec->table, sizeof(rec->table));   \
		bpf_ringbuf_submit(rec, 0);                                                        \
	} while (0)

/* Send one code object's names; -1 when there is no room, which the reader makes up for. */
__noinline int pht_code_send(__u64 code, __u32 ident)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tgid = id >> 32;
	struct pht_proc *proc = bpf_map_lookup_elem(&procs, &tgid);
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);
	struct pht_code_head head = {.ev.type = PHT_EV_CODE};
	const struct pht_pyoffsets *off;
	struct code_pointers p;
	struct code_spans s = {0};

	if (!proc || !th)
		return -1;
	/* A part of the ring stays free for what nothing makes up for. */
	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >
	    bpf_ringbuf_query(&events, BPF_RB_RING_SIZE) / 4 * 3)
		return -1;
	off = &proc->off;
	if (code_pointers_read(off, th->code, code, &p))
		return -1;
	code_spans_find(off, th->code, &p, &s);
	head.ev.tgid = tgid;
	head.ev.value = code;
	head.ident = ident;
	head.firstlineno = p.firstlineno;
	head.name_kind = s.name.kind;
	head.file_kind = s.file.kind;
	if (off->co_firsttraceable != PHT_ABSENT)
		bpf_probe_read_user(&head.firsttraceable, sizeof(head.firsttraceable),
				    (void *)(code + off->co_firsttraceable));
	if (fits(&s, PHT_PART_NAME, &s.name, PHT_CODE_NAME_SMALL) &&
	    fits(&s, PHT_PART_FILE, &s.file, PHT_CODE_FILE_SMALL) &&
	    fits(&s, PHT_PART_TABLE, &s.table, PHT_CODE_TABLE_SMALL))
		CODE_SEND(small);
	else
		CODE_SEND(large);
	return 0;
}

/* Send the names of those code objects of the scratch stack that are new. */
__noinline int pht_codes_send(void)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct pht_thread *th = bpf_map_lookup_elem(&threads, &id);
	struct pht_code_key key = {.tgid = id >> 32};
	__u8 one = 1;

	if (!th)
		return -1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < PHT_MAX_FRAMES; i++) {
		if (i >= th->stack.nframes)
			break;
		key.code = th->stack.frames[i].code;
		key.ident = th->stack.frames[i].ident & ~PHT_IDENT_GEN;
		if (bpf_map_lookup_elem(&codes, &key))
			continue;
		if (!pht_code_send(key.code, key.ident))
			bpf_map_update_elem(&codes, &key, &one, BPF_ANY);
	}
	return 0;
}

#endif
