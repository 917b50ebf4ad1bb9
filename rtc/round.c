/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/round.c: one round of a node: receive a burst, hand it to its handlers, send what they answered.
 *
 * A burst is checked message by message, then taken apart into runs of one type (only the 24-byte descriptions
 * are sorted; payloads stay where the backend received them), and each run is one call of a handler. The
 * usual burst is one run. The clock is read once when the burst has been sorted, and after each run.
 */
#include "rtc/internal.h"

/* What decides who handles a message. */
#define KIND(type, reply) ((uint16_t)((type) << 1 | (reply)))

/* ---- answers --------------------------------------------------------------------------------- */

/* Sends @b back whence it came, with the payload that lies in it. */
static inline void answer(struct hk_rtc *r, struct hk_rtc_type_state *t, const struct hk_msg *m,
			  struct hk_rtc_buf *b, uint16_t len)
{
	t->stats.replied++;
	hk_rtc_head(r, b, HK_MSG_F_REPLY, m->type, m->src, m->number, HK_MIN(len, m->room));
	if (HK_LIKELY(t->class != HK_RTC_RETRY)) {
		hk_rtc_queue(r, b);
		return;
	}
	uint32_t old = hk_answers_keep(&r->answers, m->src, m->type, m->number, b->index);
	if (old != HK_NO_BUF)
		hk_rtc_release(r, old);
	hk_rtc_send_kept(r, b);
}

static void put_off(struct hk_rtc *r, struct hk_rtc_type_state *t, const struct hk_msg *m)
{
	struct hk_later *l = &r->later;

	if (r->workers ? hk_workers_put(r->workers, m, 1) == 0 : l->count == l->places) {
		t->stats.defer_full++;
		if (t->class == HK_RTC_RETRY)
			hk_once_unmark(&t->once, m->src, m->number);
		hk_rtc_give(r, r->be->buf[m->buf]);
		return;
	}
	t->stats.deferred++;
	if (!r->workers)
		l->msg[(l->head + l->count++) % l->places] = *m;
}

void hk_rtc_verdicts(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct hk_rtc_buf *b = r->be->buf[m[i].buf];
		switch (m[i].verdict) {
		case HK_RTC_REPLY:
			answer(r, t, &m[i], b, m[i].len);
			break;
		case HK_RTC_DEFER:
			put_off(r, t, &m[i]);
			break;
		default:
			/* a question is answered in any case: with nothing */
			if (HK_UNLIKELY(t->class == HK_RTC_RETRY))
				answer(r, t, &m[i], b, 0);
			else
				hk_rtc_give(r, b);
		}
	}
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Has the handler handle them, and measures. @since: when this began; returns when it ended. */
static inline uint64_t handle(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m,
			      unsigned n, uint64_t since)
{
	t->stats.messages += n;
	t->on_message(r, t->arg, m, n);
	uint64_t now = hk_clock_now(&r->clock);
	t->stats.handler_ns += now - since;
	if (HK_UNLIKELY(hk_budget_sample(&t->budget, now - since, n)))
		t->stats.bursts_over_budget++;
	hk_rtc_verdicts(r, t, m, n);
	return now;
}

/* What has been asked before is not handled again: its answer is repeated, if it is kept. Returns how many
 * are left. */
static unsigned handled_once(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m,
			     unsigned n)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++) {
		if (hk_once_is_new(&t->once, m[i].src, m[i].number)) {
			hk_once_mark(&t->once, m[i].src, m[i].number);
			m[left++] = m[i];
			continue;
		}
		t->stats.repeated++;
		uint32_t kept = hk_answers_find(&r->answers, m[i].src, m[i].type, m[i].number);
		if (kept != HK_NO_BUF) {
			r->be->buf[kept]->hdr[offsetof(struct hk_msg_hdr, ver_flags)] |=
				HK_MSG_F_AGAIN;
			hk_rtc_send_kept(r, r->be->buf[kept]);
		}
		hk_rtc_give(r, r->be->buf[m[i].buf]);
	}
	return left;
}

static unsigned latest_only(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_latest *l,
			    struct hk_msg *m, unsigned n)
{
	unsigned left = 0;

	for (unsigned i = 0; i < n; i++) {
		if (hk_latest_fresh(l, m[i].src, m[i].number)) {
			m[left++] = m[i];
			continue;
		}
		t->stats.stale++;
		hk_rtc_give(r, r->be->buf[m[i].buf]);
	}
	return left;
}

/* To the worker cores, since it costs too much here. Of questions, room is looked for first: one that finds none
 * has not been handled, and is asked again. */
static void defer(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m, unsigned n)
{
	unsigned put = hk_workers_put(r->workers, m, n);

	t->stats.deferred += put;
	t->stats.defer_full += n - put;
	for (unsigned i = put; i < n; i++)
		hk_rtc_give(r, r->be->buf[m[i].buf]);
}

static void drop_run(struct hk_rtc *r, const struct hk_msg *m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		hk_rtc_give(r, r->be->buf[m[i].buf]);
}

static uint64_t run_of_messages(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m,
				unsigned n, uint64_t since)
{
	if (HK_UNLIKELY(!t->on_message)) {
		r->stats.unknown_type += n;
		drop_run(r, m, n);
		return since;
	}
	bool defers = r->workers && t->budget.over;
	if (t->class == HK_RTC_LATEST)
		n = latest_only(r, t, &t->latest, m, n);
	else if (t->class == HK_RTC_RETRY) {
		unsigned room = defers ? hk_workers_room(r->workers) : n;
		if (HK_UNLIKELY(room < n)) {
			t->stats.defer_full += n - room;
			drop_run(r, m + room, n - room);
			n = room;
		}
		n = handled_once(r, t, m, n);
	}
	if (HK_UNLIKELY(n == 0))
		return since;
	if (HK_UNLIKELY(defers)) {
		defer(r, t, m, n);
		return since;
	}
	return handle(r, t, m, n, since);
}

static uint64_t run_of_answers(struct hk_rtc *r, struct hk_rtc_type_state *t, struct hk_msg *m,
			       unsigned n, uint64_t since)
{
	if (t->class == HK_RTC_RETRY) {
		unsigned left = 0;
		for (unsigned i = 0; i < n; i++) {
			uint32_t asked = hk_asker_answered(&r->asker, m[i].src, m[i].type,
							   m[i].number);
			if (asked == HK_NO_BUF) {
				t->stats.repeated++;
				hk_rtc_give(r, r->be->buf[m[i].buf]);
			} else {
				hk_rtc_release(r, asked);
				m[left++] = m[i];
			}
		}
		n = left;
	} else if (t->class == HK_RTC_LATEST) {
		n = latest_only(r, t, &t->latest_answer, m, n);
	}
	if (n == 0)
		return since;
	t->stats.answers += n;
	if (t->on_answer) {
		t->on_answer(r, t->arg, m, n);
		uint64_t now = hk_clock_now(&r->clock);
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
	return kind & 1 ? run_of_answers(r, t, m, n, since) : run_of_messages(r, t, m, n, since);
}

/* ---- a burst --------------------------------------------------------------------------------- */

/* What of a burst is for the handlers. */
struct sorted {
	struct hk_msg all[HK_RTC_BURST], of[HK_RTC_BURST];
	uint16_t kind[HK_RTC_BURST];
	unsigned n;
	uint16_t mixed; /* bits in which their kinds differ */
};

static inline void run_sorted(struct hk_rtc *r, struct sorted *s)
{
	uint64_t since = r->now = hk_clock_now(&r->clock);

	for (unsigned i = 0; i < s->n; i++)
		r->members.heard[s->all[i].src] = since;
	r->stats.rx_messages += s->n;
	if (HK_LIKELY(!s->mixed)) {
		if (s->n)
			run(r, s->kind[0], s->all, s->n, since);
		s->n = 0;
		return;
	}
	/* one run after the other: those of the first's kind, and the rest moves up */
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

/* Why is this one not for the handlers? True: it is after all. What it says of its sender must not
 * touch what came before it, so that is handled first. */
static HK_NOINLINE bool refuse(struct hk_rtc *r, enum hk_msg_status status,
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
	else {
		run_sorted(r, s);
		return hk_rtc_news(r, h);
	}
	return false;
}

static void burst(struct hk_rtc *r, struct hk_rtc_buf **in, unsigned n)
{
	struct sorted s;
	const uint16_t *epoch = r->members.epoch;
	uint16_t room = (uint16_t)r->be->payload_max;

	s.n = s.mixed = 0;
	for (unsigned i = 0; i < n; i++)
		__builtin_prefetch(in[i]->hdr);
	for (unsigned i = 0; i < n; i++) {
		struct hk_rtc_buf *b = in[i];
		struct hk_msg_hdr h;
		enum hk_msg_status status = hk_msg_parse(b->hdr, b->len, &h);
		bool usual = (status == HK_MSG_OK) &&
			     (h.key == r->key) & (h.dst == r->self) & (h.src < r->nodes) &
				     (h.type < HK_RTC_MAX_TYPES) &&
			     epoch[h.src] == h.epoch;
		if (HK_UNLIKELY(!usual) && !refuse(r, status, &h, &s)) {
			hk_rtc_give(r, b);
			continue;
		}
		r->stats.rx_bytes += h.len;
		s.all[s.n] = (struct hk_msg){.data = b->hdr + HK_MSG_HLEN,
					     .len = h.len,
					     .room = room,
					     .src = h.src,
					     .type = h.type,
					     .verdict = HK_RTC_DROP,
					     .number = h.number,
					     .buf = b->index};
		s.kind[s.n] = KIND(h.type, (h.ver_flags & HK_MSG_F_REPLY) != 0);
		s.mixed |= s.kind[s.n] ^ s.kind[0];
		s.n++;
	}
	run_sorted(r, &s);
}

/* ---- the rest of a round --------------------------------------------------------------------- */

/* What was put off, when nothing comes: some messages of one type. */
static unsigned later(struct hk_rtc *r)
{
	struct hk_later *l = &r->later;
	struct hk_msg m[HK_RTC_BURST];
	unsigned n = 0;

	while (l->count && n < HK_RTC_BURST && (n == 0 || l->msg[l->head].type == m[0].type)) {
		m[n] = l->msg[l->head];
		m[n++].verdict = HK_RTC_DROP;
		l->head = (l->head + 1) % l->places;
		l->count--;
	}
	r->now = hk_clock_now(&r->clock);
	handle(r, &r->type[m[0].type], m, n, r->now);
	return n;
}

static HK_NOINLINE void due_work(struct hk_rtc *r)
{
	hk_timers_run(&r->timers, r->now, r);
	uint64_t members = hk_rtc_members_work(r), questions = hk_rtc_ask_again(r);
	r->due = HK_MIN(r->timers.due, HK_MIN(members, questions));
}

/* @look: at the clock even if nothing has come. */
static inline unsigned one_round(struct hk_rtc *r, bool look)
{
	struct hk_rtc_buf *in[HK_RTC_BURST];
	unsigned n = r->ops->rx(r->be, in, r->burst);

	if (n)
		burst(r, in, n);
	else if (look)
		r->now = hk_clock_now(&r->clock);
	if (HK_UNLIKELY(r->workers != NULL))
		n += hk_workers_collect(r);
	if (HK_UNLIKELY(n == 0 && r->later.count))
		n += later(r);
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

/* Reading the clock takes twice as long as finding that nothing has come: so not in each empty round. */
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
