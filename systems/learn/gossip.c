/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/gossip.c: a node's rounds, messages and end (learn/gossip.h). gossip_take.c takes received
 * messages; gossip_peer.c keeps the state of peers; gossip_open.c makes a node.
 */
#include "learn/gossip_peer.h"

#include "hikyaku/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The trimmed mean needs the parameters of several neighbours at about the same time. */
#define FAN_OUT 8

/* ---- sending --------------------------------------------------------------------------------- */

void hk_learn_gossip_send_status(struct hk_learn_gossip *g, uint16_t dst, uint8_t flags)
{
	size_t len = hk_learn_agree_write(&g->agree, flags, g->frame, g->frame_capacity);

	if (len == 0)
		return;
	g->stats.statuses_sent++;
	g->stats.bytes_sent += len;
	g->net.send(g->net.arg, dst, HK_LEARN_T_STATUS, g->frame, len);
}

static void apply_fault(struct hk_learn_gossip *g, double *values, size_t n)
{
	double length = g->fault_scale / sqrt((double)n);

	if (g->fault == HK_LEARN_FAULT_NONE)
		return;
	for (size_t i = 0; i < n; i++)
		values[i] = g->fault == HK_LEARN_FAULT_NAN         ? NAN
			    : hk_learn_random_next(&g->random) & 1 ? length
								   : -length;
}

static void send_slice(struct hk_learn_gossip *g, uint16_t dst, unsigned i)
{
	struct hk_learn_gossip_slice *s = &g->slice[i];
	struct hk_learn_gossip_peer *p = hk_learn_gossip_peer(g, dst);
	const double *from = g->train.w + s->first;
	struct hk_learn_slice_hdr h = {
		.version = HK_LEARN_VERSION,
		.merge = (uint8_t)g->set->merge,
		.slice = (uint16_t)i,
		.slices = (uint16_t)g->slices,
		.count = (uint16_t)s->count,
		.fingerprint = g->fingerprint,
		.run = g->run,
		.to_run = p ? p->run : 0,
		.number = g->round + 1,
		.age = s->age,
	};

	if (g->set->merge == HK_LEARN_PUSH_SUM) {
		/* send even if nothing is given now: earlier sums may have been lost */
		hk_learn_push_give(from, &s->weight, &p->given[i], s->count);
		from = p->given[i].values;
		h.weight = p->given[i].weight;
		if (s->copied_at)
			h.since_copy = (uint32_t)HK_MIN(h.number - s->copied_at, UINT32_MAX);
	}
	memcpy(g->values, from, s->count * sizeof(double));
	apply_fault(g, g->values, s->count);
	memcpy(g->frame, &h, sizeof(h));
	memcpy((uint8_t *)g->frame + sizeof(h), g->values, s->count * sizeof(double));
	size_t len = sizeof(h) + s->count * sizeof(double);
	g->stats.slices_sent++;
	g->stats.bytes_sent += len;
	g->net.send(g->net.arg, dst, (uint8_t)(HK_LEARN_T_SLICE + i), g->frame, len);
}

static void send_to(struct hk_learn_gossip *g, uint16_t dst)
{
	if (g->set->merge == HK_LEARN_PUSH_SUM) {
		struct hk_learn_gossip_peer *p = hk_learn_gossip_peer(g, dst);
		if (!p || p->run == 0) {
			/* ask for the run of the receiver before giving weight to it */
			hk_learn_gossip_send_status(g, dst, HK_LEARN_STATUS_F_HELLO);
			return;
		}
	}
	for (unsigned i = 0; i < g->slices; i++)
		send_slice(g, dst, i);
}

static void send_parameters(struct hk_learn_gossip *g)
{
	const uint16_t *list;
	unsigned n;
	int dst;

	if (g->set->merge != HK_LEARN_TRIMMED) {
		dst = g->net.pick(g->net.arg);
		if (dst >= 0)
			send_to(g, (uint16_t)dst);
		return;
	}
	/* more than FAN_OUT neighbours take turns */
	n = g->net.neighbours(g->net.arg, &list);
	for (unsigned i = 0; i < HK_MIN(n, FAN_OUT); i++)
		send_to(g, list[(g->round * FAN_OUT + i) % n]);
}

int hk_learn_gossip_unaware(const struct hk_learn_gossip *g)
{
	const uint16_t *list;
	unsigned n = g->net.neighbours(g->net.arg, &list);

	for (unsigned i = 0; g->set->gossip_every && i < n; i++) {
		uint16_t node = list[(g->round + i) % n];
		if (!g->peer[node] || !g->peer[node]->stopped)
			return node;
	}
	return -1;
}

/* Rounds between two status messages. After training every round sends one. */
#define STATUS_EVERY 4

/* A node that has heard of the end asks each neighbour for its status, which says whether it has
 * heard of it too. A node that missed all messages about the end would train on alone. */
static void send_statuses(struct hk_learn_gossip *g)
{
	int dst;

	if (g->state == HK_LEARN_GOSSIP_TRAINING && g->round % STATUS_EVERY != 0)
		return;
	dst = g->state == HK_LEARN_GOSSIP_SETTLING ? hk_learn_gossip_unaware(g) : -1;
	if (dst >= 0) {
		hk_learn_gossip_send_status(g, (uint16_t)dst, HK_LEARN_STATUS_F_HELLO);
		return;
	}
	dst = g->net.pick(g->net.arg);
	if (dst >= 0)
		hk_learn_gossip_send_status(g, (uint16_t)dst, 0);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static bool never_alive(void *arg, uint16_t node)
{
	(void)arg;
	(void)node;
	return false;
}

/* A node that does not gossip only knows its own loss. */
static double loss_of_all(const struct hk_learn_gossip *g, bool *finished)
{
	return hk_learn_agree_loss(&g->agree, g->set->gossip_every ? g->net.alive : never_alive,
				   g->net.arg, finished);
}

static void decide(struct hk_learn_gossip *g)
{
	bool finished;
	double all = loss_of_all(g, &finished);

	g->stats.loss_all = all;
	/* two successive measurements: with a large step the loss jumps, and one may be chance */
	g->on_target = all <= g->set->target_loss ? g->on_target + 1 : 0;
	if (g->on_target >= 2)
		hk_learn_agree_stop(&g->agree, HK_LEARN_STOP_TARGET, all);
	else if (finished && hk_learn_train_converged(&g->train))
		hk_learn_agree_stop(&g->agree, HK_LEARN_STOP_CONVERGED, all);
	else if (finished && g->state == HK_LEARN_GOSSIP_WAITING)
		hk_learn_agree_stop(&g->agree, HK_LEARN_STOP_EPOCHS, all);
}

/* Each model is best on its own node's rows, so the mean of such losses would rate n different
 * models as one good model. The result that counts is the loss of the mean of all models on all
 * rows. So each node measures, on its rows, a mean in which its own model has weight 1/n. The
 * parameters last received stand for the others. */
void hk_learn_gossip_measure(struct hk_learn_gossip *g)
{
	uint8_t flags = 0;
	unsigned living = 1;

	for (uint16_t i = 0; i < g->nodes; i++)
		living += i != g->node && g->net.alive(g->net.arg, i);
	for (unsigned i = 0; i < g->slices; i++) {
		const struct hk_learn_gossip_slice *s = &g->slice[i];
		double others = s->received ? 1 - 1.0 / living : 0;
		for (size_t j = s->first; j < s->first + s->count; j++)
			g->mix[j] = g->train.w[j] + others * (g->received[j] - g->train.w[j]);
	}
	if (g->state != HK_LEARN_GOSSIP_TRAINING)
		flags |= HK_LEARN_ENTRY_F_FINISHED;
	g->stats.loss = hk_learn_loss(g->model, g->mix, &g->data, g->train.scratch);
	hk_learn_agree_own(&g->agree, g->stats.loss, g->train.own_step,
			   hk_learn_train_halvings(&g->train), flags);
}

bool hk_learn_gossip_compares(const struct hk_learn_gossip *g)
{
	return g->set->merge == HK_LEARN_TRIMMED && g->neighbours > 1;
}

/* Returns whether there are no live neighbours that could change our parameters. */
static bool alone(const struct hk_learn_gossip *g)
{
	const uint16_t *list;

	if (g->set->gossip_every && hk_learn_gossip_compares(g))
		return g->net.neighbours(g->net.arg, &list) < 2;
	for (uint16_t i = 0; g->set->gossip_every && i < g->nodes; i++)
		if (i != g->node && g->net.alive(g->net.arg, i))
			return false;
	return true;
}

void hk_learn_gossip_follow(struct hk_learn_gossip *g)
{
	unsigned halvings;
	double step;

	if (g->set->gossip_every &&
	    hk_learn_agree_step(&g->agree, g->net.alive, g->net.arg, &step, &halvings))
		hk_learn_train_follow(&g->train, step, halvings);
}

static void measure_and_decide(struct hk_learn_gossip *g)
{
	bool over;

	g->measured_at = g->stats.batches;
	hk_learn_gossip_measure(g);
	double all = loss_of_all(g, NULL);
	/* Without received slices the loss of all cannot fall, so a constant loss is not a plateau.
	 */
	if (alone(g) || g->contacts != g->contacts_judged)
		/* use our own loss if nothing else is known */
		hk_learn_train_progress(&g->train, g->stats.loss,
					isfinite(g->stats.loss) && isfinite(all) ? all
										 : g->stats.loss);
	g->contacts_judged = g->contacts;
	over = hk_learn_train_converged(&g->train) || g->train.epochs >= g->set->max_epochs;
	if (over && g->state == HK_LEARN_GOSSIP_TRAINING) {
		g->state = HK_LEARN_GOSSIP_WAITING;
		hk_learn_gossip_measure(g);
	}
	decide(g);
}

static void train(struct hk_learn_gossip *g)
{
	uint32_t batches = g->set->gossip_every ? g->set->gossip_every : 1;

	for (uint32_t b = 0; b < batches && g->state == HK_LEARN_GOSSIP_TRAINING; b++) {
		size_t rows = hk_learn_train_batch(&g->train);
		g->stats.batches++;
		g->stats.rows += rows;
		for (unsigned i = 0; i < g->slices; i++)
			g->slice[i].age += rows;
		if (g->stats.batches - g->measured_at >= g->measure_every ||
		    g->train.epochs >= g->set->max_epochs)
			measure_and_decide(g);
	}
}

/* Measures how far each slice moved since the last round, and its distance from the neighbours. */
static void measure_distances(struct hk_learn_gossip *g)
{
	double sum = 0, length = 0;
	unsigned active = 0;

	for (unsigned i = 0; i < g->slices; i++) {
		const struct hk_learn_gossip_slice *s = &g->slice[i];
		const double *w = g->train.w + s->first;
		hk_learn_guard_moved(&g->slice[i].guard,
				     hk_learn_guard_distance(w, g->previous + s->first, s->count));
		for (size_t j = 0; j < s->count; j++)
			length += w[j] * w[j];
	}
	memcpy(g->previous, g->train.w, g->parameters * sizeof(double));
	for (unsigned n = 0; n < g->nodes; n++) {
		const struct hk_learn_gossip_peer *p = g->peer[n];
		if (!p || !p->active)
			continue;
		active++;
		for (unsigned i = 0; i < g->slices; i++)
			sum += p->distance[i] * p->distance[i];
	}
	g->stats.consensus = active ? sqrt(sum / active / fmax(length, 1e-300)) : NAN;
}

static void settle(struct hk_learn_gossip *g)
{
	if (g->agree.stop == HK_LEARN_GO)
		return;
	if (g->state != HK_LEARN_GOSSIP_SETTLING) {
		g->state = HK_LEARN_GOSSIP_SETTLING;
		g->settled = 0;
	} else if (g->settled < g->set->settle) {
		g->settled++;
	} else if (hk_learn_gossip_unaware(g) < 0) {
		g->state = HK_LEARN_GOSSIP_DONE;
		hk_learn_gossip_measure(g);
	}
}

/* Bounded staleness: a node waits if it has trained for this many measurement periods without a
 * slice from live neighbours. Otherwise it would fit only its own rows, take a loss that cannot
 * fall for convergence, and use up its epochs. That happens where nodes share cores and run by
 * turns. The wait ends when membership reports those neighbours as lost. */
#define AHEAD_PERIODS 2

static bool ahead(struct hk_learn_gossip *g)
{
	if (g->contacts != g->contacts_seen) {
		g->contacts_seen = g->contacts;
		g->received_at = g->stats.batches;
	}
	return g->stats.batches - g->received_at >= AHEAD_PERIODS * g->measure_every && !alone(g);
}

bool hk_learn_gossip_round(struct hk_learn_gossip *g)
{
	bool waits;

	if (g->state == HK_LEARN_GOSSIP_DONE)
		return false;
	hk_learn_gossip_merge_trimmed(g);
	waits = g->state == HK_LEARN_GOSSIP_TRAINING && ahead(g);
	if (waits)
		g->stats.waited++;
	else if (g->state == HK_LEARN_GOSSIP_TRAINING)
		train(g);
	else if (g->state == HK_LEARN_GOSSIP_WAITING)
		decide(g);
	measure_distances(g);
	if (g->set->gossip_every) {
		send_statuses(g);
		/* while waiting the parameters do not change, but the last message may have been
		 * lost */
		if (!waits || g->round % STATUS_EVERY == 0)
			send_parameters(g);
	}
	g->round++;
	g->stats.rounds++;
	settle(g);
	return g->state != HK_LEARN_GOSSIP_DONE;
}

void hk_learn_gossip_stop(struct hk_learn_gossip *g, enum hk_learn_stop why)
{
	hk_learn_agree_stop(&g->agree, why, g->stats.loss_all);
}
