/* SPDX-License-Identifier: BSD-3-Clause */
/* worker/peers.h: peers that appear, restart, leave or are given up. */
#ifndef HK_WORKER_PEERS_H
#define HK_WORKER_PEERS_H

#include "worker/internal.h"

/* Frames to @p go to @mac by the port of @txq. */
void hk_peer_learn(struct hk_worker *w, hk_peer p, const uint8_t mac[6], uint16_t txq);

/* Something for @p was lost here: the application gets @why, unless the engine has a reason to
 * report. */
void hk_peer_disconnect(struct hk_worker *w, hk_peer p, enum hk_disconnect_reason why);

/* @p has sent BYE. */
void hk_peer_left(struct hk_worker *w, hk_peer p);

/* @p has another incarnation than before, if there was one before. */
void hk_peer_restarted(struct hk_worker *w, hk_peer p);

/* Frees what waits for, or came from, a peer or an earlier incarnation of it. */
void hk_peer_forget(struct hk_worker *w, hk_peer p);

/* The application polls again: does the same for all peers that have ended. */
void hk_peers_forget_ended(struct hk_worker *w);

/* For the application's thread only, as handlers are: calls `lost` and `path_down`. */
void hk_peers_report(struct hk_worker *w);

/* Call it before the application uses @p. It removes the rest of a connection that ended while a
 * progress proxy polled. */
static inline void hk_peer_forget_ended(struct hk_worker *w, hk_peer p)
{
	if (HK_UNLIKELY(w->peer[p].ended_unseen))
		hk_peer_forget(w, p);
}

#endif
