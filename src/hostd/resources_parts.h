/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/resources_parts.h: shared by the parts of the daemon's resources.
 *
 *   resources.c           memory, pools and slots
 *   resources_wires.c     wires and their steering
 *   resources_counters.c  counters of ports, switch and pipes
 *   resources_poller.c    the poller's side
 */
#ifndef HK_HOSTD_RESOURCES_PARTS_H
#define HK_HOSTD_RESOURCES_PARTS_H

#include "hostd/resources.h"
#include "hostd/switch.h"
#include "port/port.h"

#include <rte_memzone.h>

struct hk_res_slot {
	struct rte_mempool *rx, *tx;
	const struct rte_memzone *worker, *pipes;
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
	/* only in modes with pipes */
	struct hk_switch *sw;
	struct rte_mempool *rx; /* receive buffers of all eager queues; NULL: one port */
	struct hk_port *one;    /* the port; NULL: a wire set */
	bool wire_used[HK_SWITCH_WIRES];
};

/* In resources.c. Opens the tap of this process, which is @what ("switch", "poller") of the daemon
 * at @shared. Prints an error and returns if that fails: the daemon runs without captures. */
void hk_res_open_tap(const char *what, const char *shared);

#endif
