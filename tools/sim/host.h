/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/host.h: a host: an engine, and what src/worker does around it.
 *
 * DESIGN NOTES
 *
 * A host takes no time. It acts when a frame arrives, when the engine's deadline passes, when its
 * NIC has space again, and when the scenario sends.
 *
 * Like a worker, a host
 *  - sends a message of up to HK_WIRE_MAX_FRAGS frames as DATA, and a longer one as a put;
 *  - holds a frame buffer for each packet until it is acknowledged, of `tx_buffers`;
 *  - has a send queue for each peer, which it drains while the engine and the NIC take more;
 *  - hands messages over in order: one that arrived before an earlier one waits in its receive
 *    buffers.
 *
 * Receive buffers are limited. Frames in the ring, fragments of incomplete messages, messages that
 * wait and those that the application holds occupy them. Without a free one, frames are lost.
 *
 * host.c has every call of the engine in this program. host_queue.c and host_nic.c have what
 * surrounds them.
 */
#ifndef HK_SIM_HOST_H
#define HK_SIM_HOST_H

#include "engine/engine.h"
#include "sim/net.h"
#include "sim/paths.h"

#define MSG_NONE UINT32_MAX

struct msg {
	uint32_t next; /* in a send queue, or in the list of free ones */
	uint32_t from, to, bytes;
	uint32_t tag; /* the scenario's */
	uint32_t frames, sent, acked;
	uint32_t arrived; /* put: bytes */
	uint64_t began;   /* ps */
	bool put, delivered;
};

struct host_peer {
	uint32_t host;
	struct paths *paths;            /* NULL: there is one port */
	uint8_t reply;                  /* the port by which its latest frame came */
	uint32_t queue, queue_tail;     /* messages to it that are not sent completely */
	uint64_t unsent;                /* of these, see host_unsent() */
	uint32_t reorder, reorder_tail; /* first buffers of messages that wait, by packet number */
	uint32_t next_listed;           /* next peer with a send queue */
	bool listed;
};

struct host {
	struct hk_engine *engine;
	void *arena;
	struct host_peer *peer; /* by hk_peer */
	uint32_t peers, peers_cap;
	uint32_t listed; /* first peer with a send queue */
	uint32_t id;
	uint32_t rx_held;               /* receive buffers in use */
	uint32_t app_held;              /* of those, by the application */
	uint32_t tx_in_use;             /* frame buffers in use */
	uint32_t waiting, waiting_tail; /* messages that wait for frame buffers */
	uint64_t wake_at;               /* time of the next EVENT_WAKE, ps */
	bool nic_full;                  /* something could not be sent because of the NIC */
	bool silent;                    /* frames to it are lost, for a scenario */
	bool busy;                      /* its turn runs */
	struct host_stats {
		uint32_t rx_held_max;
		uint64_t rx_no_buffer; /* frames lost because every receive buffer was in use */
		uint64_t tx_dropped;   /* frames lost because the NIC was full */
		uint64_t data, resends, controls; /* frames sent */
		uint64_t reordered;               /* messages that waited for an earlier one */
		uint64_t disconnects;
	} n;
};

struct host_config {
	struct hk_engine_config engine; /* endpoint, epoch and limits are set for each host */
	uint32_t mtu;                   /* bytes of a frame behind its Ethernet header */
	uint32_t pool;                  /* receive buffers */
	uint32_t tx_buffers;            /* frame buffers */
	uint32_t nic_ring;              /* frames that a NIC queues */
	uint64_t hold;                  /* ps for which the application holds a message */
};

/* A buffer that a packet occupies until it is acknowledged. */
struct tx_buf {
	uint32_t msg; /* or the next free one */
	uint32_t peer;
	uint16_t len;     /* of the frame */
	uint16_t payload; /* put */
	uint8_t path;
	bool moved; /* sent by several paths */
};

struct hosts {
	struct host_config c;
	struct net *net;
	struct host *host;
	uint32_t count;
	struct msg *msg;
	uint32_t msgs, msgs_cap, msg_free;
	struct tx_buf *buf;
	uint32_t bufs, bufs_cap, buf_free;
	/* A message was handed to the application at `to`; it may send. */
	void (*delivered)(void *arg, const struct msg *m);
	/* Every frame of a message was acknowledged: the sender's buffers are free again. */
	void (*completed)(void *arg, const struct msg *m);
	void *arg;
};

/* The defaults of a worker. */
void host_config_default(struct host_config *c);

void hosts_init(struct hosts *h, const struct host_config *c, struct net *net, uint32_t count);
void hosts_free(struct hosts *h);

/* Starts host @id, which talks to at most @peers others. Memory for messages that arrive out of
 * order is needed only if it @receives. */
void host_start(struct hosts *h, uint32_t id, uint32_t peers, bool receives);

/* Sends a message of @bytes, as a put if it is @put or longer than the frames of a message can be.
 * Returns its number; it may have been delivered already by then. */
void host_send(struct hosts *h, uint32_t from, uint32_t to, uint32_t bytes, bool put, uint32_t tag);

/* Handle EVENT_WAKE and EVENT_TAKEN. */
void host_wake(struct hosts *h, uint32_t id);
void host_taken(struct hosts *h, uint32_t id, uint32_t first);

/* Bytes of a message in one frame. */
uint32_t host_payload(const struct hosts *h);

/* The engine's counters of a host. */
const struct hk_engine_counters *host_counters(const struct hosts *h, uint32_t id);

/* ---- between the files of the host ----------------------------------------------------------- */

/* host_nic.c */
/* A frame of @len bytes to host @to, without its headers. */
uint32_t host_frame(struct hosts *h, const struct host *x, uint32_t to, size_t len, unsigned path);
/* Fills in what the frame of buffer @b has beside its base header. */
void host_frame_fill(const struct hosts *h, struct frame *f, uint32_t b);
/* Gives a frame to its NIC. It is lost if even the overflow is full: the engine resends it. */
void host_transmit(struct hosts *h, struct host *x, uint32_t frame);
/* The NICs so full that no new packets are sent by them: one bit each. */
uint8_t host_nics_stuck(const struct hosts *h, struct host *x);

/* host_queue.c */
/* Every kind of host begins with these. */
void hosts_new(struct hosts *h, const struct host_config *c, struct net *net, uint32_t count);
void host_new(struct host *x, uint32_t id);
/* Adds an EVENT_WAKE for the engine's deadline, unless an earlier one is to come. */
void host_note_deadline(struct hosts *h, struct host *x);
/* An EVENT_WAKE of @x is here: false if an earlier event has replaced it. */
bool host_woken(const struct hosts *h, struct host *x);
uint32_t msg_new(struct hosts *h);
void msg_end_if_done(struct hosts *h, uint32_t m);
/* The application at the receiver has message @m. */
void msg_deliver(struct hosts *h, uint32_t m);
/* Every frame of message @m is acknowledged, and `acked` says so. */
void msg_complete(struct hosts *h, uint32_t m);
/* Message @m, whose `next` is MSG_NONE, waits for frame buffers behind the others. */
void msg_wait(struct hosts *h, struct host *x, uint32_t m);
uint32_t buf_new(struct hosts *h);
void buf_free(struct hosts *h, uint32_t b);
void host_peer_new(const struct hosts *h, struct host *x, hk_peer p, uint32_t host);
void host_queue_add(struct hosts *h, struct host *x, hk_peer p, uint32_t m);
void host_list_add(struct host *x, hk_peer p);
/* The sum of `len` of the packets of message @m that are not sent and need a grant. */
uint64_t host_unsent(const struct hosts *h, uint32_t m);

/* Puts the @count buffers of a message into the reorder queue of @q. */
void host_reorder_add(struct hosts *h, struct host_peer *q, const uint64_t *tokens, unsigned count,
		      uint32_t last);
/* Removes the first message of the reorder queue if the packets before @next include it. Returns
 * its first buffer, or FRAME_NONE. */
uint32_t host_reorder_due(struct hosts *h, struct host_peer *q, uint32_t next);

#endif
