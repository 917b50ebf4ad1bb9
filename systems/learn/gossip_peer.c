/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/gossip_peer.c: the state of peers (learn/gossip_peer.h). It is made at first contact, so
 * that in a job of a thousand nodes with ten neighbours each, a node keeps ten.
 */
#include "learn/gossip_peer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct hk_learn_push *new_sums(const struct hk_learn_gossip *g, double *values)
{
	struct hk_learn_push *sums = calloc(g->slices, sizeof(*sums));

	for (unsigned i = 0; sums && i < g->slices; i++)
		sums[i].values = values + g->slice[i].first;
	return sums;
}

static bool make_rest(const struct hk_learn_gossip *g, struct hk_learn_gossip_peer *p)
{
	if (g->set->merge == HK_LEARN_PUSH_SUM) {
		p->sums = calloc(2 * g->parameters, sizeof(double));
		if (!p->sums)
			return false;
		p->given = new_sums(g, p->sums);
		p->taken = new_sums(g, p->sums + g->parameters);
		return p->given && p->taken;
	}
	if (g->set->merge == HK_LEARN_TRIMMED) {
		p->latest = calloc(g->parameters, sizeof(double));
		p->age = calloc(g->slices, sizeof(uint64_t));
		p->fresh = calloc(g->slices, sizeof(bool));
		p->came = calloc(g->slices, sizeof(bool));
		return p->latest && p->age && p->fresh && p->came;
	}
	return true;
}

static void forget_heard(const struct hk_learn_gossip *g, struct hk_learn_gossip_peer *p)
{
	for (unsigned i = 0; i < g->slices; i++)
		p->heard[i] = NAN;
}

struct hk_learn_gossip_peer *hk_learn_gossip_peer(struct hk_learn_gossip *g, uint16_t node)
{
	struct hk_learn_gossip_peer *p;

	if (node >= g->nodes || node == g->node)
		return NULL;
	if (g->peer[node])
		return g->peer[node];
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->number = calloc(g->slices, sizeof(uint64_t));
	p->distance = calloc(g->slices, sizeof(double));
	p->heard = calloc(g->slices, sizeof(double));
	p->jump = calloc(g->slices, sizeof(uint64_t));
	p->claim = calloc(g->slices, sizeof(uint64_t));
	if (!p->number || !p->jump || !p->claim || !p->distance || !p->heard || !make_rest(g, p)) {
		hk_learn_gossip_peer_free(p);
		return NULL;
	}
	forget_heard(g, p);
	g->peer[node] = p;
	return p;
}

void hk_learn_gossip_peer_free(struct hk_learn_gossip_peer *p)
{
	if (!p)
		return;
	free(p->number);
	free(p->jump);
	free(p->claim);
	free(p->distance);
	free(p->heard);
	free(p->fresh);
	free(p->came);
	free(p->age);
	free(p->latest);
	free(p->given);
	free(p->taken);
	free(p->sums);
	free(p);
}

void hk_learn_gossip_reset_weights(struct hk_learn_gossip *g)
{
	for (unsigned i = 0; i < g->slices; i++)
		g->slice[i].weight = HK_MAX(g->slice[i].weight, 1.0);
}

void hk_learn_gossip_peer_left(struct hk_learn_gossip *g, uint16_t node)
{
	if (node < g->nodes && g->peer[node]) {
		g->peer[node]->active = false;
		forget_heard(g, g->peer[node]);
		memset(g->peer[node]->claim, 0, g->slices * sizeof(*g->peer[node]->claim));
		hk_learn_gossip_reset_weights(g);
	}
}

bool hk_learn_gossip_peer_run(struct hk_learn_gossip *g, struct hk_learn_gossip_peer *p,
			      uint32_t run)
{
	if (p->run == run)
		return true;
	if (p->run != 0 && !hk_learn_run_later(run, p->run))
		return false;
	if (p->run != 0) {
		g->stats.resets++;
		hk_learn_gossip_reset_weights(g);
	}
	p->run = run;
	p->far = p->stopped = false;
	memset(p->number, 0, g->slices * sizeof(*p->number));
	memset(p->jump, 0, g->slices * sizeof(*p->jump));
	memset(p->claim, 0, g->slices * sizeof(*p->claim));
	forget_heard(g, p);
	if (p->fresh) {
		memset(p->fresh, 0, g->slices * sizeof(*p->fresh));
		memset(p->came, 0, g->slices * sizeof(*p->came));
	}
	/* the sums belong to the peer's earlier incarnation */
	for (unsigned i = 0; p->given && i < g->slices; i++)
		p->given[i].weight = p->taken[i].weight = 0;
	if (p->sums)
		memset(p->sums, 0, 2 * g->parameters * sizeof(*p->sums));
	return true;
}

double hk_learn_gossip_given(const struct hk_learn_gossip *g, uint16_t node, unsigned i)
{
	return g->peer[node] && g->peer[node]->given ? g->peer[node]->given[i].weight : 0;
}

double hk_learn_gossip_taken(const struct hk_learn_gossip *g, uint16_t node, unsigned i)
{
	return g->peer[node] && g->peer[node]->taken ? g->peer[node]->taken[i].weight : 0;
}
