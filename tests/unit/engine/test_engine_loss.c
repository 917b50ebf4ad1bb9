/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/engine/test_engine_loss.c: single cases of packets that do not arrive.
 *
 * Time is virtual, so assertions on times are assertions on the engine's decisions.
 */
#include "tests/support/rig.h"

#define LATENCY (10 * HK_USEC)
#define RTT     (2 * LATENCY)
#define MIN_RTO (5 * HK_MSEC) /* far longer than any round trip, so that a wait for it shows */

/* ---- frames that a filter takes away ------------------------------------------------------- */

struct thief {
	uint32_t psn; /* number of a packet from 0 to 1, relative to the first */
	unsigned count;
	unsigned times; /* number of transmissions to lose */
	unsigned taken;
	bool began, acks;
	uint32_t first;
	uint64_t start;
};

static bool steal(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f, void *ctx)
{
	struct thief *t = ctx;

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
	return false;
}

/* Two nodes that have measured their round trip, with nothing in flight. */
static struct sim *warm_pair(void)
{
	struct sim_config c;

	sim_config_default(&c, 2);
	c.latency = LATENCY;
	c.ps_per_byte = 80;
	c.engine.ack_delay = 5 * HK_USEC;
	c.engine.min_rto = MIN_RTO;
	struct sim *s = sim_new(&c, hk_test_now.seed);
	sim_pair_stream(s, 20, 50 * HK_USEC);
	sim_run_for(s, 2 * HK_MSEC);
	sim_run_done(s, 100 * HK_MSEC);
	return s;
}

/* Such a pair. The filter takes the next packets away as @t says. */
static struct sim *robbed_pair(struct thief *t)
{
	struct sim *s = warm_pair();

	sim_set_filter(s, steal, t);
	t->start = sim_now(s);
	return s;
}

static const struct hk_engine_counters *sender(struct sim *s)
{
	return hk_engine_counters(sim_engine(s, 0));
}

/* One packet of a burst is lost. The packets behind it show that within a round trip, and the
 * resend takes another half: far sooner than any timer. */
TEST(one_loss_within_a_burst)
{
	struct thief t = {.psn = 5, .count = 1, .times = 1};
	SIM_FREED struct sim *s = robbed_pair(&t);
	unsigned msg[16];

	for (unsigned i = 0; i < 16; i++)
		msg[i] = sim_send(s, 0, 1, HK_WIRE_DATA, 1, 64, 0);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(t.taken, 1);
	CHECK_EQ(sender(s)->loss_time, 1);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_EQ(sender(s)->tx_resends, 1);
	CHECK_CMP(sim_delivered_at(s, msg[15]) - t.start, <, RTT);
	CHECK_CMP(sim_delivered_at(s, msg[5]) - t.start, <, 2 * RTT);
}

/* A contiguous half of the window is lost. Each packet is resent once, no other is, and no timer
 * fires. */
TEST(many_losses_at_once)
{
	struct thief t = {.psn = 4, .count = 12, .times = 1};
	SIM_FREED struct sim *s = robbed_pair(&t);

	sim_send(s, 0, 1, HK_WIRE_PUT, 24, 64, 0);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(t.taken, 12);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_EQ(sender(s)->tx_resends, 12);
	CHECK_CMP(sim_now(s) - t.start, <, 5 * RTT);
}

/* The resend is lost too, while other packets arrive: time-based detection finds that as well. */
TEST(a_lost_resend)
{
	struct thief t = {.psn = 2, .count = 1, .times = 2};
	SIM_FREED struct sim *s = robbed_pair(&t);

	sim_pair_stream(s, 60, 2 * HK_USEC);
	sim_run_for(s, 200 * HK_USEC);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(t.taken, 2);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_CMP(sim_now(s) - t.start, <, MIN_RTO);
}

/* The last packet is lost, and no later one shows it. A probe after about two round trips does. */
TEST(tail_loss)
{
	struct thief t = {.psn = 3, .count = 1, .times = 1};
	SIM_FREED struct sim *s = robbed_pair(&t);

	sim_pair_stream(s, 4, 0);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(t.taken, 1);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_CMP(sim_now(s) - t.start, <, MIN_RTO);
	CHECK_CMP(sender(s)->tx_resends, <=, 1);
}

/* The last three packets are lost. The answer to a probe makes us resend the last, and its
 * acknowledgement shows the two others. */
TEST(longer_tail_loss)
{
	struct thief t = {.psn = 5, .count = 3, .times = 1};
	SIM_FREED struct sim *s = robbed_pair(&t);

	sim_pair_stream(s, 8, 0);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(t.taken, 3);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_CMP(sim_now(s) - t.start, <, MIN_RTO);
}

/* Lost acknowledgements have no effect if later ones arrive. */
static bool first_acks_only(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f,
			    void *ctx)
{
	unsigned *n = ctx;
	return from == 0 || ++*n % 2 == 0;
}

TEST(lost_acks)
{
	SIM_FREED struct sim *s = warm_pair();
	unsigned acks = 0;

	sim_set_filter(s, first_acks_only, &acks);
	sim_pair_stream(s, 200, HK_USEC);
	sim_run_for(s, 300 * HK_USEC);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_CMP(acks, >, 2);
	CHECK_EQ(sender(s)->loss_time, 0);
	CHECK_EQ(sender(s)->loss_rto, 0);
	CHECK_CMP(sender(s)->tx_resends, <=, 1); /* a probe, if the last acknowledgement was lost */
}

/* Packets that overtake each other by less than a quarter round trip are not lost. */
TEST(reordering_is_no_loss)
{
	/* the jitter is a twentieth of the round trip */
	SIM(s, 2, c.latency = 100 * HK_USEC, c.jitter = 10 * HK_USEC, c.ps_per_byte = 80);
	sim_pair_stream(s, 500, 2 * HK_USEC);
	sim_run_for(s, 2 * HK_MSEC);
	sim_run_done(s, 100 * HK_MSEC);
	CHECK_EQ(sender(s)->tx_resends, 0);
	CHECK_EQ(hk_engine_counters(sim_engine(s, 1))->rx_duplicates, 0);
}

/* Every packet arrives twice. */
TEST(duplicates_are_taken_once)
{
	SIM(s, 3, c.dup = 500000, c.reorder_delay = 20 * HK_USEC);
	for (unsigned i = 0; i < 200; i++)
		sim_send(s, i % 3, (i + 1) % 3, i % 5 ? HK_WIRE_DATA : HK_WIRE_PUT, 1 + i % 16, 40,
			 i * HK_USEC);
	sim_run_for(s, HK_MSEC);
	sim_run_done(s, 100 * HK_MSEC);
	sim_run_for(s, HK_MSEC);
	CHECK_EQ(sim_stats(s)->delivered, 200);
	CHECK_CMP(hk_engine_counters(sim_engine(s, 1))->rx_duplicates, >, 100);
}
