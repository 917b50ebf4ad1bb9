/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/daemon_loop.c: start, the epoll loop, end.
 *
 * The start takes these steps: lock, janitor, socket, memory, poller. From the third step on ranks
 * can connect, and then wait. The end takes them backwards: the daemon releases the lock when it
 * has removed everything else.
 */
#include "hostd/daemon.h"
#include "base/capabilities.h"
#include "hostd/syscalls.h"
#include "hostd/wakeup_priority.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOG_MAX   (1U << 20) /* bytes; a longer log could fill /run */
#define CLAIM_MS  1000       /* a daemon that ends, or a janitor, may hold the lock for a moment */
#define EVENT_MAX 16

void hk_daemon_log(struct hk_daemon *d, const char *fmt, ...)
{
	struct timespec t;
	struct tm tm;
	char when[32];
	va_list ap;

	if (!d->log || d->log_bytes > LOG_MAX)
		return;
	clock_gettime(CLOCK_REALTIME, &t);
	localtime_r(&t.tv_sec, &tm);
	strftime(when, sizeof(when), "%F %T", &tm);
	int n = fprintf(d->log, "%s.%03ld ", when, t.tv_nsec / 1000000);
	va_start(ap, fmt);
	n += vfprintf(d->log, fmt, ap);
	va_end(ap);
	fputc('\n', d->log);
	d->log_bytes += n > 0 ? (size_t)n : 0;
	if (d->log_bytes > LOG_MAX)
		fprintf(d->log, "(the log is full)\n");
	fflush(d->log);
}

int hk_daemon_watch(struct hk_daemon *d, int fd, enum hk_event what, unsigned index)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = (uint64_t)what << 32 | index};

	return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0 ? 0 : -errno;
}

void hk_daemon_stop(struct hk_daemon *d, const char *why)
{
	if (d->stop)
		return;
	d->stop = true;
	snprintf(d->stop_reason, sizeof(d->stop_reason), "%s", why);
	hk_daemon_log(d, "ends: %s", why);
}

/* ---- start --------------------------------------------------------------------------------- */

static int open_log(struct hk_daemon *d, struct hk_error *err)
{
	char path[256];

	if (!d->o.log[0] && !d->o.background) {
		d->log = stderr;
		return 0;
	}
	if (d->o.log[0])
		snprintf(path, sizeof(path), "%s", d->o.log);
	else
		hk_rundir_path(&d->rd, "log", path);
	d->log = fopen(path, "ae");
	if (!d->log)
		return hk_error_set(err, -errno,
				    "cannot write the log %s: %s; fix: name another one by --log",
				    path, strerror(errno));
	return 0;
}

/* Called before this process has other threads, such as the switch. */
static void choose_priority(struct hk_daemon *d)
{
	hk_error_set(&d->why_not_realtime, 0,
		     "no real-time priority, since the option 'realtime' is off");
	d->realtime = d->o.realtime && hk_wakeup_priority_realtime(&d->why_not_realtime) == 0;
	if (!d->realtime)
		hk_daemon_log(
			d,
			"poller and switch may have to wait for a core on which ranks compute: %s",
			d->why_not_realtime.text);
}

/* The signals that end the daemon. Blocks them, so that a daemon which starts does not die by one
 * and leave its files; the loop reads them. */
static sigset_t end_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return set;
}

static int open_events(struct hk_daemon *d, const sigset_t *set, struct hk_error *err)
{
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	d->signal_fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (d->epoll_fd < 0 || d->signal_fd < 0 ||
	    hk_daemon_watch(d, d->signal_fd, HK_EV_SIGNAL, 0) != 0)
		return hk_error_set(err, -errno, "cannot wait for events: %s", strerror(errno));
	return 0;
}

static int open_socket(struct hk_daemon *d, struct hk_error *err)
{
	char path[128];

	hk_rundir_path(&d->rd, "control", path);
	d->listen_fd = hk_ctl_listen(path, err);
	return d->listen_fd < 0 ? d->listen_fd : hk_daemon_watch(d, d->listen_fd, HK_EV_LISTEN, 0);
}

static void log_abort(void *arg, const char *text)
{
	hk_daemon_log(arg, "%s", text);
}

static int open_resources(struct hk_daemon *d, struct hk_error *err)
{
	struct hk_res_config cfg = {
		.rundir = &d->rd,
		.port = d->o.port,
		.huge_dir = d->o.huge_dir[0] ? d->o.huge_dir : NULL,
		.job_key = d->o.job,
		.slots = d->o.slots,
		.rx_buffers = d->o.rx_buffers,
		.tx_buffers = d->o.tx_buffers,
		.slot_memory_mb = d->o.slot_memory_mb,
		.mode = d->o.mode,
		.eager_queues = d->o.eager_queues,
		.memory_mb = d->o.memory_mb,
		.log = {log_abort, d},
	};

	while (d->node_id == 0)
		if (getrandom(&d->node_id, sizeof(d->node_id), 0) != sizeof(d->node_id))
			return hk_error_set(err, -errno, "the kernel gives no random numbers: %s",
					    strerror(errno));
	cfg.node_id = d->node_id;
	return hk_res_open(&cfg, &d->res, err);
}

/* Waits until the poller is ready. Handles only its events and signals meanwhile. */
static int wait_for_poller(struct hk_daemon *d, struct hk_error *err)
{
	struct hk_poller *p = &d->poller;
	int64_t end = hk_clock_ms() + HK_POLLER_START_MS;

	while (d->o.poller && p->pid > 0 && !p->ready) {
		struct pollfd f[3] = {{.fd = p->channel, .events = POLLIN},
				      {.fd = p->pidfd, .events = POLLIN},
				      {.fd = d->signal_fd, .events = POLLIN}};
		int64_t ms = end - hk_clock_ms();
		if (ms <= 0)
			return hk_error_set(err, -ETIMEDOUT,
					    "the poller was not ready after %d ms; fix: read the "
					    "log, or set 'poller = off'",
					    HK_POLLER_START_MS);
		if (poll(f, 3, (int)ms) < 0 && errno != EINTR)
			return hk_error_set(err, -errno, "cannot wait for the poller: %s",
					    strerror(errno));
		if (f[2].revents)
			return hk_error_set(err, -EINTR, "hikyakud ends, because of a signal");
		if (f[0].revents) /* its error first, then its death */
			hk_poller_receive(d);
		else if (f[1].revents)
			hk_poller_died(d);
	}
	if (d->o.poller && !p->ready)
		return hk_error_set(err, -ECHILD, "the poller does not start: %s",
				    p->message[0] ? p->message : "it ended without an error text");
	return 0;
}

static void log_steering(struct hk_daemon *d)
{
	struct hk_res_steering s;

	hk_res_steering(d->res, &s);
	hk_daemon_log(d, "port %s: steering by %s", d->o.port, s.text);
	for (unsigned i = 0; i < HK_RES_BETTER && s.better[i].text; i++)
		hk_daemon_log(d, "  not by %s: %s", s.better[i].text, s.better[i].why);
}

static int watch_starter(struct hk_daemon *d, struct hk_error *err)
{
	if (!d->o.starter)
		return 0;
	d->starter_fd = (int)syscall(SYS_pidfd_open, (pid_t)d->o.starter, 0);
	if (d->starter_fd < 0 && errno == ESRCH) {
		d->starter_died = true;
		return 0;
	}
	int rc = d->starter_fd < 0 ? -errno : hk_daemon_watch(d, d->starter_fd, HK_EV_STARTER, 0);
	return rc ? hk_error_set(err, rc, "hikyakud cannot watch process %u, its starter: %s",
				 d->o.starter, strerror(-rc))
		  : 0;
}

int hk_daemon_open(struct hk_daemon *d, struct hk_error *err)
{
	d->lock_fd = d->listen_fd = d->epoll_fd = d->signal_fd = d->shared_fd = d->starter_fd = -1;
	for (unsigned i = 0; i < HK_MAX_CONNS; i++)
		d->conn[i] = (struct hk_conn){.fd = -1, .slot = -1};
	d->started = d->empty_since = hk_clock_ms();
	hk_rundir_host(d->host, sizeof(d->host));

	int rc = hk_rundir_find(d->o.name, &d->rd, err);
	if (rc)
		return rc;
	sigset_t set = end_signals();
	d->lock_fd = hk_rundir_claim(&d->rd, hk_clock_ms() + CLAIM_MS, err);
	if (d->lock_fd < 0)
		return d->lock_fd;
	unsigned swept = hk_rundir_sweep();
	rc = hk_janitor_start(d, err);
	if (rc == 0)
		rc = open_log(d, err);
	if (rc == 0 && swept)
		hk_daemon_log(d, "removed the files of %u dead daemons", swept);
	if (rc == 0) {
		choose_priority(d);
		rc = open_events(d, &set, err);
	}
	if (rc == 0)
		rc = watch_starter(d, err);
	if (rc == 0)
		rc = open_socket(d, err);
	if (rc == 0)
		rc = open_resources(d, err);
	if (rc == 0)
		rc = hk_poller_start(d, err);
	if (rc == 0)
		rc = wait_for_poller(d, err);
	if (rc == 0)
		rc = hk_capabilities_drop(
			hk_res_capabilities(d->res) | hk_wakeup_priority_capabilities(), err);
	if (rc == 0) /* it starts a poller in place of one that died */
		rc = hk_syscalls_forbid(true, err);
	if (rc == 0)
		log_steering(d);
	if (rc == 0)
		hk_daemon_log(d, "hikyakud %s '%s' has slots for %u ranks on port %s, mode %s",
			      HK_RELEASE, d->rd.name, d->o.slots, d->o.port,
			      hk_ctl_mode_name(d->o.mode));
	else
		hk_daemon_log(d, "does not start: %s", err->text);
	return rc;
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void event(struct hk_daemon *d, uint64_t data)
{
	unsigned index = (uint32_t)data;
	struct signalfd_siginfo s;

	switch ((enum hk_event)(data >> 32)) {
	case HK_EV_LISTEN:
		hk_conn_accept(d);
		break;
	case HK_EV_SIGNAL:
		if (read(d->signal_fd, &s, sizeof(s)) == sizeof(s) && s.ssi_signo != SIGHUP)
			hk_daemon_stop(d, s.ssi_signo == SIGINT ? "interrupted" : "SIGTERM");
		break;
	case HK_EV_CONN:
		hk_conn_event(d, index);
		break;
	case HK_EV_OWNER:
		hk_slot_owner_died(d, index);
		break;
	case HK_EV_POLLER:
		hk_poller_event(d);
		break;
	case HK_EV_CHANNEL:
		hk_poller_receive(d);
		break;
	case HK_EV_STARTER:
		d->starter_died = true;
		close(d->starter_fd);
		d->starter_fd = -1;
		break;
	}
}

/* A job's daemon ends when all ranks of the node have attached and left. If some never attach, it
 * ends some time after the last one has left. *@check_again becomes that time at the latest. With
 * its starter, the job has probably died; a rank that lives would start another daemon. */
static bool job_is_over(const struct hk_daemon *d, int64_t now, int64_t *check_again)
{
	if (!d->o.job || hk_slots_used(d) > 0)
		return false;
	if (d->starter_died || (d->ranks_expected && d->ranks_seen >= d->ranks_expected))
		return true;
	*check_again = HK_MIN(*check_again, d->empty_since + d->o.linger_ms);
	return now >= d->empty_since + d->o.linger_ms;
}

/* Does what is due at @now. Returns the time at which the next call is due. */
static int64_t tick(struct hk_daemon *d, int64_t now)
{
	int64_t next = now + 60000;

	for (unsigned c = 0; c < HK_MAX_CONNS; c++)
		if (d->conn[c].fd >= 0 && !d->conn[c].has_sent)
			next = HK_MIN(next, d->conn[c].connected_at + HK_HELLO_MS);
	if (now >= next)
		hk_conn_tick(d, now);
	if (hk_wires_pending(d)) {
		hk_wires_tick(d, now);
		next = HK_MIN(next, now + HK_WIRE_PERIOD_MS);
	}
	if (hk_wires_any(d)) {
		hk_wires_check(d, now);
		next = HK_MIN(next, now + HK_WIRE_CHECK_MS);
	}
	if (hk_slots_used(d) > 0) {
		hk_slots_check(d);
		next = HK_MIN(next, now + HK_SLOT_CHECK_MS);
	}
	if (hk_slots_pending(d)) {
		hk_slots_tick(d);
		next = HK_MIN(next, now + HK_SLOT_LEAVE_PERIOD_MS);
	}
	/* without ranks the poller sleeps, and the daemon may sleep as well */
	if (d->poller.pid > 0 && (!d->poller.ready || hk_slots_used(d) > 0)) {
		hk_poller_tick(d, now);
		next = HK_MIN(next, now + HK_POLLER_PERIOD_MS);
	}
	if (job_is_over(d, now, &next))
		hk_daemon_stop(d, d->starter_died && !d->ranks_seen
					  ? "the rank that started it has died"
					  : "the job's last rank has left");
	return next;
}

void hk_daemon_run(struct hk_daemon *d)
{
	struct epoll_event e[EVENT_MAX];

	while (!d->stop) {
		int64_t now = hk_clock_ms(), next = tick(d, now);
		if (d->stop)
			break;
		int n = epoll_wait(d->epoll_fd, e, EVENT_MAX, (int)HK_MAX(next - now, 0));
		for (int i = 0; i < n && !d->stop; i++)
			event(d, e[i].data.u64);
	}
}

/* ---- end ----------------------------------------------------------------------------------- */

void hk_daemon_close(struct hk_daemon *d)
{
	char text[300], path[128];

	d->stop = true;
	if (d->lock_fd < 0)
		return;
	/* No new ranks; the attached ones get an error. Their connections close with this process,
	 * when it has removed everything. */
	hk_rundir_path(&d->rd, "control", path);
	unlink(path);
	if (d->listen_fd >= 0)
		close(d->listen_fd);
	snprintf(text, sizeof(text), "hikyakud '%s' has ended: %s; fix: start the job again",
		 d->rd.name, d->stop_reason[0] ? d->stop_reason : "it could not start");
	for (unsigned i = 0; i < HK_MAX_CONNS; i++) {
		union hk_ctl_msg m;
		if (d->conn[i].fd < 0 || d->conn[i].slot < 0)
			continue;
		hk_ctl_init_error(&m, 0, -ESHUTDOWN, text);
		(void)hk_ctl_send(d->conn[i].fd, &m, 0);
	}
	hk_poller_end(d);
	if (d->res) {
		hk_wires_close(d);
		hk_res_close(d->res);
	}
	if (d->log && d->log != stderr)
		fclose(d->log);
	d->log = NULL;
	hk_rundir_remove(&d->rd);
	hk_janitor_stop(d);
	close(d->lock_fd);
}
