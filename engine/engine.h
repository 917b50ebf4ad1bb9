/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/engine.h: the protocol, as a pure library.
 *
 * An engine is one endpoint's side of every conversation it has. Frames that arrived go in by
 * hk_engine_input(), packets to send get their number and header from hk_engine_send(), and
 * hk_engine_poll() says what else must go out now: acks, resends, probes. That is all: the engine
 * never reads a clock, never does I/O, never allocates, never calls back. The caller passes `now`
 * (nanoseconds of any monotonic clock) and owns the buffers; the engine knows a buffer only by a
 * 64-bit token.
 *
 * What it promises (docs/protocol.md says how):
 *  - exactly once: a packet that hk_engine_send() took is delivered once, or the peer gets a
 *    verdict; order between messages is not kept (Open MPI's ob1 orders by itself);
 *  - nothing hangs: whatever waits for a peer has a timer, and a peer that stays silent for
 *    `peer_timeout` while we wait for it is reported dead;
 *  - the receiver is never flooded: at most `window` packets beyond its cumulative ack are sent;
 *  - bounded memory: hk_engine_size() bytes, known before the first frame.
 *
 * State: everything lies in one arena given at hk_engine_init(), with indices instead of pointers
 * and no function pointers, so that the arena may be shared memory and another process may drive
 * the same engine (hikyakud's poller). Threads: none; one caller at a time.
 *
 * Peers. A hk_peer stays that endpoint's for the life of the engine: a record is never given to another, and a later
 * incarnation gets the same one. Where a function takes a hk_peer it must be one that this engine gave.
 *
 * Sources: selective ack RFC 2018, timers RFC 6298, time-based loss detection and tail probes
 * RFC 8985, timestamps RFC 7323, delay-based window after Swift (SIGCOMM 2020).
 */
#ifndef HK_ENGINE_H
#define HK_ENGINE_H

#include "wire/wire.h"

struct hk_engine;
typedef uint32_t hk_peer; /* index of a peer in its engine */

#define HK_PEER_NONE UINT32_MAX

/* Memory of a peer with nothing in flight; asserted in tests/unit/test_engine.c. */
#define HK_ENGINE_PEER_BYTES 256

struct hk_engine_config {
	uint32_t key;      /* of the job */
	uint32_t endpoint; /* of this end, unique in the job */
	uint32_t epoch;    /* incarnation of this end: not 0, and later after a restart (serial
				number arithmetic, RFC 1982): a clock in steps of some ms will do */
	uint32_t max_peers;
	uint32_t tx_blocks;    /* how many peers may have packets in flight at once */
	uint32_t rx_blocks;    /* how many peers may have half-received messages at once */
	uint32_t rx_budget;    /* received frames the caller can hold, over all peers */
	uint16_t window;       /* packets in flight to a peer; power of two, 8 … HK_WIRE_WINDOW */
	uint32_t window_bytes; /* … and bytes: keeps what waits for acks in a core's cache */
	uint16_t resend_cap;   /* resends (probes too) of one hk_engine_poll() at the most */
	uint16_t
		ack_every; /* an ack at the latest after this many small packets; 4 KiB count one more */
	bool crc; /* refuse unsealed frames; the caller seals what it sends (hk_wire_seal) */
	/* times, in nanoseconds */
	uint64_t ack_delay;    /* how long an ack may wait for a frame to ride on */
	uint64_t min_rto;      /* floor of the resend timer */
	uint64_t max_rto;      /* ceiling of its back-off */
	uint64_t initial_rto;  /* before the first RTT sample */
	uint64_t peer_timeout; /* silence after which a peer we wait for is dead */
	uint64_t keepalive;    /* probe a silent peer that has talked before; 0: never */
	uint64_t target_delay; /* queueing delay the congestion window aims at */
};

/* Fills in defaults for everything but key, endpoint and epoch. */
void hk_engine_config_default(struct hk_engine_config *cfg);

/* Bytes of arena that @cfg needs, or 0 if a field is out of range. */
size_t hk_engine_size(const struct hk_engine_config *cfg);

/* Makes an engine in @arena (64-byte aligned, at least hk_engine_size() bytes); NULL if @cfg is
 * out of range or the arena too small or not aligned. There is no destructor: the arena is all there is, and the
 * caller's. @cfg is copied. */
struct hk_engine *hk_engine_init(void *arena, size_t bytes, const struct hk_engine_config *cfg);

/* ---- peers --------------------------------------------------------------------------------- */

enum hk_peer_state {
	HK_PEER_FREE = 0,
	HK_PEER_HEARD,  /* made by a frame of its own; its epoch is believed until peer_add */
	HK_PEER_ACTIVE, /* added by the caller */
	HK_PEER_LEFT,   /* said BYE */
	HK_PEER_DEAD,   /* silent too long, or restarted; see hk_engine_verdict() */
};

enum hk_verdict {
	HK_VERDICT_NONE = 0,
	HK_VERDICT_SILENT,    /* nothing heard for peer_timeout while we waited for it */
	HK_VERDICT_RESTARTED, /* a later incarnation answers: its memory of us is gone */
	HK_VERDICT_LEFT,      /* it said BYE while packets to it were still unacknowledged */
	HK_VERDICT_STUCK,     /* it answers, yet one packet never arrives: an MTU on the way? */
};

/* Adds the peer @endpoint in incarnation @epoch, or finds it. A peer that is known under another
 * epoch starts anew if it was only heard of, dead or gone; otherwise, and also if it is dead or gone
 * under this very epoch, it is refused.
 * Returns HK_PEER_NONE if the table is full, the epoch is refused, or either number is one that no peer has: epoch 0, our
 * own endpoint. */
hk_peer hk_engine_peer_add(struct hk_engine *e, uint32_t endpoint, uint32_t epoch, uint64_t now);

/* The peer @endpoint, whatever its state; HK_PEER_NONE if it is not known. */
hk_peer hk_engine_peer_find(const struct hk_engine *e, uint32_t endpoint);

/* HK_PEER_FREE also for an index that no peer has. */
enum hk_peer_state hk_engine_peer_state(const struct hk_engine *e, hk_peer p);

uint32_t hk_engine_peer_endpoint(const struct hk_engine *e, hk_peer p);

/* The next peer that got a verdict since the last call, or HK_PEER_NONE. Tokens of its unsent and
 * unacknowledged packets come out of hk_engine_reap() as ever; fragments of half-received
 * messages come out of hk_engine_reap_rx(). */
hk_peer hk_engine_verdict(struct hk_engine *e, enum hk_verdict *why);

/* Ways to send to one peer. */
#define HK_PATHS 8

/* The paths in @mask (a bit each) are as good as each other: what is lost on one of them is sent again by the next
 * (hk_out.path), and later packets that arrive by others tell that nothing came by it. What is under
 * way by a path that is not in @mask counts as lost. 0, as a new peer has it: each packet keeps its path. */
void hk_engine_peer_paths(struct hk_engine *e, hk_peer p, uint8_t mask);

/* ---- sending ------------------------------------------------------------------------------- */

/* How many packets hk_engine_send() takes for @p now at the most (bytes in flight count too, so ask
 * again after each): limited by the peer's credit, the congestion
 * window and free blocks. 0 also for a peer that is dead or gone: ask for its state. */
unsigned hk_engine_room(const struct hk_engine *e, hk_peer p);

/* Has @p acknowledged everything, and lends no credit for more? Then its application takes nothing just now. */
bool hk_engine_held(const struct hk_engine *e, hk_peer p);

struct hk_packet {
	uint64_t token;          /* of the buffer, below HK_TOKEN_LOST; see hk_engine_reap() */
	uint16_t len;            /* extension + payload */
	uint8_t type;            /* HK_WIRE_DATA or HK_WIRE_PUT */
	uint8_t am, frag, frags; /* DATA: fragments of one message are sent back to back */
	bool ack_now; /* its acknowledgement is waited for: the peer shall not delay it */
	uint8_t path; /* 0 … HK_PATHS - 1: by which of several ways the caller sends it, and again, unless
		       * hk_engine_peer_paths() says otherwise. Packets of one way overtake each other
		       * seldom, those of two as they like */
	bool lent; /* its bytes lie where a stand-in cannot read: see hk_engine_stand_in() */
};

/* Takes one packet and writes its base header to @hdr (HK_WIRE_HLEN bytes, any alignment). Returns false, and
 * takes nothing, when hk_engine_room() is 0. The caller sends the frame now, and keeps the buffer
 * intact until its token is reaped. */
bool hk_engine_send(struct hk_engine *e, hk_peer p, const struct hk_packet *pkt, uint64_t now,
		    void *hdr);

/* Tokens of packets that need no keeping any more; each comes out once, with HK_TOKEN_LOST if it was not
 * acknowledged when its peer's verdict came, or when it left. Returns how many of @max were written. */
#define HK_TOKEN_LOST (UINT64_C(1) << 63)
unsigned hk_engine_reap(struct hk_engine *e, uint64_t *tokens, unsigned max);

/* Packets of @p (of all peers: HK_PEER_NONE) that are sent and not acknowledged. */
unsigned hk_engine_unacked(const struct hk_engine *e, hk_peer p);

/* A peer that says nothing, although packets to it are unacknowledged. */
struct hk_unheard {
	hk_peer peer;
	uint64_t since; /* when it took something last, or we began to send */
};

/* Those from whom nothing has come for @after, and who have acknowledged nothing for as long. Where bulk moves (64 KB and more
 * under way, or long frames that came within 1 ms) it is two round trips if that is longer, 8 times @after at the most. Leaves
 * out the first @skip, writes at most @max, and returns how many. It is no loss yet, and no cause for a resend. Walks over the peers whose timers run, so call it now and then. */
unsigned hk_engine_unheard(const struct hk_engine *e, uint64_t now, uint64_t after, unsigned skip,
			   struct hk_unheard *out, unsigned max);

/* ---- receiving ----------------------------------------------------------------------------- */

enum hk_rx_verdict {
	HK_RX_DROP,    /* keep nothing: duplicate, stray, malformed; counted inside */
	HK_RX_CONTROL, /* an ack or the like, consumed; keep nothing */
	/* a packet of `peer`: */
	HK_RX_DELIVER, /* hand over `count` buffers, in order: `tokens`. The last is this frame */
	HK_RX_HOLD,    /* a fragment of a message still incomplete: keep this buffer; its token
			  comes back by a later DELIVER, or by hk_engine_reap_rx() */
	HK_RX_PUT,     /* a piece of a one-sided write, first time seen: place it, then done */
	HK_RX_MCAST, /* a piece of a multicast of this job, maybe seen before: `f` has it, `peer` is
			  none. It is of no peer's stream, and says nothing about its sender's life */
};

struct hk_rx {
	enum hk_rx_verdict verdict;
	hk_peer peer;      /* DELIVER, HOLD, PUT */
	bool new_peer;     /* this frame made the peer: the caller notes the source MAC */
	uint8_t am;        /* DELIVER */
	uint8_t count;     /* DELIVER: buffers of this message, 1 … HK_WIRE_MAX_FRAGS */
	uint32_t last;     /* DELIVER: packet number of its last buffer */
	uint32_t next;     /* DELIVER, HOLD, PUT: every packet of this peer before it has arrived */
	struct hk_frame f; /* this frame; valid unless it did not parse */
	uint64_t tokens[HK_WIRE_MAX_FRAGS]; /* DELIVER with count > 1 */
};

/* Takes one Ethernet frame of @len bytes (no FCS) that arrived. @token names its buffer. What of @rx the verdict does not
 * mention is not to be read; rx->f points into @frame. Poll for what it makes due. */
void hk_engine_input(struct hk_engine *e, const void *frame, size_t len, uint64_t token,
		     uint64_t now, struct hk_rx *rx);

/* The caller was away (its application computed), and frames may have waited for it in the port's
 * queue: until it says otherwise, what it hands in is acknowledged with HK_WIRE_F_AWAY, so that
 * no sender takes that wait for congestion. */
void hk_engine_away(struct hk_engine *e, bool away);

/* While @refuse is set no packet is taken: the caller has no room to keep more. Everything else of a
 * frame counts as ever, and peers are told that we live and that our application is away. */
void hk_engine_refuse(struct hk_engine *e, bool refuse);

/* The caller keeps delivered buffers of @p for later (the application is busy): @delta more, or
 * fewer when negative. Credit advertised to the peer shrinks and grows with it. */
void hk_engine_rx_held(struct hk_engine *e, hk_peer p, int delta);

/* Tokens of held fragments whose message will never be whole (the peer died): each once. Returns how many of @max were
 * written; until it is less than @max. */
unsigned hk_engine_reap_rx(struct hk_engine *e, uint64_t *tokens, unsigned max);

/* ---- time ---------------------------------------------------------------------------------- */

enum hk_out_kind {
	HK_OUT_CONTROL,  /* send `bytes` (base header and extension, `len` bytes) after a framing */
	HK_OUT_QUESTION, /* the same, by `path`, behind the packets that it asks about */
	HK_OUT_RESEND, /* write `bytes` (base header) over that of buffer `token`, and send it. If the
			   device still holds the buffer, do so with a copy */
};

struct hk_out {
	enum hk_out_kind kind;
	hk_peer peer; /* HK_PEER_NONE: answer to the source of the frame just input: poll
			   right after an input that makes hk_engine_deadline() 0 */
	uint64_t token;
	uint16_t len;
	uint8_t path; /* RESEND, QUESTION: by which to send it now */
	uint8_t bytes[HK_WIRE_HLEN + HK_WIRE_SACK_LEN];
};

/* What must go out now. Call after every burst of input and whenever hk_engine_deadline() has
 * passed; until it returns less than @max. Cheap when there is nothing to do. */
unsigned hk_engine_poll(struct hk_engine *e, uint64_t now, struct hk_out *out, unsigned max);

/* While @on is set the caller stands in for its owner, and cannot read what was sent as `lent`: such a packet
 * stays lost until the owner is back. Meanwhile its peer is asked for a sign of life instead, so it is
 * no more silent, and no more stuck, than it is. */
void hk_engine_stand_in(struct hk_engine *e, bool on);

/* When hk_engine_poll() next has something to do, if no frame comes before: UINT64_MAX if never. */
uint64_t hk_engine_deadline(const struct hk_engine *e);

/* Orderly leave: the next polls emit a BYE to every peer that is known. It is not acknowledged: who wants to be sure
 * calls this again. */
void hk_engine_bye(struct hk_engine *e);

/* ---- seeing it ----------------------------------------------------------------------------- */

struct hk_engine_counters {
	uint64_t tx_packets, tx_bytes; /* first transmissions; bytes of extension + payload */
	uint64_t tx_acks, tx_probes, tx_resends;
	uint64_t rx_packets, rx_bytes; /* first arrivals */
	uint64_t rx_acks, rx_duplicates;
	uint64_t loss_time;                     /* packets called lost by time (RFC 8985) */
	uint64_t loss_rto;                      /* … by the resend timer */
	uint64_t no_credit, no_cwnd, no_block;  /* sends refused, by reason */
	uint64_t drop_wire[HK_WIRE_STATUS_MAX]; /* by parse status */
	uint64_t refused; /* packets that came while hk_engine_refuse() was in force */
	uint64_t drop_key, drop_endpoint, drop_epoch, drop_window, drop_peers, drop_fragment;
	uint64_t resets, dead_peers;
};

/* They count on as long as the engine is there. */
const struct hk_engine_counters *hk_engine_counters(const struct hk_engine *e);

struct hk_peer_info {
	enum hk_peer_state state;
	uint32_t endpoint, epoch;
	uint32_t srtt, rttvar, min_rtt; /* ns; 0: no sample yet */
	uint32_t cwnd;                  /* packets */
	uint32_t credit;                /* packets the peer takes beyond those in flight */
	uint32_t in_flight;
	uint64_t last_heard; /* ns, as `now` */
};

void hk_engine_peer_info(const struct hk_engine *e, hk_peer p, struct hk_peer_info *info);

/* Puts the next packet number to @p, and the one expected from it, to @psn: tests start near the
 * wrap with it. Only before the first packet. */
void hk_engine_test_set_psn(struct hk_engine *e, hk_peer p, uint32_t tx, uint32_t rx);

#endif
