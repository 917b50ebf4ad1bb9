/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/recv.c: from the worker to the callbacks that ob1 (and others) registered for a tag.
 */
#include "openmpi/btl/btl_hikyaku.h"
#include "openmpi/version.h"

#include "wire/bundle.h"

/* Copies a message of several frames together. ob1 accepts several segments. However, its fast path
 * for posted receives counts only the first one. So it does not notice that a message is longer
 * than the receive (MPI_ERR_TRUNCATE). Returns NULL, and leaves the message in pieces, if no buffer
 * is large enough or left. */
static opal_free_list_item_t *in_one_piece(const struct hk_iov *iov, unsigned count,
					   mca_btl_base_segment_t *seg)
{
	opal_free_list_item_t *item;
	size_t total = 0;
	char *to;

	for (unsigned i = 0; i < count; i++)
		total += iov[i].len;
	if (total > hk_btl.super.btl_eager_limit) /* the sender has another limit */
		return NULL;
	item = opal_free_list_get(&hk_btl.pieces);
	if (!item)
		return NULL;
	to = (char *)(item + 1);
	seg->seg_addr.pval = to;
	seg->seg_len = total;
	for (unsigned i = 0; i < count; i++) {
		memcpy(to, iov[i].base, iov[i].len);
		to += iov[i].len;
	}
	return item;
}

/* Calls ob1, or another user of the BTL. */
static void call(const mca_btl_active_message_callback_t *reg, uint8_t am, hk_peer peer,
		 mca_btl_base_segment_t *seg, unsigned count)
{
#if HK_OMPI5
	hk_endpoint *from = hk_btl.by_peer[peer];
	const mca_btl_base_receive_descriptor_t des = {
		.endpoint = from == HK_DELETED ? NULL : from,
		.des_segments = seg,
		.des_segment_count = count,
		.tag = am,
		.cbdata = reg->cbdata,
	};

	reg->cbfunc(&hk_btl.super, &des);
#else
	mca_btl_base_descriptor_t des;

	(void)peer;
	des.des_segments = seg;
	des.des_segment_count = count;
	des.des_flags = 0;
	reg->cbfunc(&hk_btl.super, am, &des, reg->cbdata);
#endif
}

static void on_message(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov,
		       unsigned count)
{
	const mca_btl_active_message_callback_t *reg = &mca_btl_base_active_message_trigger[am];
	mca_btl_base_segment_t seg[HK_WIRE_MAX_FRAGS];
	opal_free_list_item_t *whole = NULL;

	(void)arg;
	if (HK_UNLIKELY(!reg->cbfunc)) /* a tag nobody here knows: another build, or a stray */
		return;
	if (HK_UNLIKELY(count > 1))
		whole = in_one_piece(iov, count, &seg[0]);
	if (whole)
		count = 1;
	else
		for (unsigned i = 0; i < count; i++) {
			seg[i].seg_addr.pval = (void *)(uintptr_t)iov[i].base;
			seg[i].seg_len = iov[i].len;
		}
	call(reg, am, peer, seg, count);
	if (whole)
		opal_free_list_return(&hk_btl.pieces, whole);
}

void hk_btl_recv_init(struct hk_worker *f)
{
	OBJ_CONSTRUCT(&hk_btl.pieces, opal_free_list_t);
	opal_free_list_init(
		&hk_btl.pieces, sizeof(opal_free_list_item_t) + hk_btl.super.btl_eager_limit, 64,
		OBJ_CLASS(opal_free_list_item_t), 0, 64, 1, 64, 4, NULL, 0, NULL, NULL, NULL);
	for (unsigned am = 0; am < HK_WIRE_AM_BUNDLE; am++)
		hk_worker_set_am(f, (uint8_t)am, on_message, NULL);
}

void hk_btl_recv_fini(void)
{
	OBJ_DESTRUCT(&hk_btl.pieces);
}
