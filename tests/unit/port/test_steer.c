/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_steer.c: which rung of steering a port is on, and where frames then arrive.
 *
 * The NIC is simulated (sim_nic.h) on one end of a veth pair, in a network namespace that vanishes with the
 * process; frames come from a packet socket at the other end. The NIC's abilities are set in the environment
 * before each case. net_tap is asked for real, with whatever this kernel has for it.
 */
#include "port/steer.h"
#include "tests/unit/hk_test.h"
#include "tests/unit/port/sim_nic.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 10000
#define TYPE    0x88B6 /* not Hikyaku's own: the port does not know frames */
#define FIELD   30
#define LEN     64
#define QUEUES  4
#define SPEC    "vdev:net_af_packet0,iface=nic0,qpairs=4,framesz=1024,blocksz=4096,framecnt=64"

static int sender = -1;

static void shell(const char *command)
{
	int rc = system(command);
	CHECK_MSG(rc == 0, "%s: exit status %d", command, rc);
}

static void start_dpdk(void)
{
	const struct hk_eal_config cfg = {.memory_mb = 64};
	struct sockaddr_ll to = {.sll_family = AF_PACKET};
	struct hk_error err = {""};

	if (sender >= 0)
		return;
	CHECK_MSG(unshare(CLONE_NEWNET) == 0, "unshare: %s; fix: run as root", strerror(errno));
	shell("sysctl -qw net.ipv6.conf.default.disable_ipv6=1");
	shell("ip link add nic0 type veth peer name far0");
	shell("ip link set nic0 up && ip link set far0 up");
	CHECK_MSG(hk_eal_init(&cfg, &err) == 0, "%s", err.text);
	sender = socket(AF_PACKET, SOCK_RAW, 0);
	to.sll_ifindex = (int)if_nametoindex("far0");
	CHECK(sender >= 0 && bind(sender, (struct sockaddr *)&to, sizeof(to)) == 0);
}

/* A user's frames, by its number. */
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

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The queue on which the next frame arrives. */
static int arrives(struct hk_port *port)
{
	struct rte_mbuf *m;
	int64_t end = now_ms() + WAIT_MS;

	do {
		for (uint16_t q = 0; q < port->info.queues; q++) {
			if (hk_port_rx(port, q, &m, 1)) {
				rte_pktmbuf_free(m);
				return q;
			}
		}
	} while (now_ms() < end);
	return -1;
}

static struct hk_port *open_nic(const char *abilities, struct hk_steer_report *report)
{
	const struct hk_steer_match sample = match_of(200);
	struct hk_error err = {""};
	struct hk_port *port;

	setenv("HK_SIM_NIC", abilities, 1);
	start_dpdk();
	CHECK_MSG(hk_port_open_steered(SPEC, 256, QUEUES, &sample, WAIT_MS, &port, &err) == 0, "%s",
		  err.text);
	hk_port_steering(port, report);
	return port;
}

static void add(struct hk_port *port, unsigned queue, uint8_t user)
{
	const struct hk_steer_match m = match_of(user);
	struct hk_error err = {""};

	CHECK_MSG(hk_steer_add(port, queue, &m, &err) == 0, "%s", err.text);
}

static void close_nic(struct hk_port *port)
{
	hk_port_close(port);
	CHECK_EQ(sim_nic_rules(), 0);
}

/* ---- rungs ----------------------------------------------------------------------------------- */

static void by_endpoint_field(const char *abilities)
{
	struct hk_steer_report r;
	struct hk_port *port = open_nic(abilities, &r);

	CHECK_EQ(r.rung, HK_STEER_ENDPOINT);
	CHECK_EQ(r.queues, QUEUES);
	CHECK_EQ(sim_nic_rules(), 0); /* the trial has gone */
	add(port, 1, 10);
	add(port, 3, 11);
	send_frame(5, TYPE, 10);
	CHECK_EQ(arrives(port), 1);
	send_frame(5, TYPE, 11);
	CHECK_EQ(arrives(port), 3);
	send_frame(5, TYPE, 12); /* nobody's */
	CHECK_EQ(arrives(port), 0);
	send_frame(5, TYPE + 1, 10); /* another protocol's */
	CHECK_EQ(arrives(port), 0);
	send_frame(10, TYPE + 1, 0); /* the address alone is no reason here */
	CHECK_EQ(arrives(port), 0);
	hk_port_steering(port, &r);
	CHECK_EQ(r.rules, 2);
	hk_steer_remove(port, 1);
	hk_steer_remove(port, 1);
	send_frame(5, TYPE, 10);
	CHECK_EQ(arrives(port), 0);
	add(port, 1, 12); /* the queue's next user */
	send_frame(5, TYPE, 12);
	CHECK_EQ(arrives(port), 1);
	CHECK_EQ(sim_nic_rules(), 2);
	close_nic(port);
}

static void endpoint_field(void)
{
	by_endpoint_field("endpoint,mac,udp");
}

static void endpoint_field_by_raw_items_alone(void)
{
	by_endpoint_field("endpoint-abs,mac");
}

static void by_mac(const char *abilities, bool any_type)
{
	struct hk_steer_report r;
	struct hk_port *port = open_nic(abilities, &r);

	CHECK_EQ(r.rung, HK_STEER_MAC);
	CHECK_MSG(strstr(r.why[HK_STEER_ENDPOINT], "has no ?such? filter"), "%s",
		  r.why[HK_STEER_ENDPOINT]);
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

static void mac(void)
{
	by_mac("mac,udp", true);
}

static void mac_with_a_type(void)
{
	by_mac("mac-type", false);
}

static void udp_port(void)
{
	struct hk_steer_report r;
	struct hk_port *port = open_nic("udp", &r);

	CHECK_EQ(r.rung, HK_STEER_UDP);
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
	struct hk_error err = {""};

	CHECK_EQ(r.rung, HK_STEER_SOFTWARE);
	CHECK(!port->info.steered);
	CHECK_EQ(port->info.more_queues, QUEUES - 1); /* net_af_packet spreads frames */
	CHECK_MSG(strstr(r.why[HK_STEER_MAC], why), "%s", r.why[HK_STEER_MAC]);
	CHECK(r.why[HK_STEER_ENDPOINT][0] && r.why[HK_STEER_UDP][0] &&
	      r.why[HK_STEER_QUEUE_INDEX][0]);
	CHECK_EQ(hk_steer_add(port, 1, &m, &err), -ENOTSUP);
	hk_steer_remove(port, 1);
	send_frame(10, TYPE, 10);
	CHECK_EQ(arrives(port), 0);
	close_nic(port);
}

static void no_filter_at_all(void)
{
	software("none", "no ?such? filter");
}

static void validated_and_not_made(void)
{
	software("endpoint,mac,udp,lies",
		 "validates a rule and does not make it: the simulated NIC "
		 "has lied");
}

static void leftovers_that_stay(void)
{
	software("endpoint,mac,udp,sticky", "does not flush its rules");
}

static void one_mac_address_alone(void)
{
	software("mac,one-mac", "takes in no second MAC address");
}

/* ---- the rest -------------------------------------------------------------------------------- */

static void leftovers_are_flushed(void)
{
	struct hk_steer_report r;
	struct hk_port *port = open_nic("endpoint,leftover", &r);

	CHECK_EQ(r.rung, HK_STEER_ENDPOINT);
	CHECK_EQ(sim_nic_rules(), 0);
	send_frame(5, TYPE, 10);
	CHECK_EQ(arrives(port), 0);
	close_nic(port);
}

static void a_full_table(void)
{
	const struct hk_steer_match m = match_of(12);
	struct hk_steer_report r;
	struct hk_error err = {""};

	setenv("HK_SIM_NIC_RULES", "2", 1);
	struct hk_port *port = open_nic("endpoint", &r);

	add(port, 1, 10);
	add(port, 2, 11);
	CHECK_EQ(hk_steer_add(port, 3, &m, &err), -ENOSPC);
	CHECK_MSG(strstr(err.text, "is full"), "%s", err.text);
	send_frame(5, TYPE, 12);
	CHECK_EQ(arrives(port), 0);
	hk_port_steering(port, &r);
	CHECK_EQ(r.rules, 2);
	CHECK_EQ(r.refused, 1);
	CHECK_MSG(strstr(r.refusal, "is full"), "%s", r.refusal);
	hk_steer_remove(port, 1);
	add(port, 3, 12);
	send_frame(5, TYPE, 12);
	CHECK_EQ(arrives(port), 3);
	close_nic(port);
	unsetenv("HK_SIM_NIC_RULES");
}

static void queues_that_are_none(void)
{
	const struct hk_steer_match m = match_of(10), nothing = {.ether_type = TYPE};
	struct hk_steer_report r;
	struct hk_error err = {""};
	struct hk_port *port = open_nic("endpoint", &r);

	CHECK_EQ(hk_steer_add(port, 0, &m, &err), -EINVAL);
	CHECK_EQ(hk_steer_add(port, QUEUES, &m, &err), -EINVAL);
	CHECK_EQ(hk_steer_add(port, 1, &nothing, &err), -EINVAL);
	add(port, 1, 10);
	CHECK_EQ(hk_steer_add(port, 1, &m, &err), -EINVAL);
	hk_steer_remove(port, 0);
	hk_steer_remove(port, 1000);
	CHECK_EQ(sim_nic_rules(), 1);
	close_nic(port);
}

/* More queues than the device has are not taken, nor any on a kind of port that has one. */
static void other_ports(void)
{
	const struct hk_steer_match sample = match_of(200);
	struct hk_steer_report r;
	struct hk_error err = {""};
	struct hk_port *port;

	setenv("HK_SIM_NIC", "endpoint", 1);
	start_dpdk();
	CHECK_MSG(hk_port_open_steered(SPEC, 256, 30, &sample, WAIT_MS, &port, &err) == 0, "%s",
		  err.text);
	CHECK_EQ(port->info.queues, QUEUES);
	hk_port_close(port);
	CHECK_MSG(hk_port_open_steered("af_packet:iface=nic0", 256, 5, &sample, WAIT_MS, &port,
				       &err) == 0,
		  "%s", err.text);
	hk_port_steering(port, &r);
	CHECK_EQ(r.rung, HK_STEER_SOFTWARE);
	CHECK_MSG(strcmp(r.why[HK_STEER_ENDPOINT],
			 "not asked: net_af_packet is opened with one queue") == 0,
		  "%s", r.why[HK_STEER_ENDPOINT]);
	hk_port_close(port);
}

/* A driver without rte_flow, and no NIC simulated. */
static void a_driver_without_rules(void)
{
	const struct hk_steer_match sample = match_of(200);
	struct hk_steer_report r;
	struct hk_error err = {""};
	struct hk_port *port;

	start_dpdk();
	unsetenv("HK_SIM_NIC");
	CHECK_MSG(hk_port_open_steered(SPEC, 256, QUEUES, &sample, WAIT_MS, &port, &err) == 0, "%s",
		  err.text);
	hk_port_steering(port, &r);
	CHECK_EQ(r.rung, HK_STEER_SOFTWARE);
	CHECK_MSG(strcmp(r.why[HK_STEER_MAC], "net_af_packet has no rte_flow") == 0, "%s",
		  r.why[HK_STEER_MAC]);
	hk_port_close(port);
}

/* The real thing, as far as this kernel goes: net_tap makes its rules of tc's flower. With it, frames from
 * the kernel come by the queue that a rule names; without, the reason is told. */
static void net_tap(void)
{
	const struct hk_steer_match sample = match_of(200);
	struct hk_steer_report r;
	struct hk_error err = {""};
	struct sockaddr_ll to = {.sll_family = AF_PACKET};
	struct hk_port *port;

	start_dpdk();
	unsetenv("HK_SIM_NIC");
	CHECK_MSG(hk_port_open_steered("vdev:net_tap0,iface=tap0", 256, QUEUES, &sample, WAIT_MS,
				       &port, &err) == 0,
		  "%s", err.text);
	hk_port_steering(port, &r);
	CHECK_MSG(strncmp(r.why[HK_STEER_ENDPOINT], "net_tap: ", 9) == 0, "%s",
		  r.why[HK_STEER_ENDPOINT]);
	printf("net_tap: %s; by endpoint: %s; by MAC: %s\n", hk_steer_rung_text(r.rung),
	       r.why[HK_STEER_ENDPOINT], r.why[HK_STEER_MAC]);
	if (r.rung == HK_STEER_MAC) {
		int far = sender;

		shell("ip link set tap0 up");
		sender = socket(AF_PACKET, SOCK_RAW, 0);
		to.sll_ifindex = (int)if_nametoindex("tap0");
		CHECK(sender >= 0 && bind(sender, (struct sockaddr *)&to, sizeof(to)) == 0);
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
		CHECK_EQ(r.rung, HK_STEER_SOFTWARE);
		CHECK_MSG(strstr(r.why[HK_STEER_MAC], "net_tap: "), "%s", r.why[HK_STEER_MAC]);
	}
	hk_port_close(port);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"endpoint_field", endpoint_field},
		{"endpoint_field_by_raw_items_alone", endpoint_field_by_raw_items_alone},
		{"mac", mac},
		{"mac_with_a_type", mac_with_a_type},
		{"udp_port", udp_port},
		{"no_filter_at_all", no_filter_at_all},
		{"validated_and_not_made", validated_and_not_made},
		{"leftovers_that_stay", leftovers_that_stay},
		{"one_mac_address_alone", one_mac_address_alone},
		{"leftovers_are_flushed", leftovers_are_flushed},
		{"a_full_table", a_full_table},
		{"queues_that_are_none", queues_that_are_none},
		{"other_ports", other_ports},
		{"a_driver_without_rules", a_driver_without_rules},
		{"net_tap", net_tap},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
