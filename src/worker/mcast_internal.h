/* SPDX-License-Identifier: BSD-3-Clause */
/* worker/mcast_internal.h: what rx.c needs of multicasts. */
#ifndef HK_WORKER_MCAST_INTERNAL_H
#define HK_WORKER_MCAST_INTERNAL_H

#include "worker/internal.h"

/* A frame of type MCAST has arrived. */
void hk_mcast_receive(struct hk_worker *w, const struct hk_frame *frame);

/* Checks and decrypts a frame with a key that may be a multicast. False: no listener has its key,
 * or it is forged. */
bool hk_mcast_open_frame(const struct hk_worker *w, const struct hk_wire_sealed *f);

#endif
