// SPDX-License-Identifier: BSD-2-Clause
/* pyheaptrace export: a snapshot of a capture for other programs. */
#include <errno.h>
#include <string.h>

#include "capture_view.h"
#include "commands.h"
#include "export.h"
#include "log.h"

static const char help[] =
	"Usage: pyheaptrace export --to FORMAT FILE [-o OUT] [options]\n"
	"\n"
	"Writes a snapshot of a capture for other programs:\n"
	"\n"
	"  pprof                        go tool pprof and its like (gzipped profile.proto)\n"
	"  speedscope                   speedscope.app\n"
	"  folded                       flame graph tools: a line per stack, live bytes\n"
	"  folded-allocated             the same, all bytes allocated since attach\n"
	"  csv                          a line per stack and domain\n"
	"  json                         pyheaptrace's own JSON, by traceback\n"
	"  tracemalloc                  tracemalloc.Snapshot.load(), Python 3.8 to 3.14\n"
	"\n"
	"      --at N                   snapshot 0, 1, 2 ..., first, last (default) or peak\n"
	"      --temporary              what was freed again soon, since attach, instead of what "
	"is\n"
	"                               live (how soon: see record --temporary)\n"
	"      --include GLOB           only files like GLOB; may be repeated\n"
	"      --exclude GLOB           no files like GLOB; may be repeated\n"
	"      --all-frames             GLOBs look at the whole stack, not only where it "
	"allocates\n"
	"      --domain NAME[,NAME]     libc, pymalloc, pool, mmap, fault\n"
	"  -o, --output OUT             write to OUT instead of standard output\n"
	"  -v, --verbose\n"
	"  -h, --help                   print this\n"
	"\n"
	"Examples:\n"
	"  pyheaptrace export --to pprof heap.pht -o heap.pb.gz && go tool pprof -top heap.pb.gz\n"
	"  pyheaptrace export --to tracemalloc heap.pht -o heap.pickle\n"
	"  pyheaptrace export --to folded heap.pht | flamegraph.pl > heap.svg\n";

static const struct view_spec spec = {
	.name = "export",
	.help = help,
	.takes = VIEW_FILTER | VIEW_AT | VIEW_TO,
	.min_words = 1,
	.max_words = 1,
	.words = "one capture, please",
};

static const struct exporter *find(const char *name)
{
	char known[256] = "";

	if (!name) {
		log_error(
			"export: to what? --to FORMAT is missing (see pyheaptrace export --help)");
		return NULL;
	}
	for (size_t i = 0; exporters[i]; i++) {
		size_t used = strlen(known);

		if (!strcmp(exporters[i]->name, name))
			return exporters[i];
		snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "",
			 exporters[i]->name);
	}
	log_error("--to: \"%s\" is not one of %s", name, known);
	return NULL;
}

struct job {
	const struct exporter *exporter;
	struct export_input in;
};

static int print(FILE *out, void *ctx)
{
	const struct job *job = ctx;

	return job->exporter->write(out, &job->in);
}

/* Leaves the rows that pass in place, the others out. */
static int filter_rows(struct snapshot *s, const struct stacks *stacks,
		       const struct snap_filter *filter)
{
	AUTO_FREE u8 *pass = snap_filter_stacks(stacks, filter);
	size_t n = 0;

	if (!pass)
		return log_err_r(-ENOMEM, "out of memory");
	for (size_t i = 0; i < s->nrows; i++)
		if (pass[s->rows[i].stack] &&
		    (!filter->domains || filter->domains >> s->rows[i].domain & 1))
			s->rows[n++] = s->rows[i];
	s->nrows = n;
	return 0;
}

static int run(const struct view_args *a, const struct exporter *exporter)
{
	struct stacks *stacks = stacks_new();
	struct snapshot s = {0};
	int rc = 1;

	if (!stacks) {
		log_error("out of memory");
	} else if (!capture_load(a->words[0], stacks, a->at, &s) &&
		   !view_select(a, a->words[0], &s) && !filter_rows(&s, stacks, &a->view.filter)) {
		struct job job = {exporter, {&s, stacks, s.rows, s.nrows, &a->view}};

		rc = view_output(a, print, &job);
	}
	snapshot_free(&s);
	stacks_free(stacks);
	return rc;
}

int cmd_export(int argc, char **argv)
{
	struct view_args a = {.at = CAPTURE_LAST};
	int err = view_parse(argc, argv, &spec, &a), rc = 2;
	const struct exporter *exporter;

	if (err)
		return view_exit(err);
	exporter = find(a.to_name);
	if (exporter && exporter->binary && !a.output && isatty(STDOUT_FILENO))
		log_error("export: %s is not for a terminal (try -o FILE)", exporter->name);
	else if (exporter)
		rc = run(&a, exporter);
	view_free(&a);
	return rc;
}
