/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/switch.c: moves frames between ports and pipes. switch.h explains purpose and trust.
 */
#include "hostd/switch_parts.h"
#include "port/wakeup.h"
#include "wire/wire.h"

#include <string.h>

#include <rte_cycles.h>

#define BURST 32

/* ---- from the ports -------------------------------------------------------------------------- */

/* The slot that the frame is for, or HK_CTL_MAX_SLOTS. Reads only the address: the rank checks all
 * other fields. */
static unsigned slot_of(struct hk_switch *sw, const struct rte_mbuf *m)
{
	uint32_t key, endpoint;

	if (!hk_wire_frame_address(rte_pktmbuf_mtod(m, const void *), m->data_len, &key, &endpoint))
		return HK_CTL_MAX_SLOTS;
	for (unsigned i = 0, s = sw->last_slot; i < sw->slots;
	     i++, s = s + 1 < sw->slots ? s + 1 : 0) {
		const struct hk_switch_entry *slot = &sw->slot[s];

		if (slot->used && !slot->replaced && slot->config.endpoint == endpoint &&
		    slot->config.job_key == key) {
			sw->last_slot = s;
			return s;
		}
	}
	return HK_CTL_MAX_SLOTS;
}

static void deliver(struct hk_switch *sw, unsigned slot, unsigned wire, struct rte_mbuf **m,
		    unsigned n)
{
	struct hk_pipe_end *end = slot < HK_CTL_MAX_SLOTS ? sw->slot[slot].end[wire] : NULL;

	if (!end || atomic_load_explicit(&sw->corrupt[slot], memory_order_relaxed)) {
		for (unsigned i = 0; i < n; i++)
			rte_pktmbuf_free_seg(m[i]);
		hk_switch_count(&sw->n.rx_no_rank, n);
		return;
	}
	const struct hk_pipe_counters *c = hk_pipe_counters(end);
	uint64_t full = c->rx_dropped_full, share = c->rx_dropped_quota;

	sw->untaken |= UINT64_C(1) << slot;
	if (hk_pipe_give(end, m, n) != 0)
		atomic_store_explicit(&sw->corrupt[slot], true, memory_order_relaxed);
	full = c->rx_dropped_full - full;
	share = c->rx_dropped_quota - share;
	if (HK_UNLIKELY(full + share)) {
		hk_switch_count(&sw->pipes[slot].rx_dropped_full, full);
		hk_switch_count(&sw->pipes[slot].rx_dropped_quota, share);
		hk_switch_count(&sw->n.rx_dropped, full + share);
	}
}

/* Steering puts a slot's frames on queue slot + 1 (hostd/steering.h). Any sender can make a frame
 * that matches a rule, so the address in the frame decides, and the queue is only the first guess.
 */
static unsigned from_port(struct hk_switch *sw, unsigned wire, unsigned queue)
{
	struct rte_mbuf *m[BURST];
	struct hk_port *port = sw->wire[wire].port;
	bool steered = queue && port->info.steered;
	unsigned got = hk_port_rx(port, (uint16_t)queue, m, BURST);
	unsigned n = 0, first = 0, last_slot = 0, right = 0;

	if (steered && queue <= sw->slots)
		sw->last_slot = queue - 1;
	for (unsigned i = 0; i < got; i++) {
		if (m[i]->nb_segs == 1) {
			m[n++] = m[i];
		} else { /* longer than any of our frames */
			rte_pktmbuf_free(m[i]);
			hk_switch_count(&sw->n.rx_no_rank, 1);
		}
	}
	for (unsigned i = 0; i < n; i++) {
		unsigned slot = slot_of(sw, m[i]);

		right += slot + 1 == queue;
		if (i > first && slot != last_slot) {
			deliver(sw, last_slot, wire, m + first, i - first);
			first = i;
		}
		last_slot = slot;
	}
	if (n) {
		deliver(sw, last_slot, wire, m + first, n - first);
		hk_switch_count(&sw->n.rx_frames, n);
		if (steered) {
			hk_switch_count(&sw->n.rx_steered, right);
			hk_switch_count(&sw->n.rx_missteered, n - right);
		}
	}
	return got;
}

/* ---- to the ports ---------------------------------------------------------------------------- */

/* One of the switch's mbufs for a rank's frame. It points to the frame if the driver copies at
 * once, and contains a copy otherwise. A driver never gets the rank's own mbuf. */
static struct rte_mbuf *make_tx_mbuf(struct hk_switch *sw, const struct hk_switch_wire *wire,
				     const struct hk_pipe_frame *f)
{
	struct rte_mbuf *m;

	if (wire->port->info.copies_at_tx && !wire->port->faults) {
		m = rte_mbuf_raw_alloc(sw->tx_mbufs);
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
	int k = 0;

	if (n == 0)
		return 0;
	for (; k < n; k++) {
		if (f[k].len < HK_ETH_HLEN || f[k].len > w->port->info.frame_max) {
			n = -EPROTO;
			break;
		}
		if (!(m[k] = make_tx_mbuf(sw, w, &f[k])))
			break;
	}
	if (HK_UNLIKELY(n < 0)) {
		while (k > 0)
			rte_pktmbuf_free_seg(m[--k]);
		atomic_store_explicit(&sw->corrupt[slot], true, memory_order_relaxed);
		return 0;
	}
	bool may = k > 0 || w->port->wrapped;
	unsigned sent = may ? hk_port_tx(w->port, (uint16_t)(slot % w->queues), m, (uint16_t)k) : 0;

	for (int i = (int)sent; i < k; i++)
		rte_pktmbuf_free_seg(m[i]);
	hk_pipe_sent(end, sent);
	if (HK_UNLIKELY(sent < (unsigned)n)) { /* the others wait in the pipe for the next round */
		sw->tx_waits = true;
		hk_switch_count(&sw->pipes[slot].tx_full, (unsigned)n - sent);
		hk_switch_count(&sw->n.tx_full, (unsigned)n - sent);
		if (sent == 0)
			return 0;
	}
	/* The switch at the other end may sleep, as this one does. The last frame left after tx_at,
	 * and this one before now, even if other threads had the core meanwhile. */
	if (rte_rdtsc() - sw->tx_at[wire] > sw->signal_after)
		(void)hk_wakeup_signal_wire(w->port->id, HK_WAKEUP_SWITCH);
	sw->tx_at[wire] = sw->now;
	hk_switch_count(&sw->n.tx_frames, sent);
	return sent;
}

/* ---- both ------------------------------------------------------------------------------------ */

unsigned hk_switch_round(struct hk_switch *sw)
{
	unsigned frames = 0;

	sw->tx_waits = false;
	for (unsigned w = 0; w < sw->wires; w++) {
		if (!sw->wire[w].port)
			continue;
		for (unsigned q = 0; q < sw->wire[w].queues; q++)
			frames += from_port(sw, w, q);
		for (unsigned s = 0; s < sw->slots; s++)
			if (sw->slot[s].end[w] &&
			    !atomic_load_explicit(&sw->corrupt[s], memory_order_relaxed))
				frames += from_slot(sw, s, w);
	}
	return frames;
}
