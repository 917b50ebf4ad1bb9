/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/faults.h: fault injection, the repeatable behaviour of a bad network.
 *
 * Any port can be opened with faults (see port.h). A seeded generator decides the fate of each
 * frame *sent* through it: dropped, duplicated, swapped with the next frame, one bit flipped, or
 * delayed. The probabilities are independent, and apply to each frame. Received frames are not
 * changed, so that with faults at both ends each direction is affected once. A port may also become
 * stuck, like one whose cable is unplugged and whose ring stays full: then it accepts no frames.
 */
#ifndef HK_PORT_FAULTS_H
#define HK_PORT_FAULTS_H

#include "base/common.h"
#include "hikyaku/error.h"

#pragma GCC visibility push(default)

struct hk_faults_config {
	double drop, dup, reorder, corrupt, delay; /* probabilities, 0 to 1 */
	uint32_t delay_us;                         /* delay of a delayed frame, µs; 200 */
	uint64_t stuck; /* frames that each queue accepts before it is stuck; 0: never */
	uint64_t seed;  /* seed of the generator; 0 is valid */
};

/* Parses "drop=0.01,dup=0.001,…,delay_us=100,stuck=1000,seed=7". */
int hk_faults_parse(const char *text, struct hk_faults_config *cfg, struct hk_error *err);

struct hk_faults_counters {
	uint64_t frames, dropped, duplicated, reordered, corrupted, delayed;
};

struct hk_port;
int hk_faults_attach(struct hk_port *port, const struct hk_faults_config *cfg,
		     struct hk_error *err);
void hk_faults_detach(struct hk_port *port); /* frees pending frames */
const struct hk_faults_counters *hk_faults_counters(const struct hk_port *port);

/* Returns the number of accepted frames that the driver has not got yet. */
unsigned hk_faults_pending(const struct hk_port *port);

#pragma GCC visibility pop

#endif
