// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <inttypes.h>

#include "census_refs.h"
#include "escape.h"
#include "rss_jsonw.h"

static void print_type(FILE *out, const char *module, const char *name)
{
	char m[300], n[300];

	if (!name) {
		fputs("(blocks of no known owner)\n", out);
		return;
	}
	escape_text(m, sizeof(m), module ? module : "?", false);
	escape_text(n, sizeof(n), name, false);
	fprintf(out, "%s.%s\n", m, n);
}

int census_refs_text(const struct census_refs *refs, size_t top, FILE *out)
{
	char what[300];

	escape_text(what, sizeof(what), refs->what, false);
	fprintf(out, "\nreferences to %s (%" PRIu64 " objects", what, refs->targets);
	if (refs->targets_left_out)
		fprintf(out, ", %" PRIu64 " more not looked for", refs->targets_left_out);
	fprintf(out, ")\n%12s %12s  %s\n", "REFERENCES", "HOLDERS", "TYPE OF HOLDER");
	for (size_t i = 0; i < refs->nrow && i < top; i++) {
		fprintf(out, "%12" PRIu64 " %12" PRIu64 "  ", refs->row[i].references,
			refs->row[i].holders);
		print_type(out, refs->row[i].module, refs->row[i].name);
	}
	if (!refs->nrow)
		fprintf(out,
			"none in the heap; stacks, registers and static data are not searched\n");
	if (refs->nholder)
		fprintf(out, "%12s %18s  %s\n", "REFERENCES", "HOLDER", "TYPE");
	for (size_t i = 0; i < refs->nholder; i++) {
		fprintf(out, "%12" PRIu64 " %#18" PRIx64 "  ", refs->holder[i].references,
			refs->holder[i].addr);
		print_type(out, refs->holder[i].module, refs->holder[i].name);
	}
	return ferror(out) ? -EIO : 0;
}

int census_refs_json(const struct census_refs *refs, FILE *out)
{
	struct jsonw o = jsonw_object(), rows = jsonw_array(), holders = jsonw_array();

	jsonw_text(&o, "referrers_of", refs->what);
	jsonw_u64(&o, "targets", refs->targets);
	jsonw_u64(&o, "targets_left_out", refs->targets_left_out);
	jsonw_u64(&o, "blocks_left_out", refs->blocks_left_out);
	for (size_t i = 0; i < refs->nrow; i++) {
		struct jsonw row = jsonw_object();

		jsonw_text(&row, "module", refs->row[i].module);
		jsonw_text(&row, "name", refs->row[i].name);
		jsonw_u64(&row, "holders", refs->row[i].holders);
		jsonw_u64(&row, "references", refs->row[i].references);
		jsonw_add(&rows, NULL, row);
	}
	for (size_t i = 0; i < refs->nholder; i++) {
		struct jsonw row = jsonw_object();

		jsonw_text(&row, "module", refs->holder[i].module);
		jsonw_text(&row, "name", refs->holder[i].name);
		jsonw_u64(&row, "address", refs->holder[i].addr);
		jsonw_u64(&row, "references", refs->holder[i].references);
		jsonw_add(&holders, NULL, row);
	}
	jsonw_add(&o, "types", rows);
	jsonw_add(&o, "holders", holders);
	return jsonw_print(&o, out);
}
