/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/resources_counters.c: what port, switch and pipes of the daemon count.
 */
#include "host/resources_parts.h"

bool hk_res_port_counters(const struct hk_res *r, struct hk_res_port *n)
{
	struct rte_eth_stats s;

	*n = (struct hk_res_port){0};
	if (!r->one || rte_eth_stats_get(r->one->id, &s) != 0)
		return false;
	*n = (struct hk_res_port){
		.rx_frames = s.ipackets,
		.rx_bytes = s.ibytes,
		.tx_frames = s.opackets,
		.tx_bytes = s.obytes,
		.rx_missed = s.imissed,
		.rx_no_buffer = s.rx_nombuf,
		.rx_errors = s.ierrors,
		.tx_errors = s.oerrors,
	};
	return true;
}

bool hk_res_switch_counters(const struct hk_res *r, struct hk_res_switch *n)
{
	struct hk_switch_counters c;

	if (!r->sw)
		return false;
	hk_switch_counters(r->sw, &c);
	*n = (struct hk_res_switch){
		.rx_frames = c.rx_frames,
		.tx_frames = c.tx_frames,
		.steered = c.steered,
		.misled = c.misled,
		.stray = c.stray,
		.tx_lost = c.tx_lost,
		.rx_lost = c.rx_lost,
		.sleeps = c.sleeps,
		.rung = c.rung,
		.rings = c.rings,
	};
	return true;
}

/* Both ends move on while we look, and one end is the rank's: what cannot be is shown as the nearest that can. */
static uint32_t waiting(const _Atomic uint32_t *head, const _Atomic uint32_t *tail)
{
	uint32_t t = atomic_load_explicit(tail, memory_order_relaxed);
	uint32_t n = atomic_load_explicit(head, memory_order_relaxed) - t;

	return HK_MIN(n, (uint32_t)HK_PIPE_RING);
}

bool hk_res_pipe_levels(const struct hk_res *r, unsigned slot, struct hk_res_pipe *n)
{
	struct hk_switch_drops drops;

	*n = (struct hk_res_pipe){0};
	if (!r->slot[slot].pipes)
		return false;
	const struct hk_pipe *p = r->slot[slot].pipes->addr;

	hk_switch_drops(r->sw, slot, &drops);
	n->rx_full = drops.rx_full;
	n->rx_share = drops.rx_share;
	n->tx_lost = drops.tx_lost;
	for (unsigned w = 0; w < HK_SWITCH_WIRES; w++) {
		n->to_rank += waiting(&p[w].rx_head, &p[w].rx_tail);
		n->from_rank += waiting(&p[w].tx_head, &p[w].tx_tail);
	}
	return true;
}
