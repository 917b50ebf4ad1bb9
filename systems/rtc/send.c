/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/send.c: sending, spare buffers, and resending of requests.
 */
#include "rtc/internal.h"

#include <errno.h>
#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

struct hk_rtc_buf *hk_rtc_buf_take(struct hk_rtc *r)
{
	if (HK_UNLIKELY(r->spare_n == 0)) {
		r->spare_n = r->ops->alloc(r->backend, r->spare, HK_RTC_BURST);
		if (r->spare_n == 0)
			return NULL;
	}
	return r->spare[--r->spare_n];
}

void hk_rtc_buf_release(struct hk_rtc *r, uint32_t buf)
{
	/* a driver may still read it, so it cannot become a spare buffer, to be used again at once
	 */
	r->ops->free(r->backend, &r->backend->buf[buf], 1);
}

void hk_rtc_flush(struct hk_rtc *r)
{
	unsigned n = r->tx_n;

	r->tx_n = 0;
	if (n == 0)
		return;
	if (HK_UNLIKELY(r->protect != NULL))
		r->protect->apply(r->protect, r->tx, n);
	r->ops->tx(r->backend, r->tx, n);
}

/* Without a free buffer the message is as if it were lost; the backend counts that (no_buffer). */
static HK_NOINLINE void send_protected_copy(struct hk_rtc *r, struct hk_rtc_buf *b)
{
	struct hk_rtc_protect *p = r->protect;

	if (!p->apply_copy) {
		p->apply(p, &b, 1);
		r->ops->tx_copy(r->backend, &b, 1);
		return;
	}
	struct hk_rtc_buf *copy = hk_rtc_buf_take(r);
	if (!copy)
		return;
	p->apply_copy(p, b, copy);
	r->ops->tx(r->backend, &copy, 1);
}

void hk_rtc_buf_send_copy(struct hk_rtc *r, struct hk_rtc_buf *b)
{
	r->stats.tx_messages++;
	r->stats.tx_bytes += b->len - HK_MSG_HLEN - r->backend->trailer;
	if (HK_UNLIKELY(r->protect != NULL))
		send_protected_copy(r, b);
	else
		r->ops->tx_copy(r->backend, &b, 1);
}

/* ---- messages -------------------------------------------------------------------------------- */

size_t hk_rtc_payload_max(const struct hk_rtc *r)
{
	return r->backend->payload_max;
}

void *hk_rtc_begin(struct hk_rtc *r)
{
	if (!r->begun)
		r->begun = hk_rtc_buf_take(r);
	return HK_LIKELY(r->begun != NULL) ? r->begun->hdr + HK_MSG_HLEN : NULL;
}

static int why_not(const struct hk_rtc *r, uint16_t dst, uint8_t type, size_t len)
{
	if (type >= HK_RTC_MAX_TYPES || !r->type[type].registered || dst == r->self)
		return -EINVAL;
	return len > r->backend->payload_max ? -EMSGSIZE : -ENOTCONN;
}

static inline bool may_send(const struct hk_rtc *r, uint16_t dst, uint8_t type, size_t len)
{
	return HK_LIKELY(type < HK_RTC_MAX_TYPES && r->type[type].registered && dst != r->self &&
			 len <= r->backend->payload_max &&
			 hk_rtc_members_contains(&r->members, dst));
}

int hk_rtc_end(struct hk_rtc *r, uint16_t dst, uint8_t type, size_t len, uint32_t *number)
{
	struct hk_rtc_buf *b = r->begun;

	if (!may_send(r, dst, type, len))
		return why_not(r, dst, type, len);
	if (HK_UNLIKELY(!b))
		return -EAGAIN;
	struct hk_rtc_type_state *t = &r->type[type];
	uint32_t n = t->next[dst];
	bool asks = t->class == HK_RTC_RETRY;
	if (asks && !hk_rtc_requests_available(&r->requests, dst, type, n))
		return -EAGAIN;
	r->begun = NULL;
	t->next[dst] = hk_rtc_number_after(n);
	t->stats.sent++;
	if (number)
		*number = n;
	hk_rtc_buf_set_header(r, b, asks ? HK_MSG_F_WANTS_REPLY : 0, type, dst, n, len);
	if (HK_LIKELY(!asks)) {
		hk_rtc_buf_queue(r, b);
		if (r->tx_n >= HK_RTC_BURST)
			hk_rtc_flush(r);
		return 0;
	}
	hk_rtc_requests_add(&r->requests, dst, type, n, b->index, hk_rtc_clock_now(&r->clock),
			    t->timeout, t->tries);
	r->due = HK_MIN(r->due, r->requests.due);
	hk_rtc_buf_send_copy(r, b);
	return 0;
}

int hk_rtc_send(struct hk_rtc *r, uint16_t dst, uint8_t type, const void *data, size_t len,
		uint32_t *number)
{
	if (!may_send(r, dst, type, len))
		return why_not(r, dst, type, len);
	void *at = hk_rtc_begin(r);
	if (HK_UNLIKELY(!at))
		return -EAGAIN;
	if (len)
		memcpy(at, data, len);
	return hk_rtc_end(r, dst, type, len, number);
}

void hk_rtc_send_control(struct hk_rtc *r, uint16_t dst, uint8_t type, uint8_t flags)
{
	struct hk_rtc_buf *b = hk_rtc_buf_take(r);
	if (!b)
		return;
	hk_rtc_buf_set_header(r, b, flags, type, dst, 0, 0);
	hk_rtc_buf_queue(r, b);
}

void hk_rtc_send_greeting(struct hk_rtc *r, uint16_t node)
{
	struct hk_rtc_buf *b = r->protect && r->protect->greet ? hk_rtc_buf_take(r) : NULL;

	if (!b)
		return;
	hk_rtc_buf_set_header(r, b, 0, HK_MSG_T_GREET, node, 0, HK_RTC_NONCE_LEN);
	if (!r->protect->greet(r->protect, node, b->hdr)) {
		hk_rtc_buf_give(r, b);
		return;
	}
	r->stats.tx_messages++;
	r->stats.tx_bytes += HK_RTC_NONCE_LEN;
	r->ops->tx(r->backend, &b, 1);
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Resends only a few in a round, so that reception goes on with any number of them. */
uint64_t hk_rtc_resend_requests(struct hk_rtc *r)
{
	struct hk_rtc_request q;

	for (unsigned i = 0; i < HK_RTC_BURST; i++) {
		enum hk_rtc_requests_task task = hk_rtc_requests_poll(&r->requests, r->now, &q);
		if (task == HK_RTC_REQUESTS_NOTHING)
			break;
		struct hk_rtc_type_state *t = &r->type[q.type];
		struct hk_rtc_buf *b = r->backend->buf[q.buf];
		if (task == HK_RTC_REQUESTS_RESEND) {
			t->stats.retries++;
			b->hdr[offsetof(struct hk_msg_hdr, ver_flags)] |= HK_MSG_F_RESENT;
			hk_rtc_buf_send_copy(r, b);
			continue;
		}
		t->stats.given_up++;
		hk_rtc_buf_release(r, q.buf);
		if (t->on_given_up)
			t->on_given_up(r, t->arg, q.dst, q.number);
	}
	return r->requests.due;
}
