/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/queues.c: the queues of a port: their number, rings and buffers, and which frames arrive on
 * each.
 *
 * The code never enables RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE, because callers have references to
 * frames that they sent.
 */
#include "port/internal.h"
#include "port/split.h"

#include <errno.h>

#include <rte_errno.h>

#define STEERED_RINGS 4096 /* descriptors of all receive queues of a steered port together */

int hk_queues_check(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
		    const struct hk_port_queues *q, struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	unsigned most = HK_MIN(dev->max_rx_queues, dev->max_tx_queues);
	if (q->count == 0 || q->count > most)
		return hk_error_set(err, -ERANGE,
				    "port %s: %u queues are asked for, and %s has 1 to %u; fix: "
				    "let fewer processes share the port",
				    info->spec, q->count, info->driver, most);
	int rc = p->spec.kind == HK_SPEC_MEMIF ? hk_memif_check_queues(p, q->count, err) : 0;
	for (unsigned i = 0; rc == 0 && i < q->count; i++)
		rc = hk_pool_suits(p, q->pool[i], err);
	info->queues = (uint16_t)q->count;
	return rc;
}

void hk_queues_choose(struct hk_port_impl *p, const struct rte_eth_dev_info *dev, unsigned wanted)
{
	struct hk_port_info *info = &p->port.info;
	unsigned has = HK_MIN(dev->max_rx_queues, dev->max_tx_queues);
	unsigned n = HK_MIN(HK_MIN(wanted, has), (unsigned)HK_STEER_MAX_QUEUES);
	char why[80];

	if (p->spec.kind != HK_SPEC_PCI && p->spec.kind != HK_SPEC_VDEV) {
		snprintf(why, sizeof(why), "not asked: %s is opened with one queue", info->driver);
		hk_steer_set_software(p, why);
	} else if (p->spec.priority) {
		hk_steer_set_software(p, "not asked: its rules do not look behind a priority tag");
	} else if (n < 2) {
		snprintf(why, sizeof(why), "%s has %u receive queue%s here", info->driver, has,
			 has == 1 ? "" : "s");
		hk_steer_set_software(p, why);
	} else {
		info->queues = (uint16_t)n;
		info->rx_ring = (uint16_t)HK_MIN(HK_MAX(1u << hk_log2(STEERED_RINGS / n), 128u),
						 (unsigned)HK_NIC_RING);
	}
}

/* Configures the device. @q may be NULL: one queue, with the port's pool. @split may be NULL: the
 * NIC does not split frames. */
static int configure(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
		     const struct hk_port_queues *q, const struct hk_split *split,
		     struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	struct rte_eth_conf conf = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_NONE},
				    .txmode = {.mq_mode = RTE_ETH_MQ_TX_NONE}};
	uint16_t rx = info->rx_ring, tx = rx, n = info->queues;
	bool nic = p->spec.kind == HK_SPEC_PCI;
	unsigned rings = p->ring_socket ? p->ring_socket : (unsigned)SOCKET_ID_ANY;
	const char *step = "configure";

	if (nic)
		conf.rxmode.mtu = info->frame_max - RTE_ETHER_HDR_LEN;
	if (info->tx_multi_seg)
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;

	if (split)
		conf.rxmode.offloads |= hk_split_offloads(dev);

	hk_dpdk_log_clear();
	int rc = rte_eth_dev_configure(p->port.id, n, n, &conf);
	p->configured = rc == 0;
	if (rc == 0) {
		step = "size the rings of";
		rc = rte_eth_dev_adjust_nb_rx_tx_desc(p->port.id, &rx, &tx);
	}
	for (uint16_t i = 0; rc == 0 && i < n; i++) {
		struct rte_eth_rxconf rxq = dev->default_rxconf;
		struct rte_mempool *pool = q ? q->pool[i] : p->port.pool;
		union rte_eth_rxseg seg[2];
		rxq.offloads = conf.rxmode.offloads;
		if (split) {
			hk_split_queue(&rxq, seg, split->first, split->bytes, pool);
			pool = NULL;
		}
		info->rx_ring = rx;
		step = "set up the receive queue of";
		rc = rte_eth_rx_queue_setup(p->port.id, i, rx, rings, &rxq, pool);
	}
	for (uint16_t i = 0; rc == 0 && i < n; i++) {
		struct rte_eth_txconf txq = dev->default_txconf;
		txq.offloads = conf.txmode.offloads;
		step = "set up the send queue of";
		rc = rte_eth_tx_queue_setup(p->port.id, i, tx, rings, &txq);
	}
	if (rc == 0)
		return 0;
	return hk_error_set(err, rc, "port %s: cannot %s the device: %s%s%s; fix: %s", info->spec,
			    step, rte_strerror(-rc), *hk_dpdk_log() ? ": " : "", hk_dpdk_log(),
			    "see what the driver says above");
}

int hk_queues_configure(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
			const struct hk_port_queues *q, const struct hk_split *split,
			struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;

	if (!split)
		return configure(p, dev, q, NULL, err);
	info->split_refusal = hk_split_refusal(dev, split->bytes);
	if (!info->split_refusal) {
		info->split = configure(p, dev, q, split, err) == 0;
		if (info->split)
			return 0;
		info->split_refusal = "the driver offers it, and refuses the queue";
	}
	return configure(p, dev, q, NULL, err);
}

int hk_queues_steer(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
		    const struct hk_steer_match *sample, int64_t deadline, struct hk_error *err)
{
	hk_steer_begin(p, sample);
	p->port.info.steered = p->steer != NULL;
	p->port.info.extra_queues = (uint16_t)(p->port.info.queues - 1);
	if (p->steer || p->is_vdev)
		return 0;
	p->port.info.extra_queues = 0;
	int rc = rte_eth_dev_stop(p->port.id);

	p->started = false;
	if (rc)
		return hk_error_set(err, rc,
				    "port %s: cannot stop the device to use fewer queues: "
				    "%s; fix: use another driver",
				    p->spec.text, rte_strerror(-rc));
	p->port.info.queues = 1;
	p->port.info.rx_ring = (uint16_t)(p->spec.ring ? p->spec.ring : HK_NIC_RING);
	rc = configure(p, dev, NULL, NULL, err);
	return rc ? rc : hk_device_start(p, deadline, err);
}
