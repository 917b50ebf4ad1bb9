/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/pipe.h: a queue pair in software, between a process that owns a port (the *switch*) and one that
 * does not (its *user*). The last rung of steering: for ports whose queues other processes cannot
 * poll.
 *
 * Two rings in shared memory, each with one writer and one reader. Towards the user go addresses of
 * received buffers, without a copy: the user frees a buffer as it frees any, and the switch, which keeps
 * a reference of its own, takes it back when that is the last. Towards the switch go numbers of
 * buffers of the user's transmit pool (hk_pool_create_room() numbers them); what the switch has sent, the
 * user's side frees, in the driver's stead.
 *
 * Trust. The user believes the switch. The switch believes nothing: it keeps its own places in both
 * rings, the user's are checked for their distance, numbers are checked and looked up in a table of
 * its own, offset and length are read once and checked. The header of a received buffer, which the user can
 * write, it makes anew from a copy when it takes the buffer back. What is wrong makes a call return -EPROTO;
 * the user can then harm nobody but itself.
 *
 * Threads: one on each side at a time.
 */
#ifndef HK_PORT_PIPE_H
#define HK_PORT_PIPE_H

#include "port/port.h"

#include <stdatomic.h>

#define HK_PIPE_RING 512 /* frames each way; a power of two */

/* In shared memory, zeroed, 64-byte aligned. */
struct hk_pipe {
	/* to the user */
	_Alignas(64) _Atomic uint32_t rx_head; /* switch's */
	_Alignas(64) _Atomic uint32_t rx_tail; /* user's */
	/* from the user */
	_Alignas(64) _Atomic uint32_t tx_head; /* user's */
	_Alignas(64) _Atomic uint32_t tx_tail; /* switch's */
	_Alignas(64) uint32_t tx_freed; /* user's: before this, sent buffers have been freed */
	_Alignas(64) struct rte_mbuf *rx[HK_PIPE_RING];
	struct rte_mbuf *sending[HK_PIPE_RING]; /* user's: what the numbers in `tx` stand for */
	uint32_t tx[HK_PIPE_RING];
};

/* ---- user's side --------------------------------------------------------------------------- */

/* Makes @port a port of one queue pair that sends and receives by @pipe, with the rest of @info. */
void hk_pipe_port(struct hk_pipe *pipe, const struct hk_port_info *info, struct hk_port *port);

/* As hk_port_rx() and hk_port_tx() do, which call them. Sending wakes a switch that sleeps (bell.h). */
uint16_t hk_pipe_rx(struct hk_port *port, struct rte_mbuf **m, uint16_t n);
uint16_t hk_pipe_tx(struct hk_port *port, struct rte_mbuf **m, uint16_t n);

/* ---- switch's side -------------------------------------------------------------------------- */

/* What a user has of received buffers, by all its pipes; private memory of the switch. */
struct hk_pipe_share;

/* @buffers: so many it may have at once. NULL: no memory. */
struct hk_pipe_share *hk_pipe_share_new(unsigned buffers);

/* The user has gone, and its pipes are closed: takes back what it had. NULL is allowed. */
void hk_pipe_share_free(struct hk_pipe_share *share);

/* Received buffers that the user has just now. */
unsigned hk_pipe_share_held(const struct hk_pipe_share *share);

/* Takes back some received buffers that the user has freed: to be called now and then. */
void hk_pipe_settle(struct hk_pipe_share *share);

struct hk_pipe_end; /* private memory of the switch */

/* @tx_pool: of the user, made by this process. @share stays the caller's, and outlives the end. */
int hk_pipe_open(struct hk_pipe *pipe, struct rte_mempool *tx_pool, struct hk_pipe_share *share,
		 struct hk_pipe_end **end, struct hk_error *err);

/* Forgets the pipe. What its user has received stays in the user's share until it frees it, or has gone. Frames
 * that a driver still sends from its buffers must have left before. NULL is allowed. */
void hk_pipe_close(struct hk_pipe_end *end);

/* Hands over received frames of one segment each; takes them all. Those for which there is no room, or that
 * exceed the user's share, are freed and counted. -EPROTO: the user's index is garbage (all freed). */
int hk_pipe_give(struct hk_pipe_end *end, struct rte_mbuf *const *m, unsigned n);

/* Is anything that was handed over before the last call of this still not taken? Its user's index is not
 * checked: garbage gives a wrong answer. */
bool hk_pipe_waits(struct hk_pipe_end *end);

/* Has all been taken that was handed over? The same holds for garbage. */
bool hk_pipe_empty(const struct hk_pipe_end *end);

/* A frame that the user sends: its bytes may change under the reader, its bounds do not. */
struct hk_pipe_frame {
	char *bytes;
	uint16_t len;
};

/* The next frames to send, at most @n; how many, or -EPROTO. */
int hk_pipe_take(struct hk_pipe_end *end, struct hk_pipe_frame *frames, unsigned n);

/* The @n frames taken last are sent (or lost), and not read any more. Before the next hk_pipe_take(). */
void hk_pipe_sent(struct hk_pipe_end *end, unsigned n);

struct hk_pipe_counters {
	uint64_t given, taken, rx_full, rx_share; /* the last two: frames dropped */
};

const struct hk_pipe_counters *hk_pipe_counters(const struct hk_pipe_end *end);

#endif
