// SPDX-License-Identifier: BSD-2-Clause
#include "opts.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "log.h"
#include "opts_value.h"

/* Options without a short form. */
enum {
	OPT_SEED = 256,
	OPT_GROUP_BY,
	OPT_COLLECTOR,
	OPT_MAX_OVERHEAD,
	OPT_FOLLOW,
	OPT_MERGE,
	OPT_COMM,
	OPT_CGROUP,
	OPT_ALL,
	OPT_PLAIN,
	OPT_VERSION,
	OPT_PEAK,
	OPT_TEMPORARY,
	OPT_THREADS,
};

static const char short_options[] = ":p:d:i:n:R:f:o:vh";
/* Those of the program that is started are not ours. */
static const char run_short_options[] = "+:p:d:i:n:R:f:o:vh";

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"comm", required_argument, NULL, OPT_COMM},
	{"cgroup", required_argument, NULL, OPT_CGROUP},
	{"all", no_argument, NULL, OPT_ALL},
	{"follow", no_argument, NULL, OPT_FOLLOW},
	{"merge", no_argument, NULL, OPT_MERGE},
	{"duration", required_argument, NULL, 'd'},
	{"interval", required_argument, NULL, 'i'},
	{"top", required_argument, NULL, 'n'},
	{"sample-interval", required_argument, NULL, 'R'},
	{"seed", required_argument, NULL, OPT_SEED},
	{"group-by", required_argument, NULL, OPT_GROUP_BY},
	{"threads", no_argument, NULL, OPT_THREADS},
	{"peak", no_argument, NULL, OPT_PEAK},
	{"temporary", optional_argument, NULL, OPT_TEMPORARY},
	{"format", required_argument, NULL, 'f'},
	{"output", required_argument, NULL, 'o'},
	{"plain", no_argument, NULL, OPT_PLAIN},
	{"collector", required_argument, NULL, OPT_COLLECTOR},
	{"max-overhead", required_argument, NULL, OPT_MAX_OVERHEAD},
	{"verbose", no_argument, NULL, 'v'},
	{"version", no_argument, NULL, OPT_VERSION},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const struct opts_choice group_by_choices[] = {
	{"traceback", GROUP_TRACEBACK}, {"line", GROUP_LINE},	  {"function", GROUP_FUNCTION},
	{"file", GROUP_FILE},		{"thread", GROUP_THREAD}, {NULL, 0},
};

enum { FORMAT_TEXT, FORMAT_JSON, FORMAT_FLAME };
static const struct opts_choice format_choices[] = {
	{"text", FORMAT_TEXT}, {"json", FORMAT_JSON}, {"flamegraph", FORMAT_FLAME}, {NULL, 0}};

static const struct opts_choice collector_choices[] = {
	{"auto", COLLECT_AUTO},
	{"trampoline", COLLECT_TRAMPOLINE},
	{"probe", COLLECT_PROBE},
	{"growth", COLLECT_GROWTH},
	{NULL, 0},
};

static const char help_text[] =
	"Usage: pyheaptrace -p PID [options]\n"
	"       pyheaptrace COMMAND [options]\n"
	"\n"
	"Shows which lines of a running Python program hold its live memory.  The program\n"
	"is not restarted and nothing is installed in it.  Ctrl-C ends with a final report.\n"
	"\n"
	"Commands:\n"
	"  run                          start a program and trace it from its beginning\n"
	"  check                        can this host run it: line by line, exit 1 if not\n"
	"  leaks                        what grows, and how sure that is\n"
	"  record, report, diff, export a capture to a file, and what to make of it\n"
	"  rss                          where resident memory goes, without tracing\n"
	"  pymalloc                     pools and arenas of Python's small-object allocator\n"
	"  census                       live objects by type\n"
	"  (COMMAND --help tells more)\n"
	"\n"
	"What to trace:\n"
	"  -p, --pid PID[,PID...]       process to trace; may be repeated\n"
	"      --comm PATTERN           Python processes by name, those that come later, too\n"
	"      --cgroup PATH            those in this control group (v2) and below it\n"
	"      --all                    every Python process; at most 256 at a time\n"
	"      --follow                 trace the processes that it forks, and what it executes\n"
	"  -d, --duration TIME          stop after TIME: 10, 1.5, 90s, 2m, 1h (default: at "
	"Ctrl-C)\n"
	"\n"
	"The report:\n"
	"      --merge                  one report of all processes together\n"
	"  -i, --interval TIME          refresh every TIME (default 2)\n"
	"  -n, --top N                  rows of the table (default 20)\n"
	"      --group-by WHAT          traceback, line, function, file or thread (default line)\n"
	"      --threads                keep threads apart: each is the outermost caller of what\n"
	"                               it allocated\n"
	"      --peak                   what was live when most was, instead of what is now\n"
	"      --temporary[=MS]         what was freed again within MS milliseconds (default 10)\n"
	"  -f, --format FORMAT          text, json or, at the end, flamegraph: one HTML file for\n"
	"                               a browser (default text)\n"
	"  -o, --output FILE            write to FILE instead of standard output\n"
	"      --plain                  on a terminal: refresh a table in place rather than fill\n"
	"                               the screen with one that answers to keys (h: help)\n"
	"\n"
	"How it samples:\n"
	"  -R, --sample-interval BYTES  one sample per BYTES allocated, on average: 4096, 512K,\n"
	"                               1M; 1 = every allocation (default 512K)\n"
	"      --seed N                 seed of the sampling, for runs that can be repeated\n"
	"      --collector NAME         auto, trampoline, probe or growth (default auto)\n"
	"      --max-overhead PCT       refuse or narrow rather than slow the program down by\n"
	"                               more than PCT percent (default 5)\n"
	"\n"
	"Other:\n"
	"  -v, --verbose                say what is being done; twice: in detail\n"
	"      --version                print the version\n"
	"  -h, --help                   print this\n"
	"\n"
	"Examples:\n"
	"  sudo pyheaptrace -p 4242                      watch process 4242 until Ctrl-C\n"
	"  sudo pyheaptrace -p 4242 -d 30 -f json -o heap.json\n"
	"                                                30 seconds, for another program\n"
	"  sudo pyheaptrace -p 4242 -d 60 -f flamegraph -o heap.html\n"
	"                                                a minute, for a browser\n"
	"  sudo pyheaptrace -p 4242 --group-by traceback -n 5\n"
	"                                                the five heaviest call stacks\n"
	"  sudo pyheaptrace -p 4242 -R 64K               finer, for small heaps\n"
	"  sudo pyheaptrace -p 4242 --follow --merge     a server and its workers\n"
	"  sudo pyheaptrace --comm 'gunicorn*' -d 60     all processes of that name\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 wrong usage.\n";

static const char run_help_text[] =
	"Usage: pyheaptrace run [options] -- PROGRAM [ARGUMENT...]\n"
	"\n"
	"Starts a program and traces its Python from the moment that the interpreter is ready.\n"
	"The report is made when the interpreter begins to shut down, and printed to standard\n"
	"error when the program has ended.  Signals are passed on to it, its standard streams\n"
	"are untouched, and its exit status is that of pyheaptrace.\n"
	"\n"
	"What to trace:\n"
	"      --follow                 trace the processes that it forks, too\n"
	"  -d, --duration TIME          trace for TIME: 10, 1.5, 90s, 2m, 1h (default: to its\n"
	"                               end); the program runs on\n"
	"\n"
	"The report:\n"
	"      --merge                  one report of all processes together\n"
	"  -n, --top N                  rows of the table (default 20)\n"
	"      --group-by WHAT          traceback, line, function, file or thread (default line)\n"
	"      --threads                keep threads apart: each is the outermost caller of what\n"
	"                               it allocated\n"
	"      --peak                   what was live when most was, instead of what is now\n"
	"      --temporary[=MS]         what was freed again within MS milliseconds (default 10)\n"
	"  -f, --format FORMAT          text or json (default text)\n"
	"  -o, --output FILE            write to FILE instead of standard error\n"
	"\n"
	"How it samples:\n"
	"  -R, --sample-interval BYTES  one sample per BYTES allocated, on average: 4096, 512K,\n"
	"                               1M; 1 = every allocation (default 512K)\n"
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
	"  sudo pyheaptrace run -- python3 report.py --month 11\n"
	"  sudo pyheaptrace run -R 64K -o heap.txt -- python3 -m pytest tests\n"
	"  sudo pyheaptrace run --follow --merge -f json -o heap.json -- gunicorn shop:app\n"
	"\n"
	"Exit status: that of the program, 128 and the number of the signal that ended it; 125\n"
	"pyheaptrace failed, 126 the program could not be executed, 127 it was not found, 2 wrong\n"
	"usage.\n";

static const struct opts defaults = {
	.command = CMD_TRACE,
	.interval = 2,
	.top = 20,
	.group_by = GROUP_LINE,
	.temporary = OPTS_TEMPORARY,
	.sample_interval = 512 << 10,
	.collector = COLLECT_AUTO,
	.max_overhead = 5,
};

#define NAME_MAX_LEN 24

/* The name of an option for messages; the long one if there is one. */
static const char *option_name(int val, char buf[NAME_MAX_LEN])
{
	for (const struct option *o = long_options; o->name; o++)
		if (o->val == val) {
			snprintf(buf, NAME_MAX_LEN, "--%s", o->name);
			return buf;
		}
	snprintf(buf, NAME_MAX_LEN, "-%c", val);
	return buf;
}

static int set_choice(const char *name, const struct opts_choice *choices, struct opts *opts,
		      int which)
{
	int value, err;

	err = opts_value_choice(name, optarg, choices, &value);
	if (err)
		return err;
	if (which == OPT_GROUP_BY) {
		opts->group_by = (enum group_by)value;
		opts->threads |= value == GROUP_THREAD;
	} else if (which == OPT_COLLECTOR) {
		opts->collector = (enum opts_collector)value;
	} else {
		opts->json = value == FORMAT_JSON;
		opts->flame = value == FORMAT_FLAME;
	}
	return 0;
}

/* What the live columns show is one thing. */
static int set_metric(enum report_metric metric, struct opts *opts)
{
	if (opts->metric != METRIC_LIVE && opts->metric != metric)
		return log_err_r(-EINVAL, "--peak, --temporary: one of the two (see --help)");
	opts->metric = metric;
	return 0;
}

static int set_output(const char *name, struct opts *opts)
{
	if (!*optarg)
		return log_err_r(-EINVAL, "%s: the file name is empty", name);
	opts->output = strcmp(optarg, "-") ? optarg : NULL;
	return 0;
}

/* One option with its value in optarg.  0, 1 (printed, done) or -EINVAL. */
static int set_option(int c, struct opts *opts)
{
	char buf[NAME_MAX_LEN];
	const char *name = option_name(c, buf);

	switch (c) {
	case 'p':
		return opts_value_pids(name, optarg, opts);
	case 'd':
		return opts_value_seconds(name, optarg, &opts->duration);
	case 'i':
		return opts_value_seconds(name, optarg, &opts->interval);
	case 'n':
		return opts_value_count(name, optarg, OPTS_MAX_TOP, &opts->top);
	case 'R':
		return opts_value_size(name, optarg, &opts->sample_interval);
	case OPT_SEED:
		opts->seed_given = true;
		return opts_value_seed(name, optarg, &opts->seed);
	case OPT_GROUP_BY:
		return set_choice(name, group_by_choices, opts, c);
	case 'f':
		return set_choice(name, format_choices, opts, c);
	case OPT_COLLECTOR:
		return set_choice(name, collector_choices, opts, c);
	case OPT_MAX_OVERHEAD:
		return opts_value_percent(name, optarg, &opts->max_overhead);
	case OPT_THREADS:
		opts->threads = true;
		return 0;
	case OPT_PEAK:
		return set_metric(METRIC_PEAK, opts);
	case OPT_TEMPORARY:
		if (optarg && opts_value_milliseconds(name, optarg, &opts->temporary))
			return -EINVAL;
		return set_metric(METRIC_TEMPORARY, opts);
	case 'o':
		return set_output(name, opts);
	case OPT_PLAIN:
		opts->plain = true;
		return 0;
	case 'v':
		opts->verbose++;
		return 0;
	case OPT_VERSION:
		puts("pyheaptrace " PHT_VERSION);
		return 1;
	case OPT_COMM:
		opts->choose.comm = optarg;
		return *optarg ? 0 : log_err_r(-EINVAL, "%s: the value is empty", name);
	case OPT_CGROUP:
		opts->choose.cgroup = optarg;
		return *optarg ? 0 : log_err_r(-EINVAL, "%s: the value is empty", name);
	case OPT_ALL:
		opts->choose.all = true;
		return 0;
	case OPT_FOLLOW:
		opts->follow = true;
		return 0;
	case OPT_MERGE:
		opts->merge = true;
		return 0;
	default:
		fputs(opts->command == CMD_RUN ? run_help_text : help_text, stdout);
		return 1;
	}
}

static bool is_prefix(const char *word)
{
	size_t len = strlen(word);

	if (len < 3)
		return false;
	for (const struct option *o = long_options; o->name; o++)
		if (!strncmp(o->name, word + 2, len - 2))
			return true;
	return false;
}

/* getopt tells what was wrong through optopt and optind only. */
static int bad_option(int c, char **argv)
{
	char buf[NAME_MAX_LEN];

	if (c == ':')
		return log_err_r(-EINVAL, "%s: a value is missing (see --help)",
				 option_name(optopt, buf));
	if (optopt >= 256 || (optopt && !strncmp(argv[optind - 1], "--", 2)))
		return log_err_r(-EINVAL, "%s: takes no value (see --help)",
				 option_name(optopt, buf));
	if (optopt)
		return log_err_r(-EINVAL, "-%c: no such option (see --help)", optopt);
	return log_err_r(-EINVAL, "%s: %s (see --help)", argv[optind - 1],
			 is_prefix(argv[optind - 1]) ? "more than one option begins so"
						     : "no such option");
}

static bool all_digits(const char *text)
{
	if (!*text)
		return false;
	while (isdigit((unsigned char)*text))
		text++;
	return !*text;
}

static int set_command(int argc, char **argv, struct opts *opts)
{
	const char *word = argv[optind];

	if (optind < argc && !strcmp(word, "check")) {
		opts->command = CMD_CHECK;
		word = argv[++optind];
	}
	if (optind < argc && opts->command == CMD_TRACE && all_digits(word))
		return log_err_r(-EINVAL, "\"%s\": a process is given as -p %s", word, word);
	if (optind < argc)
		return log_err_r(-EINVAL, "\"%s\": unexpected argument (see --help)", word);
	if (opts->command == CMD_CHECK && (opts->npids || choose_any(&opts->choose)))
		return log_err_r(-EINVAL, "check: takes no process (see --help)");
	if (opts->command == CMD_TRACE && !opts->npids && !choose_any(&opts->choose))
		return log_err_r(-EINVAL, "no process given; usage: pyheaptrace -p PID [options] "
					  "(see pyheaptrace --help)");
	return 0;
}

static int check_together(const struct opts *opts)
{
	if (opts->merge && opts->metric == METRIC_PEAK)
		return log_err_r(-EINVAL, "--merge: processes have their peaks at different times "
					  "(--peak goes without)");
	if (opts->flame &&
	    (opts->command == CMD_RUN || opts->merge || opts->follow || choose_any(&opts->choose)))
		return log_err_r(-EINVAL,
				 "--format: a flame graph is of one process that runs (-p)");
	return 0;
}

static int set_program(int argc, char **argv, struct opts *opts)
{
	if (opts->npids || choose_any(&opts->choose))
		return log_err_r(-EINVAL, "run: takes no process, it starts one (see --help)");
	if (optind >= argc)
		return log_err_r(-EINVAL, "run: which program? usage: pyheaptrace run [options] -- "
					  "PROGRAM [ARGUMENT...]");
	opts->argv = argv + optind;
	return 0;
}

static int parse(int argc, char **argv, struct opts *opts)
{
	int c, err;

	opterr = 0;
	optind = 0; /* start over, permutation included */
	while ((c = getopt_long(argc, argv,
				opts->command == CMD_RUN ? run_short_options : short_options,
				long_options, NULL)) != -1) {
		if (c == '?' || c == ':')
			return bad_option(c, argv);
		err = set_option(c, opts);
		if (err)
			return err;
	}
	err = check_together(opts);
	if (err)
		return err;
	return opts->command == CMD_RUN ? set_program(argc, argv, opts)
					: set_command(argc, argv, opts);
}

static int parse_as(enum opts_command command, int argc, char **argv, struct opts *out)
{
	struct opts opts = defaults;
	int err;

	opts.command = command;
	err = parse(argc, argv, &opts);
	if (err) {
		opts_free(&opts);
		return err;
	}
	*out = opts;
	return 0;
}

int opts_parse(int argc, char **argv, struct opts *out)
{
	return parse_as(CMD_TRACE, argc, argv, out);
}

int opts_parse_run(int argc, char **argv, struct opts *out)
{
	return parse_as(CMD_RUN, argc, argv, out);
}

void opts_free(struct opts *opts)
{
	free(opts->pids);
	opts->pids = NULL;
	opts->npids = 0;
}
