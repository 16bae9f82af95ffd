// SPDX-License-Identifier: BSD-2-Clause
#include "probe_style.h"

#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>

#include "bpfsys.h"
#include "pyheaptrace.skel.h"

static enum attach_style asked_for(void)
{
	static const char *const names[] = {
		[STYLE_MULTI] = "multi",
		[STYLE_COOKIE] = "cookie",
		[STYLE_PERF] = "perf",
	};
	const char *asked = getenv("PHT_ATTACH");

	for (size_t i = 0; asked && i < ARRAY_SIZE(names); i++)
		if (names[i] && !strcmp(asked, names[i]))
			return i;
	return STYLE_SESSION;
}

enum attach_style probe_style_choose(const struct host_features *host)
{
	const bool there[] = {
		[STYLE_SESSION] = host->uprobe_session,
		[STYLE_MULTI] = host->uprobe_multi,
		[STYLE_COOKIE] = host->attach_cookie,
	};

	for (enum attach_style style = asked_for(); style < STYLE_PERF; style++)
		if (there[style])
			return style;
	return STYLE_PERF;
}

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

static void configure(struct bpf_program *prog, enum attach_style style)
{
	const char *name = bpf_program__name(prog);

	if (begins(name, "session_")) {
		bpf_program__set_autoload(prog, style == STYLE_SESSION);
		bpf_program__set_expected_attach_type(prog, PHT_BPF_TRACE_UPROBE_SESSION);
	} else if (begins(name, "cookie_")) {
		bpf_program__set_autoload(prog, style == STYLE_MULTI || style == STYLE_COOKIE);
		if (style == STYLE_MULTI)
			bpf_program__set_expected_attach_type(prog, PHT_BPF_TRACE_UPROBE_MULTI);
	} else if (begins(name, "enter_") || begins(name, "return_")) {
		bpf_program__set_autoload(prog, style == STYLE_PERF);
	}
}

void probe_style_configure(struct pyheaptrace_bpf *skel, enum attach_style style)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, skel->obj) configure(prog, style);
}
