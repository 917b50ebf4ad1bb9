/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/channel.h: communicators, the two ends of their channels, and the streams of
 * promoted channels (comm.c).
 */
#ifndef HK_HALO_CHANNEL_H
#define HK_HALO_CHANNEL_H

#include "halo/promote/pending.h"
#include "halo/promote/period.h"
#include "halo/promote/send_log.h"
#include "halo/promote/table.h"
#include "hikyaku/service.h"

/* Puts of a stream that may be in flight or not taken. */
#define HK_STREAM_DEPTH HK_NOTIFY_DEPTH
/* Puts whose taking the receiver reports at once, by one put back. It is half the depth, so that
 * neither end waits for reports while both keep step. */
#define HK_TAKEN_BATCH (HK_STREAM_DEPTH / 2)

#define HK_CHANNELS_MAX 16384 /* watched channels of a communicator, in each direction */
#define HK_PATTERNS_MAX 8

struct hk_sender;
struct hk_receiver;

/* A stream at its sender. */
struct hk_tx_stream {
	hk_region remote;
	uint32_t number;    /* number of the last put */
	uint32_t in_flight; /* puts that are not acknowledged */
	/* Receives the receiver's reports: HK_TAKEN_BATCH more puts were taken, or the last ones.
	 */
	struct hk_notify_target taken;
	uint32_t known_taken; /* all puts up to this number were taken, and perhaps more */
	struct hk_put_position order[HK_STREAM_DEPTH]; /* by number: the last puts */
};

/* A stream at its receiver. */
struct hk_rx_stream {
	struct hk_notify_target target;
	struct hk_block block; /* where the next put goes */
	char *staging;
	char *bounce;        /* for receives whose buffer has gaps or is too small; NULL: unused */
	hk_region taken;     /* of hk_tx_stream.taken */
	uint32_t reports;    /* reports sent to the sender */
	uint32_t unreported; /* puts taken since the last report */
	struct hk_pending_list waiting; /* receives */
	struct hk_receiver *receiver;
	struct hk_rx_stream *next; /* in the list that progress polls */
	bool open;                 /* the target is open for the first receive */
	bool listed;
};

enum hk_sender_state {
	HK_SENDER_PLAIN,    /* messages go by MPI */
	HK_SENDER_PROPOSED, /* messages go by MPI; the receiver has a proposal */
	HK_SENDER_PROMOTED, /* messages from `start` on go by puts */
	HK_SENDER_DRAINING, /* messages go by MPI; puts may not be taken yet */
};

struct hk_sender {
	struct hk_comm *comm;
	struct hk_send_pair *pair;
	int peer, tag;
	int pair_index;       /* in pair->sender */
	uint32_t first_bytes; /* size of the first message */
	uint64_t sent;        /* messages sent; number of the next one */
	uint64_t
		count_until; /* until this message nothing can be promoted: they are only counted */
	enum hk_sender_state state;
	uint64_t start;   /* first message of the promotion */
	uint64_t retry;   /* first message after which it may propose again */
	uint32_t backoff; /* messages until it proposes again after wildcard receives */
	uint8_t margin;   /* messages between a proposal and the start of a promotion */
	hk_peer to;
	uint32_t id, remote_id; /* of the two ends; 0: none */
	struct hk_schedule schedule;
	struct hk_tx_stream *tx;      /* by size of the schedule */
	struct hk_pending_list queue; /* messages that wait for a place in their stream */
	size_t copied_bytes;          /* of copies in the queue */
	struct hk_watch *watch;       /* NULL before the second message */
	const char *unpromotable;     /* why it is never promoted; NULL: it may be */
	struct hk_sender *next_queued;
	/* for HK_HALO_REPORT */
	uint64_t puts, put_bytes, bytes;
	unsigned promoted, demoted, ports;
	const char *why;
};

/* All that this rank sends to one rank of a communicator. */
struct hk_send_pair {
	int peer;
	int tags, capacity;     /* of `sender` */
	int queued;             /* senders with messages in their queue */
	bool too_many_tags;     /* nothing goes by puts */
	unsigned lines;         /* senders without puts that the report prints */
	unsigned lines_omitted; /* senders without puts that it only counts */
	struct hk_sender **sender;
	struct hk_send_log log;
	/* The last send order that was reported to the peer. */
	uint32_t order_number; /* 0: none */
	int order_tags;        /* tags at that time */
	uint64_t order_at;     /* messages sent at that time */
	uint64_t order_first;  /* the oldest message in it */
};

enum hk_receiver_state {
	HK_RECEIVER_PLAIN,    /* messages come by MPI */
	HK_RECEIVER_ACCEPTED, /* the sender may commit or withdraw; receives wait for that */
	HK_RECEIVER_PROMOTED, /* messages from `start` on come by puts */
	HK_RECEIVER_ENDING,   /* messages from `start` to `end` came by puts */
};

/* All that this rank receives from one rank of a communicator. */
struct hk_receive_pair {
	int peer;
	uint32_t order_number; /* of the last send order that the peer reported */
	struct hk_send_order *send_order;
	struct hk_receiver *first; /* hk_wildcard_pick(): the one whose next message is oldest */
};

struct hk_receiver {
	struct hk_comm *comm;
	struct hk_receive_pair *pair;
	int peer, tag;
	uint64_t posted; /* receives posted; number of the next one */
	enum hk_receiver_state state;
	bool end_requested;      /* this end has asked the sender to end */
	uint32_t wildcard_calls; /* hk_comm_wildcard_calls() at the last proposal */
	bool flushed;            /* all messages sent before the end have met their receive */
	uint64_t start, end;
	hk_peer from;
	uint32_t id, remote_id; /* of the two ends; 0: none */
	int world_rank;         /* of the peer in MPI_COMM_WORLD */
	struct hk_schedule schedule;
	struct hk_rx_stream *rx;          /* by size of the schedule */
	struct hk_pending_list undecided; /* receives posted in state ACCEPTED */
	struct hk_receiver *next_live;    /* of all receivers that are not plain */
	/* The order of sending when this channel ended, which channels share; NULL: the peer used
	 * no other tag. */
	struct hk_send_order *send_order;
	struct hk_put_position *untaken; /* puts that were perhaps not taken at that time */
	uint32_t untaken_count;
};

struct hk_comm {
	ompi_communicator_t *comm;
	uint32_t cid;
	int rank, size;
	bool closing;
	bool ignored;            /* between two groups or jobs: not watched */
	bool too_many_receivers; /* more than can be watched: nothing is promoted */
	struct hk_table senders, receivers;
	struct hk_table send_pairs, receive_pairs; /* by peer */
	uint64_t unwatched, unwatched_bytes;       /* messages on channels without a sender */
	int patterns;
	struct hk_pattern { /* a kind of wildcard receive or probe */
		int peer, tag;
		uint32_t calls;
	} pattern[HK_PATTERNS_MAX];
	int live_receivers; /* those that are not plain */
	int open_receivers; /* of these, those whose end is not known */
	struct hk_comm *next;
};

/* ---- comm.c */
extern struct hk_comm *hk_comm_last;           /* the one found last; NULL: none */
struct hk_comm *hk_comm_find(MPI_Comm comm);   /* finds or makes it; NULL: not watched */
struct hk_comm *hk_comm_lookup(MPI_Comm comm); /* NULL: not watched, not used or freed */
struct hk_comm *hk_comm_of_id(uint32_t cid);
/* Finds or makes the sender; NULL: too many channels. */
struct hk_sender *hk_sender_find(struct hk_comm *c, int peer, int tag);
/* Counts a message of a channel that is not watched. */
void hk_comm_count_unwatched(struct hk_comm *c, size_t bytes);
/* Finds or makes the receiver; NULL: too many channels. */
struct hk_receiver *hk_receiver_find(struct hk_comm *c, int peer, int tag);
struct hk_receiver *hk_receiver_lookup(struct hk_comm *c, int peer, int tag);
/* Finds or makes the receiver, whatever the number of channels. */
struct hk_receiver *hk_receiver_require(struct hk_comm *c, int peer, int tag);
/* The number of wildcard receives and probes that may have named this channel. */
uint32_t hk_comm_wildcard_calls(const struct hk_comm *c, int peer, int tag);
void hk_comm_free(struct hk_comm *c);
/* The program frees a communicator that is not watched. */
void hk_comm_forget(MPI_Comm comm);
void hk_comm_for_each(void (*each)(struct hk_comm *c));
/* The peer's rank in MPI_COMM_WORLD. *@why is set if it is on this node. */
int hk_comm_world_rank(ompi_communicator_t *comm, int peer, const char **why);

/* The ends that the program has named recently. Most calls search only here. */
#define HK_RECENT 256

struct hk_recent {
	MPI_Comm comm;
	int peer, tag;
	void *end; /* a sender or a receiver; NULL: none */
};

extern struct hk_recent hk_recent_senders[HK_RECENT], hk_recent_receivers[HK_RECENT];

static inline struct hk_recent *hk_recent_at(struct hk_recent *table, MPI_Comm comm, int peer,
					     int tag)
{
	uintptr_t at = ((uintptr_t)comm >> 6) + (unsigned)peer * 31U + (unsigned)tag;

	return &table[at % HK_RECENT];
}

/* NULL: not named recently. */
static inline void *hk_recent_find(struct hk_recent *table, MPI_Comm comm, int peer, int tag)
{
	const struct hk_recent *l = hk_recent_at(table, comm, peer, tag);

	return HK_LIKELY(l->comm == comm && l->peer == peer && l->tag == tag) ? l->end : NULL;
}

#endif
