/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/rank_counters.c: hk_res_rank_counters() of resources.h: reads a rank's counters from memory
 * in which the rank can write anything.
 */
#include "worker/internal.h"
#include "hostd/resources.h"

#include <errno.h>

/* Copies @bytes, a multiple of 8, from @at, an address that a rank has named, if the @len bytes at
 * @memory contain them. Copies by words, since the rank may write there at the same time. */
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
	HK_QUEUE_COUNTERS(HK_COUNTER_FIELD)
};
#define IN_ORDER(name, ...)                                                                        \
	_Static_assert(offsetof(struct hk_port, name) - offsetof(struct hk_port, rx_frames) ==     \
			       offsetof(struct queue_counters, name),                              \
		       "one copy reads all");
HK_QUEUE_COUNTERS(IN_ORDER)

/* The sums of all queues and pipes. Skips a txq whose address is not in the rank's memory. */
static struct hk_rank_levels sum_queues(uint64_t memory, uint64_t len, const struct hk_worker *w)
{
	const size_t at = offsetof(struct hk_txq, own_port) + offsetof(struct hk_port, rx_frames);
	unsigned txqs = HK_MIN(w->txqs, (unsigned)HK_MAX_PORTS);
	struct hk_rank_levels sum = {0};
	struct queue_counters one;

	for (unsigned i = 0; i < txqs; i++) {
		if (!w->txq[i]) /* it was copied while the txq was added */
			continue;
		if (!copy_within(memory, len, (uint64_t)(uintptr_t)w->txq[i] + at, &one,
				 sizeof(one)))
			continue;
#define ADD(name, ...) sum.name += one.name;
		HK_QUEUE_COUNTERS(ADD)
#undef ADD
	}
	return sum;
}

int hk_res_rank_counters(uint64_t memory, uint64_t len, uint64_t worker, struct hk_res_rank *n)
{
	struct hk_worker w;
	struct hk_engine_counters e;

	*n = (struct hk_res_rank){0};
	_Static_assert(sizeof(w) % 8 == 0 && sizeof(e) % 8 == 0, "copied by words");
	if (!copy_within(memory, len, worker, &w, sizeof(w)))
		return -EFAULT;
	/* the rank cannot change the copy's pointer; it is checked before any offset is added */
	uint64_t engine = (uint64_t)(uintptr_t)w.engine;

	if (engine % 8 != 0 || engine < memory || engine - memory >= len ||
	    !copy_within(memory, len, (uint64_t)(uintptr_t)hk_engine_counters(w.engine), &e,
			 sizeof(e)))
		return -EFAULT;
	int64_t unpolled = (int64_t)(hk_now(&w) - atomic_load(&w.app_polled_at));

	*n = (struct hk_res_rank){
		.engine = e,
		.worker = *hk_worker_counters(&w),
		.levels = sum_queues(memory, len, &w),
	};
	n->levels.rx_backlog_frames = w.rx_backlog.frames;
	n->levels.unpolled_ns = unpolled > 0 ? (uint64_t)unpolled : 0;
	return 0;
}
