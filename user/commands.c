// SPDX-License-Identifier: BSD-2-Clause
#include "commands.h"

#include <string.h>

#include "util.h"

static const struct command commands[] = {
	{"pymalloc", cmd_pymalloc}, {"rss", cmd_rss},	  {"census", cmd_census},
	{"record", cmd_record},	    {"diff", cmd_diff},	  {"report", cmd_report},
	{"export", cmd_export},	    {"leaks", cmd_leaks}, {"run", cmd_run},
};

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (commands[i].name && !strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}
