/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/internal.h: the engine's data structures, and a map of its files.
 *
 *   engine.c      arena layout, configuration, counters
 *   peer.c        table of peers, their creation, end and disconnect reasons
 *   send.c        sending packets: numbers, headers, limits
 *   input.c       received frames: checks, duplicates, fragments, delivery
 *   ack.c         acknowledgements
 *   budget.c      receive buffers: which packets get one, and credit
 *   grant.c       bytes of bulk: who may send how many
 *   loss.c        effects of an acknowledgement: release, round-trip time, losses
 *   timer.c       each peer's timer, and the wheel that finds those due
 *   congestion.c  congestion window
 *   poll.c        frames that are due: resends, probes, acknowledgements
 *
 * The arena has these parts in this order, each aligned to 64 bytes and found by its offset:
 *
 *   struct hk_engine | peers[max_peers] | hash[] | tx slots[tx_blocks][window]
 *                    | owners[tx_blocks] | rx messages[rx_budget / 2] | done ring
 *                    | waiting for grants[max_peers]
 *
 * A peer owns a tx block only while it has packets in flight. So an idle peer costs sizeof(struct
 * hk_peer_rec) and its hash slots.
 */
#ifndef HK_ENGINE_INTERNAL_H
#define HK_ENGINE_INTERNAL_H

#include "engine/engine.h"

#define HK_NIL UINT32_MAX /* end of a list; absent block */

/* Returns a clock in steps of about 1 ms that wraps after 0.3 s. After the wrap an old frame may
 * look recent; its peer is then reported silent a little later, once. */
static inline uint8_t hk_coarse_ms(uint64_t ns)
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
	uint8_t borrowed : 1; /* payload that a progress proxy cannot read */
	uint8_t resent;       /* number of resends; saturates */
};

/* Of one path: the packet with the latest send time among those known to have arrived. */
struct hk_rack {
	uint64_t sent; /* send time, ns; 0: none has arrived */
	uint32_t psn;
	uint32_t rtt; /* its round trip, ns */
	/* The same of bulk; only if cfg.classes. */
	uint64_t bulk_sent;
	uint32_t bulk_psn;
};
_Static_assert(HK_PATHS <= 8, "a path number has three bits, a set of paths eight");

enum { HK_SLOT_IN_FLIGHT = 0, HK_SLOT_ACKED, HK_SLOT_LOST };

/* A message that lacks fragments. */
struct hk_rx_message {
	uint64_t token[HK_WIRE_MAX_FRAGS];
	uint32_t first;   /* its first packet */
	uint32_t next;    /* in a list: of its peer, of free ones, or of those of ended peers */
	uint16_t present; /* bit i: fragment i has arrived */
	uint8_t am, frags;
};

enum hk_timer {
	HK_TIMER_NONE = 0,
	HK_TIMER_PROBE,     /* tail probe: ask whether the last packets have arrived */
	HK_TIMER_RESEND,    /* retransmission timeout */
	HK_TIMER_REORDER,   /* end of the reordering window: late packets become lost */
	HK_TIMER_PACE,      /* nothing in flight, a window below one packet: the next may go */
	HK_TIMER_CREDIT,    /* nothing in flight, no credit: ask for credit */
	HK_TIMER_KEEPALIVE, /* nothing in flight: ask whether the peer is alive */
};

/* Tail probes since the last progress. */
enum hk_probed {
	HK_PROBED_NOT = 0, /* none sent */
	HK_PROBED_ONCE,    /* one sent, no answer yet */
	HK_PROBED_TWICE,   /* two sent, no answer yet */
	HK_PROBE_ANSWERED, /* answered without a new acknowledgement */
};

struct hk_peer_rec {
	uint32_t endpoint, epoch;
	uint8_t state;      /* enum hk_peer_state */
	uint8_t reason : 4; /* enum hk_disconnect_reason */
	uint8_t in_lost_list : 2;
	uint8_t probed : 2; /* enum hk_probed */
	uint8_t timer;      /* enum hk_timer */
	uint8_t backoff;    /* times that the timer fired since the last progress */
	/* Sending: numbers una <= psn < next are in flight; credit lets next grow to edge. */
	uint32_t tx_next, tx_una, tx_edge;
	uint32_t tx_block;
	uint32_t tx_bytes;              /* bytes of the packets in flight */
	uint32_t cwnd, ssthresh;        /* packets, with 8 bits of fraction */
	uint32_t cwnd_before;           /* cwnd before timeouts reduced it; 0: nothing to undo */
	uint16_t in_flight;             /* number of IN_FLIGHT slots */
	uint16_t lost;                  /* number of LOST slots, to be resent */
	uint16_t sacked;                /* number of ACKED slots at or after una */
	uint16_t held;                  /* delivered buffers that the caller holds */
	uint32_t srtt, rttvar, min_rtt; /* ns */
	uint32_t min_now;               /* least round trip of this period, ns */
	uint32_t last_rtt;              /* latest sample, ns */
	struct hk_rack rack;            /* latest arrival of path 0; others lie in the tx block */
	uint64_t timer_armed;           /* when the timer was set, ns */
	uint64_t probed_at;             /* when we last sent a probe for `probed`, ns */
	uint64_t silent;                /* time that we waited without receiving a frame, ns */
	uint64_t last_rx;               /* time of the last frame, ns */
	uint64_t progress_at;           /* time when una last moved or sending began, ns */
	uint64_t cut_at;                /* time when cwnd was last reduced, ns */
	uint32_t round_end;             /* packet with which this round trip ends */
	uint16_t round_acked, round_marked; /* packets and marks in this round trip */
	uint16_t marked_part;               /* average part of marked packets, in 1/65536 */
	uint8_t tx_marks, rx_marks;         /* frames with a mark: of ours, of the peer's */
	uint8_t min_period;                 /* number of that period, see engine/loss.c */
	/* Receiving: every number before rx_next has arrived, and those with a bit in rx_map. */
	uint32_t rx_next, rx_edge; /* rx_edge: right edge of the credit that we gave last */
	uint64_t rx_map[HK_WIRE_WINDOW / 64]; /* bit psn % window: packet psn has arrived */
	uint16_t rx_gaps;                     /* bits set in rx_map */
	uint16_t ack_pending; /* packets since our last acknowledgement; 4 KiB count one more */
	uint16_t rx_reserved, rx_deferred; /* buffers, see engine/budget.c */
	uint8_t long_at;      /* hk_coarse_ms() of its latest frame of HK_LONG_FRAME bytes */
	uint8_t tx_equal;     /* equal paths, see hk_engine_peer_paths() */
	uint32_t rx_messages; /* first incomplete message */
	uint32_t ts_recent;
	uint8_t tx_others;       /* paths except 0 used since the block was taken, one bit each */
	uint8_t ts_not_polling;  /* bool: the packet of ts_recent waited because we did not poll */
	uint8_t not_polling : 1; /* the peer's latest frame said that it is not polling */
	uint8_t has_sent : 1;    /* the peer has sent a frame, so keepalives make sense */
	uint8_t tx_mid : 1;      /* the message sent last lacks fragments */
	uint8_t in_ack_list : 1, in_wheel : 1, in_wait_list : 1;
	uint8_t grant_list : 2; /* enum hk_grant_list */
	uint8_t in_grant_list : 1, in_turn : 1;
	uint8_t asked : 1;     /* the peer has asked since its last grant ended unused */
	uint8_t has_bulk : 1;  /* acknowledgements carry a grant */
	uint8_t grant_due : 1; /* the next one tells something new */
	uint8_t added : 1;     /* by the caller, in this incarnation or an earlier one */
	uint8_t pausing : 1;   /* the window is below one packet, and the next may not go yet */
	uint8_t slot;          /* of time, when its latest packet arrived; see engine/budget.c */
	uint64_t rx_counter;   /* of the newest authenticated frame */
	uint64_t ts_at;        /* arrival time of ts_recent, ns */
	uint64_t ack_due;      /* when the acknowledgement is due, ns; while in the ack list */
	uint32_t ack_prev, ack_next;
	/* The timer: duration in units of HK_TIMER_UNIT; place in the wheel, see engine/timer.c */
	uint32_t timer_after, timer_tick, timer_prev, timer_next;
	uint32_t lost_next; /* in the list of peers with lost packets, or of ended peers */
	uint32_t wait_next; /* in the list of peers without credit */
	/* Bulk, see engine/grant.c. Bytes since the start of the connection, modulo 2^32. */
	uint32_t tx_bulk, tx_granted, tx_wanted; /* sent, granted to us, sent or waiting */
	uint32_t rx_bulk, rx_granted, rx_wanted; /* arrived, granted to it, asked for by it */
	uint64_t tx_granted_at;                  /* when we last got or used a grant, ns */
	uint64_t asked_at;                       /* when we last asked for one, ns */
	uint64_t grant_used_at;                  /* when the peer last got or used a grant, ns */
	uint32_t open_prev, open_next;           /* in the list of peers with an open grant */
	union {
		uint32_t turn_left; /* in_turn: bytes that its turn lasts */
		uint32_t grant_at;  /* in_grant_list: place among the peers that wait for one */
	};
	uint32_t rx_asked; /* bytes of its last request */
};
_Static_assert(sizeof(struct hk_peer_rec) <= HK_ENGINE_PEER_BYTES - 16,
	       "an idle peer fits its budget, hash slots included");

/* The running timers, see engine/timer.c. */
#define HK_WHEEL_LEVELS 8
#define HK_WHEEL_SLOTS  64
struct hk_wheel {
	uint64_t tick;                  /* all slots before have been handled */
	uint64_t used[HK_WHEEL_LEVELS]; /* bit i: slot i has timers */
	uint32_t due;                   /* first peer of the slot that is being handled */
	uint32_t slot[HK_WHEEL_LEVELS][HK_WHEEL_SLOTS]; /* first peer */
};

/* Where a peer with an open grant is. */
enum hk_grant_list { HK_GRANT_NONE = 0, HK_GRANT_OPEN, HK_GRANT_STALLED, HK_GRANT_LISTS };

/* Grants of bulk to all peers, see engine/grant.c. */
#define HK_GRANT_TURNS 8
struct hk_grants {
	uint32_t out;             /* bytes that are granted and have not arrived */
	uint32_t stalled;         /* those of senders that do not answer; not in `out` */
	uint32_t stalled_max;     /* limit of `stalled` */
	uint32_t budget, quantum; /* limit of `out`; bytes of one grant */
	uint32_t frame;           /* `len` of the longest packet of bulk seen */
	uint64_t frame_time;      /* what our link needs for it, ns */
	uint64_t life;            /* of a grant that is not used, ns */
	uint32_t waiting, batch;  /* peers that wait for a grant; first of them: next in turn */
	uint32_t random;          /* state of the generator that draws from these */
	struct hk_grant_queue {
		uint32_t head, tail;
	} list[HK_GRANT_LISTS];        /* peers with an open grant, the longest idle first */
	uint64_t due;                  /* when the first of these is idle for too long, ns */
	uint64_t rtt, rtt_since;       /* least round trip since that time, ns; 0: none yet */
	uint64_t base;                 /* round trip that the budget covers, ns */
	uint64_t busy_to;              /* our link has received all that arrived by then, ns */
	uint32_t turn[HK_GRANT_TURNS]; /* senders whose turn it is */
	uint8_t turns, next_turn;      /* how many; which of them gets the next quantum */
};

struct hk_engine {
	struct hk_engine_config cfg;
	struct hk_engine_counters n;
	uint32_t peers;
	uint32_t stranger_at;          /* where the search for a stranger's record goes on */
	uint32_t hash_mask, hash_most; /* slots of the hash minus one: at present, at most */
	uint8_t version;               /* first byte of each header */
	uint32_t last_peer;            /* peer of the last frame, tried first for the next frame */
	/* Receive buffers of all peers, see engine/budget.c. */
	uint32_t rx_held, rx_reserved, rx_deferred;
	uint32_t slot;                   /* present slot of time */
	uint32_t slot_peers, last_peers; /* peers that sent in this slot, and in the one before */
	uint32_t wait_head, wait_tail;   /* peers without credit, the longest waiting first */
	uint32_t unacked;                /* unacknowledged packets of all peers */
	uint32_t slow_rtt;               /* longest srtt of late of any peer, ns; 0: none yet */
	bool not_polling;                /* see hk_engine_set_not_polling() */
	/* Lists of peers, by index. */
	uint32_t ack_head, ack_tail;     /* pending acknowledgements, ordered by ack_due */
	uint32_t lost_head;              /* peers with LOST slots */
	uint32_t ended_head, ended_tail; /* peers whose disconnect reason was not read yet */
	uint32_t tx_free;                /* free tx blocks, linked through their first slot */
	uint32_t tx_fresh;               /* blocks from here on have not been used */
	uint32_t rx_free;                /* free rx messages */
	uint32_t rx_doomed;              /* rx messages of ended peers, to be reaped */
	uint64_t timer_min;              /* no timer is due before, ns */
	uint64_t target_delay;           /* queueing delay that congestion control permits, ns */
	/* Ring of tokens to be reaped. */
	uint32_t done_head, done_count, done_cap;
	uint32_t bye_next;  /* index of the next peer that gets a BYE; HK_NIL: not leaving */
	bool refusing;      /* see hk_engine_set_refusing() */
	bool by_proxy;      /* see hk_engine_set_proxy() */
	bool borrowed_lost; /* lost packets wait for the owner, because the proxy cannot read them
			     */
	bool reset_wanted;  /* the frame just input is to be answered by a RESET */
	uint32_t reset_dst, reset_dst_epoch, reset_refused; /* header fields of that RESET */
	/* Parts of the arena, from its start. */
	uint64_t peers_off, hash_off, tx_off, owner_off, rx_off, done_off, grant_off;
	struct hk_wheel wheel;
	struct hk_grants grant;
	uint64_t nic_free_at; /* when our NIC has sent all bulk, ns */
	uint64_t nic_queue;   /* how far ahead of now that may be, ns */
	uint64_t send_due; /* when a packet that waits for the NIC or for its pace may go on, ns */
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

/* Slots of a tx block: one for each packet of the window, then as many as the struct hk_rack of all
 * paths except 0 need. */
#define HK_TX_BLOCK_SLOTS(window)                                                                  \
	((window) +                                                                                \
	 (unsigned)(((HK_PATHS - 1) * sizeof(struct hk_rack) + sizeof(struct hk_tx_slot) - 1) /    \
		    sizeof(struct hk_tx_slot)))

static inline struct hk_tx_slot *hk_tx_block(const struct hk_engine *e, uint32_t b)
{
	return (struct hk_tx_slot *)hk_at(e, e->tx_off) +
	       (size_t)b * HK_TX_BLOCK_SLOTS(e->cfg.window);
}

static inline struct hk_tx_slot *hk_tx_slot(const struct hk_engine *e, const struct hk_peer_rec *r,
					    uint32_t psn)
{
	return hk_tx_block(e, r->tx_block) + (psn & (e->cfg.window - 1u));
}

/* Returns whether a peer can take a tx block. */
static inline bool hk_tx_block_left(const struct hk_engine *e)
{
	return e->tx_free != HK_NIL || e->tx_fresh < e->cfg.tx_blocks;
}

/* The peer that owns tx block @b, which is below tx_fresh; HK_NIL: it is free. */
static inline uint32_t *hk_tx_owner(const struct hk_engine *e, uint32_t b)
{
	return (uint32_t *)hk_at(e, e->owner_off) + b;
}

#define HK_TIMER_UNIT 6 /* units of 64 ns: up to 274 s */

/* When the timer of @r fires, ns. */
static inline uint64_t hk_timer_at(const struct hk_peer_rec *r)
{
	return r->timer_armed + ((uint64_t)r->timer_after << HK_TIMER_UNIT);
}

/* Returns whether a resend must wait for the owner of the payload. */
static inline bool hk_out_of_reach(const struct hk_engine *e, const struct hk_tx_slot *s)
{
	return HK_UNLIKELY(e->by_proxy) && s->borrowed;
}

/* Returns the latest arrival of @path. Except for path 0 it exists only for bits in tx_others. */
static inline struct hk_rack *hk_rack(const struct hk_engine *e, struct hk_peer_rec *r,
				      unsigned path)
{
	return HK_LIKELY(path == 0)
		       ? &r->rack
		       : (struct hk_rack *)(hk_tx_block(e, r->tx_block) + e->cfg.window) +
				 (path - 1);
}

/* Records that a packet is about to be sent by @path, which is not 0. */
static inline void hk_path_used(const struct hk_engine *e, struct hk_peer_rec *r, unsigned path)
{
	if (r->tx_others & 1u << path)
		return;
	r->tx_others |= (uint8_t)(1u << path);
	*hk_rack(e, r, path) = (struct hk_rack){0};
}

/* Place @i of the peers that wait for a grant. */
static inline uint32_t *hk_grant_wait(const struct hk_engine *e, uint32_t i)
{
	return (uint32_t *)hk_at(e, e->grant_off) + i;
}

static inline struct hk_rx_message *hk_rx_message(const struct hk_engine *e, uint32_t i)
{
	return (struct hk_rx_message *)hk_at(e, e->rx_off) + i;
}

static inline bool hk_peer_connected(const struct hk_peer_rec *r)
{
	return r->state == HK_PEER_ACTIVE || r->state == HK_PEER_PASSIVE;
}

/* ---- peer.c */
void hk_peers_init(struct hk_engine *e);
struct hk_peer_rec *hk_peer_lookup(struct hk_engine *e, uint32_t endpoint);
struct hk_peer_rec *hk_peer_create(struct hk_engine *e, uint32_t endpoint, uint32_t epoch,
				   enum hk_peer_state state, uint64_t now);
void hk_peer_start(struct hk_engine *e, struct hk_peer_rec *r, uint32_t endpoint, uint32_t epoch,
		   enum hk_peer_state state, uint64_t now);
bool hk_disconnect_unread(const struct hk_engine *e, const struct hk_peer_rec *r);
void hk_peer_end(struct hk_engine *e, struct hk_peer_rec *r, enum hk_peer_state state,
		 enum hk_disconnect_reason why);

/* ---- send.c */
void hk_hdr_fill(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, hk_wire_hdr_in_frame *h);
void hk_tx_block_release(struct hk_engine *e, struct hk_peer_rec *r);
void hk_done_push(struct hk_engine *e, uint64_t token);

/* ---- ack.c */
void hk_ack_schedule(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, bool at_once);
void hk_ack_cancel(struct hk_engine *e, struct hk_peer_rec *r);
void hk_ack_emit(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now, uint8_t flags,
		 struct hk_out *o);

/* ---- budget.c */
/* Returns whether a message of @buffers packets may begin to wait for others. @is_next: its first
 * packet is next in order. */
bool hk_budget_room(const struct hk_engine *e, const struct hk_peer_rec *r, unsigned buffers,
		    bool is_next);
/* Counts the buffers of a message that has begun to arrive, until it is complete. */
void hk_budget_reserve(struct hk_engine *e, struct hk_peer_rec *r, unsigned buffers, uint64_t now);
void hk_budget_unreserve(struct hk_engine *e, struct hk_peer_rec *r, unsigned buffers);
/* Counts the buffers of a complete message that waits for packets before it. */
void hk_budget_defer(struct hk_engine *e, struct hk_peer_rec *r, unsigned buffers, uint64_t now);
/* A gap has closed. */
void hk_budget_gap_closed(struct hk_engine *e, struct hk_peer_rec *r);
/* Nothing more comes from a peer that has ended. */
void hk_budget_forget(struct hk_engine *e, struct hk_peer_rec *r);
/* A packet of @r has arrived. The second function: the first one of it in @slot. */
#define HK_SLOT_SHIFT 22 /* slots of time of 4 ms */
void hk_budget_seen_first(struct hk_engine *e, struct hk_peer_rec *r, uint32_t slot);
static inline void hk_budget_seen(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now)
{
	uint32_t slot = (uint32_t)(now >> HK_SLOT_SHIFT);

	if (HK_UNLIKELY(slot != e->slot || r->slot != (uint8_t)slot))
		hk_budget_seen_first(e, r, slot);
}
/* Do messages of @r occupy buffers until further packets arrive? */
static inline bool hk_budget_waits(const struct hk_peer_rec *r)
{
	return r->rx_reserved || r->rx_deferred;
}
uint16_t hk_credit_grant(struct hk_engine *e, struct hk_peer_rec *r);

/* ---- grant.c */
/* Does a packet with `len` @len need a grant? */
static inline bool hk_is_bulk(const struct hk_engine *e, uint32_t len)
{
	return HK_UNLIKELY(e->cfg.link_mbps != 0) && len >= HK_LONG_FRAME;
}
/* Do we wait for a grant? */
static inline bool hk_grant_missing(const struct hk_peer_rec *r)
{
	return hk_psn_before(r->tx_granted, r->tx_wanted);
}
void hk_grant_init(struct hk_engine *e);
bool hk_grant_allows(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now);
void hk_grant_used(struct hk_engine *e, struct hk_peer_rec *r, uint32_t len, uint64_t now);
void hk_grant_fill(struct hk_peer_rec *r, struct hk_wire_grant *g, uint64_t now);
void hk_grant_input(struct hk_engine *e, struct hk_peer_rec *r, const struct hk_wire_grant *g,
		    uint32_t tsval, uint64_t now);
/* A packet of bulk with `len` @len has arrived for the first time. @rtt: see hk_echo_age(). */
void hk_grant_arrived(struct hk_engine *e, struct hk_peer_rec *r, uint32_t len, uint64_t rtt,
		      uint64_t now);
void hk_grants_due(struct hk_engine *e, uint64_t now);
void hk_grant_forget(struct hk_engine *e, struct hk_peer_rec *r);

/* ---- loss.c */
void hk_loss_ack(struct hk_engine *e, struct hk_peer_rec *r, const struct hk_frame *f,
		 uint64_t now);
/* Our frames to @r echo @tsval from now on. */
static inline void hk_note_tsval(const struct hk_engine *e, struct hk_peer_rec *r, uint32_t tsval,
				 uint64_t now)
{
	r->ts_recent = tsval;
	r->ts_at = now;
	r->ts_not_polling = e->not_polling || e->refusing;
}
/* Returns how long ago, in ns, we sent the frame whose timestamp comes back as @tsecr. The time
 * that the peer waited is left out. 0: the frame has no echo. */
static inline uint64_t hk_echo_age(uint32_t tsecr, uint64_t now)
{
	uint32_t ticks = (uint32_t)(now >> HK_WIRE_TS_SHIFT) - tsecr;

	if (tsecr == 0 || ticks > UINT32_C(1) << 26) /* over a second is not a round trip */
		return 0;
	return (uint64_t)HK_MAX(ticks, 1u) << HK_WIRE_TS_SHIFT;
}
void hk_loss_detect(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now);
void hk_loss_mark(struct hk_engine *e, struct hk_peer_rec *r, struct hk_tx_slot *s);
/* Finds the last packet in flight that was sent by @before and that this process can read. */
bool hk_last_in_flight(const struct hk_engine *e, const struct hk_peer_rec *r, uint64_t before,
		       uint32_t *psn);
void hk_lost_enlist(struct hk_engine *e, struct hk_peer_rec *r);

/* ---- timer.c */
uint64_t hk_rto(const struct hk_engine *e, const struct hk_peer_rec *r);
void hk_timer_arm(struct hk_engine *e, struct hk_peer_rec *r, enum hk_timer kind, uint64_t now,
		  uint64_t after);
void hk_timer_rearm(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now);
void hk_timer_off(struct hk_engine *e, struct hk_peer_rec *r);
/* Takes the next timer that is due at @now out of the wheel. False: none is left. */
bool hk_timer_next_due(struct hk_engine *e, uint64_t now, hk_peer *p);
void hk_timer_init(struct hk_engine *e);

/* ---- congestion.c */
void hk_cc_init(struct hk_engine *e);
void hk_cc_start(const struct hk_engine *e, struct hk_peer_rec *r);
void hk_cc_acked(const struct hk_engine *e, struct hk_peer_rec *r, unsigned packets, uint64_t now);
void hk_cc_lost(const struct hk_engine *e, struct hk_peer_rec *r, uint64_t now);
void hk_cc_spurious(struct hk_peer_rec *r);
void hk_cc_timeout(const struct hk_engine *e, struct hk_peer_rec *r, uint64_t now);
/* The peer has acknowledged @packets more, and has received @marks frames with a mark so far,
 * modulo 256. */
void hk_cc_marks(const struct hk_engine *e, struct hk_peer_rec *r, unsigned packets, uint8_t marks,
		 uint64_t now);
/* Has a peer with a window below one packet pause: sets the timer. */
void hk_cc_pause(struct hk_engine *e, struct hk_peer_rec *r, uint64_t now);
static inline bool hk_cc_below_one(const struct hk_peer_rec *r)
{
	return HK_UNLIKELY(r->cwnd < 1u << 8);
}
/* How many packets the window lets be in flight. */
#define HK_CC_GRANTED 4u
static inline uint32_t hk_cc_packets(const struct hk_peer_rec *r)
{
	uint32_t n = r->cwnd >> 8;

	if (HK_LIKELY(n >= HK_CC_GRANTED))
		return n;
	if (hk_psn_before(r->tx_bulk, r->tx_granted))
		return HK_CC_GRANTED;
	return n ? n : !r->pausing;
}

#endif
