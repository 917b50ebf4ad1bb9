/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/rx.c: progress: receives frames, calls handlers, and runs what is due.
 *
 * DESIGN NOTES
 *
 * Order. The engine delivers messages as they become complete, in any order. A message that is in
 * order, with none waiting, goes straight to its handler. Any other goes through the peer's
 * reorder queue (reorder.h).
 *
 * Proxies. When a progress proxy polls (@by_proxy), no handler of the application runs, because
 * Open MPI is not entered from foreign threads. Messages go to the rx backlog (rx_backlog.h). The
 * worker's own messages and frames of puts are handled at once, unless the proxy is the poller
 * (w->by_poller), which cannot reach the application's memory.
 *
 * Bursts are short, and their acks leave after each. An ack that waits for a long burst stops its
 * sender, and frames that wait for their turn leave the cache.
 */
#include "worker/rx.h"

#include "worker/bundles.h"
#include "worker/mcast_internal.h"
#include "worker/peers.h"
#include "worker/pending_reply.h"
#include "worker/protect.h"
#include "worker/reorder.h"
#include "worker/rma_internal.h"
#include "worker/tx.h"
#include "worker/wakeup.h"
#include "wire/bundle.h"

/* A polling rank polls more often than this. */
#define NOT_POLLING_AFTER (50 * HK_USEC)
#define REST              (5 * HK_USEC) /* ten times what a poll by a system call takes */
#define ACTIVE            (50 * HK_USEC)

/* Writes the payloads of a message to @iov. The engine has parsed the frames, so every `len` lies
 * within its frame. */
static void message_iov(struct rte_mbuf *const *bufs, unsigned n, struct hk_iov *iov)
{
	for (unsigned i = 0; i < n; i++) {
		const char *frame = rte_pktmbuf_mtod(bufs[i], const char *);
		const hk_wire_hdr_in_frame *h = (const void *)(frame + HK_ETH_HLEN);
		uint16_t len = rte_le_to_cpu_16(h->len);
		size_t grant = HK_UNLIKELY(h->flags & HK_WIRE_F_GRANT) ? HK_WIRE_GRANT_LEN : 0;

		iov[i] = (struct hk_iov){frame + HK_WIRE_DATA_OVERHEAD + grant, len - grant};
	}
}

void hk_am_deliver(struct hk_worker *w, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned n)
{
	if (HK_LIKELY(w->am[am].fn != NULL)) {
		w->n.messages_delivered++;
		w->am[am].fn(w->am[am].arg, p, am, iov, n);
	} else if (am == HK_WIRE_AM_BUNDLE && n == 1) {
		hk_bundle_deliver(w, p, iov);
	} else {
		w->n.unknown_am++;
	}
}

/* Hands a message to its handler and frees its buffers. */
static void deliver(struct hk_worker *w, hk_peer p, uint8_t am, struct rte_mbuf *const *bufs,
		    unsigned n)
{
	struct hk_iov iov[HK_WIRE_MAX_FRAGS];

	message_iov(bufs, n, iov);
	hk_am_deliver(w, p, am, iov, n);
	hk_rx_bufs_free(bufs, n);
}

/* ---- messages that wait ---------------------------------------------------------------------- */

/* Stores a message for the application. */
static void backlog_add(struct hk_worker *w, struct rte_mbuf *m)
{
	const struct hk_rx_note *note = hk_rx_note(m);
	struct rte_mbuf *bufs[HK_WIRE_MAX_FRAGS];
	struct hk_iov iov[HK_WIRE_MAX_FRAGS];
	unsigned n = hk_rx_message_bufs(m, bufs);

	w->rx_backlog.own += hk_am_own(note->am);
	message_iov(bufs, n, iov);
	if (hk_rx_backlog_copy(w, note->peer, note->am, iov, n))
		hk_rx_bufs_free(bufs, n);
	else
		hk_rx_backlog_add_buffers(w, m);
}

/* Hands a message that is in order to its handler, or to the rx backlog. */
static void message_out(struct hk_worker *w, struct rte_mbuf *m, bool by_proxy)
{
	struct rte_mbuf *bufs[HK_WIRE_MAX_FRAGS];
	struct hk_rx_note note = *hk_rx_note(m);

	if (by_proxy && (!hk_am_own(note.am) || w->by_poller)) {
		backlog_add(w, m);
		return;
	}
	deliver(w, note.peer, note.am, bufs, hk_rx_message_bufs(m, bufs));
}

/* Stores a frame of a put, because the poller cannot reach the region. */
static void backlog_add_put(struct hk_worker *w, hk_peer p, struct rte_mbuf *m)
{
	*hk_rx_note(m) = (struct hk_rx_note){.peer = p, .count = 1, .put = true};
	hk_rx_backlog_add_buffers(w, m);
	w->rx_backlog.own++;
}

static void place_put(struct hk_worker *w, hk_peer p, struct rte_mbuf *m)
{
	struct hk_frame frame;

	if (hk_wire_frame_parse(rte_pktmbuf_mtod(m, void *), m->data_len, w->cfg.engine.protection,
				&frame) == HK_WIRE_OK &&
	    frame.h.type == HK_WIRE_PUT) /* as when it was stored */
		hk_put_receive(w, p, &frame);
	rte_pktmbuf_free_seg(m);
}

void hk_rx_backlog_drop(struct hk_worker *w)
{
	struct hk_rx_backlog_entry k;

	while (hk_rx_backlog_next(w, &k))
		if (k.m)
			hk_rx_message_free(k.m);
}

/* All packets before @next have arrived: hands out the messages of the reorder queue that are due.
 * Returns how many. */
static unsigned reorder_out(struct hk_worker *w, hk_peer p, uint32_t next, bool by_proxy)
{
	struct hk_peer_rx *q = &w->peer[p].rx;
	unsigned out = 0;

	q->next = next;
	for (struct rte_mbuf *m; (m = hk_reorder_due(q, next)); out++) {
		if (HK_UNLIKELY(by_proxy && !hk_rx_backlog_fits_reordered(w))) {
			hk_peer_list_add(w, HK_LIST_REORDER, p);
			break;
		}
		hk_reorder_remove(q, m);
		message_out(w, m, by_proxy);
	}
	return out;
}

/* Moves due messages of reorder queues to the rx backlog, which was full and has space again. */
static void backlog_add_reordered(struct hk_worker *w)
{
	hk_peer p;

	while (hk_rx_backlog_fits_reordered(w) &&
	       (p = hk_peer_list_pop(w, HK_LIST_REORDER)) != HK_PEER_NONE)
		(void)reorder_out(w, p, w->peer[p].rx.next, true);
}

static void deliver_entry(struct hk_worker *w, const struct hk_rx_backlog_entry *k)
{
	/* a reply to an earlier incarnation's request must not reach the memory of this one */
	bool stale = k->stale && hk_am_own(k->am);

	if (k->m && hk_rx_note(k->m)->put) {
		place_put(w, k->peer, k->m);
	} else if (HK_UNLIKELY(stale)) {
		if (k->m)
			hk_rx_message_free(k->m);
	} else if (k->m) {
		message_out(w, k->m, false);
	} else {
		hk_am_deliver(w, k->peer, k->am, &k->iov, 1);
	}
}

void hk_rx_backlog_deliver(struct hk_worker *w)
{
	uint64_t at = w->rx_backlog.tail;
	struct hk_rx_backlog_entry k;

	while (hk_rx_backlog_next_own(w, &at, &k))
		deliver_entry(w, &k);
	hk_rx_backlog_trim(w);
	w->rx_backlog.own = 0;
}

/* Hands the rx backlog, and due messages that it had no space for, to their handlers. Returns how
 * many messages. */
static unsigned backlog_deliver(struct hk_worker *w)
{
	unsigned out = 0;
	struct hk_rx_backlog_entry k;
	hk_peer p;

	w->rx_backlog.own = 0;
	for (; hk_rx_backlog_next(w, &k); out++)
		deliver_entry(w, &k);
	while (HK_UNLIKELY((p = hk_peer_list_pop(w, HK_LIST_REORDER)) != HK_PEER_NONE))
		out += reorder_out(w, p, w->peer[p].rx.next, false);
	return out;
}

void hk_rx_forget(struct hk_worker *w, hk_peer p)
{
	hk_reorder_drop(&w->peer[p].rx);
}

/* ---- one frame ------------------------------------------------------------------------------- */

/* A complete message. */
static void message_in(struct hk_worker *w, const struct hk_rx *rx, bool by_proxy)
{
	struct rte_mbuf *bufs[HK_WIRE_MAX_FRAGS];

	if (HK_UNLIKELY(!hk_psn_before(rx->last, rx->next))) {
		w->n.reordered++;
		hk_reorder_add(&w->peer[rx->peer].rx, rx);
		return;
	}
	if (HK_UNLIKELY(by_proxy || w->peer[rx->peer].rx.reorder_head)) {
		/* a waiting message may come before this one: the queue knows the order */
		hk_reorder_add(&w->peer[rx->peer].rx, rx);
		(void)reorder_out(w, rx->peer, rx->next, by_proxy);
		return;
	}
	for (unsigned i = 0; i < rx->count; i++)
		bufs[i] = hk_mbuf_of(rx->tokens[i]);
	deliver(w, rx->peer, rx->am, bufs, rx->count);
}

static void frame_in(struct hk_worker *w, uint16_t txq, struct rte_mbuf *m, uint64_t now,
		     bool by_proxy)
{
	struct hk_rx rx;

	if (HK_UNLIKELY(w->seal != NULL) && !hk_protect_in(w, m, now, by_proxy)) {
		rte_pktmbuf_free_seg(m);
		return;
	}
	hk_engine_input(w->engine, rte_pktmbuf_mtod(m, void *), m->data_len, (uintptr_t)m, now,
			&rx);
	if (HK_UNLIKELY(rx.new_peer)) {
		hk_peer_restarted(w, rx.peer);
		hk_peer_learn(w, rx.peer, rx.f.src_mac, txq);
	}
	if (HK_LIKELY(rx.result >= HK_RX_DELIVER && rx.result != HK_RX_MCAST))
		w->peer[rx.peer].tx.reply_txq = txq;
	switch (rx.result) {
	case HK_RX_DELIVER:
		message_in(w, &rx, by_proxy);
		return;
	case HK_RX_HOLD:
		(void)reorder_out(w, rx.peer, rx.next, by_proxy);
		return;
	case HK_RX_CONTROL:
		if (HK_UNLIKELY(rx.f.h.type == HK_WIRE_BYE && rx.peer != HK_PEER_NONE))
			hk_peer_left(w, rx.peer);
		break;
	case HK_RX_PUT:
		if (HK_UNLIKELY(w->by_poller)) {
			backlog_add_put(w, rx.peer, m);
		} else {
			hk_put_receive(w, rx.peer, &rx.f);
			rte_pktmbuf_free_seg(m);
		}
		if (HK_UNLIKELY(w->peer[rx.peer].rx.reorder_head != NULL))
			(void)reorder_out(w, rx.peer, rx.next, by_proxy);
		return;
	case HK_RX_MCAST:
		hk_mcast_receive(w, &rx.f);
		break;
	case HK_RX_DROP:
		break;
	}
	rte_pktmbuf_free_seg(m);
}

/* Notes a poll by any thread. After a pause, frames may have waited at the ports for this poll. The
 * engine must not take that time for delay of the network. */
static void note_poll(struct hk_worker *w, uint64_t now, bool app)
{
	if (app)
		atomic_store_explicit(&w->app_polled_at, now, memory_order_relaxed);
	if (HK_UNLIKELY(now - w->polled_at > NOT_POLLING_AFTER) && !w->not_polling) {
		w->not_polling = true;
		hk_engine_set_not_polling(w->engine, true);
	}
	w->polled_at = now;
}

/* One burst of one port. */
static HK_NOINLINE void burst_in(struct hk_worker *w, uint16_t txq, struct rte_mbuf *const *m,
				 uint16_t n, bool by_proxy)
{
	uint64_t now = hk_now(w);
	bool outer = w->in_burst; /* a handler may poll */

	w->in_burst = true;
	note_poll(w, now, !by_proxy);
	for (uint16_t i = 0; i < n; i++) {
		w->more_frames = i + 1 < n;
		if (w->more_frames)
			rte_prefetch0(rte_pktmbuf_mtod(m[i + 1], void *));
		if (HK_UNLIKELY(m[i]->nb_segs != 1)) { /* longer than any frame of ours */
			rte_pktmbuf_free(m[i]);
			w->n.rx_too_long++;
			continue;
		}
		/* a reply to an unknown sender needs this frame's addresses, so it leaves now */
		struct rte_ether_hdr eth = *rte_pktmbuf_mtod(m[i], struct rte_ether_hdr *);

		frame_in(w, txq, m[i], now, by_proxy);
		if (HK_UNLIKELY(hk_engine_urgent(w->engine)))
			hk_tx_poll(w, now, &eth, txq);
	}
	w->in_burst = outer;
}

/* Does what is due: acknowledged buffers, waiting operations, send queues, timers and acks. Reports
 * ended connections only on the application's thread. */
static void housekeep(struct hk_worker *w, uint64_t now, bool by_proxy)
{
	hk_tx_reap(w);
	if (HK_UNLIKELY(hk_peers_listed(w, HK_LIST_GETS)) && !w->by_poller)
		hk_gets_run(w, now);
	if (HK_UNLIKELY(hk_peers_listed(w, HK_LIST_ATOMIC_OPS)) && !w->by_poller)
		hk_atomic_ops_run(w);
	if (HK_UNLIKELY(hk_peers_listed(w, HK_LIST_PENDING_REPLIES)) && !w->by_poller)
		hk_pending_replies_run(w);
	if (HK_UNLIKELY(hk_rpcs_posted(&w->rpcs)) && !w->by_poller)
		hk_rpc_replies_send(w);
	hk_send_queues_run(w, now);
	hk_tx_poll(w, now, NULL, 0);
	if (HK_UNLIKELY(now >= w->wakeup.at))
		hk_wakeup_silent_peers(w, now);
	if (!by_proxy)
		hk_peers_report(w);
}

/* The ports are empty. */
static void idle(struct hk_worker *w, bool by_proxy)
{
	uint64_t now = hk_now(w);

	w->polled_at = now;
	if (!by_proxy)
		atomic_store_explicit(&w->app_polled_at, now, memory_order_relaxed);
	if (HK_UNLIKELY(w->not_polling)) {
		w->not_polling = false;
		hk_engine_set_not_polling(w->engine, false);
	}
	housekeep(w, now, by_proxy);
}

/* Receives from one port. Returns how many frames came. */
static inline unsigned txq_poll(struct hk_worker *w, uint16_t txq, bool by_proxy)
{
	struct rte_mbuf *m[HK_RX_BURST];
	unsigned frames = 0;

	for (unsigned round = 0; round < HK_RX_ROUNDS; round++) {
		uint16_t n = hk_port_rx(w->txq[txq]->port, w->txq[txq]->pair, m, HK_RX_BURST);

		if (n == 0)
			break;
		/* without space, the engine refuses packets but takes acks and signs of life */
		if (HK_UNLIKELY(by_proxy))
			hk_engine_set_refusing(w->engine, !hk_rx_backlog_fits(w));
		burst_in(w, txq, m, n, by_proxy);
		frames += n;
		if (n < HK_RX_BURST)
			break;
		housekeep(w, hk_now(w), by_proxy);
		hk_txqs_flush(w);
	}
	return frames;
}

/* Polls a port whose polls make system calls, beside ports whose polls make none. It would slow
 * down those, so it rests while it has no traffic. */
static HK_NOINLINE unsigned txq_poll_seldom(struct hk_worker *w, uint16_t txq, bool by_proxy)
{
	struct hk_txq *l = w->txq[txq];
	uint64_t now = hk_now(w);

	if (now < l->rest_until && !l->sent)
		return 0;
	unsigned frames = txq_poll(w, txq, by_proxy);

	if (frames || l->sent) {
		l->sent = false;
		l->active_until = now + ACTIVE;
	}
	l->rest_until = now < l->active_until ? 0 : now + REST;
	return frames;
}

unsigned hk_rx_poll(struct hk_worker *w, bool by_proxy)
{
	unsigned frames = 0;

	if (HK_UNLIKELY(by_proxy && hk_peers_listed(w, HK_LIST_REORDER)))
		backlog_add_reordered(w);
	for (unsigned i = 0; i < w->polls_per_call && !frames; i++)
		for (uint16_t l = 0; l < w->txqs; l++)
			frames += HK_UNLIKELY(w->txq[l]->system_calls && w->cheap_ports)
					  ? txq_poll_seldom(w, l, by_proxy)
					  : txq_poll(w, l, by_proxy);
	if (frames) {
		w->idle_polls = 0;
		/* frees acknowledged buffers before the application sends again, so that it takes
		 * the same ones while they are in the cache */
		hk_tx_reap(w);
		if (hk_peers_listed(w, HK_LIST_SEND_QUEUE) ||
		    hk_engine_deadline(w->engine) <= w->polled_at)
			housekeep(w, hk_now(w), by_proxy);
	} else if (++w->idle_polls % HK_IDLE_CLOCK == 0) {
		idle(w, by_proxy);
	}
	return frames;
}

bool hk_worker_broken(struct hk_worker *w)
{
	if (HK_LIKELY(!atomic_load_explicit(&w->lock.broken, memory_order_acquire)))
		return false;
	if (!w->broken_reported && w->cfg.lost) {
		w->broken_reported = true;
		w->cfg.lost(w->cfg.lost_arg, HK_PEER_NONE, HK_DISCONNECT_NONE, w->broken_text);
	}
	return true;
}

unsigned hk_worker_progress(struct hk_worker *w)
{
	unsigned done = 0;

	hk_biased_enter(&w->lock);
	atomic_store_explicit(&w->progress_calls,
			      atomic_load_explicit(&w->progress_calls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (HK_UNLIKELY(hk_worker_broken(w))) {
		hk_biased_leave(&w->lock);
		return 0;
	}
	if (HK_UNLIKELY(w->bundle != NULL))
		hk_bundle_continue(w);
	if (HK_UNLIKELY(hk_peers_listed(w, HK_LIST_ENDED)))
		hk_peers_forget_ended(w);
	/* reordered messages may wait alone: the RMA proxy may have emptied the rx backlog */
	if (w->gather++ == 0 && HK_UNLIKELY(!hk_rx_backlog_empty(&w->rx_backlog) ||
					    hk_peers_listed(w, HK_LIST_REORDER)))
		done += backlog_deliver(w);
	if (HK_UNLIKELY(w->puts_acked != NULL))
		hk_puts_acked(w);
	done += hk_rx_poll(w, false);
	if (HK_UNLIKELY(w->completions.head != NULL)) {
		hk_rma_report(w);
		done++;
	}
	if (--w->gather == 0 && w->tx_waiting)
		hk_txqs_flush(w);
	hk_biased_leave(&w->lock);
	return done;
}
