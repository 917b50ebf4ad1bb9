/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/internal.h: the fabric's data structures, and which file does what.
 *
 *   fabric.c   open and close, ports, peers, verdicts
 *   tx.c       buffers out: headers, the port's transmit queue, the backlog
 *   rx.c       progress: frames in, handlers, acks and resends out
 *   region.c   one-sided: regions, and what peers do to them
 *   rma.c      one-sided: our own puts and gets
 *   rails.c    several ports that reach one peer: which frame goes by which
 *   atomic.c   one-sided: atomic operations, ours and our peers'
 *   notify.c   one-sided: inboxes, for puts that come again and again
 *   mcast.c    one frame for a group of receivers
 *   layout.c   bytes of a message to and from where they lie
 *   parked.c   a peer's compare-and-swap that misses again and again
 *   later.c    requests whose answers found no buffer
 *   keep.c     what is kept for an application that is elsewhere
 *   ring.c     peers that sleep are woken
 *   async.c    the helper thread, and the polling process as a helper
 *   memory.c   where all this lies: private memory, or shared with the polling process
 */
#ifndef HK_FABRIC_INTERNAL_H
#define HK_FABRIC_INTERNAL_H

#include "fabric/atomic.h"
#include "fabric/fabric.h"
#include "fabric/lock.h"
#include "fabric/mcast.h"
#include "fabric/notify.h"
#include "fabric/rma.h"
#include "port/port.h"

#include <pthread.h>

#define HK_MAX_PORTS 256 /* wires of a full mesh count each */
#define HK_TX_QUEUE  256 /* frames gathered or waiting for a port's ring */
#define HK_RX_BURST  16
#define HK_RX_ROUNDS 4 /* bursts of one port before the next has its turn */
#define HK_LOOKS_NEAR                                                                              \
	4                   /* looks a call at a port that costs next to nothing to look at: what is
			     * around us, Open MPI's progress loop, takes longer than one of them */
#define HK_TX_BURST      32 /* frames gathered for one call of the driver … */
#define HK_TX_BURST_NEAR 4  /* … that copies them in user space: while they are in the cache */
#define HK_OUT_BURST     16
#define HK_IDLE_CLOCK    8  /* empty polls before the timers are looked at; a power of two */
#define HK_SPARES        64 /* free transmit buffers at hand */

#define HK_GETS_MAX      64   /* our gets of one peer under way at once */
#define HK_PUTS_WHEN_LOW 8    /* frames of puts to a peer that go although buffers are low */
#define HK_SERVES        1024 /* gets of others that we serve at once, beside one of each peer */
#define HK_GET_AGAIN     (100 * HK_USEC) /* an owner that is busy is asked again after this */
#define HK_ATOMS_MAX     64   /* our atomic operations on one peer under way at once … */
#define HK_ATOMS         4096 /* … and on all */
#define HK_LEND_MIN      512  /* puts below this are copied: cheaper than a second mbuf */
/* Of a put to an inbox so many bytes are copied: cheaper than to wait for their acknowledgement, before which the
 * source is not free. */
#define HK_INBOX_TAIL 8192
#define HK_STRIPE_MIN (16u << 10) /* below it, eager messages are as good as puts */

/* What waits for room in a peer's window is a buffer or a put. Which of them, its link says by its lowest bit:
 * a put lies in the memory of the application, where a stand-in must not even look. */
static inline struct hk_item *hk_put_link(struct hk_op *op)
{
	return (struct hk_item *)((uintptr_t)&op->item | 1);
}

static inline bool hk_link_is_put(const struct hk_item *link)
{
	return (uintptr_t)link & 1;
}

static inline struct hk_op *hk_put_of(struct hk_item *link)
{
	return (struct hk_op *)((uintptr_t)link & ~(uintptr_t)1);
}

static inline struct hk_item *hk_item_of(struct hk_item *link)
{
	return (struct hk_item *)((uintptr_t)link & ~(uintptr_t)1);
}

/* What a transmit buffer remembers while it waits. */
struct hk_buf_note {
	struct hk_item item; /* in the peer's backlog */
	uint8_t am, frag, frags;
	bool refusal;     /* of a get, and waits */
	bool answer;      /* to an atomic operation, and waits */
	bool lost;        /* not acknowledged, and its peer is gone */
	bool bulk;        /* goes by the peer's port for bulk */
	uint8_t function; /* of the tag, if its peer has one */
	uint16_t len;
	uint8_t path; /* the rail by which it was sent last, if its peer has rails */
	bool again;   /* … and before by another: nobody knows which of them brought it */
	uint32_t peer;
	struct hk_op *op; /* the put of which this is a frame */
};

/* The engine knows a buffer by a token, which is its address: it never comes from outside. */
static inline struct rte_mbuf *hk_mbuf_of(uint64_t token)
{
	return (struct rte_mbuf *)(uintptr_t)token;
}

/* The private area of a transmit buffer. */
struct hk_buf_private {
	struct rte_mbuf
		lent; /* of a put: the second mbuf of the frame, which points to its source. Never
			       * of a pool: one reference to it is ours as long as it is in use */
	struct hk_buf_note note;
};

static inline struct rte_mbuf *hk_lent(hk_buf *b)
{
	return &((struct hk_buf_private *)rte_mbuf_to_priv(b))->lent;
}

static inline struct hk_buf_note *hk_note(hk_buf *b)
{
	return &((struct hk_buf_private *)rte_mbuf_to_priv(b))->note;
}

static inline hk_buf *hk_buf_of(struct hk_item *item)
{
	return (hk_buf *)((char *)item - offsetof(struct hk_buf_private, note) -
			  offsetof(struct hk_buf_note, item) - sizeof(struct rte_mbuf));
}

struct hk_lane { /* a port and what waits for it */
	struct hk_port *port;
	struct hk_port copy; /* what `port` points to, if the polling process uses it too */
	uint16_t pair;       /* queue pair of the port */
	bool owned;          /* to be closed with the fabric */
	bool lend; /* it copies at transmit: frames may point to what is not ours for long */
	uint16_t waiting, burst;
	/* ns; while the queue is half full: when its port began to take nothing, and how long it is known to */
	uint64_t stuck_since, stuck_for;
	struct rte_mbuf *queue[HK_TX_QUEUE];
};

/* Lists of the peers of which something waits, so that nobody walks all peers for the few. A peer stays in one
 * until whoever walks it finds that nothing waits any more. */
enum hk_list {
	HK_LIST_BACKLOG, /* what waits for room in its window */
	HK_LIST_GETS,    /* gets that wait to be asked */
	HK_LIST_ATOMS,   /* atomic operations that do */
	HK_LIST_LATER,   /* requests of it whose answers found no buffer */
	HK_LIST_EARLY,   /* what came early and could go, and found no room to be kept */
	HK_LIST_ENDED,   /* `gone`, or a verdict is `owed` */
	HK_LIST_RAILS,   /* one of its rails rests, and nobody was told */
	HK_LISTS,
};

/* One of several ports that reach a peer. */
struct hk_rail {
	uint8_t eth[HK_ETH_HLEN]; /* framing of every frame by it */
	uint16_t lane;
	uint32_t flying;       /* frames that are not acknowledged */
	unsigned strikes;      /* frames lost since one was acknowledged … */
	uint64_t silent_since; /* … the first of them; 0: none */
	uint64_t others;       /* `acked` of the peer then */
	uint64_t rest_until;   /* 0: it is in use */
	bool told;             /* … that it rested */
};

struct hk_rails {
	unsigned count, next; /* next: among equals, the turn goes round */
	uint64_t acked;       /* frames by any */
	uint64_t wake_at;     /* when the first that rests is tried again */
	struct hk_rail rail[HK_RAILS_MAX];
};

struct hk_peer_tx {
	uint8_t eth
		[HK_ETH_HLEN]; /* framing of every frame to this peer; its address may be a tag … */
	uint8_t function;      /* … and then this goes into it; else 0 */
	uint16_t lane, bulk;   /* its ports, for all and for bulk: mostly the same */
	uint16_t answer;       /* by which of them its newest packet came: acks go there */
	struct hk_rails *rails; /* … or several for all; NULL: not */
	struct hk_item *backlog_head, *backlog_tail;
	unsigned backlog_len;
	struct hk_item *gets_head,
		*gets_tail; /* gets that wait: HK_GETS_MAX are under way, or no buffer or no region */
	unsigned gets_out;
	uint64_t gets_at; /* not before: its owner was busy */
	/* its gets of us: those served, whose bytes may not all be acknowledged, … */
	uint16_t serves;
	/* … those of which bytes have yet to be sent, and refusals that wait for room in its window. It has at
	 * most HK_GETS_MAX under way, so neither is ever more. */
	uint16_t serves_wait, refusals_wait;
	/* atomic operations: ours that wait, those under way, and our answers that wait for room in its window */
	struct hk_item *atoms_head, *atoms_tail;
	uint16_t atoms_out, answers_wait;
	/* its last compare-and-swap, how often in a row this missed, and after how many one is parked (0: the least) */
	uint32_t cas_region, cas_misses, cas_patience;
	uint64_t cas_offset, cas_compare;
	/* requests of it that wait for a buffer: later.c */
	struct hk_item *later_head, *later_tail;
	unsigned later;
	uint16_t life; /* how often it has begun anew */
	bool gone; /* a stand-in saw its end: what waits here is void, and nothing of it is sent */
	/* the verdict on it that is to be told, if the engine has none: what was sent to it has ended here */
	uint8_t owed;                /* enum hk_verdict */
	uint8_t listed;              /* a bit for each list it is in … */
	uint32_t next[HK_LISTS];     /* … and the peer after it */
	uint32_t early_next;         /* everything before it has arrived, as far as known */
	struct rte_mbuf *early;      /* messages that came before their time, by packet number */
	struct rte_mbuf *early_last; /* the last of them, if there are any */
	char *name;
};

/* A message that must wait, for those before it or for the application, is a list of its receive
 * buffers; the links lie in the buffers' headroom, so that waiting needs no memory. */
struct hk_rx_note {
	struct rte_mbuf *frag_next; /* of this message */
	struct rte_mbuf *msg_next;  /* of the first buffer of a message that came early */
	uint32_t peer;
	uint32_t last; /* packet number of its last buffer */
	uint8_t am, count;
	bool put; /* one frame of a put, not a message */
};
_Static_assert(sizeof(struct hk_rx_note) <= RTE_PKTMBUF_HEADROOM, "it lies in the headroom");

static inline struct hk_rx_note *hk_rx_note(struct rte_mbuf *m)
{
	return m->buf_addr;
}

/* Messages copied together, and those kept in their buffers: keep.c. */
struct hk_keep {
	char *bytes;
	size_t size;
	uint64_t head, tail; /* bytes ever put in and taken out */
	size_t tail_at;      /* where the latter is: divisions are dear */
};

#define HK_KEEP_COPY_MAX 2048 /* longer messages stay in their buffers */

struct hk_kept {
	hk_peer peer;
	uint8_t am;
	bool earlier;       /* of an incarnation before the present one */
	struct hk_iov iov;  /* copied: valid until the next is taken … */
	struct rte_mbuf *m; /* … or its buffers, or a frame of a put */
};

struct hk_region_slot {
	char *base;
	uint64_t len, arrived;
	hk_peer peer; /* whose it is to use, or HK_PEER_NONE */
	uint16_t generation;
	uint8_t access;         /* 0: free */
	uint32_t serving;       /* gets of it under way */
	struct hk_op *get;      /* our get, whose destination it is */
	struct hk_inbox *inbox; /* it is an inbox, whose bytes are placed by notify.c */
	uint32_t next_free;
};

/* A peer's compare-and-swap that has missed again and again: parked.c. Under the lock, but for `state`. */
enum hk_parked_state {
	HK_PARKED_NONE,
	HK_PARKED_WATCHED, /* `ask` was answered: does the word ever have what it wants? */
	HK_PARKED_SEEN,    /* it does: the next request is parked */
	HK_PARKED_FULL
};

struct hk_parked {
	_Atomic int state;
	hk_peer peer;
	struct hk_wire_atomic ask;
	uint64_t until;
};

struct hk_fabric {
	struct hk_engine *engine;
	struct hk_fabric_config cfg;
	struct hk_biased_lock lock;
	uint64_t ns_mult; /* now_ns = tsc * ns_mult >> 32 … */
	bool shared;      /* hk_fabric_share() */
	bool stand_in; /* driven by another process just now: what lies in ours is out of reach */
	_Atomic uint64_t app_at; /* when the application's thread looked at the ports last */
	uint64_t here_at;        /* when the ports were looked at last, as far as noted */
	uint64_t ring_at;        /* when to look next for peers that must be woken */
	unsigned rings_passed;   /* of those who are silent, looked at since the first one was */
	uint64_t left_work_at;   /* when our polling process was woken last */
	bool away;               /* we come back after a while; until the ports are empty */
	unsigned lanes;
	unsigned idle;   /* polls since a frame came */
	unsigned gather; /* above 0: frames wait for hk_tx_flush() instead of leaving one by one */
	size_t frame_payload;
	struct rte_mempool *tx_pool;
	unsigned tx_out;          /* buffers given out */
	hk_buf *spare[HK_SPARES]; /* free ones, latest last: it is in the cache */
	unsigned spares;
	bool unsent;             /* some lane has frames waiting */
	bool railed;             /* some peer has rails */
	unsigned looks;          /* at the ports in one call of progress, while they are empty */
	uint32_t list[HK_LISTS]; /* the first peer of each, or HK_PEER_NONE */
	struct hk_lane *lane[HK_MAX_PORTS];
	struct hk_peer_tx *peer; /* by hk_peer */
	unsigned peers_added;    /* by the application */
	struct {
		hk_am_fn fn;
		void *arg;
	} am[256];
	struct hk_fabric_counters n;
	/* one-sided */
	struct hk_region_slot *region; /* [regions]: cfg.regions, and HK_GETS_MAX for gets alone */
	unsigned regions, regions_left;
	uint32_t region_free;
	struct hk_op *serve; /* [HK_SERVES] */
	struct hk_item *serve_free;
	unsigned serves_left;      /* of HK_SERVES */
	unsigned serves_wait;      /* of all peers, of which bytes have yet to be sent */
	struct hk_atom_slot *atom; /* [HK_ATOMS] */
	uint16_t atom_free;
	struct hk_parked parked;
	struct hk_mcast *mcasts; /* who listens for multicasts */
	hk_buf *put_acked; /* frames of puts that a stand-in took back: their operations are ours */
	struct hk_item *done_head, *done_tail; /* operations to tell of */
	/* the helper thread and what it kept */
	_Atomic uint32_t app_ticks; /* progress calls; the helper watches it stand still */
	struct hk_keep keep;
	unsigned kept_frames;
	_Atomic unsigned
		kept_own; /* of what is kept, messages of the fabric's own and frames of puts */
	_Atomic uint32_t servant_wake; /* a futex: 1 when the polling process wants our helper */
	bool servant_runs;
	_Atomic uint64_t servant_at; /* when the servant looked last; 0: it has not */
	pthread_t helper;
	bool helper_runs;
	_Atomic bool helper_stop;
	unsigned helper_idle_us, helper_period_us;
	char *mem_next, *mem_end; /* free part of cfg.memory */
	const char *why_broken;
	bool told_broken;
};

/* The fabric's own messages, of which the application does not hear. */
static inline bool hk_am_own(uint8_t am)
{
	return am >= HK_WIRE_AM_ATOMIC;
}

static inline void hk_items_append(struct hk_item **head, struct hk_item **tail,
				   struct hk_item *item)
{
	item->next = NULL;
	if (*head)
		(*tail)->next = item;
	else
		*head = item;
	*tail = item;
}

/* An operation of ours has ended: the application is told at the end of its progress. */
static inline void hk_op_done(struct hk_fabric *f, struct hk_op *op)
{
	hk_items_append(&f->done_head, &f->done_tail, &op->item);
}

/* Nanoseconds of the TSC. */
static inline uint64_t hk_time_of(const struct hk_fabric *f, uint64_t tsc)
{
	return (uint64_t)(((unsigned __int128)tsc * f->ns_mult) >> 32);
}

static inline uint64_t hk_now(const struct hk_fabric *f)
{
	return hk_time_of(f, rte_rdtsc());
}

static inline bool hk_listed(const struct hk_fabric *f, enum hk_list l)
{
	return f->list[l] != HK_PEER_NONE;
}

static inline void hk_list_add(struct hk_fabric *f, enum hk_list l, hk_peer p)
{
	struct hk_peer_tx *t = &f->peer[p];

	if (t->listed & 1u << l)
		return;
	t->listed |= (uint8_t)(1u << l);
	t->next[l] = f->list[l];
	f->list[l] = p;
}

/* One step of a walk: *@link is the peer just looked at, which leaves the list unless it @stays. */
static inline uint32_t *hk_list_step(struct hk_fabric *f, enum hk_list l, uint32_t *link,
				     bool stays)
{
	struct hk_peer_tx *t = &f->peer[*link];

	if (stays)
		return &t->next[l];
	t->listed &= (uint8_t) ~(1u << l);
	*link = t->next[l];
	return link;
}

/* Takes the first off; HK_PEER_NONE if there is none. */
static inline hk_peer hk_list_pop(struct hk_fabric *f, enum hk_list l)
{
	hk_peer p = f->list[l];

	if (p != HK_PEER_NONE)
		hk_list_step(f, l, &f->list[l], false);
	return p;
}

/* Writes the Ethernet header of a frame to a peer whose framing is @eth. */
static inline void hk_tx_eth(char *frame, const uint8_t *eth, uint8_t function)
{
	memcpy(frame, eth, HK_ETH_HLEN);
	/* bits 25 to 22 of the tag; without one, function is 0 */
	frame[2] = (char)(frame[2] | function >> 2);
	frame[3] = (char)(frame[3] | function << 6);
}

/* ---- tx.c */
void hk_tx_frame(struct hk_fabric *f, uint16_t lane, struct rte_mbuf *m);
void hk_tx_flush(struct hk_fabric *f);
void hk_tx_backlog(struct hk_fabric *f, uint64_t now);
void hk_tx_backlog_drop(struct hk_fabric *f, hk_peer p);
void hk_tx_reap(struct hk_fabric *f);
hk_buf *hk_tx_take(struct hk_fabric *f);
hk_buf *hk_tx_take_reserved(struct hk_fabric *f);
void hk_tx_give(struct hk_fabric *f, hk_buf *b);
int hk_tx_message(struct hk_fabric *f, hk_peer p, uint8_t am, hk_buf *const *bufs,
		  const size_t *len, unsigned count, bool bulk);
bool hk_tx_stuck(const struct hk_fabric *f, uint16_t lane);
void hk_tx_wait(struct hk_fabric *f, hk_peer p, struct hk_item *item);
void hk_tx_poll(struct hk_fabric *f, uint64_t now, const struct rte_ether_hdr *answer,
		uint16_t answer_lane);

/* ---- rx.c */
unsigned hk_rx_poll(struct hk_fabric *f, bool keep);
void hk_rx_forget(struct hk_fabric *f, hk_peer p);
void hk_rx_drop_kept(struct hk_fabric *f);
void hk_rx_serve_kept(struct hk_fabric *f);

bool hk_broken(struct hk_fabric *f);

/* ---- keep.c */
/* Bytes of memory for what is kept. */
size_t hk_keep_size(const struct hk_fabric_config *cfg);
int hk_keep_open(struct hk_fabric *f);
bool hk_can_keep(const struct hk_fabric *f);
bool hk_can_keep_early(const struct hk_fabric *f);
bool hk_keep_copy(struct hk_fabric *f, hk_peer p, uint8_t am, const struct hk_iov *iov, unsigned n);
void hk_keep_buffers(struct hk_fabric *f, struct rte_mbuf *m);
bool hk_keep_next(struct hk_fabric *f, struct hk_kept *kept);
bool hk_keep_next_own(struct hk_fabric *f, uint64_t *at, struct hk_kept *kept);
void hk_keep_trim(struct hk_fabric *f);

static inline bool hk_keeps(const struct hk_fabric *f)
{
	return f->keep.head != f->keep.tail;
}

/* ---- memory.c */
struct hk_fabric *hk_mem_fabric(const struct hk_fabric_config *cfg);
void *hk_mem_take_dirty(struct hk_fabric *f, size_t bytes);
void *hk_mem_take(struct hk_fabric *f, size_t bytes);
void hk_mem_give(const struct hk_fabric *f, void *p);

/* ---- later.c */
/* Answers what @bytes say in @b, a buffer from the reserve. */
typedef void hk_later_fn(struct hk_fabric *f, hk_peer p, const void *bytes, size_t len, hk_buf *b);
/* Copies a request for @fn. False: there is no room for more. */
bool hk_later_add(struct hk_fabric *f, hk_peer p, hk_later_fn *fn, const void *bytes, size_t len);
void hk_later_go(struct hk_fabric *f);
void hk_later_forget(struct hk_fabric *f, hk_peer p);
void hk_later_close(struct hk_fabric *f);

/* A buffer for an answer to @p; NULL: there is none, or requests wait that came before. */
static inline hk_buf *hk_later_buf(struct hk_fabric *f, hk_peer p)
{
	return HK_LIKELY(!f->peer[p].later_head) ? hk_tx_take_reserved(f) : NULL;
}

/* ---- region.c */
int hk_regions_open(struct hk_fabric *f);
void hk_regions_close(struct hk_fabric *f);
struct hk_region_slot *hk_region_find(const struct hk_fabric *f, hk_region r);
char *hk_region_at(const struct hk_fabric *f, hk_peer p, hk_region r, unsigned access,
		   uint64_t offset, uint64_t len);
hk_region hk_region_new(struct hk_fabric *f, void *base, size_t len, unsigned access, hk_peer peer,
			struct hk_op *get);
void hk_region_end(struct hk_fabric *f, hk_region r);
void hk_put_in(struct hk_fabric *f, hk_peer p, const struct hk_frame *frame);
void hk_serve_sent(struct hk_fabric *f, const struct hk_op *op);
void hk_serve_end(struct hk_fabric *f, struct hk_op *op);

/* ---- notify.c */
#define HK_INBOX_MARK (1u << 31) /* numbers of puts wrap below it: on the wire none is 0 */
bool hk_inbox_in(struct hk_inbox *in, const struct hk_wire_put *put, const void *bytes,
		 uint16_t len);

/* ---- mcast.c */
void hk_mcast_in(struct hk_fabric *f, const struct hk_frame *frame);

/* By what a frame goes. */
struct hk_way {
	const uint8_t *eth;
	uint16_t lane;
	uint8_t path; /* as the engine knows it */
};

/* ---- rails.c: of peers that have some */
int hk_rails_set(struct hk_fabric *f, hk_peer p, const struct hk_peer_addr *a);
void hk_rails_drop(struct hk_fabric *f, hk_peer p);
unsigned hk_rail_pick(struct hk_fabric *f, hk_peer p, bool bulk, uint64_t now);
void hk_rail_sent(struct hk_fabric *f, struct hk_rails *r, unsigned i, size_t bytes);
void hk_rail_acked(struct hk_fabric *f, const struct hk_buf_note *note);
void hk_rail_lost(struct hk_fabric *f, hk_peer p, struct hk_buf_note *note, unsigned path);
const struct hk_rail *hk_rail_answer(const struct hk_fabric *f, const struct hk_peer_tx *t);
void hk_rails_tell(struct hk_fabric *f);

/* By what the next frame to @p goes. */
static inline struct hk_way hk_tx_way(struct hk_fabric *f, hk_peer p, bool bulk, uint64_t now)
{
	const struct hk_peer_tx *t = &f->peer[p];
	uint16_t lane = bulk ? t->bulk : t->lane;

	if (HK_UNLIKELY(t->rails != NULL)) {
		unsigned i = hk_rail_pick(f, p, bulk, now);

		return (struct hk_way){t->rails->rail[i].eth, t->rails->rail[i].lane, (uint8_t)i};
	}
	return (struct hk_way){t->eth, lane, lane != t->lane};
}

/* ---- rma.c */
bool hk_peer_talks(const struct hk_fabric *f, hk_peer p);
bool hk_put_go(struct hk_fabric *f, struct hk_op *op, uint64_t now);
void hk_put_start(struct hk_fabric *f, struct hk_op *op);
void hk_put_unqueued(struct hk_fabric *f, struct hk_op *op);
void hk_buf_unlend(hk_buf *b);
void hk_put_unlend(struct hk_fabric *f, const struct hk_op *op);
void hk_puts_acked(struct hk_fabric *f);
void hk_put_frame_free(struct hk_fabric *f, hk_buf *b, bool lost);
void hk_get_end(struct hk_fabric *f, struct hk_op *op, int status);
void hk_get_again(struct hk_fabric *f, struct hk_op *op);
void hk_gets_go(struct hk_fabric *f, uint64_t now);
void hk_rma_forget(struct hk_fabric *f, hk_peer p);
void hk_rma_tell(struct hk_fabric *f);

/* ---- atomic.c */
int hk_atoms_open(struct hk_fabric *f);
void hk_atoms_close(struct hk_fabric *f);
void hk_atoms_go(struct hk_fabric *f);
void hk_atoms_forget(struct hk_fabric *f, hk_peer p);

/* The compare-and-swap @w of @p was parked: does it and answers in @b, but if it misses, which gives false. */
bool hk_atomic_hit(struct hk_fabric *f, hk_peer p, struct hk_wire_atomic w, hk_buf *b);
/* … or in any case. */
void hk_atomic_serve(struct hk_fabric *f, hk_peer p, struct hk_wire_atomic *w);
/* What lay there is in `operand`. */
static inline bool hk_atomic_missed(const struct hk_wire_atomic *w)
{
	return w->size == 8 ? w->operand != w->compare
			    : (uint32_t)w->operand != (uint32_t)w->compare;
}

/* ---- parked.c */
/* After each compare-and-swap that was done for @p: @w, with what lay there in `operand`. */
void hk_parked_count(struct hk_fabric *f, hk_peer p, const struct hk_wire_atomic *w);
/* Before one is done. True if it will be done, and answered, later. */
bool hk_park(struct hk_fabric *f, hk_peer p, const struct hk_wire_atomic *w);
/* Does it now, and answers, if it hits … */
void hk_parked_try(struct hk_fabric *f);
/* … or in any case: it was for nothing. */
void hk_parked_end(struct hk_fabric *f);
/* It has waited long enough by now? */
void hk_parked_due(struct hk_fabric *f, uint64_t now);
/* @p is lost or gone, or has come anew. */
void hk_parked_forget(struct hk_fabric *f, hk_peer p);
/* The helper thread or the servant, without the lock: some looks at it, for less than 100 us. */
void hk_parked_look(struct hk_fabric *f);
static inline bool hk_parked_full(const struct hk_fabric *f)
{
	return HK_UNLIKELY(atomic_load_explicit(&f->parked.state, memory_order_relaxed) ==
			   HK_PARKED_FULL);
}
/* Is there anything to look at? */
static inline bool hk_parked_busy(const struct hk_fabric *f)
{
	return HK_UNLIKELY(atomic_load_explicit(&f->parked.state, memory_order_relaxed));
}

/* ---- ring.c */
void hk_rings_look(struct hk_fabric *f, uint64_t now);
void hk_ring_own(struct hk_fabric *f);

/* ---- fabric.c */
void hk_fabric_verdicts(struct hk_fabric *f);
void hk_peer_owe(struct hk_fabric *f, hk_peer p, enum hk_verdict why);
void hk_peer_departs(struct hk_fabric *f, hk_peer p);
void hk_peer_ends(struct hk_fabric *f, hk_peer p);
void hk_peer_anew(struct hk_fabric *f, hk_peer p);
void hk_peers_settle(struct hk_fabric *f);
void hk_peer_forget(struct hk_fabric *f, hk_peer p);
void hk_peer_learn(struct hk_fabric *f, hk_peer p, const uint8_t mac[6], uint16_t lane);

/* Before the application does something with @p: what a stand-in saw the end of must not mix with it. */
static inline void hk_peer_settle(struct hk_fabric *f, hk_peer p)
{
	if (HK_UNLIKELY(f->peer[p].gone))
		hk_peer_forget(f, p);
}

/* ---- async.c */
void hk_async_stop(struct hk_fabric *f);
void hk_servant_call(struct hk_fabric *f);

#endif
