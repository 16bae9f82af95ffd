// SPDX-License-Identifier: BSD-2-Clause
/* From a process that began to one whose Python is there. */
#include "fleet_priv.h"

#include <bpf/bpf.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "pyinfo.h"
#include "session.h"

/* Python may be loaded at any time; looking for it costs more than it tells. */
#define LOOK_FIRST 1
#define LOOK_MAX   64
/* The stop signal comes by an interrupt of the processor that the process runs on. */
#define STOP_WAIT 2.0

void fleet_resume(struct fleet *f, pid_t pid)
{
	const struct timespec nap = {.tv_nsec = 50000};
	double end = monotonic_seconds() + STOP_WAIT;
	struct pht_follow e;
	u32 key = pid;

	if (bpf_map_lookup_elem(f->map, &key, &e) || !e.stopped)
		return;
	log_debug("process %d goes on", pid);
	/* A SIGCONT that came before its SIGSTOP would be for nothing. */
	while (!proc_is_stopped(pid) && monotonic_seconds() < end)
		nanosleep(&nap, NULL);
	e.stopped = 0;
	bpf_map_update_elem(f->map, &key, &e, BPF_EXIST);
	kill(pid, SIGCONT);
}

int fleet_set_entry(const struct fleet *f, pid_t pid, u64 watch, u32 set_flags, bool ready)
{
	struct pht_follow e;
	u32 key = pid;
	int err = bpf_map_lookup_elem(f->map, &key, &e);

	if (err)
		return err;
	e.watch = watch;
	e.flags = (e.flags & ~PHT_FOLLOW_ENTRY) | set_flags;
	e.ready = ready;
	return bpf_map_update_elem(f->map, &key, &e, BPF_EXIST);
}

void fleet_remove_breakpoint(struct member *m)
{
	breakpoint_remove(m->link);
	m->link = NULL;
}

void fleet_begin(struct fleet *f, struct member *m)
{
	int err = f->hooks.begin(f->hooks.ctx, m->pid);

	m->stage = err ? DONE : TRACED;
	if (!err)
		f->counts.begun++;
	else if (err == -ESRCH)
		f->counts.missed++;
	else
		f->counts.failed++;
}

/* Its Python is known: trace it now, or as soon as it is initialised. */
static void await(struct fleet *f, struct member *m, u64 word_addr)
{
	u32 word = 0;
	int err;

	m->word = word_addr;
	proc_read(m->pid, m->word, &word, sizeof(word));
	fleet_remove_breakpoint(m);
	err = fleet_set_entry(f, m->pid, m->word, 0, word);
	if (!err)
		err = breakpoint_set(f->probes, m->pid, m->word, BREAK_WRITE, &m->link);
	if (err)
		log_info("process %d: no hardware breakpoint (%s): what it holds is reported as it "
			 "is when it has ended",
			 m->pid, strerror(-err));
	if (word)
		fleet_begin(f, m);
	else
		m->stage = err ? POLLED : AWAITED;
}

static void look_later(struct member *m)
{
	m->wait = m->stage == NO_PYTHON && m->wait ? m->wait * 2 : LOOK_FIRST;
	if (m->wait > LOOK_MAX)
		m->wait = LOOK_MAX;
	m->due = monotonic_seconds() + m->wait;
	m->stage = NO_PYTHON;
}

void fleet_look(struct fleet *f, struct member *m)
{
	u64 word;
	int err = pyinfo_find_initialized(m->pid, &word);

	if (!err)
		await(f, m, word);
	else if (err == -ENOTSUP)
		fleet_begin(f, m); /* says what is wrong with it */
	else
		look_later(m);
}

/* AT_ENTRY of the auxiliary vector; 0 where there is no loader to wait for. */
static u64 entry_point(pid_t pid)
{
	AUTO_CLOSE int fd = -1;
	Elf64_auxv_t v[64];
	u64 entry = 0, base = 0;
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, v, sizeof(v));
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(v[0]); i++) {
		if (v[i].a_type == AT_ENTRY)
			entry = v[i].a_un.a_val;
		else if (v[i].a_type == AT_BASE)
			base = v[i].a_un.a_val;
	}
	return base ? entry : 0;
}

void fleet_await_loader(struct fleet *f, struct member *m)
{
	u64 word, entry;

	if (!pyinfo_find_initialized(m->pid, &word)) {
		await(f, m, word);
		return;
	}
	entry = entry_point(m->pid);
	if (entry && !breakpoint_set(f->probes, m->pid, entry, BREAK_EXEC, &m->link) &&
	    !fleet_set_entry(f, m->pid, 0, PHT_FOLLOW_ENTRY, false))
		return;
	fleet_remove_breakpoint(m);
	look_later(m);
	/* Without a breakpoint the loader must be waited for by the clock. */
	m->due = monotonic_seconds() + POLL_EVERY;
	m->wait = POLL_EVERY;
}
