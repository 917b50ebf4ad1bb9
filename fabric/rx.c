/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/rx.c: progress. Frames in, handlers called, acks and resends out.
 */
#include "fabric/internal.h"

#include <rte_cycles.h>

/* How many empty polls go by before the timers are looked at. */
#define HK_IDLE_CLOCK 8

static void free_rx(struct rte_mbuf **bufs, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free_seg(bufs[i]);
}

static void call_handler(struct hk_fabric *f, hk_peer p, uint8_t am, struct rte_mbuf **bufs,
			 unsigned n)
{
	struct hk_iov iov[HK_WIRE_MAX_FRAGS];

	if (HK_UNLIKELY(!f->am[am].fn)) {
		f->n.unknown_am++;
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		/* parsed before: `len` lies within the frame */
		const char *hdr = rte_pktmbuf_mtod(bufs[i], const char *) + HK_ETH_HLEN;
		uint16_t len;

		memcpy(&len, hdr + offsetof(struct hk_wire_hdr, len), sizeof(len));
		iov[i] = (struct hk_iov){hdr + HK_WIRE_HLEN, rte_le_to_cpu_16(len)};
	}
	f->n.am_delivered++;
	f->am[am].fn(f->am[am].arg, p, am, iov, n);
}

/* ---- what the helper thread kept ----------------------------------------------------------- */

static void keep(struct hk_fabric *f, const struct hk_rx *rx)
{
	struct hk_kept *k = &f->kept[(f->kept_head + f->kept_count) % f->cfg.rx_keep];

	k->peer = rx->peer;
	k->am = rx->am;
	k->count = rx->count;
	for (unsigned i = 0; i < rx->count; i++)
		k->bufs[i] = (struct rte_mbuf *)(uintptr_t)rx->tokens[i];
	f->kept_count++;
	f->kept_frames += rx->count;
	f->n.async_kept++;
	hk_engine_rx_held(f->engine, rx->peer, rx->count);
}

static unsigned deliver_kept(struct hk_fabric *f)
{
	unsigned delivered = 0;

	while (f->kept_count) {
		struct hk_kept k = f->kept[f->kept_head];

		f->kept_head = (f->kept_head + 1) % f->cfg.rx_keep;
		f->kept_count--;
		f->kept_frames -= k.count;
		hk_engine_rx_held(f->engine, k.peer, -(int)k.count);
		call_handler(f, k.peer, k.am, k.bufs, k.count);
		free_rx(k.bufs, k.count);
		delivered++;
	}
	return delivered;
}

/* ---- one frame ----------------------------------------------------------------------------- */

static unsigned frame_in(struct hk_fabric *f, uint16_t lane, struct rte_mbuf *m, uint64_t now,
			 bool keep_it)
{
	struct hk_rx rx;

	hk_engine_input(f->engine, rte_pktmbuf_mtod(m, void *), m->data_len, (uintptr_t)m, now,
			&rx);
	if (HK_UNLIKELY(rx.new_peer))
		hk_peer_learn(f, rx.peer, rx.f.src_mac, lane);
	switch (rx.verdict) {
	case HK_RX_DELIVER: {
		struct rte_mbuf *bufs[HK_WIRE_MAX_FRAGS];

		if (HK_UNLIKELY(keep_it)) {
			keep(f, &rx);
			return 0;
		}
		for (unsigned i = 0; i < rx.count; i++)
			bufs[i] = (struct rte_mbuf *)(uintptr_t)rx.tokens[i];
		call_handler(f, rx.peer, rx.am, bufs, rx.count);
		free_rx(bufs, rx.count);
		return 1;
	}
	case HK_RX_HOLD:
		return 0;
	case HK_RX_DROP:
	case HK_RX_CONTROL:
	case HK_RX_PUT:
		rte_pktmbuf_free_seg(m);
		return 0;
	}
	return 0;
}

/* Room left to keep messages of a whole burst? */
static bool can_keep(const struct hk_fabric *f)
{
	return f->kept_count + HK_RX_BURST <= f->cfg.rx_keep &&
	       f->kept_frames + HK_RX_BURST <= f->cfg.rx_keep;
}

/* One round over all ports. With @keep_it messages are kept for later instead of delivered. */
unsigned hk_rx_poll(struct hk_fabric *f, bool keep_it)
{
	struct rte_mbuf *m[HK_RX_BURST];
	unsigned delivered = 0, frames = 0;

	for (uint16_t l = 0; l < f->lanes; l++) {
		if (HK_UNLIKELY(keep_it && !can_keep(f)))
			break;
		uint16_t n = hk_port_rx(f->lane[l]->port, 0, m, HK_RX_BURST);

		if (n == 0)
			continue;
		uint64_t now = hk_now(f);

		frames += n;
		for (uint16_t i = 0; i < n; i++) {
			if (i + 1 < n)
				rte_prefetch0(rte_pktmbuf_mtod(m[i + 1], void *));
			/* an answer to a stray needs its addresses, so it leaves before the next */
			struct rte_ether_hdr eth = *rte_pktmbuf_mtod(m[i], struct rte_ether_hdr *);

			delivered += frame_in(f, l, m[i], now, keep_it);
			if (HK_UNLIKELY(hk_engine_deadline(f->engine) == 0))
				hk_tx_poll(f, now, &eth, l);
		}
	}
	if (frames) {
		uint64_t now = hk_now(f);

		f->idle = 0;
		hk_tx_reap(f);
		hk_tx_backlog(f, now);
		hk_tx_poll(f, now, NULL, 0);
	} else if (++f->idle % HK_IDLE_CLOCK == 0) {
		uint64_t now = hk_now(f);

		hk_tx_poll(f, now, NULL, 0);
		hk_tx_reap(f);
		if (f->backlog != HK_PEER_NONE)
			hk_tx_backlog(f, now);
		hk_fabric_verdicts(f);
	}
	return delivered;
}

unsigned hk_fabric_progress(struct hk_fabric *f)
{
	unsigned delivered = 0;

	hk_biased_enter(&f->lock);
	atomic_store_explicit(&f->app_ticks,
			      atomic_load_explicit(&f->app_ticks, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	if (f->gather++ == 0 && HK_UNLIKELY(f->kept_count))
		delivered += deliver_kept(f);
	delivered += hk_rx_poll(f, false);
	if (--f->gather == 0)
		hk_tx_flush(f);
	hk_biased_leave(&f->lock);
	return delivered;
}
