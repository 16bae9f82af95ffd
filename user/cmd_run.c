// SPDX-License-Identifier: BSD-2-Clause
/* pyheaptrace run: start a program and trace it from its beginning. */
#include "commands.h"
#include "log.h"
#include "trace.h"

int cmd_run(int argc, char **argv)
{
	struct opts opts;
	int err = opts_parse_run(argc, argv, &opts), rc;

	if (err)
		return err > 0 ? 0 : 2;
	log_set_level(opts.verbose);
	rc = trace_main(&opts);
	opts_free(&opts);
	return rc;
}
