// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "commands.h"
#include "log.h"
#include "opts_value.h"
#include "rss.h"

struct rss_opts {
	pid_t pid;
	bool json, freeze;
	size_t top;
	const char *output;
};

static const char help[] =
	"Usage: pyheaptrace rss -p PID [OPTION...]\n"
	"Where a Python process's resident memory goes, read from outside: pymalloc and\n"
	"malloc (in use, free), mapped files, stacks, the rest; and whether it is\n"
	"fragmentation.\n"
	"\n"
	"  -p, --pid PID           the process\n"
	"  -n, --top N             rows in lists (default 10)\n"
	"      --freeze            stop the process while it is read (milliseconds)\n"
	"  -f, --format text|json  (default text)\n"
	"  -o, --output FILE       write there instead of to stdout\n"
	"  -v, --verbose\n"
	"  -h, --help\n"
	"\n"
	"Examples:\n"
	"  sudo pyheaptrace rss -p 1234\n"
	"  sudo pyheaptrace rss -p 1234 -f json | jq .kinds\n";

static int usage(const char *what)
{
	log_error("rss: %s (try: pyheaptrace rss --help)", what);
	return 2;
}

static int parse_pid(const char *text, pid_t *pid)
{
	size_t n;

	if (opts_value_count("--pid", text, OPTS_MAX_PID, &n))
		return -EINVAL;
	*pid = (pid_t)n;
	return 0;
}

/* -1: go on; else the exit code. */
static int parse(int argc, char **argv, struct rss_opts *o)
{
	static const struct option longs[] = {
		{"pid", required_argument, NULL, 'p'},	  {"top", required_argument, NULL, 'n'},
		{"freeze", no_argument, NULL, 'F'},	  {"format", required_argument, NULL, 'f'},
		{"output", required_argument, NULL, 'o'}, {"verbose", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},	  {0},
	};
	static const struct opts_choice formats[] = {{"text", 0}, {"json", 1}, {0}};
	int c, verbose = 0, format;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":p:n:f:o:vh", longs, NULL)) != -1) {
		switch (c) {
		case 'p':
			if (parse_pid(optarg, &o->pid))
				return 2;
			break;
		case 'n':
			if (opts_value_count("--top", optarg, OPTS_MAX_TOP, &o->top))
				return 2;
			break;
		case 'F':
			o->freeze = true;
			break;
		case 'f':
			if (opts_value_choice("--format", optarg, formats, &format))
				return 2;
			o->json = format;
			break;
		case 'o':
			o->output = optarg;
			break;
		case 'v':
			log_set_level(++verbose);
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			return usage(c == ':' ? "an option lacks its value" : "unknown option");
		}
	}
	if (optind < argc)
		return usage("unexpected argument");
	return o->pid ? -1 : usage("which process? -p PID is missing");
}

static int print(const struct rss *r, const struct rss_opts *o)
{
	AUTO_FCLOSE FILE *file = o->output ? fopen(o->output, "we") : NULL;
	FILE *out = o->output ? file : stdout;
	int err;

	if (!out)
		return log_err_r(-errno, "cannot write %s: %s", o->output, strerror(errno));
	err = o->json ? rss_print_json(r, out) : rss_print_text(r, o->top, out);
	if (!err && fflush(out))
		err = -errno;
	if (err)
		log_error("cannot write the report: %s", strerror(-err));
	return err;
}

int cmd_rss(int argc, char **argv)
{
	struct rss_opts o = {.top = 10};
	struct rss r;
	int rc = parse(argc, argv, &o);

	if (rc >= 0)
		return rc;
	if (rss_collect(o.pid, o.freeze, &r))
		return 1;
	rc = print(&r, &o) ? 1 : 0;
	rss_free(&r);
	return rc;
}
