/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/rx.c: progress. Frames in, handlers called, acks and resends out.
 */
#include "fabric/internal.h"

#include <rte_cycles.h>

/* Whoever polls comes back sooner; whoever does not had something else to do. */
#define HK_AWAY (50 * HK_USEC)

static void free_rx(struct rte_mbuf *const *bufs, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free_seg(bufs[i]);
}

/* Where the message lies. Parsed before: every `len` lies within its frame. */
static void message_iov(struct rte_mbuf *const *bufs, unsigned n, struct hk_iov *iov)
{
	for (unsigned i = 0; i < n; i++) {
		const char *hdr = rte_pktmbuf_mtod(bufs[i], const char *) + HK_ETH_HLEN;
		uint16_t len;

		memcpy(&len, hdr + offsetof(struct hk_wire_hdr, len), sizeof(len));
		iov[i] = (struct hk_iov){hdr + HK_WIRE_HLEN, rte_le_to_cpu_16(len)};
	}
}

static void handle(struct hk_fabric *f, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned n)
{
	if (HK_LIKELY(f->am[am].fn != NULL)) {
		f->n.am_delivered++;
		f->am[am].fn(f->am[am].arg, p, am, iov, n);
	} else {
		f->n.unknown_am++;
	}
}

/* Hands a message to its handler and frees its buffers. */
static void deliver(struct hk_fabric *f, hk_peer p, uint8_t am, struct rte_mbuf *const *bufs,
		    unsigned n)
{
	struct hk_iov iov[HK_WIRE_MAX_FRAGS];

	message_iov(bufs, n, iov);
	handle(f, p, am, iov, n);
	free_rx(bufs, n);
}

/* ---- messages that wait ---------------------------------------------------------------------- */

/* Makes the buffers of a message a list. Returns its first buffer. */
static struct rte_mbuf *message_pack(const struct hk_rx *rx)
{
	struct rte_mbuf *first = hk_mbuf_of(rx->tokens[0]);

	for (unsigned i = 0; i < rx->count; i++)
		*hk_rx_note(hk_mbuf_of(rx->tokens[i])) = (struct hk_rx_note){
			.frag_next = i + 1u < rx->count ? hk_mbuf_of(rx->tokens[i + 1]) : NULL,
			.peer = rx->peer,
			.last = rx->last,
			.am = rx->am,
			.count = rx->count,
		};
	return first;
}

static unsigned message_unpack(struct rte_mbuf *m, struct rte_mbuf **bufs)
{
	unsigned n = 0;

	for (; m; m = hk_rx_note(m)->frag_next)
		bufs[n++] = m;
	return n;
}

static void message_free(struct rte_mbuf *m)
{
	struct rte_mbuf *bufs[HK_WIRE_MAX_FRAGS];

	free_rx(bufs, message_unpack(m, bufs));
}

/* Keeps a message for the application. */
static void keep(struct hk_fabric *f, struct rte_mbuf *m)
{
	const struct hk_rx_note *note = hk_rx_note(m);
	struct rte_mbuf *bufs[HK_WIRE_MAX_FRAGS];
	struct hk_iov iov[HK_WIRE_MAX_FRAGS];
	unsigned n = message_unpack(m, bufs);

	f->kept_own += hk_am_own(note->am);
	message_iov(bufs, n, iov);
	if (hk_keep_copy(f, note->peer, note->am, iov, n))
		free_rx(bufs, n);
	else
		hk_keep_buffers(f, m);
}

/* A message whose turn it is: to its handler, or kept for the application. What is the
 * fabric's own the application does not hear of, but its memory must be within reach. */
static void message_out(struct hk_fabric *f, struct rte_mbuf *m, bool keep_it)
{
	struct rte_mbuf *bufs[HK_WIRE_MAX_FRAGS];
	struct hk_rx_note note = *hk_rx_note(m);

	if (keep_it && (!hk_am_own(note.am) || f->stand_in)) {
		keep(f, m);
		return;
	}
	deliver(f, note.peer, note.am, bufs, message_unpack(m, bufs));
}

/* A frame of a put came while a stand-in polled, who cannot reach the region. */
static void keep_put(struct hk_fabric *f, hk_peer p, struct rte_mbuf *m)
{
	*hk_rx_note(m) = (struct hk_rx_note){.peer = p, .count = 1, .put = true};
	hk_keep_buffers(f, m);
	f->kept_own++;
}

static void place_kept_put(struct hk_fabric *f, hk_peer p, struct rte_mbuf *m)
{
	struct hk_frame frame;

	if (hk_wire_parse(rte_pktmbuf_mtod(m, void *), m->data_len, f->cfg.engine.crc, &frame) ==
		    HK_WIRE_OK &&
	    frame.h.type == HK_WIRE_PUT) /* as before it was kept */
		hk_put_in(f, p, &frame);
	rte_pktmbuf_free_seg(m);
}

void hk_rx_drop_kept(struct hk_fabric *f)
{
	struct hk_kept k;

	while (hk_keep_next(f, &k))
		if (k.m)
			message_free(k.m);
}

/* Puts a message among those of its peer that wait for their turn, where it belongs. */
static void early_add(struct hk_fabric *f, const struct hk_rx *rx)
{
	struct hk_peer_tx *t = &f->peer[rx->peer];
	struct rte_mbuf **link = &t->early, *m = message_pack(rx);

	/* mostly behind all others: who loses one frame of many gets the rest in order */
	if (*link && hk_psn_before(hk_rx_note(t->early_last)->last, rx->last))
		link = &hk_rx_note(t->early_last)->msg_next;
	while (*link && hk_psn_before(hk_rx_note(*link)->last, rx->last))
		link = &hk_rx_note(*link)->msg_next;
	hk_rx_note(m)->msg_next = *link;
	*link = m;
	if (!hk_rx_note(m)->msg_next)
		t->early_last = m;
}

/* Everything before @next has arrived: lets those go that waited for it. Returns how many. */
static unsigned early_out(struct hk_fabric *f, hk_peer p, uint32_t next, bool keep_it)
{
	unsigned out = 0;

	f->peer[p].early_next = next;
	for (; f->peer[p].early && hk_psn_before(hk_rx_note(f->peer[p].early)->last, next); out++) {
		struct rte_mbuf *m = f->peer[p].early;

		if (HK_UNLIKELY(keep_it && !hk_can_keep_early(f))) {
			hk_list_add(f, HK_LIST_EARLY,
				    p); /* for deliver_kept(), or the next frame */
			break;
		}

		f->peer[p].early = hk_rx_note(m)->msg_next;
		message_out(f, m, keep_it);
	}
	return out;
}

/* What found no room to be kept has some now, since somebody took out what was. */
static void keep_early(struct hk_fabric *f)
{
	hk_peer p;

	while (hk_can_keep_early(f) && (p = hk_list_pop(f, HK_LIST_EARLY)) != HK_PEER_NONE)
		(void)early_out(f, p, f->peer[p].early_next, true);
}

static void deliver_one_kept(struct hk_fabric *f, const struct hk_kept *k)
{
	/* what an earlier incarnation asked for is not to be put into this one's memory */
	bool stale = k->earlier && hk_am_own(k->am);

	if (k->m && hk_rx_note(k->m)->put) {
		place_kept_put(f, k->peer, k->m);
	} else if (HK_UNLIKELY(stale)) {
		if (k->m)
			message_free(k->m);
	} else if (k->m) {
		message_out(f, k->m, false);
	} else {
		handle(f, k->peer, k->am, &k->iov, 1);
	}
}

/* What a stand-in kept and is the fabric's own, for who reaches the application's memory without being it. */
void hk_rx_serve_kept(struct hk_fabric *f)
{
	uint64_t at = f->keep.tail;
	struct hk_kept k;

	while (hk_keep_next_own(f, &at, &k))
		deliver_one_kept(f, &k);
	hk_keep_trim(f);
	f->kept_own = 0;
}

/* What was kept, and what could not be for want of room, goes to its handlers. Returns how many. */
static unsigned deliver_kept(struct hk_fabric *f)
{
	unsigned out = 0;
	struct hk_kept k;
	hk_peer p;

	f->kept_own = 0;
	for (; hk_keep_next(f, &k); out++)
		deliver_one_kept(f, &k);
	while (HK_UNLIKELY((p = hk_list_pop(f, HK_LIST_EARLY)) != HK_PEER_NONE))
		out += early_out(f, p, f->peer[p].early_next, false);
	return out;
}

/* The peer is gone: so is what waited for its earlier messages. */
void hk_rx_forget(struct hk_fabric *f, hk_peer p)
{
	while (f->peer[p].early) {
		struct rte_mbuf *m = f->peer[p].early;

		f->peer[p].early = hk_rx_note(m)->msg_next;
		message_free(m);
	}
	f->peer[p].early_next = 0;
}

/* ---- one frame ------------------------------------------------------------------------------- */

/* A whole message. In order, and with nobody waiting, it goes straight to its handler. */
static void message_in(struct hk_fabric *f, const struct hk_rx *rx, bool keep_it)
{
	struct rte_mbuf *bufs[HK_WIRE_MAX_FRAGS];

	if (HK_UNLIKELY(!hk_psn_before(rx->last, rx->next))) {
		f->n.early++;
		early_add(f, rx);
		return;
	}
	if (HK_UNLIKELY(keep_it || f->peer[rx->peer].early)) {
		/* one that waits may come before this one: the list knows the order */
		early_add(f, rx);
		(void)early_out(f, rx->peer, rx->next, keep_it);
		return;
	}
	for (unsigned i = 0; i < rx->count; i++)
		bufs[i] = hk_mbuf_of(rx->tokens[i]);
	deliver(f, rx->peer, rx->am, bufs, rx->count);
}

static void frame_in(struct hk_fabric *f, uint16_t lane, struct rte_mbuf *m, uint64_t now,
		     bool keep_it)
{
	struct hk_rx rx;

	hk_engine_input(f->engine, rte_pktmbuf_mtod(m, void *), m->data_len, (uintptr_t)m, now,
			&rx);
	if (HK_UNLIKELY(rx.new_peer)) {
		hk_peer_anew(f, rx.peer);
		hk_peer_learn(f, rx.peer, rx.f.src_mac, lane);
	}
	if (HK_LIKELY(rx.verdict >= HK_RX_DELIVER && rx.verdict != HK_RX_MCAST))
		f->peer[rx.peer].answer = lane;
	switch (rx.verdict) {
	case HK_RX_DELIVER:
		message_in(f, &rx, keep_it);
		return;
	case HK_RX_HOLD:
		(void)early_out(f, rx.peer, rx.next, keep_it);
		return;
	case HK_RX_CONTROL:
		if (HK_UNLIKELY(rx.f.h.type == HK_WIRE_BYE && rx.peer != HK_PEER_NONE))
			hk_peer_departs(f, rx.peer);
		break;
	case HK_RX_PUT:
		if (HK_UNLIKELY(f->stand_in)) {
			keep_put(f, rx.peer, m);
		} else {
			hk_put_in(f, rx.peer, &rx.f);
			rte_pktmbuf_free_seg(m);
		}
		if (HK_UNLIKELY(f->peer[rx.peer].early != NULL))
			(void)early_out(f, rx.peer, rx.next, keep_it);
		return;
	case HK_RX_MCAST:
		hk_mcast_in(f, &rx.f);
		break;
	case HK_RX_DROP:
		break;
	}
	rte_pktmbuf_free_seg(m);
}

/* We come back to the ports after a while: what waits there waited for us. */
static void note_presence(struct hk_fabric *f, uint64_t now, bool app)
{
	if (app)
		atomic_store_explicit(&f->app_at, now, memory_order_relaxed);
	if (HK_UNLIKELY(now - f->here_at > HK_AWAY) && !f->away) {
		f->away = true;
		hk_engine_away(f->engine, true);
	}
	f->here_at = now;
}

/* One burst of one port. */
static HK_NOINLINE void burst_in(struct hk_fabric *f, uint16_t lane, struct rte_mbuf *const *m,
				 uint16_t n, bool keep_it)
{
	uint64_t now = hk_now(f);

	note_presence(f, now, !keep_it);
	for (uint16_t i = 0; i < n; i++) {
		if (i + 1 < n)
			rte_prefetch0(rte_pktmbuf_mtod(m[i + 1], void *));
		if (HK_UNLIKELY(m[i]->nb_segs != 1)) { /* longer than any frame of ours */
			rte_pktmbuf_free(m[i]);
			f->n.rx_too_long++;
			continue;
		}
		/* an answer to a stray needs its addresses, so it leaves before the next */
		struct rte_ether_hdr eth = *rte_pktmbuf_mtod(m[i], struct rte_ether_hdr *);

		frame_in(f, lane, m[i], now, keep_it);
		if (HK_UNLIKELY(hk_engine_deadline(f->engine) == 0))
			hk_tx_poll(f, now, &eth, lane);
	}
}

/* Buffers that were acknowledged, room that was made, timers and acks that are due, peers that are
 * lost: these are for the application's thread alone. */
static void housekeep(struct hk_fabric *f, uint64_t now, bool keep_it)
{
	hk_tx_reap(f);
	if (HK_UNLIKELY(hk_listed(f, HK_LIST_GETS)) && !f->stand_in)
		hk_gets_go(f, now);
	if (HK_UNLIKELY(hk_listed(f, HK_LIST_ATOMS)) && !f->stand_in)
		hk_atoms_go(f);
	if (HK_UNLIKELY(hk_listed(f, HK_LIST_LATER)) && !f->stand_in)
		hk_later_go(f);
	hk_parked_due(f, now);
	hk_tx_backlog(f, now);
	hk_tx_poll(f, now, NULL, 0);
	if (HK_UNLIKELY(now >= f->ring_at))
		hk_rings_look(f, now);
	if (!keep_it)
		hk_fabric_verdicts(f);
}

/* The ports are empty: nothing waits for us any more. */
static void idle(struct hk_fabric *f, bool keep_it)
{
	uint64_t now = hk_now(f);

	f->here_at = now;
	if (!keep_it)
		atomic_store_explicit(&f->app_at, now, memory_order_relaxed);
	if (HK_UNLIKELY(f->away)) {
		f->away = false;
		hk_engine_away(f->engine, false);
	}
	housekeep(f, now, keep_it);
}

/* Takes in what has come to one port. Returns how many frames it was. Bursts are short, and answered
 * one by one: an ack that waits for a long burst stops its sender, and frames that wait for their turn
 * leave the cache. */
static inline unsigned lane_in(struct hk_fabric *f, uint16_t lane, bool keep_it)
{
	struct rte_mbuf *m[HK_RX_BURST];
	unsigned frames = 0;

	for (unsigned round = 0; round < HK_RX_ROUNDS; round++) {
		uint16_t n = hk_port_rx(f->lane[lane]->port, f->lane[lane]->pair, m, HK_RX_BURST);

		if (n == 0)
			break;
		/* with no room left, go on listening: to acks, and to signs of life */
		if (HK_UNLIKELY(keep_it))
			hk_engine_refuse(f->engine, !hk_can_keep(f));
		burst_in(f, lane, m, n, keep_it);
		frames += n;
		if (n < HK_RX_BURST)
			break;
		housekeep(f, hk_now(f), keep_it);
		hk_tx_flush(f);
	}
	return frames;
}

/* One round over all ports. With @keep_it messages are kept for later instead of delivered. Returns how many frames
 * have come. */
unsigned hk_rx_poll(struct hk_fabric *f, bool keep_it)
{
	unsigned frames = 0;

	if (HK_UNLIKELY(keep_it && hk_listed(f, HK_LIST_EARLY)))
		keep_early(f);
	for (unsigned look = 0; look < f->looks && !frames; look++)
		for (uint16_t l = 0; l < f->lanes; l++)
			frames += lane_in(f, l, keep_it);
	if (frames) {
		f->idle = 0;
		/* What was acknowledged is free before the application sends again: it takes the same
		 * buffers, while they are in the cache. */
		hk_tx_reap(f);
		if (hk_listed(f, HK_LIST_BACKLOG) || hk_engine_deadline(f->engine) <= f->here_at)
			housekeep(f, hk_now(f), keep_it);
	} else if (++f->idle % HK_IDLE_CLOCK == 0) {
		idle(f, keep_it);
	}
	return frames;
}

/* Is the polling process lost? Says so once. Nothing may be touched then. */
bool hk_broken(struct hk_fabric *f)
{
	if (HK_LIKELY(!atomic_load_explicit(&f->lock.broken, memory_order_acquire)))
		return false;
	if (!f->told_broken && f->cfg.lost) {
		f->told_broken = true;
		f->cfg.lost(f->cfg.lost_arg, HK_PEER_NONE, HK_VERDICT_NONE, f->why_broken);
	}
	return true;
}

unsigned hk_fabric_progress(struct hk_fabric *f)
{
	unsigned done = 0;

	hk_biased_enter(&f->lock);
	atomic_store_explicit(&f->app_ticks,
			      atomic_load_explicit(&f->app_ticks, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (HK_UNLIKELY(hk_broken(f))) {
		hk_biased_leave(&f->lock);
		return 0;
	}
	if (HK_UNLIKELY(hk_listed(f, HK_LIST_ENDED)))
		hk_peers_settle(f);
	/* what found no room may wait alone: a servant may have taken out all that was kept */
	if (f->gather++ == 0 && HK_UNLIKELY(hk_keeps(f) || hk_listed(f, HK_LIST_EARLY)))
		done += deliver_kept(f);
	if (HK_UNLIKELY(f->put_acked != NULL))
		hk_puts_acked(f);
	done += hk_rx_poll(f, false);
	if (HK_UNLIKELY(f->done_head != NULL)) {
		hk_rma_tell(f);
		done++;
	}
	if (--f->gather == 0 && f->unsent)
		hk_tx_flush(f);
	hk_biased_leave(&f->lock);
	return done;
}
