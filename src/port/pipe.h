/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/pipe.h: a queue pair in software, between a process that owns a port (the *switch*) and one
 * that does not (its *user*). Steering uses pipes for ports whose queues other processes cannot
 * poll.
 *
 * A pipe has two rings in shared memory, each with one writer and one reader. The switch passes
 * addresses of received buffers to the user without a copy. The user frees such a buffer like any
 * other. The switch has a reference of its own and reclaims the buffer when that is the last one.
 * The user passes numbers of buffers of its transmit pool (see hk_pool_create_sized()) to the
 * switch. The user's side frees them when the switch has sent them, as a driver would.
 *
 * Trust. The user trusts the switch. The switch does not trust the user:
 *  - it has its own indices of both rings, and checks the distance to the user's;
 *  - it checks numbers and looks them up in a table of its own;
 *  - it reads offset and length of a frame once and checks them;
 *  - it restores the header of a received buffer, which the user can write, from a copy.
 * On a violation the call returns -EPROTO. The user can then harm only itself.
 *
 * Threads. One thread at a time on each side.
 */
#ifndef HK_PORT_PIPE_H
#define HK_PORT_PIPE_H

#include "port/port.h"

#include <stdatomic.h>

#pragma GCC visibility push(default)

#define HK_PIPE_RING 512 /* frames each way; a power of two */

/* Both rings. The struct lies in shared memory, zeroed and 64-byte aligned. */
struct hk_pipe {
	/* Ring to the user. */
	_Alignas(64) _Atomic uint32_t rx_head; /* written by the switch */
	_Alignas(64) _Atomic uint32_t rx_tail; /* written by the user */
	/* Ring from the user. */
	_Alignas(64) _Atomic uint32_t tx_head; /* written by the user */
	_Alignas(64) _Atomic uint32_t tx_tail; /* written by the switch */
	_Alignas(64) uint32_t tx_freed; /* user's: index up to which it has freed sent buffers */
	_Alignas(64) struct rte_mbuf *rx[HK_PIPE_RING];
	struct rte_mbuf *sending[HK_PIPE_RING]; /* user's: the buffers of the numbers in `tx` */
	uint32_t tx[HK_PIPE_RING];              /* numbers of buffers in the transmit pool */
};

/* ---- user's side --------------------------------------------------------------------------- */

/* Makes @port a port of one queue pair that sends and receives by @pipe; other fields of its
 * information come from @info. */
void hk_pipe_port(struct hk_pipe *pipe, const struct hk_port_info *info, struct hk_port *port);

/* hk_port_rx() and hk_port_tx() call them. Sending wakes a switch that sleeps (port/wakeup.h). */
uint16_t hk_pipe_rx(struct hk_port *port, struct rte_mbuf **m, uint16_t n);
uint16_t hk_pipe_tx(struct hk_port *port, struct rte_mbuf **m, uint16_t n);

/* ---- switch's side -------------------------------------------------------------------------- */

/* The received buffers that a user holds from all its pipes, in private memory of the switch. */
struct hk_pipe_share;

/* Creates a share of at most @buffers. NULL: no memory. */
struct hk_pipe_share *hk_pipe_share_new(unsigned buffers);

/* Reclaims all buffers of the share and frees it, after the user has ended and its pipes are
 * closed. @share may be NULL. */
void hk_pipe_share_free(struct hk_pipe_share *share);

/* Returns how many received buffers the user holds. */
unsigned hk_pipe_share_held(const struct hk_pipe_share *share);

/* Reclaims some received buffers that the user has freed. The switch calls it now and then. */
void hk_pipe_share_reclaim(struct hk_pipe_share *share);

struct hk_pipe_end; /* private memory of the switch */

/* Opens the switch's end. @tx_pool is the user's transmit pool, created by this process. @share
 * belongs to the caller and must outlive the end. */
int hk_pipe_open(struct hk_pipe *pipe, struct rte_mempool *tx_pool, struct hk_pipe_share *share,
		 struct hk_pipe_end **end, struct hk_error *err);

/* Closes the switch's end. Buffers that the user has received stay in its share until it frees
 * them or ends. No driver may still be sending from the user's buffers. @end may be NULL. */
void hk_pipe_close(struct hk_pipe_end *end);

/* Passes received frames of one segment each to the user, and takes all of them. It frees and
 * counts frames that do not fit the ring or exceed the user's share. -EPROTO: the user's index is
 * invalid; all frames are freed. */
int hk_pipe_give(struct hk_pipe_end *end, struct rte_mbuf *const *m, unsigned n);

/* Returns whether the user has not yet taken a frame that was given before the last call of this
 * function. It does not check the user's index: an invalid one gives a wrong answer. */
bool hk_pipe_stalled(struct hk_pipe_end *end);

/* Returns whether the user has taken all frames. An invalid index gives a wrong answer here too. */
bool hk_pipe_empty(const struct hk_pipe_end *end);

/* A frame that the user sends. The user can change its bytes at any time, but not its bounds. */
struct hk_pipe_frame {
	char *bytes;
	uint16_t len;
};

/* Takes the next frames to send, at most @n. Returns their number, or -EPROTO. */
int hk_pipe_take(struct hk_pipe_end *end, struct hk_pipe_frame *frames, unsigned n);

/* Reports that the first @n of the frames taken last are sent. The switch no longer reads them. The
 * next hk_pipe_take() takes the others again. */
void hk_pipe_sent(struct hk_pipe_end *end, unsigned n);

struct hk_pipe_counters {
	uint64_t given, taken;     /* frames to the user, from the user */
	uint64_t rx_dropped_full;  /* frames dropped: the ring was full */
	uint64_t rx_dropped_quota; /* frames dropped: the user exceeded its share of buffers */
};

const struct hk_pipe_counters *hk_pipe_counters(const struct hk_pipe_end *end);

#pragma GCC visibility pop

#endif
