/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_uplink.c: AF_XDP does not take the interface of the default route, unless told to.
 *
 * The network namespace has no name, and what is made in it vanishes with the process.
 */
#include "port/port.h"
#include "tests/unit/hk_test.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void shell(const char *command)
{
	int rc = system(command);
	CHECK_MSG(rc == 0, "%s: exit status %d", command, rc);
}

/* What came of an open. */
struct outcome {
	int rc;
	struct hk_error err;
};
static struct outcome *last; /* shared with the children */

/* In a process of its own: one in which AF_XDP was open does not open it again. */
static void try_to_open(const char *spec)
{
	struct hk_eal_config eal = {.memory_mb = 128};
	struct hk_port *port;
	pid_t pid = fork();
	int status = 0;

	CHECK(pid >= 0);
	if (pid == 0) {
		last->rc = hk_eal_init(&eal, &last->err);
		if (last->rc == 0)
			last->rc = hk_port_open(spec, 64, NULL, 5000, &port, &last->err);
		if (last->rc == 0)
			hk_port_close(port);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
}

static void refused(const char *spec, const char *says)
{
	try_to_open(spec);
	CHECK_MSG(last->rc == -EPERM, "%s: %d: %s", spec, last->rc, last->err.text);
	CHECK_MSG(strstr(last->err.text, says), "%s: \"%s\" does not say \"%s\"", spec,
		  last->err.text, says);
	CHECK_MSG(strstr(last->err.text, ",force=1"), "\"%s\" names no fix", last->err.text);
}

static void opened(const char *spec)
{
	try_to_open(spec);
	CHECK_MSG(last->rc == 0, "%s: %d: %s", spec, last->rc, last->err.text);
}

static void no_default_route(void)
{
	shell("ip route add 10.9.0.0/16 dev nic0");
	opened("af_xdp:iface=nic0");
}

static void its_own_default_route(void)
{
	shell("ip route add default dev nic0");
	refused("af_xdp:iface=nic0", "leaves by nic0; ");
	opened("af_xdp:iface=nic0,force=1");
	opened("af_packet:iface=nic0"); /* takes nothing from anybody */
	opened("af_xdp:iface=far0");    /* a veth's peer is no way out */
	shell("ip route del default");
	opened("af_xdp:iface=nic0");
}

static void of_ipv6(void)
{
	shell("sysctl -qw net.ipv6.conf.nic0.disable_ipv6=0");
	shell("ip -6 route add default dev nic0");
	refused("af_xdp:iface=nic0", "leaves by nic0; ");
	shell("ip -6 route del default");
}

static void one_of_several_ways(void)
{
	shell("ip route add default nexthop dev far0 nexthop dev nic0");
	refused("af_xdp:iface=nic0", "leaves by nic0; ");
	shell("ip route del default");
}

/* The route leaves by a bridge of which the interface is a port, or by a macvlan on that. */
static void on_top_of_it(void)
{
	shell("ip link add br0 type bridge && ip link set nic0 master br0 && ip link set br0 up");
	opened("af_xdp:iface=nic0");
	shell("ip route add default dev br0");
	refused("af_xdp:iface=nic0", "leaves by nic0 below br0; ");
	shell("ip link add link br0 name on0 type macvlan && ip link set on0 up");
	shell("ip route replace default dev on0");
	refused("af_xdp:iface=nic0", "leaves by nic0 below on0; ");
	shell("ip link del br0");
}

static const struct hk_test tests[] = {
	{"no_default_route", no_default_route},
	{"its_own_default_route", its_own_default_route},
	{"of_ipv6", of_ipv6},
	{"one_of_several_ways", one_of_several_ways},
	{"on_top_of_it", on_top_of_it},
};

int main(int argc, char **argv)
{
	last = mmap(NULL, sizeof(*last), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (last == MAP_FAILED || unshare(CLONE_NEWNET) != 0) {
		perror("this test needs root");
		return 1;
	}
	shell("ip link add nic0 mtu 1500 type veth peer name far0");
	shell("ip link set nic0 up && ip link set far0 up");
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
