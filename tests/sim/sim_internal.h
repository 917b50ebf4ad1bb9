/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/sim_internal.h: declarations for the files of the simulator.
 */
#ifndef HK_SIM_SIM_INTERNAL_H
#define HK_SIM_SIM_INTERNAL_H

#include "tests/sim/sim.h"

struct sim_frame {
	uint16_t len;
	uint8_t bytes[]; /* Ethernet header first */
};

enum sim_event_kind { SIM_EV_SWITCH, SIM_EV_ARRIVE, SIM_EV_WAKE, SIM_EV_RELEASE, SIM_EV_CALL };

struct sim_event {
	uint64_t at, order;
	enum sim_event_kind kind;
	uint32_t node;
	uint32_t from;           /* RELEASE: sender of the buffers */
	uint32_t count, epoch;   /* RELEASE: number of buffers; incarnation of the node */
	uint64_t late;           /* SWITCH: extra delay after the queue */
	struct sim_frame *frame; /* SWITCH, ARRIVE */
	void (*fn)(struct sim *, void *);
	void *ctx;
};

struct sim_msg {
	uint32_t from, to;
	uint32_t src_epoch, dst_epoch; /* 0 until its first packet is sent */
	uint64_t arrived;              /* one bit for each part */
	uint64_t done_at;
	uint16_t len;
	uint8_t type, frags;
	uint8_t next;   /* next part to send */
	bool must;      /* must be delivered; false once an incarnation involved has ended */
	bool delivered; /* complete */
};

/* A queue of message numbers. */
struct sim_fifo {
	uint32_t *items;
	uint32_t head, count, cap;
};

struct sim_buf { /* a packet that a node stores until its token is reaped */
	uint8_t *frame;
	uint64_t wire_until; /* the device uses the buffer until then */
	uint32_t gen, node;
	uint16_t len; /* bytes of base header, extension and payload, without checksum */
	bool live;
};

struct sim_rxbuf { /* a fragment held for the engine */
	uint32_t gen, node, msg;
	uint8_t frag;
	bool live;
};

/* The monitor's knowledge of packets from one node to another, between two incarnations. */
struct sim_dir {
	uint32_t next;          /* first number that was not sent yet */
	uint32_t ack, edge;     /* latest ones that the receiver sent */
	uint32_t limit;         /* numbers from here on may not be sent yet */
	uint32_t handed;        /* every packet before it was handed to the application */
	uint32_t bulk, granted; /* bytes of bulk sent; the most that the receiver granted */
	bool began, reported;
	uint64_t arrived[2 * HK_WIRE_WINDOW]; /* number plus one of each packet handed over */
	struct {
		uint32_t psn;
		uint16_t len;
		uint8_t type, am, frag, frags;
	} sent[HK_WIRE_WINDOW];
};

/* A message that waits for earlier packets of its sender. */
struct sim_deferred {
	struct sim_deferred *next;
	uint32_t last, count; /* its last packet, and its buffers */
	uint32_t epoch;       /* of its sender */
};

struct sim_node {
	struct hk_engine *engine;
	void *arena;
	uint32_t endpoint, epoch;
	struct sim_frame **ring;
	uint32_t ring_head, ring_count;
	struct sim_fifo *queue; /* one for each destination */
	hk_peer *added;         /* index of each node's peer; HK_PEER_NONE: not added */
	uint32_t *added_epoch;
	uint32_t *held;    /* delivered buffers of each node that hold_all holds */
	uint64_t held_now; /* all buffers that the node holds */
	enum hk_disconnect_reason *reason;
	uint64_t *reason_at;
	struct sim_dir **dir;            /* one for each receiver that it sent to */
	struct sim_deferred **deferred;  /* a list for each sender, if nodes order messages */
	uint64_t busy_until;             /* the node computes until then */
	uint64_t wake_at;                /* time of the valid WAKE event */
	uint64_t tx_free_at, rx_free_at; /* times when its cables are idle again */
	uint32_t live;                   /* tokens in use */
	uint32_t idle_polls; /* polls in a row without output although the deadline had passed */
	bool hold_all, left, was_busy;
};

struct sim {
	struct sim_config c;
	struct sim_stats stats;
	struct hk_rng rng;
	uint64_t now, order;
	struct sim_event *heap;
	size_t heap_len, heap_cap;
	struct sim_node *nodes;
	struct sim_msg *msgs;
	uint32_t msgs_len, msgs_cap;
	uint32_t undelivered; /* undelivered messages that must be delivered */
	struct sim_buf *bufs;
	uint32_t bufs_len, bufs_cap, *bufs_free, bufs_free_len;
	struct sim_rxbuf *rxbufs;
	uint32_t rxbufs_len, rxbufs_cap, *rxbufs_free, rxbufs_free_len;
	bool *cut; /* nodes × nodes entries */
	sim_filter filter;
	void *filter_ctx;
};

void *sim_grow(void *array, size_t len, uint32_t *cap, size_t item);

/* sim_net.c */
void sim_push(struct sim *s, const struct sim_event *ev);
void sim_wake(struct sim *s, unsigned node, uint64_t at);
/* Puts @len bytes at @base, with an Ethernet header, on the cable of @from to the header's node.
 * Returns when the last bit has left. */
uint64_t sim_transmit(struct sim *s, unsigned from, const uint8_t *base, size_t len);

/* The monitor's knowledge of packets from @from to @to. */
struct sim_dir *sim_dir(struct sim *s, unsigned from, unsigned to);

/* sim_node.c */
/* @node learns the present incarnation of @peer. False: its engine still reports an earlier one. */
bool sim_peer_add(struct sim *s, unsigned node, unsigned peer);
void sim_node_start(struct sim *s, unsigned node);
void sim_node_stop(struct sim *s, unsigned node);
void sim_node_free(struct sim *s, unsigned node);
void sim_node_run(struct sim *s, unsigned node);
void sim_node_release(struct sim *s, unsigned node, unsigned from, unsigned count, uint32_t epoch);
int sim_node_by_endpoint(const struct sim *s, uint32_t endpoint);

/* sim_send.c */
/* Sends queued messages to @to while the engine accepts packets. */
void sim_pump(struct sim *s, unsigned node, unsigned to);
/* Calls hk_engine_poll() until it has no more output; returns how much it emitted. */
unsigned sim_poll(struct sim *s, unsigned node);
/* Handles a reaped @token. */
void sim_buf_free(struct sim *s, unsigned node, uint64_t token);
/* Forgets messages to @to: those begun, or with @all every queued one. */
void sim_drop_queue(struct sim *s, unsigned node, unsigned to, bool all);
/* @node sends to the old incarnation of @to, and so learns of the new one. */
void sim_node_poke(struct sim *s, unsigned node, unsigned to);

/* sim_check.c */
void sim_fill(uint8_t *payload, uint32_t msg, uint8_t part, uint16_t len);
uint32_t sim_arrived(struct sim *s, unsigned node, const struct hk_rx *rx, uint8_t *part);
void sim_check_next(struct sim *s, unsigned node, const struct hk_rx *rx);
void sim_part_done(struct sim *s, unsigned node, uint32_t msg, uint8_t part);
void sim_give_up(struct sim *s, unsigned from, unsigned to, uint32_t src_epoch, uint32_t dst_epoch);
void sim_monitor(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f);
void sim_who_waits(const struct sim *s, char *text, size_t len);

#define SIM_LOG(s, ...)                                                                            \
	do {                                                                                       \
		if (HK_UNLIKELY((s)->c.verbose)) {                                                 \
			printf("%12.3f us  ", (double)((s)->now - (s)->c.start) / 1000.0);         \
			printf(__VA_ARGS__);                                                       \
			putchar('\n');                                                             \
		}                                                                                  \
	} while (0)

#endif
