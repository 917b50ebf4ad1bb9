/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/grant.c: how many bytes of bulk may be on the way to a receiver.
 *
 * DESIGN NOTES
 *
 * Problem: on a network with a switch, many senders can reach one receiver at once. A window for
 * each of them is too much for the buffer of the switch, even if it is a single packet.
 *
 * Approach, after Homa (SIGCOMM 2018): the receiver lets few senders send bulk at a time. Packets
 * of HK_LONG_FRAME bytes or more are bulk. A sender says how many bytes it wants to send, and waits
 * for a grant. It is the turn of HK_GRANT_TURNS senders at a time; the others wait. The receiver
 * grants them a quantum each, again and again, until a sender has what it wants or has had
 * TURN_BYTES. So a message begins and ends in one turn, and few incomplete ones need buffers. All
 * bytes that are granted and have not arrived stay within a budget: what the link carries in a
 * round trip, and a small queue. The budget is far below the buffer of a switch port, so no bulk is
 * lost there. Smaller packets need no grant.
 *
 * Both numbers of a grant are sums since the start of the connection, so a grant that is lost or
 * late is repaired by the next. A sender that was granted and does not send keeps a part of the
 * budget from others. So a grant ends: its sender forgets it HK_GRANT_LIFE after it used it last,
 * and the receiver takes it back after twice that time.
 *
 * The last packet under a grant may exceed it. A rest that is too short for a packet would stay
 * open, and keep its part of the budget.
 *
 * A sender that nobody else waits for gets its next quantum without asking, while the last one
 * arrives.
 *
 * The round trip of the budget is the least time from a grant to the first packet that it allowed,
 * of a sender that had nothing else to send. It includes the sender's polling and its NIC. Bytes
 * that were granted before, beyond those of a round trip, make a queue at the switch, in which that
 * packet waits. Their time is subtracted: otherwise the budget would grow with its own queue.
 *
 * Invariants: e->grant.out is the sum of granted - received over all peers that have a grant open;
 * these are in the list `open`, the longest idle first. A peer that wants more than it was granted
 * has its turn or is in the list `waiting`.
 *
 * A wire with two ends has no switch to overflow: there cfg.link_mbps is 0, and nobody waits for
 * grants. A receiver answers requests in any case, since its peer may think otherwise.
 */
#include "engine/internal.h"

#define HK_GRANT_LIFE (500 * HK_USEC)
/* Bytes after which it is the turn of another sender, if one waits. */
#define TURN_BYTES (64u << 10)
/* Until a round trip has been measured. */
#define ROUND_TRIP_START (20 * HK_USEC)
/* The queue at the receiver's switch port: so long, and at most so many bytes. */
#define QUEUE_TIME  (20 * HK_USEC)
#define QUEUE_BYTES (80u << 10)
/* The least round trip counts for so long. Routes change. */
#define ROUND_TRIP_LIFE (100 * HK_MSEC)

static uint32_t link_mbps(const struct hk_engine *e)
{
	return e->cfg.link_mbps ? e->cfg.link_mbps : 10000;
}

static uint64_t bytes_in(const struct hk_engine *e, uint64_t ns)
{
	return ns * link_mbps(e) / 8000;
}

static uint64_t time_of(const struct hk_engine *e, uint32_t bytes)
{
	return (uint64_t)bytes * 8000 / link_mbps(e);
}

static void set_budget(struct hk_engine *e)
{
	struct hk_grants *g = &e->grant;
	uint64_t rtt = HK_MIN(g->rtt, g->rtt_before);
	uint64_t frame = HK_MAX(g->frame, HK_LONG_FRAME);
	uint64_t queue = HK_MIN(bytes_in(e, QUEUE_TIME), QUEUE_BYTES);

	if (rtt == UINT64_MAX)
		rtt = ROUND_TRIP_START;
	g->base = rtt;
	/* below three frames the link would idle between them */
	uint64_t budget = bytes_in(e, rtt) + HK_MAX(queue, 3 * frame);

	g->budget = (uint32_t)HK_MIN(budget, UINT32_MAX / 2);
	g->quantum = (uint32_t)HK_MAX(g->budget / 4, frame);
}

void hk_grant_init(struct hk_engine *e)
{
	struct hk_grants *g = &e->grant;

	g->wait_head = g->wait_tail = g->open_head = g->open_tail = HK_NIL;
	g->due = UINT64_MAX;
	g->rtt = g->rtt_before = UINT64_MAX;
	set_budget(e);
}

/* ---- the lists ----------------------------------------------------------------------------- */

static uint32_t open_bytes(const struct hk_peer_rec *r)
{
	return r->rx_granted - r->rx_bulk;
}

static void open_remove(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (r->open_prev == HK_NIL)
		e->grant.open_head = r->open_next;
	else
		hk_rec(e, r->open_prev)->open_next = r->open_next;
	if (r->open_next == HK_NIL)
		e->grant.open_tail = r->open_prev;
	else
		hk_rec(e, r->open_next)->open_prev = r->open_prev;
	r->in_open_list = 0;
}

static void open_add(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	uint32_t p = hk_index(e, r);

	r->grant_used_at = now;
	if (r->in_open_list) {
		if (HK_LIKELY(e->grant.open_tail == p))
			return;
		open_remove(e, r);
	}
	r->in_open_list = 1;
	r->open_next = HK_NIL;
	r->open_prev = e->grant.open_tail;
	if (e->grant.open_tail == HK_NIL)
		e->grant.open_head = p;
	else
		hk_rec(e, e->grant.open_tail)->open_next = p;
	e->grant.open_tail = p;
}

static void wait_add(struct hk_engine *e, struct hk_peer_rec *r)
{
	uint32_t p = hk_index(e, r);

	if (r->in_grant_list)
		return;
	r->in_grant_list = 1;
	r->grant_next = HK_NIL;
	if (e->grant.wait_head == HK_NIL)
		e->grant.wait_head = p;
	else
		hk_rec(e, e->grant.wait_tail)->grant_next = p;
	e->grant.wait_tail = p;
}

static struct hk_peer_rec *wait_pop(struct hk_engine *e)
{
	struct hk_peer_rec *r = hk_rec(e, e->grant.wait_head);

	e->grant.wait_head = r->grant_next;
	if (e->grant.wait_head == HK_NIL)
		e->grant.wait_tail = HK_NIL;
	r->in_grant_list = 0;
	return r;
}

static void wait_remove(struct hk_engine *e, struct hk_peer_rec *r)
{
	uint32_t p = hk_index(e, r), before = HK_NIL;

	if (!r->in_grant_list)
		return;
	r->in_grant_list = 0;
	for (uint32_t i = e->grant.wait_head; i != p; i = hk_rec(e, i)->grant_next)
		before = i;
	if (before == HK_NIL)
		e->grant.wait_head = r->grant_next;
	else
		hk_rec(e, before)->grant_next = r->grant_next;
	if (e->grant.wait_tail == p)
		e->grant.wait_tail = before;
}

/* Fills the places of those whose turn it is. */
static void turns_fill(struct hk_engine *e)
{
	struct hk_grants *g = &e->grant;

	while (g->turns < HK_GRANT_TURNS && g->wait_head != HK_NIL) {
		struct hk_peer_rec *r = wait_pop(e);

		r->turn_left = TURN_BYTES;
		r->in_turn = 1;
		g->turn[g->turns++] = hk_index(e, r);
	}
}

static void turn_end(struct hk_engine *e, unsigned i)
{
	struct hk_grants *g = &e->grant;

	hk_rec(e, g->turn[i])->in_turn = 0;
	g->turns--;
	for (; i < g->turns; i++)
		g->turn[i] = g->turn[i + 1];
}

/* ---- granting ------------------------------------------------------------------------------ */

static uint32_t wants(const struct hk_peer_rec *r)
{
	return hk_psn_before(r->rx_granted, r->rx_wanted) ? r->rx_wanted - r->rx_granted : 0;
}

static void grant(struct hk_engine *e, struct hk_peer_rec *r, uint32_t bytes, uint64_t now)
{
	if (open_bytes(r) == 0) { /* the sender idles: this grant measures a round trip */
		uint64_t queue = time_of(e, e->grant.out);

		r->granted_at = now;
		r->granted_behind = (uint32_t)(queue - HK_MIN(queue, e->grant.base));
	}
	r->rx_granted += bytes;
	r->grant_due = 1;
	e->grant.out += bytes;
	open_add(e, r, now);
}

/* Takes the rest of a grant back. */
static void close_grant(struct hk_engine *e, struct hk_peer_rec *r)
{
	e->grant.out -= open_bytes(r);
	r->rx_granted = r->rx_bulk;
	r->granted_at = 0;
	open_remove(e, r);
}

/* Adds a peer that wants more than it was granted. */
static void enlist(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (!r->in_turn)
		wait_add(e, r);
}

/* Takes back grants that are not used. */
static void close_idle(struct hk_engine *e, uint64_t now)
{
	while (e->grant.open_head != HK_NIL) {
		struct hk_peer_rec *r = hk_rec(e, e->grant.open_head);

		if (HK_LIKELY(now - r->grant_used_at < 2 * HK_GRANT_LIFE))
			break;
		close_grant(e, r);
		r->rx_wanted = r->rx_granted; /* it asks again */
		e->n.grants_unused++;
	}
}

/* Grants a quantum to each whose turn it is, while the budget has room. */
static void run(struct hk_engine *e, uint64_t now)
{
	struct hk_grants *g = &e->grant;

	close_idle(e, now);
	for (;;) {
		turns_fill(e);
		if (g->turns == 0)
			break;
		unsigned i = g->next_turn < g->turns ? g->next_turn : 0;
		struct hk_peer_rec *r = hk_rec(e, g->turn[i]);
		uint32_t bytes = HK_MIN(wants(r), g->quantum);

		if (bytes && g->out && g->out + bytes > g->budget)
			break;
		if (bytes) {
			grant(e, r, bytes, now);
			hk_ack_schedule(e, r, now, true);
			r->turn_left -= HK_MIN(bytes, r->turn_left);
		}
		g->next_turn = (uint8_t)(i + 1);
		if (wants(r) && (r->turn_left || g->wait_head == HK_NIL))
			continue;
		turn_end(e, i);
		g->next_turn = (uint8_t)i;
		if (wants(r))
			wait_add(e, r);
	}
	g->due = g->turns == 0 ? UINT64_MAX
			       : hk_rec(e, g->open_head)->grant_used_at + 2 * HK_GRANT_LIFE;
}

void hk_grants_due(struct hk_engine *e, uint64_t now)
{
	run(e, now);
}

/* The first packet under a grant that measures has arrived. */
static void round_trip(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	struct hk_grants *g = &e->grant;
	uint64_t rtt = now - r->granted_at, queue = r->granted_behind;

	r->granted_at = 0;
	rtt -= HK_MIN(rtt, queue);
	if (now - g->rtt_since > ROUND_TRIP_LIFE) {
		g->rtt_since = now;
		g->rtt_before = g->rtt;
		g->rtt = UINT64_MAX;
	}
	if (rtt < g->rtt) {
		g->rtt = rtt;
		set_budget(e);
	}
}

void hk_grant_arrived(struct hk_engine *e, struct hk_peer_rec *r, uint32_t len, uint64_t now)
{
	struct hk_grants *g = &e->grant;

	if (HK_UNLIKELY(len > g->frame)) {
		g->frame = len;
		set_budget(e);
	}
	if (r->granted_at)
		round_trip(e, r, now);
	uint32_t open = open_bytes(r);

	r->rx_bulk += len;
	if (HK_UNLIKELY(len >
			open)) { /* a resend after we took the grant back, or no grant at all */
		r->rx_granted = r->rx_bulk;
		len = open;
	}
	g->out -= len;
	if (hk_psn_before(r->rx_wanted, r->rx_bulk))
		r->rx_wanted = r->rx_bulk;
	if (open_bytes(r))
		open_add(e, r, now);
	else if (r->in_open_list)
		open_remove(e, r);
	if (g->turns)
		run(e, now);
	else if (open_bytes(r) < g->quantum && g->out + g->quantum <= g->budget)
		/* it rides on the next acknowledgement */
		grant(e, r, g->quantum, now);
}

/* A grant to us, the sender. */
static void granted(struct hk_engine *e, struct hk_peer_rec *r, uint32_t to, uint64_t now)
{
	if (!hk_psn_before(r->tx_granted, to)) /* an old frame */
		return;
	r->tx_granted = to;
	r->tx_granted_at = now;
	if (r->timer == HK_TIMER_CREDIT) {
		r->backoff = 0;
		hk_timer_rearm(e, r, now);
	}
}

void hk_grant_input(struct hk_engine *e, struct hk_peer_rec *r, const struct hk_wire_grant *g,
		    uint64_t now)
{
	r->has_bulk = 1;
	granted(e, r, g->granted, now);
	/* to us, the receiver. A grant that ends must not take this request with it */
	close_idle(e, now);
	if (hk_psn_before(r->rx_wanted, g->wanted))
		r->rx_wanted = g->wanted;
	if (wants(r)) {
		enlist(e, r);
		run(e, now);
	}
}

void hk_grant_fill(struct hk_peer_rec *r, struct hk_wire_grant *g, uint64_t now)
{
	r->grant_due = 0;
	g->granted = r->rx_granted;
	g->wanted = r->tx_wanted;
	r->asked_at = now;
}

/* ---- the sender ---------------------------------------------------------------------------- */

/* Forgets a grant that was not used for long: the receiver counts on that. */
static void forget_old(struct hk_peer_rec *r, uint64_t now)
{
	if (HK_UNLIKELY(now - r->tx_granted_at >= HK_GRANT_LIFE) &&
	    hk_psn_before(r->tx_bulk, r->tx_granted)) {
		r->tx_granted = r->tx_bulk;
		r->asked_at = 0;
	}
}

bool hk_grant_allows(struct hk_peer_rec *r, uint64_t now)
{
	forget_old(r, now);
	return hk_psn_before(r->tx_bulk, r->tx_granted);
}

bool hk_engine_granted(struct hk_engine *e, hk_peer p, uint32_t len, uint64_t now)
{
	return p < e->peers && (!hk_is_bulk(e, len) || hk_grant_allows(hk_rec(e, p), now));
}

void hk_grant_used(struct hk_peer_rec *r, uint32_t len, uint64_t now)
{
	r->tx_bulk += len;
	r->tx_granted_at = now;
	if (hk_psn_before(r->tx_wanted, r->tx_bulk))
		r->tx_wanted = r->tx_bulk;
}

void hk_engine_want(struct hk_engine *e, hk_peer p, uint32_t bytes, uint64_t now)
{
	if (p >= e->peers || !e->cfg.link_mbps)
		return;
	struct hk_peer_rec *r = hk_rec(e, p);
	uint32_t wanted = r->tx_bulk + bytes;

	if (!hk_peer_connected(r))
		return;
	forget_old(r, now);
	bool more = hk_psn_before(r->tx_wanted, wanted);

	if (more)
		r->tx_wanted = wanted;
	if (!hk_grant_missing(r))
		return;
	/* a request may be lost; while nothing is in flight, the timer repeats it */
	if (more || now - r->asked_at > hk_rto(e, r)) {
		r->has_bulk = r->grant_due = 1;
		r->asked_at = now;
		hk_ack_schedule(e, r, now, true);
		if (r->timer == HK_TIMER_NONE || r->timer == HK_TIMER_KEEPALIVE)
			hk_timer_rearm(e, r, now);
	}
}

void hk_grant_forget(struct hk_engine *e, struct hk_peer_rec *r)
{
	wait_remove(e, r);
	for (unsigned i = 0; r->in_turn; i++)
		if (e->grant.turn[i] == hk_index(e, r))
			turn_end(e, i);
	if (r->in_open_list)
		close_grant(e, r);
}
