/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/internal.h: a node, as the files of this directory see it.
 *
 *   open.c        what users call to open: the backend's name, the others' addresses
 *   node.c        set-up and end of a node, types, run
 *   round.c       the round: receive, sort, handle, send. The hot path
 *   send.c        sending, buffers at hand, questions asked again
 *   news.c        members that come and go
 *   wait.c        waiting until all are there
 *   workers.c     worker threads for deferred messages; ring.h between them and the core
 *   stats.c       counters, as structs and as JSON
 *   pure parts    delivery members topology timers budget.h lines clock
 *   backends      backend.h is their contract; ethernet.c (dpdk, af_xdp), raw.c udp.c tcp.c
 *   join.h        who else is there, by the launcher
 */
#ifndef HK_RTC_INTERNAL_H
#define HK_RTC_INTERNAL_H

#include "rtc/backend.h"
#include "rtc/budget.h"
#include "rtc/clock.h"
#include "rtc/delivery.h"
#include "rtc/members.h"
#include "rtc/timers.h"
#include "rtc/topology.h"

#include <stdatomic.h>

#define HK_SPARE 64 /* free buffers at hand */

struct hk_workers;

struct hk_rtc_type_state {
	_Alignas(64) hk_rtc_fn on_message;
	hk_rtc_fn on_answer;
	void *arg;
	enum hk_rtc_class class;
	bool registered;
	struct hk_budget budget;
	uint32_t *next; /* [nodes]: the number of the next message to each */
	struct hk_latest latest, latest_answer;
	struct hk_once once;
	void (*on_given_up)(struct hk_rtc *rtc, void *arg, uint16_t dst, uint32_t number);
	uint64_t timeout; /* ns */
	unsigned tries;
	struct hk_rtc_type_stats stats;
	char name[32];
};

/* Messages that were deferred where there are no workers: first in, first out. */
struct hk_later {
	struct hk_msg *msg;
	unsigned places, head, count;
};

struct hk_rtc {
	/* read for each message */
	struct hk_rtc_backend *be;
	const struct hk_rtc_backend_ops *ops;
	uint32_t key;
	uint16_t self, nodes, epoch;
	unsigned burst; /* taken in at once */
	uint64_t now;   /* when the round began */
	struct hk_clock clock;
	struct hk_members members;

	/* to be sent at the end of the round; the buffers are given away */
	struct hk_rtc_buf *tx[2 * HK_RTC_BURST];
	unsigned tx_n;
	struct hk_rtc_buf *spare[HK_SPARE];
	unsigned spare_n;
	struct hk_rtc_buf *begun; /* between hk_rtc_begin() and hk_rtc_end() */

	uint64_t due; /* of what round.c's due_work() looks after */
	struct hk_rtc_stats stats;
	struct hk_asker asker;
	struct hk_answers answers;
	struct hk_later later;
	struct hk_workers *workers;
	struct hk_timers timers;
	struct hk_topology topology;
	bool topology_stale;
	uint64_t rng;
	void (*on_member)(struct hk_rtc *rtc, void *arg, uint16_t node, bool joined);
	void *arg;
	atomic_bool stop;
	unsigned timeout_ms;
	bool polled;
	struct hk_rtc_type_state type[HK_RTC_MAX_TYPES];
};

/* ---- node.c ----------------------------------------------------------------------------------- */

/* What hk_rtc_open() has found out, or a test has made up. */
struct hk_rtc_parts {
	const struct hk_rtc_backend_ops *ops;
	struct hk_rtc_backend *backend; /* open; the node closes it, also when it cannot be made */
	uint16_t epoch;                 /* of this incarnation; not 0 */
	const uint16_t *peer_epoch;     /* [nodes] that are members from the start; or NULL */
	struct hk_clock clock;
};

/* Makes the node. @cfg: complete, checked by hk_rtc_check(). */
int hk_rtc_make(const struct hk_rtc_config *cfg, const struct hk_rtc_parts *parts,
		struct hk_rtc **rtc, struct hk_error *err);

#define HK_RTC_TIMEOUT_MS 10000

/* Later incarnations have later epochs; never 0. */
uint16_t hk_rtc_epoch_now(void);

/* Is the configuration one? Puts defaults for zeros. */
int hk_rtc_check(struct hk_rtc_config *cfg, struct hk_error *err);

/* ---- send.c ----------------------------------------------------------------------------------- */

struct hk_rtc_buf *hk_rtc_take(struct hk_rtc *r);

/* Of a buffer that no driver may still read: to be used again at once. */
static inline void hk_rtc_give(struct hk_rtc *r, struct hk_rtc_buf *b)
{
	if (HK_UNLIKELY(r->spare_n == HK_SPARE)) {
		r->spare_n -= HK_RTC_BURST;
		r->ops->free(r->be, &r->spare[r->spare_n], HK_RTC_BURST);
	}
	r->spare[r->spare_n++] = b;
}

/* Of one that was sent by tx_copy(), or by its number. */
void hk_rtc_release(struct hk_rtc *r, uint32_t buf);

static inline void hk_rtc_queue(struct hk_rtc *r, struct hk_rtc_buf *b)
{
	r->stats.tx_messages++;
	r->stats.tx_bytes += b->len - HK_MSG_HLEN;
	r->tx[r->tx_n++] = b;
	if (HK_UNLIKELY(r->tx_n == HK_ARRAY_LEN(r->tx)))
		hk_rtc_flush(r);
}

/* Sends at once and keeps the buffer. */
void hk_rtc_send_kept(struct hk_rtc *r, struct hk_rtc_buf *b);

/* Writes the header of a message of ours into @b. */
static inline void hk_rtc_head(const struct hk_rtc *r, struct hk_rtc_buf *b, uint8_t flags,
			       uint8_t type, uint16_t dst, uint32_t number, size_t len)
{
	const struct hk_msg_hdr h = {.ver_flags = (uint8_t)(HK_MSG_VERSION | flags),
				     .type = type,
				     .len = (uint16_t)len,
				     .src = r->self,
				     .dst = dst,
				     .key = r->key,
				     .number = number,
				     .epoch = r->epoch};
	hk_msg_put(b->hdr, &h);
	b->len = (uint32_t)(HK_MSG_HLEN + len);
	b->dst = dst;
}

/* A message of the library's own. */
void hk_rtc_send_own(struct hk_rtc *r, uint16_t dst, uint8_t type, uint8_t flags);

/* Asks again what is due; returns when it has to be called next. */
uint64_t hk_rtc_ask_again(struct hk_rtc *r);

/* ---- news.c ------------------------------------------------------------------------------------ */

/* A message whose header is sound but which does not come from a member's present incarnation, or is the library's own.
 * True: handle it after all. */
bool hk_rtc_news(struct hk_rtc *r, const struct hk_msg_hdr *h);

/* Signs of life and losses that are due; returns when it has to be called next. */
uint64_t hk_rtc_members_work(struct hk_rtc *r);

/* ---- round.c ------------------------------------------------------------------------------------ */

/* What @t's handler left: answers, drops, defers again. */
void hk_rtc_verdicts(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m, unsigned n);

/* ---- workers.c ---------------------------------------------------------------------------------- */

int hk_workers_start(struct hk_rtc *r, const struct hk_rtc_config *cfg, struct hk_error *err);

/* They end when they have handled what they hold; at @deadline of hk_clock_monotonic() they are waited for no longer:
 * false, and nothing is freed. NULL is allowed. */
bool hk_workers_stop(struct hk_workers *w, uint64_t deadline);

/* Hands over; returns how many had room, from the front. */
unsigned hk_workers_put(struct hk_workers *w, const struct hk_msg *m, unsigned n);

/* So many hk_workers_put() would take now. */
unsigned hk_workers_room(const struct hk_workers *w);

/* Takes what is handled, and the time it took; returns how many messages. */
unsigned hk_workers_collect(struct hk_rtc *r);

/* Messages that workers hold. */
unsigned hk_workers_held(const struct hk_workers *w);

#endif
