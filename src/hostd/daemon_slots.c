/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/daemon_slots.c: the slot table.
 *
 * A rank owns a slot as long as its connection is open. The slot becomes free when no process is in
 * its memory any more. That is so when its owner has sent LEAVE or has ended (pidfd), and the
 * poller has left it. Then its buffers return to the pools, and the next owner gets the next
 * generation.
 */
#include "hostd/daemon.h"

#include <errno.h>
#include <string.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

const char *hk_slot_state_name(enum hk_slot_state s)
{
	static const char *const name[] = {"free", "attached", "ready", "leaving", "left", "gone"};

	return name[s];
}

unsigned hk_slots_used(const struct hk_daemon *d)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->o.slots; i++)
		n += d->slot[i].state != HK_SLOT_FREE;
	return n;
}

/* ---- attaching ----------------------------------------------------------------------------- */

/* A descriptor of the peer's process. Unlike a pid, it never names another process. */
static int peer_pidfd(int fd, pid_t pid)
{
	int pidfd;
	socklen_t len = sizeof(pidfd);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) == 0)
		return pidfd;
	return (int)syscall(SYS_pidfd_open, pid, 0); /* before Linux 6.5 */
}

static int refuse(const struct hk_daemon *d, const struct hk_ctl_hello *h, struct hk_error *err)
{
	if (d->o.job && h->job_key != d->o.job)
		return hk_error_set(
			err, -EACCES,
			"hikyakud '%s' is for the job of key %08x, but this rank's key is "
			"%08x; fix: give all ranks of a job the same btl_hikyaku_key, "
			"and each job another one",
			d->rd.name, d->o.job, h->job_key);
	for (unsigned i = 0; i < d->o.slots; i++) {
		const struct hk_slot *s = &d->slot[i];
		if (s->state != HK_SLOT_FREE && s->state != HK_SLOT_GONE &&
		    s->job_key == h->job_key && s->endpoint == h->endpoint)
			return hk_error_set(
				err, -EEXIST,
				"endpoint %u of job %08x is attached already, by process "
				"%d; fix: give each job a btl_hikyaku_key of its own",
				h->endpoint, h->job_key, s->pid);
	}
	if (h->local_ranks > d->o.slots && d->o.job)
		return hk_error_set(err, -EUSERS,
				    "the job has %u ranks on this node, but hikyakud '%s' was "
				    "started for %u; fix: start all ranks by one mpirun, or fewer "
				    "ranks on each node",
				    h->local_ranks, d->rd.name, d->o.slots);
	return 0;
}

int hk_slot_attach(struct hk_daemon *d, unsigned conn, const struct hk_ctl_hello *hello,
		   struct hk_error *err)
{
	unsigned i = 0, gone = 0;

	int rc = refuse(d, hello, err);
	if (rc)
		return rc;
	while (i < d->o.slots && d->slot[i].state != HK_SLOT_FREE)
		gone += d->slot[i++].state == HK_SLOT_GONE;
	if (i == d->o.slots)
		return hk_error_set(err, -EUSERS,
				    "all %u slots of hikyakud '%s' are in use%s; fix: start fewer "
				    "ranks on this node, or hikyakud with more --slots",
				    d->o.slots, d->rd.name,
				    gone ? " (some by processes that still run but have closed "
					   "their connection)"
					 : "");
	struct hk_slot *s = &d->slot[i];
	int pidfd = peer_pidfd(d->conn[conn].fd, d->conn[conn].pid);
	if (pidfd < 0)
		return hk_error_set(err, -errno,
				    "hikyakud cannot watch the rank's process %d; fix: run both in "
				    "the same PID namespace",
				    d->conn[conn].pid);
	rc = hk_res_slot_assign(d->res, i, s->generation + 1, hello->job_key, hello->endpoint, err);
	if (rc == 0 && (rc = hk_daemon_watch(d, pidfd, HK_EV_OWNER, i)) != 0)
		hk_error_set(err, rc, "hikyakud cannot watch the rank's process: %s",
			     "out of kernel memory");
	if (rc) {
		close(pidfd);
		return rc;
	}
	*s = (struct hk_slot){.state = HK_SLOT_ATTACHED,
			      .generation = s->generation + 1,
			      .conn = (int)conn,
			      .pid = d->conn[conn].pid,
			      .pidfd = pidfd,
			      .job_key = hello->job_key,
			      .endpoint = hello->endpoint,
			      .local_rank = hello->local_rank,
			      .attached_at = hk_clock_ms()};
	d->conn[conn].slot = (int)i;
	d->ranks_seen++;
	d->ranks_expected = HK_MAX(d->ranks_expected, hello->local_ranks);
	hk_daemon_log(d, "slot %u: process %d, endpoint %u of job %08x, generation %u", i, s->pid,
		      s->endpoint, s->job_key, s->generation);
	return (int)i;
}

/* ---- the poller ---------------------------------------------------------------------------- */

int hk_slot_ready(struct hk_daemon *d, unsigned slot, uint64_t worker, struct hk_error *err)
{
	struct hk_slot *s = &d->slot[slot];
	uint64_t memory, len;

	if (s->state != HK_SLOT_ATTACHED)
		return hk_error_set(err, -EPROTO, "READY came from a slot that is %s",
				    hk_slot_state_name(s->state));
	/* the rank may write any worker there, but only in its own slot's memory */
	hk_res_memory(d->res, slot, &memory, &len);
	if (worker < memory || worker - memory >= len)
		return hk_error_set(err, -EFAULT,
				    "READY names the address %#llx, which is not in the memory of "
				    "slot %u; fix: use hikyakud and ranks of the same build",
				    (unsigned long long)worker, slot);
	s->worker = worker;
	s->state = HK_SLOT_READY;
	atomic_store(&d->shared->slot[slot].worker, worker);
#define RESET(name, ...) atomic_store(&d->shared->slot[slot].name, 0);
	HK_SLOT_COUNTERS(RESET)
#undef RESET
	atomic_store(&d->shared->slot[slot].state, HK_POLLER_SLOT_ON);
	hk_poller_wake(d);
	return 0;
}

static void stop_polling(struct hk_daemon *d, unsigned slot)
{
	if (d->slot[slot].state != HK_SLOT_READY)
		return;
	atomic_store(&d->shared->slot[slot].state, HK_POLLER_SLOT_OFF);
	d->slot[slot].poller_inside = true;
}

/* ---- becoming free ------------------------------------------------------------------------- */

static void advance(struct hk_daemon *d, unsigned slot)
{
	struct hk_slot *s = &d->slot[slot];

	if (s->poller_inside)
		return;
	if (s->state == HK_SLOT_LEAVING) {
		union hk_ctl_msg m;
		uint32_t seq = d->conn[s->conn].leave_seq;

		s->state = HK_SLOT_LEFT;
		s->left_in_order = true;
		d->conn[s->conn].leave_seq = 0;
		hk_ctl_init(&m, HK_CTL_LEFT, seq, 0);
		hk_conn_send(d, (unsigned)s->conn, &m);
		return; /* hk_conn_send() may have closed the connection and called this again */
	}
	if (s->state != HK_SLOT_GONE || !(s->left_in_order || s->ended) || s->unusable)
		return;
	struct hk_error err = {""};
	s->unusable = hk_res_slot_reclaim(d->res, slot, s->generation, &err) != 0;
	if (s->unusable) {
		hk_daemon_log(d, "slot %u: cannot be used any more: %s", slot, err.text);
		return;
	}
	hk_wires_drop_user(d, slot);
	if (s->pidfd >= 0)
		close(s->pidfd);
	s->pidfd = -1;
	s->state = HK_SLOT_FREE;
	hk_daemon_log(d, "slot %u: free (process %d %s)", slot, s->pid,
		      s->left_in_order ? "has left" : "has ended without LEAVE");
	if (hk_slots_used(d) == 0)
		d->empty_since = hk_clock_ms();
}

void hk_slot_leave(struct hk_daemon *d, unsigned slot)
{
	stop_polling(d, slot);
	d->slot[slot].state = HK_SLOT_LEAVING;
	hk_slots_tick(d);
}

void hk_slot_disconnected(struct hk_daemon *d, unsigned slot)
{
	struct hk_slot *s = &d->slot[slot];

	stop_polling(d, slot);
	s->state = HK_SLOT_GONE;
	s->conn = -1;
	hk_slots_tick(d);
}

void hk_slot_owner_died(struct hk_daemon *d, unsigned slot)
{
	struct hk_slot *s = &d->slot[slot];

	/* the event may be of the owner before */
	struct pollfd p = {.fd = s->pidfd, .events = POLLIN};
	if (s->state == HK_SLOT_FREE || poll(&p, 1, 0) != 1)
		return;
	s->ended = true;
	/* a pidfd stays readable, so it would cause events for ever */
	close(s->pidfd);
	s->pidfd = -1;
	/* a child may have inherited the connection and keep it open */
	if (s->conn >= 0)
		hk_conn_close(d, (unsigned)s->conn);
	else
		hk_slots_tick(d);
}

void hk_slot_cut_off(struct hk_daemon *d, unsigned slot, const char *why)
{
	struct hk_slot *s = &d->slot[slot];

	hk_daemon_log(d, "slot %u: process %d is cut off: %s", slot, s->pid, why);
	if (s->conn >= 0)
		hk_conn_error(d, (unsigned)s->conn, 0, -EFAULT, why);
	if (s->conn >= 0)
		hk_conn_close(d, (unsigned)s->conn);
}

/* True if a signal or a debugger has stopped the process. */
static bool is_stopped(pid_t pid)
{
	char path[40], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	const char *end = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;

	fclose(f);
	return end && (end[2] == 'T' || end[2] == 't'); /* proc(5) */
}

/* The poller answers for a rank that computes, and cannot tell it from one that hangs. But it must
 * not answer for a stopped process: that would hide from its peers that the rank does not continue.
 */
static void check_process(struct hk_daemon *d, unsigned slot)
{
	struct hk_slot *s = &d->slot[slot];
	bool stopped = is_stopped(s->pid);

	if (stopped == s->stopped)
		return;
	s->stopped = stopped;
	atomic_store(&d->shared->slot[slot].state,
		     stopped ? HK_POLLER_SLOT_OFF : HK_POLLER_SLOT_ON);
	hk_daemon_log(d, "slot %u: process %d %s", slot, s->pid,
		      stopped ? "is stopped: the poller ignores it now" : "runs again");
	if (!stopped)
		hk_poller_wake(d);
}

void hk_slots_check(struct hk_daemon *d)
{
	for (unsigned i = 0; i < d->o.slots; i++) {
		struct hk_slot *s = &d->slot[i];

		if (s->state != HK_SLOT_ATTACHED && s->state != HK_SLOT_READY)
			continue;
		if (hk_res_slot_is_corrupt(d->res, i))
			hk_slot_cut_off(
				d, i,
				"it wrote garbage into its pipes, by which it sends and "
				"receives; fix: look for writes out of bounds in the program");
		else if (s->state == HK_SLOT_READY)
			check_process(d, i);
	}
}

bool hk_slots_pending(const struct hk_daemon *d)
{
	for (unsigned i = 0; i < d->o.slots; i++)
		if (d->slot[i].poller_inside)
			return true;
	return false;
}

void hk_slots_tick(struct hk_daemon *d)
{
	for (unsigned i = 0; i < d->o.slots; i++) {
		struct hk_slot *s = &d->slot[i];

		/* this only compares the value, which the poller may have corrupted */
		if (s->poller_inside &&
		    (d->poller.pid == 0 || atomic_load(&d->shared->inside) != i + 1))
			s->poller_inside = false;
		if (s->state == HK_SLOT_LEAVING || s->state == HK_SLOT_GONE)
			advance(d, i);
	}
}
