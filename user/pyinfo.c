// SPDX-License-Identifier: BSD-2-Clause
#include "pyinfo.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "log.h"
#include "pyalloc.h"
#include "pyobject.h"
#include "pyoffsets.h"
#include "pythreads.h"
#include "pytls.h"

/* Larger than any _Py_DebugOffsets known. */
#define DEBUG_MAX 1024
#define KTHREADD  2 /* the parent of all kernel threads */
#define SUPPORTED "supported are CPython 3.8 to 3.15, and 3.13t to 3.15t"

/* One line for what can go wrong at any read; yields what pyinfo.h promises. */
static int report(pid_t pid, int err)
{
	switch (err) {
	case -ESRCH:
		return log_err_r(err, "process %d went away while it was examined", (int)pid);
	case -EPERM:
		return log_err_r(err, "no permission to examine process %d: %s", (int)pid,
				 geteuid() ? "run as root, or with CAP_SYS_PTRACE"
					   : "root lacks CAP_SYS_PTRACE here, or a security "
					     "policy protects it");
	default:
		return log_err_r(-ENOTSUP, "cannot examine process %d: %s", (int)pid,
				 strerror(-err));
	}
}

/* What runs there, in words: the executable, or the command of a process without one. */
static void describe(pid_t pid, char *buf, size_t len)
{
	if (proc_exe(pid, buf, len) && proc_comm(pid, buf, len))
		snprintf(buf, len, "an unknown program");
}

/* A kernel thread has no memory of its own, and neither has a process that is just exiting. */
static int report_no_exe(pid_t pid)
{
	char parent[16], comm[64];

	if (proc_status(pid, "PPid", parent, sizeof(parent)) ||
	    (pid != KTHREADD && atoi(parent) != KTHREADD))
		return report(pid, -ESRCH);
	if (proc_comm(pid, comm, sizeof(comm)))
		comm[0] = '\0';
	return log_err_r(-ENOEXEC, "process %d (%s) is a kernel thread, not a Python process",
			 (int)pid, comm);
}

/* pid must be a process (not one of its threads), alive, with a memory of its own. */
static int check_process(pid_t pid, u64 *start_time)
{
	char text[64], exe[PATH_MAX];
	int err = proc_start_time(pid, start_time);
	u32 other;

	if (!err)
		err = proc_status(pid, "Tgid", text, sizeof(text));
	if (pid <= 0 || err == -ESRCH)
		return log_err_r(-ESRCH, "no process with PID %d", (int)pid);
	if (err)
		return report(pid, err);
	if (atoi(text) != (int)pid)
		return log_err_r(-ESRCH, "%d is a thread of process %s, not a process: use -p %s",
				 (int)pid, text, text);
	if (!proc_status(pid, "State", text, sizeof(text)) && (text[0] == 'Z' || text[0] == 'X'))
		return log_err_r(-ESRCH,
				 proc_oldest_thread(pid, 0, &other)
					 ? "process %d has exited already (it is a zombie)"
					 : "process %d: its first thread has ended, which is "
					   "looked at to find Python",
				 (int)pid);
	err = proc_exe(pid, exe, sizeof(exe));
	if (err == -ENOENT)
		return report_no_exe(pid);
	return err ? report(pid, err) : 0;
}

static bool is_musl(const struct proc_maps *maps)
{
	/* Alpine's two names; where Debian keeps it; where it installs itself. */
	static const char *const names[] = {"/ld-musl-", "/libc.musl-", "-linux-musl/libc.so",
					    "/musl/lib/libc.so"};

	for (size_t i = 0; i < maps->n; i++)
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (strstr(maps->v[i].path, names[k]))
				return true;
	return false;
}

/*
 * Fill info's version, offsets and position from one candidate.  0, -ENOTSUP
 * (version or build without offsets), -EINVAL (tables that contradict
 * themselves), -EFAULT, -ESRCH, -EPERM.
 */
static int try_object(struct pyinfo *info, const struct pyobject *o)
{
	u8 debug[DEBUG_MAX];
	size_t len = pyoffsets_debug_len(o->version);
	u32 table_version;
	int err;

	info->version = o->version;
	pyversion_format(o->version, info->version_str, sizeof(info->version_str));
	info->static_build = o->is_exe;
	info->runtime = o->runtime;
	info->object_bias = o->bias;
	info->object_start = o->start;
	info->object_end = o->end;
	if (!o->runtime)
		return -ENOTSUP;
	if (len) {
		err = len > sizeof(debug) ? -EINVAL : 0;
		if (!err)
			err = proc_read(info->pid, o->runtime, debug, len);
		if (!err)
			err = pyoffsets_debug_head(debug, len, &table_version,
						   &info->free_threaded);
		if (err)
			return err;
	}
	return pyoffsets_fill(o->version, info->free_threaded, debug, len, &info->off);
}

/* How good a candidate is: usable, and with an interpreter that was started. */
static int grade(const struct pyinfo *info, int err)
{
	u64 head = 0;

	if (err)
		return 0;
	proc_read(info->pid, info->runtime + info->off.rt_interp_head, &head, sizeof(head));
	return head ? 2 : 1;
}

static int unsupported(const struct pyinfo *info, const struct pyobject *o, int err)
{
	u32 minor = (info->version >> 16) & 0xff;

	if (err == -ESRCH || err == -EPERM)
		return report(info->pid, err);
	if (!info->version)
		return log_err_r(-ENOTSUP,
				 "process %d runs a Python of unknown version (%s); " SUPPORTED,
				 (int)info->pid, o->path);
	if (info->free_threaded && err == -ENOTSUP)
		return log_err_r(-ENOTSUP,
				 "process %d runs free-threaded Python %s (%s), "
				 "which is %s; " SUPPORTED,
				 (int)info->pid, info->version_str, o->path,
				 minor > PY_MINOR_MAX ? "not known yet" : "not supported");
	if (err != -ENOTSUP)
		return log_err_r(-ENOTSUP,
				 "process %d runs Python %s (%s) with structures that "
				 "do not match that version; " SUPPORTED,
				 (int)info->pid, info->version_str, o->path);
	return log_err_r(-ENOTSUP, "process %d runs Python %s (%s), which is %s; " SUPPORTED,
			 (int)info->pid, info->version_str, o->path,
			 info->version >> 24 == 3 && minor > PY_MINOR_MAX ? "not known yet"
			 : info->version >> 24 == 3			  ? "too old"
									  : "not supported");
}

static int not_python(pid_t pid, enum py_other other)
{
	char exe[PATH_MAX];

	describe(pid, exe, sizeof(exe));
	if (other == PY_OTHER_PYPY)
		return log_err_r(-ENOTSUP,
				 "process %d runs PyPy (%s), which is not supported; " SUPPORTED,
				 (int)pid, exe);
	return log_err_r(-ENOEXEC, "process %d (%s) is not a Python process", (int)pid, exe);
}

/* Take the best candidate into info.  0 or a logged error. */
static int choose(struct pyinfo *info, const struct pyobjects *objects,
		  const struct pyobject **chosen)
{
	const struct pyobject *best = NULL;
	struct pyinfo best_info = *info;
	int best_grade = -1, best_err = 0;

	if (!objects->n)
		return not_python(info->pid, objects->other);
	for (size_t i = 0; i < objects->n; i++) {
		struct pyinfo trial = *info;
		int err = try_object(&trial, &objects->v[i]), g = grade(&trial, err);

		if (g <= best_grade)
			continue;
		best = &objects->v[i];
		best_info = trial;
		best_grade = g;
		best_err = err;
	}
	*info = best_info;
	if (best_err)
		return unsupported(info, best, best_err);
	info->object_path = strdup(best->path);
	if (!info->object_path)
		return report(info->pid, -ENOMEM);
	*chosen = best;
	return 0;
}

/* What needs the offsets: thread state, allocators, and whether all of it fits. */
static int fill(struct pyinfo *info, const struct pyobject *o, const struct proc_maps *maps)
{
	u64 start_time;
	int err = pyoffsets_pymalloc(info->version, &info->pool_size, &info->arena_size);

	if (!err)
		err = pythreads_check(info);
	if (err == -ENOTSUP)
		return unsupported(info, o, -EINVAL);
	if (!err)
		err = pytls_find(info, o->elf);
	if (err)
		return report(info->pid, err);
	err = pyalloc_examine(info, o->elf, maps);
	if (err)
		log_info("allocators of process %d not found: %s", (int)info->pid, strerror(-err));
	err = proc_start_time(info->pid, &start_time);
	if (err || start_time != info->start_time)
		return report(info->pid, -ESRCH);
	return 0;
}

int pyinfo_examine(pid_t pid, struct pyinfo *out)
{
	struct pyinfo info = {.pid = pid, .tss_key = PHT_ABSENT};
	struct pyobjects objects = {0};
	const struct pyobject *o = NULL;
	struct proc_maps maps = {0};
	int err = check_process(pid, &info.start_time);

	if (err)
		return err;
	err = proc_maps_read(pid, &maps);
	if (!err)
		err = pyobjects_find(pid, &maps, &objects);
	if (err) {
		err = report(pid, err);
	} else {
		info.musl = is_musl(&maps);
		err = choose(&info, &objects, &o);
	}
	if (!err)
		err = fill(&info, o, &maps);
	pyobjects_free(&objects);
	proc_maps_free(&maps);
	if (err)
		pyinfo_free(&info);
	else
		*out = info;
	return err;
}

int pyinfo_find_initialized(pid_t pid, u64 *addr)
{
	struct pyobjects objects = {0};
	struct proc_maps maps = {0};
	int err = proc_maps_read(pid, &maps);
	u64 found = 0;

	if (!err)
		err = pyobjects_find(pid, &maps, &objects);
	for (size_t i = 0; !err && i < objects.n; i++) {
		struct pyinfo trial = {.pid = pid};

		if (try_object(&trial, &objects.v[i]))
			continue;
		found = trial.runtime + pyoffsets_initialized(trial.version, &trial.off);
		break;
	}
	if (!err && !found)
		err = objects.n || objects.other != PY_OTHER_NONE ? -ENOTSUP : -ENOEXEC;
	if (!err)
		*addr = found;
	pyobjects_free(&objects);
	proc_maps_free(&maps);
	return err;
}

void pyinfo_free(struct pyinfo *info)
{
	free(info->object_path);
	info->object_path = NULL;
}
