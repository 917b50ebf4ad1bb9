/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-worker/port_sim.h: a port whose queue pairs are the hosts' NICs.
 *
 * Workers use ports by DPDK's burst functions. This port has two of its own: one takes what has
 * arrived at a host, and the other gives frames to the simulated network. So a worker runs as on a
 * NIC, and no line of src/worker knows of the simulator.
 */
#ifndef HK_SIM_WORKER_PORT_SIM_H
#define HK_SIM_WORKER_PORT_SIM_H

#include "port/port.h"
#include "sim/host.h"

/* A host's NIC. */
struct sim_nic {
	struct hosts *hosts;
	uint32_t host;
	struct rte_mempool *pool;     /* receive buffers: as many as the host has, and no more */
	struct rte_mbuf *head, *tail; /* frames that have arrived */
	bool full;                    /* frames were refused since it last sent one */
};

/* Opens the port, with a queue pair for each of @nics. It exists once in a process. */
void sim_port_open(struct hk_port *port, struct sim_nic *nics, uint32_t count, uint16_t frame_max);

/* A frame arrives. False: no receive buffer was free. */
bool sim_nic_arrive(struct sim_nic *nic, uint32_t frame);

/* The MAC address of host @id. */
void sim_mac(uint32_t id, uint8_t mac[6]);

#endif
