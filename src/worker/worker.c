/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/worker.c: opening and closing a worker, and its ports.
 */
#include "worker/internal.h"
#include "worker/memory.h"
#include "worker/paths.h"
#include "worker/peers.h"
#include "worker/pending_reply.h"
#include "worker/protect.h"
#include "worker/rma_internal.h"
#include "worker/rx.h"
#include "worker/tx.h"
#include "wire/tag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_mempool.h>

void hk_worker_config_default(struct hk_worker_config *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	hk_engine_config_default(&cfg->engine);
	cfg->tx_buffers = 2048;
	cfg->rx_backlog = 2048;
	cfg->backlog_bytes = 8u << 20;
	cfg->regions = 4096;
	cfg->wakeup_after = 50 * HK_USEC;
	cfg->stripe_min = HK_STRIPE_MIN;
}

/* Sets the frame size and makes the frame buffers, whose size depends on it. */
static int set_frame(struct hk_worker *w, unsigned frame, struct hk_error *err)
{
	char name[RTE_MEMPOOL_NAMESIZE];

	w->trailer = hk_wire_trailer_room(w->cfg.engine.protection);
	unsigned least = (unsigned)(HK_WIRE_PUT_OVERHEAD + w->trailer + 256);

	if (frame < least)
		return hk_error_set(err, -EMSGSIZE,
				    "frames of %u bytes are too small; fix: cfg.frame_max of 0 or "
				    "at least %u, and an MTU of at least %u",
				    frame, least, least - HK_ETH_HLEN);
	w->frame_payload = frame - HK_WIRE_PUT_OVERHEAD - w->trailer;
	w->bufs.pool = w->cfg.tx_pool;
	if (w->bufs.pool)
		return 0;
	snprintf(name, sizeof(name), "hk_tx_%x", w->cfg.engine.endpoint);
	return hk_worker_tx_pool(name, w->cfg.tx_buffers, frame, &w->bufs.pool, err);
}

#define PRIVATE_TX_BLOCKS 16384u

/* Names the field of @c that is out of range: the likely ones first. */
static int refuse_engine(const struct hk_engine_config *c, struct hk_error *err)
{
	if (c->epoch == 0)
		return hk_error_set(err, -EINVAL,
				    "cfg.engine.epoch is 0; fix: set it, to a later number in each "
				    "start, such as the time in seconds");
	if (c->window < 8 || c->window > HK_WIRE_WINDOW || (c->window & (c->window - 1)))
		return hk_error_set(err, -EINVAL,
				    "window %u is out of range; fix: cfg.engine.window must be a "
				    "power of two from 8 to %u",
				    c->window, HK_WIRE_WINDOW);
	if (c->max_peers < 1 || c->max_peers > 1u << 24)
		return hk_error_set(err, -EINVAL,
				    "max_peers %u is out of range; fix: cfg.engine.max_peers must "
				    "be from 1 to %u",
				    c->max_peers, 1u << 24);
	return hk_error_set(err, -EINVAL,
			    "a field of cfg.engine is out of range; fix: start from "
			    "hk_worker_config_default(), and see hikyaku/protocol.h");
}

int hk_worker_open(const struct hk_worker_config *cfg, struct hk_worker **worker,
		   struct hk_error *err)
{
	struct hk_worker_config c = *cfg;

	*worker = NULL;
	c.engine.rx_budget = cfg->rx_backlog;
	if (!cfg->memory) /* unused blocks of private memory cost nothing */
		c.engine.tx_blocks = HK_MIN(c.engine.max_peers, PRIVATE_TX_BLOCKS);
	size_t bytes = hk_engine_size(&c.engine);

	if (bytes == 0)
		return refuse_engine(&c.engine, err);
	struct hk_worker *w = hk_mem_worker(&c);
	void *arena = w ? hk_mem_alloc_dirty(w, bytes) : NULL;

	if (w)
		w->peer = hk_mem_alloc_dirty(w, c.engine.max_peers * sizeof(*w->peer));
	if (arena)
		w->engine = hk_engine_init(arena, bytes, &c.engine);
	if (!w || !w->engine || !w->peer) {
		if (w) {
			hk_mem_free(w, arena);
			hk_mem_free(w, w->peer);
			hk_mem_free(w, w);
		}
		return hk_error_set(err, -ENOMEM,
				    "no memory for %u peers (%zu bytes); fix: lower "
				    "cfg.engine.max_peers%s",
				    c.engine.max_peers, hk_worker_size(&c, 0),
				    c.memory ? ", or raise the daemon's memory of a slot" : "");
	}
	for (unsigned l = 0; l < HK_LISTS; l++)
		w->list[l] = HK_PEER_NONE;
	w->wakeup.at = UINT64_MAX; /* never, until the worker is shared */
	w->ns_mult = (uint64_t)(((unsigned __int128)HK_SEC << 32) / hk_eal_tsc_hz());
	int rc = set_frame(w, c.frame_max, err);

	if (rc == 0)
		rc = hk_protect_open(w, err);
	if (rc == 0 && hk_rx_backlog_open(w) != 0)
		rc = hk_error_set(err, -ENOMEM,
				  "no memory for the rx backlog (%zu bytes); fix: lower "
				  "cfg.backlog_bytes%s",
				  c.backlog_bytes,
				  c.memory ? ", or raise the daemon's memory of a slot" : "");

	if (rc == 0 &&
	    (hk_regions_open(w) != 0 || hk_gets_open(w) != 0 || hk_atomic_ops_open(w) != 0))
		rc = hk_error_set(err, -ENOMEM,
				  "no memory for %u regions; fix: lower cfg.regions (1 to %u)",
				  c.regions, HK_REGIONS_MAX);
	if (rc) {
		hk_worker_close(w, 0);
		return rc;
	}
	*worker = w;
	return 0;
}

/* May frames for @port point to their payload? A checksum stands behind it in the same piece. A
 * payload that is encrypted is read before the port has it. */
static bool may_point(uint8_t protection, const struct hk_port *port)
{
	switch ((enum hk_protection)protection) {
	case HK_PROTECTION_OFF:
	case HK_PROTECTION_AUTH:
		return port->info.copies_at_tx && port->info.tx_multi_seg;
	case HK_PROTECTION_CRC:
		break;
	case HK_PROTECTION_SEAL:
		return true;
	}
	return false;
}

static struct hk_txq *add_txq(struct hk_worker *w, const struct hk_port *port, struct hk_error *err,
			      int *rc)
{
	struct hk_txq *l = NULL;

	if (w->txqs == HK_MAX_PORTS)
		*rc = hk_error_set(err, -ENOSPC,
				   "more than %u ports; fix: use a switched wire instead of one "
				   "wire for each pair of ranks",
				   HK_MAX_PORTS);
	else if (port->info.frame_max < hk_worker_frame_max(w))
		*rc = hk_error_set(err, -EMSGSIZE,
				   "port %s carries frames of %u bytes, but frames of %zu are "
				   "used; fix: give all ports the same MTU",
				   port->info.spec, port->info.frame_max, hk_worker_frame_max(w));
	else if (!(l = hk_mem_alloc(w, sizeof(*l))))
		*rc = hk_error_set(err, -ENOMEM, "no memory for port %s%s", port->info.spec,
				   w->cfg.memory ? "; fix: raise the daemon's memory of a slot"
						 : "");
	if (!l)
		return NULL;
	l->system_calls = port->info.system_calls;
	w->cheap_ports += !l->system_calls;
	l->burst = port->info.point_to_point ? HK_TX_BURST_LOW_LATENCY : HK_TX_BURST;
	l->zero_copy = may_point(w->cfg.engine.protection, port);
	*rc = (int)w->txqs;
	w->txq[w->txqs++] = l;
	w->polls_per_call = w->txqs == 1 && port->info.point_to_point ? HK_POLLS_LOW_LATENCY : 1;
	return l;
}

int hk_worker_add_port(struct hk_worker *w, struct hk_port *port, struct hk_error *err)
{
	int rc;

	hk_biased_enter(&w->lock); /* a progress thread may poll the other ports */
	struct hk_txq *l = add_txq(w, port, err, &rc);

	if (l) {
		l->port = port;
		l->owned = true;
	}
	hk_biased_leave(&w->lock);
	return rc;
}

static void discard(const struct hk_port *port, uint16_t pair)
{
	struct rte_mbuf *m[HK_RX_BURST];
	unsigned left = 2u * port->info.rx_ring;
	uint16_t n;

	struct hk_port p = *port; /* its counters do not count discarded frames */

	while (left > 0 && (n = hk_port_rx(&p, pair, m, HK_RX_BURST)) > 0) {
		for (uint16_t i = 0; i < n; i++)
			rte_pktmbuf_free(m[i]);
		left -= HK_MIN(left, n);
	}
}

int hk_worker_add_queue(struct hk_worker *w, const struct hk_port *port, uint16_t pair,
			struct hk_error *err)
{
	int rc;

	if (pair >= port->info.queues)
		return hk_error_set(err, -EINVAL, "port %s: it has %u queues, none with number %u",
				    port->info.spec, port->info.queues, pair);
	hk_biased_enter(&w->lock); /* the poller may drive the worker now */
	discard(port, pair);
	struct hk_txq *l = add_txq(w, port, err, &rc);

	if (l) {
		l->own_port = *port;
		l->port = &l->own_port;
		l->pair = pair;
	}
	hk_biased_leave(&w->lock);
	return rc;
}

size_t hk_worker_frame_payload(const struct hk_worker *w)
{
	return w->frame_payload;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void drain(struct hk_worker *w, unsigned linger_ms)
{
	uint64_t end = hk_now(w) + linger_ms * HK_MSEC;

	while ((hk_engine_unacked(w->engine, HK_PEER_NONE) ||
		hk_peers_listed(w, HK_LIST_SEND_QUEUE)) &&
	       hk_now(w) < end)
		hk_worker_progress(w);
}

/* A BYE is not acknowledged, and a peer that misses it takes us for silent. So the worker sends
 * three, far enough apart that one burst of loss does not drop all of them. */
#define BYES    3
#define BYE_GAP (300 * HK_USEC)

static void send_byes(struct hk_worker *w)
{
	for (int i = 0; i < BYES; i++) {
		uint64_t next = hk_now(w) + BYE_GAP;

		hk_engine_bye(w->engine);
		hk_tx_poll(w, hk_now(w), NULL, 0);
		do
			hk_txqs_flush(w);
		while (i + 1 < BYES && hk_now(w) < next);
	}
}

unsigned hk_worker_close(struct hk_worker *w, unsigned linger_ms)
{
	if (!w)
		return 0;
	hk_worker_thread_stop(w);
	memset(w->am, 0, sizeof(w->am)); /* no handler runs any more */
	w->cfg.lost = NULL;
	/* A poller that is inside now died there. Its work may be half done, and it lets nobody
	 * in. */
	bool works = w->txqs && !atomic_load(&w->lock.broken) && !hk_biased_proxy_in(&w->lock);

	if (works)
		drain(w, linger_ms);
	unsigned left = hk_engine_unacked(w->engine, HK_PEER_NONE);

	if (works)
		send_byes(w);
	hk_rx_backlog_drop(w);
	for (unsigned p = 0; p < w->peers_fresh; p++) {
		hk_rx_forget(w, p);
		hk_paths_drop(w, p);
		free(w->peer[p].name);
	}
	/* the first port may own the buffers of the others */
	for (unsigned i = w->txqs; i-- > 0;) {
		if (w->txq[i]->owned)
			hk_port_close(w->txq[i]->port);
		hk_mem_free(w, w->txq[i]);
	}
	hk_atomic_ops_close(w);
	hk_pending_replies_close(w);
	hk_rpc_close(w);
	hk_gets_close(w);
	hk_regions_close(w);
	while (w->bufs.spares)
		rte_pktmbuf_free_seg(w->bufs.spare[--w->bufs.spares]);
	if (!w->cfg.tx_pool)
		hk_pool_free(w->bufs.pool);
	hk_protect_close(w);
	hk_mem_free(w, w->rx_backlog.bytes);
	hk_mem_free(w, w->peer);
	hk_mem_free(w, w->engine);
	hk_mem_free(w, w);
	return left;
}

void hk_worker_set_am(struct hk_worker *w, uint8_t am, hk_am_fn fn, void *arg)
{
	w->am[am].fn = fn;
	w->am[am].arg = arg;
}

uint64_t hk_worker_now(const struct hk_worker *w)
{
	return hk_now(w);
}

const struct hk_worker_counters *hk_worker_counters(const struct hk_worker *w)
{
	return &w->n;
}

const struct hk_engine *hk_worker_engine(const struct hk_worker *w)
{
	return w->engine;
}
