// SPDX-License-Identifier: BSD-2-Clause
/* Making a region: the only part of the trampoline that maps anything into a target. */
#include "tramp_region.h"

#ifdef __x86_64__
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "procmem.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20
#endif
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define LOW_LIMIT  (1ull << 20) /* far above any mmap_min_addr */
#define HIGH_LIMIT (1ull << 47)

struct maker {
	struct tramp_region_request *req;
	struct inject *in;
	u8 *images[2]; /* by flavour - 1 */
	enum tramp_flavour flavour;
	s64 remote_fd;
	u64 base;
	int fd;
	ino_t ino;
};

static int call(struct maker *m, long nr, s64 *ret, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f)
{
	const u64 args[6] = {a, b, c, d, e, f};

	return inject_syscall(m->in, nr, args, ret);
}

/* What may be used for the per-thread words: glibc leaves them alone, so they read as zeros. */
static int choose_flavour(struct maker *m)
{
	u8 words[PHT_THR_SIZE];
	const u8 zero[PHT_THR_SIZE] = {0};
	u64 fs = inject_fs_base(m->in);

	m->flavour = TRAMP_SLOT;
	if (!m->req->may_use_tcb || !fs)
		return 0;
	if (procmem_read(m->req->mem, fs + PHT_TCB_OFFSET, words, sizeof(words)))
		return 0;
	if (m->req->tcb_in_use || !memcmp(words, zero, sizeof(zero)))
		m->flavour = TRAMP_TCB;
	return 0;
}

static int make_memfd(struct maker *m)
{
	const char name[] = PHT_TRAMP_NAME;
	u64 flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	u64 addr;
	int err = inject_scratch(m->in, name, sizeof(name), &addr);

	if (!err)
		err = call(m, SYS_memfd_create, &m->remote_fd, addr, flags | MFD_NOEXEC_SEAL, 0, 0,
			   0, 0);
	/* Kernels before 6.3 do not know the flag that later ones may insist on. */
	if (!err && m->remote_fd == -EINVAL)
		err = call(m, SYS_memfd_create, &m->remote_fd, addr, flags, 0, 0, 0, 0);
	if (err)
		return err;
	if (m->remote_fd < 0) {
		m->req->why = "it cannot create a memfd";
		return (int)m->remote_fd;
	}
	return m->remote_fd > (1 << 20) ? -EPROTO : 0;
}

/*
 * The target's other threads may have put another file under this number:
 * this is an empty, nameless file of the kernel's tmpfs that takes seals.
 * Locked, so that no other tracer takes it for something left behind.
 */
static int open_memfd(struct maker *m)
{
	struct tramp_region file;
	AUTO_CLOSE int fd = -1;
	struct stat st;
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/%d/fd/%lld", (int)inject_tid(m->in),
		 (long long)m->remote_fd);
	fd = tramp_memfd_open(path, &st);
	if (fd < 0)
		return fd;
	if (st.st_size || fcntl(fd, F_GET_SEALS) & ~F_SEAL_EXEC)
		return -EPROTO;
	file.fd = fd;
	err = tramp_region_lock(&file, m->req->pid);
	if (err)
		return err;
	m->ino = st.st_ino;
	m->fd = TAKE_FD(fd);
	return 0;
}

/* Sealed before anything maps it: from then on nobody can change the code. */
static int fill_memfd(struct maker *m)
{
	const u8 *image = m->images[m->flavour - 1];
	AUTO_FREE u8 *back = malloc(PHT_TRAMP_CODE_SIZE);

	if (!back)
		return -ENOMEM;
	if (pwrite(m->fd, image, PHT_TRAMP_CODE_SIZE, 0) != PHT_TRAMP_CODE_SIZE)
		return errno ? -errno : -EIO;
	if (fcntl(m->fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return -errno;
	if (pread(m->fd, back, PHT_TRAMP_CODE_SIZE, 0) != PHT_TRAMP_CODE_SIZE ||
	    memcmp(image, back, PHT_TRAMP_CODE_SIZE))
		return -EPROTO;
	return 0;
}

/*
 * The kernel chooses the place, so nothing can be in the way and nothing is at
 * address 0.  The code reserves the room for the data as well: whatever becomes
 * of us, what is there bears our name.
 */
static int map_code(struct maker *m)
{
	s64 ret;
	int err = call(m, SYS_mmap, &ret, 0, PHT_TRAMP_SIZE, PROT_READ | PROT_EXEC, MAP_PRIVATE,
		       (u64)m->remote_fd, 0);

	if (err)
		return err;
	if (ret < 0) {
		m->req->why = ret == -ENOMEM ? "it has no room for another mapping"
					     : "a security policy forbids it executable memory";
		return ret > -4096 ? (int)ret : -EPROTO;
	}
	if ((u64)ret < LOW_LIMIT || (u64)ret > HIGH_LIMIT - PHT_TRAMP_SIZE || ret & 4095)
		return -EPROTO;
	m->base = (u64)ret;
	return 0;
}

static int map_data(struct maker *m)
{
	u64 at = m->base + PHT_TRAMP_CODE_SIZE;
	s64 ret;
	int err = call(m, SYS_mmap, &ret, at, PHT_TRAMP_SIZE - PHT_TRAMP_CODE_SIZE,
		       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, (u64)-1, 0);

	if (err)
		return err;
	if ((u64)ret == at)
		return 0;
	m->req->why = "it has no room for another mapping";
	return ret < 0 && ret > -4096 ? (int)ret : -EPROTO;
}

static int wipe_on_fork(struct maker *m)
{
	s64 ret = 0;
	int err = 0;

	if (m->req->wipe)
		err = call(m, SYS_madvise, &ret, m->base + PHT_TRAMP_CTL,
			   PHT_TRAMP_SIZE - PHT_TRAMP_CTL, MADV_WIPEONFORK, 0, 0, 0);
	return err ? err : (int)ret;
}

static int make(struct maker *m)
{
	s64 ret;
	int err = choose_flavour(m);

	if (!err)
		err = make_memfd(m);
	if (err)
		return err;
	err = open_memfd(m);
	if (!err)
		err = fill_memfd(m);
	if (!err)
		err = map_code(m);
	if (!err)
		err = map_data(m);
	if (!err)
		err = wipe_on_fork(m);
	call(m, SYS_close, &ret, (u64)m->remote_fd, 0, 0, 0, 0, 0);
	/* Nothing refers to it yet. */
	if (err && m->base)
		call(m, SYS_munmap, &ret, m->base, PHT_TRAMP_SIZE, 0, 0, 0, 0);
	return err;
}

/* Is what is mapped there now really our file and fresh memory? */
static int check(const struct maker *m, struct tramp_region *out)
{
	struct tramp_regions found;
	struct proc_maps maps = {0};
	const struct proc_map *code;
	int err = proc_maps_read(m->req->pid, &maps);

	if (err)
		return err;
	code = proc_maps_find(&maps, m->base);
	err = -EPROTO;
	if (code && code->start == m->base && code->inode == m->ino &&
	    !tramp_regions_find(m->req->pid, m->req->mem, &maps, &found))
		for (int i = 0; i < found.n; i++)
			if (found.v[i].base == m->base) {
				*out = found.v[i];
				err = 0;
			}
	proc_maps_free(&maps);
	return err;
}

static int run(struct maker *m, struct tramp_region *out)
{
	int err, end;

	for (int i = 0; i < 2; i++) {
		struct tramp_image_spec spec = m->req->spec;

		spec.flavour = i + 1;
		m->images[i] = malloc(PHT_TRAMP_CODE_SIZE);
		if (!m->images[i])
			return -ENOMEM;
		err = tramp_image_build(&spec, m->images[i]);
		if (err)
			return err;
	}
	err = inject_begin(m->req->pid, m->req->mem, &m->req->gadgets, &m->in, &m->req->why);
	if (err)
		return err;
	err = make(m);
	end = inject_end(m->in, &m->req->stopped_ns);
	if (!err)
		err = end;
	return err ? err : check(m, out);
}

int tramp_region_create(struct tramp_region_request *req, struct tramp_region *out)
{
	struct maker m = {.req = req, .fd = -1};
	int err;

	req->why = "the target did not do as it was told";
	err = run(&m, out);
	free(m.images[0]);
	free(m.images[1]);
	if (err && m.fd >= 0)
		close(m.fd);
	else if (!err)
		out->fd = m.fd;
	return err;
}
#endif
