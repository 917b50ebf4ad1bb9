/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/agree.c: see agree.h.
 */
#include "learn/agree.h"

#include "learn/merge.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int hk_learn_agree_open(struct hk_learn_agree *a, uint16_t node, uint16_t nodes,
			uint32_t fingerprint, uint32_t run, const struct hk_learn_settings *set)
{
	*a = (struct hk_learn_agree){
		.node = node,
		.nodes = nodes,
		.set = set,
		.fingerprint = fingerprint,
		.run = run,
		.entry = calloc(nodes, sizeof(*a->entry)),
		.sorted = calloc(nodes, sizeof(*a->sorted)),
		.stop_loss = NAN,
	};
	if (!a->entry || !a->sorted) {
		hk_learn_agree_close(a);
		return -ENOMEM;
	}
	return 0;
}

void hk_learn_agree_close(struct hk_learn_agree *a)
{
	free(a->entry);
	free(a->sorted);
	*a = (struct hk_learn_agree){0};
}

void hk_learn_agree_own(struct hk_learn_agree *a, double loss, double step, unsigned halvings,
			uint8_t flags)
{
	struct hk_learn_status_entry *e = &a->entry[a->node];

	if (!isfinite(loss))
		return;
	e->node = a->node;
	e->flags = flags;
	e->halvings = (uint8_t)HK_MIN(halvings, UINT8_MAX);
	e->run = a->run;
	e->number++;
	e->loss = loss;
	e->step = step;
}

/* Returns whether @living nodes are too few for a trimmed mean that leaves something out. */
static bool too_few(const struct hk_learn_agree *a, size_t living)
{
	return a->set->merge == HK_LEARN_TRIMMED && a->nodes > 2 && living < 3;
}

double hk_learn_agree_loss(const struct hk_learn_agree *a, bool (*alive)(void *arg, uint16_t node),
			   void *arg, bool *finished)
{
	size_t living = 0, known = 0, done = 0, off = 0;
	double sum = 0;

	for (uint16_t i = 0; i < a->nodes; i++) {
		const struct hk_learn_status_entry *e = &a->entry[i];
		if (i != a->node && !alive(arg, i))
			continue;
		living++;
		if (e->run == 0)
			continue;
		a->sorted[known++] = e->loss;
		done += e->flags & HK_LEARN_ENTRY_F_FINISHED;
	}
	if (a->set->merge == HK_LEARN_TRIMMED) {
		hk_learn_sort(a->sorted, known);
		off = hk_learn_merge_trimmed_off(known, a->set->trim);
	}
	if (too_few(a, living)) {
		const struct hk_learn_status_entry *own = &a->entry[a->node];
		if (finished)
			*finished = own->flags & HK_LEARN_ENTRY_F_FINISHED;
		return own->run ? own->loss : NAN;
	}
	if (finished)
		*finished = done + off >= living;
	if (2 * known <= living)
		return NAN;
	for (size_t i = off; i < known - off; i++)
		sum += a->sorted[i];
	return sum / (double)(known - 2 * off);
}

bool hk_learn_agree_step(const struct hk_learn_agree *a, bool (*alive)(void *arg, uint16_t node),
			 void *arg, double *step, unsigned *halvings)
{
	size_t living = 0;

	for (uint16_t i = 0; i < a->nodes; i++)
		living += i == a->node || alive(arg, i);
	bool itself = too_few(a, living);

	for (unsigned what = 0; what < 2; what++) {
		size_t known = 0, off = 0;
		for (uint16_t i = 0; i < a->nodes; i++) {
			const struct hk_learn_status_entry *e = &a->entry[i];
			if (e->run != 0 && (i == a->node || (!itself && alive(arg, i))))
				a->sorted[known++] = what ? -(double)e->halvings : e->step;
		}
		if (known == 0)
			return false;
		if (a->set->merge == HK_LEARN_TRIMMED)
			off = hk_learn_merge_trimmed_off(known, a->set->trim);
		hk_learn_sort(a->sorted, known);
		if (what)
			*halvings = (unsigned)-a->sorted[off];
		else
			*step = a->sorted[off];
	}
	return true;
}

void hk_learn_agree_stop(struct hk_learn_agree *a, enum hk_learn_stop why, double loss)
{
	if (a->stop != HK_LEARN_GO)
		return;
	a->stop = why;
	a->decider = a->node;
	a->stop_loss = loss;
}

/* Our own entry is always in the status; the others take turns. */
size_t hk_learn_agree_write(struct hk_learn_agree *a, uint8_t flags, void *out, size_t capacity)
{
	struct hk_learn_status_hdr h = {
		.version = HK_LEARN_VERSION,
		.flags = flags | (a->stop ? HK_LEARN_STATUS_F_STOP : 0),
		.reason = (uint8_t)a->stop,
		.decider = a->decider,
		.fingerprint = a->fingerprint,
		.run = a->run,
		.loss = a->stop_loss,
	};
	size_t at = sizeof(h);

	if (capacity < sizeof(h))
		return 0;
	for (uint32_t tried = 0; tried <= a->nodes; tried++) {
		uint16_t i = a->node;
		if (tried > 0) {
			i = a->next;
			a->next = (uint16_t)((a->next + 1u) % a->nodes);
			if (i == a->node)
				continue;
		}
		if (a->entry[i].run == 0)
			continue;
		if (at + sizeof(a->entry[i]) > capacity) {
			a->next = i;
			break;
		}
		memcpy((uint8_t *)out + at, &a->entry[i], sizeof(a->entry[i]));
		at += sizeof(a->entry[i]);
		h.count++;
	}
	memcpy(out, &h, sizeof(h));
	return at;
}

static void read_entry(struct hk_learn_agree *a, const struct hk_learn_status_entry *e)
{
	if (e->node >= a->nodes || e->node == a->node || e->run == 0 || !isfinite(e->loss) ||
	    !isfinite(e->step) || e->step <= 0)
		return;
	struct hk_learn_status_entry *own = &a->entry[e->node];
	bool later = own->run == 0 || hk_learn_run_later(e->run, own->run) ||
		     (e->run == own->run && e->number > own->number);
	if (later)
		*own = *e;
}

void hk_learn_agree_read(struct hk_learn_agree *a, const struct hk_learn_status_hdr *h,
			 const void *entries)
{
	struct hk_learn_status_entry e;

	for (size_t i = 0; i < h->count; i++) {
		memcpy(&e, (const uint8_t *)entries + i * sizeof(e), sizeof(e));
		read_entry(a, &e);
	}
	if ((h->flags & HK_LEARN_STATUS_F_STOP) && a->stop == HK_LEARN_GO) {
		a->stop = h->reason;
		a->decider = h->decider;
		a->stop_loss = h->loss;
	}
}
