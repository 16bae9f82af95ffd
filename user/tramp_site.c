// SPDX-License-Identifier: BSD-2-Clause
/* What a hit of a probed site costs on this kernel: measured, in this very process. */
#include "tramp_priv.h"

#ifdef __x86_64__
#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#define WARM	16 /* the kernel optimises a site after its first hits */
#define BATCHES 5
#define BATCH	20

static u64 now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000 + (u64)ts.tv_nsec;
}

/* A site is a function that does nothing; address 0 is no block of anybody's. */
typedef void (*site_fn)(u64 addr, u64 flags, u64 size, u64 r);

static u64 time_site(site_fn site)
{
	u64 best = UINT64_MAX;

	for (int i = 0; i < WARM; i++)
		site(0, 0, 0, 1);
	for (int b = 0; b < BATCHES; b++) {
		u64 start = now(), took;

		for (int i = 0; i < BATCH; i++)
			site(0, 0, 0, 1);
		took = (now() - start) / BATCH;
		if (took < best)
			best = took;
	}
	return best;
}

int tramp_site_cost(const struct tramp *t, u32 site, u64 *ns)
{
	u8 *page;

	if (site < PHT_SITE_NOP1 || site > PHT_SITE_NOP10)
		return -EINVAL;
	page = mmap(NULL, PHT_TRAMP_CODE_SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE, t->region.fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	*ns = time_site((site_fn)(void *)(page + PHT_SITE_ALLOC(site)));
	munmap(page, PHT_TRAMP_CODE_SIZE);
	return 0;
}
#endif
