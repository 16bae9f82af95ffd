// SPDX-License-Identifier: BSD-2-Clause
/*
 * A program that is not Python, and runs some: embed SCRIPT [LIBPYTHON].  With a
 * library it is loaded at run time, long after the start; without, it was linked.
 * The few functions that it needs are written out, so that no headers have to be there.
 */
#include <dlfcn.h>
#include <stdio.h>

#ifdef LINKED
extern void Py_Initialize(void);
extern int PyRun_SimpleString(const char *text);
extern int Py_FinalizeEx(void);
#else
static void (*Py_Initialize)(void);
static int (*PyRun_SimpleString)(const char *text);
static int (*Py_FinalizeEx)(void);

static int load(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
	*(void **)&Py_Initialize = dlsym(lib, "Py_Initialize");
	*(void **)&PyRun_SimpleString = dlsym(lib, "PyRun_SimpleString");
	*(void **)&Py_FinalizeEx = dlsym(lib, "Py_FinalizeEx");
	return Py_Initialize && PyRun_SimpleString && Py_FinalizeEx ? 0 : -1;
}
#endif

int main(int argc, char **argv)
{
	char text[1024];

	if (argc < 2)
		return 2;
#ifndef LINKED
	if (argc < 3 || load(argv[2]))
		return 2;
#endif
	Py_Initialize();
	snprintf(text, sizeof(text), "import runpy; runpy.run_path('%s', run_name='__main__')",
		 argv[1]);
	if (PyRun_SimpleString(text))
		return 1;
	return Py_FinalizeEx() ? 1 : 0;
}
