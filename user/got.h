/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The words through which loaded objects call malloc and mmap and their kin: slots of
 * their global offset tables, and pointers in their data that the dynamic
 * linker filled in.  Found and watched from outside; nothing is injected.
 *
 * What to put into a slot.  The address of a function with the same signature
 * that ends in the allocator's own (got_slots.real): also into a slot that is
 * still lazy, which then is never resolved.  To undo, put back the value that
 * was replaced; a stub put back is resolved at the next call as ever.  Leave
 * alone what no longer holds the value that was put in.
 *
 * Who else writes to a slot.
 *  - The linker's lazy resolver: a thread that entered a stub before the swap
 *    writes the allocator's address after it.  Nothing breaks, calls go unseen:
 *    got_refresh() shows the slot RESOLVED again, swap it again.
 *  - dlclose() unmaps the slot, and dlopen() of the same file brings it back
 *    with fresh values, often at the same address.  got_changed() sees most of
 *    that, got_refresh() the rest.  A thread of the target that is sent to
 *    exchange the word may fault if another unloads the object just then: the
 *    tracer, who sees that signal first, must skip the word and drop the signal.
 *  - Data pointers (GOT_DATA, writable) belong to the program, which may store
 *    to them at any time: only an atomic exchange within the target is safe.
 *  - Other tools that hook: their slots are GOT_OTHER and never swappable.
 *
 * How to write.  Words on writable pages: an exchange by a stopped thread of
 * the target (pht_tramp_swap).  Others (RELRO): got_write().
 */
#ifndef PHT_GOT_H
#define PHT_GOT_H

#include <stdbool.h>

#include "allocfind.h"
#include "proc.h"
#include "pyinfo.h"

enum got_kind {
	GOT_JUMP_SLOT, /* what a PLT entry jumps through */
	GOT_GLOB_DAT,  /* -fno-plt, and addresses taken in code */
	GOT_DATA,      /* an initialised function pointer */
};

enum got_state {
	GOT_RESOLVED, /* holds the allocator's function */
	GOT_LAZY,     /* not called yet: points at its own PLT entry's tail */
	GOT_VIA_EXE,  /* points at the executable's PLT entry, which stands for the function */
	GOT_OTHER,    /* somebody else's function: ours, an interposer's, or unknown */
};

/* Whose word it is. */
enum got_origin {
	GOT_OF_LIBRARY,
	GOT_OF_INTERPRETER, /* its requests are counted in CPython's allocator tables already */
	GOT_OF_ALLOCATOR,   /* the object that serves malloc: libc's strdup(), getline() ... */
};

#define GOT_NO_NAMESPACE UINT32_MAX

struct got_object {
	char *path;	/* owned; as the target sees it */
	u64 start, end; /* in the target */
	u64 bias;
	enum got_origin of;
	u32 ns; /* link namespace: 0 = where the program lives; GOT_NO_NAMESPACE: not listed */
};

struct got_slot {
	u64 addr;  /* in the target, 8-aligned */
	u64 value; /* what it holds */
	u64 stub;  /* its value while lazy; 0 = never seen lazy */
	enum alloc_func func;
	enum got_kind kind;
	enum got_state state;
	enum got_origin of;
	u32 object;	/* index into got_slots.objects */
	bool writable;	/* its page is writable now: exchange it within the target */
	bool relro;	/* in the part that the linker makes read-only after start-up */
	bool swappable; /* surely serves the allocator, see got_scan() */
	/* The object's data segment and file, by which got_write() knows the place. */
	u64 seg_start, seg_end;
	u64 inode;
	u32 dev_major, dev_minor;
};

struct got_slots {
	struct got_slot *v; /* owned, by object */
	size_t n;
	struct got_object *objects; /* owned: those that were read, with slots or without */
	size_t nobjects;
	u32 skipped;	   /* objects that could not be read */
	u64 brk;	   /* the linker calls this after each change (a place to watch); or 0 */
	u64 real[AF_NR];   /* the allocator's functions; 0 = it has none or not looked for */
	u64 alias[AF_NR];  /* the same under its other name, if it has one */
	bool rival[AF_NR]; /* another object offers one of that name */
	u64 via_exe[AF_NR];
	/* For got_changed(). */
	u64 r_debug, signature;
	bool settled; /* no object was being loaded or unloaded meanwhile */
};

/*
 * Find the slots of every loaded object, in all link namespaces, without the
 * dynamic linker's own; info->pid, and its object's range, which may be empty,
 * is all that is used of info.
 *
 * swappable: the slot holds the allocator's function; or it is lazy and there
 * is only one that it can be resolved to: it is in the program's own namespace
 * and no other object offers a function of that name.  Any other lazy slot
 * becomes swappable (see got_refresh) after its first call.
 *
 * 0, -ENOENT (heap has no malloc), -ENOMEM, -ESRCH, -EPERM.
 */
int got_scan(const struct pyinfo *info, const struct proc_maps *maps,
	     const struct alloc_family *heap, const struct alloc_family *mm, struct got_slots *out);
void got_slots_free(struct got_slots *slots);

/*
 * Read the values again and judge them anew.  A slot that is gone is
 * GOT_OTHER with the value 0.  0, -ESRCH, -EPERM.
 */
int got_refresh(pid_t pid, struct got_slots *slots);

/*
 * Have objects been loaded or unloaded since?  True also when that cannot be
 * told.  A few microseconds an object: cheap enough for once a second.
 * Namespaces that an old linker (glibc before 2.35) does not list are scanned
 * but not watched.
 */
bool got_changed(pid_t pid, const struct got_slots *slots);

/*
 * Put value into a slot that holds expect, through /proc/PID/mem, which
 * writes to read-only private pages too: the target gets a copy of the page,
 * the file and other processes see nothing.  The place is checked against the
 * target's mappings of now: inside the data segment of the object that the
 * slot was found in, private, not executable.  Compare and write are two
 * steps, so not for writable data (see above).
 *
 * 0; -EAGAIN: holds something else, untouched; -ESTALE: the object is not
 * there any more; -EPERM: the kernel does not let us (some allow it only to
 * a tracer that is attached); -EIO: the value did not stay; -ESRCH.
 */
int got_write(pid_t pid, const struct got_slot *slot, u64 expect, u64 value);

/* The trampoline's entry (PHT_TFN_*) for a function, or -ENOENT. */
int got_entry(enum alloc_func func);
/* mmap, munmap, mremap: served by the C library, whoever serves malloc. */
bool got_is_mapping(enum alloc_func func);

#endif
