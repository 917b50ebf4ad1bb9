/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/round.c: one round of a node: receive a burst, call its handlers, send their replies.
 *
 * It checks a burst message by message, then splits it into runs of one type, and calls a handler
 * once for each run. Only the 24-byte descriptions are sorted; payloads stay where the backend
 * received them. A usual burst is one run. The clock is read once after sorting, and after each
 * run.
 */
#include "rtc/internal.h"

/* Messages of one kind have the same handler. */
#define KIND(type, reply) ((uint16_t)((type) << 1 | (reply)))

/* ---- replies --------------------------------------------------------------------------------- */

/* Sends the payload in @b back to the sender of @m. */
static inline void send_reply(struct hk_rtc *r, struct hk_rtc_type_state *t, const struct hk_msg *m,
			      struct hk_rtc_buf *b, uint16_t len)
{
	t->stats.replied++;
	hk_rtc_buf_set_header(r, b, HK_MSG_F_REPLY, m->type, m->src, m->number,
			      HK_MIN(len, m->reply_max));
	if (HK_LIKELY(t->class != HK_RTC_RETRY)) {
		hk_rtc_buf_queue(r, b);
		return;
	}
	uint32_t old = hk_rtc_replies_store(&r->replies, m->src, m->type, m->number, b->index);
	if (old != HK_RTC_NO_BUF)
		hk_rtc_buf_release(r, old);
	hk_rtc_buf_send_copy(r, b);
}

static void defer_message(struct hk_rtc *r, struct hk_rtc_type_state *t, const struct hk_msg *m)
{
	struct hk_rtc_deferred *l = &r->deferred;

	if (r->threads ? hk_rtc_threads_submit(r->threads, m, 1) == 0 : l->count == l->capacity) {
		t->stats.defer_full++;
		if (t->class == HK_RTC_RETRY)
			hk_rtc_once_unmark(&t->once, m->src, m->number);
		hk_rtc_buf_give(r, r->backend->buf[m->buf]);
		return;
	}
	t->stats.deferred++;
	if (!r->threads)
		l->msg[(l->head + l->count++) % l->capacity] = *m;
}

void hk_rtc_messages_finish(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m,
			    unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct hk_rtc_buf *b = r->backend->buf[m[i].buf];
		switch (m[i].action) {
		case HK_RTC_REPLY:
			send_reply(r, t, &m[i], b, m[i].len);
			break;
		case HK_RTC_DEFER:
			defer_message(r, t, &m[i]);
			break;
		default:
			/* the library answers every request, here without a payload */
			if (HK_UNLIKELY(t->class == HK_RTC_RETRY))
				send_reply(r, t, &m[i], b, 0);
			else
				hk_rtc_buf_give(r, b);
		}
	}
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Calls the handler and measures its cost. @since: start of the run; returns its end. */
static inline uint64_t call_handler(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m,
				    unsigned n, uint64_t since)
{
	t->stats.messages += n;
	t->on_message(r, t->arg, m, n);
	uint64_t now = hk_rtc_clock_now(&r->clock);
	t->stats.handler_ns += now - since;
	if (HK_UNLIKELY(hk_rtc_budget_sample(&t->budget, now - since, n)))
		t->stats.bursts_over_budget++;
	hk_rtc_messages_finish(r, t, m, n);
	return now;
}

/* Removes repeated requests, and repeats their replies if they are stored. Returns how many
 * messages are left. */
static unsigned filter_repeated(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m,
				unsigned n)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++) {
		if (hk_rtc_once_is_new(&t->once, m[i].src, m[i].number)) {
			hk_rtc_once_mark(&t->once, m[i].src, m[i].number);
			m[left++] = m[i];
			continue;
		}
		t->stats.repeated++;
		uint32_t stored = hk_rtc_replies_find(&r->replies, m[i].src, m[i].type,
						      m[i].number);
		if (stored != HK_RTC_NO_BUF) {
			r->backend->buf[stored]->hdr[offsetof(struct hk_msg_hdr, ver_flags)] |=
				HK_MSG_F_RESENT;
			hk_rtc_buf_send_copy(r, r->backend->buf[stored]);
		}
		hk_rtc_buf_give(r, r->backend->buf[m[i].buf]);
	}
	return left;
}

static unsigned filter_stale(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_rtc_latest *l,
			     struct hk_msg *m, unsigned n)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++) {
		if (hk_rtc_latest_fresh(l, m[i].src, m[i].number)) {
			m[left++] = m[i];
			continue;
		}
		t->stats.stale++;
		hk_rtc_buf_give(r, r->backend->buf[m[i].buf]);
	}
	return left;
}

/* Submits a run to handler threads, because its type exceeds the budget. For requests,
 * run_of_messages() first checks for space: a request that finds none is not marked as handled,
 * and is asked again. */
static void defer_run(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m, unsigned n)
{
	unsigned put = hk_rtc_threads_submit(r->threads, m, n);

	t->stats.deferred += put;
	t->stats.defer_full += n - put;
	for (unsigned i = put; i < n; i++)
		hk_rtc_buf_give(r, r->backend->buf[m[i].buf]);
}

static void drop_run(struct hk_rtc *r, const struct hk_msg *m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		hk_rtc_buf_give(r, r->backend->buf[m[i].buf]);
}

static uint64_t run_of_messages(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m,
				unsigned n, uint64_t since)
{
	if (HK_UNLIKELY(!t->on_message)) {
		r->stats.unknown_type += n;
		drop_run(r, m, n);
		return since;
	}
	bool defers = r->threads && t->budget.over;
	if (t->class == HK_RTC_LATEST)
		n = filter_stale(r, t, &t->latest, m, n);
	else if (t->class == HK_RTC_RETRY) {
		unsigned capacity = defers ? hk_rtc_threads_available(r->threads) : n;
		if (HK_UNLIKELY(capacity < n)) {
			t->stats.defer_full += n - capacity;
			drop_run(r, m + capacity, n - capacity);
			n = capacity;
		}
		n = filter_repeated(r, t, m, n);
	}
	if (HK_UNLIKELY(n == 0))
		return since;
	if (HK_UNLIKELY(defers)) {
		defer_run(r, t, m, n);
		return since;
	}
	return call_handler(r, t, m, n, since);
}

static uint64_t run_of_replies(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m,
			       unsigned n, uint64_t since)
{
	if (t->class == HK_RTC_RETRY) {
		unsigned left = 0;
		for (unsigned i = 0; i < n; i++) {
			uint32_t asked = hk_rtc_requests_answered(&r->requests, m[i].src, m[i].type,
								  m[i].number);
			if (asked == HK_RTC_NO_BUF) {
				t->stats.repeated++;
				hk_rtc_buf_give(r, r->backend->buf[m[i].buf]);
			} else {
				hk_rtc_buf_release(r, asked);
				m[left++] = m[i];
			}
		}
		n = left;
	} else if (t->class == HK_RTC_LATEST) {
		n = filter_stale(r, t, &t->latest_reply, m, n);
	}
	if (n == 0)
		return since;
	t->stats.replies += n;
	if (t->on_reply) {
		t->on_reply(r, t->arg, m, n);
		uint64_t now = hk_rtc_clock_now(&r->clock);
		t->stats.handler_ns += now - since;
		since = now;
	}
	drop_run(r, m, n);
	return since;
}

static inline uint64_t run(struct hk_rtc *r, uint16_t kind, struct hk_msg *m, unsigned n,
			   uint64_t since)
{
	struct hk_rtc_type_state *t = &r->type[kind >> 1];

	if (HK_UNLIKELY(!t->registered)) {
		r->stats.unknown_type += n;
		drop_run(r, m, n);
		return since;
	}
	return kind & 1 ? run_of_replies(r, t, m, n, since) : run_of_messages(r, t, m, n, since);
}

/* ---- a burst --------------------------------------------------------------------------------- */

/* The messages of a burst that handlers will get. */
struct sorted {
	struct hk_msg all[HK_RTC_BURST], of[HK_RTC_BURST];
	uint16_t kind[HK_RTC_BURST];
	unsigned n;
	uint16_t mixed; /* the bits in which the kinds differ */
};

static inline void run_sorted(struct hk_rtc *r, struct sorted *s)
{
	uint64_t since = r->now = hk_rtc_clock_now(&r->clock);

	for (unsigned i = 0; i < s->n; i++)
		r->members.last_rx[s->all[i].src] = since;
	r->stats.rx_messages += s->n;
	if (HK_LIKELY(!s->mixed)) {
		if (s->n)
			run(r, s->kind[0], s->all, s->n, since);
		s->n = 0;
		return;
	}
	/* take all messages of the first one's kind, and close the gaps */
	while (s->n) {
		uint16_t k = s->kind[0];
		unsigned rest = 0, m = 0;
		for (unsigned i = 0; i < s->n; i++) {
			if (s->kind[i] == k) {
				s->of[m++] = s->all[i];
			} else {
				s->kind[rest] = s->kind[i];
				s->all[rest++] = s->all[i];
			}
		}
		since = run(r, k, s->of, m, since);
		s->n = rest;
	}
	s->mixed = 0;
}

/* A member is there already, or is found to be silent first. */
static void take_greeting(struct hk_rtc *r, const uint8_t *frame, const struct hk_msg_hdr *h)
{
	if (!r->protect || !r->protect->greeted)
		r->stats.unknown_type++;
	else if (!hk_rtc_members_contains(&r->members, h->src) &&
		 !r->protect->greeted(r->protect, frame, h, r->now))
		r->stats.forged++;
}

/* Whether the node that the message names made it. The others are dropped, and only counted. */
static inline enum hk_rtc_belief judge(struct hk_rtc *r, uint8_t *frame, const struct hk_msg_hdr *h)
{
	if (HK_UNLIKELY((h->ver_flags ^ r->version) & HK_MSG_F_TAG))
		return HK_RTC_FORGED;
	if (HK_LIKELY(!r->protect) || HK_UNLIKELY(h->type == HK_MSG_T_GREET))
		return HK_RTC_GENUINE;
	return r->protect->judge(r->protect, frame, h);
}

/* Handles a message that failed the fast check. Returns true if handlers should get it after all. A
 * change of its sender must not affect earlier messages, so those are handled first. */
static HK_NOINLINE bool check_unusual(struct hk_rtc *r, enum hk_msg_status status,
				      enum hk_rtc_belief belief, const uint8_t *frame,
				      const struct hk_msg_hdr *h, struct sorted *s)
{
	if (status != HK_MSG_OK)
		r->stats.bad++;
	else if (h->key != r->key)
		r->stats.other_job++;
	else if (h->dst != r->self)
		r->stats.not_for_us++;
	else if (h->src >= r->nodes)
		r->stats.not_member++;
	else if (belief == HK_RTC_FORGED)
		r->stats.forged++;
	else if (belief == HK_RTC_REPLAYED)
		r->stats.replayed++;
	else if (h->type == HK_MSG_T_GREET)
		take_greeting(r, frame, h);
	else {
		run_sorted(r, s);
		return hk_rtc_membership_input(r, h);
	}
	return false;
}

static void burst(struct hk_rtc *r, struct hk_rtc_buf **in, unsigned n)
{
	struct sorted s;
	const uint16_t *epoch = r->members.epoch;
	uint16_t reply_max = (uint16_t)r->backend->payload_max;

	s.n = s.mixed = 0;
	for (unsigned i = 0; i < n; i++)
		__builtin_prefetch(in[i]->hdr);
	for (unsigned i = 0; i < n; i++) {
		struct hk_rtc_buf *b = in[i];
		struct hk_msg_hdr h;
		enum hk_msg_status status = hk_msg_parse(b->hdr, b->len, &h);
		bool ours = (status == HK_MSG_OK) &&
			    (h.key == r->key) & (h.dst == r->self) & (h.src < r->nodes);
		enum hk_rtc_belief belief = ours ? judge(r, b->hdr, &h) : HK_RTC_GENUINE;
		bool usual = ours & (belief == HK_RTC_GENUINE) & (h.type < HK_RTC_MAX_TYPES) &&
			     epoch[h.src] == h.epoch;
		if (HK_UNLIKELY(!usual) && !check_unusual(r, status, belief, b->hdr, &h, &s)) {
			hk_rtc_buf_give(r, b);
			continue;
		}
		r->stats.rx_bytes += h.len;
		s.all[s.n] = (struct hk_msg){.data = b->hdr + HK_MSG_HLEN,
					     .len = h.len,
					     .reply_max = reply_max,
					     .src = h.src,
					     .type = h.type,
					     .action = HK_RTC_DONE,
					     .number = h.number,
					     .buf = b->index};
		s.kind[s.n] = KIND(h.type, (h.ver_flags & HK_MSG_F_REPLY) != 0);
		s.mixed |= s.kind[s.n] ^ s.kind[0];
		s.n++;
	}
	run_sorted(r, &s);
}

/* ---- the rest of a round --------------------------------------------------------------------- */

/* Handles deferred messages of one type when no message arrives. */
static unsigned handle_deferred(struct hk_rtc *r)
{
	struct hk_rtc_deferred *l = &r->deferred;
	struct hk_msg m[HK_RTC_BURST];
	unsigned n = 0;

	while (l->count && n < HK_RTC_BURST && (n == 0 || l->msg[l->head].type == m[0].type)) {
		m[n] = l->msg[l->head];
		m[n++].action = HK_RTC_DONE;
		l->head = (l->head + 1) % l->capacity;
		l->count--;
	}
	r->now = hk_rtc_clock_now(&r->clock);
	call_handler(r, &r->type[m[0].type], m, n, r->now);
	return n;
}

static HK_NOINLINE void due_work(struct hk_rtc *r)
{
	hk_rtc_timers_run(&r->timers, r->now, r);
	uint64_t members = hk_rtc_membership_work(r), requests = hk_rtc_resend_requests(r);
	r->due = HK_MIN(r->timers.due, HK_MIN(members, requests));
}

/* @read_clock: read the clock even if nothing arrived. */
static inline unsigned one_round(struct hk_rtc *r, bool read_clock)
{
	struct hk_rtc_buf *in[HK_RTC_BURST];
	unsigned n = r->ops->rx(r->backend, in, r->burst);

	if (n)
		burst(r, in, n);
	else if (read_clock)
		r->now = hk_rtc_clock_now(&r->clock);
	if (HK_UNLIKELY(r->threads != NULL))
		n += hk_rtc_threads_collect(r);
	if (HK_UNLIKELY(n == 0 && r->deferred.count))
		n += handle_deferred(r);
	if (HK_UNLIKELY(r->now >= r->due))
		due_work(r);
	if (r->tx_n)
		hk_rtc_flush(r);
	r->stats.rounds++;
	r->stats.empty_rounds += n == 0;
	return n;
}

unsigned hk_rtc_poll(struct hk_rtc *r)
{
	r->polled = true;
	return one_round(r, true);
}

/* Reading the clock takes twice as long as an empty poll, so only every eighth empty round reads
 * it. */
void hk_rtc_run(struct hk_rtc *r)
{
	r->polled = true;
	for (unsigned i = 0; !atomic_load_explicit(&r->stop, memory_order_relaxed); i++)
		one_round(r, i % 8 == 0);
}

void hk_rtc_stop(struct hk_rtc *r)
{
	atomic_store_explicit(&r->stop, true, memory_order_relaxed);
}
