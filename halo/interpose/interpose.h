/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/interpose.h: libhikyaku_halo.so, which a program preloads unchanged. It watches the program's
 * messages, and sends those that come again and again by puts (docs/halo.md, "Programs that stay as they are").
 *
 *   calls.c    the MPI functions that it stands in for: sends and receives (calls.h)
 *   probes.c   … probes
 *   persistent.c … and what makes, starts, cancels and frees requests
 *   start.c    Open MPI's own functions; MPI_Init and MPI_Finalize; what runs whenever MPI makes progress
 *   comm.c     communicators, and their channels
 *   table.c    … found by peer and tag (table.h)
 *   order.c    which messages to a rank were sent before which (order.h)
 *   past.c     … and who tells whom
 *   period.c   sizes that repeat (watch.h)
 *   control.c  what the two ends of a channel tell each other
 *   ends.c     … and the numbers by which they name each other (ends.h)
 *   out.c      the sender's end of a channel
 *   in.c       the receiver's
 *   wild.c     receives and probes that name no single channel
 *   loose.c    such receives, until it is known whose message they take
 *   request.c  requests of messages that go by puts, and persistent ones
 *   report.c   HK_HALO_REPORT
 *
 * A *channel* is (communicator, sender, receiver, tag). MPI matches its k-th message with the k-th receive that names it, so
 * both ends count, and can agree that from message k on it goes by puts. The sender sees sizes repeat, and proposes
 * (control.h); message k then has a size that both know, and each size has a *stream*: an inbox at the receiver
 * (fabric/notify.h), and one without bytes at the sender, which says how many puts were taken.
 *
 * Threads: none but the one that calls MPI; with MPI_THREAD_MULTIPLE nothing is promoted.
 */
#ifndef HK_HALO_INTERPOSE_H
#define HK_HALO_INTERPOSE_H

#include "halo/interpose/order.h"
#include "halo/interpose/table.h"
#include "halo/interpose/watch.h"
#include "mpi/service.h"

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/request/request.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* Puts of a stream that may be under way or not taken, and how many are told to be taken by one put back: half as
 * many, so that both ends of an exchange in step never wait for that. */
#define HK_PLACES       HK_INBOX_PLACES
#define HK_TOLD_AT_ONCE (HK_PLACES / 2)

/* The functions of Open MPI that the library's own stand in for. */
/* clang-format off */
#define HK_REAL_FUNCTIONS(X) \
	X(Init) X(Init_thread) X(Finalize) X(Send) X(Isend) X(Ssend) \
	X(Issend) X(Bsend) X(Ibsend) X(Rsend) X(Irsend) X(Recv) \
	X(Irecv) X(Sendrecv) X(Sendrecv_replace) X(Probe) X(Iprobe) X(Mprobe) \
	X(Improbe) X(Mrecv) X(Imrecv) X(Send_init) X(Ssend_init) X(Bsend_init) \
	X(Rsend_init) X(Recv_init) X(Start) X(Startall) X(Request_free) X(Cancel) \
	X(Comm_free) X(Comm_disconnect)
/* clang-format on */

struct hk_real {
#define HK_REAL_MEMBER(name) __typeof__(MPI_##name) *name;
	HK_REAL_FUNCTIONS(HK_REAL_MEMBER)
};

extern struct hk_real hk_real;

/* ---- what is where ------------------------------------------------------------------------------- */

struct hk_sender;
struct hk_receiver;

/* A message that goes, or a receive that waits for one, by puts; or by an MPI request (@inner) behind the program's. */
struct hk_pending {
	ompi_request_t own;   /* what the program holds, unless … */
	ompi_request_t *user; /* … it holds a persistent request; NULL: nobody waits */
	ompi_request_t *inner;
	struct hk_persistent *of;
	struct hk_pending *next;
	uint64_t index; /* in the channel */
	void *buf;
	int count;
	ompi_datatype_t *type; /* held, unless contiguous */
	uint32_t bytes;        /* of a send; room of a receive */
	char *copy;            /* ours: freed with it */
	uint64_t at;           /* as hk_order has it */
	int peer, tag;
	ompi_communicator_t *comm;
	bool contiguous, sends;
};

struct hk_list {
	struct hk_pending *head, **tail;
};

struct hk_persistent { /* a request of MPI_Send_init or MPI_Recv_init */
	ompi_request_t *request;
	void *buf;
	int count;
	ompi_datatype_t *type;
	int peer, tag;
	ompi_communicator_t *comm; /* NULL: the program has freed it */
	bool sends, standard;
	struct hk_pending *active;
	struct hk_persistent *next;
};

struct hk_tx_stream { /* a stream, at its sender */
	hk_region remote;
	uint32_t number; /* of the last put */
	uint32_t flying; /* not yet acknowledged */
	struct hk_inbox
		taken;  /* each put of it: HK_TOLD_AT_ONCE more were taken, or the last were */
	uint32_t known; /* the number of the last put that is known to be taken, or more */
	struct hk_order order[HK_PLACES];
};

struct hk_rx_stream { /* … at its receiver */
	struct hk_inbox in;
	struct hk_block block;
	char *early, *scratch;
	hk_region taken;        /* the sender's */
	uint32_t tells, untold; /* told so often; taken since */
	struct hk_list waiting;
	struct hk_receiver *of;
	struct hk_rx_stream *next; /* of those that progress looks at */
	bool open, listed;
};

enum hk_out_state { HK_OUT_PLAIN, HK_OUT_PROPOSED, HK_OUT_PUT, HK_OUT_DRAIN };

struct hk_sender {
	struct hk_comm *comm;
	struct hk_pair *pair;
	int peer, tag, slot; /* slot: in the pair */
	uint32_t first;      /* bytes of its first message */
	uint64_t sent;       /* messages; the index of the next */
	uint64_t dull;       /* those before are only counted: nothing can be promoted until then */
	enum hk_out_state state;
	uint64_t start, retry;
	uint32_t patience; /* messages until it asks again where receives name no single channel */
	uint8_t margin;    /* messages until it may begin */
	hk_peer to;
	uint32_t id, theirs;
	struct hk_schedule schedule;
	struct hk_tx_stream *tx; /* one a size */
	struct hk_list held;
	size_t copied;          /* bytes of the held that are copies */
	struct hk_watch *watch; /* NULL before the second message */
	const char *never;      /* why it is not promoted */
	struct hk_sender *next_holding;
	/* HK_HALO_REPORT */
	uint64_t puts, put_bytes, bytes;
	unsigned promoted, demoted, ports;
	const char *why;
};

struct hk_pair { /* all that goes to one rank of a communicator */
	int peer;
	int tags, room, held;  /* held: channels with messages that wait */
	bool many;             /* too many tags: nothing goes by puts */
	unsigned told, untold; /* channels without puts that have a line of the report; others */
	struct hk_sender **out;
	struct hk_log log;
	/* The last past that was told: its number, 0: none; what it is of, and back to which message. */
	uint32_t past;
	int past_tags;
	uint64_t past_at, past_first;
};

enum hk_in_state { HK_IN_PLAIN, HK_IN_ACCEPTED, HK_IN_PUT, HK_IN_ENDING };

struct hk_in_pair { /* all that comes from one rank of a communicator */
	int peer;
	uint32_t number; /* of the last past that it told */
	struct hk_past *past;
	struct hk_receiver
		*first; /* of those that are looked at, whose next message was sent first */
};

struct hk_receiver {
	struct hk_comm *comm;
	struct hk_in_pair *pair;
	int peer, tag;
	uint64_t posted; /* receives; the index of the next */
	enum hk_in_state state;
	bool asked;    /* the sender, to end */
	uint32_t wild; /* hk_comm_wild() of the last proposal */
	bool settled;  /* all that was sent before it ended has met its receive */
	uint64_t start, end;
	hk_peer from;
	uint32_t id, theirs;
	int world; /* the peer's rank in MPI_COMM_WORLD */
	struct hk_schedule schedule;
	struct hk_rx_stream *rx;
	struct hk_list held;      /* posted, and not decided */
	struct hk_receiver *live; /* of all that are not plain */
	struct hk_past
		*past; /* when it ended, which others have too; NULL: no other tag was used */
	struct hk_order *order; /* of puts that were perhaps not taken then */
	uint32_t orders;
};

#define HK_CHANNELS_MOST 16384 /* of a communicator, each way; others are not watched */
#define HK_PATTERNS      8

struct hk_comm {
	ompi_communicator_t *comm;
	uint32_t cid;
	int rank, size;
	bool closing, dull; /* dull: between two groups, or jobs; not watched */
	bool in_many;       /* receives on more channels than are watched: none is promoted */
	struct hk_table out, in;
	struct hk_table pair, in_pair; /* by peer */
	uint64_t unwatched, unwatched_bytes;
	int patterns;
	struct hk_pattern { /* what was received or probed without naming a channel's receive */
		int peer, tag;
		uint32_t calls;
	} pattern[HK_PATTERNS];
	int live_ins, open_ins; /* not plain; of these, with an end that is not known */
	struct hk_comm *next;
};

/* ---- start.c */
extern const struct hk_btl_service *hk_service; /* NULL: everything goes by Open MPI */
extern const char *hk_service_why;
extern bool hk_watching;
/* Pieces of work that progress must look at: puts and receives under way, what is said to or by other ranks. */
extern int hk_busy;
/* Everything that can go on without the program; called by MPI's progress. */
int hk_progress(void);
void hk_start(void);
void hk_stop(void);
void hk_close(struct hk_comm *c);
__attribute__((noreturn)) void hk_broken(const char *what);

/* ---- comm.c */
extern struct hk_comm *hk_comm_last;          /* which was found last; NULL: none */
struct hk_comm *hk_comm_find(MPI_Comm comm);  /* NULL: not watched */
struct hk_comm *hk_comm_known(MPI_Comm comm); /* … or not used, or freed */
struct hk_comm *hk_comm_of_id(uint32_t cid);
struct hk_sender *hk_out_find(struct hk_comm *c, int peer, int tag); /* … or made; NULL: too many */
/* A message of so many bytes goes on a channel that is not watched. */
void hk_out_unwatched(struct hk_comm *c, size_t bytes);
struct hk_receiver *hk_in_find(struct hk_comm *c, int peer, int tag);
struct hk_receiver *hk_in_known(struct hk_comm *c, int peer, int tag);
/* As hk_in_find(), and never NULL. */
struct hk_receiver *hk_in_need(struct hk_comm *c, int peer, int tag);
/* How many receives and probes of others may have named this channel? */
uint32_t hk_comm_wild(const struct hk_comm *c, int peer, int tag);
void hk_comm_gone(struct hk_comm *c);
void hk_comm_forget(MPI_Comm comm);
void hk_comm_each(void (*each)(struct hk_comm *c));
int hk_world_rank(ompi_communicator_t *comm, int peer, const char **why);

/* The ends that the program named lately, so that most calls look up no more than this. */
#define HK_LATELY 256

struct hk_lately {
	MPI_Comm comm;
	int peer, tag;
	void *end; /* a sender, or a receiver; NULL: none */
};

extern struct hk_lately hk_outs_lately[HK_LATELY], hk_ins_lately[HK_LATELY];

static inline struct hk_lately *hk_lately_at(struct hk_lately *table, MPI_Comm comm, int peer,
					     int tag)
{
	uintptr_t at = ((uintptr_t)comm >> 6) + (unsigned)peer * 31U + (unsigned)tag;

	return &table[at % HK_LATELY];
}

/* NULL: not lately. */
static inline void *hk_lately_find(struct hk_lately *table, MPI_Comm comm, int peer, int tag)
{
	const struct hk_lately *l = hk_lately_at(table, comm, peer, tag);

	return HK_LIKELY(l->comm == comm && l->peer == peer && l->tag == tag) ? l->end : NULL;
}

/* ---- request.c */
struct hk_pending *hk_pending_new(ompi_communicator_t *comm, const void *buf, int count,
				  ompi_datatype_t *type, int peer, int tag);
void hk_pending_done(struct hk_pending *p);
void hk_pending_activate(struct hk_pending *p, struct hk_persistent *of);
void hk_pending_behind(struct hk_persistent *of, ompi_request_t *inner);
void hk_pending_by_mpi(struct hk_pending *p);
void hk_pending_poll(void);
bool hk_pending_sends_behind(void);
bool hk_pending_is(const ompi_request_t *request);
void hk_pack(struct hk_pending *p); /* … into p->copy */
void hk_unpack(struct hk_pending *p, const void *from, uint32_t bytes);
void hk_list_init(struct hk_list *l);
void hk_list_add(struct hk_list *l, struct hk_pending *p);
struct hk_pending *hk_list_pop(struct hk_list *l);
void *hk_need(size_t bytes);

struct hk_persistent *hk_persistent_find(ompi_request_t *request);
struct hk_persistent *hk_persistent_add(ompi_request_t *request);
void hk_persistent_forget(struct hk_persistent *p);
void hk_persistent_comm_gone(const ompi_communicator_t *comm); /* those of it are MPI's alone now */

/* ---- out.c */
/* How a send may be done. */
enum hk_send { HK_SEND_STANDARD, HK_SEND_OTHER };

/* By puts? Then *@request, or of a blocking send (@request NULL) all is done. False: the caller sends by MPI; the
 * message is counted. */
bool hk_out_send(struct hk_sender *o, const void *buf, int count, ompi_datatype_t *type,
		 enum hk_send how, struct hk_persistent *of, MPI_Request *request);
void hk_out_end(struct hk_sender *o, const char *why);
void hk_out_accepted(struct hk_sender *o, uint32_t theirs, uint64_t start, hk_peer to,
		     const hk_region *regions);
/* The receiver has taken, of each stream, the puts up to this number. */
void hk_out_taken(struct hk_sender *o, const uint32_t *number);
void hk_out_refused(struct hk_sender *o, const char *why, bool for_ever);
/* Is patient, the next time more. */
void hk_out_wait(struct hk_sender *o);
void hk_out_poll(void);
void hk_out_free(struct hk_sender *o);
void hk_out_free_streams(struct hk_sender *o);
bool hk_out_idle(struct hk_sender *o);
/* Copies those of the puts that may not have been taken, at most HK_ORDERS_MOST. Returns how many. */
uint32_t hk_out_orders(struct hk_sender *o, struct hk_order *orders);
/* Is a put of it not acknowledged? */
bool hk_out_flies(const struct hk_sender *o);

/* The first put that may not be taken, or is held, as hk_order has it; UINT64_MAX: there is none. */
uint64_t hk_out_oldest(struct hk_sender *o);

/* ---- past.c */
/* @o ends with these @orders (1 or more), in a pair of several tags: the number of its past is pair->past then. Returns how many
 * bytes of @past, with room for HK_PAST_MOST, tell it; 0: it was told. */
size_t hk_past_tell(const struct hk_sender *o, const struct hk_order *order, uint32_t orders,
		    struct hk_past *past);
/* @past, which is copied, is what number @number names from now on. False: it is none. */
bool hk_past_told(struct hk_in_pair *p, uint32_t number, const struct hk_past *past, size_t bytes);
struct hk_past *hk_past_take(struct hk_in_pair *p, uint32_t number); /* until hk_past_drop() */
void hk_past_drop(struct hk_past *past);                             /* NULL: nothing */
/* All tags that @n's past names have a channel from here on. */
void hk_past_count(struct hk_receiver *n);
/* Of @n's next message, a put: its number among all of the peer, and whether one before it was not received. */
uint64_t hk_past_at(const struct hk_receiver *n);
bool hk_past_lacks(const struct hk_receiver *n);

/* ---- in.c */
/* By puts, or not known yet: *@request. False: the caller receives by MPI; the receive is counted. */
bool hk_in_receive(struct hk_receiver *n, void *buf, int count, ompi_datatype_t *type,
		   struct hk_persistent *of, MPI_Request *request);
void hk_in_poll(void);
void hk_in_free(struct hk_receiver *n);
/* Makes the inboxes; their regions. False: no room. */
bool hk_in_accept(struct hk_receiver *n, const struct hk_schedule *s, hk_peer from,
		  hk_region *regions);
struct hk_receiver *hk_in_live(void); /* the first that is not plain */
void hk_in_committed(struct hk_receiver *n, const hk_region *taken);
void hk_in_withdrawn(struct hk_receiver *n);
/* @order is copied; @past: its own from now on. */
void hk_in_ended(struct hk_receiver *n, uint64_t end, const struct hk_order *order, uint32_t orders,
		 struct hk_past *past);
void hk_in_look(struct hk_receiver *n); /* whether it is over, and plain again */
bool hk_in_waits(const struct hk_comm *c);
bool hk_in_telling(void);

/* Is there a message that came by a put before its receive? */
static inline bool hk_in_unexpected(const struct hk_receiver *n)
{
	return n->state == HK_IN_ENDING && n->posted >= n->start && n->posted < n->end;
}

/* ---- control.c */
void hk_control_open(void);
void hk_control_poll(void);
void hk_control_barrier(void); /* of all ranks */
void hk_control_close(void);
void hk_control_forget(uint32_t number);
void hk_control_propose(struct hk_sender *o);
void hk_control_commit(struct hk_sender *o, bool good, const hk_region *taken);
void hk_control_end(struct hk_sender *o, uint64_t end);
void hk_control_ask_taken(
	const struct hk_sender *o); /* hk_out_taken() follows, if it still goes by puts */
void hk_control_ask_end(struct hk_receiver *n);
/* Returns when all that the sender has sent by MPI until now has met its receive, or waits for one. */
void hk_control_flush(struct hk_receiver *n);

/* ---- wild.c */
/* All channels that (peer, tag) may name have ended then. They may be promoted again when no such call is under way
 * (hk_wild_inside), and there was none between two proposals. */
void hk_wild(struct hk_comm *c, int peer, int tag);
/* Remembers such a call, if it is of the first kind that was remembered. */
static inline bool hk_wild_again(struct hk_comm *c, int peer, int tag)
{
	struct hk_pattern *p = &c->pattern[0];

	if (c->patterns == 0 || p->peer != peer || p->tag != tag)
		return false;
	p->calls++;
	return true;
}
extern int hk_wild_inside; /* calls that may make progress and then ask MPI alone */
bool hk_wild_lately(struct hk_receiver *n);
/* The channel whose unexpected message such a receive takes; NULL: MPI's. *@first: an earlier one of MPI is on its way; it
 * goes to this receive, or to one of MPI's that was posted before, so ask again. */
struct hk_receiver *hk_wild_pick(struct hk_comm *c, int peer, int tag, bool *first);

/* Takes care of what the program wants to cancel. False: MPI does. */
bool hk_wild_cancel(ompi_request_t *request);
/* MPI_Mprobe's message, of one that came by a put; and what receives it, where @buf, @count and @type are sound. False: it is
 * MPI's. */
MPI_Message hk_message_take(struct hk_receiver *n);
bool hk_message_give(MPI_Message *message, void *buf, int count, ompi_datatype_t *type,
		     MPI_Request *request);
void hk_message_comm_gone(MPI_Comm comm);

/* ---- loose.c */
/* MPI has taken a message out: its channel's next has been received. */
void hk_loose_count(struct hk_comm *c, const MPI_Status *status);
/* MPI's @request, just posted or started, receives from any source or tag. */
void hk_loose_posted(struct hk_comm *c, ompi_request_t *request);
void hk_loose_settle(void); /* counts all that were matched */
/* Is there one that may still take a message of this channel? */
bool hk_loose_waits(const struct hk_receiver *n);
/* The program frees @request, which is under way. True: it is freed later; false: MPI does. */
bool hk_loose_freed(ompi_request_t *request);
void hk_loose_forget(const struct hk_comm *c);

/* ---- report.c */
void hk_report(void);
void hk_report_keep(const struct hk_sender *o); /* … is freed */
void hk_report_rest(const struct hk_comm *c);   /* … are freed, all of it */

#endif
