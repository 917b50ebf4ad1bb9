/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/faults.h: the lossy wrapper. What a bad network does, on demand and repeatable.
 *
 * Any port can be opened with faults (see port.h). Each frame that is *sent* through it draws its
 * fate from a seeded generator: dropped, duplicated, swapped with the next frame, one bit
 * flipped, or held back for some time. Probabilities are per frame and independent. The rx side
 * is untouched, so that a wrapper at each end hurts each direction once. A port may also get stuck, as one
 * whose cable was pulled and whose ring drains no more: then it takes nothing.
 */
#ifndef HK_FAULTS_H
#define HK_FAULTS_H

#include "base/common.h"
#include "base/error.h"

struct hk_faults_config {
	double drop, dup, reorder, corrupt, delay; /* probabilities, 0 to 1 */
	uint32_t delay_us;                         /* how long a delayed frame waits; 200 */
	uint64_t stuck; /* each of its queues takes so many frames and then no more; 0: not */
	uint64_t seed;  /* 0 is a seed like any other */
};

/* Parses "drop=0.01,dup=0.001,…,delay_us=100,stuck=1000,seed=7". */
int hk_faults_parse(const char *text, struct hk_faults_config *cfg, struct hk_error *err);

struct hk_faults_counters {
	uint64_t frames, dropped, duplicated, reordered, corrupted, delayed;
};

struct hk_port;
int hk_faults_attach(struct hk_port *port, const struct hk_faults_config *cfg,
		     struct hk_error *err);
void hk_faults_detach(struct hk_port *port); /* frees what it still holds */
const struct hk_faults_counters *hk_faults_counters(const struct hk_port *port);

/* Frames accepted and not yet given to the driver: what waits for its time, its turn or room. */
unsigned hk_faults_held(const struct hk_port *port);

#endif
