// SPDX-License-Identifier: BSD-2-Clause
/* pyheaptrace record: trace a process into a capture file. */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "capture.h"
#include "commands.h"
#include "estimate.h"
#include "log.h"
#include "opts_value.h"
#include "report_units.h"
#include "session.h"
#include "trace.h"

static const char help[] =
	"Usage: pyheaptrace record -p PID -o FILE [options]\n"
	"\n"
	"Records what a running Python program holds into FILE: a snapshot every so often,\n"
	"complete with names, to be looked at later and elsewhere (pyheaptrace report, diff,\n"
	"export).  The file stays below 17 MiB or so however long the recording: when there are\n"
	"too many snapshots, every other one is dropped.  It is readable at any time, also\n"
	"when the recording was killed.\n"
	"\n"
	"  -p, --pid PID                process to trace\n"
	"  -o, --output FILE            the capture; - for standard output, where no snapshot is\n"
	"                               ever dropped and so the size is not bounded\n"
	"  -d, --duration TIME          stop after TIME: 10, 1.5, 90s, 2m, 1h (default: at "
	"Ctrl-C)\n"
	"      --every TIME             a snapshot every TIME (default 10; the first after 1)\n"
	"  -R, --sample-interval BYTES  one sample per BYTES allocated, on average (default 512K;\n"
	"                               1 = every allocation)\n"
	"      --threads                keep threads apart, for --group-by thread later on\n"
	"      --temporary MS           count what is freed within MS milliseconds as temporary\n"
	"                               (default 10)\n"
	"      --seed N                 seed of the sampling, for runs that can be repeated\n"
	"      --collector NAME         auto, trampoline, probe or growth (default auto)\n"
	"      --max-overhead PCT       refuse or narrow rather than slow the program down by\n"
	"                               more than PCT percent (default 5)\n"
	"  -v, --verbose                say what is being done; twice: in detail\n"
	"  -h, --help                   print this\n"
	"\n"
	"Examples:\n"
	"  sudo pyheaptrace record -p 4242 -o heap.pht -d 10m\n"
	"  pyheaptrace report table heap.pht\n"
	"  pyheaptrace diff heap.pht --from 0 --to last\n";

enum { OPT_EVERY = 256, OPT_SEED, OPT_COLLECTOR, OPT_MAX_OVERHEAD, OPT_TEMPORARY, OPT_THREADS };

static const struct option longs[] = {
	{"pid", required_argument, NULL, 'p'},
	{"output", required_argument, NULL, 'o'},
	{"duration", required_argument, NULL, 'd'},
	{"every", required_argument, NULL, OPT_EVERY},
	{"sample-interval", required_argument, NULL, 'R'},
	{"seed", required_argument, NULL, OPT_SEED},
	{"temporary", required_argument, NULL, OPT_TEMPORARY},
	{"threads", no_argument, NULL, OPT_THREADS},
	{"collector", required_argument, NULL, OPT_COLLECTOR},
	{"max-overhead", required_argument, NULL, OPT_MAX_OVERHEAD},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static const struct opts_choice collectors[] = {
	{"auto", COLLECT_AUTO},
	{"trampoline", COLLECT_TRAMPOLINE},
	{"probe", COLLECT_PROBE},
	{"growth", COLLECT_GROWTH},
	{0},
};

static int usage(const char *what)
{
	log_error("record: %s (see pyheaptrace record --help)", what);
	return -EINVAL;
}

static int set_collector(struct opts *o)
{
	int value, err = opts_value_choice("--collector", optarg, collectors, &value);

	if (!err)
		o->collector = (enum opts_collector)value;
	return err;
}

/* 0, 1 (help was printed) or -EINVAL after one line. */
static int set_option(int c, struct opts *o)
{
	switch (c) {
	case 'p':
		return opts_value_pids("--pid", optarg, o);
	case 'o':
		o->output = optarg;
		return *optarg ? 0 : usage("--output: the file name is empty");
	case 'd':
		return opts_value_seconds("--duration", optarg, &o->duration);
	case OPT_EVERY:
		return opts_value_seconds("--every", optarg, &o->interval);
	case 'R':
		return opts_value_size("--sample-interval", optarg, &o->sample_interval);
	case OPT_TEMPORARY:
		return opts_value_milliseconds("--temporary", optarg, &o->temporary);
	case OPT_THREADS:
		o->threads = true;
		return 0;
	case OPT_SEED:
		o->seed_given = true;
		return opts_value_seed("--seed", optarg, &o->seed);
	case OPT_COLLECTOR:
		return set_collector(o);
	case OPT_MAX_OVERHEAD:
		return opts_value_percent("--max-overhead", optarg, &o->max_overhead);
	case 'v':
		log_set_level(++o->verbose);
		return 0;
	case 'h':
		fputs(help, stdout);
		return 1;
	default:
		return usage(c == ':' ? "an option lacks its value" : "unknown option");
	}
}

static int parse(int argc, char **argv, struct opts *o)
{
	int c, err;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":p:o:d:R:vh", longs, NULL)) != -1) {
		err = set_option(c, o);
		if (err)
			return err;
	}
	if (optind < argc)
		return usage("unexpected argument");
	if (!o->npids)
		return usage("which process? -p PID is missing");
	if (o->npids > 1)
		return usage("one process per capture, please");
	if (!o->output)
		return usage("where to? -o FILE is missing");
	if (!strcmp(o->output, "-") && isatty(STDOUT_FILENO))
		return usage("a capture is not for a terminal; redirect standard output");
	return 0;
}

struct recording {
	const struct opts *opts;
	struct stacks *stacks;
	struct snap_cache *cache;
	struct capture_writer *writer;
	int failing;   /* 0, or why the last snapshot could not be written */
	bool progress; /* say on stderr how far it is */
};

static int open_recording(void *ctx)
{
	struct recording *rec = ctx;

	rec->stacks = stacks_new();
	rec->cache = snap_cache_new();
	if (!rec->stacks || !rec->cache)
		return log_err_r(-ENOMEM, "out of memory");
	return capture_create(rec->opts->output, rec->stacks, NULL, &rec->writer);
}

/* Histograms of the live samples: a pool counts as one block. */
static int add_bins(struct snapshot *s, const struct drained *d, pid_t pid)
{
	double now = monotonic_seconds() * 1e3;
	int err = 0;

	for (size_t i = 0; i < d->nlive && !err; i++) {
		const struct pht_live *v = &d->live[i].v;
		double p = estimate_probability(v->drawn_size, v->interval);
		double age = now - v->time_ns / 1e6;

		if (d->live[i].key.tgid == (u32)pid)
			err = snapshot_add_bin(s, v->domain, v->size, age > 0 ? age : 0,
					       v->size / p, 1 / p);
	}
	return err;
}

/* Lifetimes by domain, since attach. */
static int add_lives(struct snapshot *s, const struct drained *d, pid_t pid)
{
	int err = 0;

	for (size_t i = 0; i < d->nlives && !err; i++) {
		const struct life_rec *rec = &d->lives[i];

		if (rec->key.tgid != (u32)pid)
			continue;
		for (u32 b = 0; b < PHT_LIFE_BUCKETS && !err; b++)
			err = snapshot_add_life(s, rec->key.domain, b, rec->v.bytes[b],
						rec->v.blocks16[b] / 65536.0, rec->v.samples[b]);
	}
	return err;
}

static void show_progress(const struct recording *rec, const struct snapshot *s)
{
	char size[UNITS_MAX], live[UNITS_MAX], seconds[UNITS_MAX];
	struct snap_total total;

	if (!rec->progress)
		return;
	snapshot_total(s, SNAP_DOMAINS, &total);
	fprintf(stderr, "\r%s: %zu snapshots, %s; live heap %s\033[K%s",
		units_seconds(seconds, s->duration), capture_snapshots(rec->writer),
		units_bytes(size, (double)capture_written(rec->writer), false),
		units_bytes(live, total.live.bytes, false), s->final ? "\n" : "");
}

/* A full disk may have room again later; a closed pipe has not. */
static int write_failed(struct recording *rec, int err, bool final)
{
	if (err == -ENOSPC || err == -EDQUOT || err == -EFBIG) {
		if (rec->failing != err)
			log_warn("%s: %s; what was written before stays readable%s",
				 rec->opts->output, strerror(-err), final ? "" : ", trying again");
		rec->failing = err;
		return 0;
	}
	return log_err_r(err, "cannot write %s: %s", rec->opts->output, strerror(-err));
}

static int record_report(void *ctx, const struct report *r, const struct drained *d)
{
	struct recording *rec = ctx;
	struct snapshot s;
	int err = snapshot_from_report(r, rec->stacks, rec->cache, &s);

	if (!err)
		err = add_bins(&s, d, r->pid) ?: add_lives(&s, d, r->pid);
	else
		s = (struct snapshot){0};
	if (err) {
		log_error("cannot make a snapshot: %s", strerror(-err));
	} else {
		err = capture_append(rec->writer, &s);
		if (err)
			err = write_failed(rec, err, r->final);
		else
			rec->failing = 0;
		if (!err)
			show_progress(rec, &s);
	}
	snapshot_free(&s);
	return err;
}

static int record(const struct opts *o)
{
	struct recording rec = {.opts = o, .progress = isatty(STDERR_FILENO)};
	struct trace_sink sink = {open_recording, record_report, &rec};
	int rc = trace_to_sink(o, &sink);
	int err = 0;

	if (!rc)
		err = rec.failing ? rec.failing : capture_finish(rec.writer);
	if (err)
		log_error("cannot finish %s: %s", o->output, strerror(-err));
	capture_writer_free(rec.writer);
	snap_cache_free(rec.cache);
	stacks_free(rec.stacks);
	return rc || err ? 1 : 0;
}

int cmd_record(int argc, char **argv)
{
	struct opts o = {
		.command = CMD_TRACE,
		.interval = 10,
		.group_by = GROUP_TRACEBACK,
		.temporary = OPTS_TEMPORARY,
		.by_domain = true,
		.sample_interval = 512 << 10,
		.collector = COLLECT_AUTO,
		.max_overhead = 5,
	};
	int err = parse(argc, argv, &o), rc;

	rc = err < 0 ? 2 : err > 0 ? 0 : record(&o);
	opts_free(&o);
	return rc;
}
