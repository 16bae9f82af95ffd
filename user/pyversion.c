// SPDX-License-Identifier: BSD-2-Clause
#include <ctype.h>
#include <string.h>

#include "pyobject.h"

/* A literal of this length cannot be a version. */
#define VERSION_MAX 16
#define RODATA_MAX  (64u << 20)

static u32 hex_of(u32 major, u32 minor, u32 micro, u32 level, u32 serial)
{
	return major << 24 | minor << 16 | micro << 8 | level << 4 | serial;
}

/* At most three digits; moves *s past them.  False when there are none or too many. */
static bool number(const char **s, u32 max, u32 *out)
{
	const char *p = *s;
	u32 v = 0;

	while (isdigit((unsigned char)*p) && p - *s < 4)
		v = v * 10 + (u32)(*p++ - '0');
	if (p == *s || v > max || isdigit((unsigned char)*p))
		return false;
	*s = p;
	*out = v;
	return true;
}

/* PY_RELEASE_LEVEL and _SERIAL of the suffix. */
static bool release(const char **s, u32 *level, u32 *serial)
{
	static const struct {
		const char *text;
		u32 level;
	} levels[] = {{"rc", 0xc}, {"a", 0xa}, {"b", 0xb}};

	*level = 0xf;
	*serial = 0;
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		size_t n = strlen(levels[i].text);

		if (strncmp(*s, levels[i].text, n))
			continue;
		*s += n;
		*level = levels[i].level;
		return number(s, 15, serial);
	}
	return true;
}

u32 pyversion_parse(const char *text)
{
	u32 major, minor, micro, level, serial;

	if (!number(&text, 3, &major) || major < 2 || *text++ != '.' ||
	    !number(&text, 255, &minor) || *text++ != '.' || !number(&text, 255, &micro) ||
	    !release(&text, &level, &serial))
		return 0;
	if (*text == '+')
		text++;
	return *text ? 0 : hex_of(major, minor, micro, level, serial);
}

void pyversion_format(u32 version, char *buf, size_t len)
{
	static const char *const names[16] = {[0xa] = "a", [0xb] = "b", [0xc] = "rc"};
	const char *level = names[(version >> 4) & 0xf];
	int n = snprintf(buf, len, "%u.%u.%u", version >> 24, (version >> 16) & 0xff,
			 (version >> 8) & 0xff);

	if (level && n > 0 && (size_t)n < len)
		snprintf(buf + n, len - (size_t)n, "%s%u", level, version & 0xf);
}

/* "…python3.9…" in the file's name -> 3.9 with the rest zero; 0 = says nothing. */
static u32 from_name(const char *path)
{
	const char *base = strrchr(path, '/'), *p;
	u32 major, minor;

	base = base ? base + 1 : path;
	for (p = strstr(base, "python"); p; p = strstr(p, "python")) {
		p += strlen("python");
		const char *q = p;

		if (number(&q, 3, &major) && *q++ == '.' && number(&q, 255, &minor))
			return hex_of(major, minor, 0, 0xf, 0);
	}
	return 0;
}

/* Could an object without Py_Version be of this version?  _PyRuntime came with 3.7. */
static bool possible(u32 version, u32 hint, bool has_runtime)
{
	u32 minor = (version >> 16) & 0xff;

	if (!version || (hint && version >> 16 != hint >> 16))
		return false;
	if (has_runtime)
		return version >> 24 == 3 && minor >= 7 && minor <= 10;
	return (version >> 24 == 2 && minor == 7) || (version >> 24 == 3 && minor <= 6);
}

/* The version that a string of n bytes ends with, after some other text. */
static u32 parse_suffix(const char *text, size_t n)
{
	for (size_t from = n > VERSION_MAX ? n - VERSION_MAX : 1; from + 5 <= n; from++) {
		u32 version = isalnum((unsigned char)text[from - 1]) || text[from - 1] == '.'
				      ? 0
				      : pyversion_parse(text + from);

		if (version)
			return version;
	}
	return 0;
}

/*
 * PY_VERSION is a string literal of the object: the first string that can be
 * it.  The linker may have merged it into a longer one with the same end.
 */
static u32 scan(const char *data, size_t len, u32 hint, bool has_runtime)
{
	u32 version, merged = 0;

	for (size_t at = 0; at < len;) {
		const char *s = data + at, *end = memchr(s, '\0', len - at);
		size_t n = end ? (size_t)(end - s) : len - at;

		version = end && n >= 5 && n <= VERSION_MAX ? pyversion_parse(s) : 0;
		if (possible(version, hint, has_runtime))
			return version;
		version = end && !merged ? parse_suffix(s, n) : 0;
		if (possible(version, hint, has_runtime))
			merged = version;
		at += n + 1;
	}
	return merged;
}

static u32 from_strings(struct elf_file *elf, u32 hint, bool has_runtime)
{
	AUTO_FREE char *data = NULL;
	u64 vaddr, size;

	if (elf_section(elf, ".rodata", &vaddr, &size) || !size || size > RODATA_MAX)
		return 0;
	data = malloc(size);
	if (!data || elf_read(elf, vaddr, data, size))
		return 0;
	return scan(data, size, hint, has_runtime);
}

u32 pyversion_find(struct elf_file *elf, const char *path, bool has_runtime)
{
	struct elf_sym sym;
	u32 hint, version;
	u64 word;

	/* An exported constant since 3.11. */
	if (!elf_find_sym(elf, "Py_Version", &sym) &&
	    !elf_read(elf, sym.value, &word, sizeof(word)) && word <= UINT32_MAX)
		return (u32)word;
	hint = from_name(path);
	version = from_strings(elf, hint, has_runtime);
	return version ? version : hint;
}
