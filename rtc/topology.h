/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/topology.h: who is whose neighbour. Internal to rtc/; pure.
 *
 * All topologies but that of a file are over the members in ascending order, so nodes that see the same members
 * agree. A random one is the union of rings through all members in an order drawn by the seed (and of pairs
 * in such an order, if the degree is odd): symmetric, of the wished degree but where two
 * draws give the same neighbour, and connected from degree 2 on.
 */
#ifndef HK_RTC_TOPOLOGY_H
#define HK_RTC_TOPOLOGY_H

#include "base/common.h"
#include "base/error.h"
#include "rtc/rtc.h"

struct hk_topology {
	enum hk_rtc_topology kind;
	uint16_t self, nodes;
	unsigned degree;
	uint64_t seed;
	uint16_t *listed; /* FILE: our line */
	unsigned listed_n;
	uint16_t *members, *order; /* [nodes] scratch */
	uint64_t *drawn;           /* [nodes] scratch */
	uint16_t *neighbour;       /* [nodes], ascending */
	unsigned count;
};

/* Reads the file, if there is one. Errors name file and line. */
int hk_topology_init(struct hk_topology *t, const struct hk_rtc_config *cfg, struct hk_error *err);
void hk_topology_free(struct hk_topology *t);

/* Computes the neighbours anew. @epoch: [nodes], 0: no member; self counts as one. */
void hk_topology_update(struct hk_topology *t, const uint16_t *epoch);

/* splitmix64: the generator of all that is drawn in rtc/. */
static inline uint64_t hk_draw(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

#endif
