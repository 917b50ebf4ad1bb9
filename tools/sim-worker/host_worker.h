/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-worker/host_worker.h: what the hosts with workers need before they start.
 */
#ifndef HK_SIM_WORKER_HOST_WORKER_H
#define HK_SIM_WORKER_HOST_WORKER_H

#include "sim/host.h"

/* MB of memory that DPDK needs for so many hosts. */
unsigned sim_worker_memory_mb(const struct host_config *c, uint32_t hosts);

#endif
