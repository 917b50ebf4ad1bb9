/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/protect.h: what the worker's protection (docs/wire.md) adds to a frame before it leaves,
 * and checks when one arrives.
 *
 * DESIGN NOTES
 *
 * A checksum and a tag are written behind the payload of the frame buffer itself, at each
 * transmission. An encrypted frame is a copy. The buffer keeps its plain bytes, because it may have
 * to be sent again, and encryption writes elsewhere in the same pass. So with HK_PROTECTION_SEAL
 * the driver never has a buffer of ours. Every port can then send a frame whose payload lies in the
 * caller's memory (lend.h).
 */
#ifndef HK_WORKER_PROTECT_H
#define HK_WORKER_PROTECT_H

#include "worker/internal.h"

/* Opens the worker's side of protected frames. @job_key: see struct hk_worker_config. */
int hk_protect_open(struct hk_worker *w, struct hk_error *err);
void hk_protect_close(struct hk_worker *w);

/* Bytes of memory for it. */
size_t hk_protect_size(const struct hk_worker_config *cfg);

/* @b is a complete frame without a trailer, whose data begins with its Ethernet header. Returns
 * what the driver gets: @b itself, or an encrypted copy. NULL if there is no buffer, or no key for
 * @p: the same as one more loss. */
hk_buf *hk_protect_out(struct hk_worker *w, hk_peer p, hk_buf *b);

/* The same for a frame that is not sent again. @b passes to the call, also with NULL. */
hk_buf *hk_protect_out_once(struct hk_worker *w, hk_peer p, hk_buf *b);

/* Checks and decrypts a received frame. False: it was counted, and is to be dropped. The engine
 * refuses by itself what is malformed. */
bool hk_protect_in(struct hk_worker *w, struct rte_mbuf *m, uint64_t now, bool by_proxy);

#endif
