// SPDX-License-Identifier: BSD-2-Clause
#include "report.h"

static const struct {
	const char *name, *text;
} losses[PHT_LOSS_NR] = {
#define LOSS_ENTRY(id, words) [PHT_LOSS_##id] = {#id, words},
	PHT_LOSSES(LOSS_ENTRY)
#undef LOSS_ENTRY
};

const char *loss_name(enum pht_loss loss)
{
	return (unsigned int)loss < PHT_LOSS_NR ? losses[loss].name : "unknown";
}

const char *loss_text(enum pht_loss loss)
{
	return (unsigned int)loss < PHT_LOSS_NR ? losses[loss].text : "unknown loss";
}
