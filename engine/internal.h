/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/internal.h: the engine's data structures, and which file does what.
 *
 *   engine.c      arena layout, configuration, counters
 *   peer.c        the table of peers, their birth, verdicts and death
 *   send.c        packets out: numbering, headers, room
 *   input.c       frames in: checks, duplicates, fragments, delivery
 *   ack.c         when and how we acknowledge; credit
 *   loss.c        what an acknowledgement tells: release, RTT, losses, timers
 *   congestion.c  the congestion window
 *   poll.c        time: resends, probes, acks that are due
 *
 * The arena, in this order, each part aligned to 64 bytes; parts find each other by offset:
 *
 *   struct hk_engine | peers[max_peers] | hash[] | tx slots[tx_blocks][window]
 *                    | rx slots[rx_blocks][2 * window] | done ring
 *
 * A peer owns a tx block only while it has packets in flight and an rx block only while it has a
 * message half received, so that an idle peer costs sizeof(struct hk_peer_rec) and its hash slots.
 */
#ifndef HK_ENGINE_INTERNAL_H
#define HK_ENGINE_INTERNAL_H

#include "engine/engine.h"

#define HK_NIL UINT32_MAX /* end of a list, no block */

/* Of payload; somebody moves bulk. */
#define HK_LONG_FRAME 1024u

/* About a ms, and it goes round in 0.3 s: who takes that for a frame of just now waits a little longer, once. */
static inline uint8_t hk_long_time(uint64_t ns)
{
	return (uint8_t)(ns >> 20);
}

/* One packet in flight. */
struct hk_tx_slot {
	uint64_t token;
	uint64_t sent_at;
	uint16_t len;
	uint8_t type, am, frag, frags;
	uint8_t state : 4; /* HK_SLOT_* */
	uint8_t path : 3;
	uint8_t lent : 1; /* out of a stand-in's reach */
	uint8_t resent;   /* how often; saturates */
};

/* The packet sent last among those that are known to have arrived, of one path. */
struct hk_rack {
	uint64_t sent; /* when; 0: there is none */
	uint32_t psn;
	uint32_t rtt; /* its own */
};
_Static_assert(HK_PATHS <= 8, "a path's number has three bits, a set of them eight");

enum { HK_SLOT_FLYING = 0, HK_SLOT_ACKED, HK_SLOT_LOST };

/* One held fragment. Twice the window of them, because a fragment up to 15 numbers *before*
 * rx_next may still wait for its message while rx_next + window - 1 is already accepted. */
struct hk_rx_slot {
	uint64_t token;
	uint32_t psn;
	uint8_t am, frag, frags;
	uint8_t present;
};

enum hk_timer {
	HK_TIMER_NONE = 0,
	HK_TIMER_PROBE,     /* tail probe: ask what has come of the last packets */
	HK_TIMER_RESEND,    /* resend timer proper */
	HK_TIMER_REORDER,   /* packets that may merely be late become losses */
	HK_TIMER_CREDIT,    /* nothing in flight, no credit: ask whether there is some */
	HK_TIMER_KEEPALIVE, /* nothing in flight: ask whether it lives */
};

/* Whether it knows what we sent, since the last progress. */
enum hk_asked {
	HK_ASKED_NOT = 0,
	HK_ASKED_ONCE, /* … and nothing has come since */
	HK_ASKED_TWICE,
	HK_ASKED_HEARD, /* it answers, and knows nothing of it */
};

struct hk_peer_rec {
	uint32_t endpoint, epoch;
	uint8_t state;       /* enum hk_peer_state */
	uint8_t verdict : 4; /* enum hk_verdict */
	uint8_t in_lost_list : 2;
	uint8_t asked : 2; /* enum hk_asked */
	uint8_t timer;     /* enum hk_timer */
	uint8_t backoff;   /* how often the timer fired since the last progress */
	/* sending: una <= psn < next are in flight; next may grow to edge (credit) */
	uint32_t tx_next, tx_una, tx_edge;
	uint32_t tx_block;
	uint32_t tx_bytes;              /* of the packets in flight */
	uint32_t cwnd, ssthresh;        /* packets, 8 bits of fraction */
	uint32_t cwnd_before;           /* the resend timer cut it; 0: or that was right */
	uint16_t in_flight;             /* FLYING slots */
	uint16_t lost;                  /* LOST slots: to be resent */
	uint16_t sacked;                /* ACKED slots at or after una */
	uint16_t held;                  /* delivered buffers that the caller still keeps */
	uint32_t srtt, rttvar, min_rtt; /* ns */
	uint32_t last_rtt;              /* the latest sample, ns */
	struct hk_rack rack;            /* of path 0; those of others lie in the block */
	uint64_t timer_at, timer_armed; /* when it fires, when it was armed */
	uint64_t silent;                /* time waited without hearing anything, ns */
	uint64_t last_heard;
	uint64_t progress_at; /* when una last moved, or sending began */
	uint64_t cut_at;      /* when cwnd was last reduced */
	/* receiving: every number before rx_next has arrived; bit psn % window: arrived too */
	uint32_t rx_next, rx_edge; /* rx_edge: right edge of the credit we last advertised */
	uint64_t rx_map[HK_WIRE_WINDOW / 64];
	uint16_t rx_gaps;     /* bits set in rx_map */
	uint16_t ack_pending; /* packets that arrived since we last acknowledged */
	uint32_t rx_block, rx_frags;
	uint32_t ts_recent;
	uint8_t tx_mid;    /* the message sent last lacks fragments */
	uint8_t tx_others; /* paths but 0 by which packets of this block were sent, a bit each */
	uint8_t tx_equal;  /* hk_engine_peer_paths() */
	uint8_t ts_away;   /* ts_recent had waited for us: it tells nothing of the network */
	uint8_t away;   /* its latest frame said so: whoever answers for it comes by now and then */
	uint8_t talked; /* something was exchanged: worth a keepalive */
	uint8_t in_ack_list : 1, in_active_list : 1;
	uint8_t long_at;  /* hk_long_time() of the latest frame of HK_LONG_FRAME bytes */
	uint64_t ts_at;   /* when ts_recent arrived */
	uint64_t ack_due; /* while in the ack list */
	uint32_t ack_prev, ack_next, active_prev, active_next, lost_next, verdict_next;
};
_Static_assert(sizeof(struct hk_peer_rec) <= HK_ENGINE_PEER_BYTES - 16,
	       "an idle peer stays within its budget, hash slots included");

struct hk_engine {
	struct hk_engine_config cfg;
	struct hk_engine_counters n;
	uint32_t peers, hash_mask;
	uint32_t last_peer; /* most frames come from the peer the last one came from */
	uint32_t talking;   /* peers that sent us something: they share the rx budget */
	uint32_t rx_held;   /* buffers kept by the caller or waiting for their message */
	uint32_t unacked;   /* over all peers */
	bool away;          /* what comes in had waited for the caller: see hk_engine_away() */
	/* lists of peers, by index */
	uint32_t ack_head, ack_tail; /* ordered by ack_due */
	uint32_t active_head;        /* peers whose timer runs */
	uint32_t lost_head;          /* peers with LOST slots */
	uint32_t verdict_head, verdict_tail;
	uint32_t tx_free, rx_free, rx_doomed; /* lists of blocks, linked through their first slot */
	uint64_t timer_min;                   /* no timer fires before this */
	/* ring of tokens to be reaped */
	uint32_t done_head, done_count, done_cap;
	uint32_t bye_next; /* index of the next peer that is told BYE; HK_NIL: not leaving */
	bool refusing;     /* hk_engine_refuse() */
	bool stand_in;     /* hk_engine_stand_in() */
	bool lent_lost;    /* … and lost packets wait for the owner */
	bool reset_wanted; /* a RESET answers the frame just input */
	uint32_t reset_dst, reset_dst_epoch, reset_refused;
	uint64_t peers_off, hash_off, tx_off, rx_off, done_off; /* from the arena's start */
};

static inline void *hk_at(const struct hk_engine *e, uint64_t off)
{
	return (char *)(uintptr_t)e + off;
}

static inline struct hk_peer_rec *hk_rec(const struct hk_engine *e, uint32_t p)
{
	return (struct hk_peer_rec *)hk_at(e, e->peers_off) + p;
}

static inline uint32_t hk_index(const struct hk_engine *e, const struct hk_peer_rec *r)
{
	return (uint32_t)(r - (struct hk_peer_rec *)hk_at(e, e->peers_off));
}

/* A slot for each packet of the window, and behind them places for struct hk_rack, of all paths but 0. */
#define HK_TX_BLOCK(window)                                                                        \
	((window) +                                                                                \
	 (unsigned)(((HK_PATHS - 1) * sizeof(struct hk_rack) + sizeof(struct hk_tx_slot) - 1) /    \
		    sizeof(struct hk_tx_slot)))

static inline struct hk_tx_slot *hk_tx_block(const struct hk_engine *e, uint32_t b)
{
	return (struct hk_tx_slot *)hk_at(e, e->tx_off) + (size_t)b * HK_TX_BLOCK(e->cfg.window);
}

static inline struct hk_tx_slot *hk_tx_slot(const struct hk_engine *e, const struct hk_peer_rec *r,
					    uint32_t psn)
{
	return hk_tx_block(e, r->tx_block) + (psn & (e->cfg.window - 1u));
}

/* It must wait for the owner of its bytes. */
static inline bool hk_out_of_reach(const struct hk_engine *e, const struct hk_tx_slot *s)
{
	return HK_UNLIKELY(e->stand_in) && s->lent;
}

/* Of paths but 0 only those in `tx_others`. */
static inline struct hk_rack *hk_rack(const struct hk_engine *e, struct hk_peer_rec *r,
				      unsigned path)
{
	return HK_LIKELY(path == 0)
		       ? &r->rack
		       : (struct hk_rack *)(hk_tx_block(e, r->tx_block) + e->cfg.window) +
				 (path - 1);
}

/* A packet is about to go by @path, which is not 0. */
static inline void hk_path_used(const struct hk_engine *e, struct hk_peer_rec *r, unsigned path)
{
	if (r->tx_others & 1u << path)
		return;
	r->tx_others |= (uint8_t)(1u << path);
	*hk_rack(e, r, path) = (struct hk_rack){0};
}

static inline struct hk_rx_slot *hk_rx_block(const struct hk_engine *e, uint32_t b)
{
	return (struct hk_rx_slot *)hk_at(e, e->rx_off) + (size_t)b * e->cfg.window * 2;
}

static inline struct hk_rx_slot *hk_rx_slot(const struct hk_engine *e, const struct hk_peer_rec *r,
					    uint32_t psn)
{
	return hk_rx_block(e, r->rx_block) + (psn & (e->cfg.window * 2u - 1u));
}

static inline bool hk_talks(const struct hk_peer_rec *r)
{
	return r->state == HK_PEER_ACTIVE || r->state == HK_PEER_HEARD;
}

/* ---- peer.c */
struct hk_peer_rec *hk_peer_lookup(struct hk_engine *e, uint32_t endpoint);
struct hk_peer_rec *hk_peer_create(struct hk_engine *e, uint32_t endpoint, uint32_t epoch,
				   enum hk_peer_state state, uint64_t now);
void hk_peer_start(struct hk_engine *e, struct hk_peer_rec *r, uint32_t endpoint, uint32_t epoch,
		   enum hk_peer_state state, uint64_t now);
bool hk_verdict_unread(const struct hk_engine *e, const struct hk_peer_rec *r);
void hk_peer_end(struct hk_engine *e, struct hk_peer_rec *r, enum hk_peer_state state,
		 enum hk_verdict why);

/* ---- send.c */
void hk_fill_hdr(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, hk_wire_hdr_in_frame *h);
void hk_tx_block_release(struct hk_engine *e, struct hk_peer_rec *r);
void hk_done_push(struct hk_engine *e, uint64_t token);

/* ---- ack.c */
void hk_ack_schedule(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, bool at_once);
void hk_ack_cancel(struct hk_engine *e, struct hk_peer_rec *r);
uint16_t hk_credit(const struct hk_engine *e, struct hk_peer_rec *r);
void hk_ack_emit(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, uint16_t flags,
		 struct hk_out *o);

/* ---- loss.c */
void hk_loss_ack(struct hk_engine *e, struct hk_peer_rec *r, const struct hk_frame *f,
		 uint64_t now);
void hk_loss_detect(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now);
void hk_loss_mark(struct hk_engine *e, struct hk_peer_rec *r, struct hk_tx_slot *s);
/* Finds the last in flight that was sent by then and is within reach. */
bool hk_last_flying(const struct hk_engine *e, const struct hk_peer_rec *r, uint64_t before,
		    uint32_t *psn);
void hk_lost_enlist(struct hk_engine *e, struct hk_peer_rec *r);
uint64_t hk_rto(const struct hk_engine *e, const struct hk_peer_rec *r);
void hk_timer_arm(struct hk_engine *e, struct hk_peer_rec *r, enum hk_timer kind, uint64_t now,
		  uint64_t after);
void hk_timer_rearm(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now);
void hk_timer_off(struct hk_engine *e, struct hk_peer_rec *r);

/* ---- congestion.c */
void hk_cc_start(const struct hk_engine *e, struct hk_peer_rec *r);
void hk_cc_acked(const struct hk_engine *e, struct hk_peer_rec *r, unsigned packets, uint64_t now);
void hk_cc_lost(const struct hk_engine *e, struct hk_peer_rec *r, uint64_t now);
void hk_cc_spurious(struct hk_peer_rec *r);
void hk_cc_timeout(struct hk_peer_rec *r, uint64_t now);

#endif
