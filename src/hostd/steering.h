/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/steering.h: steering for hikyakud's one port (port/steer.h). Queue slot + 1 is for the rank
 * in that slot, if the port supports such rules; queue 0 is for all other frames.
 *
 * Threads: the daemon's main thread. The switch polls the queues at the same time.
 */
#ifndef HK_HOSTD_STEERING_H
#define HK_HOSTD_STEERING_H

#include "hostd/resources.h"
#include "port/steer.h"

/* Fills @m with what distinguishes the frames of the rank in @slot, on a port of address @mac. */
void hk_steering_match(unsigned slot, uint32_t endpoint, const uint8_t mac[6],
		       struct hk_steer_match *m);

/* Opens the one port of mode daemon with a queue for each of @slots, or as many as it has. */
int hk_steering_open(const char *spec, unsigned buffers, unsigned slots, int timeout_ms,
		     struct hk_port **port, struct hk_error *err);

/* Adds a rule by which the NIC puts the frames of a rank on its slot's queue. @mac becomes the
 * address that the rank uses: the port's own, unless the rule goes by MAC address. A missing rule
 * is not an error, since the switch reads the address in each frame. */
void hk_steering_add(struct hk_port *port, unsigned slot, uint32_t endpoint, uint8_t mac[6]);
void hk_steering_remove(struct hk_port *port, unsigned slot);

/* Translates @report into names for people and programs. */
void hk_steering_describe(const struct hk_steer_report *report, struct hk_res_steering *out);

#endif
