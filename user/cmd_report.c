// SPDX-License-Identifier: BSD-2-Clause
/* pyheaptrace report: a capture for people (and, as a table, for programs). */
#include <errno.h>
#include <string.h>

#include "capture_report.h"
#include "commands.h"
#include "log.h"

static const char help[] =
	"Usage: pyheaptrace report table|tree|summary|stats|series|flamegraph FILE [options]\n"
	"\n"
	"  table                        the lines that hold memory, as in a live report; growth\n"
	"                               and rate are since the first snapshot\n"
	"  tree                         who called whom to allocate it, from the outside in\n"
	"  summary                      one page: the recording, its peak, what holds, what grew\n"
	"  stats                        by domain, sizes and ages; top by bytes, blocks, turnover\n"
	"  series                       the snapshots there are, with their times and totals\n"
	"  flamegraph                   all stacks, as one HTML file for a browser; -f flamegraph\n"
	"                               is the same\n"
	"\n"
	"FILE is a capture made by pyheaptrace record; - is standard input.\n"
	"\n"
	"      --at N                   snapshot 0, 1, 2 ..., first, last (default) or peak\n"
	"      --temporary              what was freed again soon, since attach, instead of what "
	"is\n"
	"                               live (how soon: see record --temporary)\n"
	"      --group-by WHAT          traceback, line, function, file or thread (default\n"
	"                               line); threads as far as they were recorded\n"
	"      --cumulative[=HOW]       count a stack for every frame in it: once (stack, the\n"
	"                               default) or as often as it occurs (frames)\n"
	"      --include GLOB           only files like GLOB; may be repeated\n"
	"      --exclude GLOB           no files like GLOB; may be repeated\n"
	"      --all-frames             GLOBs look at the whole stack, not only where it "
	"allocates\n"
	"      --domain NAME[,NAME]     libc, pymalloc, pool, mmap, fault\n"
	"  -n, --top N                  rows (default 20; tree: 60)\n"
	"      --sort WHAT              size (default), count or allocated\n"
	"  -f, --format FORMAT          of table and series: text or json (default text);\n"
	"                               flamegraph, without a kind of report\n"
	"  -o, --output FILE            write to FILE instead of standard output\n"
	"  -v, --verbose\n"
	"  -h, --help                   print this\n"
	"\n"
	"Examples:\n"
	"  pyheaptrace report summary heap.pht\n"
	"  pyheaptrace report table heap.pht --at peak --group-by file\n"
	"  pyheaptrace report tree heap.pht --include '*/shop/*' --all-frames\n"
	"  pyheaptrace report flamegraph heap.pht -o heap.html\n";

static const struct capture_reporter reporters[] = {
	{"table", report_capture_table, .has_json = true},
	{"tree", report_capture_tree, .wants_series = false},
	{"summary", report_capture_summary, .wants_series = true},
	{"stats", report_capture_stats, .wants_series = false},
	{"series", report_capture_series, .has_json = true, .wants_series = true},
	{"flamegraph", report_capture_flamegraph, .wants_series = true, .wants_peak = true},
};

static const struct view_sort sorts[] = {
	{"size", SNAP_SORT_SIZE},
	{"count", SNAP_SORT_COUNT},
	{"allocated", SNAP_SORT_ALLOCATED},
	{0},
};

static const struct view_spec spec = {
	.name = "report",
	.help = help,
	.takes = VIEW_GROUP | VIEW_FILTER | VIEW_TOP | VIEW_FORMAT | VIEW_FLAME | VIEW_AT,
	.sorts = sorts,
	.min_words = 1,
	.max_words = 2,
	.words = "a kind of report and one capture, please",
};

static const struct capture_reporter *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(reporters); i++)
		if (!strcmp(reporters[i].name, name))
			return &reporters[i];
	return NULL;
}

struct job {
	const struct capture_reporter *reporter;
	struct capture_report report;
};

static int print(FILE *out, void *ctx)
{
	const struct job *job = ctx;

	return job->reporter->print(out, &job->report);
}

static int run(struct job *job)
{
	struct capture_report *r = &job->report;
	struct stacks *stacks = stacks_new();
	const struct capture_reporter *reporter = job->reporter;
	long which[3] = {r->args->at, 0, CAPTURE_PEAK};
	struct snapshot s[3] = {0};
	int rc = 1;

	r->stacks = stacks;
	if (!stacks)
		log_error("out of memory");
	else if (!capture_load_all(r->path, stacks, which, 2 + reporter->wants_peak, s,
				   reporter->wants_series ? &r->points : NULL, &r->npoints) &&
		 !view_check(r->args, r->path, stacks) && !view_select(r->args, r->path, &s[0]) &&
		 !view_select(r->args, r->path, &s[1])) {
		r->now = s[0];
		r->first = s[1];
		r->peak = s[2];
		rc = view_output(r->args, print, job);
	}
	snapshot_free(&s[0]);
	snapshot_free(&s[1]);
	snapshot_free(&s[2]);
	free(r->points);
	stacks_free(stacks);
	return rc;
}

/* The kind of report: a word, or -f flamegraph. */
static const char *kind(const struct view_args *a)
{
	return a->flame && a->nwords == 1 ? "flamegraph" : a->words[0];
}

static int check(const struct view_args *a, const struct capture_reporter *reporter)
{
	if (a->nwords == 1 && !a->flame)
		return log_err_r(-EINVAL,
				 "report: %s of what? One capture, please (see pyheaptrace "
				 "report --help)",
				 reporter->name);
	if (a->flame && reporter->print != report_capture_flamegraph)
		return log_err_r(-EINVAL, "report: %s does not come as a flame graph",
				 reporter->name);
	if (reporter->print == report_capture_flamegraph && !a->output && isatty(STDOUT_FILENO))
		return log_err_r(-EINVAL, "report: HTML is not for a terminal (try -o FILE)");
	if (a->json && !reporter->has_json)
		return log_err_r(-EINVAL, "report: %s does not come as JSON, only table and series",
				 reporter->name);
	return 0;
}

int cmd_report(int argc, char **argv)
{
	struct view_args a = {.view.group_by = GROUP_LINE, .at = CAPTURE_LAST};
	int err = view_parse(argc, argv, &spec, &a), rc = 2;
	struct job job;

	if (err)
		return view_exit(err);
	job = (struct job){find(kind(&a)), {.args = &a, .path = a.words[a.nwords - 1]}};
	if (!a.top)
		a.top = job.reporter && job.reporter->print == report_capture_tree ? 60 : 20;
	if (!job.reporter)
		log_error("report: \"%s\" is none (try table, tree, summary, stats, series or "
			  "flamegraph)",
			  kind(&a));
	else if (!check(&a, job.reporter))
		rc = run(&job);
	view_free(&a);
	return rc;
}
