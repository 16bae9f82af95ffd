/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables that pht_sampling.h interpolates, computed with libm. */
#ifndef PHT_SAMPLING_TABLES_H
#define PHT_SAMPLING_TABLES_H

#include "pht_sampling.h"
#include "util.h"

/* Fill PHT_LOG_TABLE and PHT_WEIGHT_TABLE entries; either may be NULL. */
void sampling_tables_fill(u32 *log_table, u32 *weight_table);

#endif
