/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/send.c: messages on their way out.
 *
 * A message of at most `eager` bytes is copied into frames, so its buffer is free at once and the
 * send is complete. Of a longer one only the announcement is sent. The receiver gets the bytes from
 * the sender's memory into its own, and then answers. A send with FI_DELIVERY_COMPLETE waits for
 * such an answer too.
 *
 * A message to the own worker does not touch the network.
 */
#include "libfabric/operation.h"

#include <errno.h>
#include <stdlib.h>

#define LEND_MIN    8192 /* as openmpi/btl/send.c: shorter ones are copied */
#define BACKLOG_MAX (4 * HK_FRAGS_MAX)

/* One message, and where it goes. */
struct message {
	struct hk_fi_op op;
	const struct fi_msg_tagged *m;
	const struct hk_fi_address *to;
	size_t len;
};

static struct hk_fi_prefix prefix_of(const struct message *s, const struct hk_fi_pending *waits)
{
	uint64_t flags = s->op.flags;

	return (struct hk_fi_prefix){
		.header = {.tag = s->m->tag,
			   .id = waits ? waits->id : 0,
			   .to = s->to->number,
			   .from = s->op.ep->number,
			   .flags = (uint8_t)((flags & FI_REMOTE_CQ_DATA ? HK_FI_HAS_DATA : 0) |
					      (waits ? HK_FI_ANSWER : 0))},
		.data = s->m->data,
	};
}

int hk_fi_transmit(struct hk_fi_domain *d, hk_peer peer, uint8_t am, const struct hk_fi_prefix *p,
		   const struct iovec *iov, size_t count, size_t len)
{
	char prefix[HK_FI_PREFIX_MAX];
	size_t prefix_len = hk_fi_prefix_write(p, am, prefix);
	struct hk_worker *w = d->worker;
	struct hk_fi_cursor from = {iov, 0};
	hk_buf *buf[HK_FRAGS_MAX];
	size_t part[HK_FRAGS_MAX], left = len;
	unsigned n = 0;

	if (HK_LIKELY(count == 1 && prefix_len + len <= HK_SHORT_MAX))
		return hk_worker_send_short(w, peer, am, prefix, prefix_len, iov->iov_base, len);
	if (hk_worker_tx_low(w) || hk_worker_backlog(w, peer) >= BACKLOG_MAX)
		return -EAGAIN;
	do {
		size_t head = n == 0 ? prefix_len : 0;
		size_t here = HK_MIN(left, d->payload - head);

		buf[n] = hk_worker_alloc(w);
		if (HK_UNLIKELY(!buf[n])) {
			while (n--)
				hk_worker_free(w, buf[n]);
			return -EAGAIN;
		}
		if (head)
			memcpy(hk_buf_data(buf[n]), prefix, head);
		if (count == 1 && len >= LEND_MIN)
			hk_worker_lend(w, buf[n], head, (const char *)iov->iov_base + (len - left),
				       here);
		else
			hk_fi_iov_get(&from, (char *)hk_buf_data(buf[n]) + head, here);
		part[n++] = head + here;
		left -= here;
	} while (left);
	return hk_worker_sendv(w, peer, am, buf, part, n);
}

static int send_eager(const struct message *s, const struct hk_fi_pending *waits)
{
	uint8_t am = s->op.flags & FI_TAGGED ? HK_FI_AM_TAGGED : HK_FI_AM_MSG;
	const struct hk_fi_prefix p = prefix_of(s, waits);

	return hk_fi_transmit(s->op.ep->domain, s->op.peer, am, &p, s->m->msg_iov, s->m->iov_count,
			      s->len);
}

/* Announces a long message, whose bytes the receiver gets. */
static int send_long(const struct message *s, struct hk_fi_pending *waits)
{
	struct hk_worker *w = s->op.ep->domain->worker;
	uint8_t am = s->op.flags & FI_TAGGED ? HK_FI_AM_TAGGED_LONG : HK_FI_AM_MSG_LONG;
	struct hk_fi_prefix p = prefix_of(s, waits);
	char *base = s->m->msg_iov->iov_base;

	if (s->m->iov_count > 1) {
		base = waits->copy = malloc(s->len);
		if (!base)
			return -ENOMEM;
		hk_fi_iov_get(&(struct hk_fi_cursor){s->m->msg_iov, 0}, base, s->len);
	}
	waits->region = hk_worker_region_add(w, base, s->len, HK_REGION_READ, s->op.peer);
	if (waits->region == HK_REGION_NONE)
		return -EAGAIN;
	p.announced = (struct hk_fi_long){.len = s->len, .region = waits->region};
	return hk_fi_transmit(s->op.ep->domain, s->op.peer, am, &p, HK_FI_PIECE(NULL, 0), 1, 0);
}

static int send_to_self(const struct message *s)
{
	struct hk_fi_domain *d = s->op.ep->domain;
	struct hk_fi_ep *at = hk_fi_ep_at(d, s->to->number);
	struct hk_iov piece[HK_FI_IOV];
	struct hk_fi_arrival a = {
		.item = {.tag = s->m->tag, .source = hk_fi_source(HK_FI_SELF, s->op.ep->number)},
		.peer = HK_PEER_NONE,
		.data = s->m->data,
		.flags = s->op.flags & (FI_TAGGED | FI_MSG | FI_REMOTE_CQ_DATA),
		.len = s->len,
	};

	if (!at)
		return -ENOTCONN;
	for (size_t i = 0; i < s->m->iov_count; i++)
		piece[i] = (struct hk_iov){s->m->msg_iov[i].iov_base, s->m->msg_iov[i].iov_len};
	return hk_fi_arrived(at, &a, piece, (unsigned)s->m->iov_count);
}

/* Sends a message for which the receiver answers. */
static int send_and_wait(const struct message *s, bool is_long)
{
	struct hk_fi_domain *d = s->op.ep->domain;
	struct hk_fi_pending *waits = hk_fi_pending_take(d, &s->op);
	int rc = !waits ? -EAGAIN : is_long ? send_long(s, waits) : send_eager(s, waits);

	if (rc < 0 && waits)
		hk_fi_pending_give(d, waits);
	return rc;
}

ssize_t hk_fi_send(struct fid_ep *fid, const struct fi_msg_tagged *m, uint64_t flags)
{
	struct message s = {
		.op = {.ep = hk_fi_ep_of(fid),
		       .context = m->context,
		       .flags = flags | FI_SEND,
		       .tag = m->tag},
		.m = m,
		.len = hk_fi_iov_total(m->msg_iov, m->iov_count),
	};
	/* what is injected must be copied, however little the user permits */
	bool is_long = s.len > HK_MAX(s.op.ep->domain->eager, (size_t)HK_FI_INJECT);
	bool waits = is_long || (flags & FI_DELIVERY_COMPLETE && !(flags & HK_FI_SILENT));
	int rc;

	rc = hk_fi_begin(&s.op, m->iov_count, s.len, m->addr, &s.to);
	if (HK_UNLIKELY(rc))
		return rc;
	if (HK_UNLIKELY(s.to->peer == HK_FI_SELF)) {
		waits = false;
		rc = send_to_self(&s);
	} else {
		rc = HK_UNLIKELY(waits) ? send_and_wait(&s, is_long) : send_eager(&s, NULL);
	}
	if (HK_LIKELY(rc >= 0 && !waits))
		hk_fi_end(&s.op, 0);
	return hk_fi_finish(s.op.ep, rc);
}
