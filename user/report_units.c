// SPDX-License-Identifier: BSD-2-Clause
#include "report_units.h"

#include <math.h>
#include <string.h>

/* value, at least 0, with three significant digits and no more than four. */
static void three_digits(char buf[UNITS_MAX], double value)
{
	int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

	snprintf(buf, UNITS_MAX, "%.*f", decimals, value);
}

/* Scale to the unit in which value reads best; returns the unit's index. */
static unsigned int scale(double *value, double base, unsigned int last)
{
	unsigned int unit = 0;

	/* What would be printed as the next unit's 1 belongs there. */
	while (unit < last && *value >= base - 0.5) {
		*value /= base;
		unit++;
	}
	if (*value > 9999)
		*value = 9999;
	return unit;
}

const char *units_bytes(char buf[UNITS_MAX], double bytes, bool brief)
{
	static const char *const names[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
	static const char *const brief_names[] = {"B", "K", "M", "G", "T", "P", "E"};
	double value = fabs(bytes);
	char number[UNITS_MAX];
	unsigned int unit;

	if (!isfinite(bytes)) {
		snprintf(buf, UNITS_MAX, "?");
		return buf;
	}
	unit = scale(&value, 1024, ARRAY_SIZE(names) - 1);
	if (unit)
		three_digits(number, value);
	else
		snprintf(number, sizeof(number), "%.0f", value);
	snprintf(buf, UNITS_MAX, "%s%.12s%s", bytes <= -0.5 ? "-" : "", number,
		 brief ? brief_names[unit] : names[unit]);
	return buf;
}

const char *units_growth(char buf[UNITS_MAX], double bytes, bool brief)
{
	char plain[UNITS_MAX];

	if (fabs(bytes) < 0.5) {
		snprintf(buf, UNITS_MAX, "0");
		return buf;
	}
	units_bytes(plain, bytes, brief);
	snprintf(buf, UNITS_MAX, "%s%.20s", isfinite(bytes) && bytes > 0 ? "+" : "", plain);
	return buf;
}

const char *units_count(char buf[UNITS_MAX], double count)
{
	static const char names[][2] = {"", "k", "M", "G", "T", "P", "E"};
	char number[UNITS_MAX];
	unsigned int unit;

	if (!isfinite(count) || count < 0) {
		snprintf(buf, UNITS_MAX, "?");
		return buf;
	}
	unit = scale(&count, 1000, ARRAY_SIZE(names) - 1);
	if (unit)
		three_digits(number, count);
	else
		snprintf(number, sizeof(number), "%.0f", count);
	snprintf(buf, UNITS_MAX, "%.12s%s", number, names[unit]);
	return buf;
}

const char *units_seconds(char buf[UNITS_MAX], double seconds)
{
	unsigned int s;

	if (!isfinite(seconds) || seconds < 0 || seconds > 1e9) {
		snprintf(buf, UNITS_MAX, "?");
		return buf;
	}
	s = (unsigned int)(seconds + 0.5);
	if (seconds < 59.95)
		snprintf(buf, UNITS_MAX, "%.1f s", seconds);
	else if (s < 3600)
		snprintf(buf, UNITS_MAX, "%u min %02u s", s / 60, s % 60);
	else
		snprintf(buf, UNITS_MAX, "%u h %02u min", s / 3600, s / 60 % 60);
	return buf;
}

const char *units_moment(char buf[UNITS_MAX], double seconds)
{
	if (!(seconds >= 0) || seconds >= 0.9995)
		return units_seconds(buf, seconds);
	if (seconds < 0.0009995)
		snprintf(buf, UNITS_MAX, "%.0f us", seconds * 1e6);
	else
		snprintf(buf, UNITS_MAX, "%.*f ms", seconds < 0.00995 ? 1 : 0, seconds * 1000);
	return buf;
}

const char *units_share(char buf[UNITS_MAX], double share, bool brief)
{
	double percent = share * 100, step = brief ? 1 : 10;

	if (!isfinite(percent) || percent < 0 || percent > 999) {
		snprintf(buf, UNITS_MAX, "?");
		return buf;
	}
	if (percent > 99 && percent < 100)
		percent = floor(percent * step) / step;
	snprintf(buf, UNITS_MAX, "%.*f%%", brief ? 0 : 1, percent);
	return buf;
}
