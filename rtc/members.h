/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/members.h: which nodes are there. Internal to rtc/; pure: no clock, no I/O.
 *
 * Every node tells every other that it is alive, each `alive` nanoseconds; every other message says so
 * too. Who was silent for HK_MEMBERS_SILENT such times is lost; who says goodbye has left. A node that starts
 * again has a later *epoch*: what its earlier incarnation sent, and is still on its way, is stale.
 * Epochs are 16 bits and wrap; they are compared only while the later one is a member or was heard within that
 * time. After it any epoch is good, but the one with which the node left.
 *
 * A node that could not poll for a while (a long handler, a stopped process) has not heard anybody: the time it was
 * away counts for nobody's silence.
 */
#ifndef HK_RTC_MEMBERS_H
#define HK_RTC_MEMBERS_H

#include "base/common.h"

#define HK_MEMBERS_SILENT 10

struct hk_members {
	uint16_t self, nodes;
	unsigned count;  /* members, self included */
	uint64_t alive;  /* ns */
	uint64_t due;    /* when the next round of signs of life begins */
	uint64_t tick;   /* when the last round of signs of life began */
	unsigned cursor; /* how far it is; `nodes`: done */
	uint16_t *epoch; /* [nodes] of members; 0: no member */
	uint16_t *left;  /* [nodes] with which it said goodbye; 0: it did not */
	uint16_t *last;  /* [nodes] that it had when it was last a member; 0: it never was */
	uint64_t *heard; /* [nodes] when */
};

/* Allocates; false: no memory. @epoch is our own. */
bool hk_members_init(struct hk_members *m, uint16_t self, uint16_t nodes, uint16_t epoch,
		     uint64_t alive_ns, uint64_t now);
void hk_members_free(struct hk_members *m);

enum hk_members_news {
	HK_MEMBERS_KNOWN,  /* a member, as before */
	HK_MEMBERS_JOINED, /* it is one now */
	HK_MEMBERS_BACK, /* the same incarnation, which had been lost: what it sent before still counts */
	HK_MEMBERS_ANEW, /* it has started again, and nobody had noticed its end: left, and joined */
	HK_MEMBERS_STALE, /* from an incarnation that has gone: to be dropped */
	HK_MEMBERS_LEFT,
};

/* A message came from @src (< nodes, not self). The hot path looks first whether epoch[src] is @epoch, and then
 * only sets heard[src]. */
enum hk_members_news hk_members_input(struct hk_members *m, uint16_t src, uint16_t epoch,
				      uint64_t now);

/* It said goodbye. STALE, or LEFT. */
enum hk_members_news hk_members_leave(struct hk_members *m, uint16_t src, uint16_t epoch);

enum hk_members_task {
	HK_MEMBERS_NOTHING,
	HK_MEMBERS_SEND, /* a sign of life to @node */
	HK_MEMBERS_LOST, /* @node is no member any more */
};

/* The next thing to do at @now; call it again until NOTHING, or later. */
enum hk_members_task hk_members_poll(struct hk_members *m, uint64_t now, uint16_t *node);

static inline bool hk_members_is(const struct hk_members *m, uint16_t node)
{
	return node < m->nodes && m->epoch[node] != 0;
}

#endif
