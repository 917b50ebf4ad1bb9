/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/test_engine_loss.c: what happens to packets that do not arrive, one case at a time.
 *
 * Times are virtual: an assertion on them is an assertion on what the engine decided.
 */
#include "tests/unit/rig.h"
#include "tests/unit/sim.h"

#define LATENCY (10 * HK_USEC)
#define RTT     (2 * LATENCY)

/* ---- frames that a filter takes away ------------------------------------------------------- */

struct thief {
	uint32_t psn; /* … of packets from 0 to 1, relative to the first */
	unsigned count;
	unsigned times; /* takes so many transmissions of it */
	unsigned taken;
	bool began, acks;
	uint32_t first;
	uint64_t taken_at;
};

static bool steal(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f, void *ctx)
{
	struct thief *t = ctx;

	(void)to;
	if (from != 0)
		return !t->acks;
	if (f->h.type != HK_WIRE_DATA && f->h.type != HK_WIRE_PUT)
		return true;
	if (!t->began) {
		t->began = true;
		t->first = f->h.psn;
	}
	if (f->h.psn - t->first - t->psn >= t->count || t->taken == t->times * t->count)
		return true;
	t->taken++;
	t->taken_at = sim_now(s);
	return false;
}

/* Two nodes that know each other's RTT, and nothing in flight. */
static struct sim *warm_pair(struct sim_config *c)
{
	sim_config_default(c, 2);
	c->latency = LATENCY;
	c->ps_per_byte = 80;
	c->engine.ack_delay = 5 * HK_USEC;
	c->engine.min_rto = 5 * HK_MSEC; /* far from any round trip: who waits for it is seen */
	struct sim *s = sim_new(c, hk_test_now.seed);
	sim_pair_stream(s, 20, 50 * HK_USEC);
	sim_run_for(s, 2 * HK_MSEC);
	sim_run_done(s, 100 * HK_MSEC);
	return s;
}

static const struct hk_engine_counters *sender(struct sim *s)
{
	return hk_engine_counters(sim_engine(s, 0));
}

/* One packet of a burst is lost. The packets behind it tell within a round trip, the resend needs
 * another half: far sooner than any timer. */
static void one_loss_within_a_burst(void)
{
	struct sim_config c;
	struct sim *s = warm_pair(&c);
	struct thief t = {.psn = 5, .count = 1, .times = 1};
	unsigned msg[16];

	sim_set_filter(s, steal, &t);
	uint64_t start = sim_now(s);
	for (unsigned i = 0; i < 16; i++)
		msg[i] = sim_send(s, 0, 1, HK_WIRE_DATA, 1, 64, 0);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(t.taken, 1);
	CHECK_EQ(sender(s)->loss_time, 1);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_EQ(sender(s)->tx_resends, 1);
	CHECK_CMP(sim_delivered_at(s, msg[15]) - start, <, RTT);
	CHECK_CMP(sim_delivered_at(s, msg[5]) - start, <, 2 * RTT);
	sim_free(s);
}

/* Half of a window is lost, in one stretch: each packet once more, none twice, no timer. */
static void many_losses_at_once(void)
{
	struct sim_config c;
	struct sim *s = warm_pair(&c);
	struct thief t = {.psn = 4, .count = 12, .times = 1};

	sim_set_filter(s, steal, &t);
	uint64_t start = sim_now(s);
	sim_send(s, 0, 1, HK_WIRE_PUT, 24, 64, 0);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(t.taken, 12);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_EQ(sender(s)->tx_resends, 12);
	CHECK_CMP(sim_now(s) - start, <, 5 * RTT);
	sim_free(s);
}

/* The resend is lost as well, while others get through: found by time, too. */
static void a_lost_resend(void)
{
	struct sim_config c;
	struct sim *s = warm_pair(&c);
	struct thief t = {.psn = 2, .count = 1, .times = 2};

	sim_set_filter(s, steal, &t);
	uint64_t start = sim_now(s);
	sim_pair_stream(s, 60, 2 * HK_USEC);
	sim_run_for(s, 200 * HK_USEC);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(t.taken, 2);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_CMP(sim_now(s) - start, <, c.engine.min_rto);
	sim_free(s);
}

/* The last packet is lost: nothing behind it tells. A question, after about two round trips, and its answer. */
static void tail_loss(void)
{
	struct sim_config c;
	struct sim *s = warm_pair(&c);
	struct thief t = {.psn = 3, .count = 1, .times = 1};

	sim_set_filter(s, steal, &t);
	uint64_t start = sim_now(s);
	sim_pair_stream(s, 4, 0);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(t.taken, 1);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_CMP(sim_now(s) - start, <, c.engine.min_rto);
	CHECK_CMP(sender(s)->tx_resends, <=, 1);
	sim_free(s);
}

/* The last three are lost: the answer has the last resent, and its ack shows the two before. */
static void longer_tail_loss(void)
{
	struct sim_config c;
	struct sim *s = warm_pair(&c);
	struct thief t = {.psn = 5, .count = 3, .times = 1};

	sim_set_filter(s, steal, &t);
	uint64_t start = sim_now(s);
	sim_pair_stream(s, 8, 0);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(t.taken, 3);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_CMP(sim_now(s) - start, <, c.engine.min_rto);
	sim_free(s);
}

/* Lost acks cost nothing while later ones arrive. */
static bool first_acks_only(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f,
			    void *ctx)
{
	unsigned *n = ctx;
	(void)s, (void)to, (void)f;
	return from == 0 || ++*n % 2 == 0;
}

static void lost_acks(void)
{
	struct sim_config c;
	struct sim *s = warm_pair(&c);
	unsigned acks = 0;

	sim_set_filter(s, first_acks_only, &acks);
	sim_pair_stream(s, 200, HK_USEC);
	sim_run_for(s, 300 * HK_USEC);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_CMP(acks, >, 2);
	CHECK_EQ(sender(s)->loss_time, 0);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_CMP(sender(s)->tx_resends, <=, 1); /* a probe, if the very last ack was lost */
	sim_free(s);
}

/* Packets overtake each other by less than a quarter round trip: that is no loss. */
static void reordering_is_no_loss(void)
{
	struct sim_config c;

	sim_config_default(&c, 2);
	c.latency = 100 * HK_USEC;
	c.jitter = 10 * HK_USEC; /* a twentieth of the round trip */
	c.ps_per_byte = 80;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	sim_pair_stream(s, 500, 2 * HK_USEC);
	sim_run_for(s, 2 * HK_MSEC);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(sender(s)->tx_resends, 0);
	CHECK_EQ(hk_engine_counters(sim_engine(s, 1))->rx_duplicates, 0);
	sim_free(s);
}

/* Everything arrives, but twice. */
static void duplicates_are_taken_once(void)
{
	struct sim_config c;

	sim_config_default(&c, 3);
	c.dup = 500000;
	c.reorder_delay = 20 * HK_USEC;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	for (unsigned i = 0; i < 200; i++)
		sim_send(s, i % 3, (i + 1) % 3, i % 5 ? HK_WIRE_DATA : HK_WIRE_PUT, 1 + i % 16, 40,
			 i * HK_USEC);
	sim_run_for(s, HK_MSEC);
	sim_run_done(s, 100 * HK_MSEC);
	sim_run_for(s, HK_MSEC);
	CHECK_EQ(sim_stats(s)->delivered, 200);
	CHECK_CMP(hk_engine_counters(sim_engine(s, 1))->rx_duplicates, >, 100);
	sim_free(s);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"one_loss_within_a_burst", one_loss_within_a_burst},
		{"many_losses_at_once", many_losses_at_once},
		{"a_lost_resend", a_lost_resend},
		{"tail_loss", tail_loss},
		{"longer_tail_loss", longer_tail_loss},
		{"lost_acks", lost_acks},
		{"reordering_is_no_loss", reordering_is_no_loss},
		{"duplicates_are_taken_once", duplicates_are_taken_once},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
