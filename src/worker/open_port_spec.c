/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/open_port_spec.c: a worker on one port, for programs that need no more of DPDK.
 */
#include "worker/internal.h"

#include <errno.h>
#include <string.h>

#define MORE_RX_BUFFERS 2048 /* beside those that the backlog may hold */

int hk_worker_open_port_spec(const struct hk_worker_config *cfg, const char *spec, int timeout_ms,
			     struct hk_worker **worker, struct hk_error *err)
{
	struct hk_worker_config c = *cfg;
	struct hk_eal_config eal = {.role = HK_EAL_ALONE, .lazy_buffers = true};
	struct hk_port *port = NULL;
	int rc = hk_port_spec_eal(spec, &eal, err);

	*worker = NULL;
	if (rc == 0)
		rc = hk_eal_init(&eal, err);
	if (rc == 0)
		rc = hk_port_open(spec, c.rx_backlog + MORE_RX_BUFFERS, NULL, timeout_ms, &port,
				  err);
	if (rc == 0)
		rc = hk_port_wait_link(port, timeout_ms, err);
	if (rc == 0 && (c.frame_max == 0 || c.frame_max > port->info.frame_max))
		c.frame_max = port->info.frame_max;
	if (rc == 0)
		rc = hk_worker_open(&c, worker, err);
	if (rc == 0 && (rc = hk_worker_add_port(*worker, port, err)) >= 0)
		return 0;
	if (*worker)
		hk_worker_close(*worker, 0);
	*worker = NULL;
	hk_port_close(port);
	return rc;
}

const uint8_t *hk_worker_public_key(const struct hk_worker *w)
{
	return w->seal ? hk_seal_public_key(w->seal) : NULL;
}

int hk_worker_address(const struct hk_worker *w, unsigned port, struct hk_peer_addr *addr)
{
	if (port >= w->txqs)
		return -EINVAL;
	*addr = (struct hk_peer_addr){
		.endpoint = w->cfg.engine.endpoint,
		.epoch = w->cfg.engine.epoch,
		.frame_max = w->txq[port]->port->info.frame_max,
	};
	memcpy(addr->mac, w->txq[port]->port->info.mac, sizeof(addr->mac));
	if (w->txq[port]->port->info.ip6)
		hk_port_address(w->txq[port]->port, addr->ip6);
	if (w->seal)
		memcpy(addr->public_key, hk_seal_public_key(w->seal), sizeof(addr->public_key));
	return 0;
}
