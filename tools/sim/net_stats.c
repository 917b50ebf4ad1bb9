/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/net_stats.c: sums over the ports of a network.
 */
#include "sim/net.h"

uint32_t net_busiest(const struct net *n)
{
	uint32_t best = net_nics(n);

	for (uint32_t i = net_nics(n); i < n->ports; i++)
		if (n->port[i].queue.area > n->port[best].queue.area)
			best = i;
	return best;
}

struct port_stats net_sum(const struct net *n)
{
	struct port_stats sum = {0};

	for (uint32_t i = net_nics(n); i < n->ports; i++) {
		const struct port_stats *s = &n->port[i].n;

		sum.frames += s->frames;
		sum.bytes += s->bytes;
		sum.dropped += s->dropped;
		sum.dropped_bulk += s->dropped_bulk;
		sum.marked += s->marked;
		sum.queue_max = HK_MAX(sum.queue_max, s->queue_max);
	}
	return sum;
}
