/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_steer.c: the method of steering that a port uses, and the queues on which
 * frames arrive.
 *
 * The NIC is simulated (sim_nic.h) on one end of a veth pair, in a network namespace that vanishes
 * with the process. Frames come from a packet socket at the other end. Each case sets the NIC's
 * abilities in the environment. One test uses the real net_tap, with the abilities of this kernel.
 */
#include "port/steer.h"
#include "tests/support/await.h"
#include "tests/support/net.h"
#include "tests/unit/port/sim_nic.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS 10000
#define TYPE    0x88B6 /* not Hikyaku's own; the port does not interpret frames */
#define FIELD   30
#define LEN     64
#define QUEUES  4
#define SPEC    "vdev:net_af_packet0,iface=nic0,qpairs=4,framesz=1024,blocksz=4096,framecnt=64"

static int sender = -1;

BEFORE_ALL()
{
	CHECK_MSG(net_own(), "unshare: %s; fix: run as root", strerror(errno));
	shell("sysctl -qw net.ipv6.conf.default.disable_ipv6=1");
	shell("ip link add nic0 type veth peer name far0");
	shell("ip link set nic0 up && ip link set far0 up");
	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = 192}, ERR));
	sender = net_packet_socket("far0");
}

/* Returns the match of user number @user. */
static struct hk_steer_match match_of(uint8_t user)
{
	struct hk_steer_match m = {
		.ether_type = TYPE,
		.offset = FIELD,
		.len = 4,
		.value = {user, 0, 0x10, 0},
		.mask = {255, 255, 255, 255},
		.has_mac = true,
		.mac = {2, 0, 0, 0, 0, user},
		.udp_port = (uint16_t)(4000 + user),
	};
	return m;
}

static void send_frame(uint8_t mac, uint16_t type, uint8_t field)
{
	uint8_t f[LEN] = {
		2, 0, 0, 0, 0, mac, 2, 0, 0, 0, 1, 1, (uint8_t)(type >> 8), (uint8_t)type};

	f[FIELD] = field;
	f[FIELD + 2] = 0x10;
	CHECK_EQ(send(sender, f, sizeof(f), 0), sizeof(f));
}

static void send_udp(uint16_t port)
{
	uint8_t f[LEN] = {2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 1, 1, 8, 0, 0x45};

	f[23] = 17;
	f[36] = (uint8_t)(port >> 8);
	f[37] = (uint8_t)port;
	CHECK_EQ(send(sender, f, sizeof(f), 0), sizeof(f));
}

/* Returns the queue on which the next frame arrives. */
static int arrives(struct hk_port *port)
{
	struct rte_mbuf *m;
	int64_t end = hk_clock_ms() + WAIT_MS;

	do {
		for (uint16_t q = 0; q < port->info.queues; q++) {
			if (hk_port_rx(port, q, &m, 1)) {
				rte_pktmbuf_free(m);
				return q;
			}
		}
	} while (hk_clock_ms() < end);
	return -1;
}

/* Opens a port. @abilities: the NIC's; NULL: not simulated. */
static struct hk_port *open_port(const char *abilities, const char *spec, unsigned queues,
				 struct hk_steer_report *report)
{
	const struct hk_steer_match sample = match_of(200);
	struct hk_port *port;

	if (abilities)
		setenv("HK_SIM_NIC", abilities, 1);
	else
		unsetenv("HK_SIM_NIC");
	CHECK_OK(hk_port_open_steered(spec, 256, queues, &sample, WAIT_MS, &port, ERR));
	hk_port_steering(port, report);
	return port;
}

static struct hk_port *open_nic(const char *abilities, struct hk_steer_report *report)
{
	return open_port(abilities, SPEC, QUEUES, report);
}

static void add(struct hk_port *port, unsigned queue, uint8_t user)
{
	const struct hk_steer_match m = match_of(user);

	CHECK_OK(hk_steer_add(port, queue, &m, ERR));
}

static void close_nic(struct hk_port *port)
{
	hk_port_close(port);
	CHECK_EQ(sim_nic_rules(), 0);
}

/* ---- methods --------------------------------------------------------------------------------- */

static void by_endpoint_field(const char *abilities)
{
	struct hk_steer_report r;
	struct hk_port *port = open_nic(abilities, &r);

	CHECK_EQ(r.method, HK_STEER_ENDPOINT);
	CHECK_EQ(r.queues, QUEUES);
	CHECK_EQ(sim_nic_rules(), 0); /* the trial rule is removed */
	add(port, 1, 10);
	add(port, 3, 11);
	send_frame(5, TYPE, 10);
	CHECK_EQ(arrives(port), 1);
	send_frame(5, TYPE, 11);
	CHECK_EQ(arrives(port), 3);
	send_frame(5, TYPE, 12); /* for no user */
	CHECK_EQ(arrives(port), 0);
	send_frame(5, TYPE + 1, 10); /* of another protocol */
	CHECK_EQ(arrives(port), 0);
	send_frame(10, TYPE + 1, 0); /* the address alone does not match */
	CHECK_EQ(arrives(port), 0);
	hk_port_steering(port, &r);
	CHECK_EQ(r.rules, 2);
	hk_steer_remove(port, 1);
	hk_steer_remove(port, 1);
	send_frame(5, TYPE, 10);
	CHECK_EQ(arrives(port), 0);
	add(port, 1, 12); /* the next user of the queue */
	send_frame(5, TYPE, 12);
	CHECK_EQ(arrives(port), 1);
	CHECK_EQ(sim_nic_rules(), 2);
	close_nic(port);
}

TEST(endpoint_field)
{
	by_endpoint_field("endpoint,mac,udp");
}

TEST(endpoint_field_by_raw_items_alone)
{
	by_endpoint_field("endpoint-abs,mac");
}

static void by_mac(const char *abilities, bool any_type)
{
	struct hk_steer_report r;
	struct hk_port *port = open_nic(abilities, &r);

	CHECK_EQ(r.method, HK_STEER_MAC);
	CHECK_HAS(r.why[HK_STEER_ENDPOINT], "has no ?such? filter");
	CHECK_EQ(r.why[HK_STEER_MAC][0], 0);
	add(port, 2, 10);
	send_frame(10, TYPE, 0);
	CHECK_EQ(arrives(port), 2);
	send_frame(11, TYPE, 10);
	CHECK_EQ(arrives(port), 0);
	send_frame(10, TYPE + 1, 0);
	CHECK_EQ(arrives(port), any_type ? 2 : 0);
	close_nic(port);
}

TEST(mac)
{
	by_mac("mac,udp", true);
}

TEST(mac_with_a_type)
{
	by_mac("mac-type", false);
}

TEST(udp_port)
{
	struct hk_steer_report r;
	struct hk_port *port = open_nic("udp", &r);

	CHECK_EQ(r.method, HK_STEER_UDP);
	add(port, 1, 10);
	send_udp(4010);
	CHECK_EQ(arrives(port), 1);
	send_udp(4011);
	CHECK_EQ(arrives(port), 0);
	close_nic(port);
}

/* ---- software -------------------------------------------------------------------------------- */

static void software(const char *abilities, const char *why)
{
	struct hk_steer_report r;
	struct hk_port *port = open_nic(abilities, &r);
	const struct hk_steer_match m = match_of(10);

	CHECK_EQ(r.method, HK_STEER_SOFTWARE);
	CHECK(!port->info.steered);
	CHECK_EQ(port->info.extra_queues, QUEUES - 1); /* net_af_packet spreads frames */
	CHECK_HAS(r.why[HK_STEER_MAC], why);
	CHECK(r.why[HK_STEER_ENDPOINT][0] && r.why[HK_STEER_UDP][0] &&
	      r.why[HK_STEER_QUEUE_INDEX][0]);
	CHECK_EQ(hk_steer_add(port, 1, &m, ERR), -ENOTSUP);
	hk_steer_remove(port, 1);
	send_frame(10, TYPE, 10);
	CHECK_EQ(arrives(port), 0);
	close_nic(port);
}

TEST(no_filter_at_all)
{
	software("none", "no ?such? filter");
}

TEST(validated_and_not_made)
{
	software("endpoint,mac,udp,lies",
		 "validates a rule and does not make it: the simulated NIC "
		 "has lied");
}

TEST(leftovers_that_stay)
{
	software("endpoint,mac,udp,sticky", "does not flush its rules");
}

TEST(one_mac_address_alone)
{
	software("mac,one-mac", "takes in no second MAC address");
}

/* ---- the rest -------------------------------------------------------------------------------- */

TEST(leftovers_are_flushed)
{
	struct hk_steer_report r;
	struct hk_port *port = open_nic("endpoint,leftover", &r);

	CHECK_EQ(r.method, HK_STEER_ENDPOINT);
	CHECK_EQ(sim_nic_rules(), 0);
	send_frame(5, TYPE, 10);
	CHECK_EQ(arrives(port), 0);
	close_nic(port);
}

TEST(a_full_table)
{
	const struct hk_steer_match m = match_of(12);
	struct hk_steer_report r;

	setenv("HK_SIM_NIC_RULES", "2", 1);
	struct hk_port *port = open_nic("endpoint", &r);

	add(port, 1, 10);
	add(port, 2, 11);
	CHECK_REFUSED(hk_steer_add(port, 3, &m, ERR), -ENOSPC, "is full");
	send_frame(5, TYPE, 12);
	CHECK_EQ(arrives(port), 0);
	hk_port_steering(port, &r);
	CHECK_EQ(r.rules, 2);
	CHECK_EQ(r.rules_refused, 1);
	CHECK_HAS(r.refusal, "is full");
	hk_steer_remove(port, 1);
	add(port, 3, 12);
	send_frame(5, TYPE, 12);
	CHECK_EQ(arrives(port), 3);
	close_nic(port);
	unsetenv("HK_SIM_NIC_RULES");
}

TEST(queues_that_are_none)
{
	const struct hk_steer_match m = match_of(10), nothing = {.ether_type = TYPE};
	struct hk_steer_report r;
	struct hk_port *port = open_nic("endpoint", &r);

	CHECK_EQ(hk_steer_add(port, 0, &m, ERR), -EINVAL);
	CHECK_EQ(hk_steer_add(port, QUEUES, &m, ERR), -EINVAL);
	CHECK_EQ(hk_steer_add(port, 1, &nothing, ERR), -EINVAL);
	add(port, 1, 10);
	CHECK_EQ(hk_steer_add(port, 1, &m, ERR), -EINVAL);
	hk_steer_remove(port, 0);
	hk_steer_remove(port, 1000);
	CHECK_EQ(sim_nic_rules(), 1);
	close_nic(port);
}

/* A port gets at most as many queues as its device has, and other kinds get one. */
TEST(other_ports)
{
	struct hk_steer_report r;
	struct hk_port *port = open_port("endpoint", SPEC, 30, &r);

	CHECK_EQ(port->info.queues, QUEUES);
	hk_port_close(port);
	port = open_port("endpoint", "af_packet:iface=nic0", 5, &r);
	CHECK_EQ(r.method, HK_STEER_SOFTWARE);
	CHECK_STR(r.why[HK_STEER_ENDPOINT], "not asked: net_af_packet is opened with one queue");
	hk_port_close(port);
}

/* A driver without rte_flow, and no simulated NIC. */
TEST(a_driver_without_rules)
{
	struct hk_steer_report r;
	struct hk_port *port = open_nic(NULL, &r);

	CHECK_EQ(r.method, HK_STEER_SOFTWARE);
	CHECK_STR(r.why[HK_STEER_MAC], "net_af_packet has no rte_flow");
	hk_port_close(port);
}

/* net_tap creates its rules with the kernel's tc flower. If the kernel has it, frames arrive on
 * the queue of their rule; otherwise the report has the reason. */
TEST(net_tap)
{
	struct hk_steer_report r;
	struct hk_port *port = open_port(NULL, "vdev:net_tap0,iface=tap0", QUEUES, &r);

	CHECK_MSG(strncmp(r.why[HK_STEER_ENDPOINT], "net_tap: ", 9) == 0, "%s",
		  r.why[HK_STEER_ENDPOINT]);
	printf("net_tap: %s; by endpoint: %s; by MAC: %s\n", hk_steer_method_text(r.method),
	       r.why[HK_STEER_ENDPOINT], r.why[HK_STEER_MAC]);
	if (r.method == HK_STEER_MAC) {
		int far = sender;

		shell("ip link set tap0 up");
		sender = net_packet_socket("tap0");
		add(port, 1, 10);
		add(port, 3, 11);
		for (int i = 0; i < 20; i++) {
			send_frame(10, TYPE, 0);
			CHECK_EQ(arrives(port), 1);
			send_frame(11, TYPE, 0);
			CHECK_EQ(arrives(port), 3);
		}
		printf("net_tap: 40 frames came by the queues that rules name\n");
		hk_steer_remove(port, 1);
		close(sender);
		sender = far;
	} else {
		CHECK_EQ(r.method, HK_STEER_SOFTWARE);
		CHECK_HAS(r.why[HK_STEER_MAC], "net_tap: ");
	}
	hk_port_close(port);
}
