/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/internal.h: struct hk_rtc, a node, and functions that the files of this directory share.
 *
 *   open.c         hk_rtc_open(): chooses the backend, exchanges addresses
 *   node.c         creation and end of a node, registration of types
 *   round.c        a round: receive, sort, handle, send. The hot path
 *   send.c         sending, spare buffers, resending of requests
 *   membership.c   reaction to members that join, leave and restart
 *   wait.c         hk_rtc_wait_all()
 *   threads.c      handler threads for deferred messages; ring.h connects them to the core
 *   stats.c        counters, as structs and as JSON
 *   pure parts     delivery, members, topology, timers, budget.h, lines, clock
 *   backends       backend.h is their interface; ethernet.h (dpdk, af_xdp), raw.c, udp.c, tcp.h
 *   join.h         the other nodes, from the launcher; peers.h: from a file
 */
#ifndef HK_RTC_INTERNAL_H
#define HK_RTC_INTERNAL_H

#include "rtc/backend.h"
#include "rtc/budget.h"
#include "rtc/clock.h"
#include "rtc/delivery.h"
#include "rtc/members.h"
#include "rtc/protect.h"
#include "rtc/timers.h"
#include "rtc/topology.h"

#include <stdatomic.h>

#define HK_RTC_SPARES 64 /* free buffers that the core keeps */

struct hk_rtc_threads;

struct hk_rtc_type_state {
	_Alignas(64) hk_rtc_fn on_message;
	hk_rtc_fn on_reply;
	void *arg;
	enum hk_rtc_class class;
	bool registered;
	struct hk_rtc_budget budget;
	uint32_t *next; /* [nodes] number of the next message to each node */
	struct hk_rtc_latest latest, latest_reply;
	struct hk_rtc_once once;
	void (*on_given_up)(struct hk_rtc *rtc, void *arg, uint16_t dst, uint32_t number);
	uint64_t timeout; /* ns */
	unsigned tries;
	struct hk_rtc_type_stats stats;
	char name[32];
};

/* Deferred messages of a node without handler threads, a FIFO. */
struct hk_rtc_deferred {
	struct hk_msg *msg;
	unsigned capacity, head, count;
};

struct hk_rtc {
	/* read for each message */
	struct hk_rtc_backend *backend;
	const struct hk_rtc_backend_ops *ops;
	struct hk_rtc_protect *protect; /* NULL: none */
	uint32_t key;
	uint16_t self, nodes, epoch;
	uint8_t version; /* of messages: HK_MSG_VERSION, with HK_MSG_F_TAG if they are protected */
	unsigned burst;  /* most messages of a round */
	uint64_t now;    /* start of the round in ns */
	struct hk_rtc_clock clock;
	struct hk_rtc_members members;

	/* messages to send at the end of the round; tx() frees their buffers */
	struct hk_rtc_buf *tx[2 * HK_RTC_BURST];
	unsigned tx_n;
	struct hk_rtc_buf *spare[HK_RTC_SPARES];
	unsigned spare_n;
	struct hk_rtc_buf *begun; /* between hk_rtc_begin() and hk_rtc_end() */

	uint64_t due; /* next time of due_work() in round.c */
	struct hk_rtc_stats stats;
	struct hk_rtc_requests requests;
	struct hk_rtc_replies replies;
	struct hk_rtc_deferred deferred;
	struct hk_rtc_threads *threads;
	struct hk_rtc_timers timers;
	struct hk_rtc_topology_view topology;
	bool topology_stale;
	uint64_t rng;
	void (*on_member)(struct hk_rtc *rtc, void *arg, uint16_t node, bool joined);
	void *arg;
	atomic_bool stop;
	unsigned timeout_ms;
	enum hk_rtc_protection protection; /* never AUTO */
	bool polled;
	struct hk_rtc_type_state type[HK_RTC_MAX_TYPES];
};

/* ---- node.c ---------------------------------------------------------------------------------- */

/* Arguments of hk_rtc_create() beyond the configuration. */
struct hk_rtc_parts {
	const struct hk_rtc_backend_ops *ops;
	/* open; the node closes it, also if hk_rtc_create() fails */
	struct hk_rtc_backend *backend;
	uint16_t epoch; /* epoch of this incarnation; not 0 */
	/* [nodes] epochs of those that are members from the start; or NULL */
	const uint16_t *peer_epoch;
	struct hk_rtc_clock clock;
	/* the backend's, or NULL; the node closes it, also if hk_rtc_create() fails */
	struct hk_rtc_protect *protect;
};

/* Creates the node. @cfg was completed by hk_rtc_check_config(). */
int hk_rtc_create(const struct hk_rtc_config *cfg, const struct hk_rtc_parts *parts,
		  struct hk_rtc **rtc, struct hk_error *err);

#define HK_RTC_TIMEOUT_MS 10000

/* An epoch, never 0. Later incarnations have later epochs. */
uint16_t hk_rtc_epoch_now(void);

/* Checks the configuration, and replaces zeros by defaults. */
int hk_rtc_check_config(struct hk_rtc_config *cfg, struct hk_error *err);

/* ---- send.c ---------------------------------------------------------------------------------- */

struct hk_rtc_buf *hk_rtc_buf_take(struct hk_rtc *r);

/* Frees a buffer that no driver reads any more, for use again at once. */
static inline void hk_rtc_buf_give(struct hk_rtc *r, struct hk_rtc_buf *b)
{
	if (HK_UNLIKELY(r->spare_n == HK_RTC_SPARES)) {
		r->spare_n -= HK_RTC_BURST;
		r->ops->free(r->backend, &r->spare[r->spare_n], HK_RTC_BURST);
	}
	r->spare[r->spare_n++] = b;
}

/* Frees a buffer that tx_copy() may still read, by its number. */
void hk_rtc_buf_release(struct hk_rtc *r, uint32_t buf);

static inline void hk_rtc_buf_queue(struct hk_rtc *r, struct hk_rtc_buf *b)
{
	r->stats.tx_messages++;
	r->stats.tx_bytes += b->len - HK_MSG_HLEN - r->backend->trailer;
	r->tx[r->tx_n++] = b;
	if (HK_UNLIKELY(r->tx_n == HK_ARRAY_LEN(r->tx)))
		hk_rtc_flush(r);
}

/* Sends at once; the caller keeps the buffer. */
void hk_rtc_buf_send_copy(struct hk_rtc *r, struct hk_rtc_buf *b);

/* Writes the header of a message from this node into @b. */
static inline void hk_rtc_buf_set_header(const struct hk_rtc *r, struct hk_rtc_buf *b,
					 uint8_t flags, uint8_t type, uint16_t dst, uint32_t number,
					 size_t len)
{
	const struct hk_msg_hdr h = {.ver_flags = (uint8_t)(r->version | flags),
				     .type = type,
				     .len = (uint16_t)len,
				     .src = r->self,
				     .dst = dst,
				     .key = r->key,
				     .number = number,
				     .epoch = r->epoch};
	hk_msg_encode(b->hdr, &h);
	b->len = (uint32_t)(HK_MSG_HLEN + len) + r->backend->trailer;
	b->dst = dst;
}

/* Sends a message of the library, such as ALIVE. */
void hk_rtc_send_control(struct hk_rtc *r, uint16_t dst, uint8_t type, uint8_t flags);

/* Resends due requests; returns the time of its next call. */
uint64_t hk_rtc_resend_requests(struct hk_rtc *r);

/* Sends @node our greeting, if nodes greet. */
void hk_rtc_send_greeting(struct hk_rtc *r, uint16_t node);

/* ---- membership.c ---------------------------------------------------------------------------- */

/* Takes a message with a valid header that is not from a member's current incarnation, or is the
 * library's own. Returns true if the handlers should have it. */
bool hk_rtc_membership_input(struct hk_rtc *r, const struct hk_msg_hdr *h);

/* Sends due alive messages and detects lost members; returns the time of its next call. */
uint64_t hk_rtc_membership_work(struct hk_rtc *r);

/* ---- round.c --------------------------------------------------------------------------------- */

/* Carries out the actions that @t's handler set: sends replies, frees, defers. */
void hk_rtc_messages_finish(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m,
			    unsigned n);

/* ---- threads.c ------------------------------------------------------------------------------- */

int hk_rtc_threads_start(struct hk_rtc *r, const struct hk_rtc_config *cfg, struct hk_error *err);

/* Stops the threads after they have handled the messages that they have. False: @deadline
 * (hk_clock_ns()) passed first, and nothing is freed. @w may be NULL. */
bool hk_rtc_threads_stop(struct hk_rtc_threads *w, uint64_t deadline);

/* Submits messages to the threads. Returns how many, from the front, found space. */
unsigned hk_rtc_threads_submit(struct hk_rtc_threads *w, const struct hk_msg *m, unsigned n);

/* Number of messages that hk_rtc_threads_submit() would take now. */
unsigned hk_rtc_threads_available(const struct hk_rtc_threads *w);

/* Takes handled messages back, with the time that they took. Returns how many. */
unsigned hk_rtc_threads_collect(struct hk_rtc *r);

/* Number of messages that the threads have. */
unsigned hk_rtc_threads_outstanding(const struct hk_rtc_threads *w);

#endif
