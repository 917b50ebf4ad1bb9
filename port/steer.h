/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/steer.h: which frames go to which queue of a port.
 *
 * A port that several ranks share has a ladder of ways to tell whose a frame is. From the best rung down:
 *
 *   hardware rule by endpoint field   the NIC compares bytes of our header
 *   hardware rule by MAC              each user has a MAC address of its own
 *   hardware rule by UDP port         each user has a UDP port of its own
 *   queue index (memif)               the sender's queue is the receiver's: nothing to decide
 *   software                          one process polls all and looks into each frame
 *
 * Hardware rules are DPDK's rte_flow. What a driver can do is not written down anywhere here: it is asked
 * when the port opens. Its word is not enough, though (net_tap validates rules that the kernel
 * then refuses), so a rung counts only once a trial rule could be made and removed. Where a rung
 * was refused, the driver's own reason is kept for people.
 *
 * A rule is a promise of the NIC about frames that anybody can send: who polls a queue must still check
 * whose each frame is. Frames without a rule arrive on queue 0 of a NIC; a driver may put them elsewhere, so
 * all queues must be polled.
 *
 * Rules vanish with hk_port_close(), whatever led to it. A driver that keeps rules longer than the
 * process that made them is told to forget them all when the port opens.
 *
 * Threads: those of opening and closing, while another may poll the queues. No call waits; each may make
 * system calls.
 */
#ifndef HK_PORT_STEER_H
#define HK_PORT_STEER_H

#include "port/port.h"

enum hk_steer_rung {
	HK_STEER_ENDPOINT,
	HK_STEER_MAC,
	HK_STEER_UDP,
	HK_STEER_QUEUE_INDEX,
	HK_STEER_SOFTWARE,
	HK_STEER_RUNGS,
};

/* "hardware rule by MAC", for people; "mac", for programs. */
const char *hk_steer_rung_text(enum hk_steer_rung rung);
const char *hk_steer_rung_name(enum hk_steer_rung rung);

#define HK_STEER_FIELD_MAX  16
#define HK_STEER_MAX_QUEUES 32 /* one for whatever has no rule, and those that rules lead to */

/* The frames of one user, once for each hardware rung; which one is used is the port's to say. */
struct hk_steer_match {
	/* by endpoint field: Ethernet II frames of this type … */
	uint16_t ether_type;
	/* … whose bytes from @offset on, counted from the frame's first, are @value where @mask has ones */
	uint16_t offset;
	uint8_t len; /* 0: there is no such field; at most HK_STEER_FIELD_MAX */
	uint8_t value[HK_STEER_FIELD_MAX], mask[HK_STEER_FIELD_MAX];
	/* by MAC: frames to this address */
	bool has_mac;
	uint8_t mac[6];
	/* by UDP port: IPv4 to this port; 0: the framing is not used */
	uint16_t udp_port;
};

/* What a port does, and why not better. */
struct hk_steer_report {
	enum hk_steer_rung rung;
	unsigned queues;  /* of the port */
	unsigned rules;   /* in force */
	unsigned refused; /* rules that the driver would not make although the rung works */
	/* of the rungs above: why not, in the driver's words if it has any. Plain ASCII without quotes
	 * and backslashes. "" for the others. */
	char why[HK_STEER_RUNGS][120];
	char refusal[120]; /* of the last of @refused */
};

/* hk_port_open() for a port that is shared: with up to @queues receive queues (at most
 * HK_STEER_MAX_QUEUES), if the device has so many and a hardware rung works. Otherwise a NIC has one; a
 * virtual device, which may spread frames by itself, keeps them. All share the port's pool, and rings are
 * shorter so that together they take little more memory. @sample is one user's match: its rungs are
 * tried, and nothing of it stays. That no rung works is no error. Frames may come by any of the queues
 * (info.more_queues): who polls the port polls all of them. */
int hk_port_open_steered(const char *spec, unsigned buffers, unsigned queues,
			 const struct hk_steer_match *sample, int timeout_ms, struct hk_port **port,
			 struct hk_error *err);

/* What there is to say of @spec without opening it: 1 if its kind says all, and @out is filled; 0 if it has to be
 * opened to be asked; -EINVAL with a sentence if it does not parse. */
int hk_steer_known(const char *spec, struct hk_steer_report *out, struct hk_error *err);

/* How an open port, however it was opened, tells its users apart. */
void hk_port_steering(const struct hk_port *port, struct hk_steer_report *out);

/* From now on the frames of @match go to @queue (not 0), which has no rule yet. -ENOTSUP no hardware rung
 * works on this port; -EINVAL no such queue, or it has a rule; other codes: the driver does not want this
 * one (its table is full), in its words. Then the frames arrive as they did before. */
int hk_steer_add(struct hk_port *port, unsigned queue, const struct hk_steer_match *match,
		 struct hk_error *err);

/* Takes @queue's rule away, if it has one. Frames may still lie in the queue. */
void hk_steer_remove(struct hk_port *port, unsigned queue);

#endif
