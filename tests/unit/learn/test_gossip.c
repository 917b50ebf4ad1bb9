/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/learn/test_gossip.c: many nodes on a network that loses, delays and duplicates
 * messages.
 *
 * Some nodes send false parameters; others crash, come back or start late. The tests compare the
 * models with the closed form.
 */
#include "hikyaku/error.h"
#include "learn/gossip_peer.h"
#include "hikyaku/rtc.h"
#include "tests/unit/learn/data.h"

#include <errno.h>

#define NODES 8
#define P     6

static const struct hk_learn_model linear = {HK_LEARN_LINEAR, P, 0, 0, false, 0.01};

struct job {
	struct hk_learn_settings set;
	struct hk_learn_local how;
	struct test_data data;
	struct hk_learn_result out;
	double w[64 * (P + 1)];
	double best; /* least possible loss */
};

static struct job prepare(unsigned nodes, enum hk_learn_merge merge)
{
	struct job j = {
		.how = {.nodes = (uint16_t)nodes, .topology = HK_RTC_ALL, .payload_max = 1400}};
	double w[P + 1], scratch[8];

	hk_learn_defaults(&j.set);
	j.set.seed = hk_test_now.seed;
	j.set.merge = merge;
	j.data = test_data_make(250ul * nodes, P, 0, 1, nodes);
	test_least_squares(&j.data.all, P, linear.l2, w);
	j.best = hk_learn_loss(&linear, w, &j.data.all, scratch);
	return j;
}

static void run(struct job *j, bool (*on_progress)(void *, const struct hk_learn_progress *),
		void *arg)
{
	CHECK_OK(hk_learn_local(&linear, &j->set, &j->how, j->data.shard, j->w, on_progress, arg,
				&j->out, ERR));
}

/* Returns by what share the loss of @node's model on all rows exceeds the best. */
static double above(const struct job *j, unsigned node)
{
	double scratch[8];

	return hk_learn_loss(&linear, j->w + node * (P + 1), &j->data.all, scratch) / j->best - 1;
}

static void check_close(const struct job *j, unsigned nodes, double most)
{
	for (unsigned i = 0; i < nodes; i++)
		CHECK_MSG(above(j, i) < most, "merge %d, node %u: %.3f %% above the best",
			  (int)j->set.merge, i, 100 * above(j, i));
}

TEST(every_merge_finds_the_best)
{
	const int topologies[] = {HK_RTC_ALL, HK_RTC_RING, HK_RTC_RANDOM, HK_RTC_EXPONENTIAL};

	for (int merge = 0; merge < HK_LEARN_MERGES; merge++) {
		struct job j = prepare(NODES, (enum hk_learn_merge)merge);
		j.how.topology = topologies[merge];
		j.how.degree = 4;
		run(&j, NULL, NULL);
		CHECK_EQ(j.out.stop, HK_LEARN_STOP_CONVERGED);
		/* the trimmed mean of few values differs from the mean */
		check_close(&j, NODES, merge == HK_LEARN_TRIMMED ? 0.01 : 0.005);
		test_data_free(&j.data);
	}
}

/* Also where messages go one way: those who send are not those to whom a node sends. */
TEST(trimmed_merges_in_each_topology)
{
	for (int topology = HK_RTC_ALL; topology < HK_RTC_FILE; topology++) {
		struct job j = prepare(NODES, HK_LEARN_TRIMMED);
		j.how.topology = topology;
		j.how.degree = 4;
		run(&j, NULL, NULL);
		CHECK_EQ(j.out.stop, HK_LEARN_STOP_CONVERGED);
		CHECK_CMP(j.out.merged, >, 1000);
		check_close(&j, NODES, 0.02);
		test_data_free(&j.data);
	}
}

/* Without gossip a model knows only its node's eighth of the rows. */
TEST(without_gossip_it_does_not)
{
	struct job j = prepare(NODES, HK_LEARN_MEAN);

	j.set.gossip_every = 0;
	run(&j, NULL, NULL);
	CHECK_EQ(j.out.messages, 0);
	double worst = 0;
	for (unsigned i = 0; i < NODES; i++)
		worst = fmax(worst, above(&j, i));
	CHECK_MSG(worst > 0.005, "%g", worst);
	test_data_free(&j.data);
}

TEST(a_bad_network)
{
	for (int merge = 0; merge < HK_LEARN_MERGES; merge++) {
		struct job j = prepare(4, (enum hk_learn_merge)merge);
		j.how.drop = 0.3;
		j.how.duplicate = 0.2;
		j.how.delay = 7;
		run(&j, NULL, NULL);
		CHECK_CMP(j.out.dropped, >, j.out.messages / 4);
		CHECK_CMP(j.out.refused[HK_LEARN_R_OLD], >, 0);
		check_close(&j, 4, 0.005);
		test_data_free(&j.data);
	}
}

/* Four nodes share a core: the running one trains against old parameters of the others. */
TEST(one_at_a_time)
{
	for (int merge = 0; merge < HK_LEARN_MERGES; merge++) {
		struct job j = prepare(4, (enum hk_learn_merge)merge);
		j.how.turn = 2000;
		run(&j, NULL, NULL);
		CHECK_EQ(j.out.stop, HK_LEARN_STOP_CONVERGED);
		check_close(&j, 4, 0.1);
		test_data_free(&j.data);
	}
}

/* The project's promise: within 1 % with 10 % of frames lost, one node of NaN and one of outliers.
 */
TEST(liars)
{
	const uint8_t fault[NODES] = {[2] = HK_LEARN_FAULT_NAN, [5] = HK_LEARN_FAULT_OUTLIER};

	for (int limit = 0; limit < 2; limit++) {
		struct job j = prepare(NODES, HK_LEARN_TRIMMED);
		j.how.drop = 0.1;
		j.how.fault = fault;
		j.how.fault_scale = limit ? 50 : 3;
		/* first by trimming alone, then with the distance limit */
		j.set.norm_limit = limit ? j.set.norm_limit : 0;
		run(&j, NULL, NULL);
		CHECK_CMP(j.out.refused[HK_LEARN_R_NOT_FINITE], >, 0);
		CHECK((j.out.refused[HK_LEARN_R_FAR] > 0) == (limit != 0));
		for (unsigned i = 0; i < NODES; i++)
			if (!fault[i])
				CHECK_MSG(above(&j, i) < 0.01, "node %u: %.3f %%", i,
					  100 * above(&j, i));
		test_data_free(&j.data);
	}
}

static double worst(const struct job *j, unsigned liar)
{
	double most = 0;

	for (unsigned i = 0; i < j->how.nodes; i++)
		most = i == liar ? most : fmax(most, above(j, i));
	return most;
}

/* The least job that --merge trimmed defends: one of four lies. The others share two cores, so one
 * of them may see nobody but the liar for a while. */
TEST(one_of_four_lies)
{
	const uint8_t fault[4] = {[2] = HK_LEARN_FAULT_OUTLIER};

	for (unsigned turn = 0; turn <= 2000; turn = turn ? turn * 10 : 20) {
		struct job j = prepare(4, HK_LEARN_TRIMMED);
		j.how.fault = fault;
		j.how.fault_scale = 50;
		j.how.turn = turn;
		run(&j, NULL, NULL);
		CHECK_EQ(j.out.stop, HK_LEARN_STOP_CONVERGED);
		/* the others go on merging: it is not each its own model */
		CHECK_CMP(j.out.merged, >, 1000);
		CHECK_MSG(worst(&j, 2) < (turn > 20 ? 0.1 : 0.01), "turn %u: %.3f %%", turn,
			  100 * worst(&j, 2));
		test_data_free(&j.data);
	}
}

/* Both neighbours of a node lie. It must not wait for parameters that it can use. */
TEST(all_neighbours_lie)
{
	const uint8_t fault[4] = {[1] = HK_LEARN_FAULT_NAN, [3] = HK_LEARN_FAULT_NAN};
	struct job j = prepare(4, HK_LEARN_TRIMMED);

	j.how.topology = HK_RTC_RING;
	j.how.fault = fault;
	run(&j, NULL, NULL);
	CHECK_EQ(j.out.stop, HK_LEARN_STOP_CONVERGED);
	CHECK_MSG(above(&j, 0) < 0.1 && above(&j, 2) < 0.1, "%.3f %%", 100 * above(&j, 0));
	test_data_free(&j.data);
}

/* The machine stops two of four for a while, so that the others give them up. One of these is left
 * with the liar. It must neither merge with it nor take over its loss and its step. */
TEST(left_with_the_liar)
{
	const uint8_t fault[4] = {[2] = HK_LEARN_FAULT_OUTLIER};
	const struct hk_learn_event events[] = {{200, 1, 0}, {200, 3, 0}, {900, 1, 1}, {900, 3, 1}};

	for (unsigned scale = 5; scale <= 50; scale *= 10) {
		struct job j = prepare(4, HK_LEARN_TRIMMED);
		j.how.fault = fault;
		j.how.fault_scale = scale;
		j.how.event = events;
		j.how.events = HK_ARRAY_LEN(events);
		run(&j, NULL, NULL);
		CHECK_MSG(worst(&j, 2) < 0.02, "outliers of %u: %.3f %%", scale,
			  100 * worst(&j, 2));
		CHECK_CMP(j.out.refused[HK_LEARN_R_FEW], >, 100);
		test_data_free(&j.data);
	}
}

/* Without the limit the mean takes the outliers. */
TEST(liars_win_without_defence)
{
	const uint8_t fault[NODES] = {[5] = HK_LEARN_FAULT_OUTLIER};
	struct job j = prepare(NODES, HK_LEARN_MEAN);

	j.how.fault = fault;
	j.how.fault_scale = 50;
	j.set.norm_limit = 0;
	j.set.max_epochs = 100;
	run(&j, NULL, NULL);
	CHECK_MSG(above(&j, 0) > 0.05, "%g", above(&j, 0));
	test_data_free(&j.data);
}

static bool weight_stays(void *arg, const struct hk_learn_progress *p)
{
	unsigned *calls = arg;

	++*calls;
	CHECK_MSG(fabs(p->push_weight - 4) < 1e-9, "round %u: weight of all %.12g", p->round,
		  p->push_weight);
	return true;
}

TEST(mass_stays_under_loss)
{
	struct job j = prepare(4, HK_LEARN_PUSH_SUM);
	unsigned calls = 0;

	j.how.drop = 0.3;
	j.how.delay = 5;
	j.how.duplicate = 0.1;
	j.how.topology = HK_RTC_EXPONENTIAL; /* messages go one way */
	j.how.progress_every = 10;
	j.set.max_epochs = 60;
	run(&j, weight_stays, &calls);
	CHECK_CMP(calls, >, 50);
	test_data_free(&j.data);
}

TEST(crash_and_return)
{
	const struct hk_learn_event events[] = {
		{0, 3, 1}, /* starts in the first round */
		{400, 1, 0}, {900, 1, 1}, {1200, 2, 0}, {1300, 2, 1}, {1500, 0, 0},
	};

	for (int merge = 0; merge < HK_LEARN_MERGES; merge++) {
		struct job j = prepare(5, (enum hk_learn_merge)merge);
		j.how.event = events;
		j.how.events = HK_ARRAY_LEN(events);
		j.how.drop = 0.05;
		j.set.halvings = 10;
		run(&j, NULL, NULL);
		CHECK_CMP(j.out.rounds, >, 1500);
		CHECK_CMP(j.out.stop, !=, HK_LEARN_GO);
		/* the node that came back copied the others' model, and did not pull them back */
		CHECK_CMP(j.out.copied, >, 0);
		CHECK_CMP(j.out.refused[HK_LEARN_R_STALE], >, 0);
		CHECK(isnan(j.w[0])); /* node 0 is down */
		for (unsigned i = 1; i < 5; i++)
			CHECK_MSG(above(&j, i) < 0.01, "merge %d, node %u: %.3f %%", merge, i,
				  100 * above(&j, i));
		test_data_free(&j.data);
	}
}

/* A node that returns begins with parameters and steps that are far from those of the others. It
 * must not spoil their models, and gossip must go on. */
TEST(the_others_stay_good)
{
	const struct hk_learn_event events[] = {{4000, 1, 0}, {4200, 1, 1}};

	for (int merge = 0; merge < HK_LEARN_MERGES; merge++) {
		struct job j = prepare(3, (enum hk_learn_merge)merge);
		j.how.event = events;
		j.how.events = HK_ARRAY_LEN(events);
		j.set.schedule = HK_LEARN_INVERSE;
		j.set.gossip_every = 4;
		j.how.max_rounds = 7000; /* before any node ends */
		run(&j, NULL, NULL);
		CHECK_CMP(j.out.copied, >, 0);
		/* the trimmed mean of few values differs from the mean */
		check_close(&j, 3, merge == HK_LEARN_TRIMMED ? 0.01 : 0.001);
		test_data_free(&j.data);
	}
}

/* ---- a node with one neighbour, whose messages the test makes -------------------------------- */

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

static enum hk_learn_reason deliver_from(struct hk_learn_gossip *g, uint16_t src,
					 const struct giver *from)
{
	uint8_t bytes[sizeof(from->h) + sizeof(from->values)];

	memcpy(bytes, &from->h, sizeof(from->h));
	memcpy(bytes + sizeof(from->h), from->values, sizeof(from->values));
	return hk_learn_gossip_message(g, src, HK_LEARN_T_SLICE, bytes, sizeof(bytes));
}

static enum hk_learn_reason deliver(struct hk_learn_gossip *g, const struct giver *from)
{
	return deliver_from(g, 1, from);
}

static void check_model(const struct hk_learn_gossip *g, double w, double weight)
{
	for (unsigned i = 0; i <= P; i++)
		CHECK_MSG(fabs(g->train.w[i] - w) < 1e-12, "parameter %u: %g, not %g", i,
			  g->train.w[i], w);
	CHECK_MSG(fabs(g->slice[0].weight - weight) < 1e-12, "weight %g, not %g",
		  g->slice[0].weight, weight);
}

/* A neighbour that ended takes weight until the others notice. Then they must reset their weights,
 * or no node has enough to be heard. */
TEST(weight_given_to_the_dead)
{
	struct job j = prepare(2, HK_LEARN_PUSH_SUM);
	struct hk_learn_slice_hdr last;
	struct hk_learn_gossip *g = open_one(&j, &last);

	for (int i = 0; i < 100; i++)
		hk_learn_gossip_round(g);
	CHECK(g->slice[0].weight < HK_LEARN_PUSH_LEAST);
	hk_learn_gossip_peer_left(g, 1);
	CHECK(g->slice[0].weight == 1);
	hk_learn_gossip_close(g);
	test_data_free(&j.data);
}

/* A refused part must neither keep its weight, or gossip ends for lack of weight, nor come again
 * with a later message. */
TEST(a_refused_part_gives_its_weight)
{
	struct job j = prepare(2, HK_LEARN_PUSH_SUM);
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
	hk_learn_gossip_close(g);
	test_data_free(&j.data);
}

/* A node that trains faster than all others takes what they send. With only one neighbour it cannot
 * know whether that one is slow or has just come back. */
TEST(slow_neighbours_are_not_stale)
{
	struct job j = prepare(3, HK_LEARN_MEAN);
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
	hk_learn_gossip_close(g);
	neighbours = 1;
	test_data_free(&j.data);
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
	struct job j = prepare(2, HK_LEARN_MEAN);
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
	hk_learn_gossip_close(g);
	neighbours = 1;
	test_data_free(&j.data);
}

/* With the trimmed mean one neighbour decides nothing: a mean of two does not defend. */
TEST(one_voice_is_not_merged)
{
	struct job j = prepare(2, HK_LEARN_TRIMMED);
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
	hk_learn_gossip_close(g);
	neighbours = 1;
	test_data_free(&j.data);
}

/* Long parameters make the first limit so wide that a faulty node passes. It must not become the
 * usual distance, or nobody refuses it later. */
TEST(a_liar_does_not_teach_the_guard)
{
	struct job j = prepare(2, HK_LEARN_TRIMMED);
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
	hk_learn_gossip_close(g);
	neighbours = 1;
	test_data_free(&j.data);
}

/* The machine did not run one neighbour, whose parameters are far now. Beside it a faulty node must
 * not seem usual. */
TEST(a_liar_beside_a_late_node_is_refused)
{
	struct job j = prepare(2, HK_LEARN_TRIMMED);
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
	hk_learn_gossip_close(g);
	neighbours = 1;
	test_data_free(&j.data);
}

/* Losses and steps that one node reports must not count if there is no third. */
TEST(a_liar_does_not_set_loss_and_step)
{
	struct job j = prepare(2, HK_LEARN_TRIMMED);
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
	hk_learn_gossip_close(g);
	neighbours = 1;
	test_data_free(&j.data);
}

/* One forged message with the highest number must not make all later ones old. */
TEST(a_forged_number_costs_one_message)
{
	struct job j = prepare(2, HK_LEARN_MEAN);
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
	hk_learn_gossip_close(g);
	test_data_free(&j.data);
}

/* A false age must not make the parameters of one node replace those of all. */
TEST(an_age_counts_if_a_second_node_supports_it)
{
	for (int merge = 0; merge < HK_LEARN_MERGES; merge++) {
		struct job j = prepare(2, (enum hk_learn_merge)merge);
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

/* A neighbour returns, gives parts of its young model in messages that are lost, and then copies an
 * old one. Its age tells nothing of the earlier parts. */
TEST(a_part_given_before_a_copy_is_stale)
{
	struct job j = prepare(2, HK_LEARN_PUSH_SUM);
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
	hk_learn_gossip_close(g);
	test_data_free(&j.data);
}

/* The node of that test, seen from inside. */
TEST(a_copy_is_marked)
{
	struct job j = prepare(2, HK_LEARN_PUSH_SUM);
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
	hk_learn_gossip_close(g);
	test_data_free(&j.data);
}

/* A node that missed all messages about the end would train on alone, after the others left. */
TEST(a_node_ends_when_its_neighbours_know)
{
	struct job j = prepare(2, HK_LEARN_MEAN);
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

TEST(target_ends_it)
{
	struct job j = prepare(4, HK_LEARN_MEAN);

	j.set.target_loss = j.best * 1.1;
	run(&j, NULL, NULL);
	CHECK_EQ(j.out.stop, HK_LEARN_STOP_TARGET);
	check_close(&j, 4, 0.35); /* losses jump while the step is large */
	uint32_t rounds = j.out.rounds;
	j.set.target_loss = j.best * 0.5; /* impossible */
	run(&j, NULL, NULL);
	CHECK_EQ(j.out.stop, HK_LEARN_STOP_CONVERGED);
	CHECK_CMP(j.out.rounds, >, rounds);
	j.set.max_epochs = 3;
	run(&j, NULL, NULL);
	CHECK_EQ(j.out.stop, HK_LEARN_STOP_EPOCHS);
	CHECK_EQ(j.out.epochs, 3);
	test_data_free(&j.data);
}

/* The same seed gives the same bits. */
TEST(repeats)
{
	struct job a = prepare(4, HK_LEARN_AGE), b = a;

	a.how.drop = b.how.drop = 0.2;
	a.set.max_epochs = b.set.max_epochs = 30;
	run(&a, NULL, NULL);
	run(&b, NULL, NULL);
	CHECK(memcmp(a.w, b.w, sizeof(a.w)) == 0 && a.out.rounds == b.out.rounds);
	b.set.seed++;
	run(&b, NULL, NULL);
	CHECK(memcmp(a.w, b.w, sizeof(a.w)) != 0);
	test_data_free(&a.data);
}

/* A model of many slices is merged slice by slice; a model of too many is refused. */
TEST(slices)
{
	struct job j = prepare(4, HK_LEARN_PUSH_SUM);

	j.how.payload_max = sizeof(struct hk_learn_slice_hdr) + 2 * sizeof(double);
	j.how.drop = 0.2;
	run(&j, NULL, NULL);
	check_close(&j, 4, 0.005);
	j.how.payload_max = sizeof(struct hk_learn_slice_hdr) + 3;
	CHECK_EQ(
		hk_learn_local(&linear, &j.set, &j.how, j.data.shard, j.w, NULL, NULL, &j.out, ERR),
		-EMSGSIZE);
	CHECK_EQ(hk_learn_gossip_slices(7, j.how.payload_max + 13), 4);
	test_data_free(&j.data);
}

static bool decline(void *arg, const struct hk_learn_progress *p)
{
	return --*(int *)arg > 0;
}

TEST(may_be_ended)
{
	struct job j = prepare(2, HK_LEARN_MEAN);
	int left = 3;

	j.how.progress_every = 1;
	CHECK(hk_learn_local(&linear, &j.set, &j.how, j.data.shard, j.w, decline, &left, &j.out,
			     NULL) == -ECANCELED);
	CHECK_EQ(left, 0);
	test_data_free(&j.data);
}
