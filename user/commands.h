/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subcommands.  Each parses its own argv (argv[0] is its name), prints its
 * own --help on stdout and returns the exit code: 0, 1 after one line on
 * stderr, 2 for wrong usage.
 */
#ifndef PHT_COMMANDS_H
#define PHT_COMMANDS_H

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
};

/* The command called name, or NULL. */
const struct command *command_find(const char *name);

int cmd_pymalloc(int argc, char **argv);
int cmd_rss(int argc, char **argv);
int cmd_census(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_leaks(int argc, char **argv);
int cmd_run(int argc, char **argv);

#endif
