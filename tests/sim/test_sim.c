/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/test_sim.c: thousands of small random networks.
 *
 * Each run draws everything from its seed. That is the number of nodes, the wire and its faults,
 * the configuration of the engines, the application's messages, and events such as restarts. It
 * passes if all checks of sim.h succeed, everything arrives, and afterwards nobody sends.
 *
 *   test_sim [--seed N] [--runs N] [--verbose]      runs seeds N, N + 1, …
 */
#include "tests/sim/sim.h"

#define LIMIT (60 * HK_SEC) /* virtual time, for one run */

static uint64_t pick(struct hk_rng *r, const uint64_t *values, size_t n)
{
	return values[hk_rng_below(r, n)];
}

#define PICK(r, ...) pick(r, (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8)

static void random_engine(struct hk_rng *r, struct hk_engine_config *e, unsigned nodes)
{
	e->key = (uint32_t)hk_rng_next(r);
	e->window = (uint16_t)PICK(r, 8, 16, 64, 256);
	e->window_bytes = (uint32_t)PICK(r, 1000, 20000, 1 << 20);
	e->max_peers = nodes - 1 + (uint32_t)hk_rng_below(r, 3);
	e->tx_blocks = (uint32_t)hk_rng_range(r, 1, nodes);
	e->rx_budget = (uint32_t)PICK(r, 16, 32, 256, 4096);
	e->resend_cap = (uint16_t)PICK(r, 1, 4, 32);
	e->ack_every = (uint16_t)PICK(r, 1, 2, 8, 64);
	e->ack_delay = PICK(r, 0, 5 * HK_USEC, 30 * HK_USEC, 500 * HK_USEC);
	e->min_rto = PICK(r, 200 * HK_USEC, HK_MSEC, 5 * HK_MSEC);
	e->max_rto = PICK(r, 10 * HK_MSEC, 50 * HK_MSEC);
	e->initial_rto = PICK(r, HK_MSEC, 5 * HK_MSEC, 20 * HK_MSEC);
	e->peer_timeout = 20 * HK_SEC;
	e->keepalive = PICK(r, 0, 0, 50 * HK_MSEC);
	e->link_mbps = (uint32_t)PICK(r, 0, 0, 10, 1000, 100000);
	e->target_delay = PICK(r, 20 * HK_USEC, 200 * HK_USEC);
}

static void random_world(struct hk_rng *r, struct sim_config *c)
{
	unsigned nodes = (unsigned)PICK(r, 2, 2, 2, 3, 3, 4, 5, 8);

	sim_config_default(c, nodes);
	random_engine(r, &c->engine, nodes);
	/* often start just before the timestamps wrap */
	c->start = hk_rng_below(r, 2) ? hk_rng_below(r, HK_SEC * 1000000)
				      : (UINT64_C(1) << (32 + HK_WIRE_TS_SHIFT)) * 3 -
						hk_rng_below(r, HK_MSEC);
	c->latency = PICK(r, 0, 200, 2000, 20000, 200000);
	c->jitter = PICK(r, 0, 0, 1000, 50000);
	c->ps_per_byte = (uint32_t)PICK(r, 0, 80, 800, 8000);
	c->queue_bytes = (uint32_t)PICK(r, 4096, 65536, 1 << 20);
	c->rx_ring = (uint32_t)PICK(r, 16, 64, 1024);
	c->ordered = hk_rng_below(r, 2);
	/* more than the engine's budget and what the application holds of all windows */
	c->pool = hk_rng_below(r, 2) ? c->engine.rx_budget + nodes * c->engine.window + 16 : 0;
	c->poll_gap = PICK(r, 0, 300, 10000);
	c->poll_max = (unsigned)PICK(r, 1, 3, 16, 64);
	c->loss = (uint32_t)PICK(r, 0, 0, 1000, 10000, 50000, 150000);
	c->dup = (uint32_t)PICK(r, 0, 0, 10000, 100000);
	c->reorder = (uint32_t)PICK(r, 0, 0, 10000, 200000);
	c->reorder_delay = PICK(r, 2000, 50000, 2000000);
	c->engine.protection = hk_rng_below(r, 3) == 0;
	c->corrupt = c->engine.protection ? (uint32_t)PICK(r, 0, 1000, 50000) : 0;
	c->hold = (uint32_t)PICK(r, 0, 0, 100000, 900000);
	c->hold_time = PICK(r, 1000, 100000, 3000000);
	c->compute = (uint32_t)PICK(r, 0, 0, 20000, 100000);
	c->compute_time = PICK(r, 10000, 1000000);
	c->lazy = hk_rng_below(r, 3) == 0;
	c->random_ids = hk_rng_below(r, 2);
	c->random_psn = hk_rng_below(r, 2);
	c->path_delay = PICK(r, 0, 0, 5000, 300000);
	c->equal_paths = (unsigned)PICK(r, 0, 0, 2, 8);
}

static void random_traffic(struct sim *s, struct hk_rng *r, const struct sim_config *c)
{
	unsigned messages = (unsigned)PICK(r, 1, 10, 40, 120);
	uint64_t span = PICK(r, 0, 20 * HK_USEC, 2 * HK_MSEC, 50 * HK_MSEC);
	unsigned len_max = (unsigned)PICK(r, 16, 64, 1400);
	unsigned frags_max = (unsigned)PICK(r, 1, 3, 16);
	bool to_one = hk_rng_below(r, 4) == 0; /* all nodes send to one */

	for (unsigned i = 0; i < messages; i++) {
		unsigned from = (unsigned)hk_rng_below(r, c->nodes);
		unsigned to = (unsigned)hk_rng_below(r, c->nodes - 1);
		bool put = hk_rng_below(r, 4) == 0;
		to += to >= from;
		if (to_one && from != 0)
			to = 0;
		sim_send(s, from, to, put ? HK_WIRE_PUT : HK_WIRE_DATA,
			 (unsigned)hk_rng_range(r, 1, put ? 32 : frags_max),
			 (unsigned)hk_rng_range(r, SIM_MIN_LEN, len_max),
			 span ? hk_rng_below(r, span) : 0);
	}
}

/* ---- blows --------------------------------------------------------------------------------- */

struct blow {
	unsigned a, b;
};

static void heal(struct sim *s, void *ctx)
{
	struct blow *w = ctx;
	sim_cut(s, w->a, w->b, false);
}

static void cut(struct sim *s, void *ctx)
{
	struct blow *w = ctx;
	sim_cut(s, w->a, w->b, true);
	sim_at(s, hk_rng_range(sim_rng(s), HK_USEC, 100 * HK_MSEC), heal, ctx);
}

static void restart(struct sim *s, void *ctx)
{
	sim_restart(s, ((struct blow *)ctx)->a);
}

static void compute(struct sim *s, void *ctx)
{
	sim_compute(s, ((struct blow *)ctx)->a, hk_rng_range(sim_rng(s), HK_USEC, 20 * HK_MSEC));
}

static void one_run(uint64_t seed, bool verbose)
{
	struct hk_rng r = {seed * 2 + 1};
	struct blow blows[4];
	struct sim_config c;

	hk_test_now.seed = seed;
	snprintf(hk_test_now.replay, sizeof(hk_test_now.replay),
		 "%s --seed %" PRIu64 " --runs 1 --verbose", hk_test_now.program, seed);
	random_world(&r, &c);
	c.verbose = verbose;
	struct sim *s = sim_new(&c, hk_rng_next(&r));
	random_traffic(s, &r, &c);

	unsigned n = (unsigned)PICK(&r, 0, 0, 1, 3);
	for (unsigned i = 0; i < n; i++) {
		uint64_t when = hk_rng_below(&r, PICK(&r, 50 * HK_USEC, 5 * HK_MSEC));
		blows[i].a = (unsigned)hk_rng_below(&r, c.nodes);
		blows[i].b = (blows[i].a + 1) % c.nodes;
		switch (hk_rng_below(&r, 4)) {
		case 0:
			sim_at(s, when, restart, &blows[i]);
			break;
		case 1:
			sim_at(s, when, cut, &blows[i]);
			break;
		default:
			sim_at(s, when, compute, &blows[i]);
		}
	}

	/* behind the last event and message, so that nothing is still to come */
	sim_run_for(s, 60 * HK_MSEC);
	sim_run_done(s, LIMIT);
	/* Fragments of a dead node that nobody sends to are given up in time too. */
	sim_run_for(s, c.engine.keepalive ? 2 * HK_SEC : 2 * c.engine.peer_timeout);
	CHECK(sim_done(s));
	/* an idle network sends nothing */
	CHECK_MSG(c.engine.keepalive || sim_quiet(s),
		  "all is done, yet somebody still has something to do");
	for (unsigned i = 0; i < c.nodes; i++)
		CHECK_EQ(sim_held(s, i), 0);
	if (hk_rng_below(&r, 2)) {
		/* all nodes leave, in any order, without errors */
		for (unsigned i = 0; i < c.nodes; i++)
			sim_bye(s, i);
		sim_run_for(s, 10 * HK_MSEC);
	}
	sim_free(s);
}

int main(int argc, char **argv)
{
	const char *env = getenv("HK_SEED");
	uint64_t seed = env ? hk_test_seed_from(env) : 1, runs = 10000;
	bool verbose = false;

	hk_test_now.program = argv[0];
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			seed = hk_test_seed_from(argv[++i]);
		} else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
			runs = hk_test_seed_from(argv[++i]);
		} else if (strcmp(argv[i], "--verbose") == 0) {
			verbose = true;
		} else {
			fprintf(stderr, "usage: %s [--seed N] [--runs N] [--verbose]\n", argv[0]);
			return 2;
		}
	}
	for (uint64_t i = 0; i < runs; i++)
		one_run(seed + i, verbose);
	printf("ok %" PRIu64 " runs from seed %" PRIu64 "\n", runs, seed);
	return 0;
}
