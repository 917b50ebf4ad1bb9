/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_exchange.c: two processes, two network namespaces, frames in both
 * directions, for each kind of port.
 *
 * The namespaces have no names, and the link between them belongs to them. So everything vanishes
 * with the processes, however they end. The sides exchange lines (tests/support/lines.h) for set-up
 * only. DPDK starts once in a process, so two new children run each case.
 *
 * The requesting side sends numbered frames of random lengths and contents, and keeps a reference
 * to each. The other side sends each back. Both check every byte. Real wires may lose frames, so
 * the requesting side sends again.
 */
#include "port/port.h"
#include "tests/support/await.h"
#include "tests/support/child.h"
#include "tests/support/lines.h"
#include "tests/support/net.h"
#include "tests/support/tmpdir.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAMES      2000
#define ETH_HLEN    14
#define WAIT_MS     10000
#define ASK_AGAIN   20 /* ms */
#define MTU_AF_XDP  3506
#define SKIPPED     77
#define ETHERTYPE_0 0x88
#define ETHERTYPE_1 0xB6

static char dir[TMP_PATH];
static int peer_fd; /* socket to the other side */

/* ---- the two sides --------------------------------------------------------------------------- */

/* Waits for a word of the other side. */
static const char *await(const char *word)
{
	return line_expect(peer_fd, WAIT_MS, word);
}

/* Joins this side's namespace to the other's by a veth pair. Both ends are called hk0. */
static void make_link(bool asks, unsigned mtu)
{
	if (!net_own())
		_Exit(SKIPPED); /* this needs root */
	if (asks) {
		shell("ip link add hk0 type veth peer name hk0 netns %d", atoi(await("netns ")));
		line_send(peer_fd, "linked");
	} else {
		line_send(peer_fd, "netns %d", (int)getpid());
		await("linked");
	}
	shell("ip link set hk0 mtu %u up", mtu);
	line_send(peer_fd, "up");
	await("up");
}

static struct hk_port *open_port(const char *spec)
{
	struct hk_port *port;
	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = 128}, ERR));
	CHECK_OK(hk_port_open(spec, 512, NULL, WAIT_MS, &port, ERR));
	CHECK_OK(hk_port_wait_link(port, WAIT_MS, ERR));
	return port;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void fill(uint8_t *b, uint32_t seq, unsigned len)
{
	static const uint8_t head[ETH_HLEN] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, ETHERTYPE_0, ETHERTYPE_1};
	struct hk_rng r = {seq};
	memcpy(b, head, sizeof(head));
	memcpy(b + 14, &seq, 4);
	for (unsigned i = 18; i < len; i++)
		b[i] = (uint8_t)hk_rng_next(&r);
}

static bool is_ours(const struct rte_mbuf *m)
{
	const uint8_t *b = rte_pktmbuf_mtod(m, const uint8_t *);
	return m->data_len >= 60 && b[12] == ETHERTYPE_0 && b[13] == ETHERTYPE_1;
}

static uint32_t seq_of(const struct rte_mbuf *m)
{
	uint32_t seq;
	memcpy(&seq, rte_pktmbuf_mtod_offset(m, const void *, 14), 4);
	return seq;
}

static void check_frame(const struct rte_mbuf *m, uint32_t seq, unsigned len)
{
	static uint8_t want[9216];
	CHECK_EQ(m->nb_segs, 1);
	CHECK_EQ(m->data_len, len);
	CHECK_EQ(m->pkt_len, len);
	fill(want, seq, len);
	CHECK_EQ(memcmp(rte_pktmbuf_mtod(m, const void *), want, len), 0);
}

static struct rte_mbuf *receive(struct hk_port *port, int64_t until)
{
	struct rte_mbuf *m;
	do {
		while (hk_port_rx(port, 0, &m, 1)) {
			if (is_ours(m))
				return m;
			rte_pktmbuf_free(m); /* a frame of the kernel: neighbour discovery */
		}
		sched_yield();
	} while (hk_clock_ms() < until);
	return NULL;
}

/* Sends @m as frame @seq until it comes back, and keeps its reference to the end. */
static void ask(struct hk_port *port, struct rte_mbuf *m, uint32_t seq, unsigned len)
{
	int64_t deadline = hk_clock_ms() + WAIT_MS;
	struct rte_mbuf *got = NULL;
	uint8_t *b = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
	CHECK(b != NULL);
	fill(b, seq, len);
	while (!got) {
		CHECK_MSG(hk_clock_ms() < deadline, "frame %u of %u bytes does not come back", seq,
			  len);
		/* a new reference each time, because the driver may still hold the last one */
		rte_mbuf_refcnt_update(m, 1);
		if (hk_port_tx(port, 0, &m, 1) == 0)
			rte_mbuf_refcnt_update(m, -1);
		int64_t again = hk_clock_ms() + ASK_AGAIN;
		while ((got = receive(port, again)) && seq_of(got) != seq)
			rte_pktmbuf_free(got); /* the reply to an earlier one */
	}
	check_frame(got, seq, len);
	rte_pktmbuf_free(got);
	check_frame(m, seq, len); /* the sender's own frame is unchanged */
	rte_pktmbuf_free(m);
}

static void ask_all(struct hk_port *port)
{
	for (uint32_t seq = 1; seq <= FRAMES; seq++) {
		unsigned len = seq == 1   ? 60
			       : seq == 2 ? port->info.frame_max
					  : (unsigned)hk_rng_range(&hk_test_rng, 60,
								   port->info.frame_max);
		struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);
		CHECK(m != NULL);
		ask(port, m, seq, len);
	}
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
	return (x > y) - (x < y);
}

/* Every buffer of the pool can be sent, not only the few in use. The test takes all of them,
 * leaves some for receiving, and sends from the others, the last in memory first. */
static void ask_from_every_buffer(struct hk_port *port)
{
	static struct rte_mbuf *all[16384];
	uint32_t seq = FRAMES;
	unsigned n = 0;

	while (n < HK_ARRAY_LEN(all) && (all[n] = rte_pktmbuf_alloc(port->pool)))
		n++;
	CHECK_CMP(n, >, 512);
	qsort(all, n, sizeof(all[0]), by_address);
	rte_pktmbuf_free_bulk(all, 512);
	while (n > 512)
		ask(port, all[--n], ++seq, 60);
}

/* Sends back what comes, until the other side ends. @in_order: all frames come, in their order. */
static void answer_all(struct hk_port *port, bool in_order)
{
	uint32_t last = 0;

	AWAIT(3 * WAIT_MS, line_arrived(peer_fd), {
		struct rte_mbuf *m = receive(port, hk_clock_ms() + 1);
		if (!m)
			continue;
		uint32_t seq = seq_of(m);
		CHECK(!in_order || seq == last || seq == last + 1);
		last = seq;
		check_frame(m, seq, m->data_len);
		if (hk_port_tx(port, 0, &m, 1) == 0)
			rte_pktmbuf_free(m); /* the frame will come again */
	});
	CHECK(!in_order || last >= FRAMES);
}

/* The helper removes its program when the last port has closed. */
static void check_no_xdp(void)
{
	AWAIT(WAIT_MS, system("ip -d link show hk0 | grep -q xdp") != 0, pause_1ms());
	line_send(peer_fd,
		  "no program"); /* the link ends with one side, so both must have checked it */
	await("no program");
}

static void exchange(const char *spec, bool asks)
{
	struct hk_port *port = open_port(spec);
	if (asks) {
		ask_all(port);
		ask_from_every_buffer(port);
		line_send(peer_fd, "done");
	} else {
		answer_all(port, true);
		await("done");
	}
	hk_port_close(port);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const char *wire_spec(bool server)
{
	static char text[128];
	snprintf(text, sizeof(text), "memif:socket=%s/wire.sock,role=%s", dir,
		 server ? "server" : "client");
	return text;
}

static void memif_case(bool asks)
{
	exchange(wire_spec(asks), asks);
}

static void af_packet_case(bool asks)
{
	make_link(asks, 9000);
	exchange("af_packet:iface=hk0", asks);
}

static void af_xdp_case(bool asks)
{
	make_link(asks, MTU_AF_XDP);
	exchange("af_xdp:iface=hk0,mode=auto", asks);
	check_no_xdp();
}

static void faulty_case(bool asks)
{
	char spec[256];
	snprintf(spec, sizeof(spec), "%s;faults=drop=0.01,dup=0.05,delay=0.05,seed=4",
		 wire_spec(!asks));
	struct hk_port *port = open_port(spec);
	if (asks) {
		ask_all(port);
		line_send(peer_fd, "done");
	} else { /* frames come twice and late */
		answer_all(port, false);
	}
	hk_port_close(port);
}

static bool rings_are_mapped(void)
{
	char line[512];
	bool found = false;
	FILE *f = fopen("/proc/self/maps", "r");
	CHECK(f != NULL);
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, "memif_region") != NULL;
	fclose(f);
	return found;
}

/* The peer is killed while we poll. We continue, and detect that it is gone. */
static void memif_peer_dies_case(bool asks)
{
	struct hk_port *port = open_port(wire_spec(asks));
	if (!asks) {
		line_send(peer_fd, "open %d", (int)getpid());
		for (;;)
			rte_pktmbuf_free(receive(port, hk_clock_ms() + WAIT_MS));
	}
	pid_t other = atoi(await("open "));
	CHECK(hk_port_link(port));
	CHECK_EQ(kill(other, SIGKILL), 0);
	AWAIT(WAIT_MS, !hk_port_link(port), {
		for (int i = 0; i < 1000; i++)
			rte_pktmbuf_free(receive(port, 0));
	});
	for (int i = 0; i < 2000000; i++) {
		struct rte_mbuf *m;
		if (hk_port_rx(port, 0, &m, 1))
			rte_pktmbuf_free(m);
		m = rte_pktmbuf_alloc(port->pool);
		CHECK(m != NULL && rte_pktmbuf_append(m, 64) != NULL);
		if (hk_port_tx(port, 0, &m, 1) == 0)
			rte_pktmbuf_free(m);
	}
	/* without the guard the driver would have unmapped the rings by now */
	CHECK(rings_are_mapped());
	hk_port_close(port);
	CHECK(!rings_are_mapped());
}

/* Each with options that change the socket or the frames that it gets. */
static void af_xdp_options_case(bool asks)
{
	make_link(asks, MTU_AF_XDP);
	exchange(asks ? "af_xdp:iface=hk0,mode=copy" : "af_xdp:iface=hk0,take=all", asks);
	exchange(asks ? "af_xdp:iface=hk0,busy=64" : "af_xdp:iface=hk0", asks);
	check_no_xdp();
}

/* A process with AF_XDP is killed. The next one works. */
static void af_xdp_after_a_kill_case(bool asks)
{
	make_link(asks, MTU_AF_XDP);
	if (asks) {
		int up[2];
		char c;
		CHECK_EQ(pipe(up), 0);
		pid_t victim = child_fork();
		if (victim == 0) {
			(void)open_port("af_xdp:iface=hk0");
			CHECK_EQ(write(up[1], "u", 1), 1);
			pause();
			_Exit(1);
		}
		close(up[1]);
		AWAIT(WAIT_MS, line_arrived(up[0]), pause_1ms());
		CHECK_EQ(read(up[0], &c, 1), 1);
		/* a program is attached; otherwise this tests nothing. The helper may remove it
		 * soon after the kill. */
		shell("ip -d link show hk0 | grep -q xdp");
		child_kill(victim);
		line_send(peer_fd, "killed");
	} else {
		await("killed");
	}
	exchange("af_xdp:iface=hk0", asks);
	check_no_xdp();
}

/* ---- running a case -------------------------------------------------------------------------- */

static void (*running)(bool asks);

static void asking(int fd)
{
	peer_fd = fd;
	running(true);
}

static void answering(int fd)
{
	peer_fd = fd;
	running(false);
}

static void run_case(void (*run)(bool), bool other_is_killed)
{
	int status[2];

	running = run;
	two_children(asking, answering, status);
	if (WIFEXITED(status[0]) && WEXITSTATUS(status[0]) == SKIPPED) {
		printf("skipped, because it needs root: ");
		return;
	}
	CHECK_MSG(status[0] == 0, "the asking side ended with status %#x", status[0]);
	CHECK_MSG(other_is_killed ? WIFSIGNALED(status[1]) : status[1] == 0,
		  "the answering side ended with status %#x", status[1]);
}

TEST(memif)
{
	run_case(memif_case, false);
}

TEST(memif_with_faults)
{
	run_case(faulty_case, false);
}

TEST(memif_peer_dies)
{
	run_case(memif_peer_dies_case, true);
}

TEST(af_packet)
{
	run_case(af_packet_case, false);
}

TEST(af_xdp)
{
	run_case(af_xdp_case, false);
}

TEST(af_xdp_options)
{
	run_case(af_xdp_options_case, false);
}

TEST(af_xdp_after_a_kill)
{
	run_case(af_xdp_after_a_kill_case, false);
}

BEFORE_ALL()
{
	tmp_dir(dir);
}

AFTER_ALL()
{
	tmp_gone(dir);
}
