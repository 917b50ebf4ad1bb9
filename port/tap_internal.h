/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/tap_internal.h: between the tap's thread, which speaks with those who capture (tap_server.c), and what
 * copies frames (tap.c).
 */
#ifndef HK_PORT_TAP_INTERNAL_H
#define HK_PORT_TAP_INTERNAL_H

#include "port/tap_ring.h"

/* From now on frames are copied to @ring, which has @size bytes behind its head and cannot shrink. */
void hk_tap_attach(struct hk_tap_ring *ring, uint64_t size, uint32_t snaplen, uint32_t flags);

/* No longer: nobody touches the ring when this returns. */
void hk_tap_detach(void);

#endif
