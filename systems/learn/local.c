/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/local.c: many nodes in one process, on a simulated network (learn/learn.h).
 *
 * In a round of the network each live node, in turn, takes its due messages and runs a round of its
 * own.
 */
#include "learn/gossip.h"

#include "hikyaku/error.h"
#include "rtc/topology.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(HK_LEARN_REASONS == 9, "struct hk_learn_result.refused");

struct packet {
	struct packet *next;
	uint32_t due;
	uint16_t src, dst;
	uint8_t type;
	uint32_t len;
	uint8_t bytes[];
};

struct local_node {
	struct local *all;
	struct hk_learn_gossip *gossip; /* NULL: down */
	uint16_t id;
	bool ran; /* whether it ran in an earlier incarnation */
	bool done;
	struct packet *first, **last;
	struct hk_rtc_topology_view topology;
};

struct local {
	const struct hk_learn_model *model;
	const struct hk_learn_settings *set;
	const struct hk_learn_local *cfg;
	const struct hk_learn_data *shard;
	struct local_node *node; /* [nodes] */
	uint32_t round, runs;
	size_t event;
	struct hk_learn_random random;
	struct hk_learn_result *out;
	double *mean, *scratch;
	uint16_t *epoch; /* [nodes] 1: the node is up; for hk_rtc_topology_update() */
	int rc;
};

/* ---- the network ----------------------------------------------------------------------------- */

/* Updates the neighbours after a node came or went. */
static void find_neighbours(struct local *l)
{
	for (uint16_t i = 0; i < l->cfg->nodes; i++)
		l->epoch[i] = l->node[i].gossip ? 1 : 0;
	for (uint16_t i = 0; i < l->cfg->nodes; i++)
		hk_rtc_topology_update(&l->node[i].topology, l->epoch);
}

static unsigned net_neighbours(void *arg, const uint16_t **list)
{
	struct local_node *p = arg;

	*list = p->topology.neighbour;
	return p->topology.count;
}

static int net_pick(void *arg)
{
	struct local_node *p = arg;

	if (p->topology.count == 0)
		return -1;
	return p->topology.neighbour[hk_learn_random_below(&p->all->random, p->topology.count)];
}

static bool net_alive(void *arg, uint16_t node)
{
	struct local_node *p = arg;

	return p->all->node[node].gossip != NULL;
}

static void enqueue(struct local *l, uint16_t src, uint16_t dst, uint8_t type, const void *data,
		    size_t len)
{
	struct local_node *to = &l->node[dst];
	struct packet *m = malloc(sizeof(*m) + len);

	if (!m) {
		l->rc = -ENOMEM;
		return;
	}
	*m = (struct packet){.src = src, .dst = dst, .type = type, .len = (uint32_t)len};
	m->due = l->round + 1;
	if (l->cfg->delay)
		m->due += (uint32_t)hk_learn_random_below(&l->random, l->cfg->delay + 1ull);
	memcpy(m->bytes, data, len);
	*to->last = m;
	to->last = &m->next;
}

static void net_send(void *arg, uint16_t dst, uint8_t type, const void *data, size_t len)
{
	struct local_node *from = arg;
	struct local *l = from->all;

	l->out->messages++;
	l->out->bytes += len;
	if (!l->node[dst].gossip || hk_learn_random_unit(&l->random) < l->cfg->drop) {
		l->out->dropped++;
		return;
	}
	enqueue(l, from->id, dst, type, data, len);
	if (l->cfg->duplicate > 0 && hk_learn_random_unit(&l->random) < l->cfg->duplicate)
		enqueue(l, from->id, dst, type, data, len);
}

/* Delivers due messages; the others stay in order. */
static void deliver(struct local *l, struct local_node *p)
{
	struct packet *m = p->first, *next;

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
		hk_learn_gossip_message(p->gossip, m->src, m->type, m->bytes, m->len);
		free(m);
	}
}

static void forget(struct local_node *p)
{
	struct packet *m = p->first, *next;

	for (; m; m = next) {
		next = m->next;
		free(m);
	}
	p->first = NULL;
	p->last = &p->first;
}

/* ---- start and end of nodes ------------------------------------------------------------------ */

static void count(struct local *l, const struct hk_learn_gossip *g)
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
	struct local_node *p = &l->node[id];
	struct hk_learn_gossip_config cfg = {
		.model = l->model,
		.set = l->set,
		.data = l->shard[id],
		.node = id,
		.nodes = l->cfg->nodes,
		.run = ++l->runs,
		.payload_max = l->cfg->payload_max,
		.net = {p, net_neighbours, net_pick, net_alive, net_send},
		.fault = l->cfg->fault ? l->cfg->fault[id] : HK_LEARN_FAULT_NONE,
		.fault_scale = l->cfg->fault_scale,
	};

	if (p->gossip)
		return 0;
	p->ran = true;
	for (uint16_t i = 0; i < l->cfg->nodes; i++)
		l->epoch[i] = 1;
	hk_rtc_topology_update(&p->topology, l->epoch);
	cfg.neighbours = p->topology.count;
	return hk_learn_gossip_open(&cfg, &p->gossip, err);
}

static void crash(struct local *l, uint16_t id)
{
	struct local_node *p = &l->node[id];

	if (p->gossip)
		count(l, p->gossip);
	hk_learn_gossip_close(p->gossip);
	p->gossip = NULL;
	forget(p);
}

static void die(struct local *l, uint16_t id)
{
	crash(l, id);
	for (uint16_t i = 0; i < l->cfg->nodes; i++)
		if (l->node[i].gossip)
			hk_learn_gossip_peer_left(l->node[i].gossip, id);
}

static int events(struct local *l, struct hk_error *err)
{
	const struct hk_learn_local *cfg = l->cfg;
	int rc = 0;

	for (; l->event < cfg->events && cfg->event[l->event].round <= l->round; l->event++) {
		const struct hk_learn_event *e = &cfg->event[l->event];
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

/* Returns whether the node's first event is a start. */
static bool comes_later(const struct hk_learn_local *cfg, uint16_t id)
{
	for (size_t i = 0; i < cfg->events; i++)
		if (cfg->event[i].node == id)
			return cfg->event[i].up;
	return false;
}

/* ---- progress -------------------------------------------------------------------------------- */

static double push_weight(const struct local *l)
{
	double sum = 0;

	for (uint16_t i = 0; i < l->cfg->nodes; i++) {
		const struct hk_learn_gossip *a = l->node[i].gossip;
		if (!a)
			continue;
		sum += a->slice[0].weight;
		for (uint16_t j = 0; j < l->cfg->nodes; j++)
			if (l->node[j].gossip)
				sum += hk_learn_gossip_given(a, j, 0) -
				       hk_learn_gossip_taken(a, j, 0);
	}
	return sum;
}

static double loss_of(const struct local *l, const double *w)
{
	double sum = 0, rows = 0;

	for (uint16_t i = 0; i < l->cfg->nodes; i++) {
		const struct hk_learn_data *d = &l->shard[i];
		sum += hk_learn_loss(l->model, w, d, l->scratch) * (double)d->rows;
		rows += (double)d->rows;
	}
	return sum / rows;
}

static struct hk_learn_progress measure(struct local *l)
{
	struct hk_learn_progress p = {
		.round = l->round, .rows = l->out->rows, .bytes = l->out->bytes};
	size_t n = hk_learn_parameters(l->model);
	double off = 0, norm = 0;

	memset(l->mean, 0, n * sizeof(double));
	for (uint16_t i = 0; i < l->cfg->nodes; i++) {
		const struct hk_learn_gossip *g = l->node[i].gossip;
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
	for (uint16_t i = 0; i < l->cfg->nodes; i++) {
		const struct hk_learn_gossip *g = l->node[i].gossip;
		for (size_t j = 0; g && j < n; j++)
			off += (g->train.w[j] - l->mean[j]) * (g->train.w[j] - l->mean[j]);
	}
	p.loss /= p.living;
	p.consensus = sqrt(off / p.living / fmax(norm, 1e-300));
	p.push_weight = l->set->merge == HK_LEARN_PUSH_SUM ? push_weight(l) : 0;
	return p;
}

/* ---- the whole run --------------------------------------------------------------------------- */

static uint32_t most_rounds(const struct local *l)
{
	const struct hk_learn_settings *set = l->set;
	double most = 0;

	if (l->cfg->max_rounds)
		return l->cfg->max_rounds;
	for (uint16_t i = 0; i < l->cfg->nodes; i++)
		most = fmax(most, (double)l->shard[i].rows);
	double a_round = (double)set->batch * fmax(1, set->gossip_every);
	double rounds = 4 * (ceil(most / a_round) * set->max_epochs + set->settle) + 1000;
	if (l->cfg->turn)
		rounds *= l->cfg->nodes;
	return rounds > UINT32_MAX ? UINT32_MAX : (uint32_t)rounds;
}

static bool has_turn(const struct local *l, uint16_t node)
{
	return !l->cfg->turn || l->round / l->cfg->turn % l->cfg->nodes == node;
}

static int run(struct local *l, bool (*on_progress)(void *, const struct hk_learn_progress *),
	       void *arg, struct hk_error *err)
{
	uint32_t last = most_rounds(l), every = on_progress ? l->cfg->progress_every : 0;
	bool going = true;

	for (l->round = 0; going && l->round < last; l->round++) {
		int rc = events(l, err);
		if (rc != 0)
			return rc;
		going = l->event < l->cfg->events;
		for (uint16_t i = 0; i < l->cfg->nodes; i++) {
			struct local_node *p = &l->node[i];
			if (!p->gossip)
				continue;
			if (has_turn(l, i)) {
				deliver(l, p);
				p->done = !hk_learn_gossip_round(p->gossip);
			}
			going |= !p->done;
		}
		if (l->rc != 0)
			return hk_error_set(err, l->rc,
					    "no memory for messages on the simulated network");
		if (every && (l->round % every == 0 || !going)) {
			struct hk_learn_progress now = measure(l);
			if (!on_progress(arg, &now))
				return hk_error_set(err, -ECANCELED,
						    "on_progress ended the training");
		}
	}
	l->out->rounds = l->round;
	return 0;
}

static int check(const struct hk_learn_local *cfg, const struct hk_learn_data *shard,
		 struct hk_error *err)
{
	if (cfg->nodes == 0 || cfg->nodes > HK_RTC_MAX_NODES)
		return hk_error_set(err, -EINVAL, "a job cannot have %u nodes; fix: use 1 to %d",
				    cfg->nodes, HK_RTC_MAX_NODES);
	if (cfg->topology < HK_RTC_ALL || cfg->topology >= HK_RTC_FILE)
		return hk_error_set(err, -EINVAL,
				    "topology %d does not work in one process; fix: use all, ring, "
				    "random or exponential",
				    cfg->topology);
	if (!(cfg->drop >= 0 && cfg->drop <= 1) || !(cfg->duplicate >= 0 && cfg->duplicate <= 1))
		return hk_error_set(err, -EINVAL,
				    "drop %g or duplicate %g is invalid; fix: use 0 to 1",
				    cfg->drop, cfg->duplicate);
	for (size_t i = 0; i < cfg->events; i++)
		if (cfg->event[i].node >= cfg->nodes)
			return hk_error_set(
				err, -EINVAL,
				"an event names node %u of %u; fix: name an existing node",
				cfg->event[i].node, cfg->nodes);
	for (uint16_t i = 0; i < cfg->nodes; i++)
		if (shard[i].rows == 0)
			return hk_error_set(
				err, -EINVAL,
				"node %u has no row; fix: use fewer nodes, or more rows", i);
	return 0;
}

static int topology(const struct local *l, struct local_node *p, struct hk_error *err)
{
	const struct hk_rtc_config cfg = {
		.node = p->id,
		.nodes = l->cfg->nodes,
		.topology = (enum hk_rtc_topology)l->cfg->topology,
		.degree = l->cfg->degree ? l->cfg->degree : 2,
		.seed = l->set->seed,
	};

	return hk_rtc_topology_init(&p->topology, &cfg, err);
}

static void finish(struct local *l, double *w)
{
	size_t n = hk_learn_parameters(l->model);

	for (uint16_t i = 0; l->node && i < l->cfg->nodes; i++) {
		struct local_node *p = &l->node[i];
		for (size_t j = 0; j < n; j++)
			w[i * n + j] = p->gossip ? p->gossip->train.w[j] : NAN;
		if (p->last)
			crash(l, i);
		hk_rtc_topology_free(&p->topology);
	}
	free(l->node);
	free(l->mean);
	free(l->scratch);
	free(l->epoch);
}

int hk_learn_local(const struct hk_learn_model *m, const struct hk_learn_settings *set,
		   const struct hk_learn_local *cfg, const struct hk_learn_data *shard, double *w,
		   bool (*on_progress)(void *arg, const struct hk_learn_progress *p), void *arg,
		   struct hk_learn_result *out, struct hk_error *err)
{
	struct local l = {.model = m, .set = set, .cfg = cfg, .shard = shard, .out = out};
	int rc = hk_learn_check(m, err);

	*out = (struct hk_learn_result){0};
	if (rc == 0)
		rc = check(cfg, shard, err);
	if (rc != 0)
		return rc;
	l.random = hk_learn_random_of(set->seed, 0xbeef);
	l.node = calloc(cfg->nodes, sizeof(*l.node));
	l.mean = calloc(hk_learn_parameters(m), sizeof(double));
	l.scratch = calloc(hk_learn_scratch(m), sizeof(double));
	l.epoch = calloc(cfg->nodes, sizeof(*l.epoch));
	rc = l.node && l.mean && l.scratch && l.epoch ? 0 : hk_error_set(err, -ENOMEM, "no memory");
	for (uint16_t i = 0; rc == 0 && i < cfg->nodes; i++) {
		struct local_node *p = &l.node[i];
		*p = (struct local_node){.all = &l, .id = i, .last = &p->first};
		rc = topology(&l, p, err);
		if (rc == 0 && !comes_later(cfg, i))
			rc = start(&l, i, err);
	}
	if (rc == 0) {
		find_neighbours(&l);
		rc = run(&l, on_progress, arg, err);
	}
	finish(&l, w);
	return rc;
}
