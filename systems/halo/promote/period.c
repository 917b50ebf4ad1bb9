/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/period.c: finds sizes that repeat (period.h).
 *
 * DESIGN NOTES
 *
 * Problem. The sizes of a channel's messages repeat with an unknown period, and not for ever. A
 * multigrid solver sends the sizes of its levels one after the other with one tag, so a short
 * repetition lies within a longer period. Molecular dynamics repeats one period between two updates
 * of the neighbour list, and then another.
 *
 * Approach. The period that explains the most messages is chosen, and the number of messages that
 * it must explain (`need`) is learnt. A promotion costs some messages between the two ends. A
 * schedule that lasted for fewer than WORTH_LITTLE messages doubles the number; one that lasted for
 * WORTH_MUCH halves it.
 *
 * Rejected. Two equal periods are not always enough. If the program leaves out or inserts a
 * message, a period of another length seems to hold for about its own length. So with a greater
 * `need`, up to three equal periods are required.
 */
#include "halo/promote/period.h"

#include <string.h>

#define WATCHED     512  /* messages without a schedule until a pause */
#define PAUSE_FIRST 512U /* messages of the first pause; each further one is twice as long */
#define PAUSE_MAX   16384U

#define WORTH_LITTLE 16 /* messages of a schedule */
#define WORTH_MUCH   48
#define NEED_FIRST   8U
#define NEED_MAX     256U /* well below WATCHED, after which everything is forgotten */

static void forget(struct hk_watch *w, uint64_t index)
{
	memset(w->seen, 0xff, sizeof(w->seen)); /* HK_SIZE_NONE */
	memset(w->run, 0, sizeof(w->run));
	w->from = index;
}

void hk_watch_init(struct hk_watch *w, uint64_t index)
{
	forget(w, index);
	w->need = 0;
	w->pause = 0;
}

int hk_watch_add(struct hk_watch *w, uint64_t index, uint32_t bytes)
{
	uint32_t most = HK_MAX(w->need, 1U) - 1;
	int found = 0, twice = 0; /* were two periods of any length alike? */

	if (HK_LIKELY(index < w->from))
		return 0;
	if (HK_UNLIKELY(index - w->from >= WATCHED)) {
		w->pause = HK_MIN(HK_MAX(2 * w->pause, PAUSE_FIRST), PAUSE_MAX);
		forget(w, index + w->pause);
		return 0;
	}
	memmove(w->seen + 1, w->seen, sizeof(w->seen) - sizeof(w->seen[0]));
	w->seen[0] = bytes;
	/* without a branch, and signed, so that the compiler can do four at once */
	for (int p = 1; p <= HK_PERIOD_MAX; p++) {
		w->run[p - 1] = w->seen[p] == bytes ? w->run[p - 1] + 1 : 0;
		twice |= (int32_t)w->run[p - 1] >= p;
	}
	if (HK_LIKELY(!twice))
		return 0;
	for (int p = 1; bytes != HK_SIZE_NONE && p <= HK_PERIOD_MAX; p++) {
		uint32_t alike = w->run[p - 1] + (uint32_t)p;

		if (alike >= 2 * (uint32_t)p + HK_MIN(w->need / 4, (uint32_t)p) && alike > most) {
			most = alike;
			found = p;
		}
	}
	return found;
}

bool hk_watch_holds(const struct hk_watch *w, int period)
{
	return w->run[period - 1] >= (uint32_t)period;
}

bool hk_watch_schedule(const struct hk_watch *w, uint64_t index, int period, struct hk_schedule *s)
{
	memset(s, 0, sizeof(*s));
	s->period = (uint8_t)period;
	for (int k = 0; k < period; k++) {
		uint32_t bytes = w->seen[k];
		int size = 0;

		while (size < s->sizes && s->bytes[size] != bytes)
			size++;
		if (size == HK_STREAMS_MAX || bytes > HK_SIZE_MAX)
			return false;
		s->bytes[size] = bytes;
		s->sizes = (uint8_t)HK_MAX((int)s->sizes, size + 1);
		s->at[(index - (uint64_t)k) % (uint64_t)period] = (uint8_t)size;
	}
	return true;
}

bool hk_schedule_valid(const struct hk_schedule *s)
{
	if (s->period < 1 || s->period > HK_PERIOD_MAX || s->sizes < 1 || s->sizes > HK_STREAMS_MAX)
		return false;
	for (int k = 0; k < s->period; k++)
		if (s->at[k] >= s->sizes)
			return false;
	for (int k = 0; k < s->sizes; k++)
		if (s->bytes[k] > HK_SIZE_MAX)
			return false;
	return true;
}

void hk_watch_back_off(struct hk_watch *w)
{
	w->need = HK_MIN(HK_MAX(2 * w->need, NEED_FIRST), NEED_MAX);
}

void hk_watch_ended(struct hk_watch *w, uint64_t index, const struct hk_schedule *s, uint64_t start)
{
	uint64_t kept = HK_MIN(index > start ? index - start : 0, (uint64_t)HK_SEEN);

	memmove(w->seen + kept, w->seen, (HK_SEEN - kept) * sizeof(w->seen[0]));
	for (uint64_t k = 0; k < kept; k++)
		w->seen[k] = s->bytes[hk_schedule_at(s, index - 1 - k)];
	memset(w->run, 0, sizeof(w->run));
	w->from = index;
	for (int p = 1; p <= HK_PERIOD_MAX; p++)
		for (int k = 0; k + p < HK_SEEN && w->seen[k] == w->seen[k + p]; k++)
			w->run[p - 1]++;
	if (index < start + WORTH_LITTLE)
		hk_watch_back_off(w);
	else if (index >= start + WORTH_MUCH)
		w->need /= 2;
}
