/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/resources_parts.h: what the parts of the daemon's resources share.
 *
 *   resources.c           memory, pools and slots
 *   resources_wires.c     wires, and their part of the steering
 *   resources_counters.c  what ports, switch and pipes count
 *   resources_poller.c    the polling process's side
 */
#ifndef HK_HOST_RESOURCES_PARTS_H
#define HK_HOST_RESOURCES_PARTS_H

#include "host/resources.h"
#include "host/switch.h"
#include "port/port.h"

#include <rte_memzone.h>

struct hk_res_slot {
	struct rte_mempool *rx, *tx;
	const struct rte_memzone *fabric, *pipes;
	uint8_t mac[6]; /* of its rank */
	uint32_t job_key, endpoint;
};

struct hk_res {
	struct hk_rundir rundir;
	struct hk_res_info info;
	char port[256];
	uint32_t key;
	uint64_t node_id;
	unsigned slots, rx_buffers;
	enum hk_ctl_mode mode;
	struct hk_res_slot slot[HK_CTL_MAX_SLOTS];
	/* with pipes */
	struct hk_switch *sw;
	struct rte_mempool *rx; /* of all wires */
	struct hk_port *one;    /* the port, if it is one */
	bool wire_used[HK_SWITCH_WIRES];
};

/* resources.c. Lets who may capture the frames that this process, @what of the daemon at @shared, moves. That nobody can is no
 * reason not to run. */
void hk_res_open_tap(const char *what, const char *shared);

#endif
