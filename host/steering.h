/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/steering.h: what port/steer.h means for hikyakud: queue slot + 1 of its port is for the rank in
 * @slot, if the port can be told so; queue 0 is for the rest.
 *
 * Threads: the daemon's main thread; the switch polls the queues meanwhile.
 */
#ifndef HK_HOST_STEERING_H
#define HK_HOST_STEERING_H

#include "host/resources.h"
#include "port/steer.h"

/* What distinguishes the frames of slot @slot's rank on a port of address @mac. */
void hk_steering_match(unsigned slot, uint32_t endpoint, const uint8_t mac[6],
		       struct hk_steer_match *m);

/* Opens the one port of host mode daemon with a queue for each of @slots, as far as can be. */
int hk_steering_open(const char *spec, unsigned buffers, unsigned slots, int timeout_ms,
		     struct hk_port **port, struct hk_error *err);

/* Has the NIC send the frames of a rank to its slot's queue. @mac is the address that the rank shall use: the
 * port's, unless rules go by MAC and this one could be made. That there is none is no error: the switch
 * looks into the frames. */
void hk_steering_give(struct hk_port *port, unsigned slot, uint32_t endpoint, uint8_t mac[6]);
void hk_steering_take(struct hk_port *port, unsigned slot);

/* As people and programs are told. */
void hk_steering_tell(const struct hk_steer_report *report, struct hk_res_steering *out);

#endif
