// SPDX-License-Identifier: BSD-2-Clause
#include <locale.h>

#include "check.h"
#include "log.h"
#include "trace.h"

int main(int argc, char **argv)
{
	struct opts opts;
	int err, rc;

	setlocale(LC_CTYPE, "") /* numbers stay in the C locale */;
	err = opts_parse(argc, argv, &opts);
	if (err)
		return err > 0 ? 0 : 2;
	log_set_level(opts.verbose);
	rc = opts.command == CMD_CHECK ? check_main() : trace_main(&opts);
	opts_free(&opts);
	return rc;
}
