/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/bundles.c: small messages that wait share a frame.
 *
 * DESIGN NOTES
 *
 * Problem: a message of 8 bytes costs sender, receiver and network as much as a full frame. But
 * waiting for more messages would delay the first one.
 *
 * Approach: only messages that wait anyway are bundled. A message that must wait in the send queue
 * joins the last one there, if both are small. So a queue of small messages has few buffers, and
 * the engine sends several messages for one packet of window and credit. When nothing waits, each
 * message leaves at once, alone.
 *
 * A handler may call hk_worker_progress(), which could deliver later messages of the peer before
 * the rest of the bundle. So progress first delivers the rest of the bundle that is being
 * delivered.
 *
 * Only short messages are bundled: a longer one gains little, and its copy costs more.
 *
 * Invariants:
 *
 * - The order of messages is that of the send calls, because only the last one is joined.
 * - A bundle is shorter than HK_LONG_FRAME, so it needs no grant.
 * - All messages of a bundle have one route and one tag.
 */
#include "worker/bundles.h"

#include "worker/rx.h"
#include "worker/tx.h"
#include "wire/bundle.h"

#include <string.h>

static bool fits(const struct hk_buf_note *note)
{
	return note->am < HK_WIRE_AM_BUNDLE && note->frags == 1 && note->len <= HK_SHORT_MAX;
}

/* Makes the message in @b the first one of a bundle. */
static void begin(hk_buf *b)
{
	struct hk_buf_note *note = hk_note(b);
	char *data = hk_buf_data(b);
	size_t used = 0;

	memmove(data + HK_WIRE_RECORD_LEN, data, note->len);
	(void)hk_wire_bundle_add(data, &used, note->am, note->len);
	note->am = HK_WIRE_AM_BUNDLE;
	note->len = (uint16_t)used;
}

bool hk_bundle_join(struct hk_worker *w, hk_peer p, hk_buf *b)
{
	const struct hk_buf_note *note = hk_note(b);
	struct hk_item *last = w->peer[p].tx.queue.head ? w->peer[p].tx.queue.tail : NULL;

	if (!last || hk_link_is_put(last) || !fits(note))
		return false;
	hk_buf *to = hk_buf_of(last);
	struct hk_buf_note *bundle = hk_note(to);
	bool begun = bundle->am == HK_WIRE_AM_BUNDLE;
	size_t used = begun ? bundle->len : HK_WIRE_RECORD_LEN + bundle->len;

	if ((!begun && !fits(bundle)) || bundle->bulk != note->bulk ||
	    bundle->function != note->function ||
	    hk_wire_bundle_after(used, note->len) >= HK_MIN(HK_LONG_FRAME, w->frame_payload + 1))
		return false;
	if (!begun)
		begin(to);
	memcpy(hk_wire_bundle_add(hk_buf_data(to), &used, note->am, note->len), hk_buf_data(b),
	       note->len);
	bundle->len = (uint16_t)used;
	hk_buf_release(w, b);
	w->n.bundled++;
	return true;
}

void hk_bundle_continue(struct hk_worker *w)
{
	struct hk_bundle *b = w->bundle;
	struct hk_wire_record r;
	const uint8_t *message;

	while ((message = hk_wire_bundle_next(b->base, b->len, &b->at, &r))) {
		const struct hk_iov iov = {message, r.len};

		hk_am_deliver(w, b->peer, r.am, &iov, 1);
	}
}

void hk_bundle_deliver(struct hk_worker *w, hk_peer p, const struct hk_iov *iov)
{
	struct hk_bundle bundle = {.base = iov->base, .len = iov->len, .peer = p};
	struct hk_bundle *outer = w->bundle;

	w->bundle = &bundle;
	hk_bundle_continue(w);
	w->bundle = outer;
	w->n.bad_bundles += bundle.at < bundle.len;
}
