/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulator's ports, links and network switches.
 */
#include "sim/net.h"

#include "tests/support/hk_test.h"

#define PS_PER_BYTE 800 /* 10 Gb/s */
#define DELAY       (1000 * SIM_NS)
#define START       (1000000 * SIM_NS)
#define FRAMES      512

static struct {
	struct net net;
	unsigned count;
	struct {
		uint64_t at;
		uint32_t host, msg;
		bool marked;
	} came[FRAMES];
} at;

static void arrived(void *arg, uint32_t host, uint32_t frame)
{
	const struct frame *f = &at.net.frames.frame[frame];

	(void)arg;
	CHECK_CMP(at.count, <, FRAMES);
	at.came[at.count].at = at.net.events.now - START;
	at.came[at.count].host = host;
	at.came[at.count].msg = f->msg;
	at.came[at.count++].marked = f->marked;
	frame_free(&at.net.frames, frame);
}

static void sent(void *arg, uint32_t host)
{
	(void)arg;
	(void)host;
}

static void begin(const struct net_config *more)
{
	struct net_config c = *more;

	c.ps_per_byte = PS_PER_BYTE;
	c.link_delay = DELAY;
	c.host_ports = HK_MAX(c.host_ports, 1u);
	c.buffer = c.buffer ? c.buffer : 1 << 20;
	at.count = 0;
	net_init(&at.net, &c, hk_test_now.seed, START);
	at.net.arrived = arrived;
	at.net.sent = sent;
}

static void give(uint32_t from, uint32_t to, uint32_t len, uint32_t msg, uint8_t class)
{
	uint32_t i = frame_new(&at.net.frames);
	struct frame *f = &at.net.frames.frame[i];

	f->from = from;
	f->to = to;
	f->len = (uint16_t)len;
	f->msg = msg;
	f->class = class;
	f->path = 0;
	f->flow = from * 1000 + to;
	f->bulk = class == 0;
	net_enqueue(&at.net, net_nic(&at.net, from, 0), i);
}

static void go(uint64_t until)
{
	struct event ev;

	while (events_next(&at.net.events, until, &ev))
		net_event(&at.net, &ev);
}

static void end(void)
{
	CHECK_EQ(at.net.frames.in_use, 0);
	net_free(&at.net);
}

TEST(a_frame_takes_two_links_and_two_turns)
{
	begin(&(struct net_config){.hosts = 2});
	give(0, 1, 1000, 5, 0);
	give(0, 1, 1, 6, 0); /* padded to 60 bytes */
	go(START + HK_SEC);
	CHECK_EQ(at.count, 2);
	CHECK_EQ(at.came[0].msg, 5);
	CHECK_EQ(at.came[0].host, 1);
	CHECK_EQ(at.came[0].at, 2 * DELAY + 2 * 1024 * PS_PER_BYTE);
	CHECK_EQ(at.came[1].at, 2 * DELAY + (2 * 1024 + 84) * PS_PER_BYTE);
	end();
}

TEST(a_queue_takes_what_its_buffer_holds)
{
	/* four senders at twice the pace of each other: three of four frames at once are too many
	 */
	begin(&(struct net_config){.hosts = 5, .buffer = 2500});
	for (uint32_t i = 1; i < 5; i++)
		give(i, 0, 1000, i, 0);
	go(START + HK_SEC);
	CHECK_EQ(at.count, 2);
	CHECK_EQ(net_sum(&at.net).dropped, 2);
	CHECK_EQ(net_sum(&at.net).dropped_bulk, 2);
	CHECK_EQ(net_sum(&at.net).queue_max, 2000);
	CHECK_EQ(net_busiest(&at.net), 5);
	end();
}

TEST(a_frame_that_finds_a_long_queue_is_marked)
{
	begin(&(struct net_config){.hosts = 5, .mark = 1500});
	for (uint32_t i = 1; i < 5; i++)
		give(i, 0, 1000, i, 0);
	go(START + HK_SEC);
	CHECK_EQ(at.count, 4);
	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(at.came[i].marked, i >= 2);
	CHECK_EQ(net_sum(&at.net).marked, 2);
	end();
}

TEST(a_higher_class_overtakes_if_the_network_has_classes)
{
	for (unsigned classes = 0; classes < 2; classes++) {
		begin(&(struct net_config){.hosts = 2, .classes = classes != 0});
		for (uint32_t i = 0; i < 4; i++)
			give(0, 1, 1000, i, i == 3);
		go(START + HK_SEC);
		CHECK_EQ(at.count, 4);
		/* frame 0 was being sent */
		CHECK_EQ(at.came[1].msg, classes ? 3 : 1);
		end();
	}
}

TEST(a_link_loses_as_many_as_it_shall)
{
	begin(&(struct net_config){.hosts = 2, .loss = 100000});
	for (uint32_t i = 0; i < 400; i++)
		give(0, 1, 100, i, 0);
	go(START + HK_SEC);
	/* two links: a fifth, nearly */
	CHECK_EQ(at.count + at.net.lost_by_links, 400);
	CHECK_CMP(at.net.lost_by_links, >, 40);
	CHECK_CMP(at.net.lost_by_links, <, 120);
	end();
}

TEST(a_dead_link_carries_nothing_in_both_directions)
{
	begin(&(struct net_config){
		.hosts = 3, .dead_at = START + 1, .dead_host = 1, .dead_port = 0});
	give(1, 0, 100, 1, 0);
	give(0, 1, 100, 2, 0);
	give(0, 2, 100, 3, 0);
	go(START + HK_SEC);
	CHECK_EQ(at.count, 1);
	CHECK_EQ(at.came[0].msg, 3);
	CHECK_EQ(at.net.lost_by_links, 2);
	end();
}

/* Frames that came to hosts of another leaf than their sender's, by the spine that they took. */
static uint32_t by_spine(uint32_t hosts, uint32_t leaf_hosts, uint32_t spines, uint64_t *by)
{
	uint32_t leaves = hosts / leaf_hosts, all = 0;

	for (uint32_t s = 0; s < spines; s++) {
		by[s] = 0;
		for (uint32_t l = 0; l < leaves; l++)
			by[s] += at.net.port[2 * hosts + leaves * spines + s * leaves + l].n.frames;
		all += (uint32_t)by[s];
	}
	return all;
}

TEST(a_flow_takes_one_spine_and_flows_take_all)
{
	uint64_t by[4];

	begin(&(struct net_config){
		.hosts = 16, .topology = TOPOLOGY_LEAFSPINE, .leaf_hosts = 4, .spines = 4});
	give(0, 3, 100, 0, 0); /* within a leaf */
	go(START + HK_SEC);
	CHECK_EQ(by_spine(16, 4, 4, by), 0);
	CHECK_EQ(at.came[0].at, 2 * DELAY + 2 * 124 * PS_PER_BYTE);
	for (unsigned i = 0; i < 8; i++)
		give(0, 15, 100, i, 0);
	go(START + 2 * HK_SEC);
	CHECK_EQ(at.count, 9);
	CHECK_EQ(by_spine(16, 4, 4, by), 8);
	CHECK_EQ(HK_MAX(HK_MAX(by[0], by[1]), HK_MAX(by[2], by[3])), 8);
	for (uint32_t from = 0; from < 16; from++)
		for (uint32_t to = 0; to < 16; to++)
			if (from / 4 != to / 4)
				give(from, to, 100, 0, 0);
	go(START + 3 * HK_SEC);
	CHECK_EQ(at.count, 9 + 192);
	CHECK_EQ(by_spine(16, 4, 4, by), 8 + 192);
	for (unsigned s = 0; s < 4; s++)
		CHECK_CMP(by[s], >, 24); /* of 48 */
	end();
}

TEST(ports_of_a_host_are_links_of_their_own)
{
	begin(&(struct net_config){.hosts = 2, .host_ports = 2});
	for (uint8_t path = 0; path < 2; path++) {
		uint32_t i = frame_new(&at.net.frames);
		struct frame *f = &at.net.frames.frame[i];

		*f = (struct frame){.to = 1, .len = 1000, .path = path};
		net_enqueue(&at.net, net_nic(&at.net, 0, path), i);
	}
	go(START + HK_SEC);
	CHECK_EQ(at.count, 2);
	CHECK_EQ(at.came[0].at, at.came[1].at);
	end();
}
