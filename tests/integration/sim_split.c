/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/integration/sim_split.c: simulates NICs that split frames, for machines without one.
 *
 * It is loaded into hk_router by LD_PRELOAD, and replaces functions of DPDK. Each device then
 * reports the offload RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT. The queue set-up stores the requested
 * segments, and the receive function copies the header of each frame into a buffer of the first
 * segment's pool. It overwrites the header in the original buffer, so that a test notices if the
 * router reads it there.
 *
 * With HK_SIM_SPLIT=refused the device reports the offload, but the queue set-up fails.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>

#define EXPORT     __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static struct nic {
	eth_rx_burst_t rx;
	void *rxq;
	struct rte_eth_rxseg_split seg[2];
} nics[RTE_MAX_ETHPORTS];

EXPORT int rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
	int rc = REAL(rte_eth_dev_info_get)(port, info);

	info->rx_offload_capa |= RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT;
	info->rx_seg_capa = (struct rte_eth_rxseg_capa){.multi_pools = 1, .max_nseg = 2};
	return rc;
}

EXPORT int rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx,
				 const struct rte_eth_conf *conf)
{
	struct rte_eth_conf copy = *conf;

	copy.rxmode.offloads &= ~RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT;
	return REAL(rte_eth_dev_configure)(port, rx, tx, &copy);
}

EXPORT int rte_eth_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t n, unsigned socket,
				  const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
	struct rte_eth_rxconf copy = *conf;
	const char *how = getenv("HK_SIM_SPLIT");

	if (conf->rx_nseg == 2 && (conf->offloads & RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT)) {
		if (pool || (how && strcmp(how, "refused") == 0))
			return -EINVAL;
		nics[port].seg[0] = conf->rx_seg[0].split;
		nics[port].seg[1] = conf->rx_seg[1].split;
		pool = nics[port].seg[1].mp;
		copy.offloads &= ~RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT;
		copy.rx_nseg = 0;
		copy.rx_seg = NULL;
	}
	return REAL(rte_eth_rx_queue_setup)(port, queue, n, socket, &copy, pool);
}

static uint16_t receive(void *rxq, struct rte_mbuf **m, uint16_t n)
{
	struct nic *nic = nics;

	while (nic->rxq != rxq)
		nic++;
	uint16_t got = nic->rx(rxq, m, n);

	for (uint16_t i = 0; i < got; i++) {
		struct rte_mbuf *rest = m[i], *first = rte_pktmbuf_alloc(nic->seg[0].mp);
		uint16_t bytes = RTE_MIN(nic->seg[0].length, rest->data_len);

		if (!first)
			abort();
		memcpy(rte_pktmbuf_append(first, bytes), rte_pktmbuf_mtod(rest, void *), bytes);
		memset(rte_pktmbuf_mtod(rest, void *), 0xee, bytes);
		first->pkt_len = rest->pkt_len;
		first->port = rest->port;
		if (rest->data_len > bytes) {
			rte_pktmbuf_adj(rest, bytes);
			first->next = rest;
			first->nb_segs = (uint16_t)(rest->nb_segs + 1);
		} else {
			rte_pktmbuf_free(rest);
		}
		m[i] = first;
	}
	return got;
}

EXPORT int rte_eth_dev_start(uint16_t port)
{
	int rc = REAL(rte_eth_dev_start)(port);

	if (rc == 0 && nics[port].seg[0].mp) {
		nics[port].rxq = rte_eth_fp_ops[port].rxq.data[0];
		nics[port].rx = rte_eth_fp_ops[port].rx_pkt_burst;
		rte_eth_fp_ops[port].rx_pkt_burst = receive;
	}
	return rc;
}
