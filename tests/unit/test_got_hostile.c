// SPDX-License-Identifier: BSD-2-Clause
/*
 * Slots of objects whose headers, symbols and relocations are damaged, and of
 * processes that are not there.  Needs a C compiler.
 */
#include <errno.h>
#include <sys/mman.h>

#include "elf.h"
#include "got_elf.h"
#include "got_target.h"
#include "pht_tramp.h"

/* A library's file, laid out as a linker would, but writable, and not relocated. */
struct layout {
	u8 *at;
	size_t len;
	struct proc_maps maps;
	const struct proc_map *base;
};

static void lay_out(struct layout *l, const char *name)
{
	Elf64_Phdr ph[32];
	Elf64_Ehdr eh;
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &eh, sizeof(eh), 0), sizeof(eh));
	assert_true(eh.e_phnum <= ARRAY_SIZE(ph));
	assert_int_equal(pread(fd, ph, eh.e_phnum * sizeof(*ph), (off_t)eh.e_phoff),
			 eh.e_phnum * sizeof(*ph));
	l->len = 1 << 20;
	l->at = mmap(NULL, l->len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(l->at != MAP_FAILED);
	for (int i = 0; i < eh.e_phnum; i++) {
		u64 skew = ph[i].p_vaddr % 4096;

		if (ph[i].p_type != PT_LOAD)
			continue;
		assert_true(ph[i].p_vaddr + ph[i].p_memsz <= l->len);
		assert_true(mmap(l->at + ph[i].p_vaddr - skew, ph[i].p_filesz + skew,
				 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
				 (off_t)(ph[i].p_offset - skew)) != MAP_FAILED);
	}
	close(fd);
	assert_int_equal(proc_maps_read(getpid(), &l->maps), 0);
	l->base = proc_maps_find(&l->maps, (u64)(uintptr_t)l->at);
	assert_non_null(l->base);
}

static size_t read_layout(const struct layout *l)
{
	struct got_slots slots = {.settled = true};
	u64 budget = 1 << 16;
	struct got_elf o;
	size_t n;

	slots.real[AF_MALLOC] = (u64)(uintptr_t)l->at + 64;
	if (got_elf_read(getpid(), &l->maps, l->base, &o))
		return 0;
	o.is_exe = true;
	o.defines = got_elf_defines(getpid(), &o, "run") << AF_MALLOC;
	got_elf_defines(getpid(), &o, "malloc");
	got_reloc_scan(getpid(), &l->maps, &o, 0, &budget, &slots);
	n = slots.n;
	for (size_t i = 0; i < n; i++) {
		const struct got_slot *s = &slots.v[i];

		/* whatever the tables say, a slot is a word of that very file's mappings */
		assert_true(s->addr % 8 == 0 && s->addr >= (u64)(uintptr_t)l->at &&
			    s->addr + 8 <= (u64)(uintptr_t)(l->at + l->len));
		assert_int_equal(s->inode, l->base->inode);
	}
	got_slots_free(&slots);
	return n;
}

/* Where the tables are that are worth damaging: headers, symbols, relocations, dynamic. */
static void test_hostile(void **state)
{
	static const char *const libs[] = {"lazy.so", "data.so", "sysv.so"};
	size_t found = 0, runs = 0;
	struct layout l;

	srandom(1);
	for (size_t k = 0; k < ARRAY_SIZE(libs); k++) {
		lay_out(&l, libs[k]);
		assert_true(read_layout(&l) >= 6);
		for (int i = 0; i < 4000; i++, runs++) {
			struct got_elf o;
			u64 places[8], saved[4], *at[4];

			assert_int_equal(got_elf_read(getpid(), &l.maps, l.base, &o), 0);
			places[0] = places[1] = (u64)(uintptr_t)l.at;
			places[2] = places[3] = o.dynamic;
			places[4] = o.rela;
			places[5] = o.jmprel;
			places[6] = o.symtab;
			places[7] = o.gnu_hash ? o.gnu_hash : o.hash;
			for (int j = 0; j < 4; j++) {
				u64 p = places[random() % 8] + (u64)(random() % 48) * 8;

				at[j] = (u64 *)(uintptr_t)(p & ~7ul);
				saved[j] = *at[j];
				switch (random() % 4) {
				case 0:
					*at[j] ^= 1ul << (random() % 64);
					break;
				case 1:
					*at[j] = UINT64_MAX - (u64)(random() % 64);
					break;
				case 2:
					*at[j] = (u64)random() << (random() % 40);
					break;
				case 3:
					*at[j] = saved[(random() % (j + 1))];
				}
			}
			found += read_layout(&l) != 0;
			for (int j = 3; j >= 0; j--)
				*at[j] = saved[j];
		}
		assert_true(read_layout(&l) >= 6);
		proc_maps_free(&l.maps);
		munmap(l.at, l.len);
	}
	print_message("  %zu of %zu damaged objects still had slots\n", found, runs);
	assert_true(found && found < runs);
}

/* A link map in a ring, of no end, or of nonsense. */
static void test_hostile_links(void **state)
{
	static u64 link[5], debug[6];
	struct got_slots slots = {.settled = true, .r_debug = (u64)(uintptr_t)debug};

	debug[0] = 2;
	debug[1] = link[3] = (u64)(uintptr_t)link;
	debug[5] = (u64)(uintptr_t)debug;
	link[1] = UINT64_MAX - 3;
	assert_true(got_changed(getpid(), &slots));
	link[3] = UINT64_MAX - 7;
	assert_true(got_changed(getpid(), &slots));
	debug[1] = 0;
	assert_true(got_changed(getpid(), &slots));
	slots.r_debug = UINT64_MAX;
	assert_true(got_changed(getpid(), &slots));
}

static void test_nothing(void **state)
{
	struct pyinfo info = {.pid = getpid()}, gone = {.pid = 1 << 30};
	struct alloc_family heap = {.bias = 0}, mm = {.bias = 0};
	struct got_slots out = {.n = 7};
	struct proc_maps maps = {0};

	assert_int_equal(got_scan(&info, &maps, &heap, &mm, &out), -ENOENT);
	heap.f[AF_MALLOC].vaddr = 4096;
	assert_int_equal(got_scan(&gone, &maps, &heap, &mm, &out), -ESRCH);
	assert_int_equal(out.n, 7);
	assert_int_equal(got_scan(&info, &maps, &heap, &mm, &out), 0);
	assert_int_equal(out.n + out.nobjects, 0);
	got_slots_free(&out);
	assert_int_equal(got_entry(AF_MALLOC), PHT_TFN_MALLOC);
	assert_int_equal(got_entry(AF_REALLOCARRAY), PHT_TFN_REALLOCARRAY);
	assert_int_equal(got_entry(AF_MMAP), PHT_TFN_MMAP);
	assert_int_equal(got_entry(AF_NEW), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_hostile_links),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
