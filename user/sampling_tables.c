// SPDX-License-Identifier: BSD-2-Clause
#include "sampling_tables.h"

#include <math.h>

static void fill_log(u32 *table)
{
	table[0] = 1u << 31;
	for (u32 i = 1; i < PHT_LOG_TABLE; i++) {
		double d = i / (2.0 * PHT_LOG_CELLS);

		table[i] = lrint(-log1p(-d) / d * 0x1p31);
	}
}

static void fill_weight(u32 *table)
{
	table[0] = 1u << 27;
	for (u32 i = 1; i < PHT_WEIGHT_TABLE; i++) {
		double t = i * (double)PHT_WEIGHT_TMAX / PHT_WEIGHT_CELLS;

		table[i] = lrint(-t / expm1(-t) * 0x1p27);
	}
}

void sampling_tables_fill(u32 *log_table, u32 *weight_table)
{
	if (log_table)
		fill_log(log_table);
	if (weight_table)
		fill_weight(weight_table);
}
