// SPDX-License-Identifier: BSD-2-Clause
/* The command line: defaults, every option, every way to get one wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "opts.h"

#define MAX_ARGS 16

struct result {
	int ret;
	struct opts opts;
	char *out, *err; /* what was printed */
};

/* Parse a NULL-terminated list, catching both streams. */
static struct result parse(const char *const *args)
{
	struct result r = {0};
	char *argv[MAX_ARGS + 2] = {(char *)"pyheaptrace"};
	FILE *old_out = stdout, *old_err = stderr;
	size_t out_len, err_len;
	int argc = 1;

	for (; args[argc - 1]; argc++) {
		assert_true(argc <= MAX_ARGS);
		argv[argc] = (char *)args[argc - 1];
	}
	stdout = open_memstream(&r.out, &out_len);
	stderr = open_memstream(&r.err, &err_len);
	r.ret = opts_parse(argc, argv, &r.opts);
	fclose(stdout);
	fclose(stderr);
	stdout = old_out;
	stderr = old_err;
	return r;
}

static void done(struct result *r)
{
	opts_free(&r->opts);
	free(r->out);
	free(r->err);
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

/* Refused with exactly one line that contains want. */
static void refused(struct result r, const char *want)
{
	assert_int_equal(r.ret, -EINVAL);
	if (!strstr(r.err, want))
		fail_msg("\"%s\" is not in: %s", want, r.err);
	assert_ptr_equal(strstr(r.err, "pyheaptrace: "), r.err);
	assert_ptr_equal(strchr(r.err, '\n'), r.err + strlen(r.err) - 1);
	assert_string_equal(r.out, "");
	/* The output was left alone. */
	assert_null(r.opts.pids);
	assert_int_equal(r.opts.top, 0);
	done(&r);
}

#define REFUSED(want, ...)     refused(PARSE(__VA_ARGS__), want)
#define BAD(option, text, why) REFUSED(why, "-p", "1", option, text)

static void test_defaults(void **state)
{
	struct result r = PARSE("-p", "42");

	assert_int_equal(r.ret, 0);
	assert_int_equal(r.opts.command, CMD_TRACE);
	assert_int_equal(r.opts.npids, 1);
	assert_int_equal(r.opts.pids[0], 42);
	assert_true(r.opts.duration == 0);
	assert_true(r.opts.interval == 2);
	assert_int_equal(r.opts.top, 20);
	assert_int_equal(r.opts.group_by, GROUP_LINE);
	assert_false(r.opts.json);
	assert_null(r.opts.output);
	assert_int_equal(r.opts.sample_interval, 524288);
	assert_false(r.opts.seed_given);
	assert_int_equal(r.opts.collector, COLLECT_AUTO);
	assert_true(r.opts.max_overhead == 5);
	assert_int_equal(r.opts.verbose, 0);
	assert_string_equal(r.out, "");
	assert_string_equal(r.err, "");
	done(&r);
}

static void test_short_options(void **state)
{
	struct result r = PARSE("-p7", "-d", "1.5m", "-i0.5", "-n", "3", "-R", "64k", "-f", "json",
				"-o", "out.json", "-vv");

	assert_int_equal(r.ret, 0);
	assert_true(r.opts.duration == 90);
	assert_true(r.opts.interval == 0.5);
	assert_int_equal(r.opts.top, 3);
	assert_int_equal(r.opts.sample_interval, 65536);
	assert_true(r.opts.json);
	assert_string_equal(r.opts.output, "out.json");
	assert_int_equal(r.opts.verbose, 2);
	done(&r);
}

static void test_long_options(void **state)
{
	struct result r = PARSE("--pid=7", "--duration=1h", "--interval=10s", "--top=1",
				"--sample-interval=1", "--seed=18446744073709551615",
				"--group-by=traceback", "--format=text", "--output=-",
				"--collector=probe", "--max-overhead=2.5%", "--verbose");

	assert_int_equal(r.ret, 0);
	assert_true(r.opts.duration == 3600);
	assert_true(r.opts.interval == 10);
	assert_int_equal(r.opts.sample_interval, 1);
	assert_true(r.opts.seed_given);
	assert_true(r.opts.seed == UINT64_MAX);
	assert_int_equal(r.opts.group_by, GROUP_TRACEBACK);
	assert_false(r.opts.json);
	assert_null(r.opts.output);
	assert_int_equal(r.opts.collector, COLLECT_PROBE);
	assert_true(r.opts.max_overhead == 2.5);
	assert_int_equal(r.opts.verbose, 1);
	done(&r);
}

static void test_choices(void **state)
{
	static const char *const groups[] = {"traceback", "line", "function", "file"};
	static const char *const collectors[] = {"auto", "trampoline", "probe", "growth"};

	struct result r = PARSE("-p1", "--group-by", "thread");

	assert_int_equal(r.ret, 0);
	assert_int_equal(r.opts.group_by, GROUP_THREAD);
	assert_true(r.opts.threads);
	done(&r);
	r = PARSE("-p1", "--threads");
	assert_int_equal(r.ret, 0);
	assert_int_equal(r.opts.group_by, GROUP_LINE);
	assert_true(r.opts.threads);
	done(&r);
	for (int i = 0; i < 4; i++) {
		r = PARSE("-p1", "--group-by", groups[i], "--collector", collectors[i]);

		assert_int_equal(r.ret, 0);
		assert_int_equal(r.opts.group_by, i);
		assert_false(r.opts.threads);
		assert_int_equal(r.opts.collector, i);
		done(&r);
	}
	BAD("--group-by", "lines",
	    "\"lines\" is not one of traceback, line, function, file, thread");
	BAD("--collector", "", "not one of auto, trampoline, probe, growth");
	BAD("-f", "JSON", "--format: \"JSON\" is not one of text, json");
}

static void test_pids(void **state)
{
	struct result r = PARSE("-p", "3,1,3", "-p", "2", "--pid=1,4");
	static const pid_t want[] = {3, 1, 2, 4};

	assert_int_equal(r.ret, 0);
	assert_int_equal(r.opts.npids, 4);
	assert_memory_equal(r.opts.pids, want, sizeof(want));
	done(&r);
	REFUSED("no process given", "-v");
	REFUSED("--help", "-v");
	REFUSED("--pid: a value is missing", "-p");
	REFUSED("--pid: the value is empty", "-p", "");
	REFUSED("not a process id", "-p", "python");
	REFUSED("not a process id", "-p", "1,,2");
	REFUSED("not a process id", "-p", "1,");
	REFUSED("not a process id", "-p", ",1");
	REFUSED("not a process id", "-p", " 1");
	REFUSED("not a process id", "-p", "-5");
	REFUSED("not a process id", "-p", "0x10");
	REFUSED("out of range", "-p", "0");
	REFUSED("out of range", "-p", "4194305");
	REFUSED("out of range", "-p", "18446744073709551617");
	REFUSED("\"42\": a process is given as -p 42", "42");
}

static void test_metrics(void **state)
{
	struct result r = PARSE("-p", "7");

	assert_int_equal(r.opts.metric, METRIC_LIVE);
	assert_true(r.opts.temporary == 0.01);
	done(&r);
	r = PARSE("-p", "7", "--peak");
	assert_int_equal(r.ret, 0);
	assert_int_equal(r.opts.metric, METRIC_PEAK);
	done(&r);
	r = PARSE("-p", "7", "--temporary");
	assert_int_equal(r.opts.metric, METRIC_TEMPORARY);
	assert_true(r.opts.temporary == 0.01);
	done(&r);
	r = PARSE("-p", "7", "--temporary=2.5");
	assert_int_equal(r.opts.metric, METRIC_TEMPORARY);
	assert_true(r.opts.temporary == 0.0025);
	done(&r);
}

static void test_bad_seconds(void **state)
{
	static const char *const options[] = {"--duration", "--interval"};

	for (int i = 0; i < 2; i++) {
		const char *o = options[i];

		BAD(o, "abc", "\"abc\" is not a number of seconds (try 10, 1.5, 2m)");
		BAD(o, "abc", o);
		BAD(o, "", "empty");
		BAD(o, "-5", "negative");
		BAD(o, "0", "out of range");
		BAD(o, "0.0s", "out of range");
		BAD(o, "0.05", "out of range");
		BAD(o, "366d", "out of range");
		BAD(o, "9999999999999999999999999", "out of range");
		BAD(o, "99999999999999999h", "out of range");
		BAD(o, "nan", "not a number");
		BAD(o, "inf", "not a number");
		BAD(o, "1e3", "not a number");
		BAD(o, "0x10", "not a number");
		BAD(o, "10x", "not a number");
		BAD(o, "10 s", "not a number");
		BAD(o, " 10", "not a number");
		BAD(o, "1.", "not a number");
		BAD(o, ".5", "not a number");
		BAD(o, "1.2.3", "not a number");
		BAD(o, "1,5", "not a number");
		BAD(o, "10ss", "not a number");
	}
}

static void test_bad_sizes(void **state)
{
	BAD("-R", "", "--sample-interval: the value is empty");
	BAD("-R", "0", "out of range: 1 (every allocation) to 1024G");
	BAD("-R", "0K", "out of range");
	BAD("-R", "-1", "negative");
	BAD("-R", "1025G", "out of range");
	BAD("-R", "17179869185G", "out of range"); /* wraps to 1 GiB in 64 bits */
	BAD("-R", "18446744073709551617", "out of range");
	BAD("-R", "512X", "not a number of bytes");
	BAD("-R", "512KB", "not a number of bytes");
	BAD("-R", "K", "not a number of bytes");
	BAD("-R", "1.5K", "not a number of bytes");
	BAD("-R", "1e6", "not a number of bytes");
	BAD("-R", "+1", "not a number of bytes");
}

static void test_bad_numbers(void **state)
{
	BAD("-n", "", "--top: the value is empty");
	BAD("-n", "0", "out of range");
	BAD("-n", "-1", "negative");
	BAD("-n", "100001", "out of range");
	BAD("-n", "18446744073709551617", "out of range");
	BAD("-n", "1.5", "not a whole number");
	BAD("-n", "20x", "not a whole number");
	BAD("--seed", "", "not a whole number");
	BAD("--seed", "-1", "not a whole number");
	BAD("--seed", "18446744073709551616", "out of range");
	REFUSED("not a number of milliseconds", "-p", "1", "--temporary=");
	REFUSED("not a number of milliseconds", "-p", "1", "--temporary=5s");
	REFUSED("not a number of milliseconds", "-p", "1", "--temporary=-5");
	REFUSED("out of range", "-p", "1", "--temporary=0");
	REFUSED("out of range", "-p", "1", "--temporary=3600001");
	REFUSED("takes no value", "-p", "1", "--peak=5");
	REFUSED("--peak, --temporary: one of the two", "-p", "1", "--peak", "--temporary");
	REFUSED("--peak, --temporary: one of the two", "-p", "1", "--temporary=5", "--peak");
	BAD("--max-overhead", "", "empty");
	BAD("--max-overhead", "0", "out of range");
	BAD("--max-overhead", "-5", "negative");
	BAD("--max-overhead", "1000001", "out of range");
	BAD("--max-overhead", "nan", "not a number of percent");
	BAD("--max-overhead", "inf", "not a number of percent");
	BAD("--max-overhead", "5%%", "not a number of percent");
	BAD("--output", "", "empty");
}

static void test_bad_options(void **state)
{
	REFUSED("--frobnicate: no such option", "-p1", "--frobnicate");
	REFUSED("-x: no such option", "-p1", "-x");
	REFUSED("-x: no such option", "-p1", "-vx");
	REFUSED("--s: more than one option begins so", "-p1", "--s", "4");
	REFUSED("--verbose: takes no value", "-p1", "--verbose=3");
	REFUSED("--sample-interval: a value is missing", "-p1", "-R");
	REFUSED("\"extra\": unexpected argument", "-p1", "extra");
	/* Terminal escapes in an argument come out harmless. */
	REFUSED("\\x1b[2J", "-p1", "\033[2J");
}

static void test_commands(void **state)
{
	struct result r = PARSE("check");

	assert_int_equal(r.ret, 0);
	assert_int_equal(r.opts.command, CMD_CHECK);
	done(&r);
	REFUSED("\"now\": unexpected argument", "check", "now");
	REFUSED("check: takes no process", "check", "-p", "1");
}

static void test_help_and_version(void **state)
{
	static const char *const mentions[] = {
		"--pid",  "--duration",	    "--interval", "--top",     "--sample-interval",
		"--seed", "--group-by",	    "--format",	  "--output",  "--collector",
		"check",  "--max-overhead", "--verbose",  "--version", "Examples:",
	};
	struct result r = PARSE("--help");

	assert_int_equal(r.ret, 1);
	assert_string_equal(r.err, "");
	for (size_t i = 0; i < ARRAY_SIZE(mentions); i++)
		assert_non_null(strstr(r.out, mentions[i]));
	done(&r);
	r = PARSE("-p", "1", "-h");
	assert_int_equal(r.ret, 1);
	done(&r);
	r = PARSE("--version");
	assert_int_equal(r.ret, 1);
	assert_string_equal(r.out, "pyheaptrace " PHT_VERSION "\n");
	done(&r);
}

static void test_parsers(void **state)
{
	u64 size = 77;
	double seconds = 77;

	assert_int_equal(opts_parse_size("1", &size), 0);
	assert_int_equal(size, 1);
	assert_int_equal(opts_parse_size("3M", &size), 0);
	assert_int_equal(size, 3 << 20);
	assert_int_equal(opts_parse_size("1024g", &size), 0);
	assert_true(size == 1ull << 40);
	size = 77;
	assert_int_equal(opts_parse_size("0", &size), -ERANGE);
	assert_int_equal(opts_parse_size("M", &size), -EINVAL);
	assert_int_equal(size, 77);

	assert_int_equal(opts_parse_seconds("250ms", &seconds), 0);
	assert_true(seconds == 0.25);
	assert_int_equal(opts_parse_seconds("365d", &seconds), 0);
	assert_true(seconds == 31536000);
	assert_int_equal(opts_parse_seconds("2.75", &seconds), 0);
	assert_true(seconds == 2.75);
	seconds = 77;
	assert_int_equal(opts_parse_seconds("0", &seconds), -ERANGE);
	assert_int_equal(opts_parse_seconds("m", &seconds), -EINVAL);
	assert_true(seconds == 77);
}

static void test_many_processes(void **state)
{
	struct result r = PARSE("--comm", "gunicorn*", "--cgroup=/web", "--follow", "--merge");

	assert_int_equal(r.ret, 0);
	assert_int_equal(r.opts.npids, 0);
	assert_string_equal(r.opts.choose.comm, "gunicorn*");
	assert_string_equal(r.opts.choose.cgroup, "/web");
	assert_false(r.opts.choose.all);
	assert_true(r.opts.follow);
	assert_true(r.opts.merge);
	assert_null(r.opts.argv);
	done(&r);
	r = PARSE("--all", "-p", "3");
	assert_int_equal(r.ret, 0);
	assert_int_equal(r.opts.npids, 1);
	assert_true(r.opts.choose.all);
	done(&r);
	REFUSED("the value is empty", "--comm=");
	REFUSED("the value is empty", "--cgroup", "");
	REFUSED("takes no process", "check", "--all");
	REFUSED("no process given", "--merge");
}

/* Options end where the program begins, and its own are left alone. */
static void test_run(void **state)
{
	char *argv[] = {(char *)"run",	(char *)"-n",	   (char *)"3",	 (char *)"--follow",
			(char *)"prog", (char *)"--merge", (char *)"-x", NULL};
	char *dashes[] = {(char *)"run", (char *)"--", (char *)"-odd", NULL};
	struct opts opts;

	assert_int_equal(opts_parse_run(7, argv, &opts), 0);
	assert_int_equal(opts.command, CMD_RUN);
	assert_int_equal(opts.top, 3);
	assert_true(opts.follow);
	assert_false(opts.merge);
	assert_ptr_equal(opts.argv, argv + 4);
	opts_free(&opts);
	assert_int_equal(opts_parse_run(3, dashes, &opts), 0);
	assert_ptr_equal(opts.argv, dashes + 2);
	opts_free(&opts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),     cmocka_unit_test(test_short_options),
		cmocka_unit_test(test_long_options), cmocka_unit_test(test_metrics),
		cmocka_unit_test(test_choices),	     cmocka_unit_test(test_pids),
		cmocka_unit_test(test_bad_seconds),  cmocka_unit_test(test_bad_sizes),
		cmocka_unit_test(test_bad_numbers),  cmocka_unit_test(test_bad_options),
		cmocka_unit_test(test_commands),     cmocka_unit_test(test_help_and_version),
		cmocka_unit_test(test_parsers),	     cmocka_unit_test(test_many_processes),
		cmocka_unit_test(test_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
