/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/priority.h: small frames leave with a priority tag, for networks that know classes.
 *
 * The tag is the one of IEEE 802.1Q with VLAN 0: a priority, and no VLAN. A switch that is told to
 * trust it sends such frames before others. So small messages and control frames do not wait behind
 * bulk. The spec key `priority` asks for it (docs/ports.md).
 *
 * Frames are *small* below HK_PORT_SMALL_FRAME bytes. A port copies each of them into memory of its
 * own: its sender may keep a reference, and many drivers cannot add a tag. It takes the tags off
 * what it receives. The tap (port/tap.h) sees frames without tags.
 */
#ifndef HK_PORT_PRIORITY_H
#define HK_PORT_PRIORITY_H

#include "port/port.h"

#pragma GCC visibility push(default)

/* The longest packet of the engine that is not bulk (HK_LONG_FRAME), with all headers, and one
 * byte: src/worker/tx.c checks that. */
#define HK_PORT_SMALL_FRAME 1118u

/* From now on the started @port tags small frames with @priority, 1 to 7. -ENOMEM: there is no
 * memory for the copies. */
int hk_priority_attach(struct hk_port *port, unsigned priority, struct hk_error *err);

/* Ends that, and frees the memory. The device may hold no copy any more. */
void hk_priority_detach(struct hk_port *port);

#pragma GCC visibility pop

/* rx and tx of a port with a priority. A frame leaves without a tag if there is no buffer for its
 * copy. */
uint16_t hk_priority_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_priority_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);

#endif
