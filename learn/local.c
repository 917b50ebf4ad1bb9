/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/local.c: many nodes in one process, on a network made of a queue (learn/learn.h).
 *
 * A round of the network: each living node, in turn, takes what is due and does one round of its own.
 */
#include "learn/gossip.h"

#include "base/error.h"
#include "rtc/topology.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HK_LEARN_REASONS == 8, "struct hk_learn_result.refused");

struct letter {
	struct letter *next;
	uint32_t due;
	uint16_t src, dst;
	uint8_t type;
	uint32_t len;
	uint8_t bytes[];
};

struct place {
	struct local *all;
	struct hk_gossip *node; /* NULL: down */
	uint16_t id;
	bool ran; /* in a life before */
	bool done;
	struct letter *first, **last;
	struct hk_topology topology;
};

struct local {
	const struct hk_learn_model *model;
	const struct hk_learn_settings *set;
	const struct hk_learn_local *how;
	const struct hk_learn_data *shard;
	struct place *place; /* [nodes] */
	uint32_t round, runs;
	size_t event;
	struct hk_random random;
	struct hk_learn_result *out;
	double *mean, *scratch;
	uint16_t *epoch; /* [nodes] who lives, as hk_topology_update() wants it */
	int rc;
};

/* ---- the network -------------------------------------------------------------------------------- */

/* After somebody came or went. */
static void find_neighbours(struct local *l)
{
	for (uint16_t i = 0; i < l->how->nodes; i++)
		l->epoch[i] = l->place[i].node ? 1 : 0;
	for (uint16_t i = 0; i < l->how->nodes; i++)
		hk_topology_update(&l->place[i].topology, l->epoch);
}

static unsigned net_neighbours(void *arg, const uint16_t **list)
{
	struct place *p = arg;

	*list = p->topology.neighbour;
	return p->topology.count;
}

static int net_pick(void *arg)
{
	struct place *p = arg;

	if (p->topology.count == 0)
		return -1;
	return p->topology.neighbour[hk_random_below(&p->all->random, p->topology.count)];
}

static bool net_alive(void *arg, uint16_t node)
{
	struct place *p = arg;

	return p->all->place[node].node != NULL;
}

static void post(struct local *l, uint16_t src, uint16_t dst, uint8_t type, const void *data,
		 size_t len)
{
	struct place *to = &l->place[dst];
	struct letter *m = malloc(sizeof(*m) + len);

	if (!m) {
		l->rc = -ENOMEM;
		return;
	}
	*m = (struct letter){.src = src, .dst = dst, .type = type, .len = (uint32_t)len};
	m->due = l->round + 1;
	if (l->how->delay)
		m->due += (uint32_t)hk_random_below(&l->random, l->how->delay + 1ull);
	memcpy(m->bytes, data, len);
	*to->last = m;
	to->last = &m->next;
}

static void net_send(void *arg, uint16_t dst, uint8_t type, const void *data, size_t len)
{
	struct place *from = arg;
	struct local *l = from->all;

	l->out->messages++;
	l->out->bytes += len;
	if (!l->place[dst].node || hk_random_unit(&l->random) < l->how->drop) {
		l->out->dropped++;
		return;
	}
	post(l, from->id, dst, type, data, len);
	if (l->how->twice > 0 && hk_random_unit(&l->random) < l->how->twice)
		post(l, from->id, dst, type, data, len);
}

/* What is due; the rest stays in its order. */
static void deliver(struct local *l, struct place *p)
{
	struct letter *m = p->first, *next;

	p->first = NULL;
	p->last = &p->first;
	for (; m; m = next) {
		next = m->next;
		m->next = NULL;
		if (m->due > l->round) {
			*p->last = m;
			p->last = &m->next;
			continue;
		}
		hk_gossip_message(p->node, m->src, m->type, m->bytes, m->len);
		free(m);
	}
}

static void forget(struct place *p)
{
	struct letter *m = p->first, *next;

	for (; m; m = next) {
		next = m->next;
		free(m);
	}
	p->first = NULL;
	p->last = &p->first;
}

/* ---- nodes come and go --------------------------------------------------------------------------- */

static void count(struct local *l, const struct hk_gossip *g)
{
	struct hk_learn_result *out = l->out;

	out->rows += g->stats.rows;
	out->merged += g->stats.merged;
	out->copied += g->stats.copied;
	out->epochs = HK_MAX(out->epochs, (uint32_t)g->train.epochs);
	for (unsigned i = 0; i < HK_LEARN_REASONS; i++)
		out->refused[i] += g->stats.refused[i];
	if (g->agree.stop)
		out->stop = (int)g->agree.stop;
}

static int start(struct local *l, uint16_t id, struct hk_error *err)
{
	struct place *p = &l->place[id];
	struct hk_gossip_config cfg = {
		.model = l->model,
		.set = l->set,
		.data = l->shard[id],
		.node = id,
		.nodes = l->how->nodes,
		.run = ++l->runs,
		.payload_max = l->how->payload_max,
		.net = {p, net_neighbours, net_pick, net_alive, net_send},
		.fault = l->how->fault ? l->how->fault[id] : HK_FAULT_NONE,
		.fault_scale = l->how->fault_scale,
	};

	if (p->node)
		return 0;
	p->ran = true;
	return hk_gossip_open(&cfg, &p->node, err);
}

static void crash(struct local *l, uint16_t id)
{
	struct place *p = &l->place[id];

	if (p->node)
		count(l, p->node);
	hk_gossip_close(p->node);
	p->node = NULL;
	forget(p);
}

static void die(struct local *l, uint16_t id)
{
	crash(l, id);
	for (uint16_t i = 0; i < l->how->nodes; i++)
		if (l->place[i].node)
			hk_gossip_left(l->place[i].node, id);
}

static int events(struct local *l, struct hk_error *err)
{
	const struct hk_learn_local *how = l->how;
	int rc = 0;

	for (; l->event < how->events && how->event[l->event].round <= l->round; l->event++) {
		const struct hk_learn_event *e = &how->event[l->event];
		if (e->up)
			rc = start(l, e->node, err);
		else
			die(l, e->node);
		if (rc != 0)
			return rc;
		find_neighbours(l);
	}
	return 0;
}

/* Does its first event say that it comes later? */
static bool comes_later(const struct hk_learn_local *how, uint16_t id)
{
	for (size_t i = 0; i < how->events; i++)
		if (how->event[i].node == id)
			return how->event[i].up;
	return false;
}

/* ---- progress ------------------------------------------------------------------------------------ */

static double push_weight(const struct local *l)
{
	double sum = 0;

	for (uint16_t i = 0; i < l->how->nodes; i++) {
		const struct hk_gossip *a = l->place[i].node;
		if (!a)
			continue;
		sum += a->slice[0].weight;
		for (uint16_t j = 0; j < l->how->nodes; j++)
			if (l->place[j].node)
				sum += hk_gossip_given(a, j, 0) - hk_gossip_taken(a, j, 0);
	}
	return sum;
}

static double loss_of(const struct local *l, const double *w)
{
	double sum = 0, rows = 0;

	for (uint16_t i = 0; i < l->how->nodes; i++) {
		const struct hk_learn_data *d = &l->shard[i];
		sum += hk_learn_loss(l->model, w, d, l->scratch) * (double)d->rows;
		rows += (double)d->rows;
	}
	return sum / rows;
}

static struct hk_learn_progress look(struct local *l)
{
	struct hk_learn_progress p = {
		.round = l->round, .rows = l->out->rows, .bytes = l->out->bytes};
	size_t n = hk_learn_parameters(l->model);
	double off = 0, norm = 0;

	memset(l->mean, 0, n * sizeof(double));
	for (uint16_t i = 0; i < l->how->nodes; i++) {
		const struct hk_gossip *g = l->place[i].node;
		if (!g)
			continue;
		p.living++;
		p.rows += g->stats.rows;
		p.loss += loss_of(l, g->train.w);
		for (size_t j = 0; j < n; j++)
			l->mean[j] += g->train.w[j];
	}
	for (size_t j = 0; j < n; j++) {
		l->mean[j] /= p.living;
		norm += l->mean[j] * l->mean[j];
	}
	for (uint16_t i = 0; i < l->how->nodes; i++) {
		const struct hk_gossip *g = l->place[i].node;
		for (size_t j = 0; g && j < n; j++)
			off += (g->train.w[j] - l->mean[j]) * (g->train.w[j] - l->mean[j]);
	}
	p.loss /= p.living;
	p.consensus = sqrt(off / p.living / fmax(norm, 1e-300));
	p.push_weight = l->set->merge == HK_LEARN_PUSH_SUM ? push_weight(l) : 0;
	return p;
}

/* ---- all ----------------------------------------------------------------------------------------- */

static uint32_t most_rounds(const struct local *l)
{
	const struct hk_learn_settings *set = l->set;
	double most = 0;

	if (l->how->max_rounds)
		return l->how->max_rounds;
	for (uint16_t i = 0; i < l->how->nodes; i++)
		most = fmax(most, (double)l->shard[i].rows);
	double a_round = (double)set->batch * fmax(1, set->gossip_every);
	double rounds = 4 * (ceil(most / a_round) * set->max_epochs + set->settle) + 1000;
	if (l->how->turn)
		rounds *= l->how->nodes;
	return rounds > UINT32_MAX ? UINT32_MAX : (uint32_t)rounds;
}

static bool has_turn(const struct local *l, uint16_t node)
{
	return !l->how->turn || l->round / l->how->turn % l->how->nodes == node;
}

static int run(struct local *l, bool (*on_progress)(void *, const struct hk_learn_progress *),
	       void *arg, struct hk_error *err)
{
	uint32_t last = most_rounds(l), every = on_progress ? l->how->progress_every : 0;
	bool going = true;

	for (l->round = 0; going && l->round < last; l->round++) {
		int rc = events(l, err);
		if (rc != 0)
			return rc;
		going = l->event < l->how->events;
		for (uint16_t i = 0; i < l->how->nodes; i++) {
			struct place *p = &l->place[i];
			if (!p->node)
				continue;
			if (has_turn(l, i)) {
				deliver(l, p);
				p->done = !hk_gossip_round(p->node);
			}
			going |= !p->done;
		}
		if (l->rc != 0)
			return hk_error_set(err, l->rc, "no memory for messages under way");
		if (every && (l->round % every == 0 || !going)) {
			struct hk_learn_progress now = look(l);
			if (!on_progress(arg, &now))
				return hk_error_set(err, -ECANCELED, "ended when asked to");
		}
	}
	l->out->rounds = l->round;
	return 0;
}

static int check(const struct hk_learn_local *how, const struct hk_learn_data *shard,
		 struct hk_error *err)
{
	if (how->nodes == 0 || how->nodes > HK_RTC_MAX_NODES)
		return hk_error_set(err, -EINVAL, "%u nodes; fix: 1 to %d", how->nodes,
				    HK_RTC_MAX_NODES);
	if (how->topology < HK_RTC_ALL || how->topology >= HK_RTC_FILE)
		return hk_error_set(err, -EINVAL,
				    "topology %d is none of nodes in one process; fix: all, ring, "
				    "random or exponential",
				    how->topology);
	if (!(how->drop >= 0 && how->drop <= 1) || !(how->twice >= 0 && how->twice <= 1))
		return hk_error_set(err, -EINVAL, "drop %g, twice %g; fix: 0 to 1", how->drop,
				    how->twice);
	for (size_t i = 0; i < how->events; i++)
		if (how->event[i].node >= how->nodes)
			return hk_error_set(err, -EINVAL, "an event of node %u, of %u",
					    how->event[i].node, how->nodes);
	for (uint16_t i = 0; i < how->nodes; i++)
		if (shard[i].rows == 0)
			return hk_error_set(err, -EINVAL,
					    "node %u has no row; fix: fewer nodes, or more rows",
					    i);
	return 0;
}

static int topology(const struct local *l, struct place *p, struct hk_error *err)
{
	const struct hk_rtc_config cfg = {
		.node = p->id,
		.nodes = l->how->nodes,
		.topology = (enum hk_rtc_topology)l->how->topology,
		.degree = l->how->degree ? l->how->degree : 2,
		.seed = l->set->seed,
	};

	return hk_topology_init(&p->topology, &cfg, err);
}

static void finish(struct local *l, double *w)
{
	size_t n = hk_learn_parameters(l->model);

	for (uint16_t i = 0; l->place && i < l->how->nodes; i++) {
		struct place *p = &l->place[i];
		for (size_t j = 0; j < n; j++)
			w[i * n + j] = p->node ? p->node->train.w[j] : NAN;
		if (p->last)
			crash(l, i);
		hk_topology_free(&p->topology);
	}
	free(l->place);
	free(l->mean);
	free(l->scratch);
	free(l->epoch);
}

int hk_learn_local(const struct hk_learn_model *m, const struct hk_learn_settings *set,
		   const struct hk_learn_local *how, const struct hk_learn_data *shard, double *w,
		   bool (*on_progress)(void *arg, const struct hk_learn_progress *p), void *arg,
		   struct hk_learn_result *out, struct hk_error *err)
{
	struct local l = {.model = m, .set = set, .how = how, .shard = shard, .out = out};
	int rc = hk_learn_check(m, err);

	*out = (struct hk_learn_result){0};
	if (rc == 0)
		rc = check(how, shard, err);
	if (rc != 0)
		return rc;
	l.random = hk_random_of(set->seed, 0xbeef);
	l.place = calloc(how->nodes, sizeof(*l.place));
	l.mean = calloc(hk_learn_parameters(m), sizeof(double));
	l.scratch = calloc(hk_learn_scratch(m), sizeof(double));
	l.epoch = calloc(how->nodes, sizeof(*l.epoch));
	rc = l.place && l.mean && l.scratch && l.epoch ? 0
						       : hk_error_set(err, -ENOMEM, "no memory");
	for (uint16_t i = 0; rc == 0 && i < how->nodes; i++) {
		struct place *p = &l.place[i];
		*p = (struct place){.all = &l, .id = i, .last = &p->first};
		rc = topology(&l, p, err);
		if (rc == 0 && !comes_later(how, i))
			rc = start(&l, i, err);
	}
	if (rc == 0) {
		find_neighbours(&l);
		rc = run(&l, on_progress, arg, err);
	}
	finish(&l, w);
	return rc;
}
