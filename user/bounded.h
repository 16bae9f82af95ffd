/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Run something that a hostile target could block for ever (a read of memory
 * that it serves itself, a wait for a thread that never stops) in a thread of
 * its own, and stop waiting for it.  That thread takes no signals, and is the
 * ptracer of whatever fn seizes: when fn returns the thread ends, and with it
 * every attachment that fn left behind.
 */
#ifndef PHT_BOUNDED_H
#define PHT_BOUNDED_H

/*
 * fn(arg)'s result; -ETIMEDOUT if there is none after ms milliseconds: then
 * fn may still run, now or much later, and arg must never be touched or freed
 * again.  -EAGAIN: no thread could be made, fn does not run.
 */
int bounded_call(int (*fn)(void *), void *arg, unsigned ms);

#endif
