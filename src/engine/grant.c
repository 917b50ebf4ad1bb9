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
 * for a grant. Smaller packets need none.
 *
 * Turns. HK_GRANT_TURNS senders have their turn at a time; the others wait. The receiver grants a
 * quantum to each of these, again and again, until it has what it wants or has had TURN_BYTES. So a
 * message begins and ends in one turn, and few incomplete ones need buffers. The next sender is
 * drawn at random from those that waited when the last such draw was complete. In order, all
 * receivers would choose the same senders in an exchange between all hosts.
 *
 * Budget. All bytes that are granted and have not arrived stay within a budget: what the link
 * carries in a round trip, and a small queue. That is far below the buffer of a switch port, so no
 * bulk is lost there. A grant may wait behind the bulk that we send ourselves, unless our NIC sends
 * small frames first. As long as that takes, the link to us would idle, so the budget has these
 * bytes as well.
 *
 * Both numbers of a grant are sums since the start of the connection. So the next grant repairs one
 * that is lost or late. A sender that does not use its grant keeps a part of the budget from
 * others. So a grant ends: its sender forgets it after a time without use (LIFE), and the receiver
 * takes it back after twice that time.
 *
 * New senders. A peer starts with a short window, and can use no more of a grant in a round trip.
 * So while others wait, a new sender has no more open than its window. Its turn ends with that, and
 * others use the link until its packets arrive. A sender is new until it has sent what the link
 * carries in a round trip.
 *
 * A sender that wants little gets all at once, if the budget has room for a quantum: otherwise the
 * link would idle between messages. So all that is granted may exceed the budget by one message.
 *
 * The last packet under a grant may exceed it. A rest that is too short for a packet would stay
 * open, and keep its part of the budget.
 *
 * Our NIC. A sender may have grants of many receivers. It gives its NIC no more bulk than the NIC
 * sends in NIC_QUEUE_TIME. In a long queue there, packets would arrive after their receivers have
 * given the grants up, and small packets would wait behind them.
 *
 * Busy senders. A sender that is busy with other receivers does not answer. Its turn then ends, and
 * what it has open does not count against the budget, up to `stalled_max`. Otherwise a receiver
 * would idle while all its turns are with busy senders. A packet that waits in the queue in front
 * of our own link looks the same. So the engine does this only while that link idles.
 *
 * A sender that nobody else waits for gets its next grant without asking, while it uses the last
 * one. It is half of the budget that is free, at most a quantum, and at least as much as it asked
 * for last. So a lone sender seldom asks. In an exchange between neighbours each has a grant for
 * its next message, and none has so much that others wait. A sender may not use such a grant. So
 * these leave a quantum of the budget free. Otherwise senders with a single message would together
 * keep all others waiting until they end. The sender hears of the grant with the next
 * acknowledgement, or at once if it asks before that.
 *
 * Round trip. The budget follows the least one that bulk had lately, from a frame of ours to the
 * packet that echoes its timestamp. The echo leaves out the time that the sender waited. Bytes that
 * are granted beyond a round trip make a queue at the switch, in which packets wait. Their time is
 * subtracted: otherwise the budget would grow with its own queue. Whether they are in that queue is
 * not known, so such a measurement never lowers the round trip.
 *
 * Invariants: e->grant.out and .stalled are the sums of granted - received over the peers of the
 * lists OPEN and STALLED. Each peer with a grant open is in one of them, the longest idle first. A
 * peer that wants more than it was granted has its turn, is in the list `waiting`, or has a grant
 * open.
 *
 * A wire with two ends has no switch to overflow: there cfg.link_mbps is 0, and nobody waits for
 * grants. A receiver answers requests in any case, since its peer may think otherwise.
 */
#include "engine/internal.h"

/* How long a grant may lie unused, and at least as long as our link takes for so many frames. */
#define LIFE        (500 * HK_USEC)
#define LIFE_FRAMES 16
/* Bulk that waits for our own NIC waits in the send queue, except for so long. */
#define NIC_QUEUE_TIME (20 * HK_USEC)
/* A sender that has not answered for two round trips and so long serves others. Such senders may
 * have so many bytes open in addition to the budget. That is at most what the link carries so long,
 * or so many frames. */
#define STALL_TIME     (2 * HK_USEC)
#define STALLED_MAX    (384u << 10)
#define STALLED_TIME   (320 * HK_USEC)
#define STALLED_FRAMES 8
/* That matters if our link was idle for so long in the last twice that time. */
#define LINK_IDLE      (5 * HK_USEC)
#define FRAME_OVERHEAD 90u /* bytes on the wire besides `len`, and small packets, about */
/* A sender that wants no more than this gets it at once. The first part of an eager message would
 * hold receive buffers until the rest comes. */
#define EAGER_BYTES (20u << 10)
/* Bytes after which it is the turn of another sender, if one waits. */
#define TURN_BYTES (64u << 10)
/* A grant that nobody asked for is at most so much of the budget that is free. */
#define UNASKED_PART 2
/* Until a round trip has been measured. */
#define ROUND_TRIP_START (4 * HK_USEC)
/* The queue at the receiver's switch port: so long, and at most so many bytes. */
#define QUEUE_TIME  (20 * HK_USEC)
#define QUEUE_BYTES (80u << 10)
/* Half the buffer of a switch port, as these are today. */
#define BUDGET_MAX (512u << 10)
/* The least round trip counts for so long. Routes change. */
#define ROUND_TRIP_LIFE (10 * HK_MSEC)

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
	uint64_t frame = HK_MAX(g->frame, HK_LONG_FRAME);
	uint64_t queue = HK_MIN(bytes_in(e, QUEUE_TIME), QUEUE_BYTES);

	/* below three frames the link would idle between them */
	uint64_t budget = bytes_in(e, g->base) + HK_MAX(queue, 3 * frame);

	g->budget = (uint32_t)HK_MIN(budget, BUDGET_MAX);
	g->stalled_max = (uint32_t)HK_MIN(HK_MAX(bytes_in(e, STALLED_TIME), STALLED_FRAMES * frame),
					  STALLED_MAX);
	/* of whole packets, so that none exceeds it */
	g->quantum = (uint32_t)(HK_MAX(g->budget / 4 / frame, 1) * frame);
	g->life = HK_MAX(LIFE, LIFE_FRAMES * time_of(e, (uint32_t)frame));
	e->nic_queue = HK_MAX(NIC_QUEUE_TIME, 2 * time_of(e, (uint32_t)frame));
}

static void saw_frame(struct hk_engine *e, uint32_t len)
{
	if (HK_LIKELY(len <= e->grant.frame))
		return;
	e->grant.frame = len;
	e->grant.frame_time = time_of(e, len);
	set_budget(e);
}

/* Between packets that follow each other closely, a link is not idle. */
static uint64_t idle_time(const struct hk_engine *e)
{
	return LINK_IDLE + e->grant.frame_time;
}

/* Notes how long our link was busy with a frame. It counts for a little longer than it takes. So a
 * link that is always busy forgets after a while that it idled before. */
static void link_busy(struct hk_engine *e, uint32_t len, uint64_t now)
{
	struct hk_grants *g = &e->grant;
	uint64_t from = HK_MAX(g->busy_to, now - HK_MIN(now, 2 * idle_time(e)));

	g->busy_to = HK_MIN(from, now) + time_of(e, len + len / 128 + FRAME_OVERHEAD);
}

/* A sender that has not answered for so long is busy. */
static uint64_t stall_time(const struct hk_engine *e)
{
	return 2 * (e->grant.base + e->grant.frame_time) + STALL_TIME;
}

void hk_grant_init(struct hk_engine *e)
{
	struct hk_grants *g = &e->grant;

	for (unsigned i = 0; i < HK_GRANT_LISTS; i++)
		g->list[i].head = g->list[i].tail = HK_NIL;
	g->random = e->cfg.endpoint * 2654435761u;
	g->due = e->send_due = UINT64_MAX;
	g->base = ROUND_TRIP_START;
	set_budget(e);
}

/* ---- the lists ----------------------------------------------------------------------------- */

static uint32_t open_bytes(const struct hk_peer_rec *r)
{
	return r->rx_granted - r->rx_bulk;
}

/* Puts @r, which has a grant open, at the end of @list, or takes it out of its list
 * (HK_GRANT_NONE). */
static void move_to(struct hk_engine *e, struct hk_peer_rec *r, enum hk_grant_list list)
{
	struct hk_grants *g = &e->grant;
	uint32_t p = hk_index(e, r);

	if (r->grant_list != HK_GRANT_NONE) {
		struct hk_grant_queue *from = &g->list[r->grant_list];

		if (r->grant_list == list && from->tail == p)
			return;
		if (r->open_prev == HK_NIL)
			from->head = r->open_next;
		else
			hk_rec(e, r->open_prev)->open_next = r->open_next;
		if (r->open_next == HK_NIL)
			from->tail = r->open_prev;
		else
			hk_rec(e, r->open_next)->open_prev = r->open_prev;
	}
	r->grant_list = (uint8_t)list & 3u;
	if (list == HK_GRANT_NONE)
		return;
	struct hk_grant_queue *to = &g->list[list];

	r->open_next = HK_NIL;
	r->open_prev = to->tail;
	if (to->tail == HK_NIL)
		to->head = p;
	else
		hk_rec(e, to->tail)->open_next = p;
	to->tail = p;
}

/* The first of @list, if it has not used its grant for @after ns; or NULL. */
static struct hk_peer_rec *idle_for(const struct hk_engine *e, enum hk_grant_list list,
				    uint64_t after, uint64_t now)
{
	uint32_t p = e->grant.list[list].head;

	if (p == HK_NIL || now - hk_rec(e, p)->grant_used_at < after)
		return NULL;
	return hk_rec(e, p);
}

/* When the first of @list will have been idle for @after ns. */
static uint64_t idle_at(const struct hk_engine *e, enum hk_grant_list list, uint64_t after)
{
	uint32_t p = e->grant.list[list].head;

	return p == HK_NIL ? UINT64_MAX : hk_rec(e, p)->grant_used_at + after;
}

static void wait_put(struct hk_engine *e, uint32_t at, uint32_t p)
{
	*hk_grant_wait(e, at) = p;
	hk_rec(e, p)->grant_at = at;
}

/* The peer at place @from moves to @to. */
static void wait_move(struct hk_engine *e, uint32_t from, uint32_t to)
{
	if (from != to)
		wait_put(e, to, *hk_grant_wait(e, from));
}

static void wait_add(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (r->in_grant_list)
		return;
	r->in_grant_list = 1;
	wait_put(e, e->grant.waiting++, hk_index(e, r));
}

/* The hole moves to the end: first of the batch, then of the others. */
static void wait_remove(struct hk_engine *e, struct hk_peer_rec *r)
{
	struct hk_grants *g = &e->grant;
	uint32_t at = r->grant_at;

	if (!r->in_grant_list)
		return;
	r->in_grant_list = 0;
	if (at < g->batch) {
		wait_move(e, --g->batch, at);
		at = g->batch;
	}
	wait_move(e, --g->waiting, at);
}

/* Takes one of the batch at random. */
static struct hk_peer_rec *wait_pick(struct hk_engine *e)
{
	struct hk_grants *g = &e->grant;

	if (g->batch == 0)
		g->batch = g->waiting;
	g->random = g->random * 1664525u + 1013904223u;
	uint32_t at = (uint32_t)((uint64_t)g->random * g->batch >> 32);
	struct hk_peer_rec *r = hk_rec(e, *hk_grant_wait(e, at));

	wait_remove(e, r);
	return r;
}

/* Fills the places of those whose turn it is. */
static void turns_fill(struct hk_engine *e)
{
	struct hk_grants *g = &e->grant;

	while (g->turns < HK_GRANT_TURNS && g->waiting) {
		struct hk_peer_rec *r = wait_pick(e);

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

/* Ends the turn of @r if it has one. */
static void turn_leave(struct hk_engine *e, const struct hk_peer_rec *r)
{
	for (unsigned i = 0; r->in_turn; i++)
		if (e->grant.turn[i] == hk_index(e, r))
			turn_end(e, i);
}

/* ---- granting ------------------------------------------------------------------------------ */

static uint32_t wants(const struct hk_peer_rec *r)
{
	return hk_psn_before(r->rx_granted, r->rx_wanted) ? r->rx_wanted - r->rx_granted : 0;
}

/* Adds (@sign 1) or removes (-1) what @r has open to or from its list's sum. */
static void account(struct hk_engine *e, const struct hk_peer_rec *r, int sign)
{
	uint32_t *sum = r->grant_list == HK_GRANT_STALLED ? &e->grant.stalled : &e->grant.out;

	*sum += (uint32_t)sign * open_bytes(r);
}

/* The peer has got or used a grant: it does not stall any more. */
static void used_now(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	r->grant_used_at = now;
	account(e, r, -1);
	move_to(e, r, open_bytes(r) ? HK_GRANT_OPEN : HK_GRANT_NONE);
	account(e, r, 1);
}

static void grant(struct hk_engine *e, struct hk_peer_rec *r, uint32_t bytes, uint64_t now)
{
	account(e, r, -1);
	r->rx_granted += bytes;
	r->grant_due = 1;
	account(e, r, 1);
	used_now(e, r, now);
}

/* Takes the rest of a grant back. */
static void close_grant(struct hk_engine *e, struct hk_peer_rec *r)
{
	account(e, r, -1);
	r->rx_granted = r->rx_bulk;
	move_to(e, r, HK_GRANT_NONE);
}

/* Adds a peer that wants more than it was granted. */
static void enlist(struct hk_engine *e, struct hk_peer_rec *r)
{
	if (!r->in_turn)
		wait_add(e, r);
}

/* May what the first of the list OPEN has open leave the budget? */
static bool may_stall(const struct hk_engine *e)
{
	const struct hk_grants *g = &e->grant;
	uint32_t p = g->list[HK_GRANT_OPEN].head;

	if (p == HK_NIL || g->stalled + open_bytes(hk_rec(e, p)) > g->stalled_max)
		return false;
	/* others must want it */
	return g->waiting || g->turns > hk_rec(e, p)->in_turn;
}

/* Senders that do not answer have other receivers to serve. Their turn ends, and what they have
 * open leaves the budget to others. */
static void pass_over(struct hk_engine *e, uint64_t now)
{
	struct hk_grants *g = &e->grant;
	struct hk_peer_rec *r;

	while (now >= g->busy_to + idle_time(e) &&
	       (r = idle_for(e, HK_GRANT_OPEN, stall_time(e), now)) && may_stall(e)) {
		account(e, r, -1);
		move_to(e, r, HK_GRANT_STALLED);
		account(e, r, 1);
		turn_leave(e, r);
		/* it may have another turn when it has answered */
	}
}

static void close_one(struct hk_engine *e, struct hk_peer_rec *r)
{
	close_grant(e, r);
	e->n.grants_unused++;
	/* It may have asked again before. If not, it does when it can send. */
	if (!r->asked)
		r->rx_wanted = r->rx_granted;
	r->asked = 0;
	if (wants(r))
		enlist(e, r);
}

/* Takes back grants that are not used. */
static void close_idle(struct hk_engine *e, uint64_t now)
{
	struct hk_peer_rec *r;

	for (enum hk_grant_list i = HK_GRANT_OPEN; i <= HK_GRANT_STALLED; i++)
		while ((r = idle_for(e, i, 2 * e->grant.life, now)))
			close_one(e, r);
}

/* Returns the budget of a grant that leaves now. */
static uint32_t budget(const struct hk_engine *e, uint64_t now)
{
	uint64_t wait = e->nic_free_at - HK_MIN(e->nic_free_at, now);

	if (e->cfg.classes)
		return e->grant.budget;
	return e->grant.budget + (uint32_t)bytes_in(e, HK_MIN(wait, e->nic_queue));
}

/* Bytes that @r is granted next, at most. A new sender may have few packets in flight
 * (HK_CC_GRANTED), and one more for each that has arrived. More than that keeps its part of the
 * budget from others, who could use it now. But an eager message comes whole. */
static uint32_t grantable(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	const struct hk_grants *g = &e->grant;
	uint64_t window = (uint64_t)HK_CC_GRANTED * HK_MAX(g->frame, HK_LONG_FRAME) + r->rx_bulk;

	if (g->turns + g->waiting <= 1 || window >= bytes_in(e, g->base) || wants(r) <= EAGER_BYTES)
		return wants(r);
	window -= HK_MIN(window, open_bytes(r));
	return (uint32_t)HK_MIN(wants(r), window);
}

/* Grants a quantum to each whose turn it is, while the budget has room. */
static void run(struct hk_engine *e, uint64_t now)
{
	struct hk_grants *g = &e->grant;

	close_idle(e, now);
	pass_over(e, now);
	for (;;) {
		turns_fill(e);
		if (g->turns == 0)
			break;
		unsigned i = g->next_turn < g->turns ? g->next_turn : 0;
		struct hk_peer_rec *r = hk_rec(e, g->turn[i]);
		uint32_t bytes = grantable(e, r);

		uint32_t at_least = HK_MIN(bytes, g->quantum);

		if (bytes > EAGER_BYTES)
			bytes = at_least;
		if (bytes && g->out && g->out + at_least > budget(e, now))
			break;
		if (bytes) {
			grant(e, r, bytes, now);
			hk_ack_schedule(e, r, now, true);
			r->turn_left -= HK_MIN(bytes, r->turn_left);
		}
		g->next_turn = (uint8_t)(i + 1);
		bool more = grantable(e, r) != 0;

		if (more && (r->turn_left || !g->waiting))
			continue;
		turn_end(e, i);
		g->next_turn = (uint8_t)i;
		if (more) /* otherwise it waits again when its next packet arrives */
			wait_add(e, r);
	}
	g->due = UINT64_MAX;
	if (g->turns)
		g->due = HK_MIN(idle_at(e, HK_GRANT_OPEN, 2 * e->grant.life),
				idle_at(e, HK_GRANT_STALLED, 2 * e->grant.life));
	if (may_stall(e))
		g->due = HK_MIN(g->due, HK_MAX(idle_at(e, HK_GRANT_OPEN, stall_time(e)),
					       g->busy_to + idle_time(e)));
}

void hk_grants_due(struct hk_engine *e, uint64_t now)
{
	run(e, now);
}

/* A packet of bulk took @rtt from our latest frame to its arrival here, without the time at its
 * sender. */
static void round_trip(struct hk_engine *e, uint64_t rtt, uint64_t now)
{
	struct hk_grants *g = &e->grant;
	uint64_t out = time_of(e, g->out + g->stalled), queue = out - HK_MIN(out, g->base);

	if (queue)
		rtt = HK_MAX(rtt - HK_MIN(rtt, queue), g->base);
	if (HK_UNLIKELY(now - g->rtt_since > ROUND_TRIP_LIFE)) {
		g->base = g->rtt ? g->rtt : g->base; /* the least of the time that has ended */
		g->rtt = 0;
		g->rtt_since = now;
		set_budget(e);
	}
	if (g->rtt == 0 || rtt < g->rtt)
		g->rtt = rtt;
	if (HK_UNLIKELY(rtt < g->base)) {
		g->base = rtt;
		set_budget(e);
	}
}

/* Nobody waits. @r gets a part of the budget that is free, and at least as much as it asked for
 * last, unless it still has that. The grant rides on the next acknowledgement. */
static void grant_unasked(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	struct hk_grants *g = &e->grant;
	uint32_t most = budget(e, now), kept = g->out + g->quantum;
	uint32_t free = most - HK_MIN(most, kept);
	uint32_t bytes = HK_MIN(HK_MAX(free / UNASKED_PART, r->rx_asked), g->quantum);

	if (bytes && bytes <= free && open_bytes(r) < bytes)
		grant(e, r, bytes, now);
}

void hk_grant_arrived(struct hk_engine *e, struct hk_peer_rec *r, uint32_t len, uint64_t rtt,
		      uint64_t now)
{
	struct hk_grants *g = &e->grant;

	saw_frame(e, len);
	if (HK_LIKELY(rtt != 0))
		round_trip(e, rtt, now);
	link_busy(e, len, now);
	uint32_t open = open_bytes(r);

	account(e, r, -1);
	r->rx_bulk += len;
	if (HK_UNLIKELY(len > open)) /* the last packet under a grant, or one without */
		r->rx_granted = r->rx_bulk;
	account(e, r, 1);
	if (hk_psn_before(r->rx_wanted, r->rx_bulk))
		r->rx_wanted = r->rx_bulk;
	used_now(e, r, now);
	if (wants(r))
		enlist(e, r);
	if (g->turns || g->waiting)
		run(e, now);
	else
		grant_unasked(e, r, now);
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
		    uint32_t tsval, uint64_t now)
{
	r->has_bulk = 1;
	link_busy(e, 0, now); /* a crowd of requests delays the packets behind them */
	/* the bulk that follows echoes this frame, by which its receiver measures the round trip */
	hk_note_tsval(e, r, tsval, now);
	granted(e, r, g->granted, now);
	/* to us, the receiver. A grant that ends must not take this request with it */
	close_idle(e, now);
	if (hk_psn_before(r->rx_wanted, g->wanted))
		r->rx_wanted = g->wanted;
	r->asked = 1;
	/* A sender that was busy for long has forgotten its grant, and asks for the same bytes. It
	 * hears of the grant again, which lasts from now on. */
	if (open_bytes(r) && hk_psn_before(r->rx_bulk, g->wanted) &&
	    now - r->grant_used_at >= e->grant.life / 2) {
		grant(e, r, 0, now);
		hk_ack_schedule(e, r, now, true);
	}
	if (wants(r))
		r->rx_asked = r->rx_wanted - r->rx_bulk;
	if (wants(r) && r->grant_list != HK_GRANT_STALLED) {
		enlist(e, r);
		run(e, now);
	} else if (r->grant_due && hk_psn_before(r->rx_bulk, g->wanted)) {
		/* It has a grant already, for which it had not asked, and which still waits for an
		 * acknowledgement to ride on. */
		hk_ack_schedule(e, r, now, true);
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
static void forget_old(const struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	if (HK_UNLIKELY(now - r->tx_granted_at >= e->grant.life) &&
	    hk_psn_before(r->tx_bulk, r->tx_granted)) {
		r->tx_granted = r->tx_bulk;
		r->asked_at = 0;
	}
}

bool hk_grant_allows(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	forget_old(e, r, now);
	if (!hk_psn_before(r->tx_bulk, r->tx_granted))
		return false;
	if (HK_LIKELY(e->nic_free_at <= now + e->nic_queue))
		return true;
	/* the caller tries again when its NIC has sent some of its queue */
	e->send_due = e->nic_free_at - e->nic_queue;
	return false;
}

bool hk_engine_granted(struct hk_engine *e, hk_peer p, uint32_t len, uint64_t now)
{
	return p < e->peers && (!hk_is_bulk(e, len) || hk_grant_allows(e, hk_rec(e, p), now));
}

void hk_grant_used(struct hk_engine *e, struct hk_peer_rec *r, uint32_t len, uint64_t now)
{
	saw_frame(e, len);
	e->nic_free_at = HK_MAX(e->nic_free_at, now) + time_of(e, len);
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
	forget_old(e, r, now);
	bool more = hk_psn_before(r->tx_wanted, wanted);

	if (more)
		r->tx_wanted = wanted;
	if (!hk_grant_missing(r))
		return;
	/* a request may be lost; while nothing is in flight, the timer repeats it */
	if (more || now - r->asked_at > hk_rto(e, r)) {
		r->has_bulk = r->grant_due = 1;
		hk_ack_schedule(e, r, now, true);
		if (r->timer == HK_TIMER_NONE || r->timer == HK_TIMER_KEEPALIVE)
			hk_timer_rearm(e, r, now);
	}
}

void hk_grant_forget(struct hk_engine *e, struct hk_peer_rec *r)
{
	wait_remove(e, r);
	turn_leave(e, r);
	if (r->grant_list != HK_GRANT_NONE)
		close_grant(e, r);
}
