// SPDX-License-Identifier: BSD-2-Clause
#include "pyobject.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static bool same_file(const struct proc_map *a, const struct proc_map *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

/* The first executable mapping of a file stands for the file. */
static bool is_first_code(const struct proc_maps *maps, size_t i)
{
	const struct proc_map *m = &maps->v[i];

	if (!m->x || !m->inode)
		return false;
	/* An object's mappings are neighbours; look no further back than that. */
	for (size_t k = i; k-- > 0 && i - k < 16;)
		if (maps->v[k].x && same_file(&maps->v[k], m))
			return false;
	return true;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Lowest mapping of the file of maps[i]; fills the object's range. */
static const struct proc_map *extent(const struct proc_maps *maps, size_t i, struct pyobject *o)
{
	const struct proc_map *lowest = NULL;

	for (size_t k = 0; k < maps->n; k++) {
		const struct proc_map *m = &maps->v[k];

		if (!same_file(m, &maps->v[i]))
			continue;
		if (!lowest) {
			lowest = m;
			o->start = m->start;
		}
		o->end = m->end;
	}
	return lowest;
}

static bool is_pypy(struct elf_file *elf, const char *path)
{
	struct elf_sym sym;

	return !strncmp(base_name(path), "libpypy", 7) || !strncmp(base_name(path), "pypy", 4) ||
	       !elf_find_sym(elf, "rpython_startup_code", &sym);
}

/* Fill o from the file of maps[i].  False: no CPython in it. */
static bool inspect(const struct proc_maps *maps, size_t i, struct pyobject *o,
		    enum py_other *other)
{
	const struct proc_map *lowest = extent(maps, i, o);
	struct elf_sym sym;

	if (is_pypy(o->elf, o->path)) {
		*other = PY_OTHER_PYPY;
		return false;
	}
	if (!lowest || elf_load_bias(o->elf, lowest->start, lowest->offset, &o->bias))
		return false;
	if (!elf_find_sym(o->elf, "_PyRuntime", &sym))
		o->runtime = sym.value + o->bias;
	else if (elf_find_sym(o->elf, "Py_GetVersion", &sym))
		return false;
	o->version = pyversion_find(o->elf, o->path, o->runtime != 0);
	return true;
}

/*
 * The dynamic linker binds to the executable first, except that one which
 * needs libpython may define a few of its names without being an interpreter.
 */
static int rank(const struct pyobject *o)
{
	if (o->is_exe)
		return elf_needs(o->elf, "libpython") ? 3 : 0;
	return strncmp(base_name(o->path), "libpython", 9) ? 2 : 1;
}

static void insert(struct pyobjects *objects, const struct pyobject *o)
{
	size_t at = objects->n++;

	while (at > 0 && rank(&objects->v[at - 1]) > rank(o)) {
		objects->v[at] = objects->v[at - 1];
		at--;
	}
	objects->v[at] = *o;
}

int pyobjects_find(pid_t pid, const struct proc_maps *maps, struct pyobjects *out)
{
	struct pyobjects objects = {0};
	char exe[PATH_MAX] = "";
	int opened = 0, err = -ENOENT;

	proc_exe(pid, exe, sizeof(exe));
	for (size_t i = 0; i < maps->n && objects.n < PYOBJECTS_MAX; i++) {
		struct pyobject o = {.path = maps->v[i].path};
		int fd;

		if (!is_first_code(maps, i))
			continue;
		fd = proc_open_map(pid, &maps->v[i]);
		if (fd < 0) {
			err = fd;
			continue;
		}
		opened++;
		if (elf_open_fd(fd, &o.elf))
			continue;
		o.is_exe = !strcmp(o.path, exe);
		if (inspect(maps, i, &o, &objects.other))
			insert(&objects, &o);
		else
			elf_close(o.elf);
	}
	/* Not one file could be read: then nothing is known about the process. */
	if (!opened)
		return err;
	*out = objects;
	return 0;
}

void pyobjects_free(struct pyobjects *objects)
{
	for (size_t i = 0; i < objects->n; i++)
		elf_close(objects->v[i].elf);
	*objects = (struct pyobjects){0};
}
