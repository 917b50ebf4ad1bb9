/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-worker/port_sim.c: see port_sim.h.
 *
 * Frames of the simulator have only headers. But a short frame of a worker may be a bundle or a
 * request, whose contents matter. So this file keeps the first KEPT bytes of each frame beside it.
 * The rest is payload of long messages, and arrives as whatever the buffer contains.
 */
#include "sim-worker/port_sim.h"
#include "port/priority.h"

#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>

#define PORT 0u    /* DPDK's number; no other port exists here */
#define KEPT 1280u /* bytes: a bundle is shorter (src/worker/bundles.c) */
_Static_assert(KEPT >= HK_PORT_SMALL_FRAME, "bundles are whole");

static struct kept {
	uint8_t *bytes; /* by the number of the simulator's frame */
	uint32_t len, cap;
} * kept;
static uint32_t kept_len, kept_cap;

static void keep(uint32_t frame, struct rte_mbuf *m)
{
	while (kept_len <= frame) {
		kept = sim_grow(kept, kept_len, &kept_cap, sizeof(*kept));
		kept[kept_len++] = (struct kept){0};
	}
	struct kept *k = &kept[frame];

	k->len = HK_MIN(rte_pktmbuf_pkt_len(m), KEPT);
	/* a long frame's payload says nothing beyond its first bytes */
	if (rte_pktmbuf_pkt_len(m) > KEPT)
		k->len = 256;
	if (k->cap < k->len) {
		free(k->bytes);
		k->cap = k->len > 256 ? KEPT : 256;
		k->bytes = sim_alloc(k->cap);
	}
	const void *from = rte_pktmbuf_read(m, 0, k->len, k->bytes);

	if (from != k->bytes)
		memcpy(k->bytes, from, k->len);
}

uint64_t sim_tsc_hz(void)
{
	return HK_SEC;
}

void sim_mac(uint32_t id, uint8_t mac[6])
{
	const uint8_t address[6] = {2, 0, 0, (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};

	memcpy(mac, address, 6);
}

static uint32_t host_of(const uint8_t *mac)
{
	return (uint32_t)mac[3] << 16 | (uint32_t)mac[4] << 8 | mac[5];
}

/* ---- in ------------------------------------------------------------------------------------- */

bool sim_nic_arrive(struct sim_nic *nic, uint32_t frame)
{
	const struct frame *f = &nic->hosts->net->frames.frame[frame];
	struct rte_mbuf *m = rte_pktmbuf_alloc(nic->pool);

	if (!m)
		return false;
	memcpy(rte_pktmbuf_append(m, f->len), kept[frame].bytes, kept[frame].len);
	if (nic->head)
		nic->tail->next = m;
	else
		nic->head = m;
	nic->tail = m;
	return true;
}

static uint16_t receive(void *queue, struct rte_mbuf **m, uint16_t n)
{
	struct sim_nic *nic = queue;
	uint16_t got = 0;

	while (got < n && nic->head) {
		struct rte_mbuf *first = nic->head;

		nic->head = first->next;
		first->next = NULL;
		m[got++] = first;
	}
	return got;
}

/* ---- out ------------------------------------------------------------------------------------ */

static void count(struct host *x, const uint8_t *bytes)
{
	const hk_wire_hdr_in_frame *h = (const void *)(bytes + HK_ETH_HLEN);

	if (h->type != HK_WIRE_DATA && h->type != HK_WIRE_PUT)
		x->n.controls++;
	else if (h->flags & HK_WIRE_F_RESENT)
		x->n.resends++;
	else
		x->n.data++;
}

static uint16_t transmit(void *queue, struct rte_mbuf **m, uint16_t n)
{
	struct sim_nic *nic = queue;
	struct hosts *h = nic->hosts;
	struct net *net = h->net;
	struct host *x = &h->host[nic->host];
	uint32_t out = net_nic(net, nic->host, 0);
	uint16_t sent = 0;

	for (; sent < n && net->port[out].frames < h->c.nic_ring; sent++) {
		uint32_t len = rte_pktmbuf_pkt_len(m[sent]), i = frame_new(&net->frames);
		struct frame *f = &net->frames.frame[i];

		keep(i, m[sent]);
		uint8_t *bytes = kept[i].bytes;

		sim_mac(nic->host, bytes + 6);
		*f = (struct frame){.from = nic->host,
				    .to = host_of(bytes),
				    .len = (uint16_t)len,
				    .flow = nic->host * 0x9e3779b9u ^ host_of(bytes),
				    .class = len < HK_PORT_SMALL_FRAME,
				    .bulk = len >= HK_PORT_SMALL_FRAME};
		count(x, bytes);
		rte_pktmbuf_free(m[sent]);
		net_enqueue(net, out, i);
	}
	nic->full |= sent < n;
	return sent;
}

void sim_port_open(struct hk_port *port, struct sim_nic *nics, uint32_t hosts, uint16_t frame_max)
{
	struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[PORT];
	void **queues = sim_alloc(hosts * sizeof(*queues)),
	     **none = sim_alloc(hosts * sizeof(*none));

	for (uint32_t i = 0; i < hosts; i++)
		queues[i] = &nics[i];
	ops->rx_pkt_burst = receive;
	ops->tx_pkt_burst = transmit;
	ops->rxq.data = ops->txq.data = queues;
	ops->rxq.clbk = ops->txq.clbk = none;
	*port = (struct hk_port){
		.id = PORT,
		.info = {.spec = "sim",
			 .driver = "sim",
			 .frame_max = frame_max,
			 .queues = (uint16_t)hosts,
			 .rx_ring = 64,
			 .tx_multi_seg = true,
			 .copies_at_tx = true},
	};
}
