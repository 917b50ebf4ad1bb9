/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of the simulator at 64 and 256 peers: networks of many hosts stay fair, full and short of
 * queues. The simulator repeats exactly, so the limits are close to what is reached. docs/sim.md
 * names the commands for more hosts.
 */
#include "sim/scenarios.h"

#include "tests/unit/sim/command.h"

#include <stdlib.h>

/* Runs the command @line and keeps its report. */
struct result {
	const char *line;
	char *text;
};

static struct result run_of(const char *line)
{
	return (struct result){line, report(line)};
}

static double value(const struct result *r, const char *name)
{
	char key[64];

	snprintf(key, sizeof(key), "\"%s\": ", name);
	const char *at = strstr(r->text, key);

	CHECK_MSG(at != NULL, "%s: no %s", r->line, name);
	return strtod(at + strlen(key), NULL);
}

#define CHECK_LIMIT(r, name, cmp, limit)                                                           \
	CHECK_MSG(value(r, name) cmp(limit), "%s: %s is %g, against %g", (r)->line, name,          \
		  value(r, name), (double)(limit))

static void incast(const char *line, double share)
{
	struct result r = run_of(line);

	CHECK_LIMIT(&r, "share", >=, share);
	CHECK_LIMIT(&r, "loss", <=, 0);
	CHECK_LIMIT(&r, "jain", >=, .95);
	CHECK_LIMIT(&r, "starved", <=, 0);
	CHECK_LIMIT(&r, "p99_us", <=, 2000 * value(&r, "fair_ms"));
	CHECK_LIMIT(&r, "queue_mean", <=, 100000);
	free(r.text);
}

TEST(incast_is_full_fair_and_without_loss)
{
	incast("incast --hosts 9 --time-ms 50", .90);
	incast("incast --hosts 65 --time-ms 200", .90);
	incast("incast --hosts 257 --time-ms 200", .90);
	incast("incast --hosts 65 --time-ms 200 --frame 9000", .95);
	incast("incast --hosts 257 --time-ms 200 --frame 9000", .95);
	incast("incast --hosts 65 --time-ms 50 --frame 9000 --rate 100", .95);
	incast("incast --hosts 65 --time-ms 2000 --frame 9000 --rate 100M", .95);
}

static void longflows(const char *line)
{
	struct result r = run_of(line);

	CHECK_LIMIT(&r, "share", >=, .90);
	CHECK_LIMIT(&r, "loss", <=, 0);
	CHECK_LIMIT(&r, "jain", >=, .97);
	CHECK_LIMIT(&r, "queue_mean", <=, 100000);
	free(r.text);
}

TEST(long_flows_are_fair_and_queues_are_short)
{
	longflows("longflows --hosts 3 --time-ms 200");
	longflows("longflows --hosts 5 --time-ms 200 --frame 9000");
	longflows("longflows --hosts 17 --time-ms 400");
	longflows("longflows --hosts 17 --time-ms 100 --rate 100");
	longflows("longflows --hosts 17 --time-ms 100 --rate 100 --frame 9000");
}

/* @factor: of the ideal time. */
static void once(const char *line, double factor)
{
	struct result r = run_of(line);

	CHECK_LIMIT(&r, "undelivered", <=, 0);
	CHECK_LIMIT(&r, "last_delivery_ms", <=, factor * value(&r, "ideal_ms"));
	free(r.text);
}

TEST(one_message_of_each_takes_about_the_ideal_time)
{
	once("eager --hosts 65", 1.1);
	once("eager --hosts 65 --frame 9000", 1.05);
	once("eager --hosts 257", 1.1);
	once("eager --hosts 257 --rate 100", 1.1);
	once("eager --hosts 257 --pool 1024", 1.1);
	once("bulk --hosts 65", 1.1);
	once("bulk --hosts 257 --frame 9000", 1.1);
	once("bulk --hosts 257 --frame 9000 --rate 100", 1.2);
	once("bulk --hosts 301 --frame 9000 --rate 25", 1.1);
	once("bulk --hosts 257 --rate 1", 1.1);
	once("bulk --hosts 1001 --frame 9000 --rate 1", 1.1);
}

TEST(bursts_of_small_messages_fit_the_switch)
{
	once("burst --hosts 65", 1.1);
	once("burst --hosts 257", 1.1);
	once("burst --hosts 401", 1.1);
	once("burst --hosts 401 --pool 512", 2);
	once("burst --hosts 2001", 1.1);
	once("burst --hosts 2001 --rate 25", 1.1);
	once("burst --hosts 1001 --rate 100", 1.2);
	once("burst --hosts 257 --size 900", 1.1);
	once("burst --hosts 257 --size 900 --rate 100", 1.1);
	/* 1.00 to 1.26 by the number of hosts: now and then the last ones have short windows */
	once("burst --hosts 1001 --size 900", 1.3);
}

/* Small messages have no grants. A network that marks frames keeps their queues short. */
TEST(marks_keep_queues_short)
{
	struct result r = run_of("burst --hosts 65 --size 900 --count 256 --mark 65000");

	CHECK_LIMIT(&r, "queue_mean", <=, 80000);
	CHECK_LIMIT(&r, "loss", <=, 0);
	CHECK_LIMIT(&r, "last_delivery_ms", <=, 1.05 * value(&r, "ideal_ms"));
	free(r.text);
}

TEST(small_messages_pass_bulk)
{
	struct result r = run_of("pingpong --hosts 65 --time-ms 100");

	CHECK_LIMIT(&r, "p99_us", <=, 40);
	free(r.text);
	r = run_of("pingpong --hosts 65 --time-ms 100 --frame 9000 --rate 25");
	CHECK_LIMIT(&r, "p99_us", <=, 40);
	free(r.text);
	/* on slow links a few frames of bulk are in front of each message */
	r = run_of("pingpong --hosts 65 --time-ms 100 --frame 9000 --rate 1");
	CHECK_LIMIT(&r, "p99_us", <=, 500);
	free(r.text);
	r = run_of("pingpong --hosts 17 --time-ms 500 --rate 100M");
	CHECK_LIMIT(&r, "p99_us", <=, 1400);
	free(r.text);
	r = run_of("pingpong --hosts 65 --time-ms 100 --frame 9000 --classes 1");
	CHECK_LIMIT(&r, "p99_us", <=, 12);
	free(r.text);
}

static void all_to_all(const char *line, double share)
{
	struct result r = run_of(line);

	CHECK_LIMIT(&r, "share", >=, share);
	CHECK_LIMIT(&r, "loss", <=, 0);
	free(r.text);
}

/* All hosts send to all others in the same order, from cold. */
TEST(an_exchange_between_all_hosts_uses_most_of_the_links)
{
	all_to_all("alltoall --hosts 64", .75);
	all_to_all("alltoall --hosts 64 --frame 9000", .85);
	all_to_all("alltoall --hosts 64 --frame 9000 --rate 25", .85);
	all_to_all("alltoall --hosts 64 --frame 9000 --rate 100", .76);
	all_to_all("alltoall --hosts 64 --rate 100", .6);
	all_to_all("alltoall --hosts 64 --frame 9000 --rate 1", .75);
	all_to_all("alltoall --hosts 16 --frame 9000 --rate 1", .85);
	all_to_all("alltoall --hosts 2 --size 1000000 --rate 1", .85);
	all_to_all("alltoall --hosts 2 --size 1000000 --rate 100M", .85);
}

/* Four hosts share a link to the spines, and the first packets to some peers are lost. */
TEST(a_lost_first_packet_does_not_keep_an_exchange_from_its_end)
{
	struct result r = run_of("alltoall --hosts 64 --rate 100 --spines 2 --leaf-hosts 8");

	CHECK_LIMIT(&r, "dropped", >, 0);
	CHECK_LIMIT(&r, "time_ms", <=, 6);
	free(r.text);
	r = run_of("alltoall --hosts 64 --rate 100 --frame 9000 --spines 2 --leaf-hosts 8");
	CHECK_LIMIT(&r, "dropped", >, 0);
	CHECK_LIMIT(&r, "time_ms", <=, 6);
	free(r.text);
}

/* Two hosts share a link to the spines. Senders are busy for longer than their grants last. */
TEST(a_forgotten_grant_does_not_keep_an_exchange_from_its_end)
{
	struct result r = run_of("alltoall --hosts 64 --rate 10 --spines 4 --leaf-hosts 8");

	CHECK_LIMIT(&r, "dropped", ==, 0);
	CHECK_LIMIT(&r, "time_ms", <=, 9);
	free(r.text);
}

TEST(silent_peers_hold_nobody_up)
{
	struct result r = run_of("silent --hosts 66");

	CHECK_LIMIT(&r, "last_delivery_ms", <=, 2);
	free(r.text);
	r = run_of("silent --hosts 258");
	CHECK_LIMIT(&r, "last_delivery_ms", <=, 2);
	free(r.text);
}

TEST(peers_that_spoke_once_cost_a_flow_nothing)
{
	struct result r = run_of("lone --hosts 2001 --rate 25 --time-ms 300");

	CHECK_LIMIT(&r, "share", >=, .90);
	free(r.text);
}
