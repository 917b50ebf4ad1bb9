/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of hikyaku-sim.
 */
#include "tests/unit/sim/command.h"

static struct sim_options o;
static struct hk_error err;

static int parse(const char *line)
{
	err.text[0] = 0;
	return command(&o, line, &err);
}

#define REFUSED(line, why)                                                                         \
	do {                                                                                       \
		CHECK(parse(line) < 0);                                                            \
		CHECK_MSG(strstr(err.text, why), "%s: %s", line, err.text);                        \
		CHECK_MSG(strstr(err.text, "; fix: "), "%s: %s", line, err.text);                  \
	} while (0)

TEST(defaults_are_those_of_a_worker)
{
	CHECK_EQ(parse("incast"), 0);
	CHECK_EQ(o.net.hosts, 65);
	CHECK_EQ(o.flows, 64);
	CHECK_EQ(o.size, 64 << 10);
	CHECK_EQ(o.net.ps_per_byte, 800);
	CHECK_EQ(o.net.buffer, 1 << 20);
	CHECK_EQ(o.host.mtu, 1500);
	CHECK_EQ(o.host.pool, 6144);
	CHECK_EQ(o.host.tx_buffers, 2048);
	CHECK_EQ(o.host.engine.rx_budget, 2048);
	CHECK_EQ(o.net.topology, TOPOLOGY_STAR);
}

TEST(values_are_taken)
{
	CHECK_EQ(parse("burst --hosts 9 --rate 100 --frame 9000 --buffer 20000 --size 16 --count 3 "
		       "--time-ms 7 --seed 18446744073709551615 --pool 99 --mark 5000 --classes 1 "
		       "--loss-ppm 10 --leaf-hosts 4 --spines 2 --ports 2 --dead-at-ms 3 "
		       "--hold-us 7"),
		 0);
	CHECK_EQ(o.net.hosts, 9);
	CHECK_EQ(o.net.ps_per_byte, 80);
	CHECK_EQ(o.host.mtu, 9000);
	CHECK_EQ(o.net.buffer, 20000);
	CHECK_EQ(o.size, 16);
	CHECK_EQ(o.count, 3);
	CHECK_EQ(o.time, 7 * HK_MSEC * SIM_NS);
	CHECK_EQ(o.seed, UINT64_MAX);
	CHECK_EQ(o.host.pool, 99);
	CHECK_EQ(o.host.engine.rx_budget, 33);
	CHECK_EQ(o.net.mark, 5000);
	CHECK(o.net.classes);
	CHECK_EQ(o.net.loss, 10);
	CHECK_EQ(o.net.topology, TOPOLOGY_LEAFSPINE);
	CHECK_EQ(o.net.leaf_hosts, 4);
	CHECK_EQ(o.net.spines, 2);
	CHECK_EQ(o.net.host_ports, 2);
	CHECK_EQ(o.net.dead_at, SIM_START + 3 * HK_MSEC * SIM_NS);
	CHECK_EQ(o.net.dead_port, 1);
	CHECK_EQ(o.host.hold, 7 * HK_USEC * SIM_NS);
}

TEST(rates_have_units)
{
	CHECK_EQ(parse("incast --rate 100M"), 0);
	CHECK_EQ(o.net.ps_per_byte, 80000);
	CHECK_EQ(o.host.engine.link_mbps, 100);
	CHECK_EQ(parse("incast --rate 25G --ports 2"), 0);
	CHECK_EQ(o.net.ps_per_byte, 320);
	CHECK_EQ(o.host.engine.link_mbps, 50000);
}

TEST(mistakes_are_named)
{
	REFUSED("", "no scenario");
	REFUSED("outcast", "no scenario outcast");
	REFUSED("incast --hosts", "--hosts lacks its value");
	REFUSED("incast --hosts 1", "--hosts 1 ");
	REFUSED("incast --hosts -5", "--hosts -5 ");
	REFUSED("incast --hosts 5x", "--hosts 5x ");
	REFUSED("incast --seed 99999999999999999999", "--seed ");
	REFUSED("incast --rate 30", "--rate 30 ");
	REFUSED("incast --rate 5M", "--rate 5M ");
	REFUSED("incast --rate 10K", "--rate 10K ");
	REFUSED("incast --rate G", "--rate G ");
	REFUSED("incast --rate 801G", "--rate 801G ");
	REFUSED("incast --rate 18446744073709551616", "--rate 18446744073709551616 ");
	REFUSED("incast --colour 7", "unknown option --colour");
	REFUSED("lone --hosts 2", "lone needs 3 hosts");
	REFUSED("incast --leaf-hosts 4", "--leaf-hosts");
	REFUSED("incast --load 50", "--load");
}
