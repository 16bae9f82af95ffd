// SPDX-License-Identifier: BSD-2-Clause
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "check_host.h"
#include "log.h"

static void fill_features(const struct host_trial *t, struct host_features *out)
{
	*out = (struct host_features){
		.privileged = !t->bpf && !t->program && !t->confidentiality,
		.btf = !t->btf,
		.ringbuf = !t->ringbuf,
		.map_growth = !t->map_growth,
		.uprobe_perf = !t->uprobe_perf,
		.attach_cookie = !t->attach_cookie,
		.uprobe_multi = !t->uprobe_multi,
		.uprobe_session = !t->uprobe_session,
		.ptrace = !t->ptrace && host_has_cap(t, CAP_SYS_PTRACE),
	};
}

void check_probe(struct host_features *out)
{
	struct host_trial t;

	host_try(&t);
	fill_features(&t, out);
}

static void print_line(const char *name, const char *answer, const char *use, const char *without)
{
	printf("%-16s %-8s %s;\n%-25s without: %s\n", name, answer, use, "", without);
}

static bool refused(int err)
{
	return err == -EPERM || err == -EACCES;
}

/* How a trial went; one that was not permitted tells nothing about the kernel. */
static const char *answer(int err)
{
	return !err ? "yes" : refused(err) ? "unknown" : "no";
}

static void print_kernel(void)
{
	struct utsname uts;

	if (!uname(&uts))
		printf("%-16s %s, %s\n", "kernel", uts.release, uts.machine);
}

static void print_privileges(const struct host_trial *t, const struct host_features *f)
{
	print_line("BPF", !t->bpf && !t->program ? "yes" : "no",
		   "loads programs and maps (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN)",
		   "cannot run");
	print_line("other processes", f->ptrace ? "yes" : "no",
		   "reads the target's memory and file mappings (CAP_SYS_PTRACE)",
		   "only processes of the same user, if at all");
	print_line("kernel memory", t->confidentiality ? "no" : "yes",
		   "finds the current thread's state (lockdown below confidentiality)",
		   "cannot run");
}

static void print_features(const struct host_trial *t)
{
	print_line("BTF", answer(t->btf), "fits the programs to this kernel's structures",
		   "cannot run");
	print_line("ring buffer", answer(t->ringbuf), "brings new stacks and events (kernel 5.8)",
		   "cannot run");
	print_line("growing maps", answer(t->map_growth),
		   "take memory as samples come (kernel 6.1)",
		   "about 90 MB set aside at the start, more for small intervals");
	print_line("uprobes", answer(t->uprobe_perf), "stop at the allocator's functions",
		   "cannot run, unless there is uprobe multi");
	print_line("attach cookies", answer(t->attach_cookie),
		   "one program serves many functions (kernel 5.15)",
		   "two programs per function: slower to start");
	print_line("uprobe multi", answer(t->uprobe_multi),
		   "one link for all probes of a file (kernel 6.6)",
		   "one link per probe: slower to attach");
	print_line("uprobe session", answer(t->uprobe_session),
		   "traps at a return for sampled calls only (kernel 6.13)",
		   "every traced call traps twice: more overhead");
}

int check_main(void)
{
	struct host_features f;
	struct host_trial t;
	char why[HOST_WHY_MAX];
	int err;

	host_try(&t);
	fill_features(&t, &f);
	print_kernel();
	print_privileges(&t, &f);
	print_features(&t);
	err = host_verdict(&t, why);
	if (err)
		printf("\npyheaptrace cannot run here: %s\n", why);
	else if (!f.ptrace)
		puts("\npyheaptrace can run here, but on processes of this user only");
	else
		puts("\npyheaptrace can run here");
	return fflush(stdout) || err ? 1 : 0;
}

int check_require(struct host_features *out)
{
	struct host_trial t;
	char why[HOST_WHY_MAX];
	int err;

	host_try(&t);
	err = host_verdict(&t, why);
	if (err)
		return log_err_r(err, "%s", why);
	fill_features(&t, out);
	return 0;
}
