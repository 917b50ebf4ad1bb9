/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/learn/test_neighbours.c: what a node believes of neighbours that are slow, late, alone
 * or false.
 */
#include "tests/unit/learn/one_node.h"

/* A node that trains faster than all others takes what they send. With only one neighbour it cannot
 * know whether that one is slow or has just come back. */
TEST(slow_neighbours_are_not_stale)
{
	struct job j = prepare(HK_LEARN_MEAN);
	struct hk_learn_slice_hdr last;
	struct giver slow = make_giver(), other;

	neighbours = 2;
	struct hk_learn_gossip *g = open_one(&j, &last);

	slow.h.merge = HK_LEARN_MEAN;
	slow.h.age = 1000;
	give(&slow, 1e-3);
	other = slow;
	g->slice[0].age = 100000;
	CHECK_EQ(deliver_from(g, 1, &slow), HK_LEARN_R_STALE);
	CHECK_EQ(deliver_from(g, 2, &other), HK_LEARN_TAKEN);
	give(&slow, 1e-3);
	CHECK_EQ(deliver_from(g, 1, &slow), HK_LEARN_TAKEN);
	give(&slow, 1e6); /* too far, as parameters are that are so late */
	CHECK_EQ(deliver_from(g, 1, &slow), HK_LEARN_R_STALE);
	other.h.age = 90000; /* which is as fast as we are */
	give(&other, 1e-3);
	CHECK_EQ(deliver_from(g, 2, &other), HK_LEARN_TAKEN);
	give(&slow, 1e-3);
	CHECK_EQ(deliver_from(g, 1, &slow), HK_LEARN_R_STALE);
	finish(g, &j);
}

/* Sends 20 messages with parameters that are all @z, of @age. Returns how many are taken. */
static unsigned send_aged(struct hk_learn_gossip *g, uint16_t src, double z, uint64_t age)
{
	static uint64_t number;
	struct giver from = make_giver();
	unsigned taken = 0;

	from.h.merge = (uint8_t)g->set->merge;
	from.h.age = age;
	for (unsigned i = 0; i <= P; i++)
		from.values[i] = z;
	for (unsigned k = 0; k < 20; k++) {
		from.h.number = ++number;
		taken += deliver_from(g, src, &from) == HK_LEARN_TAKEN;
	}
	return taken;
}

static unsigned send_all(struct hk_learn_gossip *g, uint16_t src, double z)
{
	return send_aged(g, src, z, 0);
}

/* While the others are silent, one far neighbour is all that a node knows. Only if most neighbours
 * are far is the node itself elsewhere. */
TEST(the_first_that_sends_may_lie)
{
	struct job j = prepare(HK_LEARN_MEAN);
	struct hk_learn_slice_hdr last;

	neighbours = 3;
	struct hk_learn_gossip *g = open_one(&j, &last);

	CHECK_EQ(send_all(g, 1, 50), 0);
	CHECK_EQ(send_all(g, 2, 0.1), 20);
	CHECK_EQ(send_all(g, 1, 50), 0);
	hk_learn_gossip_close(g);
	g = open_one(&j, &last);
	CHECK_EQ(send_all(g, 1, 50), 0);
	CHECK_CMP(send_all(g, 2, 50), >, 0);
	CHECK_EQ(send_all(g, 3, 50), 20);
	finish(g, &j);
}

/* With the trimmed mean one neighbour decides nothing: a mean of two does not defend. */
TEST(one_voice_is_not_merged)
{
	struct job j = prepare(HK_LEARN_TRIMMED);
	struct hk_learn_slice_hdr last;

	neighbours = 3;
	lost = 2;
	struct hk_learn_gossip *g = open_one(&j, &last);
	CHECK_EQ(send_all(g, 1, 1), 0);
	CHECK_EQ(g->stats.refused[HK_LEARN_R_FEW], 20);
	hk_learn_gossip_merge_trimmed(g);
	check_model(g, 0, 1);
	lost = 0; /* the others come back */
	CHECK_EQ(send_all(g, 2, 0.5), 20);
	CHECK_EQ(send_all(g, 3, 0.1), 20);
	CHECK_EQ(send_all(g, 1, 1), 20);
	hk_learn_gossip_merge_trimmed(g);
	check_model(g, 0.3, 1); /* the mean of 0.1 and 0.5 */
	finish(g, &j);
}

/* Long parameters make the first limit so wide that a faulty node passes. It must not become the
 * usual distance, or nobody refuses it later. */
TEST(a_liar_does_not_teach_the_guard)
{
	struct job j = prepare(HK_LEARN_TRIMMED);
	struct hk_learn_slice_hdr last;

	neighbours = 3;
	struct hk_learn_gossip *g = open_one(&j, &last);
	for (unsigned i = 0; i <= P; i++)
		g->train.w[i] = 10;
	CHECK_EQ(send_all(g, 1, 50), 0);
	for (unsigned k = 0; k < 5; k++) {
		CHECK_CMP(send_all(g, 2, 10.5), >=, 19);
		CHECK_EQ(send_all(g, 3, 9), 20);
		CHECK_EQ(send_all(g, 1, 50), 0);
	}
	CHECK_EQ(g->stats.refused[HK_LEARN_R_FAR], 100);
	finish(g, &j);
}

/* The machine did not run one neighbour, whose parameters are far now. Beside it a faulty node must
 * not seem usual. */
TEST(a_liar_beside_a_late_node_is_refused)
{
	struct job j = prepare(HK_LEARN_TRIMMED);
	struct hk_learn_slice_hdr last;

	neighbours = 3;
	struct hk_learn_gossip *g = open_one(&j, &last);
	CHECK_EQ(send_all(g, 1, 0.1), 0);
	CHECK_EQ(send_all(g, 2, 0.1), 20);
	CHECK_EQ(send_all(g, 3, 50), 0);
	g->slice[0].age = 100000;
	for (unsigned k = 0; k < 3; k++) {
		CHECK_EQ(send_aged(g, 1, 60, 1000), 0);
		CHECK_EQ(send_aged(g, 3, 50, 100000), 0);
		CHECK_EQ(send_aged(g, 2, 0.1, 100000), 20);
	}
	CHECK_EQ(g->stats.refused[HK_LEARN_R_STALE], 60);
	CHECK_EQ(g->stats.refused[HK_LEARN_R_FAR], 60);
	CHECK_EQ(g->stats.refused[HK_LEARN_R_FEW], 40); /* before two of one age were heard */
	CHECK_EQ(send_aged(g, 1, 0.2, 100000), 20);     /* it has caught up */
	finish(g, &j);
}

/* Losses and steps that one node reports must not count if there is no third. */
TEST(a_liar_does_not_set_loss_and_step)
{
	struct job j = prepare(HK_LEARN_TRIMMED);
	struct hk_learn_slice_hdr last;
	struct {
		struct hk_learn_status_hdr h;
		struct hk_learn_status_entry e;
	} says = {.h = {.version = HK_LEARN_VERSION,
			.count = 1,
			.fingerprint = hk_learn_fingerprint(&linear),
			.run = 5,
			.loss = NAN},
		  .e = {.node = 1, .run = 5, .number = 1, .loss = 1e9, .step = 1e-30}};
	unsigned halvings;
	double step;

	neighbours = 3;
	lost = 2;
	struct hk_learn_gossip *g = open_one(&j, &last);
	CHECK_EQ(hk_learn_gossip_message(g, 1, HK_LEARN_T_STATUS, &says, sizeof(says)),
		 HK_LEARN_TAKEN);
	CHECK(hk_learn_agree_loss(&g->agree, all_alive, NULL, NULL) == g->stats.loss);
	CHECK(hk_learn_agree_step(&g->agree, all_alive, NULL, &step, &halvings));
	CHECK(step == g->train.own_step);
	lost = 0;
	for (uint16_t i = 2; i <= 3; i++) {
		says.e = (struct hk_learn_status_entry){
			.node = i, .run = 5, .number = 1, .loss = 0.5, .step = 0.01};
		CHECK_EQ(hk_learn_gossip_message(g, i, HK_LEARN_T_STATUS, &says, sizeof(says)),
			 HK_LEARN_TAKEN);
	}
	CHECK(hk_learn_agree_loss(&g->agree, all_alive, NULL, NULL) < 10);
	CHECK(hk_learn_agree_step(&g->agree, all_alive, NULL, &step, &halvings));
	CHECK(step == 0.01);
	finish(g, &j);
}

/* One forged message with the highest number must not make all later ones old. */
TEST(a_forged_number_costs_one_message)
{
	struct job j = prepare(HK_LEARN_MEAN);
	struct hk_learn_slice_hdr last;
	struct hk_learn_gossip *g = open_one(&j, &last);
	struct giver from = make_giver();

	from.h.merge = HK_LEARN_MEAN;
	for (uint64_t n = 1; n <= 20; n++) {
		from.h.number = UINT64_MAX - 40 + 2 * n;
		CHECK_EQ(deliver(g, &from), HK_LEARN_R_OLD);
		from.h.number = n;
		CHECK_EQ(deliver(g, &from), HK_LEARN_TAKEN);
		CHECK_EQ(deliver(g, &from), HK_LEARN_R_OLD);
	}
	/* two forged ones in a row are believed, and then so are two of the neighbour */
	for (from.h.number = UINT64_MAX - 1; from.h.number != 0; from.h.number++)
		deliver(g, &from);
	CHECK_EQ(g->peer[1]->number[0], UINT64_MAX);
	from.h.number = 21;
	CHECK_EQ(deliver(g, &from), HK_LEARN_R_OLD);
	from.h.number = 22;
	CHECK_EQ(deliver(g, &from), HK_LEARN_TAKEN);
	finish(g, &j);
}

/* A false age must not make the parameters of one node replace those of all. */
TEST(an_age_counts_if_a_second_node_supports_it)
{
	for (int merge = 0; merge < HK_LEARN_MERGES; merge++) {
		struct job j = prepare((enum hk_learn_merge)merge);
		struct hk_learn_slice_hdr last;
		neighbours = 3;
		struct hk_learn_gossip *g = open_one(&j, &last);
		struct giver from = make_giver();

		from.h.merge = (uint8_t)merge;
		from.h.age = UINT64_C(1) << 62;
		give(&from, 0);
		deliver_from(g, 1, &from);
		CHECK_EQ(g->slice[0].age, 0);
		CHECK_EQ(g->stats.copied, 0);
		from.h.age = 5000;
		deliver_from(g, 2, &from);
		from.h.age = 6000;
		deliver_from(g, 3, &from);
		hk_learn_gossip_merge_trimmed(g);
		/* trimmed: the first voice was not taken, and of two ages the lower one counts */
		CHECK_EQ(g->slice[0].age, merge == HK_LEARN_TRIMMED ? 5000 : 6000);
		hk_learn_gossip_close(g);
		test_data_free(&j.data);
	}
	neighbours = 1;
}

/* A node that missed all messages about the end would train on alone, after the others left. */
TEST(a_node_ends_when_its_neighbours_know)
{
	struct job j = prepare(HK_LEARN_MEAN);
	struct hk_learn_slice_hdr last;
	struct hk_learn_status_hdr says = {.version = HK_LEARN_VERSION,
					   .flags = HK_LEARN_STATUS_F_STOP,
					   .reason = HK_LEARN_STOP_ASKED,
					   .fingerprint = hk_learn_fingerprint(&linear),
					   .run = 5,
					   .loss = NAN};

	neighbours = 3;
	for (int how = 0; how < 3; how++) {
		struct hk_learn_gossip *g = open_one(&j, &last);
		CHECK_EQ(hk_learn_gossip_message(g, 1, HK_LEARN_T_STATUS, &says, sizeof(says)),
			 HK_LEARN_TAKEN);
		for (int i = 0; i < 200; i++)
			CHECK(hk_learn_gossip_round(g));
		CHECK(hk_learn_gossip_unaware(g) > 1);
		CHECK_EQ(hk_learn_gossip_message(g, 2, HK_LEARN_T_STATUS, &says, sizeof(says)),
			 HK_LEARN_TAKEN);
		CHECK(hk_learn_gossip_round(g));
		CHECK_EQ(hk_learn_gossip_unaware(g), 3);
		if (how == 0) { /* it learns of the end */
			CHECK_EQ(hk_learn_gossip_message(g, 3, HK_LEARN_T_STATUS, &says,
							 sizeof(says)),
				 HK_LEARN_TAKEN);
			CHECK(!hk_learn_gossip_round(g));
		} else if (how == 1) { /* it leaves */
			lost = 1;
			hk_learn_gossip_peer_left(g, 3);
			CHECK(!hk_learn_gossip_round(g));
			lost = 0;
		} else { /* one that knew restarts */
			says.run++;
			says.flags = says.reason = 0;
			CHECK_EQ(hk_learn_gossip_message(g, 2, HK_LEARN_T_STATUS, &says,
							 sizeof(says)),
				 HK_LEARN_TAKEN);
			lost = 1;
			CHECK(hk_learn_gossip_round(g));
			CHECK_EQ(hk_learn_gossip_unaware(g), 2);
			lost = 0;
		}
		hk_learn_gossip_close(g);
	}
	neighbours = 1;
	test_data_free(&j.data);
}
