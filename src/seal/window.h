/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/window.h: refuses a counter that came before, and one that is too old to tell (RFC 6479).
 * Pure.
 *
 * It is for frames that have no number of their own. The worker's packets have one, and its engine
 * finds duplicates by that.
 *
 * The ring of words holds a bit for each of the last counters. A new counter clears the words that
 * it passes, so at least HK_SEAL_WINDOW counters behind the newest are told apart.
 */
#ifndef HK_SEAL_WINDOW_H
#define HK_SEAL_WINDOW_H

#include "base/common.h"

#define HK_SEAL_WINDOW_WORDS 16
#define HK_SEAL_WINDOW       ((HK_SEAL_WINDOW_WORDS - 1) * 64)

/* Zeros: no counter came. */
struct hk_seal_window {
	uint64_t newest;
	uint64_t seen[HK_SEAL_WINDOW_WORDS]; /* bit of counter n: n modulo 64 of word n / 64 */
};

/* Whether @counter did not come before. Counters begin at 1. */
static inline bool hk_seal_window_is_new(const struct hk_seal_window *w, uint64_t counter)
{
	if (HK_LIKELY(counter > w->newest))
		return true;
	return counter != 0 && w->newest - counter < HK_SEAL_WINDOW &&
	       !(w->seen[counter / 64 % HK_SEAL_WINDOW_WORDS] >> (counter % 64) & 1);
}

/* Notes @counter, which is new. */
static inline void hk_seal_window_mark(struct hk_seal_window *w, uint64_t counter)
{
	uint64_t word = counter / 64, last = w->newest / 64;

	if (counter > w->newest) {
		uint64_t passed = HK_MIN(word - last, (uint64_t)HK_SEAL_WINDOW_WORDS);
		for (uint64_t i = 0; HK_UNLIKELY(i < passed); i++)
			w->seen[(word - i) % HK_SEAL_WINDOW_WORDS] = 0;
		w->newest = counter;
	}
	w->seen[word % HK_SEAL_WINDOW_WORDS] |= UINT64_C(1) << (counter % 64);
}

#endif
