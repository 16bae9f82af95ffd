// SPDX-License-Identifier: BSD-2-Clause
#include "capture_view.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "log.h"
#include "opts_value.h"

enum {
	OPT_GROUP_BY = 256,
	OPT_CUMULATIVE,
	OPT_INCLUDE,
	OPT_EXCLUDE,
	OPT_ALL_FRAMES,
	OPT_DOMAIN,
	OPT_SORT,
	OPT_AT,
	OPT_FROM,
	OPT_TO,
	OPT_TEMPORARY,
};

static const struct {
	struct option option;
	unsigned int belongs; /* 0 = to all */
} table[] = {
	{{"group-by", required_argument, NULL, OPT_GROUP_BY}, VIEW_GROUP},
	{{"cumulative", optional_argument, NULL, OPT_CUMULATIVE}, VIEW_GROUP},
	{{"include", required_argument, NULL, OPT_INCLUDE}, VIEW_FILTER},
	{{"exclude", required_argument, NULL, OPT_EXCLUDE}, VIEW_FILTER},
	{{"all-frames", no_argument, NULL, OPT_ALL_FRAMES}, VIEW_FILTER},
	{{"domain", required_argument, NULL, OPT_DOMAIN}, VIEW_FILTER},
	{{"top", required_argument, NULL, 'n'}, VIEW_TOP},
	{{"sort", required_argument, NULL, OPT_SORT}, VIEW_TOP},
	{{"format", required_argument, NULL, 'f'}, VIEW_FORMAT},
	{{"at", required_argument, NULL, OPT_AT}, VIEW_AT},
	{{"temporary", no_argument, NULL, OPT_TEMPORARY}, VIEW_AT},
	{{"from", required_argument, NULL, OPT_FROM}, VIEW_FROM},
	{{"to", required_argument, NULL, OPT_TO}, VIEW_FROM | VIEW_TO},
	{{"output", required_argument, NULL, 'o'}, 0},
	{{"verbose", no_argument, NULL, 'v'}, 0},
	{{"help", no_argument, NULL, 'h'}, 0},
};

static const struct opts_choice groups[] = {
	{"traceback", GROUP_TRACEBACK}, {"line", GROUP_LINE},	  {"function", GROUP_FUNCTION},
	{"file", GROUP_FILE},		{"thread", GROUP_THREAD}, {0},
};

const char *view_group_name(enum group_by by)
{
	return groups[by].name;
}

static int usage(const struct view_spec *spec, const char *what)
{
	log_error("%s: %s (see pyheaptrace %s --help)", spec->name, what, spec->name);
	return -EINVAL;
}

static int add_pattern(const char *const **patterns, size_t *n, const char *pattern)
{
	const char **more = reallocarray((void *)*patterns, *n + 1, sizeof(*more));

	if (!more)
		return log_err_r(-EINVAL, "out of memory");
	more[(*n)++] = pattern;
	*patterns = more;
	return 0;
}

static int set_domains(const char *text, u32 *domains)
{
	while (*text) {
		size_t len = strcspn(text, ",");
		char name[32];
		u32 domain;

		snprintf(name, sizeof(name), "%.*s", len < 31 ? (int)len : 31, text);
		if (snap_domain_find(name, &domain))
			return log_err_r(-EINVAL,
					 "--domain: \"%s\" is none (try libc, pymalloc, pool, mmap "
					 "or fault)",
					 name);
		*domains |= 1u << domain;
		text += len + (text[len] == ',');
	}
	return *domains ? 0 : log_err_r(-EINVAL, "--domain: the value is empty");
}

static int set_snapshot(const char *option, const char *text, long *out)
{
	size_t number;
	int err;

	if (!strcmp(text, "last") || !strcmp(text, "peak")) {
		*out = *text == 'l' ? CAPTURE_LAST : CAPTURE_PEAK;
		return 0;
	}
	if (!strcmp(text, "0") || !strcmp(text, "first")) {
		*out = 0;
		return 0;
	}
	if (*text < '0' || *text > '9')
		return log_err_r(-EINVAL,
				 "%s: \"%s\" is no snapshot (try 0, 1, 2 ..., first, last, peak)",
				 option, text);
	err = opts_value_count(option, text, 1000000000, &number);
	if (!err)
		*out = (long)number;
	return err;
}

static int set_sort(const struct view_spec *spec, const char *text, int *out)
{
	char known[256] = "";

	for (const struct view_sort *s = spec->sorts; s->name; s++) {
		size_t used = strlen(known);

		if (!strcmp(s->name, text)) {
			*out = s->value;
			return 0;
		}
		snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", s->name);
	}
	return log_err_r(-EINVAL, "--sort: \"%s\" is not one of %s", text, known);
}

static int set_cumulative(const char *text, struct view_args *a)
{
	static const struct opts_choice ways[] = {
		{"stack", SNAP_CUMULATIVE}, {"frames", SNAP_EACH_FRAME}, {0}};
	int value = SNAP_CUMULATIVE;
	int err = text ? opts_value_choice("--cumulative", text, ways, &value) : 0;

	if (!err)
		a->view.cumulative = (enum snap_cumulative)value;
	return err;
}

enum { FORMAT_TEXT, FORMAT_JSON, FORMAT_FLAME };

static int set_format(const struct view_spec *spec, struct view_args *a)
{
	static const struct opts_choice plain[] = {
		{"text", FORMAT_TEXT}, {"json", FORMAT_JSON}, {0}};
	static const struct opts_choice all[] = {
		{"text", FORMAT_TEXT}, {"json", FORMAT_JSON}, {"flamegraph", FORMAT_FLAME}, {0}};
	int value, err;

	err = opts_value_choice("--format", optarg, spec->takes & VIEW_FLAME ? all : plain, &value);
	if (err)
		return err;
	a->json = value == FORMAT_JSON;
	a->flame = value == FORMAT_FLAME;
	return 0;
}

static int set_group(struct view_args *a)
{
	int value, err = opts_value_choice("--group-by", optarg, groups, &value);

	if (!err)
		a->view.group_by = (enum group_by)value;
	return err;
}

/* Options with a value that is kept or looked up. */
static int set_view(int c, const struct view_spec *spec, struct view_args *a)
{
	struct snap_filter *filter = &a->view.filter;

	switch (c) {
	case OPT_INCLUDE:
		return add_pattern(&filter->include, &filter->ninclude, optarg);
	case OPT_EXCLUDE:
		return add_pattern(&filter->exclude, &filter->nexclude, optarg);
	case OPT_ALL_FRAMES:
		filter->all_frames = true;
		return 0;
	case OPT_DOMAIN:
		return set_domains(optarg, &filter->domains);
	case OPT_SORT:
		return set_sort(spec, optarg, &a->sort);
	case OPT_AT:
		return set_snapshot("--at", optarg, &a->at);
	case OPT_TEMPORARY:
		a->temporary = true;
		return 0;
	case OPT_FROM:
		a->from_given = true;
		return set_snapshot("--from", optarg, &a->from);
	default:
		a->to_name = optarg;
		a->to_given = true;
		return spec->takes & VIEW_TO ? 0 : set_snapshot("--to", optarg, &a->to);
	}
}

/* 0, 1 (help was printed) or -EINVAL after one line. */
static int set_option(int c, const struct view_spec *spec, struct view_args *a)
{
	switch (c) {
	case OPT_GROUP_BY:
		return set_group(a);
	case 'f':
		return set_format(spec, a);
	case OPT_CUMULATIVE:
		return set_cumulative(optarg, a);
	case 'n':
		return opts_value_count("--top", optarg, OPTS_MAX_TOP, &a->top);
	case 'o':
		a->output = strcmp(optarg, "-") ? optarg : NULL;
		return *optarg ? 0 : usage(spec, "--output: the file name is empty");
	case 'v':
		log_set_level(log_level() + 1);
		return 0;
	case 'h':
		fputs(spec->help, stdout);
		return 1;
	case ':':
		return usage(spec, "an option lacks its value");
	case '?':
		return usage(spec, "unknown option");
	default:
		return set_view(c, spec, a);
	}
}

static void choose_options(const struct view_spec *spec, struct option *longs, char *shorts)
{
	size_t n = 0;

	*shorts++ = ':';
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct option *o = &table[i].option;

		if (table[i].belongs && !(table[i].belongs & spec->takes))
			continue;
		longs[n++] = *o;
		if (o->val >= 256)
			continue;
		*shorts++ = o->val;
		if (o->has_arg == required_argument)
			*shorts++ = ':';
	}
	*shorts = '\0';
	longs[n] = (struct option){0};
}

int view_select(const struct view_args *a, const char *path, struct snapshot *s)
{
	if (!a->temporary || !snapshot_select(s, METRIC_TEMPORARY))
		return 0;
	return log_err_r(-ENOENT, "%s: %s", path,
			 s->metric == METRIC_PEAK
				 ? "what is temporary is counted since attach, not at the peak"
				 : "temporary blocks were not recorded");
}

int view_check(const struct view_args *a, const char *path, const struct stacks *stacks)
{
	if (a->view.group_by != GROUP_THREAD || stacks_have_threads(stacks))
		return 0;
	return log_err_r(-ENOENT, "%s: threads were not recorded (record --threads)", path);
}

int view_parse(int argc, char **argv, const struct view_spec *spec, struct view_args *out)
{
	struct option longs[ARRAY_SIZE(table) + 1];
	char shorts[2 * ARRAY_SIZE(table) + 2];
	int c, err = 0;

	choose_options(spec, longs, shorts);
	optind = 0;
	opterr = 0;
	while (!err && (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1)
		err = set_option(c, spec, out);
	out->words = argv + optind;
	out->nwords = argc - optind;
	if (!err && (out->nwords < spec->min_words || out->nwords > spec->max_words))
		err = usage(spec, spec->words);
	if (!err && out->view.cumulative != SNAP_SELF &&
	    (out->view.group_by == GROUP_TRACEBACK || out->view.group_by == GROUP_THREAD))
		err = usage(spec, "--cumulative makes no sense with whole tracebacks or threads");
	if (err)
		view_free(out);
	return err;
}

void view_free(struct view_args *args)
{
	free((void *)args->view.filter.include);
	free((void *)args->view.filter.exclude);
	args->view.filter = (struct snap_filter){0};
}
