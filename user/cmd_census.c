// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "census.h"
#include "census_diff.h"
#include "census_refs.h"
#include "commands.h"
#include "log.h"
#include "opts_value.h"
#include "outfile.h"

struct census_args {
	pid_t pid;
	bool json, freeze, all;
	size_t top, count;
	double every;
	const char *output, *old, *new, *referrers;
};

static const char help[] =
	"Usage: pyheaptrace census -p PID [OPTION...]\n"
	"       pyheaptrace census --diff OLD [NEW]\n"
	"Live objects of a Python process by type, read from outside.\n"
	"\n"
	"  -p, --pid PID           the process\n"
	"  -n, --top N             rows in lists (default 20)\n"
	"  -a, --all               by size class, too\n"
	"      --referrers WHAT    who refers to WHAT: a type (pkg.mod.Class, dict) or an\n"
	"                          address (0x7f...)\n"
	"      --freeze            stop the process while it is read\n"
	"\n"
	"Two moments:\n"
	"      --every SECONDS     print what changed since the census before\n"
	"      --count N           that many times (default 1)\n"
	"      --diff OLD          what changed since OLD, a file of -f json -o OLD;\n"
	"                          with -p until now, else until the file NEW\n"
	"\n"
	"  -f, --format text|json  (default text)\n"
	"  -o, --output FILE       write there instead of to stdout\n"
	"  -v, --verbose\n"
	"  -h, --help\n"
	"\n"
	"Examples:\n"
	"  sudo pyheaptrace census -p 1234\n"
	"  sudo pyheaptrace census -p 1234 --every 60 --count 10\n"
	"  sudo pyheaptrace census -p 1234 -f json -o monday.json\n"
	"  sudo pyheaptrace census -p 1234 --diff monday.json\n"
	"  sudo pyheaptrace census -p 1234 --referrers myapp.models.Order\n";

enum { OPT_FREEZE = 256, OPT_EVERY, OPT_COUNT, OPT_DIFF, OPT_REFERRERS };

static const struct option longs[] = {
	{"pid", required_argument, NULL, 'p'},
	{"top", required_argument, NULL, 'n'},
	{"all", no_argument, NULL, 'a'},
	{"freeze", no_argument, NULL, OPT_FREEZE},
	{"every", required_argument, NULL, OPT_EVERY},
	{"count", required_argument, NULL, OPT_COUNT},
	{"diff", required_argument, NULL, OPT_DIFF},
	{"referrers", required_argument, NULL, OPT_REFERRERS},
	{"format", required_argument, NULL, 'f'},
	{"output", required_argument, NULL, 'o'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static int usage(const char *what)
{
	log_error("census: %s (try: pyheaptrace census --help)", what);
	return -EINVAL;
}

/* One option with its value; -EINVAL after a line. */
static int set(struct census_args *a, int c, const char *value)
{
	static const struct opts_choice formats[] = {{"text", 0}, {"json", 1}, {0}};
	int format, err;
	size_t n;

	switch (c) {
	case 'p':
		err = opts_value_count("--pid", value, OPTS_MAX_PID, &n);
		a->pid = err ? a->pid : (pid_t)n;
		return err;
	case 'n':
		return opts_value_count("--top", value, CENSUS_TOP_MAX, &a->top);
	case OPT_COUNT:
		return opts_value_count("--count", value, OPTS_MAX_TOP, &a->count);
	case OPT_EVERY:
		return opts_value_seconds("--every", value, &a->every);
	case 'f':
		err = opts_value_choice("--format", value, formats, &format);
		a->json = err ? a->json : format;
		return err;
	case 'a':
		a->all = true;
		return 0;
	case OPT_FREEZE:
		a->freeze = true;
		return 0;
	case OPT_DIFF:
		a->old = value;
		return 0;
	case OPT_REFERRERS:
		a->referrers = value;
		return 0;
	case 'o':
		a->output = value;
		return 0;
	default:
		return usage(c == ':' ? "an option lacks its value" : "unknown option");
	}
}

static int check(struct census_args *a, int argc, char **argv)
{
	if (optind < argc && a->old && !a->pid)
		a->new = argv[optind++];
	if (optind < argc)
		return usage("unexpected argument");
	if (!a->pid && !a->new)
		return usage(a->old ? "--diff takes a second file, or -p PID"
				    : "which process? -p PID is missing");
	if (a->every > 0 && (a->old || a->referrers))
		return usage("--every does not go with --diff or --referrers");
	if (a->old && a->referrers)
		return usage("--diff does not go with --referrers");
	return 0;
}

/* 0; 1: help was printed; -EINVAL. */
static int parse(int argc, char **argv, struct census_args *a)
{
	int c, verbose = 0, err;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":p:n:af:o:vh", longs, NULL)) != -1) {
		if (c == 'h') {
			fputs(help, stdout);
			return 1;
		}
		if (c == 'v') {
			log_set_level(++verbose);
			continue;
		}
		err = set(a, c, optarg);
		if (err)
			return err;
	}
	return check(a, argc, argv);
}

static int take(const struct census_args *a, struct census *c)
{
	struct census_opts opts = {.freeze = a->freeze, .top = a->top};

	return census_take(a->pid, &opts, c);
}

static int print_change(const struct census_args *a, const struct census_rows *before,
			const struct census_rows *after, FILE *out)
{
	AUTO_FREE struct census_delta *v = NULL;
	size_t n;
	int err = census_compare(before, after, &v, &n);

	if (err)
		return log_err_r(err, "out of memory");
	outfile_begin(out);
	err = a->json ? census_diff_json(v, n, out) : census_diff_text(v, n, a->top, out);
	return err ? log_err_r(err, "cannot write the report: %s", strerror(-err)) : 0;
}

/* The types of a census of now. */
static int rows_now(const struct census_args *a, struct census_rows *rows)
{
	struct census c;
	int err = take(a, &c);

	if (err)
		return err;
	err = census_rows_copy(&c, rows);
	census_free(&c);
	return err ? log_err_r(err, "out of memory") : 0;
}

static int run_diff(const struct census_args *a, FILE *out)
{
	struct census_rows before, after;
	int err = census_rows_load(a->old, &before);

	if (err)
		return err;
	err = a->new ? census_rows_load(a->new, &after) : rows_now(a, &after);
	if (!err) {
		err = print_change(a, &before, &after, out);
		census_rows_clear(&after);
	}
	census_rows_clear(&before);
	return err;
}

static void wait_seconds(double seconds)
{
	struct timespec ts = {(time_t)seconds, (long)(fmod(seconds, 1) * 1e9)};

	while (nanosleep(&ts, &ts) && errno == EINTR)
		;
}

static int run_every(const struct census_args *a, FILE *out)
{
	struct census_rows before, after;
	int err = rows_now(a, &before);

	if (err)
		return err;
	for (size_t i = 0; i < a->count && !err; i++) {
		wait_seconds(a->every);
		err = rows_now(a, &after);
		if (err)
			break;
		err = print_change(a, &before, &after, out);
		fflush(out);
		census_rows_clear(&before);
		before = after;
	}
	census_rows_clear(&before);
	return err;
}

struct refs_request {
	const char *what;
	struct census_refs refs;
	int err;
};

/* A bad name is no failure of the census. */
static int find_refs(void *ctx, struct census_heap *h, struct census_typer *t,
		     const struct census *c)
{
	struct refs_request *req = ctx;

	(void)c;
	req->err = census_refs_find(h, t, req->what, &req->refs);
	return req->err == -ENOENT || req->err == -EINVAL ? 0 : req->err;
}

static int run_refs(const struct census_args *a, FILE *out)
{
	struct refs_request req = {.what = a->referrers};
	struct census_opts opts = {
		.freeze = a->freeze, .top = a->top, .then = find_refs, .ctx = &req};
	struct census c;
	int err = census_take(a->pid, &opts, &c);

	if (err)
		return err;
	census_free(&c);
	if (req.err == -ENOENT)
		return log_err_r(-ENOENT, "no live object's type is called %s", a->referrers);
	if (req.err)
		return log_err_r(req.err, "--referrers: \"%s\" is no address (try 0x7f0123456780)",
				 a->referrers);
	outfile_begin(out);
	err = a->json ? census_refs_json(&req.refs, out) : census_refs_text(&req.refs, a->top, out);
	census_refs_free(&req.refs);
	return err;
}

static int run_census(const struct census_args *a, FILE *out)
{
	struct census c;
	int err = take(a, &c);

	if (err)
		return err;
	outfile_begin(out);
	err = a->json ? census_print_json(&c, out) : census_print_text(&c, a->top, a->all, out);
	census_free(&c);
	return err ? log_err_r(err, "cannot write the report: %s", strerror(-err)) : 0;
}

int cmd_census(int argc, char **argv)
{
	struct census_args a = {.top = 20, .count = 1};
	int err = parse(argc, argv, &a);
	AUTO_FCLOSE FILE *file = NULL;
	FILE *out = stdout;

	if (err)
		return err > 0 ? 0 : 2;
	if (a.output) {
		file = outfile_open(a.output);
		if (!file)
			return 1;
		out = file;
	}
	if (a.every > 0)
		err = run_every(&a, out);
	else if (a.old)
		err = run_diff(&a, out);
	else
		err = a.referrers ? run_refs(&a, out) : run_census(&a, out);
	if (!err && fflush(out)) {
		log_error("cannot write the report: %s", strerror(errno));
		err = -EIO;
	}
	return err ? 1 : 0;
}
