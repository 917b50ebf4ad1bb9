/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/learn/test_push_sum.c: the weights that push-sum gives and takes. Refused, lost or
 * copied parts must not lose weight, nor bring back what was given before.
 */
#include "tests/unit/learn/one_node.h"

/* A neighbour that ended takes weight until the others notice. Then they must reset their weights,
 * or no node has enough to be heard. */
TEST(weight_given_to_the_dead)
{
	struct job j = prepare(HK_LEARN_PUSH_SUM);
	struct hk_learn_slice_hdr last;
	struct hk_learn_gossip *g = open_one(&j, &last);

	for (int i = 0; i < 100; i++)
		hk_learn_gossip_round(g);
	CHECK(g->slice[0].weight < HK_LEARN_PUSH_LEAST);
	hk_learn_gossip_peer_left(g, 1);
	CHECK(g->slice[0].weight == 1);
	finish(g, &j);
}

/* A refused part must neither keep its weight, or gossip ends for lack of weight, nor come again
 * with a later message. */
TEST(a_refused_part_gives_its_weight)
{
	struct job j = prepare(HK_LEARN_PUSH_SUM);
	struct hk_learn_slice_hdr last;
	struct hk_learn_gossip *g = open_one(&j, &last);
	struct giver from = make_giver(), broken;

	give(&from, 1e6);
	CHECK_EQ(deliver(g, &from), HK_LEARN_R_FAR);
	check_model(g, 0, 1.5);
	give(&from, 1);
	CHECK_EQ(deliver(g, &from), HK_LEARN_TAKEN);
	check_model(g, 0.25, 2);
	give(&from, 1);
	broken = from;
	broken.values[3] = NAN;
	CHECK_EQ(deliver(g, &broken), HK_LEARN_R_NOT_FINITE);
	check_model(g, 0.25, 2.5);
	give(&from, 1); /* the difference to NaN */
	CHECK_EQ(deliver(g, &from), HK_LEARN_R_NOT_FINITE);
	check_model(g, 0.25, 3);
	give(&from, 2);
	CHECK_EQ(deliver(g, &from), HK_LEARN_TAKEN);
	check_model(g, 0.5, 3.5);
	g->slice[0].age = 100000;
	give(&from, 1);
	CHECK_EQ(deliver(g, &from), HK_LEARN_R_STALE);
	check_model(g, 0.5, 4);
	CHECK(hk_learn_gossip_taken(g, 1, 0) == from.h.weight);
	finish(g, &j);
}

/* A neighbour returns, gives parts of its young model in messages that are lost, and then copies an
 * old one. Its age tells nothing of the earlier parts. */
TEST(a_part_given_before_a_copy_is_stale)
{
	struct job j = prepare(HK_LEARN_PUSH_SUM);
	struct hk_learn_slice_hdr last;
	struct hk_learn_gossip *g = open_one(&j, &last);
	struct giver from = make_giver();

	from.h.age = g->slice[0].age = 100000;
	give(&from, 3); /* lost */
	from.h.since_copy = 1;
	give(&from, 1);
	from.h.since_copy = 1;
	CHECK_EQ(deliver(g, &from), HK_LEARN_R_STALE);
	check_model(g, 0, 2);
	give(&from, 1);
	CHECK_EQ(deliver(g, &from), HK_LEARN_TAKEN);
	check_model(g, 0.2, 2.5);
	give(&from, 3); /* lost */
	give(&from, 2.2);
	CHECK_EQ(deliver(g, &from), HK_LEARN_TAKEN);
	check_model(g, (2.5 * 0.2 + 0.5 * 3 + 0.5 * 2.2) / 3.5, 3.5);
	from.h.since_copy = (uint32_t)++from.h.number; /* before the first message */
	CHECK_EQ(deliver(g, &from), HK_LEARN_R_BYTES);
	finish(g, &j);
}

/* The node of that test, seen from inside. */
TEST(a_copy_is_marked)
{
	struct job j = prepare(HK_LEARN_PUSH_SUM);
	struct hk_learn_slice_hdr last;
	struct hk_learn_gossip *g = open_one(&j, &last);
	struct giver from = make_giver();

	hk_learn_gossip_round(g);
	hk_learn_gossip_round(g);
	CHECK_EQ(last.number, 2);
	CHECK_EQ(last.since_copy, 0);
	from.h.age = 100000;
	give(&from, 1);
	CHECK_EQ(deliver(g, &from), HK_LEARN_TAKEN);
	CHECK_EQ(g->stats.copied, 1);
	for (unsigned i = 0; i <= P; i++)
		CHECK(g->train.w[i] == 1);
	hk_learn_gossip_round(g);
	CHECK_EQ(last.number - last.since_copy, 2);
	hk_learn_gossip_round(g);
	CHECK_EQ(last.number, 4);
	CHECK_EQ(last.since_copy, 2);
	finish(g, &j);
}
