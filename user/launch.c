// SPDX-License-Identifier: BSD-2-Clause
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "log.h"
#include "util.h"

static _Noreturn void be_child(int go, int failed, char *const argv[])
{
	char byte;
	int err;

	if (read(go, &byte, 1) != 1)
		_exit(LAUNCH_OUR_FAULT);
	execvp(argv[0], argv);
	err = errno;
	if (write(failed, &err, sizeof(err)) < 0)
		_exit(LAUNCH_OUR_FAULT);
	_exit(err == ENOENT ? LAUNCH_NOT_FOUND : LAUNCH_NOT_EXEC);
}

int launch_prepare(struct launch *l, char *const argv[])
{
	int go[2], failed[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC))
		return log_err_r(-errno, "cannot start %s: %s", argv[0], strerror(errno));
	if (pipe2(failed, O_CLOEXEC)) {
		int err = -errno;

		close(go[0]);
		close(go[1]);
		return log_err_r(err, "cannot start %s: %s", argv[0], strerror(-err));
	}
	fflush(NULL);
	pid = fork();
	if (!pid) {
		close(go[1]);
		close(failed[0]);
		be_child(go[0], failed[1], argv);
	}
	*l = (struct launch){.pid = pid, .go = go[1], .failed = failed[0], .name = argv[0]};
	close(go[0]);
	close(failed[1]);
	l->pidfd = pid < 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
	if (l->pidfd >= 0)
		return 0;
	log_error("cannot start %s: %s", argv[0], strerror(errno));
	launch_cancel(l);
	return -EAGAIN;
}

int launch_go(struct launch *l)
{
	int err = 0;

	if (write(l->go, "g", 1) != 1)
		err = errno;
	close(l->go);
	/* Nothing comes but the end of the file when the program has been executed. */
	if (!err && read(l->failed, &err, sizeof(err)) <= 0)
		err = 0;
	close(l->failed);
	l->go = l->failed = -1;
	return err ? log_err_r(-err, "cannot execute %s: %s", l->name, strerror(err)) : 0;
}

void launch_cancel(struct launch *l)
{
	if (l->go >= 0)
		close(l->go);
	if (l->failed >= 0)
		close(l->failed);
	if (l->pid > 0)
		launch_wait(l, -1);
	if (l->pidfd >= 0)
		close(l->pidfd);
	*l = (struct launch){.pidfd = -1, .go = -1, .failed = -1};
}

void launch_signals(sigset_t *set)
{
	static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

	for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
		sigaddset(set, forwarded[i]);
}

void launch_forward(const struct launch *l, const struct signalfd_siginfo *info)
{
	/* What the terminal sends, it sends to the whole group, and so to the program too. */
	if (!l->ended && info->ssi_code <= 0)
		syscall(SYS_pidfd_send_signal, l->pidfd, (int)info->ssi_signo, NULL, 0);
}

void launch_wait(struct launch *l, int signals)
{
	struct pollfd fds[] = {{.fd = l->pidfd, .events = POLLIN},
			       {.fd = signals, .events = POLLIN}};
	struct signalfd_siginfo info;

	while (!l->ended && signals >= 0 && !(fds[0].revents & POLLIN)) {
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents & POLLIN && read(signals, &info, sizeof(info)) == sizeof(info))
			launch_forward(l, &info);
	}
	while (!l->ended && (waitpid(l->pid, &l->status, 0) == l->pid || errno != EINTR))
		l->ended = true;
}

int launch_exit_status(const struct launch *l)
{
	if (WIFSIGNALED(l->status))
		return 128 + WTERMSIG(l->status);
	return WEXITSTATUS(l->status);
}
