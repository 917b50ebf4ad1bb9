/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_uplink.c: a port that takes all frames refuses the interface of the default
 * route, unless the spec overrides that. For one that does not exist, the error names those that
 * are up.
 *
 * The network namespace has no name, and everything in it vanishes with the process.
 */
#include "port/port.h"
#include "tests/support/child.h"
#include "tests/support/hk_test.h"
#include "tests/support/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* The result of an open. */
struct outcome {
	int rc;
	struct hk_error err;
};
static struct outcome *last; /* shared with the children */

/* Opens the port in a process of its own, because DPDK starts once in a process. */
static void try_to_open(const char *spec)
{
	struct hk_eal_config eal = {.memory_mb = 128};
	struct hk_port *port;
	pid_t pid = child_fork();

	if (pid == 0) {
		last->rc = hk_eal_init(&eal, &last->err);
		if (last->rc == 0)
			last->rc = hk_port_open(spec, 64, NULL, 5000, &port, &last->err);
		if (last->rc == 0)
			hk_port_close(port);
		_exit(0);
	}
	child_ends_well(pid);
}

static void refused(const char *spec, const char *says)
{
	try_to_open(spec);
	CHECK_MSG(last->rc == -EPERM, "%s: %d: %s", spec, last->rc, last->err.text);
	CHECK_HAS(last->err.text, says, ",force=1");
}

static void opened(const char *spec)
{
	try_to_open(spec);
	CHECK_MSG(last->rc == 0, "%s: %d: %s", spec, last->rc, last->err.text);
}

TEST(no_default_route)
{
	shell("ip route add 10.9.0.0/16 dev nic0");
	opened("af_xdp:iface=nic0,take=all");
}

TEST(an_interface_that_does_not_exist)
{
	shell("ip link add down0 type veth peer name down1");
	try_to_open("af_packet:iface=absent0");
	CHECK_EQ(last->rc, -ENODEV);
	CHECK_HAS(last->err.text, "no interface absent0 here; fix: use one of ", "nic0");
	CHECK(strstr(last->err.text, "down0") == NULL);
	shell("ip link delete down0");
}

TEST(its_own_default_route)
{
	shell("ip route add default dev nic0");
	refused("af_xdp:iface=nic0,take=all", "leaves by nic0; ");
	opened("af_xdp:iface=nic0,take=all,force=1");
	opened("af_packet:iface=nic0"); /* takes no frames from others */
	opened("af_xdp:iface=nic0");
	opened("af_xdp:iface=far0,take=all"); /* a veth does not send by its peer's namespace */
	shell("ip route del default");
	opened("af_xdp:iface=nic0,take=all");
}

TEST(of_ipv6)
{
	shell("sysctl -qw net.ipv6.conf.nic0.disable_ipv6=0");
	shell("ip -6 route add default dev nic0");
	refused("af_xdp:iface=nic0,take=all", "leaves by nic0; ");
	shell("ip -6 route del default");
}

TEST(one_of_several_ways)
{
	shell("ip route add default nexthop dev far0 nexthop dev nic0");
	refused("af_xdp:iface=nic0,take=all", "leaves by nic0; ");
	shell("ip route del default");
}

/* The route uses a bridge with the interface as a port, or a macvlan on that. */
TEST(on_top_of_it)
{
	shell("ip link add br0 type bridge && ip link set nic0 master br0 && ip link set br0 up");
	opened("af_xdp:iface=nic0,take=all");
	shell("ip route add default dev br0");
	refused("af_xdp:iface=nic0,take=all", "leaves by nic0 below br0; ");
	shell("ip link add link br0 name on0 type macvlan && ip link set on0 up");
	shell("ip route replace default dev on0");
	refused("af_xdp:iface=nic0,take=all", "leaves by nic0 below on0; ");
	shell("ip link del br0");
}

/* mpirun's daemons are connected, and the node has no default route. */
TEST(of_a_connection)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {inet_addr("10.9.9.1")}};
	socklen_t len = sizeof(a);

	shell("ip link set lo up && ip addr add 10.9.9.1/24 dev nic0 && "
	      "ip addr add 10.9.9.2/24 dev nic0");
	int listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int connects = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(listens, (struct sockaddr *)&a, len), 0);
	CHECK_EQ(listen(listens, 1), 0);
	CHECK_EQ(getsockname(listens, (struct sockaddr *)&a, &len), 0);
	opened("af_xdp:iface=nic0,take=all");
	struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = {inet_addr("10.9.9.2")}};
	CHECK_EQ(bind(connects, (struct sockaddr *)&from, sizeof(from)), 0);
	CHECK_EQ(connect(connects, (struct sockaddr *)&a, len), 0);
	refused("af_xdp:iface=nic0,take=all",
		"TCP connections of this node use nic0, such as the one at 10.");
	opened("af_xdp:iface=nic0,take=all,force=1");
	opened("af_xdp:iface=far0,take=all");
	close(connects);
	close(listens);
	shell("ip addr flush dev nic0");
}

BEFORE_ALL()
{
	last = mmap(NULL, sizeof(*last), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(last != MAP_FAILED);
	CHECK_MSG(net_own(), "this test needs root");
	shell("ip link add nic0 mtu 1500 type veth peer name far0");
	shell("ip link set nic0 up && ip link set far0 up");
}
