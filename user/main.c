// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <malloc.h>
#include <unistd.h>

#include "check.h"
#include "commands.h"
#include "flame_live.h"
#include "live.h"
#include "log.h"
#include "probes.h"
#include "trace.h"

/*
 * The number of a standard stream that is closed would go to the next file that is
 * opened, the memory of a process perhaps, and what we say would be written there.
 * A file that refuses it instead; a program that we start finds the stream closed.
 */
static void hold_closed_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
		    open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC) < 0)
			_exit(1);
}

int main(int argc, char **argv)
{
	const struct command *command = argc > 1 ? command_find(argv[1]) : NULL;
	struct opts opts;
	int err, rc;

	hold_closed_streams();
#ifdef M_MMAP_THRESHOLD
	/*
	 * glibc raises its threshold when a large block is freed; tables that come and
	 * go with each report would then stay in the heap, in pieces.
	 */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
	setlocale(LC_CTYPE, ""); /* numbers stay in the C locale */
	probes_log_init();
	if (command)
		return command->run(argc - 1, argv + 1);
	err = opts_parse(argc, argv, &opts);
	if (err)
		return err > 0 ? 0 : 2;
	log_set_level(opts.verbose);
	if (opts.command == CMD_CHECK)
		rc = check_main();
	else if (opts.flame)
		rc = flame_live_main(&opts);
	else
		rc = live_possible(&opts) ? live_main(&opts) : trace_main(&opts);
	opts_free(&opts);
	return rc;
}
