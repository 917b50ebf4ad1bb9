/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_udp_xdp.c: datagrams by an AF_XDP socket, and whose datagrams hikyaku-helper
 * gives to whom.
 *
 * The test has a network namespace of its own with a veth pair. The port is on nic0. Packets leave
 * and arrive at far0 by a packet socket.
 */
#include "port/udp_xdp.h"
#include "port/xsk.h"
#include "base/descriptors.h"
#include "base/ethtool.h"
#include "tests/support/await.h"
#include "tests/support/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>

#define WAIT_MS 20000
#define OURS    4444 /* UDP port */
#define THEIRS  7777
#define FAR_MAC "02:00:00:00:00:02"
#define SLOTS   256u /* of the table of ways at first */
#define FRAME   1486 /* of an MTU of 1500, with an Ethernet header */

static struct hk_port *port[2]; /* of IPv4 and of IPv6 */
static int far_end = -1;
static const uint8_t far_mac[6] = {2, 0, 0, 0, 0, 2};

static struct hk_udp_xdp *way(unsigned v6)
{
	return ((struct hk_port_impl *)port[v6])->udp->xdp;
}

static void start(void)
{
	static const char *const spec[] = {"udp:addr=10.9.9.1,port=4444,xdp=1",
					   "udp:addr=fd99::1,port=4444,xdp=1"};

	if (port[0])
		return;
	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.role = HK_EAL_ALONE, .sockets = 2}, ERR));
	for (unsigned i = 0; i < 2; i++)
		CHECK_OK(hk_port_open_shared(spec[i], 512, NULL, 8, WAIT_MS, &port[i], ERR));
	CHECK_EQ(port[0]->info.frame_max, FRAME);
	CHECK_EQ(port[1]->info.frame_max, FRAME - 20);
	CHECK_HAS(port[0]->info.driver, "udp by af_xdp");
	CHECK(port[0]->info.datagrams && !port[0]->info.system_calls);
}

/* With the program in its driver, a veth would take segmentation from its other end. */
TEST(the_other_end_still_segments)
{
	struct ethtool_value tso = {.cmd = ETHTOOL_GTSO};

	start();
	CHECK(hk_ethtool_is_veth("nic0"));
	CHECK(hk_ethtool("far0", &tso));
	CHECK_EQ(tso.data, 1);
}

/* ---- packets from far ------------------------------------------------------------------------ */

struct packet {
	struct rte_ether_hdr eth;
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;
	char payload[64];
};
_Static_assert(offsetof(struct packet, payload) == 42, "it has no gaps");

static struct packet packet(const char *text)
{
	uint16_t len = (uint16_t)strlen(text);
	struct packet p = {
		.eth.ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4),
		.ip = {.version_ihl = RTE_IPV4_VHL_DEF,
		       .total_length = htons((uint16_t)(28 + len)),
		       .time_to_live = 9,
		       .next_proto_id = IPPROTO_UDP,
		       .src_addr = inet_addr("10.9.9.2"),
		       .dst_addr = inet_addr("10.9.9.1")},
		.udp = {.src_port = htons(THEIRS),
			.dst_port = htons(OURS),
			.dgram_len = htons((uint16_t)(8 + len))},
	};

	memcpy(&p.eth.dst_addr, way(0)->mac, 6);
	memcpy(&p.eth.src_addr, far_mac, 6);
	memcpy(p.payload, text, len);
	return p;
}

static void send_packet(struct packet *p)
{
	p->ip.hdr_checksum = 0;
	p->ip.hdr_checksum = rte_ipv4_cksum(&p->ip);
	size_t len = sizeof(p->eth) + ntohs(p->ip.total_length);

	CHECK_EQ(send(far_end, p, len, 0), (ssize_t)len);
}

static struct rte_mbuf *receive(unsigned v6)
{
	struct rte_mbuf *m;

	AWAIT(WAIT_MS, hk_port_rx(port[v6], 0, &m, 1) == 1, sched_yield());
	return m;
}

static void receive_text(const char *text)
{
	static const uint8_t from[6] = {10, 9, 9, 2, THEIRS >> 8, THEIRS & 0xff};
	struct rte_mbuf *m = receive(0);
	const uint8_t *f = rte_pktmbuf_mtod(m, const uint8_t *);

	CHECK_EQ(m->data_len, 14 + strlen(text));
	CHECK_EQ(m->pkt_len, m->data_len);
	CHECK_EQ(memcmp(f, port[0]->info.mac, 6), 0);
	CHECK_EQ(memcmp(f + 6, from, 6), 0);
	CHECK(f[12] == 0x88 && f[13] == 0xb5);
	CHECK_EQ(memcmp(f + 14, text, strlen(text)), 0);
	rte_pktmbuf_free(m);
}

TEST(a_datagram_comes_by_af_xdp)
{
	start();
	uint64_t taken = way(0)->taken;
	struct packet p = packet("hello"); /* shorter than Ethernet's least */

	send_packet(&p);
	receive_text("hello");
	CHECK_EQ(way(0)->taken, taken + 1);
	CHECK_EQ(way(0)->passed, 0);
}

/* The UDP socket receives what the program leaves to the kernel. */
TEST(the_kernel_gets_parts_and_options)
{
	start();
	uint64_t taken = way(0)->taken, passed = way(0)->passed;
	struct packet p = packet("first of two parts..text"), q = p;

	p.udp.dgram_len = htons(8 + 24 + 4);
	p.ip.fragment_offset = RTE_BE16(RTE_IPV4_HDR_MF_FLAG);
	send_packet(&p);
	q.ip.fragment_offset = RTE_BE16(4); /* 32 bytes: those of the first part */
	q.ip.total_length = htons(20 + 4);
	memcpy(&q.udp, "last", 4);
	send_packet(&q);
	receive_text("first of two parts..textlast");
	p = packet("first of two parts..text");
	p.ip.version_ihl = RTE_IPV4_VHL_DEF + 1; /* an option, where the UDP header was */
	memset(&p.udp, 1, 4);
	const struct rte_udp_hdr udp = {
		.src_port = htons(THEIRS), .dst_port = htons(OURS), .dgram_len = htons(8 + 6)};

	memcpy((char *)&p.udp + 4, &udp, sizeof(udp));
	memcpy(p.payload + 4, "option", 6);
	p.ip.total_length = htons(24 + 8 + 6);
	p.ip.hdr_checksum = 0;
	p.ip.hdr_checksum = (uint16_t)~rte_raw_cksum(&p.ip, 24);
	CHECK_EQ(send(far_end, &p, 14 + 38, 0), 14 + 38);
	receive_text("option");
	CHECK_EQ(way(0)->taken, taken);
	CHECK_EQ(way(0)->passed, passed + 2);
}

TEST(wrong_lengths_are_dropped)
{
	start();
	uint64_t *dropped = &way(0)->udp->dropped_rx, before = *dropped;
	static const uint16_t lengths[] = {0, 7, 8, 8 + 5 + 1, 1400, 0xffff};
	struct packet p;

	for (unsigned i = 0; i < HK_ARRAY_LEN(lengths); i++) {
		p = packet("hello");
		memset(p.payload, 'x', sizeof(p.payload));
		p.udp.dgram_len = htons(lengths[i]);
		send_packet(&p);
	}
	p = packet("good");
	send_packet(&p);
	receive_text("good");
	CHECK_EQ(*dropped, before + HK_ARRAY_LEN(lengths));
}

/* ---- frames to far --------------------------------------------------------------------------- */

/* A frame of @len bytes, of which the last @second are in a second segment. */
static struct rte_mbuf *frame(unsigned v6, const uint8_t name[6], unsigned len, unsigned second)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port[v6]->pool);
	uint8_t bytes[FRAME] = {0};

	memcpy(bytes, name, 6);
	for (unsigned i = 14; i < len; i++)
		bytes[i] = (uint8_t)(7 * len + i);
	memcpy(rte_pktmbuf_append(m, (uint16_t)(len - second)), bytes, len - second);
	if (second) {
		struct rte_mbuf *s = rte_pktmbuf_alloc(port[v6]->pool);

		memcpy(rte_pktmbuf_append(s, (uint16_t)second), bytes + len - second, second);
		CHECK_EQ(rte_pktmbuf_chain(m, s), 0);
	}
	return m;
}

/* Receives the next packet of UDP at far0. */
static ssize_t at_far(uint8_t *p, size_t size, unsigned v6)
{
	const uint8_t type[] = {v6 ? 0x86 : 0x08, v6 ? 0xdd : 0x00};

	for (;;) {
		struct pollfd f = {.fd = far_end, .events = POLLIN};
		struct sockaddr_ll from;
		socklen_t from_len = sizeof(from);

		CHECK_EQ(poll(&f, 1, WAIT_MS), 1);
		ssize_t n = recvfrom(far_end, p, size, 0, (struct sockaddr *)&from, &from_len);

		if (n >= 42 && from.sll_pkttype != PACKET_OUTGOING && !memcmp(p + 12, type, 2) &&
		    p[v6 ? 20 : 23] == IPPROTO_UDP && p[v6 ? 59 : 39] != 8)
			return n; /* an empty one is for the kernels */
	}
}

static void check_payload(const uint8_t *p, unsigned len)
{
	for (unsigned i = 14; i < len; i++)
		CHECK_EQ(p[i - 14], (uint8_t)(7 * len + i));
}

static const uint8_t far_name[6] = {10, 9, 9, 2, THEIRS >> 8, THEIRS & 0xff};

static void send_frame(unsigned v6, const uint8_t name[6], unsigned len, unsigned second)
{
	struct rte_mbuf *m = frame(v6, name, len, second);

	CHECK_EQ(hk_port_tx(port[v6], 0, &m, 1), 1);
}

TEST(frames_leave_as_datagrams)
{
	start();
	uint8_t p[2048];
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;

	for (unsigned len = 15; len <= FRAME; len += len < 80 ? 1 : 37) {
		send_frame(0, far_name, len, len % 3 ? 0 : (len - 14) / 2);
		ssize_t n = at_far(p, sizeof(p), 0);

		memcpy(&ip, p + 14, sizeof(ip));
		memcpy(&udp, p + 34, sizeof(udp));
		CHECK_EQ(n, 14 + 28 + len - 14);
		CHECK_EQ(memcmp(p, far_mac, 6), 0);
		CHECK_EQ(memcmp(p + 6, way(0)->mac, 6), 0);
		CHECK_EQ(ip.version_ihl, RTE_IPV4_VHL_DEF);
		CHECK_EQ(ntohs(ip.total_length), 28 + len - 14);
		CHECK_EQ(ntohs(ip.fragment_offset), RTE_IPV4_HDR_DF_FLAG);
		CHECK_EQ(rte_ipv4_cksum(&ip), 0);
		CHECK(ip.src_addr == inet_addr("10.9.9.1") && ip.dst_addr == inet_addr("10.9.9.2"));
		CHECK(udp.src_port == htons(OURS) && udp.dst_port == htons(THEIRS));
		CHECK_EQ(ntohs(udp.dgram_len), 8 + len - 14);
		CHECK_EQ(udp.dgram_cksum, 0);
		check_payload(p + 42, len);
	}
}

TEST(frames_leave_as_datagrams_of_ipv6)
{
	start();
	uint8_t p[2048], name[6], address[HK_PORT_ADDRESS];
	union hk_inet_addr far = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(THEIRS)}};

	CHECK_EQ(inet_pton(AF_INET6, "fd99::2", &far.v6.sin6_addr), 1);
	memcpy(address, &far.v6.sin6_addr, 16);
	memcpy(address + 16, &far.v6.sin6_port, 2);
	CHECK_OK(hk_port_know(port[1], address, ERR));
	hk_udp_name(&far, name);
	for (unsigned len = 15; len <= FRAME - 20; len += len < 80 ? 1 : 37) {
		send_frame(1, name, len, len % 3 ? 0 : (len - 14) / 2);
		ssize_t n = at_far(p, sizeof(p), 1);

		CHECK_EQ(n, 14 + 48 + len - 14);
		CHECK_EQ(memcmp(p, far_mac, 6), 0);
		CHECK_EQ(p[18] << 8 | p[19], 8 + len - 14);
		CHECK_EQ(p[58] << 8 | p[59], 8 + len - 14);
		uint32_t sum = rte_ipv6_phdr_cksum((void *)(p + 14), 0);

		sum += rte_raw_cksum(p + 54, 8 + len - 14);
		CHECK_EQ((sum & 0xffff) + (sum >> 16), 0xffff);
		check_payload(p + 62, len);
	}
}

static struct hk_udp_flow *flow(void)
{
	for (unsigned i = 0; i < way(0)->slots; i++)
		if (memcmp(&way(0)->flow[i].name, far_name, 6) == 0)
			return &way(0)->flow[i];
	CHECK_MSG(false, "no frame was sent");
	return NULL;
}

/* The kernel is asked again when an answer is old; here it is made old. */
TEST(the_way_changes)
{
	start();
	uint8_t p[2048];

	send_frame(0, far_name, 100, 0);
	(void)at_far(p, sizeof(p), 0);
	shell("ip neigh replace 10.9.9.2 lladdr 02:00:00:00:00:03 dev nic0 nud permanent");
	flow()->again_at = 0;
	send_frame(0, far_name, 100, 0);
	(void)at_far(p, sizeof(p), 0);
	CHECK_EQ(p[5], 3);
	CHECK(flow()->direct);
	shell("ip neigh replace 10.9.9.2 lladdr " FAR_MAC " dev nic0 nud permanent");

	/* A path that carries less than a frame is the kernel's, which cuts. */
	shell("ip route add 10.9.9.2/32 dev nic0 src 10.9.9.1 mtu 1000");
	flow()->again_at = 0;
	send_frame(0, far_name, FRAME, 0);
	CHECK_EQ(at_far(p, sizeof(p), 0), 14 + 20 + 976); /* a multiple of 8 */
	CHECK_EQ(at_far(p, sizeof(p), 0), 14 + 20 + 8 + FRAME - 14 - 976);
	CHECK(!flow()->direct);
	shell("ip route del 10.9.9.2/32");
	flow()->again_at = 0;
	send_frame(0, far_name, FRAME, 0);
	CHECK_EQ(at_far(p, sizeof(p), 0), 28 + FRAME);
	CHECK(flow()->direct);

	/* So is one over another interface, */
	shell("ip route add 10.9.9.2/32 dev lo src 10.9.9.1");
	flow()->again_at = 0;
	send_frame(0, far_name, 100, 0);
	CHECK(!flow()->direct);
	shell("ip route del 10.9.9.2/32");

	/* and a neighbour whom the kernel does not know. */
	shell("ip neigh del 10.9.9.2 dev nic0");
	flow()->again_at = 0;
	send_frame(0, far_name, 100, 0);
	CHECK(!flow()->direct);
	shell("ip neigh replace 10.9.9.2 lladdr " FAR_MAC " dev nic0 nud permanent");
	flow()->again_at = 0;
	send_frame(0, far_name, 100, 0);
	CHECK(flow()->direct);
	CHECK_EQ(at_far(p, sizeof(p), 0), 28 + 100);
}

/* Anybody can make a worker answer. */
TEST(strangers_take_no_memory_for_good)
{
	start();
	for (uint32_t i = 0; i < HK_UDP_FLOWS; i++) {
		uint8_t name[6] = {203, 0, 113, 1};
		struct rte_mbuf *m;

		memcpy(name + 2, &i, 4);
		m = frame(0, name, 20, 0);
		CHECK_EQ(hk_port_tx(port[0], 0, &m, 1), 1); /* no route: lost */
	}
	CHECK(way(0)->slots <= HK_UDP_FLOWS);
	CHECK(way(0)->count <= HK_UDP_FLOWS / 2);
	uint8_t p[2048];

	send_frame(0, far_name, 100, 0);
	CHECK_EQ(at_far(p, sizeof(p), 0), 28 + 100);
}

/* The table of ways grows in the burst in which the peers are new. */
TEST(a_burst_to_new_peers)
{
	start();
	struct rte_mbuf *m[HK_UDP_BURST];
	uint8_t p[2048], name[6] = {203, 0, 113, 2, 0, 0};

	for (unsigned round = 0; round < 2 * SLOTS / HK_UDP_BURST; round++) {
		m[0] = frame(0, far_name, 100, 0);
		for (unsigned i = 1; i < HK_UDP_BURST; i++) {
			name[4] = (uint8_t)(round + 1);
			name[5] = (uint8_t)i;
			m[i] = frame(0, name, 20, 0);
		}
		CHECK_EQ(hk_port_tx(port[0], 0, m, HK_UDP_BURST), HK_UDP_BURST);
		CHECK_EQ(at_far(p, sizeof(p), 0), 28 + 100);
		CHECK_EQ(memcmp(p, far_mac, 6), 0);
		check_payload(p + 42, 100);
	}
}

/* The port reads its UDP socket, also while AF_XDP has frames at each poll. */
TEST(neither_socket_starves)
{
	start();
	struct packet p = packet("by af_xdp");
	uint64_t passed = way(0)->passed;
	unsigned count = 0;

	for (unsigned i = 0; i < 64; i++)
		send_packet(&p);
	struct packet q = p;

	memmove((char *)&q.udp + 4, &p.udp,
		sizeof(p.udp) + 9); /* an option before the UDP header */
	memset(&q.udp, 1, 4);
	q.ip.version_ihl++;
	q.ip.total_length = htons(24 + 8 + 9);
	q.ip.hdr_checksum = 0;
	q.ip.hdr_checksum = (uint16_t)~rte_raw_cksum(&q.ip, 24);
	CHECK_EQ(send(far_end, &q, 14 + 41, 0), 14 + 41);
	for (unsigned i = 0; way(0)->passed == passed; i++) {
		CHECK(i < 32);
		way(0)->poll_at = 0;
		rte_pktmbuf_free(receive(0));
		count++;
	}
	for (; count < 65; count++)
		rte_pktmbuf_free(receive(0));
}

/* ---- claims ---------------------------------------------------------------------------------- */

static struct hk_error err;

static int helper(void)
{
	const struct hk_helper_request open = {.version = HK_HELPER_VERSION,
					       .op = HK_HELPER_OPEN,
					       .iface = "nic0",
					       .sharers = 8,
					       .take = HK_HELPER_TAKE_CLAIMED};
	struct hk_helper_reply reply;
	int fd[HK_HELPER_FDS], at = hk_helper_connect("test", hk_clock_ms() + WAIT_MS, &err);

	CHECK(at >= 0);
	CHECK_OK(hk_helper_ask(at, "test", &open, -1, &reply, fd, hk_clock_ms() + WAIT_MS, ERR));
	for (unsigned i = 0; i < HK_HELPER_FDS; i++)
		close(fd[i]);
	return at;
}

static int claim(int at, int udp)
{
	const struct hk_helper_request r = {.version = HK_HELPER_VERSION,
					    .op = HK_HELPER_CLAIM_DATAGRAMS};
	struct hk_helper_reply reply;

	return hk_helper_ask(at, "test", &r, udp, &reply, NULL, hk_clock_ms() + WAIT_MS, &err);
}

static int bound(int type, const char *address, uint16_t at)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(at), .sin_addr = {inet_addr(address)}};
	int fd = socket(AF_INET, type, 0), on = 1;

	CHECK_EQ(setsockopt(fd, IPPROTO_IP, IP_FREEBIND, &on, sizeof(on)), 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static int bound_to_far(const char *address, uint16_t at)
{
	int fd = bound(SOCK_DGRAM, address, at), index = (int)if_nametoindex("far0");

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index)), 0);
	return fd;
}

/* A socket with that address in a network namespace that anybody could make. */
static int bound_elsewhere(const char *address, uint16_t at)
{
	int here = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	CHECK(here >= 0 && net_own());
	shell("ip link set lo up; ip addr add %s/32 dev lo", address);
	int fd = bound(SOCK_DGRAM, address, at);

	CHECK_EQ(setns(here, CLONE_NEWNET), 0);
	close(here);
	return fd;
}

TEST(only_the_owner_of_a_socket_claims_its_datagrams)
{
	start();
	int one = helper(), two = helper();
	int wrong[] = {-1,
		       socket(AF_INET, SOCK_DGRAM, 0),
		       bound(SOCK_DGRAM, "0.0.0.0", 5001),
		       bound(SOCK_DGRAM, "10.9.9.1", 0),    /* the kernel has chosen the port */
		       bound(SOCK_DGRAM, "10.9.9.9", 5005), /* not of this node */
		       bound(SOCK_DGRAM, "127.0.0.1", 5006),
		       bound(SOCK_DGRAM, "224.0.0.251", 5353),
		       bound(SOCK_DGRAM, "10.9.9.255", 5007),
		       bound_to_far("10.9.9.1", 5004),
		       bound(SOCK_STREAM, "10.9.9.1", 5001),
		       socket(AF_UNIX, SOCK_DGRAM, 0),
		       open("/dev/null", O_RDONLY),
		       bound_elsewhere("10.9.9.1", 53)};

	for (unsigned i = 0; i < HK_ARRAY_LEN(wrong); i++) {
		CHECK_EQ(claim(one, wrong[i]), -EINVAL);
		CHECK_HAS(err.text, "UDP socket that is bound to an address of nic0 and a port");
		if (wrong[i] >= 0)
			close(wrong[i]);
	}
	int udp = bound(SOCK_DGRAM, "10.9.9.1", 5002), other = bound(SOCK_DGRAM, "10.9.9.1", 5003);

	CHECK_EQ(claim(one, udp), 0);
	CHECK_EQ(claim(one, other), -EINVAL); /* one socket a connection */
	CHECK_EQ(claim(two, udp), -EBUSY);
	close(udp);

	/* The helper keeps the socket, so that nobody else gets the port while frames are led. */
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(5002),
				 .sin_addr = {inet_addr("10.9.9.1")}};
	int late = socket(AF_INET, SOCK_DGRAM, 0);

	CHECK_EQ(bind(late, (struct sockaddr *)&at, sizeof(at)), -1);
	CHECK_EQ(errno, EADDRINUSE);
	close(one);
	AWAIT(WAIT_MS, bind(late, (struct sockaddr *)&at, sizeof(at)) == 0, pause_1ms());
	CHECK_EQ(claim(two, late), 0);
	close(two);
	close(late);
	close(other);
}

/* Anybody may connect and send descriptors, also with an empty message. */
TEST(the_helper_keeps_no_descriptor_of_a_stranger)
{
	start();
	struct sockaddr_un at;
	socklen_t len = hk_helper_address(&at);
	char byte = 0;

	for (unsigned bytes = 0; bytes < 2; bytes++) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), end[2];
		struct iovec part = {&byte, bytes};
		struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
		union hk_descriptors control;

		CHECK_EQ(pipe(end), 0);
		CHECK_EQ(connect(fd, (struct sockaddr *)&at, len), 0);
		hk_descriptors_add(&m, &control, &end[1], 1);
		CHECK_EQ(sendmsg(fd, &m, MSG_NOSIGNAL), bytes);
		close(fd);
		close(end[1]);
		struct pollfd p = {.fd = end[0]};

		CHECK_MSG(poll(&p, 1, WAIT_MS) == 1 && p.revents == POLLHUP,
			  "it keeps what came with %u bytes", bytes);
		close(end[0]);
	}
}

BEFORE_ALL()
{
	net_wire();
	shell("ip addr add fd99::1/64 dev nic0 nodad");
	shell("ip link set far0 address " FAR_MAC);
	shell("ip neigh add 10.9.9.2 lladdr " FAR_MAC " dev nic0 nud permanent");
	shell("ip neigh add fd99::2 lladdr " FAR_MAC " dev nic0 nud permanent");
	far_end = net_packet_socket("far0");

	const struct sockaddr_ll all = {.sll_family = AF_PACKET,
					.sll_protocol = htons(ETH_P_ALL),
					.sll_ifindex = (int)if_nametoindex("far0")};

	CHECK_EQ(bind(far_end, (const struct sockaddr *)&all, sizeof(all)), 0);
}

AFTER_ALL()
{
	hk_port_close(port[1]);
	hk_port_close(port[0]);
}
