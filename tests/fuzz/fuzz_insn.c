// SPDX-License-Identifier: BSD-2-Clause
/* Machine code of any bytes: probe sites stay inside, searches end. */
#include <stdlib.h>
#include <string.h>

#include "insn.h"
#include "insn_refs.h"

#define BASE 0x401000ull

struct image {
	const u8 *code;
	size_t len;
};

static size_t fetch(void *ctx, u64 addr, u8 *buf, size_t len)
{
	const struct image *image = ctx;

	if (addr < BASE || addr - BASE >= image->len)
		return 0;
	if (len > image->len - (addr - BASE))
		len = image->len - (addr - BASE);
	memcpy(buf, image->code + (addr - BASE), len);
	return len;
}

static bool peek(void *ctx, u64 addr, u64 *value)
{
	return fetch(ctx, addr, (u8 *)value, sizeof(*value)) == sizeof(*value);
}

static void check(const u8 *code, size_t len, const u8 *knobs)
{
	struct image image = {code, len};
	struct prologue_query q = {
		.code = code,
		.len = len,
		.vaddr = BASE,
		.size = knobs[0] & 1 ? len : knobs[0],
		.nargs = knobs[1] % 7,
		.needs_return = knobs[2] & 1,
		.null_skip_ok = knobs[2] & 2,
	};
	struct insn_facts facts;
	struct insn_ref refs[16];
	u64 targets[16];

	if (insn_probe_site(&q).offset && insn_probe_site(&q).offset >= len)
		abort();
	if (insn_branch_targets(code, len, BASE, targets, 16) > 16)
		abort();
	if (insn_refs(code, len, BASE, peek, &image, refs, 16) > 16)
		abort();
	if (!insn_facts(BASE, fetch, &image, &facts) &&
	    (facts.ncalls > INSN_FACTS_CALLS || facts.njumps > INSN_FACTS_CALLS))
		abort();
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u8 *code;

	if (size < 3 || size > 4096)
		return 0;
	code = malloc(size - 3 ? size - 3 : 1);
	if (!code)
		abort();
	memcpy(code, data + 3, size - 3);
	check(code, size - 3, data);
	free(code);
	return 0;
}
