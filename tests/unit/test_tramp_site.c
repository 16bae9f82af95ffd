// SPDX-License-Identifier: BSD-2-Clause
/* What a hit of a site costs: a perf counter on the page's file stands for the BPF program. */

#ifdef __x86_64__
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tramp_harness.h"
#include "tramp_priv.h"

static struct tramp tramp;

static int make_file(void **state)
{
	const struct tramp_image_spec spec = {.flavour = TRAMP_TCB, .small_max = 512};
	static u8 image[PHT_TRAMP_CODE_SIZE];

	tramp.region.fd = memfd_create("site", MFD_CLOEXEC);
	if (tramp.region.fd < 0 || tramp_image_build(&spec, image))
		return -1;
	return write(tramp.region.fd, image, sizeof(image)) == sizeof(image) ? 0 : -1;
}

static int close_file(void **state)
{
	return close(tramp.region.fd);
}

/* Count the hits of an offset in the file; -errno where that is not allowed. */
static int count_hits(u64 offset)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	char path[64];
	FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int fd, n = f ? fscanf(f, "%u", &attr.type) : 0;

	if (f)
		fclose(f);
	if (n != 1)
		return -ENOTSUP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", tramp.region.fd);
	attr.uprobe_path = (uintptr_t)path;
	attr.probe_offset = offset;
	fd = (int)syscall(SYS_perf_event_open, &attr, getpid(), -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void test_bare(void **state)
{
	u64 ns = 77;

	assert_int_equal(tramp_site_cost(&tramp, PHT_SITE_NONE, &ns), -EINVAL);
	assert_int_equal(tramp_site_cost(&tramp, PHT_SITE_NOP10 + 1, &ns), -EINVAL);
	assert_int_equal(ns, 77);
	for (u32 site = PHT_SITE_NOP1; site <= PHT_SITE_NOP10; site++) {
		ns = UINT64_MAX;
		assert_int_equal(tramp_site_cost(&tramp, site, &ns), 0);
		/* A call and a return. */
		assert_in_range(ns, 0, 100);
	}
	tramp.region.fd += 100;
	assert_int_equal(tramp_site_cost(&tramp, PHT_SITE_NOP1, &ns), -EBADF);
	tramp.region.fd -= 100;
}

static void test_probed(void **state)
{
	unsigned accepted = 0;

	for (u32 site = PHT_SITE_NOP1; site <= PHT_SITE_NOP10; site++) {
		int fd = count_hits(PHT_SITE_ALLOC(site));
		u64 ns, bare, hits;

		if (fd == -EACCES || fd == -EPERM || fd == -ENOTSUP) {
			print_error("SKIPPED: uprobes are not allowed here\n");
			skip();
		}
		/* Some kernels take no probe on some nops. */
		if (fd < 0)
			continue;
		assert_int_equal(tramp_site_cost(&tramp, site, &ns), 0);
		assert_int_equal(read(fd, &hits, sizeof(hits)), sizeof(hits));
		close(fd);
		/* Or take it, and find out when the file is mapped. */
		if (!hits && site != PHT_SITE_NOP1)
			continue;
		accepted++;
		assert_in_range(hits, 100, 1000);
		assert_int_equal(tramp_site_cost(&tramp, site, &bare), 0);
		print_message("  site %u: %llu ns, without a probe %llu ns\n", site,
			      (unsigned long long)ns, (unsigned long long)bare);
		assert_true(ns > bare + 20);
		assert_in_range(ns, 30, 1000000);
	}
	assert_true(accepted > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bare),
		cmocka_unit_test(test_probed),
	};

	return cmocka_run_group_tests(tests, make_file, close_file);
}
#else
int main(void)
{
	return 0;
}
#endif
