/* SPDX-License-Identifier: BSD-3-Clause */
/* worker/mcast_internal.h: what rx.c needs of multicasts. */
#ifndef HK_WORKER_MCAST_INTERNAL_H
#define HK_WORKER_MCAST_INTERNAL_H

#include "worker/internal.h"

/* A frame of type MCAST has arrived. */
void hk_mcast_receive(struct hk_worker *w, const struct hk_frame *frame);

#endif
