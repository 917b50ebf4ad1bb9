/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/control_message.h: the control message, and the parts that the control*.c files
 * share. Private to them.
 */
#ifndef HK_HALO_CONTROL_MESSAGE_H
#define HK_HALO_CONTROL_MESSAGE_H

#include "halo/promote/ends.h"
#include "halo/promote/promote.h"

#include "ompi/mca/coll/base/coll_tags.h"

/* The MPI tag of the message that answers FLUSH; openmpi/btl/coll_tags.h has the others. */
#define HK_CONTROL_FLUSHED_TAG (MCA_COLL_BASE_TAG_HCOLL_END + 4)

enum hk_control_kind {
	HK_CONTROL_PROPOSE = 1,
	HK_CONTROL_ACCEPT,
	HK_CONTROL_REFUSE,
	HK_CONTROL_COMMIT,
	HK_CONTROL_WITHDRAW,
	HK_CONTROL_ASK,
	HK_CONTROL_END,
	HK_CONTROL_FLUSH,
	HK_CONTROL_ASK_TAKEN,
	HK_CONTROL_TAKEN,
};

/* Why a receiver refuses a proposal, or asks for the end. */
enum hk_control_reason {
	HK_REASON_ENDING,
	HK_REASON_WILDCARD,
	HK_REASON_NOT_WATCHED,
	HK_REASON_UNREACHABLE,
	HK_REASON_NO_MEMORY,
	HK_REASON_CLOSING,
	HK_REASONS, /* none */
};

struct hk_control_message {
	uint32_t kind, reason;
	uint32_t cid;
	uint32_t own_id, peer_id; /* of the end that sends this, and of the other one */
	int32_t tag;              /* of the channel */
	int32_t from;             /* the sender's rank in the communicator */
	uint32_t margin;
	uint32_t untaken;      /* of END: number of put positions that follow */
	uint32_t order_number; /* of END: number of the send order; 0: none */
	uint64_t index;        /* of a message in the channel */
	struct hk_identity me;
	struct hk_schedule schedule;
	hk_region region[HK_STREAMS_MAX];
	uint32_t taken[HK_STREAMS_MAX]; /* of TAKEN: number of the last put of each size */
};

/* An END continues with the positions of the puts that were not taken, and with the send order,
 * unless another END has brought that. */
#define HK_CONTROL_UNTAKEN_BYTES (HK_UNTAKEN_MAX * sizeof(struct hk_put_position))
#define HK_CONTROL_MAX                                                                             \
	(sizeof(struct hk_control_message) + HK_CONTROL_UNTAKEN_BYTES + HK_SEND_ORDER_MAX)

_Static_assert(HK_UNTAKEN_MAX == HK_STREAM_DEPTH * HK_STREAMS_MAX,
	       "all puts that may not be taken");
_Static_assert(sizeof(struct hk_control_message) % _Alignof(struct hk_put_position) == 0,
	       "put positions follow the message");
_Static_assert(_Alignof(struct hk_put_position) == _Alignof(struct hk_send_order),
	       "a send order follows the put positions");

/* A message of this rank; its buffer is in use until the request is complete. */
struct hk_control_sent {
	MPI_Request request;
	struct hk_control_sent *next;
	char bytes[];
};

/* ---- control.c */
/* Sends @c. */
void hk_control_send(int world_rank, const struct hk_control_message *c);
/* Sends @c and the bytes behind it. */
void hk_control_send_bytes(int world_rank, const struct hk_control_message *c, size_t bytes);
/* Frees @s when its request is complete. */
void hk_control_track(struct hk_control_sent *s);
/* Adds an end to the table. Returns its number. */
uint32_t hk_control_add_end(enum hk_end_kind kind, int world_rank, void *end);
/* The end that @world_rank names by c->peer_id; NULL: it may not name it, or the end is gone. */
struct hk_sender *hk_control_find_sender(int world_rank, const struct hk_control_message *c);
struct hk_receiver *hk_control_find_receiver(int world_rank, const struct hk_control_message *c);

static inline int hk_control_world_rank(const struct hk_comm *c, int peer)
{
	const char *why;

	return hk_comm_world_rank(c->comm, peer, &why);
}

/* ---- control_sender.c: messages of a receiver */
void hk_control_on_accept(int world_rank, const struct hk_control_message *c);
void hk_control_on_refuse(int world_rank, const struct hk_control_message *c);
void hk_control_on_ask(int world_rank, const struct hk_control_message *c);
void hk_control_on_flush(int world_rank, const struct hk_control_message *c);
void hk_control_on_taken(int world_rank, const struct hk_control_message *c);

/* ---- control_receiver.c: messages of a sender */
void hk_control_on_propose(int world_rank, const struct hk_control_message *c);
void hk_control_on_commit(int world_rank, const struct hk_control_message *c); /* or WITHDRAW */
/* @rest: the @bytes that follow @c. */
void hk_control_on_end(int world_rank, const struct hk_control_message *c, const char *rest,
		       size_t bytes);
void hk_control_on_ask_taken(int world_rank, const struct hk_control_message *c);

#endif
