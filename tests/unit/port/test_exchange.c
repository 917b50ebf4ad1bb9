/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_exchange.c: two processes, two network namespaces, frames in both
 * directions, for each kind of port.
 *
 * The namespaces have no names and the link between them lives in them, so all of it vanishes
 * with the processes, however they end. The sides talk over a socket pair (`ready`, `go`) for
 * set-up only. DPDK starts once in a process, hence each case is run by two fresh children.
 *
 * The asking side sends numbered frames of random lengths and contents and keeps a reference to
 * each, the other side sends each back; both check every byte. Frames may be lost on real wires,
 * so the asking side asks again.
 */
#include "port/port.h"
#include "tests/unit/hk_test.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FRAMES      2000
#define ETH_HLEN    14
#define WAIT_MS     10000
#define ASK_AGAIN   20 /* ms */
#define MTU_AF_XDP  3506
#define SKIPPED     77
#define ETHERTYPE_0 0x88
#define ETHERTYPE_1 0xB6

static char dir[64];
static int peer_fd; /* to the other side */

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- the two sides --------------------------------------------------------------------------- */

static void tell(char what)
{
	CHECK_EQ(write(peer_fd, &what, 1), 1);
}

static void await(char what)
{
	struct pollfd p = {.fd = peer_fd, .events = POLLIN};
	char c = 0;
	CHECK_MSG(poll(&p, 1, WAIT_MS) == 1 && read(peer_fd, &c, 1) == 1 && c == what,
		  "waited in vain for '%c' of the other side", what);
}

static void shell(const char *command)
{
	int rc = system(command);
	CHECK_MSG(rc == 0, "%s: exit status %d", command, rc);
}

/* Joins this side's namespace to the other's by a veth pair; both ends are called hk0. */
static void make_link(bool asks, unsigned mtu)
{
	char text[160];
	if (unshare(CLONE_NEWNET) != 0)
		_Exit(SKIPPED); /* not root */
	if (asks) {
		await('n');
		pid_t other;
		CHECK_EQ(read(peer_fd, &other, sizeof(other)), sizeof(other));
		snprintf(text, sizeof(text), "ip link add hk0 type veth peer name hk0 netns %d",
			 (int)other);
		shell(text);
		tell('l');
	} else {
		pid_t self = getpid();
		tell('n');
		CHECK_EQ(write(peer_fd, &self, sizeof(self)), sizeof(self));
		await('l');
	}
	snprintf(text, sizeof(text), "ip link set hk0 mtu %u up", mtu);
	shell(text);
	tell('u');
	await('u');
}

static struct hk_port *open_port(const char *spec)
{
	struct hk_error err = {""};
	struct hk_eal_config eal = {.memory_mb = 128};
	struct hk_port *port;
	CHECK_MSG(hk_eal_init(&eal, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_port_open(spec, 512, NULL, WAIT_MS, &port, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_port_wait_link(port, WAIT_MS, &err) == 0, "%s", err.text);
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
			rte_pktmbuf_free(m); /* the kernel's own: neighbour discovery */
		}
		sched_yield();
	} while (now_ms() < until);
	return NULL;
}

/* Sends @m as the frame @seq until it comes back; keeps its reference to the end. */
static void ask(struct hk_port *port, struct rte_mbuf *m, uint32_t seq, unsigned len)
{
	int64_t deadline = now_ms() + WAIT_MS;
	struct rte_mbuf *got = NULL;
	uint8_t *b = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
	CHECK(b != NULL);
	fill(b, seq, len);
	while (!got) {
		CHECK_MSG(now_ms() < deadline, "frame %u of %u bytes does not come back", seq, len);
		/* each time another reference; the driver may still hold the last one */
		rte_mbuf_refcnt_update(m, 1);
		if (hk_port_tx(port, 0, &m, 1) == 0)
			rte_mbuf_refcnt_update(m, -1);
		int64_t again = now_ms() + ASK_AGAIN;
		while ((got = receive(port, again)) && seq_of(got) != seq)
			rte_pktmbuf_free(got); /* the answer to an earlier one */
	}
	check_frame(got, seq, len);
	rte_pktmbuf_free(got);
	check_frame(m, seq, len); /* the sender's own is as it was */
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

/* Every buffer of the pool can be sent, not only the few that go round: all are taken, some are
 * left for receiving, and the others are sent from, the last in memory first. */
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

static void answer_all(struct hk_port *port)
{
	uint32_t last = 0;
	struct pollfd done = {.fd = peer_fd, .events = POLLIN};
	int64_t deadline = now_ms() + 3 * WAIT_MS;
	while (poll(&done, 1, 0) == 0) {
		CHECK_MSG(now_ms() < deadline, "the other side does not end");
		struct rte_mbuf *m = receive(port, now_ms() + 1);
		if (!m)
			continue;
		uint32_t seq = seq_of(m);
		CHECK(seq == last || seq == last + 1);
		last = seq;
		check_frame(m, seq, m->data_len);
		if (hk_port_tx(port, 0, &m, 1) == 0)
			rte_pktmbuf_free(m); /* it will be asked for again */
	}
	CHECK_CMP(last, >=, FRAMES);
}

static void check_no_xdp(void)
{
	CHECK_MSG(system("ip -d link show hk0 | grep -q xdp") != 0,
		  "an XDP program is left on the interface");
	tell('x'); /* the link goes when one side does: both must have looked */
	await('x');
}

static void exchange(const char *spec, bool asks)
{
	struct hk_port *port = open_port(spec);
	if (asks) {
		ask_all(port);
		ask_from_every_buffer(port);
		tell('d');
	} else {
		answer_all(port);
		await('d');
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
		tell('d');
	} else { /* frames come twice and late: only that each is whole is checked */
		struct pollfd done = {.fd = peer_fd, .events = POLLIN};
		int64_t deadline = now_ms() + 3 * WAIT_MS;
		while (poll(&done, 1, 0) == 0) {
			CHECK_MSG(now_ms() < deadline, "the other side does not end");
			struct rte_mbuf *m = receive(port, now_ms() + 1);
			if (!m)
				continue;
			check_frame(m, seq_of(m), m->data_len);
			if (hk_port_tx(port, 0, &m, 1) == 0)
				rte_pktmbuf_free(m);
		}
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

/* The peer is killed while we poll: we go on, and see that it has gone. */
static void memif_peer_dies_case(bool asks)
{
	struct hk_port *port = open_port(wire_spec(asks));
	if (!asks) {
		pid_t self = getpid();
		tell('o');
		CHECK_EQ(write(peer_fd, &self, sizeof(self)), sizeof(self));
		for (;;)
			rte_pktmbuf_free(receive(port, now_ms() + WAIT_MS));
	}
	await('o');
	pid_t other;
	CHECK_EQ(read(peer_fd, &other, sizeof(other)), sizeof(other));
	CHECK(hk_port_link(port));
	CHECK_EQ(kill(other, SIGKILL), 0);
	int64_t deadline = now_ms() + WAIT_MS;
	while (hk_port_link(port)) {
		CHECK_MSG(now_ms() < deadline, "the end of the peer is not seen");
		for (int i = 0; i < 1000; i++)
			rte_pktmbuf_free(receive(port, 0));
	}
	for (int i = 0; i < 2000000; i++) {
		struct rte_mbuf *m;
		if (hk_port_rx(port, 0, &m, 1))
			rte_pktmbuf_free(m);
		m = rte_pktmbuf_alloc(port->pool);
		CHECK(m != NULL && rte_pktmbuf_append(m, 64) != NULL);
		if (hk_port_tx(port, 0, &m, 1) == 0)
			rte_pktmbuf_free(m);
	}
	/* by now the driver, left to itself, would have taken the rings from under our feet */
	CHECK(rings_are_mapped());
	hk_port_close(port);
	CHECK(!rings_are_mapped());
}

/* A process with AF_XDP is killed; the next one takes its program off and works. */
static void af_xdp_after_a_kill_case(bool asks)
{
	make_link(asks, MTU_AF_XDP);
	if (asks) {
		int up[2];
		CHECK_EQ(pipe(up), 0);
		pid_t victim = fork();
		if (victim == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			(void)open_port("af_xdp:iface=hk0");
			CHECK_EQ(write(up[1], "u", 1), 1);
			pause();
			_Exit(1);
		}
		struct pollfd p = {.fd = up[0], .events = POLLIN};
		CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
		CHECK_EQ(kill(victim, SIGKILL), 0);
		CHECK_EQ(waitpid(victim, NULL, 0), victim);
		shell("ip -d link show hk0 | grep -q xdp"); /* it is there: else this tests nothing */
		tell('k');
	} else {
		await('k');
	}
	exchange("af_xdp:iface=hk0", asks);
	check_no_xdp();
}

/* ---- running a case -------------------------------------------------------------------------- */

static pid_t start(void (*run)(bool), bool asks, int fd, int close_fd)
{
	fflush(stdout);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(close_fd);
	peer_fd = fd;
	run(asks);
	_Exit(0);
}

static void run_case(void (*run)(bool), bool other_is_killed)
{
	int pair[2], status[2];
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid_t other = start(run, false, pair[1], pair[0]);
	pid_t asks = start(run, true, pair[0], pair[1]);
	close(pair[0]);
	close(pair[1]);
	CHECK_EQ(waitpid(asks, &status[0], 0), asks);
	if (!WIFEXITED(status[0]) || WEXITSTATUS(status[0]) != 0)
		kill(other, SIGKILL);
	CHECK_EQ(waitpid(other, &status[1], 0), other);
	if (WIFEXITED(status[0]) && WEXITSTATUS(status[0]) == SKIPPED) {
		printf("skipped, for want of root: ");
		return;
	}
	CHECK_MSG(status[0] == 0, "the asking side ended with status %#x", status[0]);
	CHECK_MSG(other_is_killed ? WIFSIGNALED(status[1]) : status[1] == 0,
		  "the answering side ended with status %#x", status[1]);
}

static void memif(void)
{
	run_case(memif_case, false);
}

static void memif_with_faults(void)
{
	run_case(faulty_case, false);
}

static void memif_peer_dies(void)
{
	run_case(memif_peer_dies_case, true);
}

static void af_packet(void)
{
	run_case(af_packet_case, false);
}

static void af_xdp(void)
{
	run_case(af_xdp_case, false);
}

static void af_xdp_after_a_kill(void)
{
	run_case(af_xdp_after_a_kill_case, false);
}

static const struct hk_test tests[] = {
	{"memif", memif},
	{"memif_with_faults", memif_with_faults},
	{"memif_peer_dies", memif_peer_dies},
	{"af_packet", af_packet},
	{"af_xdp", af_xdp},
	{"af_xdp_after_a_kill", af_xdp_after_a_kill},
};

int main(int argc, char **argv)
{
	snprintf(dir, sizeof(dir), "/tmp/hk-test-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	int rc = hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
	if (rmdir(dir) != 0) {
		fprintf(stderr, "FAIL: something is left in %s\n", dir);
		rc = 1;
	}
	return rc;
}
