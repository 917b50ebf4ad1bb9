/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/split.h: NICs that receive a frame's first bytes into one pool and the rest into another
 * (DPDK's RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT, by length).
 */
#ifndef HK_PORT_SPLIT_H
#define HK_PORT_SPLIT_H

#include "port/port.h"

#include <rte_ethdev.h>

#pragma GCC visibility push(default)

/* Returns why a device cannot split at @bytes into two pools, or NULL if its driver can. */
const char *hk_split_refusal(const struct rte_eth_dev_info *dev, unsigned bytes);

/* Returns the offloads of port and queue that a split needs. */
uint64_t hk_split_offloads(const struct rte_eth_dev_info *dev);

/* Fills in @q and @seg for rte_eth_rx_queue_setup(). @seg must be valid during that call, whose own
 * pool argument must be NULL. */
void hk_split_queue(struct rte_eth_rxconf *q, union rte_eth_rxseg seg[2], struct rte_mempool *first,
		    unsigned bytes, struct rte_mempool *rest);

/* Opens a port as hk_port_open() does, with a split if the device can do it. The first @bytes of
 * each frame (a multiple of 64) then arrive in a buffer of @first, which belongs to the caller. The
 * rest, if any, arrives in a buffer of @rest behind it. Otherwise each frame arrives in one buffer
 * of @rest, and info.split_refusal has the reason. */
int hk_port_open_split(const char *spec, struct rte_mempool *first, unsigned bytes,
		       struct rte_mempool *rest, int timeout_ms, struct hk_port **port,
		       struct hk_error *err);

#pragma GCC visibility pop

#endif
