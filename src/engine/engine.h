/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine/engine.h: the protocol, as a pure library.
 *
 * An engine is one endpoint's side of all its conversations. The caller passes received frames to
 * hk_engine_input(). hk_engine_send() gives a packet its number and header. hk_engine_poll()
 * returns the other frames that are due: acknowledgements, resends, probes. The engine reads no
 * clock, does no I/O, allocates nothing and calls nobody back. The caller passes `now`
 * (nanoseconds of any monotonic clock) and owns the buffers; the engine knows a buffer only by a
 * 64-bit token.
 *
 * Guarantees (docs/protocol.md explains how):
 *  - Exactly once: a packet that hk_engine_send() accepted is delivered once, or the peer gets a
 *    disconnect reason. Messages may be delivered in another order than they were sent; Open MPI's
 *    ob1 orders them itself.
 *  - Nothing hangs: every wait for a peer has a timer. A peer that stays silent for `peer_timeout`
 *    while we wait for it is reported dead.
 *  - Flow control: at most `window` packets beyond the receiver's cumulative acknowledgement.
 *  - Bounded memory: hk_engine_size() bytes, known before the first frame.
 *
 * State. All state lies in one arena that the caller passes to hk_engine_init(). It contains
 * indices instead of pointers, and no function pointers. So the arena may be shared memory, and
 * another process (hikyakud's poller) may drive the same engine.
 *
 * Threads. An engine has no threads and no lock: one caller at a time.
 *
 * Peers. A hk_peer that the caller has added belongs to one endpoint for the life of the engine; a
 * later incarnation of the endpoint keeps it. The hk_peer of a stranger, which only introduced
 * itself, may go to another endpoint when the table is full (hk_rx.new_peer says so). Functions
 * accept only a hk_peer that this engine returned.
 *
 * Sources: selective acknowledgement RFC 2018; timers RFC 6298; time-based loss detection and tail
 * probes RFC 8985; timestamps RFC 7323; delay-based congestion window after Swift (SIGCOMM 2020).
 */
#ifndef HK_ENGINE_ENGINE_H
#define HK_ENGINE_ENGINE_H

#include "hikyaku/counters.h"
#include "hikyaku/protocol.h"
#include "wire/wire.h"

#pragma GCC visibility push(default)

struct hk_engine;

/* Bytes of a peer with nothing in flight; tests/unit/engine/test_engine.c asserts them. */
#define HK_ENGINE_PEER_BYTES 376

/* Returns the bytes of arena that @cfg needs, or 0 if a field is out of range. */
size_t hk_engine_size(const struct hk_engine_config *cfg);

/* Creates an engine in @arena, which is 64-byte aligned and has at least hk_engine_size() bytes.
 * Copies @cfg. Returns NULL if a field of @cfg is out of range, or the arena too small or
 * unaligned. There is no destructor: the engine has only the arena, which belongs to the caller. */
struct hk_engine *hk_engine_init(void *arena, size_t bytes, const struct hk_engine_config *cfg);

/* ---- peers --------------------------------------------------------------------------------- */

enum hk_peer_state {
	HK_PEER_FREE = 0,
	HK_PEER_PASSIVE, /* created by its first frame; its epoch holds until peer_add */
	HK_PEER_ACTIVE,  /* added by the caller */
	HK_PEER_LEFT,    /* has sent BYE */
	HK_PEER_DEAD,    /* given up; see hk_engine_next_disconnect() */
};

/* Adds the peer @endpoint in incarnation @epoch, or finds it. A peer with another epoch starts
 * again if its state is PASSIVE, LEFT or DEAD; an ACTIVE one is refused. So is a peer that is LEFT
 * or DEAD in this same epoch. Returns HK_PEER_NONE if the epoch is refused, if the table is full,
 * or for numbers that no peer has: epoch 0 and our own endpoint. */
hk_peer hk_engine_peer_add(struct hk_engine *e, uint32_t endpoint, uint32_t epoch, uint64_t now);

/* Returns the peer @endpoint, whatever its state, or HK_PEER_NONE if it is unknown. */
hk_peer hk_engine_peer_find(const struct hk_engine *e, uint32_t endpoint);

/* Returns the peer's state; HK_PEER_FREE also for an index that no peer has. */
enum hk_peer_state hk_engine_peer_state(const struct hk_engine *e, hk_peer p);

/* Returns the number of peers that have been added or have introduced themselves. Each hk_peer is
 * below it. */
uint32_t hk_engine_peers(const struct hk_engine *e);

uint32_t hk_engine_peer_endpoint(const struct hk_engine *e, hk_peer p);

/* Returns the next peer that was given up since the last call and writes its disconnect reason to
 * @why; HK_PEER_NONE if there is none. hk_engine_reap() returns the tokens of its unacknowledged
 * packets, and hk_engine_reap_rx() those of fragments of incomplete messages. */
hk_peer hk_engine_next_disconnect(struct hk_engine *e, enum hk_disconnect_reason *why);

/* Declares the paths in @mask (one bit each) equal. A packet lost on one of them is resent on the
 * next (hk_out.path), and arrivals by other paths help to detect its loss. Packets in flight on a
 * path that is not in @mask become lost. With 0, the value of a new peer, each packet keeps its
 * path. */
void hk_engine_peer_paths(struct hk_engine *e, hk_peer p, uint8_t mask);

/* ---- sending ------------------------------------------------------------------------------- */

/* Returns how many packets hk_engine_send() accepts for @p now, at most. Credit, congestion window
 * and free blocks limit them. Bytes in flight count too, so call this again after each packet. The
 * result is 0 also for a peer that is LEFT or DEAD; hk_engine_peer_state() tells. */
unsigned hk_engine_available(const struct hk_engine *e, hk_peer p);

/* Returns whether @p has acknowledged everything and gives no credit for more: its application does
 * not take in messages at present. */
bool hk_engine_zero_credit(const struct hk_engine *e, hk_peer p);

/* Returns whether hk_engine_send() accepts a packet of bulk with `len` @len for @p now, as far as
 * grants are concerned. Bulk are packets with a `len` of HK_LONG_FRAME or more, if cfg.link_mbps is
 * not 0. If it returns false, the caller tells by hk_engine_want() what waits. */
#define HK_LONG_FRAME 1024u
bool hk_engine_granted(struct hk_engine *e, hk_peer p, uint32_t len, uint64_t now);

/* Says that bulk waits for a grant of @p: the sum of `len` of its packets is @bytes. The engine
 * asks for the grant, again if the request is lost. Call it whenever hk_engine_granted() is false;
 * a grant comes with a frame of the peer. */
void hk_engine_want(struct hk_engine *e, hk_peer p, uint32_t bytes, uint64_t now);

struct hk_packet {
	uint64_t token;          /* name of the buffer, below HK_TOKEN_LOST; see hk_engine_reap() */
	uint16_t len;            /* bytes of extension and payload */
	uint8_t type;            /* HK_WIRE_DATA or HK_WIRE_PUT */
	uint8_t am, frag, frags; /* DATA: header fields; a message's fragments are sent in a row */
	bool ack_now;            /* request for an acknowledgement without delay */
	uint8_t path;  /* path of the first transmission, 0 to HK_PATHS - 1. Resends use it too,
			* unless hk_engine_peer_paths() declares paths equal. Packets overtake each
			* other rarely on one path, but freely on different paths. */
	bool borrowed; /* payload in memory that a progress proxy cannot read; see
			* hk_engine_set_proxy() */
};

/* Accepts one packet and writes its base header to @hdr: HK_WIRE_HLEN bytes, any alignment. False,
 * without any effect, when hk_engine_available() is 0, or hk_engine_granted() false. The caller
 * then sends the frame, and leaves the buffer unchanged until it has reaped the token. */
bool hk_engine_send(struct hk_engine *e, hk_peer p, const struct hk_packet *pkt, uint64_t now,
		    void *hdr);

/* Writes at most @max tokens of packets whose buffers the engine no longer needs, and returns their
 * number. Each token comes once. It has HK_TOKEN_LOST set if the packet was not acknowledged when
 * its peer left or was given up. */
#define HK_TOKEN_LOST (UINT64_C(1) << 63)
unsigned hk_engine_reap(struct hk_engine *e, uint64_t *tokens, unsigned max);

/* Returns the number of sent, unacknowledged packets of @p; HK_PEER_NONE: of all peers. */
unsigned hk_engine_unacked(const struct hk_engine *e, hk_peer p);

/* A peer that sends nothing although packets to it are unacknowledged. */
struct hk_silent_peer {
	hk_peer peer;
	uint64_t since; /* time of its last acknowledgement, or when we began to send, ns */
};

/* Lists peers that have sent and acknowledged nothing for @after ns. For peers with bulk the
 * limit is two round trips if that is longer, but at most 8 * @after. Bulk means 64 KB or more in
 * flight, or a long frame received within 1 ms. Skips the first @skip peers, writes at most @max,
 * and returns how many it wrote. Their packets are not lost yet, and the call causes no resends. It
 * visits every peer with a running timer, so call it rarely. */
unsigned hk_engine_silent_peers(const struct hk_engine *e, uint64_t now, uint64_t after,
				unsigned skip, struct hk_silent_peer *out, unsigned max);

/* ---- receiving ----------------------------------------------------------------------------- */

enum hk_rx_result {
	HK_RX_DROP,    /* duplicate, foreign or malformed frame; counted. Free the buffer */
	HK_RX_CONTROL, /* frame without a packet, processed. Free the buffer */
	/* The others: a packet of `peer`, or a multicast. */
	HK_RX_DELIVER, /* complete message in `count` buffers; this frame is the last of `tokens` */
	HK_RX_HOLD,    /* fragment of an incomplete message. Keep the buffer until its token comes
			  by a later DELIVER or by hk_engine_reap_rx() */
	HK_RX_PUT,     /* new piece of a put. Place it, then free the buffer */
	HK_RX_MCAST,   /* piece of a multicast of this job in `f`, possibly a duplicate; `peer` is
			  HK_PEER_NONE. It does not prove that its sender is alive */
};

struct hk_rx {
	enum hk_rx_result result;
	hk_peer peer;      /* DELIVER, HOLD, PUT: the sender */
	bool new_peer;     /* this frame created the peer: record its source MAC */
	uint8_t am;        /* DELIVER: number of the handler */
	uint8_t count;     /* DELIVER: buffers of the message, 1 to HK_WIRE_MAX_FRAGS */
	uint32_t last;     /* DELIVER: packet number of the last buffer */
	uint32_t next;     /* DELIVER, HOLD, PUT: all packets of the peer before it have arrived */
	struct hk_frame f; /* this frame; invalid if it did not parse */
	uint64_t tokens[HK_WIRE_MAX_FRAGS]; /* DELIVER with count > 1: the buffers in order */
};

/* Processes one received Ethernet frame of @len bytes (without FCS); @token names its buffer. The
 * caller may read only the fields of @rx that apply to the result; rx->f points into @frame. Poll
 * afterwards, because the frame may make others due. */
void hk_engine_input(struct hk_engine *e, const void *frame, size_t len, uint64_t token,
		     uint64_t now, struct hk_rx *rx);

/* Reports that the frame of @p which was just input came with a congestion mark of the network. */
void hk_engine_marked(struct hk_engine *e, hk_peer p);

/* Sets whether the caller has not been polling, so that frames may have waited in the port's queue.
 * While set, the engine acknowledges frames with HK_WIRE_F_NOT_POLLING: senders must not take that
 * wait for congestion. */
void hk_engine_set_not_polling(struct hk_engine *e, bool not_polling);

/* While @refuse is set, the engine accepts no packets: the caller has no buffers for them. It still
 * processes everything else of a frame. Acknowledgements tell peers that we are alive and not
 * polling. */
void hk_engine_set_refusing(struct hk_engine *e, bool refuse);

/* Reports that the caller holds @delta more delivered buffers of @p, or fewer if negative. The
 * credit that the engine gives to the peer changes accordingly. */
void hk_engine_rx_held(struct hk_engine *e, hk_peer p, int delta);

/* Writes at most @max tokens of held fragments whose message can no longer become complete, because
 * the peer ended. Each token comes once. Returns their number; call it until that is below @max. */
unsigned hk_engine_reap_rx(struct hk_engine *e, uint64_t *tokens, unsigned max);

/* ---- time ---------------------------------------------------------------------------------- */

enum hk_out_kind {
	HK_OUT_CONTROL,    /* frame without a packet. Send `bytes` behind an Ethernet header */
	HK_OUT_TAIL_PROBE, /* the same. Send it by `path`, behind the packets that it asks about */
	HK_OUT_RESEND,     /* packet to resend. Write `bytes` over the base header in buffer `token`
			      and send it; use a copy if the device still has the buffer */
};

struct hk_out {
	enum hk_out_kind kind;
	hk_peer peer;   /* receiver. HK_PEER_NONE: the source of the frame just input, so poll
			   right after an input that makes hk_engine_urgent() true */
	uint64_t token; /* RESEND: buffer of the packet */
	uint16_t len;   /* bytes of `bytes` */
	uint8_t path;   /* RESEND, TAIL_PROBE: path to send it by */
	uint8_t bytes[HK_WIRE_HLEN + HK_WIRE_GRANT_LEN + HK_WIRE_SACK_LEN]; /* header, extensions */
};

/* Writes at most @max frames that are due to @out and returns their number. Call it after every
 * burst of input and when hk_engine_deadline() has passed, until it returns less than @max. A call
 * with nothing due is cheap. */
unsigned hk_engine_poll(struct hk_engine *e, uint64_t now, struct hk_out *out, unsigned max);

/* Sets whether a progress proxy drives the engine. It cannot read payload that was sent as
 * `borrowed`, so such a packet stays lost until the owner drives the engine again. Meanwhile the
 * engine probes its peer instead, so that the peer is not given up as silent or stuck. */
void hk_engine_set_proxy(struct hk_engine *e, bool on);

/* Returns when hk_engine_poll() next has frames due, unless a frame arrives before; UINT64_MAX if
 * never. */
uint64_t hk_engine_deadline(const struct hk_engine *e);

/* Returns whether that is at once, whatever the time; cheaper than hk_engine_deadline(). */
bool hk_engine_urgent(const struct hk_engine *e);

/* Starts an orderly leave: the next polls emit a BYE to every peer that we exchanged frames with.
 * Nothing acknowledges a BYE; call this again to repeat it. */
void hk_engine_bye(struct hk_engine *e);

/* ---- statistics ---------------------------------------------------------------------------- */

/* Returns the engine's counters: valid, and updated, for the engine's life. */
const struct hk_engine_counters *hk_engine_counters(const struct hk_engine *e);

struct hk_peer_info {
	enum hk_peer_state state;
	uint32_t endpoint, epoch;
	uint32_t srtt, rttvar, min_rtt; /* ns; 0: no sample yet */
	uint32_t cwnd;                  /* congestion window, packets */
	uint32_t credit;                /* packets that the peer accepts beyond those in flight */
	uint32_t in_flight;             /* packets */
	uint64_t last_rx;               /* time of its last frame, on the clock of `now`, ns */
};

void hk_engine_peer_info(const struct hk_engine *e, hk_peer p, struct hk_peer_info *info);

/* For tests that start near the wrap: sets the next packet number to @p to @tx, and the one
 * expected from it to @rx. Call it only before the first packet. */
void hk_engine_test_set_psn(struct hk_engine *e, hk_peer p, uint32_t tx, uint32_t rx);

#pragma GCC visibility pop

#endif
