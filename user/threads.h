/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads of one traced process and their names.  A thread is the outermost
 * frame of the stacks that it allocated with: its name is the function, and
 * "tid 4711" the file, which tells threads of one name apart (a thread that
 * got the id of one that had ended is "tid 4711 #2").
 *
 * The name is what its threading.Thread is called, read from the target; that of
 * a thread which has none is its comm.  The first thread is MainThread.
 */
#ifndef PHT_THREADS_H
#define PHT_THREADS_H

#include "intern.h"
#include "pyinfo.h"
#include "report.h"

struct threads; /* opaque */

/* Names are interned there, which must live longer. */
struct threads *threads_new(struct intern *names); /* NULL: no memory */
void threads_free(struct threads *t);

/*
 * The frame of the thread that a stack is from; python: its outermost frame is
 * that of a thread begun by threading.  It stays where it is until
 * threads_free(), and changes in threads_refresh() only.  NULL: no memory.
 */
const struct frame *threads_frame(struct threads *t, const struct pyinfo *info,
				  const struct pht_stack_thread *seen, bool python);

/* Look whether threads that live have another name now; true if one has. */
bool threads_refresh(struct threads *t, const struct pyinfo *info);

/* Is this the outermost frame of a thread that threading began? */
bool threads_is_bootstrap(const struct frame *f);

/* The id in a frame of a thread; 0: it is none. */
u32 thread_frame_tid(const struct frame *f);

#endif
