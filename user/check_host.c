// SPDX-License-Identifier: BSD-2-Clause
/*
 * Trying is the only honest test: distributions carry features over to older
 * kernels, and containers and policies take them away from newer ones.
 */
#include "check_host.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "bpfsys.h"

/* Where trial probes go: nobody calls it. */
__attribute__((noinline, used)) static void trial_site(void)
{
	__asm__ volatile("");
}

struct site_search {
	uintptr_t addr;
	u64 offset;
	bool found;
};

static int find_offset(struct dl_phdr_info *info, size_t size, void *data)
{
	struct site_search *s = data;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = info->dlpi_phdr + i;
		uintptr_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD || s->addr - start >= ph->p_filesz)
			continue;
		s->offset = s->addr - start + ph->p_offset;
		s->found = true;
	}
	return 1; /* the executable comes first, and is all we look at */
}

static int site_offset(u64 *offset)
{
	struct site_search s = {.addr = (uintptr_t)trial_site};

	dl_iterate_phdr(find_offset, &s);
	if (!s.found)
		return -ENOENT;
	*offset = s.offset;
	return 0;
}

static int sys_bpf(int cmd, union bpf_attr *attr)
{
	int fd = syscall(SYS_bpf, cmd, attr, sizeof(*attr));

	return fd < 0 ? -errno : fd;
}

static int try_map(u32 type, u32 key_size, u32 value_size, u32 max_entries)
{
	union bpf_attr attr;
	int fd;

	memset(&attr, 0, sizeof(attr));
	attr.map_type = type;
	attr.key_size = key_size;
	attr.value_size = value_size;
	attr.max_entries = max_entries;
	fd = sys_bpf(BPF_MAP_CREATE, &attr);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* An fd or -errno. */
static int load_program(u32 attach_type, const struct bpf_insn *code, u32 n)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_KPROBE;
	attr.expected_attach_type = attach_type;
	attr.insns = (u64)(uintptr_t)code;
	attr.insn_cnt = n;
	attr.license = (u64)(uintptr_t) "GPL";
	return sys_bpf(BPF_PROG_LOAD, &attr);
}

/* A program that does nothing; an fd or -errno. */
static int load_nothing(u32 attach_type)
{
	static const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return load_program(attach_type, code, ARRAY_SIZE(code));
}

static int try_program(void)
{
	int fd = load_nothing(0);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int try_uprobe_multi(u32 attach_type)
{
	AUTO_CLOSE int prog = -1;
	u64 offset;
	int err, link;

	err = site_offset(&offset);
	if (err)
		return err;
	prog = load_nothing(attach_type);
	if (prog < 0)
		return prog;
	link = bpfsys_uprobe_multi(prog, attach_type, "/proc/self/exe", &offset, NULL, 1, getpid(),
				   false);
	if (link < 0)
		return link;
	close(link);
	return 0;
}

/* The number of the kernel's uprobe event source, or -errno. */
static int uprobe_pmu(void)
{
	AUTO_FCLOSE FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type;

	if (!f)
		return -errno;
	return fscanf(f, "%d", &type) == 1 && type >= 0 ? type : -EINVAL;
}

static int try_uprobe_perf(void)
{
	struct perf_event_attr attr = {.size = sizeof(attr), .disabled = 1};
	int err, fd;
	u64 offset;

	err = site_offset(&offset);
	if (err)
		return err;
	fd = uprobe_pmu();
	if (fd < 0)
		return fd;
	attr.type = fd;
	attr.config1 = (u64)(uintptr_t) "/proc/self/exe"; /* uprobe_path */
	attr.config2 = offset;				  /* probe_offset */
	fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int try_btf(void)
{
	AUTO_CLOSE int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
	u16 magic;

	if (fd < 0)
		return -errno;
	if (read(fd, &magic, sizeof(magic)) != sizeof(magic) || magic != BTF_MAGIC)
		return -EINVAL;
	return 0;
}

/*
 * May the maps of tracing programs take memory as they fill?  The verifiers
 * that object do it by a kernel warning, on which some hosts panic, so it must
 * not be tried; they lack the allocator that made it safe.
 */
static int find_map_allocator(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int id;

	if (libbpf_get_error(btf))
		return -ENOENT;
	id = btf__find_by_name_kind(btf, "bpf_mem_alloc", BTF_KIND_STRUCT);
	btf__free(btf);
	return id < 0 ? id : 0;
}

/* Can probes of one program be told apart?  The call that does it came with the helper. */
static int try_attach_cookie(void)
{
	static const struct bpf_insn code[] = {
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_attach_cookie},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int fd = load_program(0, code, ARRAY_SIZE(code));

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int try_ptrace(void)
{
	pid_t parent = getpid(), child = fork();
	int err = 0;

	if (child < 0)
		return -errno;
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
	if (ptrace(PTRACE_SEIZE, child, NULL, NULL))
		err = -errno;
	kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return err;
}

static u64 effective_caps(void)
{
	AUTO_FCLOSE FILE *f = fopen("/proc/self/status", "re");
	unsigned long long caps = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %llx", &caps) == 1)
			break;
	return caps;
}

/* Only the first user namespace maps every uid to itself. */
static bool in_other_userns(void)
{
	AUTO_FCLOSE FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned long long inside, outside, count;

	if (!f || fscanf(f, "%llu %llu %llu", &inside, &outside, &count) != 3)
		return false;
	return inside || outside || count != 4294967295u;
}

static bool lockdown_confidential(void)
{
	AUTO_FCLOSE FILE *f = fopen("/sys/kernel/security/lockdown", "re");
	char line[128];

	return f && fgets(line, sizeof(line), f) && strstr(line, "[confidentiality]");
}

void host_try(struct host_trial *out)
{
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};

	/* Before 5.11 maps count as locked memory, and over the limit read as EPERM. */
	setrlimit(RLIMIT_MEMLOCK, &unlimited);
	*out = (struct host_trial){
		.caps = effective_caps(),
		.other_userns = in_other_userns(),
		.confidentiality = lockdown_confidential(),
		/* LRU, because a plain map may be open to everybody. */
		.bpf = try_map(BPF_MAP_TYPE_LRU_HASH, 4, 4, 1),
		.program = try_program(),
		.btf = try_btf(),
		.ringbuf = try_map(BPF_MAP_TYPE_RINGBUF, 0, 0, sysconf(_SC_PAGESIZE)),
		.map_growth = find_map_allocator(),
		.uprobe_perf = try_uprobe_perf(),
		.attach_cookie = try_attach_cookie(),
		.uprobe_multi = try_uprobe_multi(PHT_BPF_TRACE_UPROBE_MULTI),
		.uprobe_session = try_uprobe_multi(PHT_BPF_TRACE_UPROBE_SESSION),
		.ptrace = try_ptrace(),
	};
}

static bool has(u64 caps, int cap)
{
	return caps >> cap & 1;
}

bool host_has_cap(const struct host_trial *t, int cap)
{
	if (cap == CAP_SYS_PTRACE)
		return has(t->caps, cap);
	return has(t->caps, cap) || has(t->caps, CAP_SYS_ADMIN);
}

void host_missing_caps(const struct host_trial *t, char *buf, size_t size)
{
	static const struct {
		int cap;
		const char *name;
	} needed[] = {
		{CAP_BPF, "CAP_BPF"},
		{CAP_PERFMON, "CAP_PERFMON"},
		{CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
	};
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		int n;

		if (host_has_cap(t, needed[i].cap))
			continue;
		n = snprintf(buf + used, size - used, "%s%s", used ? ", " : "", needed[i].name);
		if (n > 0 && (size_t)n < size - used)
			used += n;
	}
}
