/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/switch.c: frames between ports and pipes. What it is for, and whom it trusts, stands in switch.h.
 */
#include "host/switch_parts.h"
#include "port/bell.h"
#include "wire/wire.h"

#include <string.h>

#include <rte_cycles.h>

#define BURST 32

/* ---- from the ports -------------------------------------------------------------------------- */

/* The slot that the frame is for, or HK_CTL_MAX_SLOTS. Nothing but the address is looked at: the rest is
 * the rank's to check. */
static unsigned slot_of(struct hk_switch *sw, const struct rte_mbuf *m)
{
	uint32_t key, endpoint;

	if (!hk_wire_address(rte_pktmbuf_mtod(m, const void *), m->data_len, &key, &endpoint))
		return HK_CTL_MAX_SLOTS;
	for (unsigned i = 0, s = sw->last; i < sw->slots; i++, s = s + 1 < sw->slots ? s + 1 : 0) {
		const struct hk_switch_entry *slot = &sw->slot[s];

		if (slot->used && !slot->old && slot->s.endpoint == endpoint &&
		    slot->s.job_key == key) {
			sw->last = s;
			return s;
		}
	}
	return HK_CTL_MAX_SLOTS;
}

static void give(struct hk_switch *sw, unsigned slot, unsigned wire, struct rte_mbuf **m,
		 unsigned n)
{
	struct hk_pipe_end *end = slot < HK_CTL_MAX_SLOTS ? sw->slot[slot].end[wire] : NULL;

	if (!end || atomic_load_explicit(&sw->bad[slot], memory_order_relaxed)) {
		for (unsigned i = 0; i < n; i++)
			rte_pktmbuf_free_seg(m[i]);
		hk_switch_count(&sw->stray, n);
		return;
	}
	const struct hk_pipe_counters *c = hk_pipe_counters(end);
	uint64_t full = c->rx_full, share = c->rx_share;

	sw->given |= UINT64_C(1) << slot;
	if (hk_pipe_give(end, m, n) != 0)
		atomic_store_explicit(&sw->bad[slot], true, memory_order_relaxed);
	full = c->rx_full - full;
	share = c->rx_share - share;
	if (HK_UNLIKELY(full + share)) {
		hk_switch_count(&sw->drops[slot].rx_full, full);
		hk_switch_count(&sw->drops[slot].rx_share, share);
		hk_switch_count(&sw->rx_lost, full + share);
	}
}

/* Rules lead a slot's frames to queue slot + 1 (host/steering.h). But anybody can send what a rule takes: whose a
 * frame is stands in the frame, and the queue only says where to look first. */
static unsigned from_port(struct hk_switch *sw, unsigned wire, unsigned queue)
{
	struct rte_mbuf *m[BURST];
	struct hk_port *port = sw->wire[wire].port;
	bool steered = queue && port->info.steered;
	unsigned got = hk_port_rx(port, (uint16_t)queue, m, BURST);
	unsigned n = 0, first = 0, of = 0, right = 0;

	if (steered && queue <= sw->slots)
		sw->last = queue - 1;
	for (unsigned i = 0; i < got; i++) {
		if (m[i]->nb_segs == 1) {
			m[n++] = m[i];
		} else { /* longer than any frame of ours */
			rte_pktmbuf_free(m[i]);
			hk_switch_count(&sw->stray, 1);
		}
	}
	for (unsigned i = 0; i < n; i++) {
		unsigned slot = slot_of(sw, m[i]);

		right += slot + 1 == queue;
		if (i > first && slot != of) {
			give(sw, of, wire, m + first, i - first);
			first = i;
		}
		of = slot;
	}
	if (n) {
		give(sw, of, wire, m + first, n - first);
		hk_switch_count(&sw->rx_frames, n);
		if (steered) {
			hk_switch_count(&sw->steered, right);
			hk_switch_count(&sw->misled, n - right);
		}
	}
	return got;
}

/* ---- to the ports ---------------------------------------------------------------------------- */

/* An mbuf of ours for a rank's frame: it points to the frame if the driver copies at once, and holds a copy
 * otherwise. The rank's own mbuf no driver ever sees. */
static struct rte_mbuf *shadow(struct hk_switch *sw, const struct hk_switch_wire *wire,
			       const struct hk_pipe_frame *f)
{
	struct rte_mbuf *m;

	if (wire->port->info.copies_at_tx && !wire->port->faults) {
		m = rte_mbuf_raw_alloc(sw->shadows);
		if (m) {
			m->buf_addr = f->bytes;
			m->buf_len = f->len;
			m->data_off = 0;
		}
	} else {
		m = rte_pktmbuf_alloc(wire->copies);
		if (m && f->len > rte_pktmbuf_tailroom(m)) {
			rte_pktmbuf_free_seg(m);
			m = NULL;
		}
		if (m)
			memcpy(rte_pktmbuf_mtod(m, char *), f->bytes, f->len);
	}
	if (m)
		m->data_len = m->pkt_len = f->len;
	return m;
}

static unsigned from_slot(struct hk_switch *sw, unsigned slot, unsigned wire)
{
	struct hk_pipe_end *end = sw->slot[slot].end[wire];
	const struct hk_switch_wire *w = &sw->wire[wire];
	struct hk_pipe_frame f[BURST];
	struct rte_mbuf *m[BURST];
	int n = hk_pipe_take(end, f, BURST);
	unsigned k = 0;

	if (n == 0)
		return 0;
	if (n < 0) {
		atomic_store_explicit(&sw->bad[slot], true, memory_order_relaxed);
		return 0;
	}
	for (int i = 0; i < n; i++) {
		if (f[i].len < HK_ETH_HLEN || f[i].len > w->port->info.frame_max) {
			atomic_store_explicit(&sw->bad[slot], true, memory_order_relaxed);
			continue;
		}
		if ((m[k] = shadow(sw, w, &f[i])))
			k++;
	}
	unsigned sent = hk_port_tx(w->port, (uint16_t)(slot % w->queues), m, (uint16_t)k);

	/* what it does not take is lost; whoever sent it sends it again */
	for (unsigned i = sent; i < k; i++)
		rte_pktmbuf_free_seg(m[i]);
	hk_pipe_sent(end, (unsigned)n);
	/* It may sleep as we do. The last frame left after the time that was noted, and this one before now,
	 * however long others had the core meanwhile. */
	if (rte_rdtsc() - sw->tx_at[wire] > sw->fresh)
		(void)hk_bell_ring_wire(w->port->id, HK_BELL_SWITCH);
	sw->tx_at[wire] = sw->now;
	hk_switch_count(&sw->tx_frames, sent);
	if (HK_UNLIKELY(sent < (unsigned)n)) {
		hk_switch_count(&sw->drops[slot].tx_lost, (unsigned)n - sent);
		hk_switch_count(&sw->tx_lost, (unsigned)n - sent);
	}
	return (unsigned)n;
}

/* ---- both ------------------------------------------------------------------------------------- */

unsigned hk_switch_round(struct hk_switch *sw)
{
	unsigned frames = 0;

	for (unsigned w = 0; w < sw->wires; w++) {
		if (!sw->wire[w].port)
			continue;
		for (unsigned q = 0; q < sw->wire[w].queues; q++)
			frames += from_port(sw, w, q);
		for (unsigned s = 0; s < sw->slots; s++)
			if (sw->slot[s].end[w] &&
			    !atomic_load_explicit(&sw->bad[s], memory_order_relaxed))
				frames += from_slot(sw, s, w);
	}
	return frames;
}
