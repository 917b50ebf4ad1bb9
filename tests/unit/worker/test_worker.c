/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_worker.c: two workers in two processes, over a real memif.
 *
 * Each test forks both ends, because DPDK starts once a process. The ends talk over the workers.
 * A socket pair beside them carries a few words, so that a test waits for conditions, not for time.
 */
#include "worker/private.h"
#include "hikyaku/worker.h"
#include "port/port.h"
#include "tests/support/child.h"
#include "tests/support/hk_test.h"
#include "tests/support/lines.h"
#include "tests/support/tmpdir.h"

#include <poll.h>
#include <unistd.h>

#define WAIT_MS  60000 /* no test takes a tenth of it */
#define AM_DATA  7
#define AM_DONE  8
#define MESSAGES 4000

struct end {
	struct hk_worker *w;
	hk_peer peer;
	int other; /* socket to the other end */
	uint32_t got;
	bool done;
};

static char dir[TMP_PATH];
static unsigned rx_backlog = 512;
static uint64_t peer_timeout; /* 0: the default */
static bool lends;            /* odd messages, and changes the bytes once they are sent */

/* Message @i: its number, then bytes that follow from it. Both ends draw its length from the
 * same numbers: empty, one frame, or up to four. */
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
	size_t at = 0, size = message_size(e->got, hk_worker_frame_payload(e->w));
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
	((struct end *)arg)->done = true;
}

static void on_lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text)
{
	CHECK_MSG(false, "%s", text);
}

/* Sends message @i, or returns false when there are no buffers. */
static bool send_data(struct end *e, uint32_t i)
{
	size_t payload = hk_worker_frame_payload(e->w), size = message_size(i, payload), at = 0;
	size_t len[HK_WIRE_MAX_FRAGS];
	hk_buf *bufs[HK_WIRE_MAX_FRAGS];
	static uint8_t bytes[4 * 9216];
	unsigned n = 0;

	if (hk_worker_tx_low(e->w))
		return false;
	for (size_t b = 0; b < size; b++)
		bytes[b] = byte_at(i, b);
	memcpy(bytes, &i, sizeof(i));
	while (at < size) {
		bufs[n] = hk_worker_alloc(e->w);
		CHECK(bufs[n] != NULL);
		len[n] = HK_MIN(payload, size - at);
		size_t copied = lends && i % 2 ? HK_MIN(len[n], i % 64) : len[n];

		memcpy(hk_buf_data(bufs[n]), bytes + at, copied);
		if (copied < len[n])
			hk_worker_lend(e->w, bufs[n], copied, bytes + at + copied, len[n] - copied);
		at += len[n++];
	}
	CHECK(hk_worker_sendv(e->w, e->peer, AM_DATA, bufs, len, n) >= 0);
	memset(bytes, 0, size);
	return true;
}

/* The end of this process, which @other joins to the other one. */
static struct end *open_end(int other, unsigned self, const char *faults, bool crc)
{
	static struct end end;
	struct end *e = &end;
	struct hk_worker_config cfg;
	struct hk_peer_addr addr = {
		.endpoint = 3 - self, .epoch = 100, .frame_max = 9216, .name = "the other end"};
	struct hk_port *port;
	char set[300], spec[600];
	bool server;

	e->other = other;
	alarm(WAIT_MS / 1000 * 2);
	snprintf(set, sizeof(set), "memif:dir=%s", dir);
	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = 192}, ERR));
	CHECK_OK(hk_port_wire_spec(set, 1, self, 3 - self, spec, sizeof(spec), &server, ERR));
	strncat(spec, faults, sizeof(spec) - strlen(spec) - 1);
	if (!server)
		line_expect(e->other, WAIT_MS, "open");
	CHECK_OK(hk_port_open(spec, 1024, NULL, WAIT_MS, &port, ERR));
	if (server)
		line_send(e->other, "open");
	CHECK_OK(hk_port_wait_link(port, WAIT_MS, ERR));

	hk_worker_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = self;
	cfg.engine.epoch = 100;
	cfg.engine.max_peers = 4;
	cfg.engine.protection = crc;
	cfg.tx_buffers = 1024;
	cfg.rx_backlog = rx_backlog;
	if (peer_timeout) {
		cfg.engine.peer_timeout = peer_timeout;
		cfg.engine.keepalive = peer_timeout / 4;
	}
	cfg.frame_max = 9216;
	cfg.lost = on_lost;
	CHECK_OK(hk_worker_open(&cfg, &e->w, ERR));
	CHECK_OK(hk_worker_add_port(e->w, port, ERR));
	CHECK_OK(hk_worker_peer_add(e->w, &addr, &e->peer, ERR));
	hk_worker_set_am(e->w, AM_DATA, on_data, e);
	hk_worker_set_am(e->w, AM_DONE, on_done, e);
	return e;
}

/* Nobody closes before both have seen everything; then nothing may be left over. */
static void close_end(struct end *e)
{
	while (hk_engine_unacked(hk_worker_engine(e->w), HK_PEER_NONE))
		hk_worker_progress(e->w);
	line_send(e->other, "end");
	while (!line_arrived(e->other))
		hk_worker_progress(e->w); /* the other end may still need an ack */
	line_expect(e->other, WAIT_MS, "end");
	hk_worker_close(e->w, 1000);
}

/* Runs @a and @b as processes of their own, bounded in time. */
static void in_two_processes(void (*a)(int other), void (*b)(int other))
{
	int status[2];

	tmp_dir(dir);
	two_children(a, b, status);
	tmp_remove(dir);
	CHECK_MSG(status[0] == 0 && status[1] == 0, "the ends ended with status %#x and %#x",
		  (unsigned)status[0], (unsigned)status[1]);
}

/* ---- order and content under loss ------------------------------------------------------------ */

#define FAULTS ";faults=drop=0.03,dup=0.03,reorder=0.05,corrupt=0.02,seed="

static void both_send(int other, unsigned self, const char *faults, bool crc)
{
	struct end *e = open_end(other, self, faults, crc);
	uint32_t sent = 0;

	while (sent < MESSAGES || e->got < MESSAGES) {
		while (sent < MESSAGES && send_data(e, sent))
			sent++;
		hk_worker_progress(e->w);
	}
	close_end(e);
	CHECK_EQ(e->got, MESSAGES);
	CHECK(hk_engine_counters(hk_worker_engine(e->w)) != NULL);
}

static void lossy_a(int other)
{
	both_send(other, 1, FAULTS "1", true);
}

static void lossy_b(int other)
{
	both_send(other, 2, FAULTS "2", true);
}

TEST(in_order_and_intact_under_loss)
{
	in_two_processes(lossy_a, lossy_b);
}

static void clean_a(int other)
{
	both_send(other, 1, "", false);
}

static void clean_b(int other)
{
	both_send(other, 2, "", false);
}

TEST(in_order_on_a_clean_wire)
{
	in_two_processes(clean_a, clean_b);
}

#define LOSSES ";faults=drop=0.03,dup=0.03,reorder=0.05,seed="

static void lending_a(int other)
{
	both_send(other, 1, LOSSES "3", false);
}

static void lending_b(int other)
{
	lends = true;
	both_send(other, 2, LOSSES "4", false);
}

TEST(lent_bytes_are_sent_again_as_they_were)
{
	in_two_processes(lending_a, lending_b);
}

/* ---- the progress thread --------------------------------------------------------------------- */

/* Messages; with their fragments less than rx_backlog, and than the first credit. */
#define KEPT 150

/* Sends @n messages, and waits until the other end has acknowledged them. */
static void send_all(struct end *e, uint32_t n)
{
	uint32_t sent = 0;

	line_expect(e->other, WAIT_MS, "computing");
	while (sent < n || hk_engine_unacked(hk_worker_engine(e->w), HK_PEER_NONE) ||
	       hk_worker_backlog(e->w, e->peer)) {
		if (sent < n && send_data(e, sent))
			sent++;
		hk_worker_progress(e->w);
	}
}

static struct end *open_computing(int other)
{
	struct end *e = open_end(other, 1, "", false);

	CHECK_OK(hk_worker_progress_thread_start(e->w, 1000, 200, ERR));
	line_send(other, "computing");
	return e;
}

static void computes(int other)
{
	struct end *e = open_computing(other);

	line_expect(other, WAIT_MS, "acknowledged"); /* though the application did not poll */
	CHECK_EQ(e->got, 0);
	CHECK(hk_worker_counters(e->w)->proxy_backlogged > 0); /* bundles count once */
	while (!e->done)
		hk_worker_progress(e->w);
	CHECK_EQ(e->got, KEPT);
	close_end(e);
}

static void sends_to_it(int other)
{
	struct end *e = open_end(other, 2, "", false);

	send_all(e, KEPT);
	line_send(other, "acknowledged");
	hk_buf *b = hk_worker_alloc(e->w);

	CHECK(b != NULL);
	CHECK(hk_worker_send(e->w, e->peer, AM_DONE, b, 0) >= 0);
	close_end(e);
}

TEST(helper_acknowledges_and_keeps)
{
	in_two_processes(computes, sends_to_it);
}

/* ---- a full backlog -------------------------------------------------------------------------- */

#define TIMEOUT (300 * HK_MSEC)
#define FLOOD   600 /* messages: far more than the progress thread may store */

static void computes_for_long(int other)
{
	struct end *e = open_computing(other);

	poll(NULL, 0, 5 * TIMEOUT / HK_MSEC); /* the computation */
	CHECK(hk_engine_counters(hk_worker_engine(e->w))->refused > 0);
	while (e->got < FLOOD)
		hk_worker_progress(e->w); /* on_lost() fails the test */
	close_end(e);
}

static void floods_it(int other)
{
	struct end *e = open_end(other, 2, "", false);

	send_all(e, FLOOD);
	close_end(e);
}

TEST(nobody_dies_of_a_full_keep)
{
	rx_backlog = 40; /* less than the first credit, so that some is refused */
	peer_timeout = TIMEOUT;
	in_two_processes(computes_for_long, floods_it);
}
