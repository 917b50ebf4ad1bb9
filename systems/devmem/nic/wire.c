/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/wire.c: ports and loads.
 */
#include "devmem/nic/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <rte_cycles.h>

#define BUFFERS 4096 /* more than a NIC holds: bursts that wait for next hops, and one in hand */

static int open_load(struct hk_nic_wire *w, struct hk_error *err)
{
	struct hk_table_prefix *t = NULL;
	int rc = w->o.prefixes ? hk_table_make(1, w->o.prefixes, 1, &t, err) : 0;

	if (rc)
		return rc;
	w->frame = malloc(sizeof(*w->frame) * HK_LOAD_FRAMES);
	if (w->frame)
		hk_load_frames(w->frame, w->o.networks, t, w->o.prefixes);
	for (unsigned i = 0; w->frame && i < HK_LOAD_FRAMES; i++)
		memcpy(w->frame[i], w->o.mac, 6);
	free(t);
	uint64_t batches = HK_MAX(w->o.expect / HK_LOAD_BATCH, UINT64_C(1));
	if (!w->frame || !(w->o.single ? hk_load_delays_begin(&w->delays, HK_MAX(w->o.expect, 1u))
				       : hk_load_rates_begin(&w->rates, (unsigned)batches)))
		return hk_error_set(err, -ENOMEM,
				    "no memory for the load; fix: expect fewer frames");
	char name[24];
	snprintf(name, sizeof(name), "hk_nic_wire%u", w->o.id);
	return hk_pool_create(name, BUFFERS, HK_NIC_FRAME_MAX, &w->pool, err);
}

int hk_nic_wire_open(const struct hk_nic_wire_options *o, struct hk_nic_wire *w,
		     struct hk_error *err)
{
	*w = (struct hk_nic_wire){.o = *o};
	if (!o->port)
		return open_load(w, err);
	int rc = hk_port_open(o->port, BUFFERS, NULL, (int)o->wait_ms, &w->port, err);
	if (rc == 0)
		w->pool = w->port->pool;
	return rc;
}

void hk_nic_wire_close(struct hk_nic_wire *w)
{
	if (!w->port)
		hk_pool_free(w->pool);
	hk_port_close(w->port);
	free(w->frame);
	free(w->rates.rate);
	free(w->delays.ticks);
	w->pool = NULL;
	w->port = NULL;
	w->frame = NULL;
}

unsigned hk_nic_wire_rx(struct hk_nic_wire *w, struct rte_mbuf **m, unsigned n)
{
	uint64_t now = 0;

	if (w->port)
		return hk_port_rx(w->port, 0, m, (uint16_t)n);
	n = (unsigned)HK_MIN((uint64_t)n, w->o.frames - w->given);
	if (w->o.single) {
		n = HK_MIN(n, 1u);
		now = rte_rdtsc();
	}
	if (!n || rte_pktmbuf_alloc_bulk(w->pool, m, n))
		return 0;
	for (unsigned i = 0; i < n; i++) {
		uint8_t *f = rte_pktmbuf_mtod(m[i], uint8_t *);
		memcpy(f, w->frame[w->given++ % HK_LOAD_FRAMES], HK_LOAD_FRAME);
		m[i]->data_len = HK_LOAD_FRAME;
		m[i]->pkt_len = HK_LOAD_FRAME;
		if (now)
			hk_load_stamp(f, now);
	}
	return n;
}

static void tx_port(struct hk_nic_wire *w, const uint8_t *const *frame, const uint32_t *length,
		    unsigned n)
{
	struct rte_mbuf *m[HK_NIC_BURST];
	unsigned made = 0, sent = 0;

	for (; made < n && (m[made] = rte_pktmbuf_alloc(w->pool)) != NULL; made++)
		memcpy(rte_pktmbuf_append(m[made], (uint16_t)length[made]), frame[made],
		       length[made]);
	if (made)
		sent = hk_port_tx(w->port, 0, m, (uint16_t)made);
	rte_pktmbuf_free_bulk(m + sent, made - sent);
	w->tx_full += n - sent;
	w->taken += sent;
}

void hk_nic_wire_tx(struct hk_nic_wire *w, const uint8_t *const *frame, const uint32_t *length,
		    unsigned n)
{
	if (w->port) {
		tx_port(w, frame, length, n);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		memcpy(w->sink, frame[i], length[i]);
		if (w->o.single && length[i] == HK_LOAD_FRAME)
			hk_load_delays_add(&w->delays, rte_rdtsc() - hk_load_stamped(w->sink));
		/* the next frame is another write of the same place */
		__asm__ volatile("" : : "r"(w->sink) : "memory");
	}
	w->taken += n;
	if (!w->o.single)
		hk_load_rates_add(&w->rates, n);
}

void hk_nic_wire_stats(struct hk_nic_wire *w, FILE *out)
{
	fprintf(out, "\"received\": %" PRIu64 ", \"sent\": %" PRIu64 ", \"tx_full\": %" PRIu64,
		w->port ? w->port->rx_frames : w->given, w->taken, w->tx_full);
	if (w->delays.ticks) {
		fprintf(out, ", \"delay\": {");
		hk_load_delays_end(&w->delays, (double)hk_eal_tsc_hz(), out);
		fprintf(out, "}");
	} else if (w->rates.rate) {
		fprintf(out, ", \"rate\": {");
		hk_load_rates_end(&w->rates, out);
		fprintf(out, "}");
	}
}
