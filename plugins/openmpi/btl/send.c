/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/send.c: descriptors, and the ways ob1 sends.
 *
 *   sendi        small and eager messages in one call: header and data are packed into the
 *                transmit buffers directly. The latency path.
 *   alloc, send  ob1 fills a descriptor itself (control messages, and eager ones after sendi
 *                was refused).
 *   prepare_src, send   the fragments of a rendezvous: we pack, ob1 adds its header.
 *
 * sendi lends what lies in one piece of the user's memory (hk_worker_lend()): the port reads it
 * there. A descriptor that we pack is a series of frame buffers, with a segment for each: nothing
 * is copied at send. A descriptor that ob1 fills itself must be in one piece. It is a frame buffer
 * if the data fits. Otherwise (an eager message of several frames) it is ordinary memory, cut up at
 * send.
 *
 * Completion. The worker takes the bytes over at once, so a send is complete when it returns
 * (return value 1). There are two exceptions, in which the descriptor stays with a pending
 * completion:
 *  - The peer's window was full. ob1 then pauses after a few fragments. Otherwise it would copy a
 *    whole message into buffers that leave the cache before they can be sent.
 *  - Buffers are few. ob1 retries a failed send only when a callback of an earlier send runs. So
 *    whenever alloc fails, completions are pending that make it try again.
 */
#include "openmpi/btl/btl_hikyaku.h"

#include "opal/datatype/opal_convertor.h"

#include <errno.h>

/* ob1's headers of a long message (pml_ob1_hdr.h): its announcement, the receiver's answer,
 * fragments, and the end. All of them are bulk: none must wait until hikyakud passes it on. A rank
 * that computes cannot use an announcement before it is back in MPI, so a delay there is harmless.
 */
#define OB1_RNDV (MCA_BTL_TAG_PML + 2)
#define OB1_RGET (MCA_BTL_TAG_PML + 3)
#define OB1_ACK  (MCA_BTL_TAG_PML + 4)
#define OB1_FRAG (MCA_BTL_TAG_PML + 6)
#define OB1_FIN  (MCA_BTL_TAG_PML + 9)

/* Bytes of a message that is lent. Shorter ones are copied first, since two parts of a frame cost a
 * stream of messages more than a copy. */
#define LEND_MIN 8192

typedef struct hk_frag {
	mca_btl_base_descriptor_t base;
	mca_btl_base_segment_t seg[HK_WIRE_MAX_FRAGS];
	hk_buf *buf[HK_WIRE_MAX_FRAGS];
	unsigned count; /* of buffers held; 0: sent, or … */
	char *bytes;    /* … in one piece: follows this struct; else NULL */
} hk_frag;

static void frag_construct(hk_frag *frag)
{
	frag->base.des_segments = frag->seg;
	frag->base.order = MCA_BTL_NO_ORDER;
	frag->count = 0;
	frag->bytes = NULL;
}

OBJ_CLASS_DECLARATION(hk_frag);
OBJ_CLASS_INSTANCE(hk_frag, mca_btl_base_descriptor_t, frag_construct, NULL);

void hk_btl_send_init(void)
{
	size_t eager = hk_btl.super.btl_eager_limit;

	OBJ_CONSTRUCT(&hk_btl.frags, opal_free_list_t);
	OBJ_CONSTRUCT(&hk_btl.long_frags, opal_free_list_t);
	opal_free_list_init(&hk_btl.frags, sizeof(hk_frag), 64, OBJ_CLASS(hk_frag), 0, 64, 64, -1,
			    64, NULL, 0, NULL, NULL, NULL);
	opal_free_list_init(&hk_btl.long_frags, sizeof(hk_frag) + eager, 64, OBJ_CLASS(hk_frag), 0,
			    64, 0, 256, 16, NULL, 0, NULL, NULL, NULL);
}

void hk_btl_send_fini(void)
{
	OBJ_DESTRUCT(&hk_btl.frags);
	OBJ_DESTRUCT(&hk_btl.long_frags);
}

/* ---- descriptors --------------------------------------------------------------------------- */

static void frag_put(hk_frag *frag)
{
	while (frag->count)
		hk_worker_free(hk_btl.worker, frag->buf[--frag->count]);
	opal_free_list_return(frag->bytes ? &hk_btl.long_frags : &hk_btl.frags,
			      (opal_free_list_item_t *)frag);
}

/* A descriptor of transmit buffers for @size bytes, or for as many as there are buffers. */
static hk_frag *frag_of_buffers(size_t size)
{
	hk_frag *frag = (hk_frag *)opal_free_list_get(&hk_btl.frags);

	if (HK_UNLIKELY(!frag))
		return NULL;
	frag->count = 0;
	do {
		hk_buf *buf = hk_worker_alloc(hk_btl.worker);
		size_t part = HK_MIN(size, hk_btl.payload);

		if (HK_UNLIKELY(!buf))
			break;
		frag->buf[frag->count] = buf;
		frag->seg[frag->count].seg_addr.pval = hk_buf_data(buf);
		frag->seg[frag->count++].seg_len = part;
		size -= part;
	} while (size && frag->count < HK_WIRE_MAX_FRAGS);
	if (HK_UNLIKELY(frag->count == 0)) {
		frag_put(frag);
		return NULL;
	}
	frag->base.des_segment_count = frag->count;
	return frag;
}

/* A descriptor in one piece that is longer than a frame. Its pieces need buffers at send, which
 * cannot fail: so not when they are few. */
static hk_frag *frag_of_bytes(size_t size)
{
	hk_frag *frag;

	if (size > hk_btl.super.btl_eager_limit || hk_worker_tx_low(hk_btl.worker))
		return NULL;
	frag = (hk_frag *)opal_free_list_get(&hk_btl.long_frags);
	if (HK_UNLIKELY(!frag))
		return NULL;
	frag->bytes = (char *)(frag + 1);
	frag->seg[0].seg_addr.pval = frag->bytes;
	frag->seg[0].seg_len = size;
	frag->base.des_segment_count = 1;
	return frag;
}

mca_btl_base_descriptor_t *hk_btl_alloc(struct mca_btl_base_module_t *btl, hk_endpoint *ep,
					uint8_t order, size_t size, uint32_t flags)
{
	(void)btl;
	(void)ep;
	(void)order;
	hk_btl_lock();
	hk_frag *frag = HK_LIKELY(size <= hk_btl.payload) ? frag_of_buffers(size)
							  : frag_of_bytes(size);

	hk_btl_unlock();
	if (HK_UNLIKELY(!frag))
		return NULL;
	frag->base.des_flags = flags;
	frag->base.des_cbfunc = NULL;
	return &frag->base;
}

int hk_btl_free(struct mca_btl_base_module_t *btl, mca_btl_base_descriptor_t *des)
{
	(void)btl;
	hk_btl_lock();
	frag_put((hk_frag *)des);
	hk_btl_unlock();
	return OPAL_SUCCESS;
}

/* Packs up to @size bytes from the convertor to @dst; returns how many, or -1. */
static ssize_t pack(struct opal_convertor_t *convertor, void *dst, size_t size)
{
	struct iovec iov = {.iov_base = dst, .iov_len = size};
	uint32_t count = 1;

	if (size == 0)
		return 0;
	if (opal_convertor_pack(convertor, &iov, &count, &size) < 0)
		return -1;
	return (ssize_t)size;
}

mca_btl_base_descriptor_t *hk_btl_prepare_src(struct mca_btl_base_module_t *btl, hk_endpoint *ep,
					      struct opal_convertor_t *convertor, uint8_t order,
					      size_t reserve, size_t *size, uint32_t flags)
{
	size_t packed = 0, skip = reserve;
	hk_frag *frag;

	(void)ep;
	(void)order;
	hk_btl_lock();
	frag = frag_of_buffers(HK_MIN(*size + reserve, btl->btl_max_send_size));
	hk_btl_unlock();
	if (HK_UNLIKELY(!frag))
		return NULL;
	for (unsigned i = 0; i < frag->count; i++) {
		mca_btl_base_segment_t *seg = &frag->seg[i];
		ssize_t n = pack(convertor, (char *)seg->seg_addr.pval + skip, seg->seg_len - skip);

		if (HK_UNLIKELY(n < 0)) {
			hk_btl_free(btl, &frag->base);
			return NULL;
		}
		seg->seg_len = skip + (size_t)n;
		packed += (size_t)n;
		skip = 0;
	}
	frag->base.des_flags = flags;
	frag->base.des_cbfunc = NULL;
	*size = packed;
	return &frag->base;
}

/* ---- sending ------------------------------------------------------------------------------- */

static bool is_bulk(mca_btl_base_tag_t tag)
{
	return tag == OB1_RGET || tag == OB1_FIN || tag == OB1_FRAG || tag == OB1_ACK ||
	       tag == OB1_RNDV;
}

static int sendv(const hk_endpoint *ep, mca_btl_base_tag_t tag, hk_buf *const *bufs,
		 const size_t *len, unsigned count)
{
	return (is_bulk(tag) ? hk_worker_sendv_bulk : hk_worker_sendv)(hk_btl.worker, ep->peer, tag,
								       bufs, len, count);
}

/* Cuts a long descriptor into frames. The buffers are there: see frag_of_bytes(). */
static int send_long(hk_endpoint *ep, const hk_frag *frag, mca_btl_base_tag_t tag)
{
	hk_buf *bufs[HK_WIRE_MAX_FRAGS];
	size_t len[HK_WIRE_MAX_FRAGS], left = frag->seg[0].seg_len;
	const char *from = frag->bytes;
	unsigned n = 0;

	while (left) {
		size_t part = HK_MIN(left, hk_btl.payload);

		bufs[n] = hk_worker_alloc(hk_btl.worker);
		if (HK_UNLIKELY(!bufs[n])) {
			while (n--)
				hk_worker_free(hk_btl.worker, bufs[n]);
			return -ENOBUFS;
		}
		memcpy(hk_buf_data(bufs[n]), from, part);
		len[n++] = part;
		from += part;
		left -= part;
	}
	return sendv(ep, tag, bufs, len, n);
}

static void complete(hk_frag *frag, hk_endpoint *ep, int status)
{
	bool own = frag->base.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;

	/* Open MPI 5.0's osc/rdma sends descriptors without a callback */
	if (frag->base.des_flags & MCA_BTL_DES_SEND_ALWAYS_CALLBACK && frag->base.des_cbfunc)
		frag->base.des_cbfunc(&hk_btl.super, ep, &frag->base, status);
	if (own)
		frag_put(frag);
}

/* Keeps @frag until hk_btl_finish_pending() runs its callback. */
static void add_pending(hk_frag *frag, hk_endpoint *ep)
{
	frag->base.des_flags |= MCA_BTL_DES_SEND_ALWAYS_CALLBACK;
	opal_list_append(&ep->pending, (opal_list_item_t *)frag);
	if (ep->has_pending)
		return;
	ep->has_pending = true;
	ep->next_pending = hk_btl.pending;
	hk_btl.pending = ep;
}

int hk_btl_send(struct mca_btl_base_module_t *btl, hk_endpoint *ep, mca_btl_base_descriptor_t *des,
		mca_btl_base_tag_t tag)
{
	hk_frag *frag = (hk_frag *)des;
	int rc;

	(void)btl;
	hk_btl_lock();
	if (HK_UNLIKELY(hk_btl.tag))
		hk_btl_tag_note(ep, tag, frag->seg[0].seg_addr.pval);
	if (HK_LIKELY(frag->count)) {
		size_t len[HK_WIRE_MAX_FRAGS];

		for (unsigned i = 0; i < frag->count; i++)
			len[i] = frag->seg[i].seg_len;
		rc = sendv(ep, tag, frag->buf, len, frag->count);
		frag->count = 0; /* the worker owns the buffers now */
	} else {
		rc = send_long(ep, frag, tag);
	}
	if (HK_UNLIKELY(rc < 0)) {
		rc = hk_btl_refused(rc);
	} else if (HK_UNLIKELY(rc == 1 || hk_worker_tx_low(hk_btl.worker))) {
		add_pending(frag, ep);
		rc = OPAL_SUCCESS;
	} else {
		complete(frag, ep, OPAL_SUCCESS);
		rc = 1;
	}
	hk_btl_unlock();
	return rc;
}

/* Runs the pending callbacks that are due (with @all: all); ob1 then sends waiting data. */
void hk_btl_finish_pending(bool all)
{
	hk_endpoint *ep = hk_btl.pending, *next;

	if (!all && hk_worker_tx_available(hk_btl.worker) < HK_WIRE_MAX_FRAGS)
		return;
	/* callbacks send and may add to the list, so it is emptied first */
	hk_btl.pending = NULL;
	for (; ep; ep = next) {
		next = ep->next_pending;
		size_t n = opal_list_get_size(&ep->pending);

		if (!all && hk_worker_backlog(hk_btl.worker, ep->peer)) {
			ep->next_pending = hk_btl.pending;
			hk_btl.pending = ep;
			continue;
		}
		ep->has_pending = false;
		while (n--)
			complete((hk_frag *)opal_list_remove_first(&ep->pending), ep, OPAL_SUCCESS);
	}
}

/* Before @ep is removed: takes it off the list, and frees its pending descriptors. */
void hk_btl_drop_pending(hk_endpoint *ep)
{
	hk_endpoint **link = &hk_btl.pending;

	while (*link && *link != ep)
		link = &(*link)->next_pending;
	if (*link)
		*link = ep->next_pending;
	ep->has_pending = false;
	for (hk_frag *frag; (frag = (hk_frag *)opal_list_remove_first(&ep->pending));)
		frag_put(frag);
}

/* Sends a message whose data needs no packing. */
static bool sendi_short(hk_endpoint *ep, struct opal_convertor_t *convertor, void *header,
			size_t header_size, size_t payload_size, mca_btl_base_tag_t tag)
{
	void *data = NULL;

	if (payload_size)
		opal_convertor_get_current_pointer(convertor, &data);
	hk_btl_lock();
	if (HK_UNLIKELY(hk_btl.tag))
		hk_btl_tag_note(ep, tag, header);
	int rc = hk_worker_send_short(hk_btl.worker, ep->peer, tag, header, header_size, data,
				      payload_size);

	hk_btl_unlock();
	return rc >= 0;
}

/* Puts the next @len bytes of the convertor behind the first @at of @buf. @lent: they lie there in
 * one piece, so the buffer only points to them. NULL: packs them. */
static bool add_data(hk_buf *buf, size_t at, struct opal_convertor_t *convertor, const char *lent,
		     size_t len)
{
	if (HK_LIKELY(lent != NULL)) {
		hk_worker_lend(hk_btl.worker, buf, at, lent, len);
		return true;
	}
	return pack(convertor, (char *)hk_buf_data(buf) + at, len) == (ssize_t)len;
}

/* Puts the data into frame buffers, and sends them. */
static bool sendi_packed(hk_endpoint *ep, struct opal_convertor_t *convertor, void *header,
			 size_t header_size, size_t payload_size, mca_btl_base_tag_t tag)
{
	size_t left = payload_size, at = header_size;
	hk_buf *bufs[HK_WIRE_MAX_FRAGS];
	size_t len[HK_WIRE_MAX_FRAGS];
	void *lent = NULL;
	unsigned n = 0;
	int rc = -1;

	if (payload_size >= LEND_MIN && !opal_convertor_need_buffers(convertor))
		opal_convertor_get_current_pointer(convertor, &lent);
	hk_btl_lock();
	/* one peer's backlog must not take all buffers: beyond its share, senders wait for it */
	if (HK_UNLIKELY(hk_worker_tx_low(hk_btl.worker) ||
			hk_worker_backlog(hk_btl.worker, ep->peer) >
				mca_btl_hikyaku_component.param.tx_buffers / 4))
		goto refused;
	do {
		size_t part = HK_MIN(left, hk_btl.payload - at);

		bufs[n] = hk_worker_alloc(hk_btl.worker);
		if (HK_UNLIKELY(!bufs[n]))
			goto undo;
		if (n == 0)
			memcpy(hk_buf_data(bufs[n]), header, header_size);
		const char *from = lent ? (const char *)lent + payload_size - left : NULL;

		if (part && HK_UNLIKELY(!add_data(bufs[n], at, convertor, from, part))) {
			n++;
			goto undo;
		}
		len[n++] = at + part;
		left -= part;
		at = 0;
	} while (left);

	if (HK_UNLIKELY(hk_btl.tag))
		hk_btl_tag_note(ep, tag, header);
	rc = hk_worker_sendv(hk_btl.worker, ep->peer, tag, bufs, len, n);
	n = 0;
undo:
	while (n--)
		hk_worker_free(hk_btl.worker, bufs[n]);
refused:
	hk_btl_unlock();
	return rc >= 0;
}

int hk_btl_sendi(struct mca_btl_base_module_t *btl, hk_endpoint *ep,
		 struct opal_convertor_t *convertor, void *header, size_t header_size,
		 size_t payload_size, uint8_t order, uint32_t flags, mca_btl_base_tag_t tag,
		 mca_btl_base_descriptor_t **descriptor)
{
	size_t total = header_size + payload_size;
	bool sent;

	if (HK_LIKELY(total <= HK_SHORT_MAX) &&
	    HK_LIKELY(payload_size == 0 || !opal_convertor_need_buffers(convertor)))
		sent = sendi_short(ep, convertor, header, header_size, payload_size, tag);
	else
		sent = total <= btl->btl_eager_limit &&
		       sendi_packed(ep, convertor, header, header_size, payload_size, tag);
	if (HK_LIKELY(sent))
		return OPAL_SUCCESS;
	/* If the peer is gone, ob1 learns so from hk_btl_send(). Without a descriptor it would
	 * retry. */
	if (descriptor)
		*descriptor = hk_btl_alloc(btl, ep, order, total, flags);
	return OPAL_ERR_OUT_OF_RESOURCE;
}
