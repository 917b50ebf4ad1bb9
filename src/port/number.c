/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/number.c: see port/number.h.
 */
#include "port/number.h"

#include <errno.h>
#include <string.h>

static void *queue_data[RTE_MAX_ETHPORTS][1];
static void *no_callbacks[1];

/* DPDK gives its devices numbers from 0, so this counts down. */
int hk_number_take(struct hk_port_impl *p, void *queue, hk_burst *rx, hk_burst *tx,
		   struct hk_error *err)
{
	for (unsigned id = RTE_MAX_ETHPORTS; id-- > 0;) {
		struct rte_eth_fp_ops *ops = &rte_eth_fp_ops[id];

		if (queue_data[id][0] || rte_eth_dev_is_valid_port((uint16_t)id))
			continue;
		queue_data[id][0] = queue;
		ops->rx_pkt_burst = rx;
		ops->tx_pkt_burst = tx;
		ops->rxq.data = ops->txq.data = queue_data[id];
		ops->rxq.clbk = ops->txq.clbk = no_callbacks;
		p->port.id = (uint16_t)id;
		return 0;
	}
	return hk_error_set(err, -ENFILE,
			    "port %s: this process has %d ports, the most of DPDK; fix: open fewer",
			    p->spec.text, RTE_MAX_ETHPORTS);
}

unsigned hk_number_lowest(void)
{
	unsigned id = 0;

	while (id < RTE_MAX_ETHPORTS && !queue_data[id][0])
		id++;
	return id;
}

void hk_number_give(struct hk_port_impl *p, const void *queue)
{
	if (queue_data[p->port.id][0] != queue)
		return;
	memset(&rte_eth_fp_ops[p->port.id], 0, sizeof(rte_eth_fp_ops[0]));
	queue_data[p->port.id][0] = NULL;
}
