/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/measure.h: `hk_devmem measure`, one cell. Its files:
 *
 *   measure.c       options, set-up, load and report
 *   measure_loop.c  two NICs with a cable between them
 *   measure_peer.c  one NIC, and `hk_devmem peer` (peer.c, probe.h)
 *   measure_nvme.c  an SSD that reads blocks
 */
#ifndef HK_TOOL_MEASURE_H
#define HK_TOOL_MEASURE_H

#include "devmem/pop/nvme.h"
#include "devmem/pop/pop.h"
#include "devmem/tool/load.h"
#include "devmem/tool/probe.h"
#include "devmem/tool/tool.h"

#define HK_MEASURE_SAMPLES    4096
#define HK_MEASURE_NVME_READ  4096u
#define HK_MEASURE_CHECK_EACH 64 /* of so many frames one is read, which bounds slow reads */

/* The traffic of a cell. In a loop, one NIC sends from main memory, and the other receives. */
enum hk_direction {
	HK_DIRECTION_LOOP,
	HK_DIRECTION_TRANSMIT,
	HK_DIRECTION_RECEIVE,
	HK_DIRECTION_BOTH,
	HK_DIRECTIONS
};

struct hk_measure {
	const char *pop_spec, *nvme_addr;
	char *nics[2];
	unsigned n;
	enum hk_direction direction;
	bool rings; /* descriptor rings are in the pop, too */
	struct hk_devmem_load_config load;
	double seconds;
	uint64_t size;
	uint64_t rate; /* most frames/s with a peer, each way; 0: any */

	struct hk_pop *pop, *queues;
	unsigned ring_socket;
	struct hk_nvme *nvme;
	uint64_t nvme_at; /* offset of the block in the pop into which reads go */
	struct rte_mempool *tested,
		*plain;        /* buffers in the pop, or in its place; in main memory */
	struct hk_port *a, *b; /* of a loop: sends, receives; with a peer, @a is NULL */

	uint64_t sent, received; /* frames or blocks within the time */
	uint64_t count, lost, wrong;
	double took; /* seconds */
	double sample[HK_MEASURE_SAMPLES];
	unsigned samples;
	struct hk_error err;
};

/* Opens the tested NIC @nic as m->b, with buffers of the pop. */
int hk_measure_open_tested(struct hk_measure *m, char *nic);

/* Set up devices and buffers, and measure. */
int hk_measure_loop_set_up(struct hk_measure *m);
int hk_measure_loop(struct hk_measure *m);
int hk_measure_peer_set_up(struct hk_measure *m);
int hk_measure_peer(struct hk_measure *m);
int hk_measure_nvme_set_up(struct hk_measure *m);
int hk_measure_nvme(struct hk_measure *m);

/* Returns the end of a period of @share times the cell's duration that begins at @start, ns. */
uint64_t hk_measure_end(const struct hk_measure *m, uint64_t start, double share);

#endif
