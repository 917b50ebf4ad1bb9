/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/daemon_poller.c: starts the poller process, supervises it and restarts it.
 *
 * The poller works in the memory of ranks, so garbage there can kill it, or keep it in an endless
 * loop. Then the daemon cuts off the rank in whose memory the poller was, and starts another
 * poller.
 */
#include "hostd/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int make_shared(struct hk_daemon *d, struct hk_error *err)
{
	d->shared_fd = memfd_create("hikyaku-poller", MFD_CLOEXEC);
	if (d->shared_fd < 0 || ftruncate(d->shared_fd, sizeof(*d->shared)) != 0)
		return hk_error_set(err, -errno, "cannot create the memory of the poller: %s",
				    strerror(errno));
	void *p = mmap(NULL, sizeof(*d->shared), PROT_READ | PROT_WRITE, MAP_SHARED, d->shared_fd,
		       0);
	if (p == MAP_FAILED)
		return hk_error_set(err, -errno, "cannot map the memory of the poller: %s",
				    strerror(errno));
	d->shared = p;
	d->shared->magic = HK_POLLER_SHARED_MAGIC;
	d->shared->version = HK_POLLER_SHARED_VERSION;
	d->shared->slots = d->o.slots;
	return 0;
}

static int spawn(struct hk_daemon *d, int channel)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, all;
	char self[] = "/proc/self/exe", name[] = "hikyakud", word[] = "poller", pid[16];
	char on[] = "on", off[] = "off";
	char *huge = (char *)(uintptr_t)hk_res_info(d->res)->huge_dir;
	char *realtime = d->realtime ? on : off;
	char *argv[] = {name, word, d->rd.shared, huge, pid, realtime, NULL};
	int fds[3];

	snprintf(pid, sizeof(pid), "%d", getpid());
	/* high numbers, so that no dup2() below overwrites another one's source */
	fds[0] = fcntl(d->shared_fd, F_DUPFD_CLOEXEC, 16);
	fds[1] = fcntl(channel, F_DUPFD_CLOEXEC, 16);
	fds[2] = fcntl(d->janitor_fd, F_DUPFD_CLOEXEC, 16);
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fds[0], HK_POLLER_FD_SHARED);
	posix_spawn_file_actions_adddup2(&fa, fds[1], HK_POLLER_FD_CHANNEL);
	posix_spawn_file_actions_adddup2(&fa, fds[2], HK_POLLER_FD_JANITOR);
	posix_spawnattr_init(&at);
	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &all);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	int rc = fds[0] < 0 || fds[1] < 0 || fds[2] < 0
			 ? EMFILE
			 : posix_spawn(&d->poller.pid, self, &fa, &at, argv, environ);
	posix_spawnattr_destroy(&at);
	posix_spawn_file_actions_destroy(&fa);
	for (size_t i = 0; i < HK_ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return -rc;
}

/* Does not wait until the poller is ready: hk_poller_tick() checks that. */
int hk_poller_start(struct hk_daemon *d, struct hk_error *err)
{
	struct hk_poller *p = &d->poller;
	int pair[2];

	if (!d->shared) {
		int rc = make_shared(d, err);
		if (rc)
			return rc;
	}
	if (!d->o.poller)
		return 0;
	atomic_store(&d->shared->inside, 0);
	atomic_store(&d->shared->ready, 0);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
		return hk_error_set(err, -errno, "cannot create the channel to the poller: %s",
				    strerror(errno));
	p->channel = pair[0];
	p->pid = 0;
	int rc = spawn(d, pair[1]);
	close(pair[1]);
	if (rc == 0) {
		p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
		rc = p->pidfd < 0 ? -errno : hk_daemon_watch(d, p->pidfd, HK_EV_POLLER, 0);
		if (rc == 0)
			rc = hk_daemon_watch(d, p->channel, HK_EV_CHANNEL, 0);
		if (rc) {
			kill(p->pid, SIGKILL);
			waitpid(p->pid, NULL, 0);
			if (p->pidfd >= 0)
				close(p->pidfd);
		}
	}
	if (rc) {
		p->pid = 0;
		close(p->channel);
		return hk_error_set(err, rc, "cannot start the poller: %s", strerror(-rc));
	}
	p->starts++;
	p->ready = false;
	p->message[0] = '\0';
	p->started_at = p->progress_at = hk_clock_ms();
	return 0;
}

void hk_poller_wake(struct hk_daemon *d)
{
	if (d->poller.pid > 0) /* if the channel is full, the poller wakes anyway */
		(void)send(d->poller.channel, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void hk_poller_receive(struct hk_daemon *d)
{
	struct hk_poller *p = &d->poller;
	char buf[sizeof(p->message)];

	if (p->pid == 0)
		return;
	ssize_t n = recv(p->channel, buf, sizeof(buf) - 1, MSG_DONTWAIT);
	if (n == 1 && buf[0] == '\0') {
		p->ready = true;
		p->deaths = 0;
		hk_daemon_log(d, "poller: process %d is ready", p->pid);
	} else if (n > 0) {
		buf[n] = '\0';
		for (char *c = buf; *c; c++)
			if (*c < ' ' || *c > '~')
				*c = '?';
		memcpy(p->message, buf, sizeof(p->message));
	}
	/* the channel would stay readable until the process has ended */
	if (n == 0)
		shutdown(p->channel, SHUT_RDWR);
	if (n == 0)
		hk_poller_died(d);
}

void hk_poller_event(struct hk_daemon *d)
{
	struct pollfd f = {.fd = d->poller.pidfd, .events = POLLIN};

	/* the event may be of the poller before, whose channel reported its end first */
	if (d->poller.pid > 0 && poll(&f, 1, 0) == 1)
		hk_poller_died(d);
}

/* The slot in whose memory the poller was; -1: none. Its value is checked, since the poller may
 * have written anything. */
static int slot_of_poller(const struct hk_daemon *d)
{
	uint32_t serving = atomic_load(&d->shared->inside);

	if (serving < 1 || serving > d->o.slots)
		return -1;
	const struct hk_slot *s = &d->slot[serving - 1];
	return s->state == HK_SLOT_READY || s->poller_inside ? (int)serving - 1 : -1;
}

void hk_poller_died(struct hk_daemon *d)
{
	struct hk_poller *p = &d->poller;
	struct hk_error err = {""};
	int status = 0, slot = slot_of_poller(d);
	char how[64];

	if (p->pid == 0)
		return;
	kill(p->pid, SIGKILL); /* perhaps it has only closed its channel */
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	p->pid = 0;
	close(p->pidfd);
	close(p->channel);
	if (d->stop)
		return;
	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(status));
	hk_daemon_log(d, "poller: it %s%s%s", how, p->message[0] ? "; its error: " : "",
		      p->message);
	p->deaths = slot >= 0 ? 0 : p->deaths + 1;
	/* before hk_slots_tick(), which would tell a rank that leaves that all is well */
	if (slot >= 0)
		hk_slot_cut_off(
			d, (unsigned)slot,
			"the poller died in this rank's memory, which must hold garbage; fix: "
			"look for writes out of bounds in the program, or run with the poller "
			"off");
	hk_slots_tick(d); /* slots need not wait for this poller any more */
	/* if the first poller does not start, neither does the daemon: see hk_daemon_open() */
	if (p->starts == 1 && !p->ready)
		return;
	if (p->deaths >= HK_POLLER_MAX_DEATHS || hk_poller_start(d, &err) != 0) {
		p->failed = true;
		hk_daemon_log(
			d,
			"poller: not restarted%s%s; ranks run on, but no process polls for them "
			"while they compute",
			err.text[0] ? ": " : " after too many deaths", err.text);
	}
}

/* ---- supervision --------------------------------------------------------------------------- */

static uint64_t cpu_ms(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &t) != 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Kills the poller if it is stuck. On a loaded machine it may get no core for long. So the limits
 * are those of a hang: much CPU time in one round, or a very long time without one. */
void hk_poller_tick(struct hk_daemon *d, int64_t now)
{
	struct hk_poller *p = &d->poller;

	if (p->pid == 0 || now < p->next_check)
		return;
	p->next_check = now + HK_POLLER_PERIOD_MS;
	if (!p->ready) {
		if (now - p->started_at > HK_POLLER_START_MS) {
			hk_daemon_log(d, "poller: not ready after %d ms", HK_POLLER_START_MS);
			kill(p->pid, SIGKILL);
		}
		return;
	}
	uint64_t rounds = atomic_load(&d->shared->rounds), cpu = cpu_ms(p->pid);
	if (rounds != p->rounds || atomic_load(&d->shared->inside) == 0) {
		p->rounds = rounds;
		p->progress_at = now;
		p->progress_cpu_ms = cpu;
	} else if (cpu - p->progress_cpu_ms > HK_POLLER_STALL_CPU ||
		   now - p->progress_at > HK_POLLER_STALL_MS) {
		hk_daemon_log(d, "poller: it is stuck in one round");
		kill(p->pid, SIGKILL);
	}
}

void hk_poller_end(struct hk_daemon *d)
{
	struct hk_poller *p = &d->poller;

	if (p->pid > 0) {
		struct pollfd f = {.fd = p->pidfd, .events = POLLIN};
		shutdown(p->channel, SHUT_RDWR);
		int64_t end = hk_clock_ms() + HK_END_MS;
		while (poll(&f, 1, (int)HK_MAX(end - hk_clock_ms(), 0)) < 0 && errno == EINTR)
			;
		hk_poller_died(d);
	}
}
