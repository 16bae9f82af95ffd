// SPDX-License-Identifier: BSD-2-Clause
/* pyheaptrace diff: what changed between two snapshots. */
#include <errno.h>
#include <string.h>

#include "capture_view.h"
#include "commands.h"
#include "diff_print.h"
#include "flame.h"
#include "log.h"

static const char help[] =
	"Usage: pyheaptrace diff FILE [--from N] [--to N] [options]\n"
	"       pyheaptrace diff FILE_A FILE_B [options]\n"
	"\n"
	"What changed between two snapshots of a recording (by default its first and last), or\n"
	"between two recordings (their last).  Each difference carries its 95 % interval; where\n"
	"that includes 0, the change is marked with ~: it may be nothing but sampling noise.\n"
	"\n"
	"Which snapshots:\n"
	"      --from N                 0, 1, 2 ..., first, last or peak (most live bytes)\n"
	"      --to N                   the same, of FILE_B where there are two\n"
	"\n"
	"Which rows:\n"
	"      --group-by WHAT          traceback, line, function, file or thread (default\n"
	"                               line); threads as far as they were recorded\n"
	"      --cumulative[=HOW]       count a stack for every frame in it: once (stack, the\n"
	"                               default) or as often as it occurs (frames, which is what\n"
	"                               tracemalloc's cumulative does)\n"
	"      --include GLOB           only files like GLOB; may be repeated\n"
	"      --exclude GLOB           no files like GLOB; may be repeated\n"
	"      --all-frames             GLOBs look at the whole stack, not only where it "
	"allocates\n"
	"      --domain NAME[,NAME]     libc, pymalloc, pool, mmap, fault\n"
	"  -n, --top N                  rows (default 20)\n"
	"      --sort WHAT              size (|difference|, the default, as compare_to),\n"
	"                               count, growth (largest first), sure (what is beyond "
	"noise)\n"
	"\n"
	"Output:\n"
	"  -f, --format FORMAT          text, json, which has all rows, or flamegraph, one HTML\n"
	"                               file for a browser (default text)\n"
	"  -o, --output FILE            write to FILE instead of standard output\n"
	"  -v, --verbose\n"
	"  -h, --help                   print this\n"
	"\n"
	"Examples:\n"
	"  pyheaptrace diff heap.pht\n"
	"  pyheaptrace diff heap.pht --from 3 --to peak --group-by file --sort sure\n"
	"  pyheaptrace diff before.pht after.pht --exclude '<frozen*' -f json\n"
	"  pyheaptrace diff heap.pht -f flamegraph -o diff.html\n";

static const struct view_sort sorts[] = {
	{"size", SNAP_DIFF_SIZE},
	{"count", SNAP_DIFF_COUNT},
	{"growth", SNAP_DIFF_GROWTH},
	{"sure", SNAP_DIFF_SURE},
	{0},
};

static const struct view_spec spec = {
	.name = "diff",
	.help = help,
	.takes = VIEW_GROUP | VIEW_FILTER | VIEW_TOP | VIEW_FORMAT | VIEW_FLAME | VIEW_FROM,
	.sorts = sorts,
	.min_words = 1,
	.max_words = 2,
	.words = "one or two captures, please",
};

static int load(const struct view_args *a, struct stacks *stacks, struct snapshot s[2])
{
	long which[2] = {a->from, a->to};
	int err;

	if (a->nwords == 1)
		return capture_load_many(a->words[0], stacks, which, 2, s);
	err = capture_load(a->words[0], stacks, a->from, &s[0]);
	return err ? err : capture_load(a->words[1], stacks, a->to, &s[1]);
}

static int print_flame(FILE *out, void *ctx)
{
	const struct flame_input *in = ctx;

	return flame_write(out, in);
}

static int draw(const struct view_args *a, const struct stacks *stacks, const struct snapshot s[2])
{
	struct flame_input in = {
		.stacks = stacks,
		.now = &s[1],
		.first = &s[0],
		.diff = true,
		.same_run = a->nwords == 1,
		.filter = &a->view.filter,
	};

	return view_output(a, print_flame, &in);
}

static int print(FILE *out, void *ctx)
{
	const struct diff_print *p = ctx;

	return p->args->json ? diff_print_json(out, p) : diff_print_text(out, p);
}

static int compare(const struct view_args *a, struct stacks *stacks, const struct snapshot s[2])
{
	struct snap_diff d;
	struct diff_print p = {a, stacks, &s[0], &s[1], &d, a->nwords == 1};
	int rc;

	if (snapshot_diff(&s[0], &s[1], stacks, &a->view, p.same_run, &d)) {
		log_error("out of memory");
		return 1;
	}
	snap_diff_sort(&d, stacks, &a->view, (enum snap_diff_sort)a->sort);
	rc = view_output(a, print, &p);
	snap_diff_free(&d);
	return rc;
}

int cmd_diff(int argc, char **argv)
{
	struct view_args a = {
		.view.group_by = GROUP_LINE, .top = 20, .sort = SNAP_DIFF_SIZE, .to = CAPTURE_LAST};
	struct snapshot s[2] = {0};
	struct stacks *stacks;
	int err = view_parse(argc, argv, &spec, &a), rc = 1;

	if (err)
		return view_exit(err);
	if (a.flame && !a.output && isatty(STDOUT_FILENO)) {
		log_error("diff: HTML is not for a terminal (try -o FILE)");
		view_free(&a);
		return 2;
	}
	if (a.nwords == 2 && !a.from_given)
		a.from = CAPTURE_LAST;
	stacks = stacks_new();
	if (!stacks)
		log_error("out of memory");
	else if (!load(&a, stacks, s) && !view_check(&a, a.words[a.nwords - 1], stacks))
		rc = a.flame ? draw(&a, stacks, s) : compare(&a, stacks, s);
	snapshot_free(&s[0]);
	snapshot_free(&s[1]);
	stacks_free(stacks);
	view_free(&a);
	return rc;
}
