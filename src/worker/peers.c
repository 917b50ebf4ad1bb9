/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/peers.c: adding peers, and what happens when a connection ends.
 */
#include "worker/peers.h"

#include "wire/tag.h"
#include "worker/paths.h"
#include "worker/pending_reply.h"
#include "worker/rma_internal.h"
#include "worker/rx.h"
#include "worker/tx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void hk_peer_learn(struct hk_worker *w, hk_peer p, const uint8_t mac[6], uint16_t txq)
{
	struct hk_worker_peer *peer = &w->peer[p];

	hk_paths_drop(w, p);
	hk_wire_eth_encode(peer->tx.eth, mac, w->txq[txq]->port->info.mac);
	peer->tx.txq = peer->tx.bulk_txq = peer->tx.reply_txq = txq;
}

void hk_worker_peer_tag(struct hk_worker *w, hk_peer p, uint64_t tag)
{
	hk_biased_enter(&w->lock);
	hk_tag_to_mac(tag, w->peer[p].tx.eth);
	for (unsigned i = 0; w->peer[p].tx.paths && i < w->peer[p].tx.paths->count; i++)
		hk_tag_to_mac(tag, w->peer[p].tx.paths->path[i].eth);
	hk_biased_leave(&w->lock);
}

void hk_worker_peer_function(struct hk_worker *w, hk_peer p, unsigned function)
{
	w->peer[p].tx.function = (uint8_t)function;
}

/* The epoch of @endpoint; 0: not known. */
static uint32_t known_epoch(const struct hk_worker *w, uint32_t endpoint)
{
	hk_peer p = hk_engine_peer_find(w->engine, endpoint);
	struct hk_peer_info info = {0};

	if (p != HK_PEER_NONE)
		hk_engine_peer_info(w->engine, p, &info);
	return info.epoch;
}

/* Checks one path: our port @port, and the frames that the peer's port takes. */
static int check_path(const struct hk_worker *w, const char *name, unsigned port,
		      unsigned frame_max, struct hk_error *err)
{
	unsigned ours = (unsigned)hk_worker_frame_max(w);

	if (port >= w->txqs)
		return hk_error_set(err, -EINVAL, "%s: no port %u here", name, port);
	if (frame_max < ours)
		return hk_error_set(
			err, -EMSGSIZE,
			"MTU mismatch: %s takes frames of %u bytes, this end (%s) sends "
			"%u; fix: give both interfaces the same MTU, or set "
			"cfg.frame_max to %u at both ends",
			name, frame_max, w->txq[port]->port->info.spec, ours, frame_max);
	return 0;
}

static int check_address(const struct hk_worker *w, const struct hk_peer_addr *a,
			 struct hk_error *err)
{
	int rc = check_path(w, a->name, a->port, a->frame_max, err);

	bool known = !a->more || !a->bulk || a->bulk - 1u == a->port;

	if (rc == 0 && a->bulk && !a->more)
		rc = check_path(w, a->name, a->bulk - 1u, a->frame_max, err);
	if (rc == 0 && (a->more >= HK_PATHS_MAX || (a->more && w->cfg.memory)))
		rc = hk_error_set(err, -EINVAL,
				  "%s: %u ports; fix: give 1 to %u, and one port where hikyakud's "
				  "poller drives the worker",
				  a->name, a->more + 1, HK_PATHS_MAX);
	for (unsigned i = 0; rc == 0 && i < a->more; i++) {
		rc = check_path(w, a->name, a->path[i].port, a->path[i].frame_max, err);
		known |= a->bulk - 1u == a->path[i].port;
	}
	if (rc == 0 && !known)
		rc = hk_error_set(
			err, -EINVAL,
			"%s: port %u for bulk is none of its ports; fix: name one of them", a->name,
			a->bulk - 1u);
	return rc;
}

_Static_assert(HK_IP6_LEN == HK_PORT_ADDRESS, "an address of a port has its place");

/* Tells our port the peer's address of IPv6, if either has one. */
static int know_path(struct hk_worker *w, unsigned port, const uint8_t ip6[HK_IP6_LEN],
		     struct hk_error *err)
{
	static const uint8_t none[HK_IP6_LEN];
	bool given = memcmp(ip6, none, sizeof(none)) != 0;
	struct hk_port *p = w->txq[port]->port;

	return p->info.ip6 || given ? hk_port_know(p, given ? ip6 : NULL, err) : 0;
}

static int know_paths(struct hk_worker *w, const struct hk_peer_addr *a, struct hk_error *err)
{
	int rc = know_path(w, a->port, a->ip6, err);

	if (rc == 0 && a->bulk && !a->more)
		rc = know_path(w, a->bulk - 1u, a->ip6, err);
	for (unsigned i = 0; rc == 0 && i < a->more; i++)
		rc = know_path(w, a->path[i].port, a->path[i].ip6, err);
	return rc;
}

int hk_worker_peer_add(struct hk_worker *w, const struct hk_peer_addr *a, hk_peer *peer,
		       struct hk_error *err)
{
	int rc = check_address(w, a, err);

	if (rc)
		return rc;
	if (a->endpoint == w->cfg.engine.endpoint)
		return hk_error_set(err, -EINVAL,
				    "cannot add %s: endpoint %#x is this worker's own; fix: give "
				    "each worker of the job its own cfg.engine.endpoint",
				    a->name, a->endpoint);
	if (a->epoch == 0)
		return hk_error_set(err, -EINVAL,
				    "cannot add %s: its epoch is 0; fix: set its cfg.engine.epoch, "
				    "to a later one at each start",
				    a->name);
	hk_biased_enter(&w->lock);
	rc = know_paths(w, a, err);
	if (rc) {
		hk_biased_leave(&w->lock);
		return rc;
	}
	uint32_t epoch = known_epoch(w, a->endpoint);

	*peer = hk_engine_peer_add(w->engine, a->endpoint, a->epoch, hk_now(w));
	if (*peer != HK_PEER_NONE) {
		if (epoch != a->epoch)
			hk_peer_restarted(w, *peer);
		hk_peer_learn(w, *peer, a->mac, a->port);
		if (w->seal)
			hk_seal_peer_set(w->seal, &w->peer[*peer].seal, a->endpoint, a->epoch,
					 a->public_key);
		w->peer[*peer].tx.bulk_txq = a->bulk && !a->more ? a->bulk - 1 : a->port;
		w->peers_added += !w->peer[*peer].name;
		free(w->peer[*peer].name);
		w->peer[*peer].name = strdup(a->name);
		rc = hk_paths_set(w, *peer, a);
	}
	hk_biased_leave(&w->lock);
	if (*peer == HK_PEER_NONE)
		return hk_error_set(err, -ENOSPC,
				    "cannot add %s: the table of %u peers is full, or another "
				    "worker has its endpoint %#x; fix: raise cfg.engine.max_peers, "
				    "or give each worker its own cfg.engine.endpoint",
				    a->name, w->cfg.engine.max_peers, a->endpoint);
	return rc == 0 ? 0 : hk_error_set(err, rc, "%s: no memory for its ports", a->name);
}

const char *hk_worker_peer_name(const struct hk_worker *w, hk_peer p)
{
	return w->peer[p].name ? w->peer[p].name : "a peer not yet added";
}

/* @p is silent. Adds what this end knows about the cause. */
static void describe_silence(const struct hk_worker *w, hk_peer p, char *text, size_t len)
{
	struct hk_peer_info info;
	char why[200];

	for (unsigned i = 0; i < w->txqs; i++) {
		if (!hk_port_fault(w->txq[i]->port, why, sizeof(why)))
			continue;
		size_t told = (size_t)snprintf(text, len, ": %s", why);
		if (told >= len)
			return;
		text += told;
		len -= told;
		break;
	}
	/* also with a fault: the other end may have ended because of one of these */
	const struct hk_engine_counters *n = hk_engine_counters(w->engine);
	hk_engine_peer_info(w->engine, p, &info);
	/* a peer that has answered has the right keys: then such frames were damaged, or forged */
	uint64_t wrong_tags = info.min_rtt ? 0 : w->n.drop_seal;
	const struct {
		uint64_t frames;
		const char *what, *fields;
	} dropped[] = {
		{n->drop_key, "another key", "cfg.engine.key"},
		{n->drop_protection, "another protection", "cfg.engine.protection"},
		{wrong_tags, "a wrong tag", "cfg.engine.key and cfg.job_key"},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(dropped); i++) {
		if (!dropped[i].frames)
			continue;
		snprintf(text, len,
			 ", and %llu frames with %s came: those of one job need the same %s",
			 (unsigned long long)dropped[i].frames, dropped[i].what, dropped[i].fields);
		return;
	}
}

static void describe(const struct hk_worker *w, hk_peer p, enum hk_disconnect_reason why,
		     char *text, size_t len)
{
	const char *who = hk_worker_peer_name(w, p);
	double timeout = (double)w->cfg.engine.peer_timeout / (double)HK_SEC;
	size_t n;

	switch (why) {
	case HK_DISCONNECT_SILENT:
		n = (size_t)snprintf(text, len, "%s has not answered for %.3g s", who, timeout);
		if (n < len)
			describe_silence(w, p, text + n, len - n);
		break;
	case HK_DISCONNECT_RESTARTED:
		snprintf(text, len, "%s was restarted, and knows nothing of this job's traffic",
			 who);
		break;
	case HK_DISCONNECT_LEFT:
		snprintf(text, len, "%s has left while messages to it were in flight", who);
		break;
	case HK_DISCONNECT_STUCK:
		snprintf(text, len,
			 "%s answers, but a frame to it never arrives: is the MTU on the way "
			 "smaller than %zu bytes?",
			 who, hk_worker_frame_max(w));
		break;
	case HK_DISCONNECT_NONE:
		snprintf(text, len, "%s", who);
		break;
	}
}

static void free_held_fragments(struct hk_worker *w)
{
	uint64_t tokens[64];
	unsigned n;

	while ((n = hk_engine_reap_rx(w->engine, tokens, HK_ARRAY_LEN(tokens))) > 0)
		for (unsigned i = 0; i < n; i++)
			rte_pktmbuf_free_seg(hk_mbuf_of(tokens[i]));
}

void hk_peer_forget(struct hk_worker *w, hk_peer p)
{
	w->peer[p].ended_unseen = false;
	hk_send_queue_drop(w, p);
	hk_rx_forget(w, p);
	hk_tx_reap(w);
	hk_gets_forget(w, p);
	hk_atomic_ops_forget(w, p);
	hk_pending_replies_forget(w, p);
	free_held_fragments(w);
}

static void report(struct hk_worker *w, hk_peer p, enum hk_disconnect_reason why)
{
	char text[512];

	describe(w, p, why, text, sizeof(text));
	if (w->cfg.lost)
		w->cfg.lost(w->cfg.lost_arg, p, why, text);
}

/* This incarnation of @p has ended. */
static void peer_ends(struct hk_worker *w, hk_peer p)
{
	if (!w->by_poller) {
		hk_peer_forget(w, p);
		return;
	}
	/* the poller cannot reach what lies in the application's memory, only receive buffers */
	hk_rx_forget(w, p);
	w->peer[p].ended_unseen = true;
	hk_peer_list_add(w, HK_LIST_ENDED, p);
}

void hk_peer_disconnect(struct hk_worker *w, hk_peer p, enum hk_disconnect_reason why)
{
	if (!w->peer[p].pending_disconnect)
		w->peer[p].pending_disconnect = (uint8_t)why;
	hk_peer_list_add(w, HK_LIST_ENDED, p);
}

/* The connection ends: reports @why if something for the peer waits here, or was requested of
 * it. */
static void disconnect_if_waiting(struct hk_worker *w, hk_peer p, enum hk_disconnect_reason why)
{
	const struct hk_worker_peer *peer = &w->peer[p];

	if (!peer->ended_unseen &&
	    (peer->tx.queue.head || peer->tx.queue.replies.head || peer->rma.gets.head ||
	     peer->rma.gets_in_flight || peer->atomic.ops.head || peer->atomic.ops_in_flight))
		hk_peer_disconnect(w, p, why);
}

/* The engine reports no reason for a passive peer, because it starts again. But
 * what was sent to the earlier incarnation is lost. hk_tx_reap() learns of lost packets. */
void hk_peer_restarted(struct hk_worker *w, hk_peer p)
{
	/* a table for many peers needs memory only for those that exist */
	while (w->peers_fresh <= p)
		w->peer[w->peers_fresh++] = (struct hk_worker_peer){0};
	disconnect_if_waiting(w, p, HK_DISCONNECT_RESTARTED);
	w->peer[p].incarnation++;
	w->peer[p].atomic.replies_later = 0;
	peer_ends(w, p);
}

/* The engine reports a reason if packets were in flight; the worker does if messages waited. */
void hk_peer_left(struct hk_worker *w, hk_peer p)
{
	disconnect_if_waiting(w, p, HK_DISCONNECT_LEFT);
	peer_ends(w, p);
}

void hk_peers_forget_ended(struct hk_worker *w)
{
	for (uint32_t *link = &w->list[HK_LIST_ENDED]; *link != HK_PEER_NONE;) {
		hk_peer p = *link;

		hk_peer_forget_ended(w, p);
		link = hk_peer_list_step(w, HK_LIST_ENDED, link, w->peer[p].pending_disconnect);
	}
}

void hk_peers_report(struct hk_worker *w)
{
	enum hk_disconnect_reason why;

	for (hk_peer p; (p = hk_engine_next_disconnect(w->engine, &why)) != HK_PEER_NONE;) {
		hk_peer_forget(w, p);
		w->peer[p].pending_disconnect = HK_DISCONNECT_NONE;
		report(w, p, why);
	}
	for (hk_peer p; HK_UNLIKELY((p = hk_peer_list_pop(w, HK_LIST_ENDED)) != HK_PEER_NONE);) {
		why = w->peer[p].pending_disconnect;
		w->peer[p].pending_disconnect = HK_DISCONNECT_NONE;
		if (why)
			report(w, p, why);
	}
	if (HK_UNLIKELY(hk_peers_listed(w, HK_LIST_PATHS)))
		hk_paths_report(w);
}

void hk_worker_report_lost(struct hk_worker *w)
{
	hk_biased_enter(&w->lock);
	hk_peers_report(w);
	hk_biased_leave(&w->lock);
}
