/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/send.c: sending; the buffers that a node has at hand; questions that are asked again.
 */
#include "rtc/internal.h"

#include <errno.h>
#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

struct hk_rtc_buf *hk_rtc_take(struct hk_rtc *r)
{
	if (HK_UNLIKELY(r->spare_n == 0)) {
		r->spare_n = r->ops->alloc(r->be, r->spare, HK_RTC_BURST);
		if (r->spare_n == 0)
			return NULL;
	}
	return r->spare[--r->spare_n];
}

void hk_rtc_release(struct hk_rtc *r, uint32_t buf)
{
	/* a driver may still read it: so not among those that are used again at once */
	r->ops->free(r->be, &r->be->buf[buf], 1);
}

void hk_rtc_flush(struct hk_rtc *r)
{
	unsigned n = r->tx_n;

	r->tx_n = 0;
	if (n)
		r->ops->tx(r->be, r->tx, n);
}

void hk_rtc_send_kept(struct hk_rtc *r, struct hk_rtc_buf *b)
{
	r->stats.tx_messages++;
	r->stats.tx_bytes += b->len - HK_MSG_HLEN;
	r->ops->tx_copy(r->be, &b, 1);
}

/* ---- messages -------------------------------------------------------------------------------- */

size_t hk_rtc_payload_max(const struct hk_rtc *r)
{
	return r->be->payload_max;
}

void *hk_rtc_begin(struct hk_rtc *r)
{
	if (!r->begun)
		r->begun = hk_rtc_take(r);
	return HK_LIKELY(r->begun != NULL) ? r->begun->hdr + HK_MSG_HLEN : NULL;
}

static int why_not(const struct hk_rtc *r, uint16_t dst, uint8_t type, size_t len)
{
	if (type >= HK_RTC_MAX_TYPES || !r->type[type].registered || dst == r->self)
		return -EINVAL;
	return len > r->be->payload_max ? -EMSGSIZE : -ENOTCONN;
}

static inline bool may_send(const struct hk_rtc *r, uint16_t dst, uint8_t type, size_t len)
{
	return HK_LIKELY(type < HK_RTC_MAX_TYPES && r->type[type].registered && dst != r->self &&
			 len <= r->be->payload_max && hk_members_is(&r->members, dst));
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
	if (asks && !hk_asker_room(&r->asker, dst, type, n))
		return -EAGAIN;
	r->begun = NULL;
	t->next[dst] = hk_number_after(n);
	t->stats.sent++;
	if (number)
		*number = n;
	hk_rtc_head(r, b, asks ? HK_MSG_F_ASKS : 0, type, dst, n, len);
	if (HK_LIKELY(!asks)) {
		hk_rtc_queue(r, b);
		if (r->tx_n >= HK_RTC_BURST)
			hk_rtc_flush(r);
		return 0;
	}
	hk_asker_ask(&r->asker, dst, type, n, b->index, hk_clock_now(&r->clock), t->timeout,
		     t->tries);
	r->due = HK_MIN(r->due, r->asker.due);
	hk_rtc_send_kept(r, b);
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

void hk_rtc_send_own(struct hk_rtc *r, uint16_t dst, uint8_t type, uint8_t flags)
{
	struct hk_rtc_buf *b = hk_rtc_take(r);
	if (!b)
		return;
	hk_rtc_head(r, b, flags, type, dst, 0, 0);
	hk_rtc_queue(r, b);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* Few in one round, so that receiving goes on however many are due. */
uint64_t hk_rtc_ask_again(struct hk_rtc *r)
{
	struct hk_question q;

	for (unsigned i = 0; i < HK_RTC_BURST; i++) {
		enum hk_asker_task task = hk_asker_poll(&r->asker, r->now, &q);
		if (task == HK_ASKER_NOTHING)
			break;
		struct hk_rtc_type_state *t = &r->type[q.type];
		struct hk_rtc_buf *b = r->be->buf[q.buf];
		if (task == HK_ASKER_AGAIN) {
			t->stats.retries++;
			b->hdr[offsetof(struct hk_msg_hdr, ver_flags)] |= HK_MSG_F_AGAIN;
			hk_rtc_send_kept(r, b);
			continue;
		}
		t->stats.given_up++;
		hk_rtc_release(r, q.buf);
		if (t->on_given_up)
			t->on_given_up(r, t->arg, q.dst, q.number);
	}
	return r->asker.due;
}
