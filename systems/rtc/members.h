/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/members.h: the members of a job. Internal to rtc/; pure: no clock, no I/O.
 *
 * DESIGN NOTES
 *
 * Every node sends an alive message to every other node once an interval; any other message counts
 * as well. A member that is silent for HK_RTC_MEMBERS_SILENT intervals is lost. A node that leaves
 * sends a leave message.
 *
 * A node that restarts has a later *epoch*. Messages of its earlier incarnation that are still on
 * their way are stale. Epochs have 16 bits and wrap. So they are compared only while the later
 * incarnation is a member, or has sent within the time of silence. After that time every epoch is
 * accepted, except the one with which the node left.
 *
 * A node that could not poll for a while (a long handler, a stopped process) has received nothing
 * from the others. That time does not count as silence of the others.
 */
#ifndef HK_RTC_MEMBERS_H
#define HK_RTC_MEMBERS_H

#include "base/common.h"

#define HK_RTC_MEMBERS_SILENT 10

struct hk_rtc_members {
	uint16_t self, nodes;
	unsigned count;       /* number of members, self included */
	uint64_t interval;    /* interval of alive messages in ns */
	uint64_t due;         /* start of the next interval */
	uint64_t tick;        /* start of the last interval */
	unsigned cursor;      /* next node of this interval; `nodes`: all done */
	uint16_t *epoch;      /* [nodes] epoch of members; 0: not a member */
	uint16_t *left_epoch; /* [nodes] epoch with which the node left; 0: it did not */
	uint16_t *last_epoch; /* [nodes] epoch as last member; 0: never was one */
	uint64_t *last_rx;    /* [nodes] time of the last message */
};

/* Allocates; false: no memory. @epoch: this node's own. */
bool hk_rtc_members_init(struct hk_rtc_members *m, uint16_t self, uint16_t nodes, uint16_t epoch,
			 uint64_t interval_ns, uint64_t now);
void hk_rtc_members_free(struct hk_rtc_members *m);

enum hk_rtc_members_event {
	HK_RTC_MEMBERS_KNOWN,  /* a member, unchanged */
	HK_RTC_MEMBERS_JOINED, /* a new member */
	/* the same incarnation after a loss: its earlier messages still count */
	HK_RTC_MEMBERS_BACK,
	HK_RTC_MEMBERS_RESTARTED, /* a new incarnation of a member: it left and joined */
	HK_RTC_MEMBERS_STALE,     /* from an ended incarnation: to be dropped */
	HK_RTC_MEMBERS_LEFT,
};

/* Notes a message from @src (< nodes, not self). If epoch[src] equals @epoch, the hot path only
 * sets last_rx[src] itself. */
enum hk_rtc_members_event hk_rtc_members_input(struct hk_rtc_members *m, uint16_t src,
					       uint16_t epoch, uint64_t now);

/* Notes that @src leaves. Returns STALE or LEFT. */
enum hk_rtc_members_event hk_rtc_members_leave(struct hk_rtc_members *m, uint16_t src,
					       uint16_t epoch);

enum hk_rtc_members_task {
	HK_RTC_MEMBERS_NOTHING,
	HK_RTC_MEMBERS_SEND, /* send an alive message to @node */
	HK_RTC_MEMBERS_LOST, /* @node is no longer a member */
};

/* Returns the next task at @now. The caller repeats the call until NOTHING, or continues later. */
enum hk_rtc_members_task hk_rtc_members_poll(struct hk_rtc_members *m, uint64_t now,
					     uint16_t *node);

static inline bool hk_rtc_members_contains(const struct hk_rtc_members *m, uint16_t node)
{
	return node < m->nodes && m->epoch[node] != 0;
}

#endif
