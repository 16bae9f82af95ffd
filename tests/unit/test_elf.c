// SPDX-License-Identifier: BSD-2-Clause
/* Look-ups in this very program, in libc, and in files that lie. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "elf.h"
#include "proc.h"

const char elf_test_marker[] = "a string that test_elf looks for";

__attribute__((noinline)) int elf_test_function(int x)
{
	return x * 3 + 1;
}

static struct elf_file *open_self(void)
{
	struct elf_file *elf = NULL;

	assert_int_equal(elf_open_fd(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &elf), 0);
	return elf;
}

static void test_symbols(void **state)
{
	struct elf_file *elf = open_self();
	struct elf_sym sym, at;
	char text[sizeof(elf_test_marker)];

	assert_int_equal(elf_find_sym(elf, "elf_test_marker", &sym), 0);
	assert_false(sym.is_func);
	assert_int_equal(sym.size, sizeof(elf_test_marker));
	assert_int_equal(elf_read(elf, sym.value, text, sizeof(text)), 0);
	assert_string_equal(text, elf_test_marker);
	assert_int_equal(elf_find_sym(elf, "elf_test_function", &sym), 0);
	assert_true(sym.is_func && sym.size);
	assert_int_equal(elf_sym_at(elf, sym.value + sym.size - 1, &at), 0);
	assert_int_equal(at.value, sym.value);
	assert_int_equal(at.size, sym.size);
	assert_int_equal(elf_find_sym(elf, "elf_test_functio", &sym), -ENOENT);
	assert_int_equal(elf_find_sym(elf, "", &sym), -ENOENT);
	/* Defined elsewhere. */
	assert_int_equal(elf_find_sym(elf, "elf_begin", &sym), -ENOENT);
	assert_int_equal(elf_sym_at(elf, UINT64_MAX, &at), -ENOENT);
	elf_close(elf);
}

/* The bias of any mapping leads from the file's addresses to the live ones. */
static void test_load_bias(void **state)
{
	struct elf_file *elf = open_self();
	const struct proc_map *map;
	struct proc_maps maps;
	struct elf_sym sym;
	u64 bias = 0;

	assert_int_equal(proc_maps_read(getpid(), &maps), 0);
	assert_int_equal(elf_find_sym(elf, "elf_test_function", &sym), 0);
	map = proc_maps_find(&maps, (u64)(uintptr_t)elf_test_function);
	assert_non_null(map);
	assert_true(map->x);
	assert_int_equal(elf_load_bias(elf, map->start, map->offset, &bias), 0);
	assert_int_equal(sym.value + bias, (u64)(uintptr_t)elf_test_function);
	assert_int_equal(elf_load_bias(elf, map->start, 1ull << 60, &bias), -ENOENT);
	proc_maps_free(&maps);
	elf_close(elf);
}

static void test_addresses(void **state)
{
	struct elf_file *elf = open_self();
	struct elf_sym sym;
	u64 offset, vaddr, size;
	u8 byte;

	assert_int_equal(elf_find_sym(elf, "elf_test_function", &sym), 0);
	assert_int_equal(elf_vaddr_to_offset(elf, sym.value, &offset), 0);
	assert_int_equal(elf_offset_to_vaddr(elf, offset, &vaddr), 0);
	assert_int_equal(vaddr, sym.value);
	assert_int_equal(elf_section(elf, ".text", &vaddr, &size), 0);
	assert_in_range(sym.value, vaddr, vaddr + size - 1);
	assert_int_equal(elf_section(elf, ".nonesuch", &vaddr, &size), -ENOENT);
	assert_int_equal(elf_vaddr_to_offset(elf, UINT64_MAX, &offset), -ENOENT);
	assert_int_equal(elf_offset_to_vaddr(elf, UINT64_MAX, &vaddr), -ENOENT);
	assert_int_equal(elf_read(elf, UINT64_MAX, &byte, 1), -EFAULT);
	assert_int_equal(elf_read(elf, sym.value, &byte, SIZE_MAX), -EFAULT);
	/* .bss has addresses but no bytes in the file. */
	assert_int_equal(elf_section(elf, ".bss", &vaddr, &size), 0);
	assert_int_equal(elf_read(elf, vaddr + size - 1, &byte, 1), -EFAULT);
	elf_close(elf);
}

static void test_dynamic(void **state)
{
	struct elf_file *elf = open_self();

	assert_true(elf_needs(elf, "libc.so"));
	assert_true(elf_needs(elf, "libcmocka"));
	assert_false(elf_needs(elf, "libpython"));
	assert_true(elf_machine(elf) == EM_X86_64 || elf_machine(elf) == EM_AARCH64);
	elf_close(elf);
}

/* The note in memory is the truth about the build id. */
static int find_note(struct dl_phdr_info *info, size_t size, void *arg)
{
	char *hex = arg;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		const u8 *p = (const u8 *)(info->dlpi_addr + ph->p_vaddr), *end = p + ph->p_memsz;

		while (ph->p_type == PT_NOTE && p + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *nh = (const void *)p;

			p += sizeof(*nh) + ((nh->n_namesz + 3) & ~3u);
			for (u32 k = 0; nh->n_type == NT_GNU_BUILD_ID && k < nh->n_descsz; k++)
				snprintf(hex + 2 * k, 3, "%02x", p[k]);
			p += (nh->n_descsz + 3) & ~3u;
		}
	}
	return 1; /* the first object is this program */
}

static void test_build_id(void **state)
{
	struct elf_file *elf = open_self();
	char want[128] = "", hex[128] = "";

	dl_iterate_phdr(find_note, want);
	if (want[0]) {
		assert_int_equal(elf_build_id(elf, hex, sizeof(hex)), 0);
		assert_string_equal(hex, want);
		assert_int_equal(elf_build_id(elf, hex, strlen(want)), -ENOSPC);
	} else {
		assert_int_equal(elf_build_id(elf, hex, sizeof(hex)), -ENOENT);
	}
	elf_close(elf);
}

/* libc: only .dynsym when stripped, and names with several versions. */
static void test_libc(void **state)
{
	Dl_info info;
	struct elf_file *elf = NULL;
	struct elf_sym sym;
	static const char *const names[] = {"malloc", "free", "calloc", "pthread_create"};

	assert_int_not_equal(dladdr(dlsym(RTLD_DEFAULT, "memalign"), &info), 0);
	assert_int_equal(elf_open_fd(open(info.dli_fname, O_RDONLY | O_CLOEXEC), &elf), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		void *libc = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
		void *want = dlsym(libc, names[i]);

		assert_int_equal(elf_find_sym(elf, names[i], &sym), 0);
		assert_int_equal(sym.value, (u64)((uintptr_t)want - (uintptr_t)info.dli_fbase));
		dlclose(libc);
	}
	elf_close(elf);
}

static void exercise(struct elf_file *elf)
{
	struct elf_sym sym;
	u64 a, b;
	u8 buf[64];
	char hex[64];

	elf_find_sym(elf, "elf_test_function", &sym);
	elf_find_sym(elf, "no such symbol", &sym);
	elf_sym_at(elf, 0x1234, &sym);
	elf_section(elf, ".text", &a, &b);
	elf_needs(elf, "lib");
	elf_build_id(elf, hex, sizeof(hex));
	elf_load_bias(elf, 0x400000, 0, &a);
	elf_read(elf, 0x1000, buf, sizeof(buf));
	elf_vaddr_to_offset(elf, 0x1000, &a);
	elf_offset_to_vaddr(elf, 0x1000, &a);
}

static int memfd_of(const u8 *data, size_t len)
{
	int fd = memfd_create("test_elf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	return fd;
}

/* This program, up to max bytes. */
static size_t real_image(u8 *buf, size_t max)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, buf, max);

	close(fd);
	assert_true(n > 4096);
	return (size_t)n;
}

static void test_hostile(void **state)
{
	static u8 image[4 << 20], copy[4 << 20];
	size_t len = real_image(image, sizeof(image));
	u32 seed = 7;
	int opened = 0;

	for (int round = 0; round < 400; round++) {
		struct elf_file *elf;
		size_t keep = len;

		memcpy(copy, image, len);
		for (int k = 0; k < 8; k++) {
			size_t at, span;

			seed = seed * 1103515245 + 12345;
			/* The headers at both ends are what is interpreted. */
			span = k & 1 ? 4096 : 1024;
			at = (seed >> 8) % span;
			copy[k & 1 ? len - 1 - at : 20 + at] = (u8)(seed >> 24);
		}
		if (round % 4 == 3)
			keep = (seed >> 4) % len;
		if (elf_open_fd(memfd_of(copy, keep), &elf))
			continue;
		opened++;
		exercise(elf);
		elf_close(elf);
	}
	assert_in_range(opened, 20, 400);
}

/* A file that costs its owner nothing must not cost us its claimed size. */
static void test_sparse(void **state)
{
	static u8 image[4 << 20];
	size_t len = real_image(image, sizeof(image));
	Elf64_Ehdr *eh = (Elf64_Ehdr *)image;
	const off_t size = 1ll << 40;
	struct elf_file *elf = NULL;
	Elf64_Shdr *sh = (Elf64_Shdr *)(image + eh->e_shoff);
	int fd, huge = 0;

	assert_true(eh->e_shoff + eh->e_shnum * sizeof(*sh) <= len);
	for (int i = 0; i < eh->e_shnum; i++) {
		if (sh[i].sh_type != SHT_STRTAB && sh[i].sh_type != SHT_DYNSYM)
			continue;
		sh[i].sh_size = 600ull << 20;
		huge++;
		fd = memfd_of(image, len);
		assert_int_equal(ftruncate(fd, size), 0);
		assert_int_equal(elf_open_fd(fd, &elf), -EFBIG);
		sh[i].sh_size = 0;
	}
	assert_true(huge > 1);
	/* A billion sections. */
	eh->e_shnum = 0;
	sh[0].sh_size = 1 << 30;
	fd = memfd_of(image, len);
	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(elf_open_fd(fd, &elf), -EFBIG);
	eh->e_phnum = PN_XNUM;
	assert_int_equal(elf_open_fd(memfd_of(image, len), &elf), -EFBIG);
}

static void test_not_elf(void **state)
{
	struct elf_file *elf = NULL;
	u8 image[64] = "\177ELF\1\1\1"; /* 32-bit */

	assert_int_equal(elf_open_fd(memfd_of(image, sizeof(image)), &elf), -ENOEXEC);
	assert_int_equal(elf_open_fd(memfd_of((const u8 *)"#!/bin/sh\n", 10), &elf), -ENOEXEC);
	assert_int_equal(elf_open_fd(memfd_of(image, 0), &elf), -ENOEXEC);
	assert_int_equal(elf_open_fd(open("/dev/null", O_RDONLY | O_CLOEXEC), &elf), -ENOEXEC);
	assert_true(elf_open_fd(-1, &elf) < 0);
	assert_null(elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_symbols),	  cmocka_unit_test(test_load_bias),
		cmocka_unit_test(test_addresses), cmocka_unit_test(test_dynamic),
		cmocka_unit_test(test_build_id),  cmocka_unit_test(test_libc),
		cmocka_unit_test(test_hostile),	  cmocka_unit_test(test_not_elf),
		cmocka_unit_test(test_sparse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
