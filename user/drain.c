// SPDX-License-Identifier: BSD-2-Clause
#include "drain.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "log.h"

#define BATCH 4096

struct rows {
	u8 *v;
	size_t n, cap, key_size, value_size;
};

static int rows_append(struct rows *rows, const u8 *keys, const u8 *values, size_t n)
{
	size_t size = rows->key_size + rows->value_size;

	if (rows->n + n > rows->cap) {
		size_t cap = (rows->n + n) * 2;
		u8 *v = realloc(rows->v, cap * size);

		if (!v)
			return -ENOMEM;
		rows->v = v;
		rows->cap = cap;
	}
	for (size_t i = 0; i < n; i++) {
		u8 *row = rows->v + (rows->n + i) * size;

		memcpy(row, keys + i * rows->key_size, rows->key_size);
		memcpy(row + rows->key_size, values + i * rows->value_size, rows->value_size);
	}
	rows->n += n;
	return 0;
}

/* Kernels since 5.6 hand out hash tables in batches; a bucket is never split. */
static int read_table(int fd, struct rows *rows)
{
	AUTO_FREE u8 *keys = malloc(BATCH * rows->key_size);
	AUTO_FREE u8 *values = malloc(BATCH * rows->value_size);
	u64 cursor = 0;
	bool first = true;
	int err;

	if (!keys || !values)
		return -ENOMEM;
	do {
		u32 n = BATCH;

		err = bpf_map_lookup_batch(fd, first ? NULL : &cursor, &cursor, keys, values, &n,
					   NULL);
		if (err && err != -ENOENT)
			return err;
		if (rows_append(rows, keys, values, n))
			return -ENOMEM;
		first = false;
	} while (!err);
	return 0;
}

static int read_counters(int fd, struct drained *out)
{
	int ncpus = libbpf_num_possible_cpus();
	AUTO_FREE u64 *values = calloc(ncpus > 0 ? ncpus : 1, sizeof(*values));

	if (!values || ncpus <= 0)
		return -ENOMEM;
	for (u32 i = 0; i < PHT_LOSS_NR + PHT_STAT_NR; i++) {
		u64 sum = 0;
		int err = bpf_map_lookup_elem(fd, &i, values);

		if (err)
			return err;
		for (int cpu = 0; cpu < ncpus; cpu++)
			sum += values[cpu];
		if (i < PHT_LOSS_NR)
			out->losses[i] = sum;
		else
			out->stats[i - PHT_LOSS_NR] = sum;
	}
	return 0;
}

int drain_tables(const struct probes *probes, struct drained *out)
{
	struct rows live = {.key_size = sizeof(struct pht_live_key),
			    .value_size = sizeof(struct pht_live)};
	struct rows sites = {.key_size = sizeof(struct pht_site_key),
			     .value_size = sizeof(struct pht_site)};
	struct rows lives = {.key_size = sizeof(struct pht_site_key),
			     .value_size = sizeof(struct pht_life)};
	struct drained d = {0};
	int err;

	err = read_table(probes_map_fd(probes, MAP_LIVE), &live) ?:
	      read_table(probes_map_fd(probes, MAP_SITES), &sites) ?:
	      read_table(probes_map_fd(probes, MAP_LIVES), &lives) ?:
	      read_counters(probes_map_fd(probes, MAP_COUNTERS), &d);
	if (err) {
		free(live.v);
		free(sites.v);
		free(lives.v);
		return log_err_r(err, "cannot read the BPF maps: %s", strerror(-err));
	}
	d.losses[PHT_LOSS_program_missed] += probes_missed(probes);
	d.live = (struct live_rec *)live.v;
	d.nlive = live.n;
	d.sites = (struct site_rec *)sites.v;
	d.nsites = sites.n;
	d.lives = (struct life_rec *)lives.v;
	d.nlives = lives.n;
	*out = d;
	return 0;
}

void drained_free(struct drained *d)
{
	free(d->live);
	free(d->sites);
	free(d->lives);
	*d = (struct drained){0};
}

int drain_peak(const struct probes *probes, u32 tgid, struct pht_peak *out)
{
	return bpf_map_lookup_elem(probes_map_fd(probes, MAP_PEAKS), &tgid, out);
}

int drain_stack(const struct probes *probes, u64 stack_id, struct pht_stack *out)
{
	return bpf_map_lookup_elem(probes_map_fd(probes, MAP_STACKS), &stack_id, out);
}

void drain_drop_live(const struct probes *probes, const struct pht_live_key *key)
{
	bpf_map_delete_elem(probes_map_fd(probes, MAP_LIVE), key);
}

void drain_forget(const struct probes *probes, const struct drained *d, pid_t pid)
{
	const u32 key_of_peak = pid;

	for (size_t i = 0; i < d->nlive; i++)
		if (d->live[i].key.tgid == (u32)pid)
			drain_drop_live(probes, &d->live[i].key);
	for (size_t i = 0; i < d->nlives; i++)
		if (d->lives[i].key.tgid == (u32)pid)
			bpf_map_delete_elem(probes_map_fd(probes, MAP_LIVES), &d->lives[i].key);
	bpf_map_delete_elem(probes_map_fd(probes, MAP_PEAKS), &key_of_peak);
	/* A stack's id holds the process. */
	for (size_t i = 0; i < d->nsites; i++) {
		const struct pht_site_key *key = &d->sites[i].key;

		if (key->tgid != (u32)pid)
			continue;
		bpf_map_delete_elem(probes_map_fd(probes, MAP_SITES), key);
		bpf_map_delete_elem(probes_map_fd(probes, MAP_STACKS), &key->stack_id);
	}
}

struct drain_events {
	struct ring_buffer *ring;
	drain_event_fn fn;
	void *ctx;
};

static int on_event(void *ctx, void *data, size_t size)
{
	const struct drain_events *events = ctx;
	const struct pht_event *ev = data;

	if (size < sizeof(*ev))
		return 0;
	/* Whoever takes it for a code record may rely on its size. */
	if (ev->type == PHT_EV_CODE && (size < sizeof(struct pht_code_head) ||
					size < ((const struct pht_code_head *)data)->size))
		return 0;
	events->fn(events->ctx, ev);
	return 0;
}

int drain_events_open(const struct probes *probes, drain_event_fn fn, void *ctx,
		      struct drain_events **out)
{
	struct drain_events *events = calloc(1, sizeof(*events));

	if (!events)
		return log_err_r(-ENOMEM, "out of memory");
	events->fn = fn;
	events->ctx = ctx;
	events->ring = ring_buffer__new(probes_map_fd(probes, MAP_EVENTS), on_event, events, NULL);
	if (!events->ring) {
		int err = -errno;

		free(events);
		return log_err_r(err, "cannot open the event ring: %s", strerror(-err));
	}
	*out = events;
	return 0;
}

int drain_events_fd(const struct drain_events *events)
{
	return ring_buffer__epoll_fd(events->ring);
}

void drain_events_consume(struct drain_events *events)
{
	ring_buffer__consume(events->ring);
}

void drain_events_close(struct drain_events *events)
{
	if (!events)
		return;
	ring_buffer__free(events->ring);
	free(events);
}
