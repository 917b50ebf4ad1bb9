/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/resources_counters.c: the counters of the daemon's ports, switch and pipes.
 */
#include "hostd/resources_parts.h"

static bool read_port(uint16_t id, struct hk_port_counters *n)
{
	struct rte_eth_stats s;

	if (rte_eth_stats_get(id, &s) != 0)
		return false;
#define COPY(name, help, field) n->name = s.field;
	HK_PORT_COUNTERS(COPY)
#undef COPY
	return true;
}

bool hk_res_port_counters(const struct hk_res *r, struct hk_port_counters *n)
{
	return r->one && read_port(r->one->id, n);
}

void hk_res_wire_counters(const struct hk_res_wire *w, struct hk_port_counters *n)
{
	*n = (struct hk_port_counters){0};
	if (w->port)
		(void)read_port(w->port_id, n);
}

bool hk_res_switch_counters(const struct hk_res *r, struct hk_switch_counters *n)
{
	if (r->sw)
		hk_switch_counters(r->sw, n);
	return r->sw;
}

/* Frames in a ring. Both ends move during the call, and the rank may write garbage to one, so the
 * result is limited to what is possible. */
static uint32_t waiting(const _Atomic uint32_t *head, const _Atomic uint32_t *tail)
{
	uint32_t t = atomic_load_explicit(tail, memory_order_relaxed);
	uint32_t n = atomic_load_explicit(head, memory_order_relaxed) - t;

	return HK_MIN(n, (uint32_t)HK_PIPE_RING);
}

bool hk_res_pipe_levels(const struct hk_res *r, unsigned slot, struct hk_pipe_levels *n)
{
	*n = (struct hk_pipe_levels){0};
	if (!r->slot[slot].pipes)
		return false;
	const struct hk_pipe *p = r->slot[slot].pipes->addr;

	hk_switch_pipe_counters(r->sw, slot, n);
	for (unsigned w = 0; w < HK_SWITCH_WIRES; w++) {
		n->to_rank_frames += waiting(&p[w].rx_head, &p[w].rx_tail);
		n->from_rank_frames += waiting(&p[w].tx_head, &p[w].tx_tail);
	}
	return true;
}
