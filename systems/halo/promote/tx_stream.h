/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/tx_stream.h: the puts of a stream that the receiver has taken; for sender.c and
 * sender_state.c, which are on the hot path.
 */
#ifndef HK_HALO_TX_STREAM_H
#define HK_HALO_TX_STREAM_H

#include "halo/promote/promote.h"

/* Puts that the receiver has not reported as taken. It may be negative after the last report, which
 * counts as a full one. */
static inline int32_t hk_tx_stream_unreported(const struct hk_tx_stream *tx)
{
	return (int32_t)(tx->number - HK_TAKEN_BATCH * tx->taken.taken);
}

/* Of these, the puts that the receiver has not confirmed when it was asked either. (Its answer
 * frees no place: the notify target for reports has depth two, so no report may wait longer.) */
static inline int32_t hk_tx_stream_untaken(const struct hk_tx_stream *tx)
{
	return (int32_t)(tx->number - tx->known_taken);
}

static inline bool hk_tx_stream_has_place(const struct hk_tx_stream *tx)
{
	return hk_tx_stream_unreported(tx) < HK_STREAM_DEPTH;
}

static inline struct hk_put_position *hk_tx_stream_position(struct hk_tx_stream *tx,
							    uint32_t number)
{
	return &tx->order[number % HK_STREAM_DEPTH];
}

static inline void hk_tx_stream_confirm(struct hk_tx_stream *tx, uint32_t number)
{
	if ((int32_t)(number - tx->known_taken) > 0)
		tx->known_taken = number;
}

/* Reads the receiver's reports. */
static inline void hk_tx_stream_read_reports(struct hk_tx_stream *tx)
{
	while (hk_notify_complete(&tx->taken)) {
		hk_service->notify_take(&tx->taken);
		hk_tx_stream_confirm(tx, HK_TAKEN_BATCH * tx->taken.taken);
	}
}

#endif
