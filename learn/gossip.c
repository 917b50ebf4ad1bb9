/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/gossip.c: the life of a node: rounds, what it sends, when it stops (learn/gossip.h). What comes
 * in is gossip_take.c's, what is remembered of others gossip_peer.c's.
 */
#include "learn/gossip_peer.h"

#include "base/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The trimmed mean needs several neighbours' parameters at about the same time. */
#define FAN_OUT 8
/* Batches between two looks at the loss, if an epoch has not more. */
#define LOOK_LEAST 32

unsigned hk_gossip_slices(size_t parameters, size_t payload_max)
{
	size_t room = payload_max < sizeof(struct hk_slice_hdr)
			      ? 0
			      : payload_max - sizeof(struct hk_slice_hdr);
	size_t per = room / sizeof(double);

	return per ? (unsigned)HK_MIN((parameters + per - 1) / per, (size_t)UINT16_MAX)
		   : UINT16_MAX;
}

static void cut(struct hk_gossip *g)
{
	for (unsigned i = 0; i < g->slices; i++) {
		struct hk_gossip_slice *s = &g->slice[i];
		s->first = i * g->per_slice;
		s->count = HK_MIN(g->per_slice, g->parameters - s->first);
		s->weight = 1;
	}
}

static int check(const struct hk_gossip_config *cfg, struct hk_error *err)
{
	int rc = hk_learn_check(cfg->model, err);

	if (rc == 0)
		rc = hk_learn_check_settings(cfg->set, err);
	if (rc != 0)
		return rc;
	if (cfg->data.rows == 0 || cfg->data.rows > UINT32_MAX)
		return hk_error_set(err, -EINVAL, "node %u has %zu rows; fix: 1 to 2^32 - 1",
				    cfg->node, cfg->data.rows);
	if (cfg->run == 0 || cfg->node >= cfg->nodes || (unsigned)cfg->fault >= HK_FAULTS)
		return hk_error_set(err, -EINVAL, "node %u of %u, run %u, fault %d: not possible",
				    cfg->node, cfg->nodes, cfg->run, (int)cfg->fault);
	size_t n = hk_learn_parameters(cfg->model);
	if (hk_gossip_slices(n, cfg->payload_max) > HK_LEARN_MAX_SLICES)
		return hk_error_set(
			err, -EMSGSIZE,
			"%zu parameters do not fit %u messages of %zu bytes; fix: larger "
			"frames, fewer hidden units, or fewer features",
			n, HK_LEARN_MAX_SLICES, cfg->payload_max);
	return 0;
}

static void measure(struct hk_gossip *g);

int hk_gossip_open(const struct hk_gossip_config *cfg, struct hk_gossip **out, struct hk_error *err)
{
	int rc = check(cfg, err);
	size_t n = rc == 0 ? hk_learn_parameters(cfg->model) : 0;
	struct hk_gossip *g;

	*out = NULL;
	if (rc != 0)
		return rc;
	g = calloc(1, sizeof(*g));
	if (!g)
		return hk_error_set(err, -ENOMEM, "no memory for a node");
	g->net = cfg->net;
	g->model = cfg->model;
	g->set = cfg->set;
	g->data = cfg->data;
	g->node = cfg->node;
	g->nodes = cfg->nodes;
	g->run = cfg->run;
	g->fingerprint = hk_learn_fingerprint(cfg->model);
	g->fault = cfg->fault;
	g->fault_scale = cfg->fault_scale;
	g->random = hk_random_of(cfg->set->seed, 0xfa0000u + cfg->node);
	g->parameters = n;
	g->slices = hk_gossip_slices(n, cfg->payload_max);
	g->per_slice = (n + g->slices - 1) / g->slices;
	/* rounding up may leave the last ones with nothing */
	g->slices = (unsigned)((n + g->per_slice - 1) / g->per_slice);
	g->frame_room = cfg->payload_max;
	g->look_every = (g->data.rows + g->set->batch - 1) / g->set->batch;
	g->look_every = HK_MAX(g->look_every, LOOK_LEAST);
	g->slice = calloc(g->slices, sizeof(*g->slice));
	g->peer = calloc(cfg->nodes, sizeof(struct hk_gossip_peer *));
	g->work = calloc(n, sizeof(double));
	g->heard = calloc(n, sizeof(double));
	g->mix = calloc(n, sizeof(double));
	g->values = calloc(g->per_slice, sizeof(double));
	g->news = calloc(g->per_slice, sizeof(double));
	g->several = calloc(cfg->nodes, sizeof(double *));
	g->sorted = calloc(cfg->nodes + 1u, sizeof(double));
	g->frame = malloc(cfg->payload_max);
	g->stats.loss = g->stats.loss_all = g->stats.consensus = NAN;
	if (!g->slice || !g->peer || !g->work || !g->heard || !g->mix || !g->values || !g->news ||
	    !g->several || !g->sorted || !g->frame ||
	    hk_learn_train_open(&g->train, g->model, &g->data, g->set, g->node) != 0 ||
	    hk_agree_open(&g->agree, g->node, g->nodes, g->fingerprint, g->run, g->set) != 0) {
		hk_gossip_close(g);
		return hk_error_set(err, -ENOMEM, "no memory for %zu parameters", n);
	}
	cut(g);
	memcpy(g->work, g->train.w, n * sizeof(double));
	measure(g); /* tells the others our step */
	*out = g;
	return 0;
}

void hk_gossip_close(struct hk_gossip *g)
{
	if (!g)
		return;
	for (unsigned i = 0; g->peer && i < g->nodes; i++)
		hk_gossip_peer_free(g->peer[i]);
	hk_learn_train_close(&g->train);
	hk_agree_close(&g->agree);
	free(g->slice);
	free(g->peer);
	free(g->work);
	free(g->heard);
	free(g->mix);
	free(g->values);
	free(g->news);
	free(g->several);
	free(g->sorted);
	free(g->frame);
	free(g);
}

/* ---- sending ------------------------------------------------------------------------------------ */

void hk_gossip_send_status(struct hk_gossip *g, uint16_t dst, uint8_t flags)
{
	size_t len = hk_agree_write(&g->agree, flags, g->frame, g->frame_room);

	if (len == 0)
		return;
	g->stats.statuses_sent++;
	g->stats.bytes_sent += len;
	g->net.send(g->net.arg, dst, HK_LEARN_T_STATUS, g->frame, len);
}

static void spoil(struct hk_gossip *g, double *values, size_t n)
{
	double length = g->fault_scale / sqrt((double)n);

	if (g->fault == HK_FAULT_NONE)
		return;
	for (size_t i = 0; i < n; i++)
		values[i] = g->fault == HK_FAULT_NAN         ? NAN
			    : hk_random_next(&g->random) & 1 ? length
							     : -length;
}

static void send_slice(struct hk_gossip *g, uint16_t dst, unsigned i)
{
	struct hk_gossip_slice *s = &g->slice[i];
	struct hk_gossip_peer *p = hk_gossip_peer(g, dst);
	const double *from = g->train.w + s->first;
	struct hk_slice_hdr h = {
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
		/* Even if nothing is given now, the sums may not have arrived yet. */
		hk_push_give(from, &s->weight, &p->given[i], s->count);
		from = p->given[i].values;
		h.weight = p->given[i].weight;
	}
	memcpy(g->values, from, s->count * sizeof(double));
	spoil(g, g->values, s->count);
	memcpy(g->frame, &h, sizeof(h));
	memcpy((uint8_t *)g->frame + sizeof(h), g->values, s->count * sizeof(double));
	size_t len = sizeof(h) + s->count * sizeof(double);
	g->stats.slices_sent++;
	g->stats.bytes_sent += len;
	g->net.send(g->net.arg, dst, (uint8_t)(HK_LEARN_T_SLICE + i), g->frame, len);
}

static void send_to(struct hk_gossip *g, uint16_t dst)
{
	if (g->set->merge == HK_LEARN_PUSH_SUM) {
		struct hk_gossip_peer *p = hk_gossip_peer(g, dst);
		if (!p || p->run == 0) {
			/* Nothing is given away before it is known to whom. */
			hk_gossip_send_status(g, dst, HK_STATUS_F_HELLO);
			return;
		}
	}
	for (unsigned i = 0; i < g->slices; i++)
		send_slice(g, dst, i);
}

static void send_parameters(struct hk_gossip *g)
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
	/* with more than FAN_OUT neighbours, in turns */
	n = g->net.neighbours(g->net.arg, &list);
	for (unsigned i = 0; i < HK_MIN(n, FAN_OUT); i++)
		send_to(g, list[(g->round * FAN_OUT + i) % n]);
}

/* A status to a neighbour now and then; while settling each time, since all must hear of the stop. */
#define STATUS_EVERY 4

static void send_news(struct hk_gossip *g)
{
	int dst;

	if (g->state == HK_GOSSIP_TRAINING && g->round % STATUS_EVERY != 0)
		return;
	dst = g->net.pick(g->net.arg);
	if (dst >= 0)
		hk_gossip_send_status(g, (uint16_t)dst, 0);
}

/* ---- rounds ------------------------------------------------------------------------------------- */

static bool nobody(void *arg, uint16_t node)
{
	(void)arg;
	(void)node;
	return false;
}

/* Who does not gossip is alone. */
static double loss_of_all(const struct hk_gossip *g, bool *finished)
{
	return hk_agree_loss(&g->agree, g->set->gossip_every ? g->net.alive : nobody, g->net.arg,
			     finished);
}

static void decide(struct hk_gossip *g)
{
	bool finished;
	double all = loss_of_all(g, &finished);

	g->stats.loss_all = all;
	/* Twice in a row: a large step makes losses jump, and once may be chance. */
	g->on_target = all <= g->set->target_loss ? g->on_target + 1 : 0;
	if (g->on_target >= 2)
		hk_agree_stop(&g->agree, HK_LEARN_STOP_TARGET, all);
	else if (finished && hk_learn_train_converged(&g->train))
		hk_agree_stop(&g->agree, HK_LEARN_STOP_CONVERGED, all);
	else if (finished && g->state == HK_GOSSIP_WAITING)
		hk_agree_stop(&g->agree, HK_LEARN_STOP_EPOCHS, all);
}

/* Our model is at its best on our own rows, and a mean of such losses would call a model good that is
 * n different ones. What counts is the loss of the mean of all models on all rows. So each node measures,
 * on its rows, a mean in which its own model has one part in n, and for the others stands the one heard
 * last. */
static void measure(struct hk_gossip *g)
{
	uint8_t flags = 0;
	unsigned living = 1;

	for (uint16_t i = 0; i < g->nodes; i++)
		living += i != g->node && g->net.alive(g->net.arg, i);
	for (unsigned i = 0; i < g->slices; i++) {
		const struct hk_gossip_slice *s = &g->slice[i];
		double others = s->heard ? 1 - 1.0 / living : 0;
		for (size_t j = s->first; j < s->first + s->count; j++)
			g->mix[j] = g->train.w[j] + others * (g->heard[j] - g->train.w[j]);
	}
	if (g->state != HK_GOSSIP_TRAINING)
		flags |= HK_ENTRY_F_FINISHED;
	g->stats.loss = hk_learn_loss(g->model, g->mix, &g->data, g->train.scratch);
	hk_agree_own(&g->agree, g->stats.loss, g->train.own_step, g->train.halvings, flags);
}

/* Is there nobody to wait for? */
static bool alone(const struct hk_gossip *g)
{
	for (uint16_t i = 0; g->set->gossip_every && i < g->nodes; i++)
		if (i != g->node && g->net.alive(g->net.arg, i))
			return false;
	return true;
}

void hk_gossip_follow(struct hk_gossip *g)
{
	unsigned halvings;
	double step;

	if (g->set->gossip_every &&
	    hk_agree_step(&g->agree, g->net.alive, g->net.arg, &step, &halvings))
		hk_learn_train_follow(&g->train, step, halvings);
}

static void look_back(struct hk_gossip *g)
{
	bool over;

	g->looked = g->stats.batches;
	measure(g);
	double all = loss_of_all(g, NULL);
	/* Without news of the others the loss of all cannot fall, which is no plateau. */
	if (alone(g) || g->stats.slices_heard != g->judged_at)
		/* alone, or the others not heard yet: ours is what we know */
		hk_learn_train_progress(
			&g->train, isfinite(g->stats.loss) && isfinite(all) ? all : g->stats.loss);
	g->judged_at = g->stats.slices_heard;
	over = hk_learn_train_converged(&g->train) || g->train.epochs >= g->set->max_epochs;
	if (over && g->state == HK_GOSSIP_TRAINING) {
		g->state = HK_GOSSIP_WAITING;
		measure(g);
	}
	decide(g);
}

static void train(struct hk_gossip *g)
{
	uint32_t batches = g->set->gossip_every ? g->set->gossip_every : 1;

	for (uint32_t b = 0; b < batches && g->state == HK_GOSSIP_TRAINING; b++) {
		size_t rows = hk_learn_train_batch(&g->train);
		g->stats.batches++;
		g->stats.rows += rows;
		for (unsigned i = 0; i < g->slices; i++)
			g->slice[i].age += rows;
		if (g->stats.batches - g->looked >= g->look_every ||
		    g->train.epochs >= g->set->max_epochs)
			look_back(g);
	}
}

/* How far each slice has gone since the last round, and how far neighbours are from us. */
static void look_around(struct hk_gossip *g)
{
	double sum = 0, length = 0;
	unsigned heard = 0;

	for (unsigned i = 0; i < g->slices; i++) {
		const struct hk_gossip_slice *s = &g->slice[i];
		const double *w = g->train.w + s->first;
		hk_guard_moved(&g->slice[i].guard,
			       hk_guard_distance(w, g->work + s->first, s->count));
		for (size_t j = 0; j < s->count; j++)
			length += w[j] * w[j];
	}
	memcpy(g->work, g->train.w, g->parameters * sizeof(double));
	for (unsigned n = 0; n < g->nodes; n++) {
		const struct hk_gossip_peer *p = g->peer[n];
		if (!p || !p->heard)
			continue;
		heard++;
		for (unsigned i = 0; i < g->slices; i++)
			sum += p->off[i] * p->off[i];
	}
	g->stats.consensus = heard ? sqrt(sum / heard / fmax(length, 1e-300)) : NAN;
}

static void settle(struct hk_gossip *g)
{
	if (g->agree.stop == HK_LEARN_GO)
		return;
	if (g->state != HK_GOSSIP_SETTLING) {
		g->state = HK_GOSSIP_SETTLING;
		g->settled = 0;
	} else if (++g->settled > g->set->settle) {
		g->state = HK_GOSSIP_DONE;
		measure(g);
	}
}

/* Bounded staleness: who trained AHEAD looks long and heard nothing of neighbours that live waits for them. It
 * would only fit its own rows, take a loss that cannot fall for convergence, and use its epochs up; so it is
 * where nodes share cores, and run by turns. It waits no longer than membership takes to call them dead. */
#define AHEAD 2

static bool ahead(struct hk_gossip *g)
{
	if (g->stats.slices_heard != g->slices_at) {
		g->slices_at = g->stats.slices_heard;
		g->heard_at = g->stats.batches;
	}
	return g->stats.batches - g->heard_at >= AHEAD * g->look_every && !alone(g);
}

bool hk_gossip_round(struct hk_gossip *g)
{
	bool waits;

	if (g->state == HK_GOSSIP_DONE)
		return false;
	hk_gossip_merge_several(g);
	waits = g->state == HK_GOSSIP_TRAINING && ahead(g);
	if (waits)
		g->stats.waited++;
	else if (g->state == HK_GOSSIP_TRAINING)
		train(g);
	else if (g->state == HK_GOSSIP_WAITING)
		decide(g);
	look_around(g);
	if (g->set->gossip_every) {
		send_news(g);
		/* they are the same as before, but that message may have been lost */
		if (!waits || g->round % STATUS_EVERY == 0)
			send_parameters(g);
	}
	g->round++;
	g->stats.rounds++;
	settle(g);
	return g->state != HK_GOSSIP_DONE;
}

void hk_gossip_stop(struct hk_gossip *g, enum hk_learn_stop why)
{
	hk_agree_stop(&g->agree, why, g->stats.loss_all);
}
