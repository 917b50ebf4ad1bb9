/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/fabric.c: opening and closing, ports, peers, and what becomes of lost ones.
 */
#include "fabric/internal.h"
#include "wire/tag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_mempool.h>

void hk_fabric_config_default(struct hk_fabric_config *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	hk_engine_config_default(&cfg->engine);
	cfg->tx_buffers = 2048;
	cfg->rx_keep = 2048;
	cfg->keep_bytes = 8u << 20;
	cfg->regions = 4096;
	cfg->ring_after = 50 * HK_USEC;
	cfg->stripe_min = HK_STRIPE_MIN;
}

/* Bytes of the largest frame we send. */
static size_t frame_used(const struct hk_fabric *f)
{
	return f->frame_payload + HK_WIRE_PUT_OVERHEAD + HK_WIRE_CRC_LEN;
}

/* Fixes the frame size and makes the transmit buffers, which depend on it. */
static int set_frame(struct hk_fabric *f, unsigned frame, struct hk_error *err)
{
	char name[RTE_MEMPOOL_NAMESIZE];

	if (frame < HK_WIRE_PUT_OVERHEAD + HK_WIRE_CRC_LEN + 256)
		return hk_error_set(err, -EMSGSIZE,
				    "frames of %u bytes are too small to use; fix: raise the MTU",
				    frame);
	f->frame_payload = frame - HK_WIRE_PUT_OVERHEAD - HK_WIRE_CRC_LEN;
	f->tx_pool = f->cfg.tx_pool;
	if (f->tx_pool)
		return 0;
	snprintf(name, sizeof(name), "hk_tx_%x", f->cfg.engine.endpoint);
	return hk_fabric_tx_pool(name, f->cfg.tx_buffers, frame, &f->tx_pool, err);
}

int hk_fabric_open(const struct hk_fabric_config *cfg, struct hk_fabric **fabric,
		   struct hk_error *err)
{
	struct hk_fabric_config c = *cfg;

	*fabric = NULL;
	c.engine.rx_budget = cfg->rx_keep;
	size_t bytes = hk_engine_size(&c.engine);

	if (bytes == 0)
		return hk_error_set(err, -EINVAL,
				    "engine configuration out of range (window %u, max_peers %u); "
				    "fix: window must be a power of two from 8 to %u",
				    c.engine.window, c.engine.max_peers, HK_WIRE_WINDOW);
	struct hk_fabric *f = hk_mem_fabric(&c);
	void *arena = f ? hk_mem_take(f, bytes) : NULL;

	if (f)
		f->peer = hk_mem_take(f, c.engine.max_peers * sizeof(*f->peer));
	if (arena)
		f->engine = hk_engine_init(arena, bytes, &c.engine);
	if (!f || !f->engine || !f->peer) {
		if (f) {
			hk_mem_give(f, arena);
			hk_mem_give(f, f->peer);
			hk_mem_give(f, f);
		}
		return hk_error_set(err, -ENOMEM,
				    "no memory for %u peers (%zu bytes); fix: lower "
				    "btl_hikyaku_max_peers%s",
				    c.engine.max_peers, hk_fabric_size(&c, 0),
				    c.memory ? ", or raise the daemon's memory of a slot" : "");
	}
	for (unsigned l = 0; l < HK_LISTS; l++)
		f->list[l] = HK_PEER_NONE;
	f->ring_at = UINT64_MAX; /* until it is shared */
	f->ns_mult = (uint64_t)(((unsigned __int128)HK_SEC << 32) / rte_get_tsc_hz());
	int rc = set_frame(f, c.frame_max, err);

	if (rc == 0 && hk_keep_open(f) != 0)
		rc = hk_error_set(err, -ENOMEM,
				  "no memory to keep messages in (%zu bytes); fix: lower "
				  "btl_hikyaku_keep_kb%s",
				  c.keep_bytes,
				  c.memory ? ", or raise the daemon's memory of a slot" : "");

	if (rc == 0 && hk_regions_open(f) != 0)
		rc = hk_error_set(
			err, -ENOMEM,
			"no memory for %u regions; fix: lower the number of regions (1 to "
			"%u) or raise btl_hikyaku_memory",
			c.regions, HK_REGIONS_MAX);
	if (rc) {
		hk_fabric_close(f, 0);
		return rc;
	}
	*fabric = f;
	return 0;
}

static struct hk_lane *add_lane(struct hk_fabric *f, const struct hk_port *port,
				struct hk_error *err, int *rc)
{
	struct hk_lane *l = NULL;

	if (f->lanes == HK_MAX_PORTS)
		*rc = hk_error_set(err, -ENOSPC,
				   "more than %u ports; fix: use a switched wire instead of one "
				   "wire for each pair of ranks",
				   HK_MAX_PORTS);
	else if (port->info.frame_max < frame_used(f))
		*rc = hk_error_set(err, -EMSGSIZE,
				   "port %s carries frames of %u bytes, but frames of %zu are "
				   "used; fix: give all ports the same MTU",
				   port->info.spec, port->info.frame_max, frame_used(f));
	else if (!(l = hk_mem_take(f, sizeof(*l))))
		*rc = hk_error_set(err, -ENOMEM, "no memory for port %s%s", port->info.spec,
				   f->cfg.memory ? "; fix: raise the daemon's memory of a slot"
						 : "");
	if (!l)
		return NULL;
	l->burst = port->info.point_to_point ? HK_TX_BURST_NEAR : HK_TX_BURST;
	l->lend = !f->cfg.engine.crc && port->info.copies_at_tx && port->info.tx_multi_seg;
	*rc = (int)f->lanes;
	f->lane[f->lanes++] = l;
	f->looks = f->lanes == 1 && port->info.point_to_point ? HK_LOOKS_NEAR : 1;
	return l;
}

int hk_fabric_add_port(struct hk_fabric *f, struct hk_port *port, struct hk_error *err)
{
	int rc;
	struct hk_lane *l = add_lane(f, port, err, &rc);

	if (l) {
		l->port = port;
		l->owned = true;
	}
	return rc;
}

static void discard(const struct hk_port *port, uint16_t pair)
{
	struct rte_mbuf *m[HK_RX_BURST];
	unsigned left = 2u * port->info.rx_ring;
	uint16_t n;

	struct hk_port p = *port; /* its counters do not count this */

	while (left > 0 && (n = hk_port_rx(&p, pair, m, HK_RX_BURST)) > 0) {
		for (uint16_t i = 0; i < n; i++)
			rte_pktmbuf_free(m[i]);
		left -= HK_MIN(left, n);
	}
}

int hk_fabric_add_queue(struct hk_fabric *f, const struct hk_port *port, uint16_t pair,
			struct hk_error *err)
{
	int rc;

	if (pair >= port->info.queues || port->faults)
		return hk_error_set(err, -EINVAL, "port %s: %s", port->info.spec,
				    port->faults ? "one with faults cannot be shared"
						 : "it has not so many queues");
	hk_biased_enter(&f->lock); /* the polling process may be about */
	discard(port, pair);
	struct hk_lane *l = add_lane(f, port, err, &rc);

	if (l) {
		l->copy = *port;
		l->port = &l->copy;
		l->pair = pair;
	}
	hk_biased_leave(&f->lock);
	return rc;
}

size_t hk_fabric_frame_payload(const struct hk_fabric *f)
{
	return f->frame_payload;
}

/* ---- peers --------------------------------------------------------------------------------- */

void hk_peer_learn(struct hk_fabric *f, hk_peer p, const uint8_t mac[6], uint16_t lane)
{
	struct hk_peer_tx *t = &f->peer[p];

	hk_rails_drop(f, p);
	hk_wire_put_eth(t->eth, mac, f->lane[lane]->port->info.mac);
	t->lane = t->bulk = t->answer = lane;
}

void hk_fabric_peer_tag(struct hk_fabric *f, hk_peer p, uint64_t tag)
{
	hk_biased_enter(&f->lock);
	hk_tag_to_mac(tag, f->peer[p].eth);
	for (unsigned i = 0; f->peer[p].rails && i < f->peer[p].rails->count; i++)
		hk_tag_to_mac(tag, f->peer[p].rails->rail[i].eth);
	hk_biased_leave(&f->lock);
}

void hk_fabric_peer_function(struct hk_fabric *f, hk_peer p, unsigned function)
{
	f->peer[p].function = (uint8_t)function;
}

/* 0: it is not known. */
static uint32_t known_epoch(const struct hk_fabric *f, uint32_t endpoint)
{
	hk_peer p = hk_engine_peer_find(f->engine, endpoint);
	struct hk_peer_info info = {0};

	if (p != HK_PEER_NONE)
		hk_engine_peer_info(f->engine, p, &info);
	return info.epoch;
}

/* One port of ours, and the peer's that it leads to. */
static int check_way(const struct hk_fabric *f, const char *name, unsigned port, unsigned frame_max,
		     struct hk_error *err)
{
	unsigned ours = (unsigned)frame_used(f);

	if (port >= f->lanes)
		return hk_error_set(err, -EINVAL, "%s: no port %u here", name, port);
	if (frame_max < ours)
		return hk_error_set(
			err, -EMSGSIZE,
			"MTU mismatch: %s takes frames of %u bytes, this end (%s) sends "
			"%u; fix: give both interfaces the same MTU, or set "
			"btl_hikyaku_frame_max to %u on all ranks",
			name, frame_max, f->lane[port]->port->info.spec, ours, frame_max);
	return 0;
}

static int check_address(const struct hk_fabric *f, const struct hk_peer_addr *a,
			 struct hk_error *err)
{
	int rc = check_way(f, a->name, a->port, a->frame_max, err);

	if (rc == 0 && a->bulk)
		rc = check_way(f, a->name, a->bulk - 1u, a->frame_max, err);
	if (rc == 0 && (a->more >= HK_RAILS_MAX || (a->more && (a->bulk || f->cfg.memory))))
		rc = hk_error_set(err, -EINVAL,
				  "%s: %u ports; fix: 1 to %u, and one where a polling process "
				  "has a share in them",
				  a->name, a->more + 1, HK_RAILS_MAX);
	for (unsigned i = 0; rc == 0 && i < a->more; i++)
		rc = check_way(f, a->name, a->rail[i].port, a->rail[i].frame_max, err);
	return rc;
}

int hk_fabric_peer_add(struct hk_fabric *f, const struct hk_peer_addr *a, hk_peer *peer,
		       struct hk_error *err)
{
	int rc = check_address(f, a, err);

	if (rc)
		return rc;
	hk_biased_enter(&f->lock);
	uint32_t epoch = known_epoch(f, a->endpoint);

	*peer = hk_engine_peer_add(f->engine, a->endpoint, a->epoch, hk_now(f));
	if (*peer != HK_PEER_NONE) {
		if (epoch != a->epoch)
			hk_peer_anew(f, *peer);
		hk_peer_learn(f, *peer, a->mac, a->port);
		f->peer[*peer].bulk = a->bulk ? a->bulk - 1 : a->port;
		f->peers_added += !f->peer[*peer].name;
		free(f->peer[*peer].name);
		f->peer[*peer].name = strdup(a->name);
		rc = hk_rails_set(f, *peer, a);
	}
	hk_biased_leave(&f->lock);
	if (*peer == HK_PEER_NONE)
		return hk_error_set(err, -ENOSPC,
				    "cannot add %s: the table of %u peers is full, or its endpoint "
				    "%#x is taken; fix: raise btl_hikyaku_max_peers",
				    a->name, f->cfg.engine.max_peers, a->endpoint);
	return rc == 0 ? 0 : hk_error_set(err, rc, "%s: no memory for its ports", a->name);
}

const char *hk_fabric_peer_name(const struct hk_fabric *f, hk_peer p)
{
	return f->peer[p].name ? f->peer[p].name : "a peer not yet added";
}

static void describe(const struct hk_fabric *f, hk_peer p, enum hk_verdict why, char *text,
		     size_t len)
{
	const char *who = hk_fabric_peer_name(f, p);
	double timeout = (double)f->cfg.engine.peer_timeout / (double)HK_SEC;

	switch (why) {
	case HK_VERDICT_SILENT:
		snprintf(text, len, "%s has not answered for %.3g s", who, timeout);
		break;
	case HK_VERDICT_RESTARTED:
		snprintf(text, len, "%s was restarted, and knows nothing of this job's traffic",
			 who);
		break;
	case HK_VERDICT_LEFT:
		snprintf(text, len, "%s has left while messages to it were under way", who);
		break;
	case HK_VERDICT_STUCK:
		snprintf(text, len,
			 "%s answers, but a frame to it never arrives: is the MTU on the way "
			 "smaller than %zu bytes?",
			 who, frame_used(f));
		break;
	case HK_VERDICT_NONE:
		snprintf(text, len, "%s", who);
		break;
	}
}

static void free_held_fragments(struct hk_fabric *f)
{
	uint64_t tokens[64];
	unsigned n;

	while ((n = hk_engine_reap_rx(f->engine, tokens, HK_ARRAY_LEN(tokens))) > 0)
		for (unsigned i = 0; i < n; i++)
			rte_pktmbuf_free_seg(hk_mbuf_of(tokens[i]));
}

/* Gives back what is kept for a peer that is lost or gone, or was of an earlier incarnation of it. */
void hk_peer_forget(struct hk_fabric *f, hk_peer p)
{
	f->peer[p].gone = false;
	hk_parked_forget(f, p);
	hk_tx_backlog_drop(f, p);
	hk_rx_forget(f, p);
	hk_tx_reap(f);
	hk_rma_forget(f, p);
	free_held_fragments(f);
}

static void tell(struct hk_fabric *f, hk_peer p, enum hk_verdict why)
{
	char text[256];

	describe(f, p, why, text, sizeof(text));
	if (f->cfg.lost)
		f->cfg.lost(f->cfg.lost_arg, p, why, text);
}

/* This incarnation of @p has ended. */
void hk_peer_ends(struct hk_fabric *f, hk_peer p)
{
	if (!f->stand_in) {
		hk_peer_forget(f, p);
		return;
	}
	/* who cannot forget what lies in the application's memory, but its receive buffers */
	hk_parked_forget(f, p);
	hk_rx_forget(f, p);
	f->peer[p].gone = true;
	hk_list_add(f, HK_LIST_ENDED, p);
}

/* Something for @p is lost here: the application is to be told @why, unless the engine tells it something. */
void hk_peer_owe(struct hk_fabric *f, hk_peer p, enum hk_verdict why)
{
	if (!f->peer[p].owed)
		f->peer[p].owed = (uint8_t)why;
	hk_list_add(f, HK_LIST_ENDED, p);
}

/* It ends while something for it waits here, or is asked of it? */
static void owe_if_waiting(struct hk_fabric *f, hk_peer p, enum hk_verdict why)
{
	const struct hk_peer_tx *t = &f->peer[p];

	if (!t->gone &&
	    (t->backlog_head || t->gets_head || t->gets_out || t->atoms_head || t->atoms_out))
		hk_peer_owe(f, p, why);
}

/* Another incarnation of @p than the one before, if there was one. Of one that was only heard of the engine
 * gives no verdict: it begins anew. What was sent to the earlier one is lost all the same; of packets
 * hk_tx_reap() hears. */
void hk_peer_anew(struct hk_fabric *f, hk_peer p)
{
	owe_if_waiting(f, p, HK_VERDICT_RESTARTED);
	f->peer[p].life++;
	hk_peer_ends(f, p);
}

/* The peer said BYE. The engine gives a verdict if packets were in flight; we, if messages waited. */
void hk_peer_departs(struct hk_fabric *f, hk_peer p)
{
	owe_if_waiting(f, p, HK_VERDICT_LEFT);
	hk_peer_ends(f, p);
}

/* The application is back: forgets what a stand-in could not. */
void hk_peers_settle(struct hk_fabric *f)
{
	for (uint32_t *link = &f->list[HK_LIST_ENDED]; *link != HK_PEER_NONE;) {
		hk_peer p = *link;

		hk_peer_settle(f, p);
		link = hk_list_step(f, HK_LIST_ENDED, link, f->peer[p].owed);
	}
}

/* For the application's thread only, as handlers are. */
void hk_fabric_verdicts(struct hk_fabric *f)
{
	enum hk_verdict why;

	for (hk_peer p; (p = hk_engine_verdict(f->engine, &why)) != HK_PEER_NONE;) {
		hk_peer_forget(f, p);
		f->peer[p].owed = HK_VERDICT_NONE;
		tell(f, p, why);
	}
	for (hk_peer p; HK_UNLIKELY((p = hk_list_pop(f, HK_LIST_ENDED)) != HK_PEER_NONE);) {
		why = f->peer[p].owed;
		f->peer[p].owed = HK_VERDICT_NONE;
		if (why)
			tell(f, p, why);
	}
	if (HK_UNLIKELY(hk_listed(f, HK_LIST_RAILS)))
		hk_rails_tell(f);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void drain(struct hk_fabric *f, unsigned linger_ms)
{
	uint64_t end = hk_now(f) + linger_ms * HK_MSEC;

	while ((hk_engine_unacked(f->engine, HK_PEER_NONE) || hk_listed(f, HK_LIST_BACKLOG)) &&
	       hk_now(f) < end)
		hk_fabric_progress(f);
}

/* A BYE is not acknowledged, and a peer that misses it takes us for dead: so it is said thrice, far
 * enough apart that one burst of loss does not take them all. */
#define HK_BYES    3
#define HK_BYE_GAP (300 * HK_USEC)

static void say_bye(struct hk_fabric *f)
{
	for (int i = 0; i < HK_BYES; i++) {
		uint64_t next = hk_now(f) + HK_BYE_GAP;

		hk_engine_bye(f->engine);
		hk_tx_poll(f, hk_now(f), NULL, 0);
		do
			hk_tx_flush(f);
		while (i + 1 < HK_BYES && hk_now(f) < next);
	}
}

unsigned hk_fabric_close(struct hk_fabric *f, unsigned linger_ms)
{
	if (!f)
		return 0;
	hk_async_stop(f);
	memset(f->am, 0, sizeof(f->am)); /* nobody listens any more */
	f->cfg.lost = NULL;
	/* A polling process that is inside now was lost there: what it worked on may be half done, and it lets nobody
	 * in. */
	bool works = f->lanes && !atomic_load(&f->lock.broken) && !hk_biased_helper_in(&f->lock);

	if (works)
		drain(f, linger_ms);
	unsigned left = hk_engine_unacked(f->engine, HK_PEER_NONE);

	if (works)
		say_bye(f);
	hk_rx_drop_kept(f);
	for (unsigned p = 0; p < f->cfg.engine.max_peers; p++) {
		hk_rx_forget(f, p);
		hk_rails_drop(f, p);
		free(f->peer[p].name);
	}
	for (unsigned i = f->lanes; i-- > 0;) { /* the first may own the others' buffers */
		if (f->lane[i]->owned)
			hk_port_close(f->lane[i]->port);
		hk_mem_give(f, f->lane[i]);
	}
	hk_regions_close(f);
	while (f->spares)
		rte_pktmbuf_free_seg(f->spare[--f->spares]);
	if (!f->cfg.tx_pool)
		hk_pool_free(f->tx_pool);
	hk_mem_give(f, f->keep.bytes);
	hk_mem_give(f, f->peer);
	hk_mem_give(f, f->engine);
	hk_mem_give(f, f);
	return left;
}

void hk_fabric_set_am(struct hk_fabric *f, uint8_t am, hk_am_fn fn, void *arg)
{
	f->am[am].fn = fn;
	f->am[am].arg = arg;
}

uint64_t hk_fabric_now(const struct hk_fabric *f)
{
	return hk_now(f);
}

const struct hk_fabric_counters *hk_fabric_counters(const struct hk_fabric *f)
{
	return &f->n;
}

const struct hk_engine *hk_fabric_engine(const struct hk_fabric *f)
{
	return f->engine;
}
