/* SPDX-License-Identifier: BSD-2-Clause */
/* A live process as /proc shows it: mappings, memory, identity, files. */
#ifndef PHT_PROC_H
#define PHT_PROC_H

#include <stdbool.h>
#include <sys/types.h>

#include "util.h"

struct proc_map {
	u64 start, end;
	u64 offset; /* in the file */
	bool r, w, x, shared;
	u64 inode; /* 0 = anonymous */
	u32 dev_major, dev_minor;
	char *path; /* owned; "" for anonymous; " (deleted)" suffix stripped */
	bool deleted;
};

struct proc_maps {
	struct proc_map *v; /* owned, sorted by start */
	size_t n;
};

/* Read /proc/PID/maps. 0 or -errno (-ESRCH: gone). */
int proc_maps_read(pid_t pid, struct proc_maps *out);
void proc_maps_free(struct proc_maps *maps);
/* The mapping that holds addr, or NULL. */
const struct proc_map *proc_maps_find(const struct proc_maps *maps, u64 addr);

/* Read exactly len bytes of the process's memory; 0, -EFAULT, -ESRCH or -EPERM. */
int proc_read(pid_t pid, u64 addr, void *buf, size_t len);
/* Field 22 of /proc/PID/stat: with the pid it identifies a process. */
int proc_start_time(pid_t pid, u64 *ticks);
/* The same of one of its threads, and what that is called; -ESRCH: it has ended. */
int proc_thread(pid_t pid, u32 tid, u64 *ticks, char *comm, size_t len);
/*
 * The thread that has run for longest of those that have not ended, but for one
 * that is about to (0: none).  -ESRCH: there is none.
 */
int proc_oldest_thread(pid_t pid, u32 but, u32 *tid);
/* Resident set in bytes, from /proc/PID/statm. */
int proc_rss(pid_t pid, u64 *bytes);
/* NUL-terminated comm. */
int proc_comm(pid_t pid, char *buf, size_t len);
/* The value of one line of /proc/PID/status, clipped to len; -ENOENT: no such line. */
int proc_status(pid_t pid, const char *key, char *buf, size_t len);
/*
 * Is it stopped, or gone?  A first thread that has ended before the others never
 * looks stopped; then it is they who tell.
 */
bool proc_is_stopped(pid_t pid);
/* What /proc/PID/exe points to, " (deleted)" stripped; -ENOENT: a kernel thread. */
int proc_exe(pid_t pid, char *buf, size_t len);
/*
 * Open the file behind a mapping, read-only: /proc/PID/map_files first (right
 * for deleted and upgraded files and for containers), then the path through
 * /proc/PID/root.  An fd, or -errno.
 */
int proc_open_map(pid_t pid, const struct proc_map *map);

#endif
