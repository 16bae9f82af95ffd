// SPDX-License-Identifier: BSD-2-Clause
/* pyheaptrace leaks: which lines leak, and how sure is it. */
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "capture_view.h"
#include "commands.h"
#include "leaks_report.h"
#include "log.h"
#include "opts_value.h"
#include "rss.h"
#include "session.h"
#include "trace.h"

static const char help[] =
	"Usage: pyheaptrace leaks -p PID [--for TIME] [options]\n"
	"       pyheaptrace leaks FILE [options]\n"
	"\n"
	"Watches a running Python program, or a recording of one, and tells which lines leak:\n"
	"what keeps growing apart from caches that fill up, heaps that rise and fall, and\n"
	"turnover; with the growth, its 95 % interval, and the chance that it is none.\n"
	"Watch at least three times as long as the slowest cache takes to turn over.\n"
	"\n"
	"What to watch:\n"
	"  -p, --pid PID                process to trace\n"
	"      --for TIME               watch for TIME: 90s, 10m, 2h (default 10m; Ctrl-C ends\n"
	"                               it earlier)\n"
	"  -i, --interval TIME          look every TIME (default: 60 times in all)\n"
	"      --older-than TIME        judge blocks of this age, so that shorter-lived ones are\n"
	"                               no matter (default: a quarter of the time watched)\n"
	"      --group-by WHAT          traceback, line, function or file (default line)\n"
	"\n"
	"The verdicts:\n"
	"  -n, --top N                  leaks, and other sites, at most (default 10)\n"
	"  -f, --format FORMAT          text or json, which has all sites (default text)\n"
	"  -o, --output FILE            write to FILE instead of standard output\n"
	"\n"
	"How it samples:\n"
	"  -R, --sample-interval BYTES  one sample per BYTES allocated, on average (default 512K;\n"
	"                               less finds smaller leaks sooner)\n"
	"      --seed N                 seed of the sampling, for runs that can be repeated\n"
	"      --collector NAME         auto, trampoline, probe or growth (default auto)\n"
	"      --max-overhead PCT       refuse or narrow rather than slow the program down by\n"
	"                               more than PCT percent (default 5)\n"
	"\n"
	"Other:\n"
	"  -v, --verbose                say what is being done; twice: in detail\n"
	"  -h, --help                   print this\n"
	"\n"
	"Examples:\n"
	"  sudo pyheaptrace leaks -p 4242 --for 10m\n"
	"  sudo pyheaptrace leaks -p 4242 --for 1h -R 128K -f json -o verdicts.json\n"
	"  pyheaptrace leaks heap.pht\n";

enum { OPT_FOR = 256, OPT_OLDER_THAN, OPT_GROUP_BY, OPT_SEED, OPT_COLLECTOR, OPT_MAX_OVERHEAD };

static const struct option longs[] = {
	{"pid", required_argument, NULL, 'p'},
	{"for", required_argument, NULL, OPT_FOR},
	{"interval", required_argument, NULL, 'i'},
	{"older-than", required_argument, NULL, OPT_OLDER_THAN},
	{"group-by", required_argument, NULL, OPT_GROUP_BY},
	{"top", required_argument, NULL, 'n'},
	{"format", required_argument, NULL, 'f'},
	{"output", required_argument, NULL, 'o'},
	{"sample-interval", required_argument, NULL, 'R'},
	{"seed", required_argument, NULL, OPT_SEED},
	{"collector", required_argument, NULL, OPT_COLLECTOR},
	{"max-overhead", required_argument, NULL, OPT_MAX_OVERHEAD},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static const struct opts_choice groups[] = {
	{"traceback", GROUP_TRACEBACK},
	{"line", GROUP_LINE},
	{"function", GROUP_FUNCTION},
	{"file", GROUP_FILE},
	{0},
};

static const struct opts_choice collectors[] = {
	{"auto", COLLECT_AUTO},
	{"trampoline", COLLECT_TRAMPOLINE},
	{"probe", COLLECT_PROBE},
	{"growth", COLLECT_GROWTH},
	{0},
};

struct leaks_opts {
	struct opts trace;
	enum group_by group_by;
	double older_than;
	const char *file;
};

static int usage(const char *what)
{
	log_error("leaks: %s (see pyheaptrace leaks --help)", what);
	return -EINVAL;
}

static int set_choice(int c, struct leaks_opts *o)
{
	static const struct opts_choice formats[] = {{"text", 0}, {"json", 1}, {0}};
	int value, err;

	err = opts_value_choice(c == 'f'	    ? "--format"
				: c == OPT_GROUP_BY ? "--group-by"
						    : "--collector",
				optarg,
				c == 'f'	    ? formats
				: c == OPT_GROUP_BY ? groups
						    : collectors,
				&value);
	if (err)
		return err;
	if (c == 'f')
		o->trace.json = value;
	else if (c == OPT_GROUP_BY)
		o->group_by = (enum group_by)value;
	else
		o->trace.collector = (enum opts_collector)value;
	return 0;
}

/* 0, 1 (help was printed) or -EINVAL after one line. */
static int set_option(int c, struct leaks_opts *o)
{
	struct opts *t = &o->trace;

	switch (c) {
	case 'p':
		return opts_value_pids("--pid", optarg, t);
	case OPT_FOR:
		return opts_value_seconds("--for", optarg, &t->duration);
	case 'i':
		return opts_value_seconds("--interval", optarg, &t->interval);
	case OPT_OLDER_THAN:
		return opts_value_seconds("--older-than", optarg, &o->older_than);
	case 'n':
		return opts_value_count("--top", optarg, OPTS_MAX_TOP, &t->top);
	case 'o':
		t->output = strcmp(optarg, "-") ? optarg : NULL;
		return *optarg ? 0 : usage("--output: the file name is empty");
	case 'R':
		return opts_value_size("--sample-interval", optarg, &t->sample_interval);
	case OPT_SEED:
		t->seed_given = true;
		return opts_value_seed("--seed", optarg, &t->seed);
	case OPT_MAX_OVERHEAD:
		return opts_value_percent("--max-overhead", optarg, &t->max_overhead);
	case 'v':
		log_set_level(++t->verbose);
		return 0;
	case 'h':
		fputs(help, stdout);
		return 1;
	case ':':
		return usage("an option lacks its value");
	case '?':
		return usage("unknown option");
	default:
		return set_choice(c, o);
	}
}

#define DEFAULT_LOOKS	60
#define DEFAULT_SECONDS 600

static int parse(int argc, char **argv, struct leaks_opts *o)
{
	int c, err = 0;

	optind = 0;
	opterr = 0;
	while (!err && (c = getopt_long(argc, argv, ":p:i:n:f:o:R:vh", longs, NULL)) != -1)
		err = set_option(c, o);
	if (err)
		return err;
	if (optind < argc)
		o->file = argv[optind++];
	if (optind < argc)
		return usage("unexpected argument");
	if (!o->file == !o->trace.npids)
		return usage("-p PID or a capture, please");
	if (o->trace.npids > 1)
		return usage("one process at a time, please");
	if (o->file && o->trace.duration > 0)
		return usage("--for is of no use with a capture");
	if (!(o->trace.duration > 0))
		o->trace.duration = DEFAULT_SECONDS;
	if (!(o->trace.interval > 0)) {
		o->trace.interval = o->trace.duration / DEFAULT_LOOKS;
		if (o->trace.interval < OPTS_MIN_SECONDS)
			o->trace.interval = OPTS_MIN_SECONDS;
	}
	if (!o->file && o->older_than > o->trace.duration * 0.75)
		return usage("--older-than: three quarters of the time watched at most");
	return 0;
}

struct hunt {
	const struct leaks_opts *opts;
	struct stacks *stacks;
	struct snap_cache *cache;
	struct leaks_series series;
	struct snapshot head; /* of the last look, without its heap */
	double start;	      /* attach, CLOCK_MONOTONIC seconds; 0 = not known yet */
};

static int open_hunt(void *ctx)
{
	struct hunt *h = ctx;

	h->stacks = stacks_new();
	h->cache = snap_cache_new();
	if (!h->stacks || !h->cache)
		return log_err_r(-ENOMEM, "out of memory");
	leaks_series_init(&h->series, h->stacks, h->opts->group_by);
	return 0;
}

static void close_hunt(struct hunt *h)
{
	leaks_series_free(&h->series);
	snap_cache_free(h->cache);
	stacks_free(h->stacks);
}

/* Keep what is said about the run. */
static void keep_head(struct hunt *h, const struct snapshot *s)
{
	h->head = *s;
	h->head.rows = NULL;
	h->head.sizes = h->head.ages = NULL;
	h->head.nrows = h->head.nsizes = h->head.nages = 0;
}

static int look(void *ctx, const struct report *r, const struct drained *d)
{
	struct hunt *h = ctx;
	struct snapshot s = {0};
	int err = snapshot_from_report(r, h->stacks, h->cache, &s);

	if (!err)
		err = leaks_series_add(&h->series, &s);
	/* The time of attach is only as good as the moment between the report and now. */
	if (!err && !r->end_reason && h->start <= 0)
		h->start = monotonic_seconds() - r->duration;
	if (!err && r->final && h->start > 0)
		err = leaks_series_births(&h->series, r, d, h->start, h->opts->older_than);
	if (err)
		log_error("cannot take a look: %s", strerror(-err));
	else
		keep_head(h, &s);
	snapshot_free(&s);
	return err;
}

/* What fills the pages, where blocks do not. */
static void look_at_pages(struct leaks_report *r)
{
	struct rss_finding findings[RSS_FINDINGS_MAX];
	struct rss rss;
	size_t n;

	if (r->process.kind != LEAKS_RSS_FRAGMENTATION || *r->head.end_reason ||
	    rss_collect(r->head.pid, false, &rss))
		return;
	n = rss_advise(&rss, findings);
	for (size_t i = 0; i < n && !*r->finding; i++)
		if (findings[i].fragmentation)
			snprintf(r->finding, sizeof(r->finding), "%s", findings[i].text);
	rss_free(&rss);
}

static int print(FILE *out, void *ctx)
{
	const struct leaks_report *r = ctx;

	return leaks_print_text(out, r);
}

static int print_json(FILE *out, void *ctx)
{
	const struct leaks_report *r = ctx;

	return leaks_print_json(out, r);
}

static int conclude(struct hunt *h, bool live)
{
	const struct leaks_opts *o = h->opts;
	struct view_args args = {.output = o->trace.output};
	struct leaks_report r = {
		.series = &h->series,
		.head = h->head,
		.older_than =
			o->older_than > 0 ? o->older_than : h->head.duration * LEAKS_OLD_SHARE,
		.top = o->trace.top,
	};
	const struct leaks_series *s = &h->series;

	if (!s->n) {
		log_error("nothing was watched: there is no look at the process");
		return 1;
	}
	leaks_series_judge(&h->series, o->older_than);
	leaks_judge_process(s->times, s->rss, s->total, s->n, &r.process);
	if (live)
		look_at_pages(&r);
	return view_output(&args, o->trace.json ? print_json : print, &r);
}

static int hunt_live(struct hunt *h)
{
	struct trace_sink sink = {open_hunt, look, h};

	return trace_to_sink(&h->opts->trace, &sink) ?: conclude(h, true);
}

static int hunt_in_file(struct hunt *h)
{
	const char *path = h->opts->file;
	struct capture *c = NULL;
	int err = open_hunt(h) ?: capture_open(path, h->stacks, &c);

	if (err)
		return 1;
	while ((err = capture_next(c)) > 0) {
		err = leaks_series_add(&h->series, capture_snapshot(c));
		if (err)
			break;
		keep_head(h, capture_snapshot(c));
	}
	if (err)
		log_error("out of memory");
	else if (capture_trouble(c))
		log_warn("%s: %s", path, capture_trouble(c));
	capture_close(c);
	return err ? 1 : conclude(h, false);
}

int cmd_leaks(int argc, char **argv)
{
	struct leaks_opts o = {
		.trace =
			{
				.command = CMD_TRACE,
				.group_by = GROUP_TRACEBACK,
				.by_domain = true,
				.countdown = true,
				.top = 10,
				.sample_interval = 512 << 10,
				.collector = COLLECT_AUTO,
				.max_overhead = 5,
			},
		.group_by = GROUP_LINE,
	};
	struct hunt h = {.opts = &o};
	int err = parse(argc, argv, &o), rc;

	rc = err < 0 ? 2 : err > 0 ? 0 : o.file ? hunt_in_file(&h) : hunt_live(&h);
	close_hunt(&h);
	opts_free(&o.trace);
	return rc;
}
