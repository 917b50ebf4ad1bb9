/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/priority.c: adds priority tags to small frames, and removes them.
 */
#include "port/priority.h"
#include "port/internal.h"

#include <errno.h>
#include <string.h>

#include <rte_ether.h>

#define MACS  (2 * RTE_ETHER_ADDR_LEN)
#define TAG   4u /* bytes: EtherType 0x8100, and 3 bits of priority, 1 bit, 12 bits of VLAN */
#define BURST 32u
/* Of a buffer for a copy. */
#define DATA_ROOM (RTE_PKTMBUF_HEADROOM + HK_PORT_SMALL_FRAME + 64)

int hk_priority_attach(struct hk_port *port, unsigned priority, struct hk_error *err)
{
	/* the device holds copies in its ring until they are sent */
	unsigned n = port->info.queues * (port->info.rx_ring + 2 * BURST);
	char name[RTE_MEMPOOL_NAMESIZE];

	hk_priority_detach(port);
	snprintf(name, sizeof(name), "hk_priority_%u", port->id);
	port->copies = hk_pool_new(name, n, BURST, 0, DATA_ROOM, NULL);
	if (!port->copies)
		return hk_error_set(err, -ENOMEM,
				    "port %s: no memory for %u copies with a tag; fix: give DPDK "
				    "more memory, or leave out priority=%u",
				    port->info.spec, n, priority);
	port->info.priority = (uint8_t)priority;
	port->wrapped = true;
	return 0;
}

void hk_priority_detach(struct hk_port *port)
{
	if (!port->copies)
		return;
	if (!hk_pools_left())
		hk_pool_delete(port->copies);
	port->copies = NULL;
	port->info.priority = 0;
	port->wrapped = port->faults || port->pipe;
}

/* A copy of @m with a tag; @m itself without a free buffer. */
static struct rte_mbuf *tagged(struct hk_port *port, struct rte_mbuf *m)
{
	uint32_t len = rte_pktmbuf_pkt_len(m);
	struct rte_mbuf *copy = rte_pktmbuf_alloc(port->copies);

	if (HK_UNLIKELY(!copy))
		return m;
	uint8_t *to = (uint8_t *)rte_pktmbuf_append(copy, (uint16_t)(len + TAG));

	if (HK_UNLIKELY(!to || len < MACS)) {
		rte_pktmbuf_free(copy);
		return m;
	}
	/* the payload may lie in a second segment */
	const uint8_t *from = rte_pktmbuf_read(m, 0, len, to + TAG);

	if (from != to + TAG)
		memcpy(to + TAG, from, len);
	memcpy(to, to + TAG, MACS);
	to[MACS] = RTE_ETHER_TYPE_VLAN >> 8;
	to[MACS + 1] = RTE_ETHER_TYPE_VLAN & 0xff;
	to[MACS + 2] = (uint8_t)(port->info.priority << 5);
	to[MACS + 3] = 0;
	return copy;
}

static void remove_tag(struct rte_mbuf *m)
{
	uint8_t *f = rte_pktmbuf_mtod(m, uint8_t *);

	if (rte_pktmbuf_data_len(m) < RTE_ETHER_HDR_LEN + TAG ||
	    f[MACS] != RTE_ETHER_TYPE_VLAN >> 8 || f[MACS + 1] != (RTE_ETHER_TYPE_VLAN & 0xff))
		return;
	if (f[MACS + 2] & 0x0f || f[MACS + 3]) /* another VLAN's */
		return;
	memmove(f + TAG, f, MACS);
	(void)rte_pktmbuf_adj(m, TAG);
}

uint16_t hk_priority_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	uint16_t got = port->faults ? hk_faults_rx(port, queue, m, n)
				    : rte_eth_rx_burst(port->id, queue, m, n);

	for (uint16_t i = 0; i < got; i++)
		remove_tag(m[i]);
	return got;
}

static uint16_t send_burst(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	struct rte_mbuf *out[BURST];

	for (uint16_t i = 0; i < n; i++)
		out[i] = rte_pktmbuf_pkt_len(m[i]) < HK_PORT_SMALL_FRAME ? tagged(port, m[i])
									 : m[i];
	uint16_t sent = port->faults ? hk_faults_tx(port, queue, out, n)
			: n > 0      ? rte_eth_tx_burst(port->id, queue, out, n)
				     : 0;

	for (uint16_t i = 0; i < n; i++) {
		if (out[i] != m[i])
			rte_pktmbuf_free(i < sent ? m[i] : out[i]);
	}
	return sent;
}

uint16_t hk_priority_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n)
{
	uint16_t sent = 0;

	while (sent < n) {
		uint16_t some = (uint16_t)HK_MIN(n - sent, (int)BURST);
		uint16_t taken = send_burst(port, queue, m + sent, some);

		sent += taken;
		if (taken < some)
			break;
	}
	return sent;
}
