/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/tap.h: the tap, which copies the frames of this process's ports for captures.
 *
 * Without a capture the tap costs one test of hk_tap_on in hk_port_rx() and hk_port_tx(). During a
 * capture these functions copy received frames, and frames that the driver accepted, into a ring
 * (port/tap_ring.h): each frame once for each port. They count frames that they cannot copy, and
 * never wait. Fault injection (port/faults.h) comes after the tap.
 *
 * Threads. One thread opens and closes the tap. If two threads move frames at the same moment
 * during a capture, only those of one thread are captured; the others count as dropped. The tap has
 * a thread of its own, which sleeps until a capture begins.
 */
#ifndef HK_PORT_TAP_H
#define HK_PORT_TAP_H

#include "base/common.h"
#include "hikyaku/error.h"

#include <stdatomic.h>

#pragma GCC visibility push(default)

struct hk_port;
struct rte_mbuf;

/* Lets processes of this user and of root capture the frames of this process. @who names the
 * process to them ("rank 3"), in at most 200 characters. @shared is the name of the memory that it
 * shares with a hikyakud, or NULL. A process opens its tap once, until hk_tap_close(). Returns 0,
 * or a negative errno with a sentence: the process works then, but cannot be captured. */
int hk_tap_open(const char *who, const char *shared, struct hk_error *err);

/* Sets the function that writes this process's counters for other processes. @write writes JSON of
 * at most @size bytes and returns their number, or 0 for none; it runs in the tap's thread. With
 * NULL there are no counters, and @write no longer runs when this returns. One thread may call it.
 */
void hk_tap_stats(size_t (*write)(char *text, size_t size));

/* Ends a running capture and closes the tap. Call it before the code is unloaded. Without an open
 * tap it has no effect. */
void hk_tap_close(void);

/* ---- for src/port only ----------------------------------------------------------------------- */

extern _Atomic bool hk_tap_on;

uint16_t hk_tap_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_tap_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);

/* Reports that @port is closed, so that another port may get its number. */
void hk_tap_forget(const struct hk_port *port);

#pragma GCC visibility pop

#endif
