/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/rank_counters.c: hk_res_rank_counters() of resources.h: what a rank counts, read from memory in which the
 * rank writes what it likes.
 */
#include "fabric/internal.h"
#include "host/resources.h"

#include <errno.h>

/* Copies @bytes (8, 16, …) from address @at, which a rank has named, if they lie in @memory. Word by word,
 * since the rank may write there meanwhile. */
static bool copy_within(uint64_t memory, uint64_t len, uint64_t at, void *out, size_t bytes)
{
	if (at % 8 != 0 || at < memory || at - memory > len || bytes > len - (at - memory))
		return false;
	const uint64_t *from = (const uint64_t *)(uintptr_t)at;

	for (size_t i = 0; i < bytes / 8; i++)
		((uint64_t *)out)[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	return true;
}

struct queue_counters {
	uint64_t rx_frames, tx_frames, tx_full;
};
_Static_assert(offsetof(struct hk_port, tx_frames) == offsetof(struct hk_port, rx_frames) + 8 &&
		       offsetof(struct hk_port, tx_full) ==
			       offsetof(struct hk_port, rx_frames) + 16,
	       "copied at once");

/* Of all queues and pipes together. A lane whose address is none of the rank's memory counts for nothing. */
static struct queue_counters of_queues(uint64_t memory, uint64_t len, const struct hk_fabric *f)
{
	const size_t at = offsetof(struct hk_lane, copy) + offsetof(struct hk_port, rx_frames);
	unsigned lanes = HK_MIN(f->lanes, (unsigned)HK_MAX_PORTS);
	struct queue_counters sum = {0}, one;

	for (unsigned i = 0; i < lanes; i++) {
		if (!f->lane[i]) /* it was copied while the lane was added */
			continue;
		if (!copy_within(memory, len, (uint64_t)(uintptr_t)f->lane[i] + at, &one,
				 sizeof(one)))
			continue;
		sum.rx_frames += one.rx_frames;
		sum.tx_frames += one.tx_frames;
		sum.tx_full += one.tx_full;
	}
	return sum;
}

int hk_res_rank_counters(uint64_t memory, uint64_t len, uint64_t fabric, struct hk_res_rank *n)
{
	struct hk_fabric f;
	struct hk_engine_counters e;

	*n = (struct hk_res_rank){0};
	_Static_assert(sizeof(f) % 8 == 0 && sizeof(e) % 8 == 0, "copied by words");
	if (!copy_within(memory, len, fabric, &f, sizeof(f)))
		return -EFAULT;
	/* The copy's pointer cannot change any more; it is looked at before anything is added to it. */
	uint64_t engine = (uint64_t)(uintptr_t)f.engine;

	if (engine % 8 != 0 || engine < memory || engine - memory >= len ||
	    !copy_within(memory, len, (uint64_t)(uintptr_t)hk_engine_counters(f.engine), &e,
			 sizeof(e)))
		return -EFAULT;
	const struct hk_fabric_counters *c = hk_fabric_counters(&f);
	struct queue_counters q = of_queues(memory, len, &f);
	int64_t unpolled = (int64_t)(hk_now(&f) - atomic_load(&f.app_at));

	*n = (struct hk_res_rank){
		.tx_packets = e.tx_packets,
		.tx_bytes = e.tx_bytes,
		.rx_packets = e.rx_packets,
		.rx_bytes = e.rx_bytes,
		.tx_acks = e.tx_acks,
		.rx_acks = e.rx_acks,
		.resends = e.tx_resends,
		.duplicates = e.rx_duplicates,
		.loss_time = e.loss_time,
		.loss_rto = e.loss_rto,
		.no_credit = e.no_credit,
		.no_cwnd = e.no_cwnd,
		.no_block = e.no_block,
		.refused = e.refused,
		.dead_peers = e.dead_peers,
		.messages_sent = c->am_sent,
		.messages_delivered = c->am_delivered,
		.queued = c->queued,
		.early = c->early,
		.tx_dropped = c->tx_dropped,
		.tx_bulk = c->tx_bulk,
		.no_buffer = c->no_buffer,
		.async_polls = c->async_polls,
		.rings = c->rings,
		.kept = c->async_kept,
		.kept_now = f.kept_frames,
		.puts = c->puts,
		.gets = c->gets,
		.gets_served = c->gets_served,
		.put_bytes = c->put_bytes,
		.put_bytes_in = c->put_bytes_in,
		.rx_frames = q.rx_frames,
		.tx_frames = q.tx_frames,
		.tx_full = q.tx_full,
		.unpolled_ns = unpolled > 0 ? (uint64_t)unpolled : 0,
	};
	return 0;
}
