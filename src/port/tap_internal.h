/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/tap_internal.h: the interface between the tap's thread (tap_server.c) and the code that
 * copies frames (tap.c).
 */
#ifndef HK_PORT_TAP_INTERNAL_H
#define HK_PORT_TAP_INTERNAL_H

#include "port/tap_ring.h"

/* Starts copying frames to @ring, which has @size bytes behind its head and cannot shrink. */
void hk_tap_attach(struct hk_tap_ring *ring, uint64_t size, uint32_t snaplen, uint32_t flags);

/* Stops copying. No thread uses the ring any longer when this returns. */
void hk_tap_detach(void);

#endif
