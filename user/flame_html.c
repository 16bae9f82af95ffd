// SPDX-License-Identifier: BSD-2-Clause
/* The page around a flame graph's data. */
#include <errno.h>
#include <string.h>

#include "flame_json.h"

/* user/flame/, built in by flame_assets.S; each ends with a NUL. */
extern const char flame_page[], flame_style[], flame_script[];

/* The page up to a marker; returns what is behind it. */
static const char *put_until(FILE *out, const char *page, const char *marker)
{
	const char *at = strstr(page, marker);

	fwrite(page, 1, at - page, out);
	return at + strlen(marker);
}

int flame_write(FILE *out, const struct flame_input *in)
{
	struct flame_tree tree;
	const char *page = flame_page;
	int err = flame_tree_make(in, &tree);

	if (err)
		return err;
	page = put_until(out, page, "@STYLE@");
	fputs(flame_style, out);
	page = put_until(out, page, "@DATA@");
	err = flame_json(out, in, &tree);
	page = put_until(out, page, "@SCRIPT@");
	fputs(flame_script, out);
	fputs(page, out);
	flame_tree_free(&tree);
	return err ?: ferror(out) ? -EIO : 0;
}
