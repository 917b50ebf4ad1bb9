/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/tap.h: the frames that this process's ports move, for whoever captures them.
 *
 * hk_port_rx() and hk_port_tx() test hk_tap_on, and that is all that a tap costs while nobody captures.
 * While somebody does, the frames that they move are copied into a ring (port/tap_ring.h): what arrived,
 * and what the driver took, so each frame once for each port. What cannot be copied is counted; nothing
 * is ever waited for. Frames meet the faults of a port (port/faults.h) beyond its tap.
 *
 * Threads: open and close by one thread. While a capture runs, frames that two threads move at the very same
 * time are not both captured: one thread's are counted as dropped. The tap has a thread of its own, which
 * sleeps until somebody wants to capture.
 */
#ifndef HK_PORT_TAP_H
#define HK_PORT_TAP_H

#include "base/common.h"
#include "base/error.h"

#include <stdatomic.h>

struct hk_port;
struct rte_mbuf;

/* Lets the processes of this user, and root, capture what this process moves; @who tells them what it is
 * ("rank 3"), at most 200 characters; @shared is the name of the memory that it shares with a hikyakud, or
 * NULL. Once a process, until hk_tap_close(). Returns 0, or a negative
 * errno with a sentence: then all works, but nobody can capture. */
int hk_tap_open(const char *who, const char *shared, struct hk_error *err);

/* From now on, who asks the tap what this process counts gets what @write writes: JSON of at most @room bytes; it
 * returns how many, or 0 for none. It runs in the tap's thread. NULL: nobody gets anything, and when this returns @write
 * does not run any more. By one thread. */
void hk_tap_stats(size_t (*write)(char *text, size_t room));

/* Ends a capture that runs. Before the code is unloaded. Does nothing if the tap is not open. */
void hk_tap_close(void);

/* ---- for port.h and port/ alone ---------------------------------------------------------------- */

extern _Atomic bool hk_tap_on;

uint16_t hk_tap_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_tap_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);

/* @port will not be used any more under its number, which the next one may get. */
void hk_tap_forget(const struct hk_port *port);

#endif
