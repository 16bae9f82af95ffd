/* SPDX-License-Identifier: BSD-2-Clause */
/* BPF maps and events -> plain records.  Beside probes.c the only user of libbpf. */
#ifndef PHT_DRAIN_H
#define PHT_DRAIN_H

#include "probes.h"

struct live_rec {
	struct pht_live_key key;
	struct pht_live v;
};

struct site_rec {
	struct pht_site_key key;
	struct pht_site v;
};

struct life_rec {
	struct pht_site_key key;
	struct pht_life v;
};

/* A copy of all tables at about one moment. */
struct drained {
	struct live_rec *live; /* owned */
	size_t nlive;
	struct site_rec *sites; /* owned */
	size_t nsites;
	struct life_rec *lives; /* owned */
	size_t nlives;
	u64 losses[PHT_LOSS_NR];
	u64 stats[PHT_STAT_NR];
};

int drain_tables(const struct probes *probes, struct drained *out);
void drained_free(struct drained *d);

/* The high-water mark of a process; -ENOENT while there is none. */
int drain_peak(const struct probes *probes, u32 tgid, struct pht_peak *out);

/* One stack by id; -ENOENT when it was never stored. */
int drain_stack(const struct probes *probes, u64 stack_id, struct pht_stack *out);
/* Delete what d holds of one process from the kernel's tables: nobody will ask for it again. */
void drain_forget(const struct probes *probes, const struct drained *d, pid_t pid);
/* A tracked block turned out to be gone. */
void drain_drop_live(const struct probes *probes, const struct pht_live_key *key);

struct drain_events; /* opaque */
typedef void (*drain_event_fn)(void *ctx, const struct pht_event *ev);
int drain_events_open(const struct probes *probes, drain_event_fn fn, void *ctx,
		      struct drain_events **out);
int drain_events_fd(const struct drain_events *events); /* readable when there are some */
void drain_events_consume(struct drain_events *events);
void drain_events_close(struct drain_events *events);

#endif
