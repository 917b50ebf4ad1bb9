/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/gossip_open.c: makes and frees a node (learn/gossip.h).
 */
#include "learn/gossip_peer.h"

#include "hikyaku/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Least number of batches between two measurements of the loss. */
#define MEASURE_MIN 32

unsigned hk_learn_gossip_slices(size_t parameters, size_t payload_max)
{
	size_t payload = payload_max < sizeof(struct hk_learn_slice_hdr)
				 ? 0
				 : payload_max - sizeof(struct hk_learn_slice_hdr);
	size_t per = payload / sizeof(double);

	return per ? (unsigned)HK_MIN((parameters + per - 1) / per, (size_t)UINT16_MAX)
		   : UINT16_MAX;
}

static void make_slices(struct hk_learn_gossip *g)
{
	for (unsigned i = 0; i < g->slices; i++) {
		struct hk_learn_gossip_slice *s = &g->slice[i];
		s->first = i * g->per_slice;
		s->count = HK_MIN(g->per_slice, g->parameters - s->first);
		s->weight = 1;
	}
}

static int check(const struct hk_learn_gossip_config *cfg, struct hk_error *err)
{
	int rc = hk_learn_check(cfg->model, err);

	if (rc == 0)
		rc = hk_learn_check_settings(cfg->set, err);
	if (rc != 0)
		return rc;
	if (cfg->data.rows == 0 || cfg->data.rows > UINT32_MAX)
		return hk_error_set(err, -EINVAL,
				    "node %u cannot have %zu rows; fix: use 1 to 2^32 - 1",
				    cfg->node, cfg->data.rows);
	if (cfg->run == 0 || cfg->node >= cfg->nodes || (unsigned)cfg->fault >= HK_LEARN_FAULTS)
		return hk_error_set(err, -EINVAL,
				    "node %u of %u, run %u, fault %d is invalid; fix: use existing "
				    "nodes and faults, and a run above 0",
				    cfg->node, cfg->nodes, cfg->run, (int)cfg->fault);
	size_t n = hk_learn_parameters(cfg->model);
	if (hk_learn_gossip_slices(n, cfg->payload_max) > HK_LEARN_MAX_SLICES)
		return hk_error_set(err, -EMSGSIZE,
				    "%zu parameters do not fit %u messages of %zu bytes; fix: use "
				    "larger frames, fewer hidden units, or fewer features",
				    n, HK_LEARN_MAX_SLICES, cfg->payload_max);
	return 0;
}

int hk_learn_gossip_open(const struct hk_learn_gossip_config *cfg, struct hk_learn_gossip **out,
			 struct hk_error *err)
{
	int rc = check(cfg, err);
	size_t n = rc == 0 ? hk_learn_parameters(cfg->model) : 0;
	struct hk_learn_gossip *g;

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
	g->neighbours = cfg->neighbours ? cfg->neighbours : cfg->nodes - 1u;
	g->run = cfg->run;
	g->fingerprint = hk_learn_fingerprint(cfg->model);
	g->fault = cfg->fault;
	g->fault_scale = cfg->fault_scale;
	g->random = hk_learn_random_of(cfg->set->seed, 0xfa0000u + cfg->node);
	g->parameters = n;
	g->slices = hk_learn_gossip_slices(n, cfg->payload_max);
	g->per_slice = (n + g->slices - 1) / g->slices;
	/* after rounding up, the last slices may be empty */
	g->slices = (unsigned)((n + g->per_slice - 1) / g->per_slice);
	g->frame_capacity = cfg->payload_max;
	g->measure_every = (g->data.rows + g->set->batch - 1) / g->set->batch;
	g->measure_every = HK_MAX(g->measure_every, MEASURE_MIN);
	g->slice = calloc(g->slices, sizeof(*g->slice));
	g->peer = calloc(cfg->nodes, sizeof(struct hk_learn_gossip_peer *));
	g->previous = calloc(n, sizeof(double));
	g->received = calloc(n, sizeof(double));
	g->mix = calloc(n, sizeof(double));
	g->values = calloc(g->per_slice, sizeof(double));
	g->difference = calloc(g->per_slice, sizeof(double));
	g->others = calloc(cfg->nodes, sizeof(double *));
	g->sorted = calloc(cfg->nodes + 1u, sizeof(double));
	g->frame = malloc(cfg->payload_max);
	g->stats.loss = g->stats.loss_all = g->stats.consensus = NAN;
	if (!g->slice || !g->peer || !g->previous || !g->received || !g->mix || !g->values ||
	    !g->difference || !g->others || !g->sorted || !g->frame ||
	    hk_learn_train_open(&g->train, g->model, &g->data, g->set, g->node) != 0 ||
	    hk_learn_agree_open(&g->agree, g->node, g->nodes, g->fingerprint, g->run, g->set) !=
		    0) {
		hk_learn_gossip_close(g);
		return hk_error_set(err, -ENOMEM, "no memory for %zu parameters", n);
	}
	make_slices(g);
	memcpy(g->previous, g->train.w, n * sizeof(double));
	hk_learn_gossip_measure(g); /* enters our step into the table for the others */
	*out = g;
	return 0;
}

void hk_learn_gossip_close(struct hk_learn_gossip *g)
{
	if (!g)
		return;
	for (unsigned i = 0; g->peer && i < g->nodes; i++)
		hk_learn_gossip_peer_free(g->peer[i]);
	hk_learn_train_close(&g->train);
	hk_learn_agree_close(&g->agree);
	free(g->slice);
	free(g->peer);
	free(g->previous);
	free(g->received);
	free(g->mix);
	free(g->values);
	free(g->difference);
	free(g->others);
	free(g->sorted);
	free(g->frame);
	free(g);
}
