/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/daemon_conn.c: connections, and the effect of each message.
 */
#include "hostd/daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void hk_conn_close(struct hk_daemon *d, unsigned c)
{
	struct hk_conn *conn = &d->conn[c];
	int slot = conn->slot;

	close(conn->fd); /* this also removes it from the epoll set */
	*conn = (struct hk_conn){.fd = -1, .slot = -1};
	if (slot >= 0)
		hk_slot_disconnected(d, (unsigned)slot);
}

void hk_conn_send(struct hk_daemon *d, unsigned c, const union hk_ctl_msg *m)
{
	/* the socket has space for an answer unless the client does not read its answers */
	if (hk_ctl_send(d->conn[c].fd, m, 0) != 0)
		hk_conn_close(d, c);
}

void hk_conn_error(struct hk_daemon *d, unsigned c, uint32_t seq, int code, const char *text)
{
	union hk_ctl_msg m;

	hk_ctl_init_error(&m, seq, code, text);
	hk_conn_send(d, c, &m);
}

void hk_conn_accept(struct hk_daemon *d)
{
	struct hk_conn conn = {.slot = -1, .connected_at = hk_clock_ms()};
	unsigned c = 0;

	conn.fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (conn.fd < 0)
		return;
	while (c < HK_MAX_CONNS && d->conn[c].fd >= 0)
		c++;
	if (c == HK_MAX_CONNS || hk_ctl_peer(conn.fd, &conn.uid, &conn.pid) != 0 ||
	    hk_daemon_watch(d, conn.fd, HK_EV_CONN, c) != 0) {
		union hk_ctl_msg m;
		hk_ctl_init_error(&m, 0, -EUSERS,
				  "hikyakud has too many connections; fix: start fewer ranks, or "
				  "end programs that connect and send nothing");
		(void)hk_ctl_send(conn.fd, &m, 0);
		close(conn.fd);
		return;
	}
	d->conn[c] = conn;
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Answers with an error and closes the connection. */
static void refuse(struct hk_daemon *d, unsigned c, uint32_t seq, int code, const char *text)
{
	hk_daemon_log(d, "process %d (user %u): %s", d->conn[c].pid, d->conn[c].uid, text);
	hk_conn_error(d, c, seq, code, text);
	if (d->conn[c].fd >= 0)
		hk_conn_close(d, c);
}

static int check_access(const struct hk_daemon *d, const struct hk_conn *conn,
			const struct hk_ctl_hello *h, struct hk_error *err)
{
	if (conn->uid != geteuid())
		return hk_error_set(
			err, -EPERM,
			"hikyakud '%s' is for ranks of user %u, but this rank belongs to "
			"user %u; fix: run the ranks as that user, or let them start "
			"their own daemon",
			d->rd.name, geteuid(), conn->uid);
	if (conn->slot >= 0)
		return hk_error_set(err, -EPROTO, "HELLO came twice on one connection");
	if (conn->pid <= 0 || (uint32_t)conn->pid != h->pid)
		return hk_error_set(
			err, -EPERM,
			"the rank's message names process %u, but the kernel names process "
			"%d; fix: run rank and hikyakud in the same PID namespace",
			h->pid, conn->pid);
	if (strcmp(h->host, d->host) != 0)
		return hk_error_set(
			err, -EXDEV,
			"hikyakud '%s' is the daemon of node %s, but the rank is on %s; "
			"fix: set HIKYAKU_RUNDIR to a directory that only one node "
			"uses",
			d->rd.name, d->host, h->host);
	if (strcmp(h->release, HK_RELEASE) != 0)
		return hk_error_set(err, -EPROTONOSUPPORT,
				    "the rank uses Hikyaku %s and hikyakud %s, but they share "
				    "memory; fix: use the same release on both sides",
				    h->release, HK_RELEASE);
	return 0;
}

static void hello(struct hk_daemon *d, unsigned c, const struct hk_ctl_hello *h)
{
	const struct hk_res_info *info = hk_res_info(d->res);
	struct hk_error err = {""};
	union hk_ctl_msg m;

	int rc = check_access(d, &d->conn[c], h, &err);
	if (rc == 0)
		rc = hk_slot_attach(d, c, h, &err);
	if (rc < 0) {
		refuse(d, c, h->hdr.seq, rc, err.text);
		return;
	}
	unsigned slot = (unsigned)rc;
	hk_ctl_init(&m, HK_CTL_WELCOME, h->hdr.seq, 0);
	struct hk_ctl_welcome *w = &m.welcome;
	w->node_id = d->node_id;
	w->slot = slot;
	w->slots = d->o.slots;
	w->generation = d->slot[slot].generation;
	w->lcore = HK_LCORE_SLOT(slot);
	w->frame_max = info->frame_max;
	hk_res_slot_mac(d->res, slot, w->mac);
	w->port_kind = (uint8_t)info->port_kind;
	w->mode = (uint16_t)d->o.mode;
	w->eager = info->eager;
	w->link_mbps = info->link_mbps;
	w->classes = info->classes;
	w->poller = d->o.poller && !d->poller.failed;
	hk_ctl_set_text(w->shared, sizeof(w->shared), d->rd.shared);
	hk_ctl_set_text(w->huge_dir, sizeof(w->huge_dir), info->huge_dir);
	hk_ctl_set_text(w->runtime_dir, sizeof(w->runtime_dir), info->runtime_dir);
	hk_ctl_set_text(w->host, sizeof(w->host), d->host);
	hk_res_pool_names(d->res, slot, w->rx_pool, w->tx_pool);
	hk_res_memory(d->res, slot, &w->memory, &w->memory_len);
	w->pipes = hk_res_pipes(d->res, slot);
	hk_conn_send(d, c, &m);
}

static void send_text(struct hk_daemon *d, unsigned c, uint32_t seq, char *text, size_t len)
{
	union hk_ctl_msg m;

	if (!text) {
		refuse(d, c, seq, -ENOMEM, "hikyakud has no memory for an answer");
		return;
	}
	for (size_t at = 0; d->conn[c].fd >= 0; at += HK_CTL_TEXT_MAX) {
		size_t n = HK_MIN(len - at, (size_t)HK_CTL_TEXT_MAX);
		hk_ctl_init(&m, HK_CTL_TEXT, seq, 0);
		m.text.bytes = (uint32_t)n;
		m.text.more = at + n < len;
		memcpy(m.text.data, text + at, n);
		hk_conn_send(d, c, &m);
		if (!m.text.more)
			break;
	}
	free(text);
}

/* Handles a request that only the owner of a slot may send. */
static int from_rank(struct hk_daemon *d, unsigned c, const union hk_ctl_msg *m,
		     struct hk_error *err)
{
	struct hk_conn *conn = &d->conn[c];
	unsigned slot = (unsigned)conn->slot;
	union hk_ctl_msg reply;
	int rc;

	switch ((enum hk_ctl_type)m->hdr.type) {
	case HK_CTL_WIRES:
		return hk_wires_request(d, c, &m->wires, err);
	case HK_CTL_READY:
		rc = hk_slot_ready(d, slot, m->ready.worker, err);
		if (rc)
			return rc;
		hk_ctl_init(&reply, HK_CTL_PROXIED, m->hdr.seq, 0);
		hk_conn_send(d, c, &reply);
		return 0;
	default: /* LEAVE */
		if (d->slot[slot].state != HK_SLOT_ATTACHED && d->slot[slot].state != HK_SLOT_READY)
			return hk_error_set(err, -EPROTO, "LEAVE came from a slot that is %s",
					    hk_slot_state_name(d->slot[slot].state));
		conn->leave_seq = m->hdr.seq;
		hk_slot_leave(d, slot);
		return 0;
	}
}

static void message(struct hk_daemon *d, unsigned c, const union hk_ctl_msg *m)
{
	struct hk_conn *conn = &d->conn[c];
	struct hk_error err = {""};
	union hk_ctl_msg reply;
	uint32_t seq = m->hdr.seq;
	size_t len = 0;
	char *text;
	int rc;

	conn->has_sent = true;
	if (seq == 0 || conn->wires_seq || conn->leave_seq) {
		refuse(d, c, seq, -EPROTO,
		       "a request came before the last one was answered, or without a sequence "
		       "number");
		return;
	}
	switch ((enum hk_ctl_type)m->hdr.type) {
	case HK_CTL_HELLO:
		hello(d, c, &m->hello);
		return;
	case HK_CTL_WIRES:
	case HK_CTL_READY:
	case HK_CTL_LEAVE:
		rc = conn->slot >= 0 ? from_rank(d, c, m, &err)
				     : hk_error_set(&err, -EPROTO, "%s came before HELLO",
						    hk_ctl_type_name(m->hdr.type));
		if (rc)
			refuse(d, c, seq, rc, err.text);
		return;
	case HK_CTL_STATUS:
	case HK_CTL_STATS:
	case HK_CTL_STOP:
		break;
	default:
		hk_error_set(&err, -EPROTO, "%s is not a request", hk_ctl_type_name(m->hdr.type));
		refuse(d, c, seq, -EPROTO, err.text);
		return;
	}
	if (conn->uid != geteuid() && conn->uid != 0) {
		hk_error_set(&err, -EPERM,
			     "hikyakud '%s' belongs to user %u; fix: ask as that user, or as root",
			     d->rd.name, geteuid());
		refuse(d, c, seq, -EPERM, err.text);
		return;
	}
	if (m->hdr.type == HK_CTL_STOP) {
		char why[64];
		snprintf(why, sizeof(why), "process %d of user %u asked for it", conn->pid,
			 conn->uid);
		hk_ctl_init(&reply, HK_CTL_STOPPED, seq, 0);
		hk_conn_send(d, c, &reply);
		hk_daemon_stop(d, why);
		return;
	}
	text = m->hdr.type == HK_CTL_STATUS ? hk_daemon_status(d, &len) : hk_daemon_stats(d, &len);
	send_text(d, c, seq, text, len);
}

void hk_conn_event(struct hk_daemon *d, unsigned c)
{
	struct hk_error err = {""};
	union hk_ctl_msg m;

	if (d->conn[c].fd < 0)
		return;
	/* one message per event, so that a busy client does not delay the others */
	int rc = hk_ctl_recv(d->conn[c].fd, &m, 0, &err);
	if (rc == -ETIMEDOUT)
		return;
	if (rc == 0)
		hk_conn_close(d, c);
	else if (rc < 0)
		refuse(d, c, m.hdr.seq, rc, err.text);
	else
		message(d, c, &m);
}

void hk_conn_tick(struct hk_daemon *d, int64_t now)
{
	for (unsigned c = 0; c < HK_MAX_CONNS; c++)
		if (d->conn[c].fd >= 0 && !d->conn[c].has_sent &&
		    now >= d->conn[c].connected_at + HK_HELLO_MS)
			refuse(d, c, 0, -ETIMEDOUT, "the connection has not sent anything");
}
