/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/router/pools.c: buffer plans: where packets lie.
 *
 * bounce has the ports' own pools, in main memory. pktpit has one there as well, for headers, if NICs split them off. p2p and pktpit receive each port's packets into a pop: with one
 * for each port, a packet lands with its receiver's peer as the options say; with one for all, on that
 * device. Every port must reach every pop, since any port may send what any other has received; and before any is
 * opened, since a port receives from then on: what its NIC could not write is counted as received all the same, and
 * what lay in the buffer before would be forwarded.
 */
#include "p2p/router/router.h"

int hk_pools_open(struct hk_router *r, struct hk_error *err)
{
	char name[24];
	int rc = 0;

	if (r->o.mode == HK_MODE_PKTPIT)
		rc = hk_pool_create_room("hk_router_heads", r->o.ports * r->o.buffers, 0,
					 RTE_PKTMBUF_HEADROOM + HK_HEADER_MAX, &r->headers, err);
	for (unsigned i = 0; rc == 0 && i < r->o.pools; i++)
		rc = hk_pop_open(r->o.pool[i], &r->pop[i], err);
	for (unsigned i = 0; rc == 0 && i < r->o.pools; i++) {
		r->write_combined |= hk_pop_info(r->pop[i])->write_combined;
		rc = hk_pop_map_for_ports(r->pop[i], err);
	}
	for (unsigned i = 0; rc == 0 && r->o.pools && i < r->o.ports; i++) {
		snprintf(name, sizeof(name), "hk_router_%u", i);
		rc = hk_pop_mempool(r->pop[i % r->o.pools], name, r->o.buffers, r->o.frame_max,
				    &r->pool[i], err);
	}
	return rc;
}

void hk_pools_close(struct hk_router *r)
{
	for (unsigned i = 0; r->o.pools && i < r->o.ports; i++)
		hk_pop_mempool_free(r->pop[i % r->o.pools], r->pool[i]);
	for (unsigned i = 0; i < r->o.pools; i++)
		hk_pop_close(r->pop[i]);
}
