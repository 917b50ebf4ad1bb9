/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/peer.h: what the worker knows of one peer, by concern, and the lists of peers for which
 * something waits.
 */
#ifndef HK_WORKER_PEER_H
#define HK_WORKER_PEER_H

#include "seal/seal.h"
#include "worker/buf.h"

/* Lists of the peers for which something waits, so that no walk goes over all peers for a few. A
 * peer stays in a list until a walk of it finds that nothing waits any more. */
enum hk_peer_list {
	HK_LIST_SEND_QUEUE,      /* its send queue is not empty */
	HK_LIST_GETS,            /* gets that have not been requested */
	HK_LIST_ATOMIC_OPS,      /* atomic operations that have not been requested */
	HK_LIST_PENDING_REPLIES, /* its requests whose replies found no buffer */
	HK_LIST_REORDER,         /* reordered messages are due, and the rx backlog was full */
	HK_LIST_ENDED,           /* `ended_unseen`, or with a `pending_disconnect` */
	HK_LIST_PATHS,           /* one of its paths is paused, and that is not reported */
	HK_LISTS,
};

/* Frames to the peer: paths.h has several ports. */
struct hk_peer_tx {
	/* Ethernet header of every frame to this peer. Its destination may be a tag, and then
	 * `function` goes into it; without one `function` is 0. */
	uint8_t eth[HK_ETH_HLEN];
	uint8_t function;
	uint16_t txq;              /* for all frames except bulk */
	uint16_t bulk_txq;         /* for bulk: mostly the same */
	uint16_t reply_txq;        /* where its newest packet arrived: acks leave there */
	struct hk_tx_paths *paths; /* NULL: one path, by the fields above */
	struct hk_send_queue {
		struct hk_item *head, *tail; /* links as hk_put_link() makes them */
		struct hk_item_list replies; /* puts that serve gets */
		uint8_t sent;                /* of the others in their turn */
		bool reply_next;             /* the turn of replies has come */
		unsigned len;                /* messages and puts, without replies */
		uint64_t bulk; /* sum of `len` of all packets in it that need a grant */
	} queue;               /* buffers and puts that wait until the window has space */
};

struct hk_peer_rx {
	uint32_t next;                 /* all packets before this number are known to be here */
	struct rte_mbuf *reorder_head; /* reorder queue: messages, by packet number */
	struct rte_mbuf *reorder_tail; /* valid while `reorder_head` is not NULL */
};

struct hk_peer_rma {
	/* Gets that wait: HK_GETS_MAX are in flight, or a buffer or a region is missing. */
	struct hk_item_list gets;
	unsigned gets_in_flight;
	uint64_t gets_not_before; /* ns: the owner was busy */
	/* The peer's gets from this worker: those whose bytes may not all be acknowledged, those
	 * with bytes to send, and refusals in the send queue. A peer has at most HK_GETS_MAX gets
	 * in flight, so neither of the latter two exceeds that. */
	uint16_t get_replies, get_replies_unsent, refusals_queued;
};

struct hk_peer_atomic {
	struct hk_item_list ops; /* ours that have not been requested */
	uint16_t ops_in_flight;  /* ours that have been */
	uint16_t replies_queued; /* replies to the peer's operations, in the send queue */
	uint16_t replies_later;  /* its calls of procedures that will be answered later */
};

struct hk_worker_peer {
	struct hk_peer_tx tx;
	struct hk_peer_rx rx;
	struct hk_peer_rma rma;
	struct hk_peer_atomic atomic;
	struct hk_item_list pending_replies; /* pending_reply.c */
	unsigned pending_replies_len;
	struct hk_seal_peer seal; /* its keys, if frames have any */
	uint16_t incarnation;     /* how often the peer has restarted, as far as known */
	/* A progress proxy saw the connection end: what waits here is void and is not sent. */
	bool ended_unseen;
	/* enum hk_disconnect_reason: to be reported unless the engine reports another, because
	 * something for the peer was lost here. */
	uint8_t pending_disconnect;
	uint8_t listed;          /* a bit for each list that has this peer */
	uint32_t next[HK_LISTS]; /* the peer after this one in each list */
	char *name;
};

#endif
