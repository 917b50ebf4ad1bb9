/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/arrive.c: active messages of peers, checked, and answers to them.
 *
 * An answer may find no frame buffer. Then it waits here, and goes out when the domain makes
 * progress.
 */
#include "libfabric/operation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void on_message(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov,
		       unsigned count)
{
	struct hk_fi_domain *d = arg;
	struct hk_iov piece[HK_FRAGS_MAX];
	bool tagged = am == HK_FI_AM_TAGGED || am == HK_FI_AM_TAGGED_LONG;
	struct hk_fi_prefix p;
	size_t prefix = hk_fi_prefix_read(iov[0].base, iov[0].len, am, &p);

	if (HK_UNLIKELY(prefix == 0)) /* a peer may write anything */
		return;
	uint32_t place = hk_fi_peer_of(d, peer);

	if (HK_UNLIKELY(place == HK_FI_NO_PEER))
		return;
	struct hk_fi_arrival a = {
		.item = {.tag = p.header.tag, .source = hk_fi_source(place, p.header.from)},
		.peer = peer,
		.data = p.data,
		.flags = (tagged ? FI_TAGGED : FI_MSG) |
			 (p.header.flags & HK_FI_HAS_DATA ? FI_REMOTE_CQ_DATA : 0),
		.id = p.header.id,
		.answer = p.header.flags & HK_FI_ANSWER,
		.region = p.announced.region,
		.len = p.announced.len,
	};

	count = hk_fi_am_is_long(am) ? 0 : count;
	memcpy(piece, iov, count * sizeof(*piece));
	piece[0] = (struct hk_iov){(const char *)iov->base + prefix, iov->len - prefix};
	for (unsigned i = 0; i < count; i++)
		a.len += piece[i].len;
	struct hk_fi_ep *ep = hk_fi_ep_at(d, p.header.to);

	if (HK_UNLIKELY(!ep))
		hk_fi_answer(d, &a, FI_ECONNREFUSED);
	else if (HK_UNLIKELY(hk_fi_arrived(ep, &a, piece, count) != 0))
		hk_fi_answer(d, &a, FI_ENOMEM);
}

static void on_done(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	struct hk_fi_prefix p;
	size_t prefix = hk_fi_prefix_read(iov->base, iov->len, am, &p);

	if (count == 1 && prefix)
		hk_fi_pending_done(arg, peer, &p.header, (const char *)iov->base + prefix,
				   iov->len - prefix);
}

static void on_written(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov,
		       unsigned count)
{
	struct hk_fi_domain *d = arg;
	struct hk_fi_prefix p;
	uint32_t place = hk_fi_peer_of(d, peer);

	(void)count;
	if (!hk_fi_prefix_read(iov->base, iov->len, am, &p) || place == HK_FI_NO_PEER)
		return;
	bool reads = p.header.flags & HK_FI_READS;
	const struct hk_fi_key *k = hk_fi_key_own(d, p.header.tag);

	if (p.header.id != HK_REGION_NONE && (!k || k->region != p.header.id))
		return; /* the key is another one by now, so the peer does it again */

	if (p.header.flags & HK_FI_COUNTS)
		hk_fi_count(d, p.header.to, p.header.tag, reads, !reads);
	if (p.header.flags & HK_FI_HAS_DATA)
		hk_fi_written(d, p.header.to, hk_fi_source(place, p.header.from), FI_RMA, p.data);
}

/* ---- messages that must leave ---------------------------------------------------------------- */

struct hk_fi_waiting {
	struct hk_fi_waiting *next;
	hk_peer peer;
	uint8_t am;
	struct hk_fi_prefix prefix;
	size_t len;
	char bytes[];
};

static bool send_now(struct hk_fi_domain *d, hk_peer peer, uint8_t am, const struct hk_fi_prefix *p,
		     const void *more, size_t len)
{
	return hk_fi_transmit(d, peer, am, p, HK_FI_PIECE(more, len), 1, len) != -EAGAIN;
}

void hk_fi_tell(struct hk_fi_domain *d, hk_peer peer, uint8_t am, const struct hk_fi_prefix *p,
		const void *more, size_t len)
{
	struct hk_fi_waiting *w;

	if (!d->waiting && send_now(d, peer, am, p, more, len))
		return;
	w = malloc(sizeof(*w) + len);
	if (!w)
		return; /* what waits for it ends with our domain */
	*w = (struct hk_fi_waiting){.peer = peer, .am = am, .prefix = *p, .len = len};
	if (len)
		memcpy(w->bytes, more, len);
	*d->waiting_last = w;
	d->waiting_last = &w->next;
}

void hk_fi_tell_waiting(struct hk_fi_domain *d)
{
	struct hk_fi_waiting *w;

	while ((w = d->waiting) && send_now(d, w->peer, w->am, &w->prefix, w->bytes, w->len)) {
		d->waiting = w->next;
		if (!d->waiting)
			d->waiting_last = &d->waiting;
		free(w);
	}
}

void hk_fi_tell_close(struct hk_fi_domain *d)
{
	while (d->waiting) {
		struct hk_fi_waiting *w = d->waiting;

		d->waiting = w->next;
		free(w);
	}
}

void hk_fi_answer(struct hk_fi_domain *d, const struct hk_fi_arrival *a, int error)
{
	const struct hk_fi_prefix done = {.header = {.id = a->id, .tag = (uint64_t)error}};

	if (a->answer)
		hk_fi_tell(d, a->peer, HK_FI_AM_DONE, &done, NULL, 0);
}

void hk_fi_handlers(struct hk_fi_domain *d)
{
	d->waiting_last = &d->waiting;
	for (uint8_t am = HK_FI_AM_TAGGED; am <= HK_FI_AM_MSG_LONG; am++)
		hk_worker_set_am(d->worker, am, on_message, d);
	hk_worker_set_am(d->worker, HK_FI_AM_DONE, on_done, d);
	hk_worker_set_am(d->worker, HK_FI_AM_WRITTEN, on_written, d);
	hk_worker_set_am(d->worker, HK_FI_AM_ATOMIC, hk_fi_on_atomic, d);
}
