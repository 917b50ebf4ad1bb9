/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/line.h: measures the time of a cache line from one core to another.
 *
 * On a virtual machine this time changes within seconds, by a factor of three and more, when the
 * hypervisor migrates a virtual CPU. The latency of everything that two processes exchange through
 * memory changes with it. So a benchmark takes this time with each sample, and its driver compares
 * samples with equal times (python/hikyaku/bench/common/phases.py).
 *
 * Two processes map the same file of at least 64 zero bytes. Both call hk_line_ns() equally often
 * and at about the same moments, one as side 0 and one as side 1. A side whose partner does not
 * come within three seconds stops measuring.
 */
#ifndef HK_BENCH_LINE_H
#define HK_BENCH_LINE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define HK_LINE_BATCHES 9
#define HK_LINE_ROUNDS  300 /* in a batch */

struct hk_line {
	_Atomic uint64_t *word; /* NULL: not opened, or the partner did not come */
	uint64_t turn;          /* value of the word at side 0's next turn */
};

static inline int64_t hk_line_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* False: the file cannot be mapped; with errno. */
static inline bool hk_line_open(struct hk_line *l, const char *file)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);
	void *page = MAP_FAILED;

	*l = (struct hk_line){NULL, 0};
	if (fd < 0)
		return false;
	page = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return false;
	l->word = page;
	return true;
}

static inline bool hk_line_await(struct hk_line *l, uint64_t value)
{
	int64_t end = 0;

	for (uint32_t spins = 0; atomic_load_explicit(l->word, memory_order_acquire) != value;
	     spins++) {
		if ((spins & 0xffff) != 0xffff)
			continue;
		int64_t now = hk_line_clock();
		end = end ? end : now + INT64_C(3000000000);
		if (now > end) {
			l->word = NULL;
			return false;
		}
	}
	return true;
}

/* The time of the cache line from one core to the other in ns, the median of several batches; 0:
 * unknown. */
static inline double hk_line_ns(struct hk_line *l, unsigned side)
{
	double batch[HK_LINE_BATCHES];

	for (int b = 0; l->word && b < HK_LINE_BATCHES; b++) {
		int64_t start = 0;
		for (int i = 0; i <= HK_LINE_ROUNDS; i++, l->turn += 2) {
			if (!hk_line_await(l, l->turn + side))
				return 0;
			if (i == 0) /* the partner has come */
				start = hk_line_clock();
			atomic_store_explicit(l->word, l->turn + side + 1, memory_order_release);
		}
		double took = (double)(hk_line_clock() - start) / (2.0 * HK_LINE_ROUNDS);
		int at = b;
		for (; at > 0 && batch[at - 1] > took; at--)
			batch[at] = batch[at - 1];
		batch[at] = took;
	}
	return l->word ? batch[HK_LINE_BATCHES / 2] : 0;
}

#endif
