// SPDX-License-Identifier: BSD-2-Clause
/* pyheaptrace pymalloc: options, and one look or several. */
#include "cmd_pymalloc.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <time.h>

#include "commands.h"
#include "log.h"
#include "opts_value.h"
#include "outfile.h"

enum { OPT_FREEZE = 256, OPT_DIFF, OPT_EVERY };

#define DEFAULT_FREEZE_MS 2000
#define MAX_FREEZE_MS	  60000
#define MAX_COUNT	  1000000000

struct options {
	pid_t pid;
	enum pymalloc_format format;
	unsigned freeze_ms;
	const char *diff, *diff_to; /* files */
	double every;
	size_t count; /* 0: until interrupted */
	const char *output;
};

static const char help_text[] =
	"Usage: pyheaptrace pymalloc -p PID [options]\n"
	"       pyheaptrace pymalloc --diff OLD NEW\n"
	"\n"
	"Shows what CPython's small-object allocator holds in a running process, read from\n"
	"outside: arenas, pools and blocks by size class, fragmentation, free lists.\n"
	"\n"
	"  -p, --pid PID          process to read\n"
	"  -f, --format FORMAT    text, json or debugmallocstats: the very bytes that\n"
	"                         sys._debugmallocstats() would print there (default text)\n"
	"      --freeze[=MS]      stop the process while it is read, for at most MS milliseconds\n"
	"                         (default 2000); otherwise it runs on, and what changes while it\n"
	"                         is read is left out and counted\n"
	"      --diff FILE        compare with FILE, which --format json wrote; with a second\n"
	"                         file instead of -p, compare the two\n"
	"      --every TIME       look again every TIME and show what changed: 10, 1.5, 2m\n"
	"  -n, --count N          stop after N looks (default: at Ctrl-C)\n"
	"  -o, --output FILE      write to FILE instead of standard output\n"
	"  -v, --verbose          say more on standard error\n"
	"  -h, --help\n"
	"\n"
	"Examples:\n"
	"  pyheaptrace pymalloc -p 1234\n"
	"  pyheaptrace pymalloc -p 1234 --freeze --format debugmallocstats\n"
	"  pyheaptrace pymalloc -p 1234 --format json -o before.json\n"
	"  pyheaptrace pymalloc -p 1234 --diff before.json\n"
	"  pyheaptrace pymalloc -p 1234 --every 10 -n 6\n";

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"format", required_argument, NULL, 'f'},
	{"freeze", optional_argument, NULL, OPT_FREEZE},
	{"diff", required_argument, NULL, OPT_DIFF},
	{"every", required_argument, NULL, OPT_EVERY},
	{"count", required_argument, NULL, 'n'},
	{"output", required_argument, NULL, 'o'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const struct opts_choice formats[] = {
	{"text", PYMALLOC_TEXT},
	{"json", PYMALLOC_JSON},
	{"debugmallocstats", PYMALLOC_DEBUGMALLOCSTATS},
	{NULL, 0},
};

static int wrong_usage(const char *what)
{
	return log_err_r(-EINVAL, "pymalloc: %s; see pyheaptrace pymalloc --help", what);
}

static int parse_count(const char *option, const char *text, u64 max, u64 *out)
{
	size_t n;
	int err = opts_value_count(option, text, max, &n);

	if (!err)
		*out = n;
	return err;
}

/* 0, 1 (help was printed), -EINVAL. */
static int parse_option(int c, struct options *o)
{
	u64 n = DEFAULT_FREEZE_MS;
	int err = 0, value;

	switch (c) {
	case 'p':
		err = parse_count("--pid", optarg, OPTS_MAX_PID, &n);
		o->pid = err ? 0 : (pid_t)n;
		return err;
	case 'f':
		err = opts_value_choice("--format", optarg, formats, &value);
		if (!err)
			o->format = (enum pymalloc_format)value;
		return err;
	case OPT_FREEZE:
		if (optarg)
			err = parse_count("--freeze", optarg, MAX_FREEZE_MS, &n);
		o->freeze_ms = (unsigned)n;
		return err;
	case OPT_DIFF:
		o->diff = optarg;
		return 0;
	case OPT_EVERY:
		return opts_value_seconds("--every", optarg, &o->every);
	case 'n':
		return opts_value_count("--count", optarg, MAX_COUNT, &o->count);
	case 'o':
		o->output = optarg;
		return 0;
	case 'v':
		log_set_level(log_level() + 1);
		return 0;
	case 'h':
		fputs(help_text, stdout);
		return 1;
	default:
		return -EINVAL;
	}
}

static int check_options(struct options *o, int nargs, char **args)
{
	if (o->diff && nargs == 1 && !o->pid)
		o->diff_to = args[0];
	else if (nargs)
		return wrong_usage("unexpected argument");
	if (!o->pid && !o->diff_to)
		return wrong_usage("which process? give -p PID");
	if (o->diff_to && (o->every || o->freeze_ms))
		return wrong_usage("two files are compared as they are");
	if (o->count && !o->every)
		return wrong_usage("-n needs --every");
	if (o->diff && o->every)
		return wrong_usage("--diff and --every do not go together");
	if (o->format == PYMALLOC_DEBUGMALLOCSTATS && o->diff)
		return wrong_usage("--diff writes text or json");
	return 0;
}

static int parse(int argc, char **argv, struct options *o)
{
	int c, err;

	opterr = 0;
	optind = 0; /* the caller's or a test's scan may have begun */
	while ((c = getopt_long(argc, argv, ":p:f:n:o:vh", long_options, NULL)) != -1) {
		if (c == ':' || c == '?')
			return log_err_r(
				-EINVAL, "pymalloc: %s %s; see pyheaptrace pymalloc --help",
				c == ':' ? "no value for" : "unknown option", argv[optind - 1]);
		err = parse_option(c, o);
		if (err)
			return err;
	}
	return check_options(o, argc - optind, argv + optind);
}

static int write_moment(const struct options *o, const struct pymalloc_moment *before,
			const struct pymalloc_moment *m, FILE *f)
{
	int err = 0;

	errno = 0;
	if (strcmp(m->allocator, "mimalloc") || o->format != PYMALLOC_DEBUGMALLOCSTATS)
		outfile_begin(f);
	switch (o->format) {
	case PYMALLOC_JSON:
		err = pymalloc_write_json(before, m, f);
		break;
	case PYMALLOC_DEBUGMALLOCSTATS:
		if (!strcmp(m->allocator, "mimalloc"))
			return log_err_r(-ENOTSUP,
					 "process %d uses mimalloc, whose statistics are not in "
					 "reach from outside",
					 (int)m->pid);
		if (m->main_lists.unknown)
			log_warn("%zu free lists of this build could not be found: their lines are "
				 "missing",
				 m->main_lists.unknown);
		pymalloc_write_stats(m, f);
		break;
	default:
		if (before)
			pymalloc_write_text_diff(before, m, f);
		else
			pymalloc_write_text(m, f);
	}
	if (!err && (fflush(f) || ferror(f)))
		err = errno ? -errno : -EIO;
	return err ? log_err_r(err, "cannot write: %s", strerror(-err)) : 0;
}

static void sleep_until(struct timespec *next, double seconds)
{
	u64 ns = (u64)next->tv_nsec + (u64)(seconds * 1e9);

	next->tv_sec += (time_t)(ns / 1000000000u);
	next->tv_nsec = (long)(ns % 1000000000u);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, next, NULL) == EINTR)
		;
}

/* m[0] is the moment before m[1]. */
static int look(const struct options *o, struct pymalloc_target *t, struct pymalloc_moment *m,
		FILE *f)
{
	struct timespec next;
	bool have = o->diff;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (size_t i = 1;; i++) {
		err = pymalloc_take(t, &m[1]);
		/* the end of the process is the end of the series */
		if (err)
			return err == -ESRCH && i > 1 ? 0 : err;
		err = write_moment(o, have ? &m[0] : NULL, &m[1], f);
		if (err || !o->every || i == o->count)
			return err;
		if (o->format == PYMALLOC_TEXT)
			fputc('\n', f);
		m[0] = m[1];
		have = true;
		sleep_until(&next, o->every);
	}
}

static int run(const struct options *o, struct pymalloc_moment *m, FILE *f)
{
	struct pymalloc_target t = {.freeze_ms = o->freeze_ms};
	int err = o->diff ? pymalloc_load_json(o->diff, &m[0]) : 0;

	if (err)
		return err;
	if (o->diff_to) {
		err = pymalloc_load_json(o->diff_to, &m[1]);
		return err ? err : write_moment(o, &m[0], &m[1], f);
	}
	err = pyinfo_examine(o->pid, &t.info);
	if (err)
		return err;
	err = look(o, &t, m, f);
	pyinfo_free(&t.info);
	return err;
}

int cmd_pymalloc(int argc, char **argv)
{
	AUTO_FREE struct pymalloc_moment *m = calloc(2, sizeof(*m));
	AUTO_FCLOSE FILE *file = NULL;
	struct options o = {0};
	int err = parse(argc, argv, &o);

	if (err)
		return err > 0 ? 0 : 2;
	if (!m) {
		log_error("out of memory");
		return 1;
	}
	if (o.output) {
		file = outfile_open(o.output);
		if (!file)
			return 1;
	}
	return run(&o, m, file ? file : stdout) ? 1 : 0;
}
