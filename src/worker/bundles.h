/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/bundles.h: small messages that wait share a frame, a *bundle* (wire/bundle.h).
 */
#ifndef HK_WORKER_BUNDLES_H
#define HK_WORKER_BUNDLES_H

#include "worker/internal.h"

/* The message in @b must wait in the peer's send queue. If the last message there is small, as @b
 * is, the function adds @b to it and releases @b. Returns whether it did. */
bool hk_bundle_join(struct hk_worker *w, hk_peer p, hk_buf *b);

/* Hands each message of the bundle in @iov to its handler, up to a record that breaks a rule. */
void hk_bundle_deliver(struct hk_worker *w, hk_peer p, const struct hk_iov *iov);

/* The same with the rest of w->bundle, if a handler calls progress. */
void hk_bundle_continue(struct hk_worker *w);

#endif
