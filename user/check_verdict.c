// SPDX-License-Identifier: BSD-2-Clause
/* From how the trials went to whether we can run, in words; pure. */
#include <errno.h>
#include <string.h>
#include <sys/utsname.h>

#include "check_host.h"

/* What this host lacks, in the order in which it is worth saying. */
enum lack {
	LACK_NOTHING,
	LACK_CAPS,    /* run with sudo */
	LACK_NO_BPF,  /* a kernel without bpf(2) */
	LACK_REFUSED, /* capabilities are there, BPF is refused all the same */
	LACK_LOCKDOWN,
	LACK_BTF,
	LACK_RINGBUF,
	LACK_UPROBE_CAP, /* perf's uprobes want more than CAP_PERFMON */
	LACK_UPROBE,
};

static bool refused(int err)
{
	return err == -EPERM || err == -EACCES;
}

static enum lack find_lack(const struct host_trial *t)
{
	bool may = host_has_cap(t, CAP_BPF) && host_has_cap(t, CAP_PERFMON);

	if (t->bpf == -ENOSYS)
		return LACK_NO_BPF;
	if (t->bpf || t->program)
		return may ? LACK_REFUSED : LACK_CAPS;
	if (t->confidentiality)
		return LACK_LOCKDOWN;
	if (t->btf)
		return LACK_BTF;
	if (t->ringbuf)
		return LACK_RINGBUF;
	if (t->uprobe_perf && t->uprobe_multi)
		return refused(t->uprobe_perf) ? LACK_UPROBE_CAP : LACK_UPROBE;
	return LACK_NOTHING;
}

/* One line for a person: what is wrong and what to do. */
static void describe_lack(const struct host_trial *t, enum lack lack, char buf[HOST_WHY_MAX])
{
	struct utsname uts;
	char missing[64];

	if (uname(&uts))
		strcpy(uts.release, "?");
	host_missing_caps(t, missing, sizeof(missing));
	switch (lack) {
	case LACK_NOTHING:
		buf[0] = '\0';
		break;
	case LACK_CAPS:
		snprintf(buf, HOST_WHY_MAX, "not permitted: %s missing; run with sudo%s", missing,
			 t->other_userns ? ", outside this container" : "");
		break;
	case LACK_NO_BPF:
		snprintf(buf, HOST_WHY_MAX, "the kernel (%.64s) has no bpf system call",
			 uts.release);
		break;
	case LACK_REFUSED:
		snprintf(buf, HOST_WHY_MAX, "the kernel refuses BPF here (%s): %s",
			 strerror(t->bpf ? -t->bpf : -t->program),
			 t->other_userns ? "this is root of a user namespace only; run on the host"
					 : "a container's or security module's policy; "
					   "run on the host");
		break;
	case LACK_LOCKDOWN:
		snprintf(buf, HOST_WHY_MAX,
			 "kernel lockdown (confidentiality) keeps BPF from reading "
			 "thread state; boot with lockdown=integrity");
		break;
	case LACK_BTF:
		snprintf(buf, HOST_WHY_MAX,
			 "no kernel BTF (/sys/kernel/btf/vmlinux: %s); a kernel built "
			 "with CONFIG_DEBUG_INFO_BTF is needed",
			 strerror(-t->btf));
		break;
	case LACK_RINGBUF:
		snprintf(buf, HOST_WHY_MAX,
			 "the kernel (%.64s) has no BPF ring buffer (%s); "
			 "5.8 or newer is needed",
			 uts.release, strerror(-t->ringbuf));
		break;
	case LACK_UPROBE_CAP:
		snprintf(
			buf, HOST_WHY_MAX,
			"not permitted to place uprobes (%s): CAP_SYS_ADMIN missing; run with sudo",
			strerror(-t->uprobe_perf));
		break;
	case LACK_UPROBE:
		snprintf(buf, HOST_WHY_MAX,
			 "the kernel (%.64s) cannot place uprobes (%s); one built with "
			 "CONFIG_UPROBE_EVENTS is needed",
			 uts.release, strerror(-t->uprobe_perf));
		break;
	}
}

int host_verdict(const struct host_trial *t, char why[HOST_WHY_MAX])
{
	enum lack lack = find_lack(t);

	describe_lack(t, lack, why);
	switch (lack) {
	case LACK_NOTHING:
		return 0;
	case LACK_CAPS:
	case LACK_REFUSED:
	case LACK_LOCKDOWN:
	case LACK_UPROBE_CAP:
		return -EPERM;
	default:
		return -ENOTSUP;
	}
}
