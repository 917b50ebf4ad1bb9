/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/learn/one_node.h: a node of gossip whose neighbours are the test, which makes their
 * messages.
 */
#ifndef HK_LEARN_ONE_NODE_H
#define HK_LEARN_ONE_NODE_H

#include "hikyaku/rtc.h"
#include "learn/gossip_peer.h"
#include "tests/unit/learn/data.h"

#define P 6

static const struct hk_learn_model linear = {HK_LEARN_LINEAR, P, 0, 0, false, 0.01};

struct job {
	struct hk_learn_settings set;
	struct test_data data;
};

static struct job prepare(enum hk_learn_merge merge)
{
	struct job j = {.data = test_data_make(500, P, 0, 1, 2)};

	hk_learn_defaults(&j.set);
	j.set.seed = hk_test_now.seed;
	j.set.merge = merge;
	return j;
}

static unsigned neighbours = 1, lost;

static unsigned the_others(void *arg, const uint16_t **list)
{
	static const uint16_t others[] = {1, 2, 3};

	*list = others;
	return neighbours - lost;
}

static int pick_one(void *arg)
{
	return 1;
}

static bool all_alive(void *arg, uint16_t node)
{
	return node <= neighbours - lost;
}

/* Keeps the header of the last slice. */
static void keep_header(void *arg, uint16_t dst, uint8_t type, const void *data, size_t len)
{
	if (type != HK_LEARN_T_STATUS)
		memcpy(arg, data, sizeof(struct hk_learn_slice_hdr));
}

static struct hk_learn_gossip *open_one(struct job *j, struct hk_learn_slice_hdr *last)
{
	const struct hk_learn_gossip_config cfg = {
		.model = &linear,
		.set = &j->set,
		.data = j->data.shard[0],
		.nodes = (uint16_t)(neighbours + 1),
		.run = 1,
		.payload_max = 1400,
		.net = {last, the_others, pick_one, all_alive, keep_header},
	};
	const struct hk_learn_status_hdr hello = {.version = HK_LEARN_VERSION,
						  .fingerprint = hk_learn_fingerprint(&linear),
						  .run = 5,
						  .loss = NAN};
	struct hk_learn_gossip *g;

	CHECK(hk_learn_gossip_open(&cfg, &g, NULL) == 0);
	for (uint16_t i = 1; i <= neighbours; i++)
		CHECK(hk_learn_gossip_message(g, i, HK_LEARN_T_STATUS, &hello, sizeof(hello)) ==
		      HK_LEARN_TAKEN);
	return g;
}

/* Ends what open_one() and prepare() began. The next test has one neighbour again. */
static void finish(struct hk_learn_gossip *g, struct job *j)
{
	hk_learn_gossip_close(g);
	neighbours = 1;
	test_data_free(&j->data);
}

/* The neighbour's sums, and its next message. */
struct giver {
	struct hk_learn_slice_hdr h;
	double values[P + 1];
};

static struct giver make_giver(void)
{
	return (struct giver){.h = {.version = HK_LEARN_VERSION,
				    .merge = HK_LEARN_PUSH_SUM,
				    .slices = 1,
				    .count = P + 1,
				    .fingerprint = hk_learn_fingerprint(&linear),
				    .run = 5,
				    .to_run = 1}};
}

/* Gives parameters that are all @z with weight 1/2. */
static void give(struct giver *from, double z)
{
	from->h.number++;
	from->h.since_copy += from->h.since_copy > 0;
	from->h.weight += 0.5;
	for (unsigned i = 0; i <= P; i++)
		from->values[i] += 0.5 * z;
}

HK_TEST_UNUSED static enum hk_learn_reason deliver_from(struct hk_learn_gossip *g, uint16_t src,
							const struct giver *from)
{
	uint8_t bytes[sizeof(from->h) + sizeof(from->values)];

	memcpy(bytes, &from->h, sizeof(from->h));
	memcpy(bytes + sizeof(from->h), from->values, sizeof(from->values));
	return hk_learn_gossip_message(g, src, HK_LEARN_T_SLICE, bytes, sizeof(bytes));
}

HK_TEST_UNUSED static enum hk_learn_reason deliver(struct hk_learn_gossip *g,
						   const struct giver *from)
{
	return deliver_from(g, 1, from);
}

HK_TEST_UNUSED static void check_model(const struct hk_learn_gossip *g, double w, double weight)
{
	for (unsigned i = 0; i <= P; i++)
		CHECK_MSG(fabs(g->train.w[i] - w) < 1e-12, "parameter %u: %g, not %g", i,
			  g->train.w[i], w);
	CHECK_MSG(fabs(g->slice[0].weight - weight) < 1e-12, "weight %g, not %g",
		  g->slice[0].weight, weight);
}

#endif
