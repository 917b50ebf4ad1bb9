/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/split.c: whether a device can split frames, and the configuration for it.
 */
#include "port/split.h"

#include <string.h>

const char *hk_split_refusal(const struct rte_eth_dev_info *dev, unsigned bytes)
{
	const struct rte_eth_rxseg_capa *can = &dev->rx_seg_capa;

	if (!((dev->rx_offload_capa | dev->rx_queue_offload_capa) &
	      RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT))
		return "the driver does not offer it";
	if (can->max_nseg < 2)
		return "the device splits into one piece alone";
	if (!can->multi_pools)
		return "the device takes both pieces from one pool";
	if (!(dev->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS))
		return "the device does not send from several buffers";
	if (bytes == 0 || bytes % 64)
		return "the split is not at a multiple of 64 bytes";
	return NULL;
}

uint64_t hk_split_offloads(const struct rte_eth_dev_info *dev)
{
	/* some drivers also need the flag that a frame may lie in several buffers */
	return RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT |
	       (dev->rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER);
}

void hk_split_queue(struct rte_eth_rxconf *q, union rte_eth_rxseg seg[2], struct rte_mempool *first,
		    unsigned bytes, struct rte_mempool *rest)
{
	memset(seg, 0, 2 * sizeof(*seg));
	seg[0].split.mp = first;
	seg[0].split.length = (uint16_t)bytes;
	seg[1].split.mp = rest; /* length 0: as many bytes as a buffer has */
	q->rx_seg = seg;
	q->rx_nseg = 2;
}
