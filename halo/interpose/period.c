/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/period.c: finds sizes that repeat. Pure.
 *
 * A multigrid solver sends its levels' sizes one after the other with one tag, so a short repetition within a
 * longer period must not be taken for the whole again and again: after a schedule did not hold, two periods
 * have to reach back to what it did not foresee, or be many.
 */
#include "halo/interpose/watch.h"

#include <string.h>

#define AWAKE  512   /* messages that are looked at before it sleeps … */
#define ASLEEP 16384 /* … for so many, if none fits */

void hk_watch_init(struct hk_watch *w, uint64_t index)
{
	memset(w->seen, 0xff, sizeof(w->seen)); /* HK_SIZE_NONE */
	memset(w->run, 0, sizeof(w->run));
	w->from = index;
}

/* Do two periods alike, which end at @index, count after earlier schedules that did not hold? */
static bool believed(const struct hk_watch *w, uint64_t index, uint64_t alike)
{
	return w->strikes == 0 || index + 1 - w->strange <= alike ||
	       alike >= (uint64_t)HK_PERIOD_MOST << HK_MIN(w->strikes, 10U);
}

int hk_watch_note(struct hk_watch *w, uint64_t index, uint32_t bytes)
{
	int found = 0;

	if (HK_LIKELY(index < w->from))
		return 0;
	if (HK_UNLIKELY(index - w->from >= AWAKE)) {
		hk_watch_init(w, index + ASLEEP);
		return 0;
	}
	memmove(w->seen + 1, w->seen, sizeof(w->seen) - sizeof(w->seen[0]));
	w->seen[0] = bytes;
	for (int p = 1; p <= HK_PERIOD_MOST; p++)
		w->run[p - 1] = w->seen[p] == bytes ? w->run[p - 1] + 1 : 0;
	for (int p = HK_PERIOD_MOST; bytes != HK_SIZE_NONE && p >= 1; p--)
		if (w->run[p - 1] >= (uint32_t)p && believed(w, index, w->run[p - 1] + (uint64_t)p))
			found = p;
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
		if (size == HK_STREAMS || bytes > HK_SIZE_MOST)
			return false;
		s->bytes[size] = bytes;
		s->sizes = (uint8_t)HK_MAX((int)s->sizes, size + 1);
		s->at[(index - (uint64_t)k) % (uint64_t)period] = (uint8_t)size;
	}
	return true;
}

bool hk_schedule_valid(const struct hk_schedule *s)
{
	if (s->period < 1 || s->period > HK_PERIOD_MOST || s->sizes < 1 || s->sizes > HK_STREAMS)
		return false;
	for (int k = 0; k < s->period; k++)
		if (s->at[k] >= s->sizes)
			return false;
	for (int k = 0; k < s->sizes; k++)
		if (s->bytes[k] > HK_SIZE_MOST)
			return false;
	return true;
}

void hk_watch_strange(struct hk_watch *w, uint64_t index, const struct hk_schedule *s,
		      uint64_t start)
{
	hk_watch_init(w, index);
	for (uint64_t k = 0; k <= HK_PERIOD_MOST && k < index && index - 1 - k >= start; k++)
		w->seen[k] = s->bytes[hk_schedule_at(s, index - 1 - k)];
	for (int p = 1; p <= HK_PERIOD_MOST; p++)
		for (int k = 0; k + p <= HK_PERIOD_MOST && w->seen[k] == w->seen[k + p]; k++)
			w->run[p - 1]++;
	w->strange = index;
	w->strikes++;
}
