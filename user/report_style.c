// SPDX-License-Identifier: BSD-2-Clause
#include "report_style.h"

#include <langinfo.h>
#include <string.h>
#include <sys/ioctl.h>

void report_style_for(FILE *out, struct report_style *style)
{
	const char *columns = getenv("COLUMNS"), *no_color = getenv("NO_COLOR");
	int n = columns ? atoi(columns) : 0;
	struct winsize ws;

	*style = (struct report_style){
		.width = n >= 40 && n <= 1000 ? n : 120,
		.color = isatty(fileno(out)) && !(no_color && *no_color),
		.callers = true,
		.ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0,
	};
	if (!ioctl(fileno(out), TIOCGWINSZ, &ws) && ws.ws_col > 0) {
		style->width = ws.ws_col;
		style->height = ws.ws_row;
	}
}
