// SPDX-License-Identifier: BSD-2-Clause
#include "export.h"

#include <errno.h>
#include <math.h>
#include <string.h>

const struct exporter *const exporters[] = {
	&export_pprof, &export_speedscope, &export_folded,	&export_folded_allocated,
	&export_csv,   &export_json,	   &export_tracemalloc, NULL,
};

u64 export_whole(double v)
{
	if (!(v > 0))
		return 0;
	return v < 4611686018427387904.0 ? (u64)llround(v) : 1ull << 62;
}

int export_frames_open(const struct export_input *in, struct export_frames *f)
{
	u32 n = stacks_frame_count(in->stacks);

	*f = (struct export_frames){
		.number = calloc(n, sizeof(*f->number)),
		.frame = calloc(n, sizeof(*f->frame)),
	};
	if (!f->number || !f->frame) {
		export_frames_free(f);
		return -ENOMEM;
	}
	for (size_t i = 0; i < in->nrows; i++) {
		u32 at = in->rows[i].stack;

		do {
			u32 frame = stacks_top(in->stacks, at);

			if (!f->number[frame]) {
				f->frame[f->n] = frame;
				f->number[frame] = ++f->n;
			}
			at = stacks_parent(in->stacks, at);
		} while (at >= STACK_FIRST);
	}
	return 0;
}

void export_frames_free(struct export_frames *f)
{
	free(f->number);
	free(f->frame);
	*f = (struct export_frames){0};
}
