/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/test_fabric.c: two fabrics in two processes, over a real memif.
 *
 * Each test forks both ends, because DPDK starts once a process. The ends talk over the fabric;
 * beside it a socket pair carries the few words that a test needs to be about conditions, not
 * about time.
 */
#include "fabric/fabric.h"
#include "port/port.h"
#include "tests/unit/hk_test.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS  60000 /* no test takes a tenth of it */
#define AM_DATA  7
#define AM_DONE  8
#define MESSAGES 4000

struct end {
	struct hk_fabric *f;
	hk_peer peer;
	int other; /* socket to the other end */
	uint32_t got;
	bool done;
};

static const char *dir;
static unsigned rx_keep = 512;
static uint64_t peer_timeout; /* 0: the default */

/* Message @i: its number, then bytes that follow from it. Its length draws on the same numbers at
 * both ends: empty, one frame, or up to four. */
static size_t message_size(uint32_t i, size_t payload)
{
	struct hk_rng r = {hk_test_now.seed * 1000003 + i};

	return 4 + hk_rng_below(&r, i % 5 == 0 ? 4 * payload - 4 : 200);
}

static uint8_t byte_at(uint32_t i, size_t at)
{
	return (uint8_t)(i * 31 + at * 7 + (at >> 8));
}

static void on_data(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	struct end *e = arg;
	size_t at = 0, size = message_size(e->got, hk_fabric_frame_payload(e->f));
	uint32_t i;

	CHECK(peer == e->peer && am == AM_DATA);
	memcpy(&i, iov[0].base, sizeof(i));
	CHECK_MSG(i == e->got, "message %u came, %u was next", i, e->got);
	for (unsigned k = 0; k < count; k++)
		for (size_t b = 0; b < iov[k].len; b++, at++)
			CHECK(at < 4 || ((const uint8_t *)iov[k].base)[b] == byte_at(i, at));
	CHECK_EQ(at, size);
	e->got++;
}

static void on_done(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned count)
{
	(void)peer;
	(void)am;
	(void)iov;
	(void)count;
	((struct end *)arg)->done = true;
}

static void on_lost(void *arg, hk_peer peer, enum hk_verdict why, const char *text)
{
	(void)arg;
	(void)peer;
	(void)why;
	CHECK_MSG(false, "%s", text);
}

/* Sends message @i, or returns false when there are no buffers. */
static bool send_data(struct end *e, uint32_t i)
{
	size_t payload = hk_fabric_frame_payload(e->f), size = message_size(i, payload), at = 0;
	size_t len[HK_WIRE_MAX_FRAGS];
	hk_buf *bufs[HK_WIRE_MAX_FRAGS];
	unsigned n = 0;

	if (hk_fabric_low(e->f))
		return false;
	while (at < size) {
		uint8_t *to;

		bufs[n] = hk_fabric_alloc(e->f);
		CHECK(bufs[n] != NULL);
		to = hk_buf_data(bufs[n]);
		len[n] = HK_MIN(payload, size - at);
		for (size_t b = 0; b < len[n]; b++)
			to[b] = byte_at(i, at + b);
		if (n == 0)
			memcpy(to, &i, sizeof(i));
		at += len[n++];
	}
	CHECK(hk_fabric_sendv(e->f, e->peer, AM_DATA, bufs, len, n) >= 0);
	return true;
}

static void say(const struct end *e, char word)
{
	CHECK(write(e->other, &word, 1) == 1);
}

static void hear(const struct end *e, char word)
{
	struct pollfd p = {.fd = e->other, .events = POLLIN};
	char heard = 0;

	CHECK_MSG(poll(&p, 1, WAIT_MS) == 1, "waited for '%c' of the other end in vain", word);
	CHECK(read(e->other, &heard, 1) == 1 && heard == word);
}

static void open_end(struct end *e, unsigned self, const char *faults, bool crc)
{
	struct hk_eal_config eal = {.memory_mb = 192};
	struct hk_fabric_config cfg;
	struct hk_peer_addr addr = {
		.endpoint = 3 - self, .epoch = 100, .frame_max = 9216, .name = "the other end"};
	struct hk_error err = {""};
	struct hk_port *port;
	char set[300], spec[600];
	bool server;

	snprintf(set, sizeof(set), "memif:dir=%s", dir);
	CHECK_MSG(hk_eal_init(&eal, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_port_wire_spec(set, 1, self, 3 - self, spec, sizeof(spec), &server, &err) == 0,
		  "%s", err.text);
	strncat(spec, faults, sizeof(spec) - strlen(spec) - 1);
	if (!server)
		hear(e, 'o');
	CHECK_MSG(hk_port_open(spec, 1024, NULL, WAIT_MS, &port, &err) == 0, "%s", err.text);
	if (server)
		say(e, 'o');
	CHECK_MSG(hk_port_wait_link(port, WAIT_MS, &err) == 0, "%s", err.text);

	hk_fabric_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = self;
	cfg.engine.epoch = 100;
	cfg.engine.max_peers = 4;
	cfg.engine.crc = crc;
	cfg.tx_buffers = 1024;
	cfg.rx_keep = rx_keep;
	if (peer_timeout) {
		cfg.engine.peer_timeout = peer_timeout;
		cfg.engine.keepalive = peer_timeout / 4;
	}
	cfg.frame_max = 9216;
	cfg.lost = on_lost;
	CHECK_MSG(hk_fabric_open(&cfg, &e->f, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_fabric_add_port(e->f, port, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_fabric_peer_add(e->f, &addr, &e->peer, &err) == 0, "%s", err.text);
	hk_fabric_set_am(e->f, AM_DATA, on_data, e);
	hk_fabric_set_am(e->f, AM_DONE, on_done, e);
}

/* Nobody closes before both have seen everything; then nothing may be left over. */
static void close_end(struct end *e)
{
	while (hk_engine_unacked(hk_fabric_engine(e->f), HK_PEER_NONE))
		hk_fabric_progress(e->f);
	say(e, 'e');
	struct pollfd p = {.fd = e->other, .events = POLLIN};

	for (int i = 0; poll(&p, 1, 0) == 0; i++)
		hk_fabric_progress(e->f); /* the other end may still need an ack */
	hear(e, 'e');
	hk_fabric_close(e->f, 1000);
}

/* Runs @a and @b as processes of their own, bounded in time. */
static void in_two_processes(void (*a)(struct end *), void (*b)(struct end *))
{
	char template[] = "/tmp/hk-test-fabric-XXXXXX";
	void (*run[2])(struct end *) = {a, b};
	int pair[2], status;
	pid_t pid[2];

	dir = mkdtemp(template);
	CHECK(dir && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (pid[i] == 0) {
			struct end e = {.other = pair[i]};

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			alarm(WAIT_MS / 1000 * 2);
			close(pair[1 - i]);
			run[i](&e);
			_exit(0);
		}
	}
	close(pair[0]);
	close(pair[1]);
	int bad = 0;

	for (int i = 0; i < 2; i++) {
		CHECK(waitpid(pid[i], &status, 0) == pid[i]);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			fprintf(stderr, "end %d: status %#x\n", i + 1, (unsigned)status);
			bad++;
		}
	}
	rmdir(dir);
	CHECK(bad == 0);
}

/* ---- order and content under loss ----------------------------------------------------------- */

#define FAULTS ";faults=drop=0.03,dup=0.03,reorder=0.05,corrupt=0.02,seed="

static void both_send(struct end *e, unsigned self, const char *faults, bool crc)
{
	uint32_t sent = 0;

	open_end(e, self, faults, crc);
	while (sent < MESSAGES || e->got < MESSAGES) {
		while (sent < MESSAGES && send_data(e, sent))
			sent++;
		hk_fabric_progress(e->f);
	}
	close_end(e);
	CHECK_EQ(e->got, MESSAGES);
}

static void lossy_a(struct end *e)
{
	both_send(e, 1, FAULTS "1", true);
	CHECK(hk_engine_counters(hk_fabric_engine(e->f)) != NULL);
}

static void lossy_b(struct end *e)
{
	both_send(e, 2, FAULTS "2", true);
}

static void in_order_and_intact_under_loss(void)
{
	in_two_processes(lossy_a, lossy_b);
}

static void clean_a(struct end *e)
{
	both_send(e, 1, "", false);
}

static void clean_b(struct end *e)
{
	both_send(e, 2, "", false);
}

static void in_order_on_a_clean_wire(void)
{
	in_two_processes(clean_a, clean_b);
}

/* ---- the helper thread ------------------------------------------------------------------------ */

#define KEPT 150 /* messages; with their fragments less than rx_keep, and than the first credit */

static void computes(struct end *e)
{
	struct hk_error err = {""};

	open_end(e, 1, "", false);
	CHECK_MSG(hk_fabric_async_start(e->f, 1000, 200, &err) == 0, "%s", err.text);
	say(e, 'c');
	hear(e, 'a'); /* all is acknowledged, though we did not make progress */
	CHECK_EQ(e->got, 0);
	CHECK(hk_fabric_counters(e->f)->async_kept >= KEPT); /* and perhaps the last word */
	while (!e->done)
		hk_fabric_progress(e->f);
	CHECK_EQ(e->got, KEPT);
	close_end(e);
}

static void sends_to_it(struct end *e)
{
	uint32_t sent = 0;
	hk_buf *b;

	open_end(e, 2, "", false);
	hear(e, 'c');
	while (sent < KEPT || hk_engine_unacked(hk_fabric_engine(e->f), HK_PEER_NONE) ||
	       hk_fabric_backlog(e->f, e->peer)) {
		if (sent < KEPT && send_data(e, sent))
			sent++;
		hk_fabric_progress(e->f);
	}
	say(e, 'a');
	b = hk_fabric_alloc(e->f);
	CHECK(b != NULL);
	CHECK(hk_fabric_send(e->f, e->peer, AM_DONE, b, 0) >= 0);
	close_end(e);
}

static void helper_acknowledges_and_keeps(void)
{
	in_two_processes(computes, sends_to_it);
}

/* ---- a full keep ------------------------------------------------------------------------------ */

#define TIMEOUT (300 * HK_MSEC)
#define FLOOD   600 /* messages: far more than the helper may keep */

static void computes_for_long(struct end *e)
{
	struct hk_error err = {""};

	rx_keep = 40; /* less than the first credit, so that some is refused */
	peer_timeout = TIMEOUT;
	open_end(e, 1, "", false);
	CHECK_MSG(hk_fabric_async_start(e->f, 1000, 200, &err) == 0, "%s", err.text);
	say(e, 'c');
	poll(NULL, 0, 5 * TIMEOUT / HK_MSEC); /* the computation */
	CHECK(hk_engine_counters(hk_fabric_engine(e->f))->refused > 0);
	while (e->got < FLOOD)
		hk_fabric_progress(e->f); /* on_lost() fails the test */
	close_end(e);
}

static void floods_it(struct end *e)
{
	uint32_t sent = 0;

	rx_keep = 40; /* less than the first credit, so that some is refused */
	peer_timeout = TIMEOUT;
	open_end(e, 2, "", false);
	hear(e, 'c');
	while (sent < FLOOD || hk_engine_unacked(hk_fabric_engine(e->f), HK_PEER_NONE) ||
	       hk_fabric_backlog(e->f, e->peer)) {
		if (sent < FLOOD && send_data(e, sent))
			sent++;
		hk_fabric_progress(e->f);
	}
	close_end(e);
}

static void nobody_dies_of_a_full_keep(void)
{
	in_two_processes(computes_for_long, floods_it);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"in_order_on_a_clean_wire", in_order_on_a_clean_wire},
		{"in_order_and_intact_under_loss", in_order_and_intact_under_loss},
		{"helper_acknowledges_and_keeps", helper_acknowledges_and_keeps},
		{"nobody_dies_of_a_full_keep", nobody_dies_of_a_full_keep},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
