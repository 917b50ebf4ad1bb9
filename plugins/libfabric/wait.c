/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/wait.c: sleeping until a queue or a counter changes.
 *
 * DESIGN NOTES
 *
 * Problem. A thread sleeps on a descriptor (FI_WAIT_FD). It must wake when a frame arrives, when
 * another thread adds an event, and when the protocol has something to do, such as a resend.
 *
 * Approach. Each wait object is an epoll descriptor of others: those of the ports, an eventfd for
 * the other threads, and a timer. Arming it polls until there is nothing to do, then sets the
 * timer to the engine's next deadline. So a sleeper without packets in flight sleeps without end.
 *
 * The progress thread would take the frames that must wake the sleeper. So an armed wait object
 * keeps it out (hk_worker_hold()) until the next read. It tries again later then, and waits for
 * nobody.
 */
#include "libfabric/provider.h"

#include "worker/private.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define IDLE_POLLS 16      /* without effect: the worker has done what is due */
#define POLLS_MAX  1000    /* of one attempt to sleep */
#define PAUSE      HK_MSEC /* while operations are under way: not all they wait for wakes us */

/* Adds @fd, for which opening it has set errno if it is negative. */
static bool add(const struct hk_fi_wait *w, int fd)
{
	struct epoll_event in = {.events = EPOLLIN};

	return fd >= 0 && epoll_ctl(w->fd, EPOLL_CTL_ADD, fd, &in) == 0;
}

static int open_descriptors(const struct hk_fi_domain *d, struct hk_fi_wait *w)
{
	bool good;

	w->fd = epoll_create1(EPOLL_CLOEXEC);
	good = w->fd >= 0 && add(w, w->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) &&
	       add(w, w->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
	for (unsigned i = 0; good && i < hk_fi_name_ports(&d->name); i++)
		good = add(w, hk_worker_wait_fd(d->worker, i));
	return good ? 0 : -errno;
}

/* Do all ports wake a sleeper? */
static bool ports_wake(const struct hk_fi_domain *d)
{
	bool wake = !d->wires && !d->hosted;

	for (unsigned i = 0; wake && i < hk_fi_name_ports(&d->name); i++)
		wake = hk_worker_wait_fd(d->worker, i) >= 0;
	return wake;
}

int hk_fi_wait_open(struct hk_fi_domain *d, struct hk_fi_wait *w, enum fi_wait_obj obj)
{
	if (obj == FI_WAIT_FD)
		hk_fi_node_wires_drop(d);
	bool wake = ports_wake(d);

	*w = (struct hk_fi_wait){.fd = -1, .event = -1, .timer = -1};
	if (obj == FI_WAIT_NONE || obj == FI_WAIT_YIELD || (obj == FI_WAIT_UNSPEC && !wake))
		return 0;
	if (obj != FI_WAIT_FD && obj != FI_WAIT_UNSPEC)
		hk_fi_warn("there is no wait object %d; fix: ask for FI_WAIT_FD", obj);
	else if (d->node_wires)
		hk_fi_warn(
			"wires to processes of this node cannot wake a sleeper, and the domain "
			"has peers; fix: set FI_HIKYAKU_NODE_WIRES to off, or ask for FI_WAIT_FD "
			"before fi_av_insert()");
	else if (!wake)
		hk_fi_warn("port %s cannot wake a sleeper; fix: set FI_HIKYAKU_PORT to a port "
			   "udp:… or af_xdp:… and FI_HIKYAKU_MODE to inline, or ask for "
			   "FI_WAIT_NONE",
			   d->port);
	else
		return open_descriptors(d, w);
	return -FI_ENOSYS;
}

void hk_fi_wait_close(struct hk_fi_domain *d, struct hk_fi_wait *w)
{
	const int fds[] = {w->fd, w->event, w->timer};

	hk_fi_lock(d);
	hk_fi_wait_end(d, w, false);
	hk_fi_unlock(d);
	for (size_t i = 0; i < HK_ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void hk_fi_wait_signal(struct hk_fi_wait *w)
{
	(void)eventfd_write(w->event, 1); /* it fails only if it is readable already */
}

void hk_fi_wait_disarm(struct hk_fi_domain *d, struct hk_fi_wait *w)
{
	w->armed = false;
	hk_worker_release(d->worker);
}

/* Do operations wait for more than frames? */
static bool under_way(const struct hk_fi_domain *d)
{
	bool some = d->waiting || hk_engine_unacked(hk_worker_engine(d->worker), HK_PEER_NONE);

	for (unsigned i = 0; i < HK_FI_ENDPOINTS; i++)
		some = some || (d->ep[i] && d->ep[i]->under_way);
	return some;
}

static void set_timer(struct hk_fi_domain *d, struct hk_fi_wait *w)
{
	uint64_t at = hk_engine_deadline(hk_worker_engine(d->worker)), now;
	struct itimerspec t = {0};

	now = hk_worker_now(d->worker);
	if (under_way(d))
		at = HK_MIN(at, now + PAUSE);
	if (at != UINT64_MAX) {
		at = at > now ? at - now : 1;
		t.it_value.tv_sec = (time_t)(at / HK_SEC);
		t.it_value.tv_nsec = (long)(at % HK_SEC);
	}
	(void)timerfd_settime(w->timer, 0, &t, NULL); /* its arguments are valid */
}

/* Prepares to sleep, without the lock. -FI_EAGAIN: first read what has changed. */
static int arm(struct hk_fi_domain *d, struct hk_fi_wait *w)
{
	unsigned idle = 0;
	eventfd_t none;

	if (w->fd < 0)
		return -FI_ENOSYS;
	hk_fi_lock(d);
	if (!w->armed && !w->changed) {
		(void)eventfd_read(w->event, &none);
		hk_worker_hold(d->worker);
		w->armed = true;
	}
	for (unsigned i = 0; i < POLLS_MAX && !w->changed && idle < IDLE_POLLS; i++) {
		hk_fi_progress(d);
		idle = d->idle ? idle + 1 : 0;
	}
	set_timer(d, w);
	int rc = w->changed || idle < IDLE_POLLS ? -FI_EAGAIN : 0;

	if (rc)
		hk_fi_wait_end(d, w, w->changed);
	hk_fi_unlock(d);
	return rc;
}

bool hk_fi_wait_until(struct hk_fi_domain *d, struct hk_fi_wait *w, uint64_t end)
{
	uint64_t now = hk_clock_ns(), ms = (end - now + HK_MSEC - 1) / HK_MSEC;
	struct pollfd fd = {.fd = w->fd, .events = POLLIN};

	if (now >= end)
		return false;
	if (w->fd < 0)
		sched_yield(); /* the other processes of this core get their turn */
	else if (arm(d, w) == 0)
		(void)poll(&fd, 1, end == UINT64_MAX ? -1 : (int)HK_MIN(ms, (uint64_t)INT_MAX));
	return true;
}

int hk_fi_wait_control(const struct hk_fi_wait *w, int command, void *arg)
{
	if (w->fd < 0)
		return -FI_ENOSYS;
	if (command == FI_GETWAIT)
		*(int *)arg = w->fd;
	else if (command == FI_GETWAITOBJ)
		*(enum fi_wait_obj *)arg = FI_WAIT_FD;
	else
		return -FI_ENOSYS;
	return 0;
}

int hk_fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	int rc = 0;

	(void)fabric;
	for (int i = 0; rc == 0 && i < count; i++) {
		struct hk_fi_cq *cq = container_of(fids[i], struct hk_fi_cq, fid.fid);
		struct hk_fi_cntr *c = container_of(fids[i], struct hk_fi_cntr, fid.fid);

		rc = fids[i]->fclass == FI_CLASS_CQ     ? arm(cq->domain, &cq->wait)
		     : fids[i]->fclass == FI_CLASS_CNTR ? arm(c->domain, &c->wait)
		     : fids[i]->fclass == FI_CLASS_EQ   ? hk_fi_eq_trywait(fids[i])
							: -FI_EINVAL;
	}
	return rc;
}
