/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/learn/test_gossip.c: many nodes on a network that loses, delays and doubles, with liars, and
 * nodes that crash, come back or come late. What they find is compared with the closed form.
 */
#include "base/error.h"
#include "learn/gossip.h"
#include "rtc/rtc.h"
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
	double best; /* the least loss there is */
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
	struct hk_error err = {""};

	CHECK_MSG(hk_learn_local(&linear, &j->set, &j->how, j->data.shard, j->w, on_progress, arg,
				 &j->out, &err) == 0,
		  "%s", err.text);
}

/* Loss of @node's model on all rows, as a share above the best. */
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

static void every_merge_finds_the_best(void)
{
	const int topologies[] = {HK_RTC_ALL, HK_RTC_RING, HK_RTC_RANDOM, HK_RTC_EXPONENTIAL};

	for (int merge = 0; merge < HK_LEARN_MERGES; merge++) {
		struct job j = prepare(NODES, (enum hk_learn_merge)merge);
		j.how.topology = topologies[merge];
		j.how.degree = 4;
		run(&j, NULL, NULL);
		CHECK_EQ(j.out.stop, HK_LEARN_STOP_CONVERGED);
		/* a trimmed mean of few is not the mean */
		check_close(&j, NODES, merge == HK_LEARN_TRIMMED ? 0.01 : 0.005);
		test_data_free(&j.data);
	}
}

/* Alone, a node has an eighth of the rows, and that is what its model knows. */
static void without_gossip_it_does_not(void)
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

static void a_bad_network(void)
{
	for (int merge = 0; merge < HK_LEARN_MERGES; merge++) {
		struct job j = prepare(4, (enum hk_learn_merge)merge);
		j.how.drop = 0.3;
		j.how.twice = 0.2;
		j.how.delay = 7;
		run(&j, NULL, NULL);
		CHECK_CMP(j.out.dropped, >, j.out.messages / 4);
		CHECK_CMP(j.out.refused[HK_LEARN_R_OLD], >, 0);
		check_close(&j, 4, 0.005);
		test_data_free(&j.data);
	}
}

/* Four nodes share a core: whoever runs, trains against what the others were before their pause. */
static void one_at_a_time(void)
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

/* What the project promises: 10 % of frames lost, one node says NaN and one outliers, within 1 %. */
static void liars(void)
{
	const uint8_t fault[NODES] = {[2] = HK_FAULT_NAN, [5] = HK_FAULT_OUTLIER};

	for (int limit = 0; limit < 2; limit++) {
		struct job j = prepare(NODES, HK_LEARN_TRIMMED);
		j.how.drop = 0.1;
		j.how.fault = fault;
		j.how.fault_scale = limit ? 50 : 3;
		/* by trimming alone; then with the limit for distance */
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

/* The mean believes them, if it may: what the defence is for. */
static void liars_win_without_defence(void)
{
	const uint8_t fault[NODES] = {[5] = HK_FAULT_OUTLIER};
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

static void mass_stays_under_loss(void)
{
	struct job j = prepare(4, HK_LEARN_PUSH_SUM);
	unsigned calls = 0;

	j.how.drop = 0.3;
	j.how.delay = 5;
	j.how.twice = 0.1;
	j.how.topology = HK_RTC_EXPONENTIAL; /* messages go one way */
	j.how.progress_every = 10;
	j.set.max_epochs = 60;
	run(&j, weight_stays, &calls);
	CHECK_CMP(calls, >, 50);
	test_data_free(&j.data);
}

static void crash_and_return(void)
{
	const struct hk_learn_event events[] = {
		{0, 3, 1}, /* comes with the first round */
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
		/* who came back took over what the others knew; and dragged nobody back */
		CHECK_CMP(j.out.copied, >, 0);
		CHECK_CMP(j.out.refused[HK_LEARN_R_STALE], >, 0);
		CHECK(isnan(j.w[0])); /* node 0 stayed away */
		for (unsigned i = 1; i < 5; i++)
			CHECK_MSG(above(&j, i) < 0.01, "merge %d, node %u: %.3f %%", merge, i,
				  100 * above(&j, i));
		test_data_free(&j.data);
	}
}

/* A neighbour that is dead and not yet known to be takes all the weight there is; then weights must begin
 * anew, or nobody has enough to be heard. */
static unsigned one_neighbour(void *arg, const uint16_t **list)
{
	static const uint16_t other[] = {1};

	(void)arg;
	*list = other;
	return 1;
}

static int pick_one(void *arg)
{
	(void)arg;
	return 1;
}

static bool all_alive(void *arg, uint16_t node)
{
	(void)arg;
	(void)node;
	return true;
}

static void sent_nowhere(void *arg, uint16_t dst, uint8_t type, const void *data, size_t len)
{
	(void)arg;
	(void)dst;
	(void)type;
	(void)data;
	(void)len;
}

static void weight_given_to_the_dead(void)
{
	struct job j = prepare(2, HK_LEARN_PUSH_SUM);
	struct hk_gossip_config cfg = {
		.model = &linear,
		.set = &j.set,
		.data = j.data.shard[0],
		.nodes = 2,
		.run = 1,
		.payload_max = 1400,
		.net = {NULL, one_neighbour, pick_one, all_alive, sent_nowhere},
	};
	struct hk_gossip *g;
	const struct hk_status_hdr hello = {.version = HK_LEARN_VERSION,
					    .fingerprint = hk_learn_fingerprint(&linear),
					    .run = 5,
					    .loss = NAN};

	CHECK(hk_gossip_open(&cfg, &g, NULL) == 0);
	CHECK(hk_gossip_message(g, 1, HK_LEARN_T_STATUS, &hello, sizeof(hello)) == HK_LEARN_TAKEN);
	for (int i = 0; i < 100; i++)
		hk_gossip_round(g);
	CHECK(g->slice[0].weight < HK_PUSH_LEAST);
	hk_gossip_left(g, 1);
	CHECK(g->slice[0].weight == 1);
	hk_gossip_close(g);
	test_data_free(&j.data);
}

static void target_ends_it(void)
{
	struct job j = prepare(4, HK_LEARN_MEAN);

	j.set.target_loss = j.best * 1.1;
	run(&j, NULL, NULL);
	CHECK_EQ(j.out.stop, HK_LEARN_STOP_TARGET);
	check_close(&j, 4, 0.35); /* losses jump while the step is large */
	uint32_t rounds = j.out.rounds;
	j.set.target_loss = j.best * 0.5; /* there is none such */
	run(&j, NULL, NULL);
	CHECK_EQ(j.out.stop, HK_LEARN_STOP_CONVERGED);
	CHECK_CMP(j.out.rounds, >, rounds);
	j.set.max_epochs = 3;
	run(&j, NULL, NULL);
	CHECK_EQ(j.out.stop, HK_LEARN_STOP_EPOCHS);
	CHECK_EQ(j.out.epochs, 3);
	test_data_free(&j.data);
}

/* The same seed, the same bits. */
static void repeats(void)
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

/* A model of many slices is merged slice by slice; one of too many is refused. */
static void slices(void)
{
	struct job j = prepare(4, HK_LEARN_PUSH_SUM);
	struct hk_error err = {""};

	j.how.payload_max = sizeof(struct hk_slice_hdr) + 2 * sizeof(double);
	j.how.drop = 0.2;
	run(&j, NULL, NULL);
	check_close(&j, 4, 0.005);
	j.how.payload_max = sizeof(struct hk_slice_hdr) + 3;
	CHECK(hk_learn_local(&linear, &j.set, &j.how, j.data.shard, j.w, NULL, NULL, &j.out,
			     &err) == -EMSGSIZE);
	CHECK_EQ(hk_gossip_slices(7, j.how.payload_max + 13), 4);
	test_data_free(&j.data);
}

static bool say_no(void *arg, const struct hk_learn_progress *p)
{
	(void)p;
	return --*(int *)arg > 0;
}

static void may_be_ended(void)
{
	struct job j = prepare(2, HK_LEARN_MEAN);
	int left = 3;

	j.how.progress_every = 1;
	CHECK(hk_learn_local(&linear, &j.set, &j.how, j.data.shard, j.w, say_no, &left, &j.out,
			     NULL) == -ECANCELED);
	CHECK_EQ(left, 0);
	test_data_free(&j.data);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"every_merge_finds_the_best", every_merge_finds_the_best},
		{"without_gossip_it_does_not", without_gossip_it_does_not},
		{"a_bad_network", a_bad_network},
		{"one_at_a_time", one_at_a_time},
		{"liars", liars},
		{"liars_win_without_defence", liars_win_without_defence},
		{"mass_stays_under_loss", mass_stays_under_loss},
		{"crash_and_return", crash_and_return},
		{"weight_given_to_the_dead", weight_given_to_the_dead},
		{"target_ends_it", target_ends_it},
		{"repeats", repeats},
		{"slices", slices},
		{"may_be_ended", may_be_ended},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
