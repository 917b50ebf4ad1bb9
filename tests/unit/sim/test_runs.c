/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small runs of the simulator: what must hold whatever the engine does for speed.
 */
#include "tests/unit/sim/command.h"

/* Acknowledgements and resends end, and every buffer is free again. */
static void check_quiet(struct run *r)
{
	run_on(r, HK_SEC * SIM_NS);
	CHECK_EQ(r->net.frames.in_use, 0);
	for (uint32_t i = 0; i < r->hosts.count; i++) {
		const struct host *x = &r->hosts.host[i];

		CHECK_EQ(x->rx_held, 0);
		CHECK_EQ(x->app_held, 0);
		CHECK_EQ(x->tx_in_use, 0);
		CHECK_EQ(hk_engine_unacked(x->engine, HK_PEER_NONE), 0);
		CHECK_EQ(x->n.disconnects, 0);
	}
}

static void ends(const char *line)
{
	struct run r;

	begin(&r, line);
	run_go(&r);
	CHECK_MSG(r.left == 0, "%s: %" PRIu64 " messages were not delivered", line, r.left);
	check_quiet(&r);
	run_free(&r);
}

TEST(finite_scenarios_end_and_free_everything)
{
	ends("burst --hosts 33");
	ends("burst --hosts 129 --pool 64"); /* so few that frames are lost at the receiver */
	ends("burst --hosts 129 --buffer 10000");
	ends("burst --hosts 129 --hold-us 50 --pool 400");
	ends("eager --hosts 65 --hold-us 1000");
	ends("eager --hosts 65");
	ends("bulk --hosts 65");
	ends("bulk --hosts 65 --frame 9000 --rate 100");
	ends("eager --hosts 33 --loss-ppm 20000");
	ends("bulk --hosts 33 --loss-ppm 20000 --ports 2");
	ends("alltoall --hosts 12");
	ends("alltoall --hosts 16 --spines 2 --leaf-hosts 4");
}

TEST(a_run_is_a_function_of_its_options_and_seed)
{
	static const char *const line[] = {
		"incast --hosts 40 --time-ms 20",    "longflows --hosts 4 --time-ms 20",
		"mixed --hosts 16 --time-ms 5",      "pingpong --hosts 16 --time-ms 30",
		"lone --hosts 20 --time-ms 20",      "idle --hosts 20",
		"burst --hosts 100 --loss-ppm 1000",
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(line); i++) {
		char again[128];
		char *a = report(line[i]), *b = report(line[i]);

		snprintf(again, sizeof(again), "%s --seed 2", line[i]);
		char *c = report(again);

		CHECK_MSG(strcmp(a, b) == 0, "%s gave two results", line[i]);
		CHECK_MSG(strcmp(a, c) != 0, "%s: the seed changes nothing", line[i]);
		free(a);
		free(b);
		free(c);
	}
}

TEST(loops_fill_the_link_and_no_more)
{
	static const char *const line[] = {
		"incast --hosts 17 --time-ms 50",
		"incast --hosts 17 --time-ms 50 --frame 9000 --rate 25",
		"incast --hosts 17 --time-ms 50 --ports 2",
		"longflows --hosts 3 --time-ms 50 --rate 25",
		"lone --hosts 20 --time-ms 50",
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(line); i++) {
		struct run r;

		begin(&r, line[i]);
		run_go(&r);
		double time = (double)(r.net.events.now - r.measured_from);
		double share = (double)r.delivered_bytes * r.o.net.ps_per_byte / time /
			       r.o.net.host_ports;

		CHECK_MSG(share > .5 && share < 1, "%s: %g of the link", line[i], share);
		run_free(&r);
	}
}

/* ---- a scenario of this test: every host sends numbered messages to host 0 ------------------- */

#define EACH 40

static struct {
	uint32_t next[16];
	unsigned completed;
} seen;

static void numbered_begin(struct run *r)
{
	memset(&seen, 0, sizeof(seen));
	host_start(&r->hosts, 0, r->o.net.hosts - 1, true);
	for (uint32_t i = 1; i < r->o.net.hosts; i++) {
		host_start(&r->hosts, i, 1, false);
		for (uint32_t k = 0; k < EACH; k++)
			host_send(&r->hosts, i, 0, 8 + (k % 3) * 3000, false, k);
	}
	r->left = (r->o.net.hosts - 1) * (uint64_t)EACH;
}

static void numbered_delivered(struct run *r, const struct msg *m)
{
	CHECK_EQ(m->tag, seen.next[m->from]);
	seen.next[m->from]++;
	r->left--;
}

static void numbered_completed(struct run *r, const struct msg *m)
{
	(void)r;
	(void)m;
	seen.completed++;
}

static const struct scenario numbered = {
	.name = "numbered",
	.begin = numbered_begin,
	.delivered = numbered_delivered,
	.completed = numbered_completed,
};

TEST(messages_are_delivered_once_and_in_order)
{
	struct run r;

	begin(&r, "burst --hosts 16 --loss-ppm 50000 --pool 100");
	r.o.scenario = &numbered;
	run_go(&r);
	CHECK_EQ(r.left, 0);
	check_quiet(&r);
	CHECK_EQ(seen.completed, 15 * EACH);
	CHECK_CMP(r.hosts.host[0].n.reordered, >, 0);
	run_free(&r);
}

TEST(messages_that_the_application_holds_keep_their_buffers)
{
	struct run r;

	/* one after the other: 8 messages of 12 frames, each held for a millisecond */
	begin(&r, "eager --hosts 2 --count 8 --hold-us 1000");
	run_go(&r);
	CHECK_EQ(r.left, 0);
	CHECK_CMP(r.hosts.host[0].n.rx_held_max, >=, 8 * 12);
	CHECK_CMP(r.last_delivery, >, r.start + HK_MSEC * SIM_NS);
	CHECK_CMP(r.last_delivery, <, r.start + 2 * HK_MSEC * SIM_NS);
	check_quiet(&r);
	run_free(&r);
}

TEST(a_sender_waits_while_the_application_holds_its_messages)
{
	struct run r;

	/* of 480 frames the window takes 256 */
	begin(&r, "burst --hosts 2 --count 480 --hold-us 1000");
	r.end = r.start + 900 * HK_USEC * SIM_NS;
	run_go(&r);
	CHECK_EQ(r.left, 480);
	CHECK_CMP(host_counters(&r.hosts, 0)->rx_packets, <=, HK_WIRE_WINDOW);
	run_on(&r, 20 * HK_MSEC * SIM_NS);
	CHECK_EQ(r.left, 0);
	check_quiet(&r);
	run_free(&r);
}

TEST(packets_are_refused_while_the_application_holds_too_many)
{
	struct run r;

	begin(&r, "burst --hosts 65 --hold-us 50 --pool 400");
	run_go(&r);
	CHECK_EQ(r.left, 0);
	CHECK_EQ(r.hosts.host[0].n.rx_no_buffer, 0);
	CHECK_CMP(host_counters(&r.hosts, 0)->refused, >, 0);
	run_free(&r);
}

static void limited_delivered(struct run *r, const struct msg *m)
{
	r->left--;
	CHECK_CMP(r->hosts.host[m->from].tx_in_use, <=, r->hosts.c.tx_buffers);
	for (uint32_t i = 0; i < r->net.c.hosts; i++) /* and as many as a worker keeps */
		CHECK_CMP(r->net.port[i].frames, <=, r->hosts.c.nic_ring + 256);
}

TEST(frame_buffers_and_nics_have_limits)
{
	struct scenario limited = scenario_burst;
	struct run r;

	limited.delivered = limited_delivered;
	begin(&r, "burst --hosts 401 --count 30");
	r.o.scenario = &limited;
	r.hosts.c.tx_buffers = 20;
	r.hosts.c.nic_ring = 4;
	run_go(&r);
	CHECK_EQ(r.left, 0);
	check_quiet(&r);
	run_free(&r);
}

TEST(a_host_sends_on_as_soon_as_its_nic_has_space)
{
	struct run r;

	/* no acknowledgement wakes it, and timers come later */
	begin(&r, "silent --hosts 50 --size 16000");
	r.hosts.c.nic_ring = 4;
	run_go(&r);
	CHECK_EQ(r.left, 0);
	CHECK_CMP(r.last_delivery, <, r.start + 5 * HK_MSEC * SIM_NS);
	run_free(&r);
}

TEST(a_host_goes_on_by_its_other_port_when_a_link_dies)
{
	struct run r;

	begin(&r, "longflows --hosts 2 --ports 2 --time-ms 200 --dead-at-ms 50");
	run_go(&r);
	/* a fourth of the time by two links, the rest by one */
	double share = (double)r.delivered_bytes * r.o.net.ps_per_byte / (double)(r.end - r.start);

	CHECK_MSG(share > .95 && share < 1.25, "%g of a link", share);
	CHECK_EQ(paths_mask(r.hosts.host[1].peer[0].paths), 1);
	run_free(&r);
}

TEST(silent_peers_are_given_up_and_others_go_on)
{
	struct run r;

	begin(&r, "silent --hosts 70");
	run_go(&r);
	CHECK_EQ(r.left, 0);
	CHECK_CMP(host_counters(&r.hosts, 1)->rx_packets, >, 0);
	for (uint32_t i = 2; i < 70; i++)
		CHECK_EQ(host_counters(&r.hosts, i)->rx_packets, 0);
	run_free(&r);
}

TEST(a_receiver_without_a_buffer_loses_frames)
{
	struct run r;

	/* its engine believes that there are more */
	begin(&r, "burst --hosts 64 --loss-ppm 100000 --time-ms 100");
	r.hosts.c.pool = 3;
	run_go(&r);
	CHECK_EQ(r.hosts.host[0].n.rx_held_max, 3);
	CHECK_CMP(r.hosts.host[0].n.rx_no_buffer, >, 0);
	run_free(&r);
}

TEST(what_came_before_the_measurement_does_not_count)
{
	struct run r;

	begin(&r, "lone --hosts 20 --time-ms 20");
	run_go(&r);
	CHECK_EQ(r.delivered_bytes % r.o.size, 0);
	CHECK_CMP(r.measured_from, >, r.start);
	run_free(&r);
}
