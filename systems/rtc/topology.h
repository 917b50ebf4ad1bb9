/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/topology.h: each node's neighbours. Internal to rtc/; pure.
 *
 * All topologies except a file's are defined on the members in ascending order, so nodes with the
 * same members agree. A random topology is the union of rings through all members, each in an order
 * drawn by the seed. If the degree is odd, pairs in such an order are added. So the topology is
 * symmetric, and from degree 2 on connected. A node has the degree asked for, or less if two draws
 * give the same neighbour.
 */
#ifndef HK_RTC_TOPOLOGY_H
#define HK_RTC_TOPOLOGY_H

#include "base/common.h"
#include "hikyaku/error.h"
#include "hikyaku/rtc.h"

struct hk_rtc_topology_view {
	enum hk_rtc_topology kind;
	uint16_t self, nodes;
	unsigned degree;
	uint64_t seed;
	uint16_t *listed; /* FILE: neighbours on this node's line */
	unsigned listed_n;
	uint16_t *members, *order; /* [nodes] scratch */
	uint64_t *drawn;           /* [nodes] scratch */
	uint16_t *neighbour;       /* [nodes], ascending */
	unsigned count;
};

/* Reads the file, if there is one. Errors name file and line. */
int hk_rtc_topology_init(struct hk_rtc_topology_view *t, const struct hk_rtc_config *cfg,
			 struct hk_error *err);
void hk_rtc_topology_free(struct hk_rtc_topology_view *t);

/* Computes the neighbours. @epoch: [nodes], 0: not a member. This node always counts as one. */
void hk_rtc_topology_update(struct hk_rtc_topology_view *t, const uint16_t *epoch);

/* splitmix64: the random generator of rtc/. */
static inline uint64_t hk_rtc_random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

#endif
