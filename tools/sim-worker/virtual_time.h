/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-worker/virtual_time.h: the clock of the workers in this program. The compiler includes it
 * before each file of src/worker, so that the time stamp counter is the simulator's clock.
 */
#ifndef HK_SIM_WORKER_VIRTUAL_TIME_H
#define HK_SIM_WORKER_VIRTUAL_TIME_H

#include <rte_cycles.h>

uint64_t sim_now_ns(void);

#define rte_rdtsc()   sim_now_ns()
#define hk_eal_tsc_hz sim_tsc_hz

#endif
