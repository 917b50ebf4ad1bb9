/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/pools.c: buffer plans: which memory packets are in.
 *
 * In mode bounce each port has its own pool in main memory. In mode pktpit there is one pool in
 * main memory for headers, if NICs split them off. In modes p2p and pktpit each port receives
 * packets into a pop. With one pop for each port, the options choose the device near each receiver.
 * With one pop for all, every packet is on that device.
 *
 * Every port must reach every pop, because any port may send packets that another has received.
 * Pops are mapped before any port is opened, because a port receives from then on. A NIC also
 * counts packets that it could not write, and the router would forward the buffer's earlier
 * content.
 */
#include "devmem/router/router.h"

int hk_router_pools_open(struct hk_router *r, struct hk_error *err)
{
	char name[24];
	int rc = 0;

	if (r->o.mode == HK_ROUTER_PKTPIT)
		rc = hk_pool_create_sized("hk_router_heads", r->o.ports * r->o.buffers, 0,
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

void hk_router_pools_close(struct hk_router *r)
{
	for (unsigned i = 0; r->o.pools && i < r->o.ports; i++)
		hk_pop_mempool_free(r->pop[i % r->o.pools], r->pool[i]);
	for (unsigned i = 0; i < r->o.pools; i++)
		hk_pop_close(r->pop[i]);
}
