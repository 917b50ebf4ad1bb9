/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/split.h: receiving a frame's first bytes into one pool and the rest into another, by the NIC (DPDK's
 * RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT, by length).
 */
#ifndef HK_PORT_SPLIT_H
#define HK_PORT_SPLIT_H

#include "port/port.h"

#include <rte_ethdev.h>

/* Why a device cannot split at @bytes into two pools, or NULL if its driver says it can. */
const char *hk_split_refusal(const struct rte_eth_dev_info *dev, unsigned bytes);

/* Offloads of the port and its queue that splitting takes. */
uint64_t hk_split_offloads(const struct rte_eth_dev_info *dev);

/* Fills in what rte_eth_rx_queue_setup() wants to know, with @seg, which must live as long as the call; its own pool
 * is then NULL. */
void hk_split_queue(struct rte_eth_rxconf *q, union rte_eth_rxseg seg[2], struct rte_mempool *first,
		    unsigned bytes, struct rte_mempool *rest);

/* hk_port_open() with a split, where the device does it: of each frame the first @bytes (a multiple of 64)
 * come in a buffer of @first, which stays the caller's, and the rest, if there is any, in one of @rest behind it. Where it
 * does not, frames come whole into @rest, and info.no_split says why. */
int hk_port_open_split(const char *spec, struct rte_mempool *first, unsigned bytes,
		       struct rte_mempool *rest, int timeout_ms, struct hk_port **port,
		       struct hk_error *err);

#endif
