/* SPDX-License-Identifier: BSD-2-Clause */
/* _Py_DebugOffsets of real builds, made again from the entries that matter. */
#ifndef PHT_TEST_DEBUG_TABLES_H
#define PHT_TEST_DEBUG_TABLES_H

#include <string.h>

#include "util.h"

#define V(minor)  (0x030000f0u | (minor) << 16)
#define TABLE_MAX 1024
#define SHORTEST  584
#define NFIELDS	  37

/* {position, value} of the tables of real builds: 3.13.18, 3.14.10, 3.15.2 (x86-64). */
struct entry {
	u16 pos;
	u32 value;
};

static const struct entry tables[3][NFIELDS + 1] = {
	{{24, 283408}, {32, 608},  {40, 632},  {48, 194984}, {56, 7272}, {64, 7264}, {72, 7344},
	 {152, 312},   {160, 0},   {168, 8},   {176, 16},    {184, 72},	 {192, 152}, {200, 160},
	 {208, 232},   {216, 32},  {224, 80},  {232, 8},     {240, 0},	 {248, 56},  {256, 72},
	 {264, 70},    {272, 208}, {280, 112}, {288, 120},   {296, 128}, {304, 136}, {312, 68},
	 {344, 200},   {352, 16},  {360, 8},   {368, 416},   {376, 24},	 {512, 40},  {520, 16},
	 {528, 32},    {0, 0}},
	{{24, 316616}, {32, 784},  {40, 808},  {48, 225864}, {56, 7280}, {64, 7272}, {72, 7344},
	 {176, 832},   {184, 0},   {192, 8},   {200, 16},    {208, 72},	 {216, 152}, {224, 160},
	 {232, 232},   {240, 32},  {248, 88},  {256, 8},     {264, 0},	 {272, 56},  {280, 80},
	 {288, 74},    {312, 216}, {320, 112}, {328, 120},   {336, 128}, {344, 136}, {352, 68},
	 {384, 208},   {400, 16},  {408, 8},   {416, 416},   {424, 24},	 {592, 40},  {600, 16},
	 {608, 32},    {0, 0}},
	{{24, 346568}, {32, 912},  {40, 936},  {48, 226240}, {56, 7272}, {64, 7264}, {72, 7336},
	 {176, 888},   {184, 0},   {192, 8},   {200, 16},    {208, 72},	 {240, 176}, {248, 184},
	 {256, 256},   {264, 32},  {312, 88},  {320, 8},     {328, 0},	 {336, 56},  {344, 80},
	 {352, 74},    {376, 216}, {384, 112}, {392, 120},   {400, 128}, {408, 136}, {416, 68},
	 {448, 208},   {464, 16},  {472, 8},   {480, 424},   {488, 24},	 {688, 40},  {696, 16},
	 {704, 32},    {0, 0}},
};

/* What is different in free-threaded builds: 3.13.5t, 3.14.10t, 3.15.2t. */
#define NFT 16

/* clang-format off */
static const struct entry ft_changes[3][NFT + 1] = {
	{{48, 215616}, {272, 224}, {280, 128}, {288, 136}, {296, 144}, {304, 152}, {312, 84},
	 {344, 216}, {352, 32}, {360, 24}, {512, 56}, {520, 32}, {528, 48}, {0, 0}},
	{{48, 249976}, {288, 78}, {304, 72}, {312, 240}, {320, 128}, {328, 136}, {336, 144},
	 {344, 152}, {352, 84}, {384, 232}, {392, 224}, {400, 32}, {408, 24}, {592, 56},
	 {600, 32}, {608, 48}, {0, 0}},
	{{352, 78}, {368, 72}, {376, 240}, {384, 128}, {392, 136}, {400, 144}, {408, 152},
	 {416, 84}, {448, 232}, {456, 224}, {464, 32}, {472, 24}, {688, 56}, {696, 32},
	 {704, 48}, {0, 0}},
};
/* clang-format on */

/* unicode_object: size, state, length, asciiobject_size, in a row. */
static const u16 unicode_at[3] = {536, 616, 712};

static void put(u8 *table, size_t pos, u64 value)
{
	memcpy(table + pos, &value, sizeof(value));
}

static void make_table(u32 minor, u8 *table)
{
	static const u64 unicode[] = {64, 32, 16, 40};
	const struct entry *e = tables[minor - 13];

	memset(table, 0, TABLE_MAX);
	memcpy(table, "xdebugpy", 8);
	put(table, 8, V(minor));
	for (; e->pos; e++)
		put(table, e->pos, e->value);
	for (size_t i = 0; i < 4; i++)
		put(table, unicode_at[minor - 13] + 8 * i, unicode[i]);
}

/* The same without a GIL. */
static __attribute__((unused)) void make_ft_table(u32 minor, u8 *table)
{
	static const u64 unicode[] = {80, 48, 32, 56};

	make_table(minor, table);
	put(table, 16, 1);
	for (const struct entry *e = ft_changes[minor - 13]; e->pos; e++)
		put(table, e->pos, e->value);
	for (size_t i = 0; i < 4; i++)
		put(table, unicode_at[minor - 13] + 8 * i, unicode[i]);
}

#endif
