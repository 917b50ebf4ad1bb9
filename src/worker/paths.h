/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/paths.h: by which port a frame goes to a peer that several ports reach.
 */
#ifndef HK_WORKER_PATHS_H
#define HK_WORKER_PATHS_H

#include "worker/internal.h"

struct hk_tx_path {
	uint8_t eth[HK_ETH_HLEN]; /* Ethernet header of every frame */
	uint16_t txq;
	uint32_t in_flight;          /* frames */
	unsigned consecutive_losses; /* frames lost since one was acknowledged */
	uint64_t silent_since;       /* ns: the first of those losses; 0: none */
	uint64_t others_acked;       /* the peer's `acked` at that time */
	uint64_t paused_until;       /* ns; 0: in use */
	unsigned pauses_in_vain;     /* since a frame was acknowledged */
	bool reported;               /* a pause was reported */
};

struct hk_tx_paths {
	unsigned count;
	unsigned next;      /* among equals, the choice goes round */
	unsigned bulk;      /* the path of bulk, plus 1; 0: all are equals */
	uint64_t acked;     /* frames acknowledged on any path */
	uint64_t resume_at; /* ns: when the first paused path is tried again */
	struct hk_tx_path path[HK_PATHS_MAX];
};

/* How one frame leaves. */
struct hk_tx_route {
	const uint8_t *eth;
	uint16_t txq;
	uint8_t path; /* number that the engine knows */
};

int hk_paths_set(struct hk_worker *w, hk_peer p, const struct hk_peer_addr *a);
void hk_paths_drop(struct hk_worker *w, hk_peer p);

/* Chooses a path. A stuck one only if all that are not paused are stuck: then frames wait. */
unsigned hk_path_pick(struct hk_worker *w, hk_peer p, bool bulk, uint64_t now);

/* A frame was sent on path @i, acknowledged, or lost. A lost one is sent again on @path. */
void hk_path_sent(struct hk_worker *w, struct hk_tx_paths *paths, unsigned i, size_t bytes);
void hk_path_acked(struct hk_worker *w, const struct hk_buf_note *note);
void hk_path_lost(struct hk_worker *w, hk_peer p, struct hk_buf_note *note, unsigned path);

/* The path for an acknowledgement. */
const struct hk_tx_path *hk_path_for_reply(const struct hk_worker *w, const struct hk_peer_tx *tx);

/* Reports pauses to the application. */
void hk_paths_report(struct hk_worker *w);

/* A path of bulk has what takes more frames than these. Fewer are slower by UDP sockets. */
#define HK_FEW_FRAMES 4

/* How the next frame to @p leaves. @bulk: it belongs to a transfer of bulk; @of_many: it is one of
 * more than HK_FEW_FRAMES that bring data. */
static inline struct hk_tx_route hk_tx_route(struct hk_worker *w, hk_peer p, bool bulk,
					     bool of_many, uint64_t now)
{
	const struct hk_peer_tx *tx = &w->peer[p].tx;
	uint16_t txq = bulk ? tx->bulk_txq : tx->txq;

	if (HK_UNLIKELY(tx->paths != NULL)) {
		unsigned i = hk_path_pick(w, p, tx->paths->bulk ? of_many : bulk, now);

		return (struct hk_tx_route){tx->paths->path[i].eth, tx->paths->path[i].txq,
					    (uint8_t)i};
	}
	return (struct hk_tx_route){tx->eth, txq, txq != tx->txq};
}

#endif
