/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/steer.h: steering, which decides which frames go to which queue of a port.
 *
 * Several users (ranks) may share a port. There are five *methods* to find the user of a frame.
 * From the best to the last:
 *
 *   hardware rule by endpoint field   the NIC compares bytes of our header
 *   hardware rule by MAC              each user has a MAC address of its own
 *   hardware rule by UDP port         each user has a UDP port of its own
 *   queue index (memif)               the sender's queue is also the receiver's
 *   software                          one process polls all queues and reads each frame's header
 *
 * Hardware rules are DPDK's rte_flow. When a port opens, the code asks the driver what it can do.
 * The answer is not enough: net_tap, for example, validates rules that the kernel then refuses. So
 * a method counts as usable only after a trial rule was created and removed. The report contains
 * the driver's own reason against each method that it refused.
 *
 * Anybody can send frames that match a rule, so the user that polls a queue must still check each
 * frame. Frames without a rule arrive on queue 0 of a NIC. A driver may use another queue, so all
 * queues must be polled.
 *
 * hk_port_close() removes all rules. Some drivers keep rules after the process that created them
 * has ended; the code therefore also removes all rules when the port opens.
 *
 * Threads. The thread that opens and closes ports calls these functions, while others may poll the
 * queues. No function waits; each may make system calls.
 */
#ifndef HK_PORT_STEER_H
#define HK_PORT_STEER_H

#include "port/port.h"

#pragma GCC visibility push(default)

enum hk_steer_method {
	HK_STEER_ENDPOINT,
	HK_STEER_MAC,
	HK_STEER_UDP,
	HK_STEER_QUEUE_INDEX,
	HK_STEER_SOFTWARE,
	HK_STEER_METHODS,
};

/* Return the name of a method: for people ("hardware rule by MAC") and for programs ("mac"). */
const char *hk_steer_method_text(enum hk_steer_method method);
const char *hk_steer_method_name(enum hk_steer_method method);

#define HK_STEER_FIELD_MAX  16
#define HK_STEER_MAX_QUEUES 32 /* queue 0 for frames without a rule, others for one rule each */

/* The frames of one user, described for each hardware method. The port chooses the method. */
struct hk_steer_match {
	/* Endpoint field: Ethernet II frames of `ether_type` whose bytes equal `value` where `mask`
	 * has ones. `len` bytes are compared, from `offset` in the frame. */
	uint16_t ether_type;
	uint16_t offset;
	uint8_t len; /* at most HK_STEER_FIELD_MAX; 0: no such field */
	uint8_t value[HK_STEER_FIELD_MAX], mask[HK_STEER_FIELD_MAX];
	/* MAC: frames to this address. */
	bool has_mac;
	uint8_t mac[6];
	/* UDP port: IPv4 frames to this port; 0: the user has none. */
	uint16_t udp_port;
};

/* The method of a port, and the reasons against better ones. */
struct hk_steer_report {
	enum hk_steer_method method;
	unsigned queues;        /* queues of the port */
	unsigned rules;         /* rules in force */
	unsigned rules_refused; /* rules that the driver refused although the method works */
	/* For each better method the reason against it, the driver's if it gives one: ASCII without
	 * quotes and backslashes. "" for the others. */
	char why[HK_STEER_METHODS][120];
	char refusal[120]; /* reason of the last refused rule */
};

/* Opens a shared port as hk_port_open() does, with up to @queues receive queues, if the device has
 * so many and a hardware method works. The limit is HK_STEER_MAX_QUEUES. Otherwise a NIC has
 * one queue. A virtual device keeps its queues, because it may spread frames by itself. All queues
 * share the port's pool; their rings are shorter, so that they need little more memory together.
 *
 * @sample is one user's match, for trial rules that are removed again. It is not an error if no
 * hardware method works. Frames may arrive on all of the queues (info.extra_queues), so the thread
 * that polls the port polls all of them. */
int hk_port_open_steered(const char *spec, unsigned buffers, unsigned queues,
			 const struct hk_steer_match *sample, int timeout_ms, struct hk_port **port,
			 struct hk_error *err);

/* Reports the steering of @spec without opening it. Returns 1 if its kind alone determines @out,
 * and 0 if the port must be opened to find out. A negative errno with a sentence: @spec does not
 * parse, or this node refuses such a port. */
int hk_steer_known(const char *spec, struct hk_steer_report *out, struct hk_error *err);

/* Reports the steering of an open port, whichever function opened it. */
void hk_port_steering(const struct hk_port *port, struct hk_steer_report *out);

/* Adds a rule: from now on the frames of @match go to @queue (not 0), which has no rule yet. Codes:
 * -ENOTSUP no hardware method works on this port; -EINVAL no such queue, or it has a rule. With
 * other codes the driver refused the rule, for example because its table is full. After an error
 * the frames arrive as before. */
int hk_steer_add(struct hk_port *port, unsigned queue, const struct hk_steer_match *match,
		 struct hk_error *err);

/* Removes @queue's rule, if it has one. Frames may still wait in the queue. */
void hk_steer_remove(struct hk_port *port, unsigned queue);

#pragma GCC visibility pop

#endif
