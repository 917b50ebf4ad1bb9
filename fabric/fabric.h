/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/fabric.h: an endpoint on the network, for whoever moves messages (the MPI BTL first).
 *
 * A fabric joins one engine (the protocol) to one or more ports (where frames come and go). Users
 * add peers, fill transmit buffers and send them as active messages: small ids that say which
 * handler runs at the other end. A message is one to HK_WIRE_MAX_FRAGS buffers; it arrives
 * exactly once, whole, and in the order in which its sender sent. (The engine delivers out of
 * order, and ob1 can reorder; but Open MPI's unpacking of derived types goes wrong when the
 * fragments of a long message come out of order and split an element. So order is kept here.)
 *
 *   hk_fabric_open → hk_fabric_add_port → hk_fabric_peer_add
 *   hk_fabric_alloc → fill → hk_fabric_send        (any number of times)
 *   hk_fabric_progress                             (as often as can be: it is the receive path)
 *   hk_fabric_close
 *
 * Buffers. hk_fabric_alloc() gives room for one frame's payload, in memory the port sends from;
 * hk_fabric_send() takes it over, whatever happens next. So a message is copied once on the way
 * in (by the caller) and once on the way out (by the handler, which must not keep what it is
 * shown).
 *
 * Two ways to one peer. A peer may have a second port for *bulk*: puts, gets, and messages sent by
 * hk_fabric_sendv_bulk(). Packets of both are of one engine and one row of numbers, so order and exactly-once
 * hold across them; acknowledgements go the way of what they answer.
 *
 * Rails. A peer may be reached by several ports, all as good: puts, gets and bulk messages are spread over them frame by
 * frame, by the shortest queue; what is lost on one is sent again by another, and one that brings nothing rests. Not
 * of a fabric that is shared with a polling process.
 *
 * Threads. One application thread at a time may be inside (callers that are several lock around
 * it). The helper thread of hk_fabric_async_start() is the fabric's own affair: it acknowledges
 * and keeps what arrives while the application is elsewhere, and never calls a handler.
 *
 * Handlers run inside hk_fabric_progress(), on the caller's thread, and may send. So do `lost` and `rail_down`; their
 * texts are valid until they return.
 *
 * Errors. 0 or a negative errno, with a sentence where there is a struct hk_error. A hk_peer is one that this
 * fabric gave.
 */
#ifndef HK_FABRIC_H
#define HK_FABRIC_H

#include "base/common.h"
#include "base/error.h"
#include "engine/engine.h"

#include <rte_mbuf.h>

struct hk_fabric;
struct hk_port;

/* One transmit buffer: room for hk_fabric_frame_payload() bytes at hk_buf_data(). */
typedef struct rte_mbuf hk_buf;

/* In a transmit buffer the payload starts on a cache line; the headers stand right before it. */
#define HK_BUF_PAYLOAD_AT 128

static inline void *hk_buf_data(hk_buf *b)
{
	return (char *)b->buf_addr + HK_BUF_PAYLOAD_AT;
}

struct hk_iov {
	const void *base;
	size_t len;
};

/* A message came from @peer. @iov lies in receive buffers and is valid until the return. */
typedef void (*hk_am_fn)(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov,
			 unsigned count);

/* @peer is lost (HK_PEER_NONE: all are, see hk_fabric_break()). @text is one sentence: who (by the name given at
 * peer_add), and why. */
typedef void (*hk_lost_fn)(void *arg, hk_peer peer, enum hk_verdict why, const char *text);

/* A port of ours brings nothing to @peer any more, and its other ones carry all. @text says so. Told once for each. */
typedef void (*hk_rail_fn)(void *arg, hk_peer peer, const char *text);

#define HK_RAILS_MAX HK_PATHS

struct hk_fabric_config {
	struct hk_engine_config engine; /* rx_budget is set from `rx_keep` */

	unsigned tx_buffers; /* frames that may wait to be sent or acknowledged */
	unsigned rx_keep;    /* frames kept while the application is elsewhere … */
	size_t keep_bytes;   /* … and bytes of small messages, which are kept without theirs */
	unsigned regions;    /* of memory that peers reach (rma.h): 1 … HK_REGIONS_MAX */
	unsigned frame_max;  /* bytes of the largest frame to use; every port must carry it */
	hk_lost_fn lost;
	hk_rail_fn rail_down;
	void *lost_arg;    /* of both */
	size_t stripe_min; /* bytes: shorter puts and gets go by the peer's first port alone */

	/* To be driven by a polling process too (host/'s poller): memory that it maps at the same address, zeroed,
	 * hk_fabric_size() bytes at least, and a pool of hk_fabric_tx_pool(). NULL: private ones. */
	void *memory;
	size_t memory_len;
	struct rte_mempool *tx_pool;

	/* A peer that has been silent for so long while packets to it are unacknowledged is rung for (port/bell.h):
	 * nanoseconds, 0: never. Only of a fabric that is shared (hk_fabric_share()), on ports with bells. */
	uint64_t ring_after;
};

void hk_fabric_config_default(struct hk_fabric_config *cfg);

/* Bytes of memory that a fabric with @lanes ports or queues takes; 0 if @cfg is out of range. */
size_t hk_fabric_size(const struct hk_fabric_config *cfg, unsigned lanes);

/* Buffers of the pool that hk_fabric_alloc() does not give out: acks and the like, the queue before a
 * port, and what a NIC's ring has sent and not yet given back. */
#define HK_FABRIC_TX_SLACK 2048u

/* Makes a pool of @tx_buffers transmit buffers for frames of @frame_max bytes (hk_pool_create() in port.h
 * speaks of names and resets). */
int hk_fabric_tx_pool(const char *name, unsigned tx_buffers, unsigned frame_max,
		      struct rte_mempool **pool, struct hk_error *err);

/* Bytes of memory that such a pool takes at the most. */
size_t hk_fabric_tx_pool_bytes(unsigned tx_buffers, unsigned frame_max);

/* Needs hk_eal_init() before. @cfg is copied; what it points to stays the caller's, until the fabric is closed.
 * -EINVAL: a configuration out of range; -EMSGSIZE: frames too small to use; -ENOMEM; those of hk_pool_create(). */
int hk_fabric_open(const struct hk_fabric_config *cfg, struct hk_fabric **fabric,
		   struct hk_error *err);

/* Waits up to @linger_ms until everything sent is acknowledged, says goodbye to all peers and
 * frees everything, the ports that it owns too. Handlers and `lost` are not called any more. Of operations (rma.h) that
 * are not over by then `done` is never called, and their memory is the caller's again. Returns how many packets were left
 * unacknowledged. NULL is allowed. */
unsigned hk_fabric_close(struct hk_fabric *f, unsigned linger_ms);

/* Gives @port to the fabric, which owns it from here on. Returns its index, or a negative errno, and then it stays the
 * caller's: -ENOSPC too many; -EMSGSIZE its frames are smaller than ours; -ENOMEM. */
int hk_fabric_add_port(struct hk_fabric *f, struct hk_port *port, struct hk_error *err);

/* The same with one queue pair of a port that stays the caller's, and open until the fabric is closed. Both
 * directions of @pair belong to this fabric alone. What waits in the queue is discarded: a
 * predecessor that was killed may have left it half taken. The port must be without faults (-EINVAL; or it has no such
 * pair). Returns as hk_fabric_add_port(). */
int hk_fabric_add_queue(struct hk_fabric *f, const struct hk_port *port, uint16_t pair,
			struct hk_error *err);

/* Payload bytes of one frame of frame_max. */
size_t hk_fabric_frame_payload(const struct hk_fabric *f);

/* ---- peers --------------------------------------------------------------------------------- */

struct hk_rail_addr {
	uint16_t port; /* index of ours that reaches it */
	uint16_t frame_max;
	uint8_t mac[6];
};

struct hk_peer_addr {
	uint32_t endpoint, epoch; /* see engine.h */
	uint8_t mac[6];
	uint16_t port;      /* index of our port that reaches it */
	uint16_t bulk;      /* of another one for bulk, plus 1; 0: the same */
	uint16_t frame_max; /* of the peer's port; checked against ours */
	const char *name;   /* "rank 3 on node1", for messages; copied */
	unsigned more;      /* further rails, up to HK_RAILS_MAX - 1; then none for bulk */
	struct hk_rail_addr rail[HK_RAILS_MAX - 1];
};

/* Adds a peer, or its next incarnation: *peer is the one it had then. @addr is copied. -EINVAL: a port that is not there;
 * -EMSGSIZE: its frames are smaller than ours; -ENOSPC: the table is full, or the endpoint is another's (see
 * hk_engine_peer_add()); -ENOMEM. */
int hk_fabric_peer_add(struct hk_fabric *f, const struct hk_peer_addr *addr, hk_peer *peer,
		       struct hk_error *err);

/* Has the frames to @peer carry @tag (wire/tag.h, of function 0) as destination address, where the network
 * gives them the real one back or the receiver's port takes every address. By the application's thread. */
void hk_fabric_peer_tag(struct hk_fabric *f, hk_peer peer, uint64_t tag);

/* For a tagged peer: what is sent to it from now on is part of this MPI function (enum hk_tag_function). A resend
 * keeps that of its message; frames that only acknowledge have none. */
void hk_fabric_peer_function(struct hk_fabric *f, hk_peer peer, unsigned function);

/* Valid until it is added again. Of a peer that was only heard of: "a peer not yet added". */
const char *hk_fabric_peer_name(const struct hk_fabric *f, hk_peer peer);

/* By how many ports it is reached: its rails, whether they rest or not. */
unsigned hk_fabric_peer_rails(const struct hk_fabric *f, hk_peer peer);

/* ---- sending ------------------------------------------------------------------------------- */

/* A buffer, the caller's until it is sent or freed, or NULL while all of them wait for acknowledgements: progress, then
 * try again. */
hk_buf *hk_fabric_alloc(struct hk_fabric *f);
void hk_fabric_free(struct hk_fabric *f, hk_buf *b);

/* Sends the message that lies in @count buffers (1 to HK_WIRE_MAX_FRAGS), @len[i] bytes in each.
 * Sent now if the peer's window has room (returns 0), otherwise in order when it has (returns 1: a
 * good moment to prepare no more for this peer, see hk_fabric_backlog()). -ENOTCONN if the
 * peer is dead or gone; the buffers are freed all the same. */
int hk_fabric_sendv(struct hk_fabric *f, hk_peer peer, uint8_t am, hk_buf *const *bufs,
		    const size_t *len, unsigned count);

/* The same by the peer's port for bulk. */
int hk_fabric_sendv_bulk(struct hk_fabric *f, hk_peer peer, uint8_t am, hk_buf *const *bufs,
			 const size_t *len, unsigned count);

static inline int hk_fabric_send(struct hk_fabric *f, hk_peer peer, uint8_t am, hk_buf *b,
				 size_t len)
{
	return hk_fabric_sendv(f, peer, am, &b, &len, 1);
}

/* How many buffers of messages to @peer wait for room in its window. */
unsigned hk_fabric_backlog(const struct hk_fabric *f, hk_peer peer);

/* The fabric's clock: nanoseconds, by the time stamp counter. */
uint64_t hk_fabric_now(const struct hk_fabric *f);

/* Is there a peer that has said nothing for @ns, although packets to it are not acknowledged? */
bool hk_fabric_silent(struct hk_fabric *f, uint64_t ns);

/* Is all that waits to be sent held back by receivers who take nothing just now, and is there any? */
bool hk_fabric_held(struct hk_fabric *f);

/* Buffers left. */
unsigned hk_fabric_room(const struct hk_fabric *f);

/* True when few buffers are left: a good moment to stop taking new work. Never less than a whole
 * message's. */
bool hk_fabric_low(const struct hk_fabric *f);

/* ---- receiving ----------------------------------------------------------------------------- */

/* Sets the handler of @am (NULL: none), which is below HK_WIRE_AM_ATOMIC (wire/atomic.h): from there on they are the
 * fabric's own. */
void hk_fabric_set_am(struct hk_fabric *f, uint8_t am, hk_am_fn fn, void *arg);

/* Receives, delivers, acknowledges, resends. Returns 0 if nothing has come: no frame of whatever kind, nothing that was
 * kept, no end of an operation. */
unsigned hk_fabric_progress(struct hk_fabric *f);

/* Starts the helper thread: whenever nobody has called hk_fabric_progress() for @idle_us, it
 * polls the ports in the application's stead, every @period_us. It ends with the fabric. -ENOSYS: the kernel lacks
 * membarrier(2); else why no thread could be made. */
int hk_fabric_async_start(struct hk_fabric *f, unsigned idle_us, unsigned period_us,
			  struct hk_error *err);

/* ---- the polling process --------------------------------------------------------------------- */

/* By the owner of a fabric in shared memory, before the polling process hears of it. -ENOSYS: the kernel lacks
 * membarrier(2). */
int hk_fabric_share(struct hk_fabric *f, struct hk_error *err);

/* By the owner, before the same: starts a thread that the polling process wakes when what came asks for memory of
 * this process (one-sided operations), while its application is elsewhere. It ends with the fabric. */
int hk_fabric_servant_start(struct hk_fabric *f, struct hk_error *err);

enum hk_serve {
	HK_SERVE_PRESENT, /* the application polls: nothing to do */
	HK_SERVE_IDLE,    /* it is away, and nothing came */
	HK_SERVE_OWED,    /* it is away, nothing came, but what it sent is not acknowledged */
	HK_SERVE_BUSY,    /* it is away, and frames came */
};

/* An application that polls looks at the ports far more often. */
#define HK_FABRIC_ABSENT (50 * HK_USEC)

/* By the application's thread between two polls: it is there, and polls again at @then (of hk_fabric_now()) at the latest,
 * so nobody need do it in its stead. Who yields or naps while it waits says so, or its naps look like absence. */
void hk_fabric_back_at(struct hk_fabric *f, uint64_t then);

/* By the polling process, which has attached the ports that @f uses: if at @tsc the application had not polled for
 * HK_FABRIC_ABSENT, polls in its stead: takes in, acknowledges and keeps what came, resends what is lost.
 * @tsc is now, or when the application's core was last taken from it by others of ours: since then it may have
 * wanted to poll. Never waits. */
enum hk_serve hk_fabric_serve(struct hk_fabric *f, uint64_t tsc);

/* Once in the polling process: lets it serve. -1 if the kernel lacks membarrier(2). */
int hk_fabric_serve_init(void);

/* The polling process died, maybe inside, or we were cut off: from now on nothing works, and the next
 * progress tells so by the lost callback (HK_PEER_NONE, @why is HK_VERDICT_NONE) in the words of
 * @text, which must last. Any thread. */
void hk_fabric_break(struct hk_fabric *f, const char *text);

/* ---- seeing it ----------------------------------------------------------------------------- */

struct hk_fabric_counters {
	uint64_t am_sent, am_delivered, queued; /* queued: had to wait for the window */
	uint64_t early;                   /* messages that came before their time, and waited */
	uint64_t unknown_am;              /* messages for which no handler was set */
	uint64_t rx_too_long;             /* frames in more than one buffer, dropped */
	uint64_t tx_dropped;              /* frames the port did not take; the engine resends */
	uint64_t tx_bulk;                 /* packets sent by a port that is for bulk alone */
	uint64_t no_buffer;               /* hk_fabric_alloc() returned NULL */
	uint64_t async_polls, async_kept; /* by the helper thread */
	uint64_t rings;                   /* peers' polling processes woken */
	uint64_t puts, gets, gets_served; /* one-sided operations: rma.h */
	uint64_t put_bytes, put_bytes_in; /* … sent for the first time; placed here */
	uint64_t put_refused;             /* frames that failed a check of their region */
	uint64_t get_refused;             /* requests that did */
	uint64_t atomics, atomics_served; /* atomic operations: atomic.h */
	uint64_t
		atomics_parked; /* compare-and-swaps that had missed so often that they wait until they hit */
	uint64_t atomic_refused;    /* requests that failed a check */
	uint64_t atomic_excess;     /* … beyond what a peer may have under way, dropped */
	uint64_t mcasts, mcasts_in; /* multicasts: frames sent; frames that somebody listened for */
	uint64_t mcast_strays;      /* … for which nobody did */
	uint64_t get_excess;        /* more requests than a peer may have under way, dropped */
	struct hk_rail_counters {
		uint64_t frames, bytes; /* sent for the first time; bytes of payload */
		uint64_t lost;          /* frames that were sent again by another rail */
		uint64_t rests;         /* times it was given up for a while */
	} rail[HK_RAILS_MAX];           /* of peers that have several */
};

/* Both are valid until the fabric is closed, and go on while it works. */
const struct hk_fabric_counters *hk_fabric_counters(const struct hk_fabric *f);
const struct hk_engine *hk_fabric_engine(const struct hk_fabric *f);

#endif
