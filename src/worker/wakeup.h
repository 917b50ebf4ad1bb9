/* SPDX-License-Identifier: BSD-3-Clause */
/* worker/wakeup.h: waking the pollers of peers that do not answer, and our own. */
#ifndef HK_WORKER_WAKEUP_H
#define HK_WORKER_WAKEUP_H

#include "worker/internal.h"

void hk_wakeup_silent_peers(struct hk_worker *w, uint64_t now);
void hk_wakeup_own_poller(struct hk_worker *w);

#endif
