/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/host_config.c: the defaults of a host, and what follows from them.
 */
#include "sim/host.h"

void host_config_default(struct host_config *c)
{
	*c = (struct host_config){.mtu = 1500, .pool = 6144, .tx_buffers = 2048, .nic_ring = 1024};
	hk_engine_config_default(&c->engine);
	c->engine.rx_budget = 2048; /* a worker's rx backlog */
}

uint32_t host_payload(const struct hosts *h)
{
	return h->c.mtu + HK_ETH_HLEN - HK_WIRE_PUT_OVERHEAD - HK_WIRE_CRC_LEN;
}
