// SPDX-License-Identifier: BSD-2-Clause
#include "opts_value.h"

#include <errno.h>
#include <string.h>

#include "log.h"

/*
 * Digits of a decimal integer at text; *end is set behind them.  -EINVAL: there is
 * none, -ERANGE: above max.  strtoull would also take blanks and signs.
 */
static int digits(const char *text, u64 max, u64 *out, const char **end)
{
	u64 value = 0;
	bool over = false;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++) {
		unsigned int digit = *p - '0';

		if (over || digit > max || value > (max - digit) / 10)
			over = true;
		else
			value = value * 10 + digit;
	}
	*end = p;
	if (p == text)
		return -EINVAL;
	if (over)
		return -ERANGE;
	*out = value;
	return 0;
}

/*
 * Digits with an optional fraction; *end is set behind them.  strtod would also
 * take blanks, signs, exponents, hexadecimal, nan, inf, and the locale's comma.
 */
static int decimal(const char *text, double *out, const char **end)
{
	const u64 max = 1000000000000000ull;
	u64 whole;
	double value, scale = 1;
	int err;

	err = digits(text, max, &whole, end);
	if (err == -EINVAL)
		return err;
	value = err ? (double)max : (double)whole;
	if (**end == '.') {
		const char *p = *end + 1;

		if (*p < '0' || *p > '9')
			return -EINVAL;
		for (; *p >= '0' && *p <= '9'; p++) {
			scale /= 10;
			value += (*p - '0') * scale;
		}
		*end = p;
	}
	*out = value;
	return err;
}

/* A leading minus is worth its own words. */
static bool negative(const char *text)
{
	return text[0] == '-' && text[1] >= '0' && text[1] <= '9';
}

int opts_parse_seconds(const char *text, double *out)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"ms", 0.001}};
	const char *unit;
	double value;
	int err;

	err = decimal(text, &value, &unit);
	if (err == -EINVAL)
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(unit, units[i].unit))
			continue;
		value *= units[i].seconds;
		if (err || !(value > 0) || value > OPTS_MAX_SECONDS)
			return -ERANGE;
		*out = value;
		return 0;
	}
	return -EINVAL;
}

int opts_parse_size(const char *text, u64 *out)
{
	static const char suffixes[] = "KMG";
	unsigned int shift = 0;
	const char *end, *suffix;
	u64 value;
	int err;

	err = digits(text, OPTS_MAX_SIZE, &value, &end);
	if (err == -EINVAL)
		return err;
	if (*end) {
		char c = *end >= 'a' && *end <= 'z' ? *end - 32 : *end;

		suffix = strchr(suffixes, c);
		if (!suffix || end[1])
			return -EINVAL;
		shift = 10 * (unsigned int)(suffix - suffixes + 1);
	}
	if (err || !value || value > OPTS_MAX_SIZE >> shift)
		return -ERANGE;
	*out = value << shift;
	return 0;
}

int opts_value_seconds(const char *option, const char *text, double *out)
{
	double value;
	int err;

	if (!*text)
		return log_err_r(-EINVAL, "%s: the value is empty (try 10, 1.5, 2m)", option);
	if (negative(text))
		return log_err_r(-EINVAL, "%s: \"%s\" is negative (try 10, 1.5, 2m)", option, text);
	err = opts_parse_seconds(text, &value);
	if (!err && value < OPTS_MIN_SECONDS)
		err = -ERANGE;
	if (err == -ERANGE)
		return log_err_r(-EINVAL, "%s: \"%s\" is out of range: %g seconds to a year",
				 option, text, OPTS_MIN_SECONDS);
	if (err)
		return log_err_r(-EINVAL, "%s: \"%s\" is not a number of seconds (try 10, 1.5, 2m)",
				 option, text);
	*out = value;
	return 0;
}

int opts_value_size(const char *option, const char *text, u64 *out)
{
	int err;

	if (!*text)
		return log_err_r(-EINVAL, "%s: the value is empty (try 4096, 512K, 1M)", option);
	if (negative(text))
		return log_err_r(-EINVAL, "%s: \"%s\" is negative (try 4096, 512K, 1M)", option,
				 text);
	err = opts_parse_size(text, out);
	if (err == -ERANGE)
		return log_err_r(-EINVAL,
				 "%s: \"%s\" is out of range: 1 (every allocation) to 1024G",
				 option, text);
	if (err)
		return log_err_r(-EINVAL,
				 "%s: \"%s\" is not a number of bytes (try 4096, 512K, 1M)", option,
				 text);
	return 0;
}

int opts_value_count(const char *option, const char *text, u64 max, size_t *out)
{
	const char *end;
	u64 value = 0;
	int err;

	if (!*text)
		return log_err_r(-EINVAL, "%s: the value is empty (try 20)", option);
	if (negative(text))
		return log_err_r(-EINVAL, "%s: \"%s\" is negative (try 20)", option, text);
	err = digits(text, max, &value, &end);
	if (err == -EINVAL || *end)
		return log_err_r(-EINVAL, "%s: \"%s\" is not a whole number (try 20)", option,
				 text);
	if (err || !value)
		return log_err_r(-EINVAL, "%s: \"%s\" is out of range: 1 to %llu", option, text,
				 (unsigned long long)max);
	*out = value;
	return 0;
}

int opts_value_seed(const char *option, const char *text, u64 *out)
{
	const char *end;
	u64 value;
	int err;

	err = digits(text, UINT64_MAX, &value, &end);
	if (err == -EINVAL || *end)
		return log_err_r(-EINVAL, "%s: \"%s\" is not a whole number (try 1)", option, text);
	if (err)
		return log_err_r(-EINVAL, "%s: \"%s\" is out of range: 0 to %llu", option, text,
				 (unsigned long long)UINT64_MAX);
	*out = value;
	return 0;
}

int opts_value_percent(const char *option, const char *text, double *out)
{
	const char *end;
	double value;
	int err;

	if (!*text)
		return log_err_r(-EINVAL, "%s: the value is empty (try 5)", option);
	if (negative(text))
		return log_err_r(-EINVAL, "%s: \"%s\" is negative (try 5)", option, text);
	err = decimal(text, &value, &end);
	if (err == -EINVAL || strcmp(*end == '%' ? end + 1 : end, ""))
		return log_err_r(-EINVAL, "%s: \"%s\" is not a number of percent (try 5)", option,
				 text);
	if (err || !(value > 0) || value > OPTS_MAX_OVERHEAD)
		return log_err_r(-EINVAL, "%s: \"%s\" is out of range: above 0, up to %.0f", option,
				 text, OPTS_MAX_OVERHEAD);
	*out = value;
	return 0;
}

int opts_value_milliseconds(const char *option, const char *text, double *out)
{
	const char *end;
	double value;
	int err = decimal(text, &value, &end);

	if (err == -EINVAL || *end)
		return log_err_r(-EINVAL, "%s: \"%s\" is not a number of milliseconds (try 10)",
				 option, text);
	if (err || value < 0.001 || value > OPTS_MAX_MILLISECONDS)
		return log_err_r(-EINVAL, "%s: \"%s\" is out of range: 0.001 to %.0f milliseconds",
				 option, text, OPTS_MAX_MILLISECONDS);
	*out = value / 1000;
	return 0;
}

int opts_value_choice(const char *option, const char *text, const struct opts_choice *choices,
		      int *out)
{
	char list[160] = "";
	size_t used = 0;

	for (const struct opts_choice *c = choices; c->name; c++) {
		int n;

		if (!strcmp(c->name, text)) {
			*out = c->value;
			return 0;
		}
		n = snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", c->name);
		if (n > 0 && (size_t)n < sizeof(list) - used)
			used += n;
	}
	return log_err_r(-EINVAL, "%s: \"%s\" is not one of %s", option, text, list);
}

static int add_pid(const char *option, struct opts *opts, pid_t pid)
{
	pid_t *grown;

	for (size_t i = 0; i < opts->npids; i++)
		if (opts->pids[i] == pid)
			return 0;
	if (opts->npids >= OPTS_MAX_PIDS)
		return log_err_r(-EINVAL, "%s: more than %d processes", option, OPTS_MAX_PIDS);
	grown = reallocarray(opts->pids, opts->npids + 1, sizeof(*grown));
	if (!grown)
		return log_err_r(-ENOMEM, "%s: out of memory", option);
	grown[opts->npids++] = pid;
	opts->pids = grown;
	return 0;
}

int opts_value_pids(const char *option, const char *text, struct opts *opts)
{
	const char *p = text;

	if (!*text)
		return log_err_r(-EINVAL, "%s: the value is empty (try 1234 or 1234,1235)", option);
	for (;;) {
		const char *end;
		u64 pid = 0;
		int err;

		err = digits(p, OPTS_MAX_PID, &pid, &end);
		if (err == -EINVAL || (*end && *end != ','))
			return log_err_r(-EINVAL,
					 "%s: \"%s\" is not a process id (try 1234 or 1234,1235)",
					 option, text);
		if (err || !pid)
			return log_err_r(-EINVAL, "%s: \"%s\" is out of range: 1 to %d", option,
					 text, OPTS_MAX_PID);
		err = add_pid(option, opts, (pid_t)pid);
		if (err)
			return err;
		if (!*end)
			return 0;
		p = end + 1;
	}
}
