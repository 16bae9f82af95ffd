// SPDX-License-Identifier: BSD-2-Clause
/* This process, a child and files of ours, as /proc shows them. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "proc.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

static void test_maps_sorted(void **state)
{
	struct proc_maps maps;
	const struct proc_map *m;
	int local;

	assert_int_equal(proc_maps_read(getpid(), &maps), 0);
	assert_true(maps.n > 5);
	for (size_t i = 0; i < maps.n; i++) {
		assert_true(maps.v[i].start < maps.v[i].end);
		assert_true(!i || maps.v[i - 1].end <= maps.v[i].start);
		assert_ptr_equal(proc_maps_find(&maps, maps.v[i].start), &maps.v[i]);
		assert_ptr_equal(proc_maps_find(&maps, maps.v[i].end - 1), &maps.v[i]);
	}
	m = proc_maps_find(&maps, (u64)(uintptr_t)&local);
	assert_non_null(m);
	assert_true(m->r && m->w && !m->shared);
	m = proc_maps_find(&maps, (u64)(uintptr_t)test_maps_sorted);
	assert_non_null(m);
	assert_true(m->r && m->x && m->inode && m->path[0] == '/' && !m->deleted);
	assert_null(proc_maps_find(&maps, 0));
	proc_maps_free(&maps);
	assert_null(proc_maps_find(&maps, (u64)(uintptr_t)&local));
}

/* Map a file of this name, unlink it if so asked, and look at the mapping. */
static void check_file(const char *name, bool unlinked)
{
	char dir[] = "/tmp/test_proc.XXXXXX", path[256], got[16] = "";
	const struct proc_map *m;
	struct proc_maps maps;
	void *p;
	int fd;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "content", 8), 8);
	p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(p != MAP_FAILED);
	close(fd);
	if (unlinked)
		unlink(path);
	assert_int_equal(proc_maps_read(getpid(), &maps), 0);
	m = proc_maps_find(&maps, (u64)(uintptr_t)p);
	assert_non_null(m);
	assert_string_equal(m->path, path);
	assert_int_equal(m->deleted, unlinked);
	fd = proc_open_map(getpid(), m);
	/* An unlinked file can only be reached through map_files, which wants a capability. */
	if (fd >= 0 || !unlinked) {
		assert_true(fd >= 0);
		assert_int_equal(read(fd, got, sizeof(got)), 8);
		assert_string_equal(got, "content");
		close(fd);
	} else {
		assert_true(fd == -EPERM || fd == -ENOENT);
	}
	proc_maps_free(&maps);
	munmap(p, PAGE);
	unlink(path);
	rmdir(dir);
}

static void test_files(void **state)
{
	check_file("plain", false);
	check_file("with space", false);
	check_file("new\nline", false);
	check_file("gone", true);
	check_file("new\nline and gone", true);
}

/* A path that is not what was mapped must not be opened as if it were a plain file. */
static void test_open_refuses(void **state)
{
	char fifo[] = "/tmp/test_proc_fifo.XXXXXX";
	struct proc_map m = {.start = 16 * PAGE, .end = 17 * PAGE, .inode = 1};

	m.path = (char *)"";
	assert_true(proc_open_map(getpid(), &m) < 0);
	m.path = (char *)"/nonexistent/file";
	assert_true(proc_open_map(getpid(), &m) < 0);
	m.path = (char *)"/dev/zero";
	assert_true(proc_open_map(getpid(), &m) < 0);
	close(mkstemp(fifo));
	unlink(fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	m.path = fifo;
	assert_true(proc_open_map(getpid(), &m) < 0);
	unlink(fifo);
}

static void test_read(void **state)
{
	u8 *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	u8 buf[64];

	assert_true(p != MAP_FAILED);
	memset(p, 0x42, PAGE);
	munmap(p + PAGE, PAGE);
	assert_int_equal(proc_read(getpid(), (u64)(uintptr_t)p + PAGE - 64, buf, 64), 0);
	assert_memory_equal(buf, p, 64);
	assert_int_equal(proc_read(getpid(), (u64)(uintptr_t)p + PAGE - 63, buf, 64), -EFAULT);
	assert_int_equal(proc_read(getpid(), 0, buf, 1), -EFAULT);
	assert_int_equal(proc_read(getpid(), UINT64_MAX - 3, buf, 64), -EFAULT);
	assert_int_equal(proc_read(getpid(), 0, buf, 0), 0);
	munmap(p, PAGE);
}

/* A process that is surely gone: reaped by us. */
static pid_t dead_pid(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void test_gone(void **state)
{
	pid_t pid = dead_pid();
	struct proc_maps maps;
	char text[64];
	u64 value;

	assert_int_equal(proc_maps_read(pid, &maps), -ESRCH);
	assert_int_equal(proc_read(pid, 0x1000, text, 1), -ESRCH);
	assert_int_equal(proc_start_time(pid, &value), -ESRCH);
	assert_int_equal(proc_rss(pid, &value), -ESRCH);
	assert_int_equal(proc_comm(pid, text, sizeof(text)), -ESRCH);
	assert_int_equal(proc_status(pid, "State", text, sizeof(text)), -ESRCH);
	assert_true(proc_exe(pid, text, sizeof(text)) < 0);
}

/* comm may hold what /proc/PID/stat uses as separators. */
static void test_identity(void **state)
{
	char comm[32], text[64], exe[4096];
	int gate[2];
	pid_t pid;
	u64 mine, childs, again;
	char byte;

	assert_int_equal(pipe(gate), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_NAME, "a) S 1 (b");
		if (write(gate[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(gate[0], &byte, 1), 1);
	assert_int_equal(proc_comm(pid, comm, sizeof(comm)), 0);
	assert_string_equal(comm, "a) S 1 (b");
	assert_int_equal(proc_comm(pid, comm, 3), 0);
	assert_string_equal(comm, "a)");
	assert_int_equal(proc_start_time(getpid(), &mine), 0);
	assert_int_equal(proc_start_time(pid, &childs), 0);
	assert_int_equal(proc_start_time(pid, &again), 0);
	assert_true(mine > 0 && childs >= mine && childs == again);
	assert_true(childs < mine + 3600ull * (u64)sysconf(_SC_CLK_TCK));
	assert_int_equal(proc_status(pid, "Tgid", text, sizeof(text)), 0);
	assert_int_equal(atoi(text), pid);
	assert_int_equal(proc_status(pid, "Tgi", text, sizeof(text)), -ENOENT);
	assert_int_equal(proc_exe(pid, exe, sizeof(exe)), 0);
	assert_non_null(strstr(exe, "test_proc"));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(gate[0]);
	close(gate[1]);
}

static void *pause_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/* One with two threads; the first of them ends if so told. */
static pid_t two_threads(bool first_ends)
{
	pid_t pid = fork();
	pthread_t thread;

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pthread_create(&thread, NULL, pause_for_ever, NULL))
		_exit(1);
	/* Not pthread_exit(): the process's own first thread, and nothing of ours with it. */
	if (first_ends)
		syscall(SYS_exit, 0);
	pause_for_ever(NULL);
	_exit(1);
}

/* Its first thread looks the same all the time where it has ended. */
static void check_stopped(bool first_ends)
{
	pid_t pid = two_threads(first_ends);
	char text[64] = "";
	int status;

	while (first_ends && text[0] != 'Z')
		assert_int_equal(proc_status(pid, "State", text, sizeof(text)), 0);
	assert_false(proc_is_stopped(pid));
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_true(proc_is_stopped(pid));
	kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, &status, WCONTINUED), pid);
	assert_false(proc_is_stopped(pid));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(proc_is_stopped(pid));
}

static void test_stopped(void **state)
{
	check_stopped(false);
	check_stopped(true);
}

static void test_rss(void **state)
{
	size_t len = 32 << 20;
	u64 before, after;
	u8 *p;

	assert_int_equal(proc_rss(getpid(), &before), 0);
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(p != MAP_FAILED);
	memset(p, 1, len);
	assert_int_equal(proc_rss(getpid(), &after), 0);
	assert_true(after >= before + len - (4 << 20));
	munmap(p, len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_maps_sorted),  cmocka_unit_test(test_files),
		cmocka_unit_test(test_open_refuses), cmocka_unit_test(test_read),
		cmocka_unit_test(test_gone),	     cmocka_unit_test(test_identity),
		cmocka_unit_test(test_stopped),	     cmocka_unit_test(test_rss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
