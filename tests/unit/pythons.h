/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CPythons that tests run against: python3 and python3.N on PATH, pyenv's,
 * and the commands in PHT_TEST_PYTHONS, separated by newlines or ':' (for one
 * in another root: "chroot DIR /usr/bin/python3.14").  Each build counts once.
 */
#ifndef PHT_TEST_PYTHONS_H
#define PHT_TEST_PYTHONS_H

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PYTHONS_MAX 24

struct python {
	char command[400]; /* for the shell */
	unsigned hex;	   /* PY_VERSION_HEX */
	unsigned long dev, ino;
};

struct pythons {
	struct python v[PYTHONS_MAX];
	size_t n;
};

static inline void pythons_try(struct pythons *ps, const char *command)
{
	struct python *py = &ps->v[ps->n];
	char line[800];
	FILE *f;
	int got;

	if (ps->n == PYTHONS_MAX || strlen(command) >= sizeof(py->command))
		return;
	snprintf(line, sizeof(line),
		 "%s -S -c 'import os, sys; s = os.stat(sys.executable); "
		 "print(sys.implementation.name, sys.hexversion, s.st_dev, s.st_ino)' 2>/dev/null",
		 command);
	f = popen(line, "r");
	if (!f)
		return;
	got = fscanf(f, "cpython %u %lu %lu", &py->hex, &py->dev, &py->ino);
	pclose(f);
	if (got != 3 || py->hex < 0x03080000 || py->hex >= 0x030f0000)
		return;
	for (size_t i = 0; i < ps->n; i++)
		if (ps->v[i].dev == py->dev && ps->v[i].ino == py->ino)
			return;
	snprintf(py->command, sizeof(py->command), "%s", command);
	ps->n++;
}

static inline void pythons_find(struct pythons *ps)
{
	const char *env = getenv("PHT_TEST_PYTHONS");
	const char *home = getenv("HOME");
	char text[400];
	glob_t g;

	memset(ps, 0, sizeof(*ps));
	pythons_try(ps, "/usr/bin/python3");
	pythons_try(ps, "python3");
	for (int minor = 8; minor <= 14; minor++) {
		snprintf(text, sizeof(text), "python3.%d", minor);
		pythons_try(ps, text);
	}
	snprintf(text, sizeof(text), "%s/.pyenv/versions/3.*/bin/python3", home ? home : "");
	if (!glob(text, 0, NULL, &g)) {
		for (size_t i = 0; i < g.gl_pathc; i++)
			pythons_try(ps, g.gl_pathv[i]);
		globfree(&g);
	}
	while (env && *env) {
		size_t len = strcspn(env, ":\n");

		snprintf(text, sizeof(text), "%.*s", (int)len, env);
		if (len)
			pythons_try(ps, text);
		env += len + !!env[len];
	}
}

/* A file of tests/gen or tests/data, found beside this header. */
static inline const char *pythons_path(const char *name)
{
	static char path[1024];

	snprintf(path, sizeof(path), "%.*s../%s", (int)(strrchr(__FILE__, '/') + 1 - __FILE__),
		 __FILE__, name);
	return path;
}

#endif
