/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi/recv.c: from the fabric to the callbacks that ob1 (and others) registered for a tag.
 */
#include "mpi/btl_hikyaku.h"

static void on_message(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov,
		       unsigned count)
{
	const mca_btl_active_message_callback_t *reg = &mca_btl_base_active_message_trigger[am];
	mca_btl_base_segment_t seg[HK_WIRE_MAX_FRAGS];
	mca_btl_base_descriptor_t des;

	(void)arg;
	(void)peer;
	if (HK_UNLIKELY(!reg->cbfunc)) /* a tag nobody here knows: another build, or a stray */
		return;
	for (unsigned i = 0; i < count; i++) {
		seg[i].seg_addr.pval = (void *)(uintptr_t)iov[i].base;
		seg[i].seg_len = iov[i].len;
	}
	des.des_segments = seg;
	des.des_segment_count = count;
	des.des_flags = 0;
	reg->cbfunc(&hk_btl.super, am, &des, reg->cbdata);
}

void hk_btl_recv_init(struct hk_fabric *f)
{
	for (unsigned am = 0; am < MCA_BTL_TAG_MAX; am++)
		hk_fabric_set_am(f, (uint8_t)am, on_message, NULL);
}
