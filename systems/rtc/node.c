/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/node.c: creation and end of a node; types; timers.
 */
#include "rtc/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ms; ten intervals must be far shorter than the time in which epochs wrap */
#define ALIVE_MAX   10000
#define EPOCH_UNIT  16       /* ms */
#define BUDGET_MAX  50000000 /* ns */
#define BUFFERS_MIN 256
#define BUFFERS_MAX (1u << 20)

void hk_rtc_defaults(struct hk_rtc_config *cfg)
{
	*cfg = (struct hk_rtc_config){.topology = HK_RTC_ALL, .timeout_ms = HK_RTC_TIMEOUT_MS};
}

int hk_rtc_check_config(struct hk_rtc_config *c, struct hk_error *err)
{
	if (c->nodes < 1 || c->nodes > HK_RTC_MAX_NODES)
		return hk_error_set(err, -EINVAL, "a job cannot have %u nodes; fix: use 1 to %d",
				    c->nodes, HK_RTC_MAX_NODES);
	if (c->node >= c->nodes)
		return hk_error_set(err, -EINVAL,
				    "node %u does not exist: the job has %u nodes; fix: use a "
				    "number from 0 to %u",
				    c->node, c->nodes, c->nodes - 1u);
	c->buffers = c->buffers ? c->buffers : 4096;
	if (c->buffers < BUFFERS_MIN || c->buffers > BUFFERS_MAX)
		return hk_error_set(err, -EINVAL,
				    "a node cannot have %u buffers; fix: use %d to %u", c->buffers,
				    BUFFERS_MIN, BUFFERS_MAX);
	c->alive_ms = c->alive_ms ? c->alive_ms : 100;
	if (c->alive_ms > ALIVE_MAX)
		return hk_error_set(err, -EINVAL,
				    "an alive_ms of %u is too long; fix: use at most %d",
				    c->alive_ms, ALIVE_MAX);
	if (c->threads > 64)
		return hk_error_set(
			err, -EINVAL,
			"a node cannot have %u handler threads; fix: set threads to at most 64",
			c->threads);
	c->timeout_ms = c->timeout_ms ? c->timeout_ms : HK_RTC_TIMEOUT_MS;
	return 0;
}

/* ---- open and close -------------------------------------------------------------------------- */

uint16_t hk_rtc_epoch_now(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	uint64_t ms = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	uint16_t e = (uint16_t)(ms / EPOCH_UNIT);
	return e ? e : 1;
}

static bool make_tables(struct hk_rtc *r, const struct hk_rtc_config *c)
{
	unsigned requests = HK_MIN((unsigned)HK_RTC_REQUESTS_MAX, c->buffers / 4);

	r->deferred.capacity = c->buffers / 4;
	r->deferred.msg = calloc(r->deferred.capacity, sizeof(*r->deferred.msg));
	return r->deferred.msg && hk_rtc_requests_init(&r->requests, r->nodes, requests) &&
	       hk_rtc_replies_init(&r->replies, r->nodes, requests) &&
	       hk_rtc_members_init(&r->members, r->self, r->nodes, r->epoch, c->alive_ms * HK_MSEC,
				   hk_rtc_clock_now(&r->clock));
}

static void free_node(struct hk_rtc *r)
{
	for (unsigned i = 0; i < HK_RTC_MAX_TYPES; i++) {
		free(r->type[i].next);
		free(r->type[i].latest.number);
		free(r->type[i].latest_reply.number);
		free(r->type[i].once.peer);
	}
	free(r->deferred.msg);
	hk_rtc_requests_free(&r->requests);
	hk_rtc_replies_free(&r->replies);
	hk_rtc_members_free(&r->members);
	hk_rtc_topology_free(&r->topology);
	free(r);
}

static void close_parts(const struct hk_rtc_backend_ops *ops, struct hk_rtc_backend *backend,
			struct hk_rtc_protect *protect)
{
	ops->close(backend);
	if (protect)
		protect->close(protect);
}

int hk_rtc_create(const struct hk_rtc_config *c, const struct hk_rtc_parts *parts,
		  struct hk_rtc **rtc, struct hk_error *err)
{
	struct hk_rtc *r = NULL;
	int rc;

	*rtc = NULL;
	if (posix_memalign((void **)&r, 64, sizeof(*r))) {
		close_parts(parts->ops, parts->backend, parts->protect);
		return hk_error_set(err, -ENOMEM, "no memory for a node");
	}
	memset(r, 0, sizeof(*r));
	r->ops = parts->ops;
	r->backend = parts->backend;
	r->timeout_ms = c->timeout_ms;
	r->burst = r->backend->burst ? HK_MIN(r->backend->burst, (unsigned)HK_RTC_BURST)
				     : HK_RTC_BURST;
	r->clock = parts->clock;
	r->self = c->node;
	r->nodes = c->nodes;
	r->key = c->key;
	r->protection = c->protection;
	r->protect = parts->protect;
	r->version = HK_MSG_VERSION | (r->protect ? HK_MSG_F_TAG : 0);
	r->epoch = parts->epoch;
	r->on_member = c->on_member;
	r->arg = c->arg;
	r->rng = c->seed ^ ((uint64_t)c->node << 48);
	r->topology_stale = true;
	r->now = hk_rtc_clock_now(&r->clock);
	hk_rtc_timers_init(&r->timers);
	rc = hk_rtc_topology_init(&r->topology, c, err);
	if (rc == 0 && !make_tables(r, c))
		rc = hk_error_set(err, -ENOMEM, "no memory for a node in a job of %u", c->nodes);
	for (unsigned i = 0; rc == 0 && parts->peer_epoch && i < r->nodes; i++)
		if (i != r->self) {
			hk_rtc_members_input(&r->members, (uint16_t)i, parts->peer_epoch[i],
					     r->now);
			r->stats.joined++;
		}
	if (rc == 0)
		rc = hk_rtc_threads_start(r, c, err);
	if (rc) {
		close_parts(r->ops, r->backend, r->protect);
		free_node(r);
		return rc;
	}
	*rtc = r;
	return 0;
}

/* Returns all buffers before the backend closes, so that a backend that counts them misses none. */
static void return_buffers(struct hk_rtc *r)
{
	struct hk_rtc_request q;

	for (unsigned n = 0; n < r->nodes; n++)
		while (hk_rtc_requests_drop_peer(&r->requests, (uint16_t)n, &q))
			hk_rtc_buf_release(r, q.buf);
	for (unsigned i = 0; i < r->replies.capacity; i++)
		if (r->replies.ring[i].buf != HK_RTC_NO_BUF)
			hk_rtc_buf_release(r, r->replies.ring[i].buf);
	for (; r->deferred.count; r->deferred.count--) {
		hk_rtc_buf_give(r, r->backend->buf[r->deferred.msg[r->deferred.head].buf]);
		r->deferred.head = (r->deferred.head + 1) % r->deferred.capacity;
	}
	if (r->begun)
		hk_rtc_buf_give(r, r->begun);
	r->ops->free(r->backend, r->spare, r->spare_n);
}

/* Lets the handler threads finish their messages; their replies are still sent. False: a handler
 * does not return. */
static bool end_threads(struct hk_rtc *r)
{
	uint64_t deadline = hk_clock_ns() + r->timeout_ms * HK_MSEC;

	while (r->threads && hk_rtc_threads_outstanding(r->threads) && hk_clock_ns() < deadline)
		hk_rtc_threads_collect(r);
	return hk_rtc_threads_stop(r->threads, deadline);
}

int hk_rtc_close(struct hk_rtc *r)
{
	if (!r)
		return 0;
	bool ended = end_threads(r);
	if (ended)
		r->threads = NULL;
	/* if one of these is lost, the receiver detects the end by silence, after about a second */
	for (unsigned n = 0; n < r->nodes; n++)
		if (n != r->self && hk_rtc_members_contains(&r->members, (uint16_t)n))
			hk_rtc_send_control(r, (uint16_t)n, HK_MSG_T_LEAVE, 0);
	hk_rtc_flush(r);
	if (!ended)
		return -ETIMEDOUT;
	return_buffers(r);
	close_parts(r->ops, r->backend, r->protect);
	free_node(r);
	return 0;
}

const char *hk_rtc_address(const struct hk_rtc *r)
{
	return r->backend->address;
}

enum hk_rtc_protection hk_rtc_protection(const struct hk_rtc *r)
{
	return r->protection;
}

/* ---- types ----------------------------------------------------------------------------------- */

static int make_type(struct hk_rtc *r, uint8_t type, struct hk_rtc_type_state *s,
		     struct hk_error *err)
{
	bool ok = true;

	s->next = calloc(r->nodes, sizeof(*s->next));
	if (s->class == HK_RTC_LATEST)
		ok = hk_rtc_latest_init(&s->latest, r->nodes) &&
		     hk_rtc_latest_init(&s->latest_reply, r->nodes);
	if (s->class == HK_RTC_RETRY)
		ok = hk_rtc_once_init(&s->once, r->nodes) &&
		     hk_rtc_requests_add_type(&r->requests, type) &&
		     hk_rtc_replies_add_type(&r->replies, type);
	if (!s->next || !ok)
		return hk_error_set(err, -ENOMEM, "no memory for message type %u", type);
	for (unsigned n = 0; n < r->nodes; n++)
		s->next[n] = hk_rtc_number_first(r->epoch);
	return 0;
}

int hk_rtc_register(struct hk_rtc *r, uint8_t type, const struct hk_rtc_type *t,
		    struct hk_error *err)
{
	if (type >= HK_RTC_MAX_TYPES)
		return hk_error_set(err, -EINVAL,
				    "message type %u is reserved for the library; fix: use 0 to %d",
				    type, HK_RTC_MAX_TYPES - 1);
	struct hk_rtc_type_state *s = &r->type[type];
	if (!t->name || !*t->name || strlen(t->name) >= sizeof(s->name))
		return hk_error_set(
			err, -EINVAL,
			"message type %u has no valid name; fix: use 1 to %zu characters", type,
			sizeof(s->name) - 1);
	if (t->class > HK_RTC_RETRY)
		return hk_error_set(err, -EINVAL,
				    "message type %u (%s): delivery class %d does not exist; fix: "
				    "use one of enum hk_rtc_class",
				    type, t->name, (int)t->class);
	if (t->budget_ns > BUDGET_MAX)
		return hk_error_set(err, -EINVAL,
				    "message type %u (%s): a budget of %u ns is too long; fix: use "
				    "at most %d, or 0 for no limit",
				    type, t->name, t->budget_ns, BUDGET_MAX);
	if (s->registered)
		return hk_error_set(err, -EEXIST,
				    "message type %u is registered already, as %s; fix: use "
				    "another number for %s",
				    type, s->name, t->name);
	if (r->polled)
		return hk_error_set(err, -EBUSY,
				    "message type %u (%s): the node is running already; fix: "
				    "register before the first hk_rtc_poll()",
				    type, t->name);
	s->on_message = t->on_message;
	s->on_reply = t->on_reply;
	s->on_given_up = t->on_given_up;
	s->arg = t->arg;
	s->class = t->class;
	s->budget.limit = t->budget_ns;
	s->timeout = (t->timeout_us ? t->timeout_us : 1000) * HK_USEC;
	s->tries = t->tries ? t->tries : 10;
	snprintf(s->name, sizeof(s->name), "%s", t->name);
	int rc = make_type(r, type, s, err);
	s->registered = rc == 0;
	return rc;
}

/* ---- time ------------------------------------------------------------------------------------ */

uint64_t hk_rtc_now(const struct hk_rtc *r)
{
	return hk_rtc_clock_now(&r->clock);
}

int hk_rtc_timer(struct hk_rtc *r, uint64_t first_ns, uint64_t period_ns, hk_rtc_timer_fn fn,
		 void *arg)
{
	int id = hk_rtc_timers_add(&r->timers, hk_rtc_clock_now(&r->clock) + first_ns, period_ns,
				   fn, arg);
	r->due = HK_MIN(r->due, r->timers.due);
	return id;
}

void hk_rtc_cancel(struct hk_rtc *r, int timer)
{
	hk_rtc_timers_cancel(&r->timers, timer);
}
