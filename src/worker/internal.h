/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/internal.h: struct hk_worker, made of parts by concern, and the list of files.
 *
 *   concern       header            files
 *   worker        internal.h        worker.c        opening, closing, ports
 *                 memory.h          memory.c        private memory, or shared with the poller
 *                                   open_port_spec.c, service.c
 *   peers         peer.h, peers.h   peers.c         adding peers, and ended connections
 *                 paths.h           paths.c         several ports that reach one peer
 *                 wakeup.h          wakeup.c        waking the pollers of silent peers
 *   sending       txq.h, tx.h       tx.c            buffers, transmit queues, messages, resends
 *                 bundles.h         bundles.c       small messages that share a frame
 *                 buf.h                             notes in frame buffers and receive buffers
 *   protection    protect.h         protect.c       checksums, tags and encryption of frames
 *   receiving     rx.h              rx.c            progress: frames, handlers, timers
 *                 reorder.h         reorder.c       messages that arrived before an earlier one
 *                 rx_backlog.h      rx_backlog.c    messages for a rank that is not polling
 *                                   mcast.c         one frame for a group of receivers
 *   one-sided     region.h          region.c        the table of regions, and its checks
 *                 rma_internal.h    put.c, get.c    puts and gets, ours and our peers'
 *                                   notify.c        puts that notify their target
 *                                   layout.c        memory blocks that hold a message
 *                 atomic_ops.h      atomic.c        atomic operations, ours and our peers'
 *                 rpc.h             procedure.c     procedures that peers call
 *                 pending_reply.h   pending_reply.c requests whose replies found no buffer
 *   progress      lock.h                            the lock between rank and progress proxy
 *   proxies       proxy.h           proxy.c         progress thread, RMA proxy, poller
 *
 * The headers above that hold state (peer.h, txq.h, buf.h, region.h, rpc.h, atomic_ops.h,
 * rx_backlog.h, proxy.h, lock.h) do not know struct hk_worker. The others include
 * this file.
 */
#ifndef HK_WORKER_INTERNAL_H
#define HK_WORKER_INTERNAL_H

#include "hikyaku/mcast.h"
#include "hikyaku/worker.h"
#include "worker/atomic_ops.h"
#include "worker/buf.h"
#include "worker/lock.h"
#include "worker/peer.h"
#include "worker/private.h"
#include "worker/proxy.h"
#include "worker/region.h"
#include "worker/rpc.h"
#include "worker/rx_backlog.h"
#include "worker/txq.h"

#include <rte_cycles.h>

/* The peers' gets that this worker serves; each is a put of its own. */
struct hk_get_replies {
	struct hk_op *op;     /* HK_GET_REPLIES, and one for each peer */
	unsigned fresh;       /* those from here on have not been used */
	struct hk_item *free; /* of those before */
	unsigned available;   /* of HK_GET_REPLIES */
	unsigned unsent;      /* of all peers, with bytes to send */
};

/* A bundle while its messages are delivered. */
struct hk_bundle {
	const void *base;
	size_t len, at; /* `at`: of the next record */
	hk_peer peer;
};

struct hk_worker {
	struct hk_engine *engine;
	struct hk_seal *seal; /* keys of frames; NULL: they have none */
	uint64_t stranger_at; /* ns: nobody is asked about an unknown endpoint before */
	struct hk_worker_config cfg;
	struct hk_biased_lock lock;
	uint64_t ns_mult; /* ns = ticks of the time stamp counter * ns_mult >> 32 */
	bool shared;      /* with hikyakud's poller: hk_worker_share() */
	bool by_poller;   /* the poller drives it now: the application's memory is out of reach */
	_Atomic uint64_t app_polled_at; /* ns: when the application's thread polled last */
	uint64_t polled_at;             /* ns: when anybody polled last, as far as noted */
	struct {
		uint64_t at;            /* ns: time of the next check for silent peers */
		unsigned skip;          /* silent peers that the last check has covered */
		uint64_t own_poller_at; /* ns: when our own poller was woken last */
	} wakeup;
	bool not_polling;     /* nobody polled for a while; until the ports are empty */
	unsigned txqs;        /* of `txq` */
	unsigned cheap_ports; /* of these, whose polls make no system call */
	unsigned idle_polls;  /* since a frame came */
	unsigned gather;      /* above 0: frames wait for hk_txqs_flush() */
	size_t frame_payload; /* bytes of a frame's payload, at most */
	size_t trailer;       /* bytes kept free behind the payload */
	struct hk_bufs bufs;
	bool tx_waiting;         /* some txq has frames waiting */
	bool in_burst;           /* handling frames of a poll; housekeep() follows */
	bool more_frames;        /* behind the one that is being handled, from the same poll */
	bool has_paths;          /* some peer has several paths */
	unsigned polls_per_call; /* of the ports, in one call of progress, while they are empty */
	uint32_t list[HK_LISTS]; /* the first peer of each, or HK_PEER_NONE */
	struct hk_txq *txq[HK_MAX_PORTS];
	struct hk_worker_peer *peer; /* by hk_peer */
	unsigned peers_added;        /* by the application */
	uint32_t peers_fresh;        /* records from here on have not been written */
	struct {
		hk_am_fn fn;
		void *arg;
	} am[256];
	struct hk_worker_counters n;
	struct hk_regions regions;
	struct hk_get_replies get_replies;
	struct hk_atomic_ops atomic_ops;
	struct hk_rpcs rpcs;
	struct hk_mcast *mcast_listeners;
	struct hk_bundle *bundle; /* that is being delivered, or NULL */
	hk_buf *puts_acked; /* frames of puts that a progress proxy reaped for the application */
	struct hk_item_list completions; /* operations of which `done` has not been called */
	_Atomic uint32_t progress_calls; /* the progress thread sees by it whether the rank polls */
	struct hk_rx_backlog rx_backlog;
	struct hk_rma_proxy rma_proxy;
	struct hk_progress_thread thread;
	char *mem_next, *mem_end; /* free part of cfg.memory */
	const char *broken_text;  /* why the worker is broken */
	bool broken_reported;
};

/* Messages of the worker's own, which the application does not see. */
static inline bool hk_am_own(uint8_t am)
{
	return am >= HK_WIRE_AM_ATOMIC;
}

/* Bytes of the largest frame that the worker sends. */
static inline size_t hk_worker_frame_max(const struct hk_worker *w)
{
	return w->frame_payload + HK_WIRE_PUT_OVERHEAD + w->trailer;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Nanoseconds of the time stamp counter @tsc. */
static inline uint64_t hk_time_of(const struct hk_worker *w, uint64_t tsc)
{
	return (uint64_t)(((unsigned __int128)tsc * w->ns_mult) >> 32);
}

static inline uint64_t hk_now(const struct hk_worker *w)
{
	return hk_time_of(w, rte_rdtsc());
}

/* ---- lists of peers -------------------------------------------------------------------------- */

/* Has the list @l any peer? */
static inline bool hk_peers_listed(const struct hk_worker *w, enum hk_peer_list l)
{
	return w->list[l] != HK_PEER_NONE;
}

static inline void hk_peer_list_add(struct hk_worker *w, enum hk_peer_list l, hk_peer p)
{
	struct hk_worker_peer *peer = &w->peer[p];

	if (peer->listed & 1u << l)
		return;
	peer->listed |= (uint8_t)(1u << l);
	peer->next[l] = w->list[l];
	w->list[l] = p;
}

/* One step of a walk: *@link is the current peer, which leaves the list unless it @stays. */
static inline uint32_t *hk_peer_list_step(struct hk_worker *w, enum hk_peer_list l, uint32_t *link,
					  bool stays)
{
	struct hk_worker_peer *peer = &w->peer[*link];

	if (stays)
		return &peer->next[l];
	peer->listed &= (uint8_t) ~(1u << l);
	*link = peer->next[l];
	return link;
}

/* Removes the first; HK_PEER_NONE if there is none. */
static inline hk_peer hk_peer_list_pop(struct hk_worker *w, enum hk_peer_list l)
{
	hk_peer p = w->list[l];

	if (p != HK_PEER_NONE)
		hk_peer_list_step(w, l, &w->list[l], false);
	return p;
}

#endif
