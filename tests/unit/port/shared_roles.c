/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/port/shared_roles.c: see shared_roles.h. */
#include "tests/unit/port/shared_roles.h"

#include "port/wakeup.h"
#include "port/faults.h"
#include "port/internal.h"
#include "tests/support/await.h"
#include "tests/support/shared.h"

#include <errno.h>
#include <poll.h>
#include <rte_ring.h>
#include <sched.h>
#include <signal.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEMORY_MB 32
#define BUFFERS   512
#define BURST     16
#define MIN_LEN   64

/* ---- frames ---------------------------------------------------------------------------------- */

struct head {
	uint8_t eth[14];
	uint8_t side, queue; /* side and queue of the sender */
	uint32_t epoch, seq;
};

static unsigned make_frame(uint8_t *b, char side, unsigned queue, uint32_t epoch, uint32_t seq)
{
	struct head h = {
		.side = (uint8_t)side, .queue = (uint8_t)queue, .epoch = epoch, .seq = seq};
	struct hk_rng r = {seq ^ (uint64_t)epoch << 32 ^ (uint64_t)side << 48 ^
			   (uint64_t)queue << 56};
	unsigned len = (unsigned)hk_rng_range(&r, MIN_LEN, FRAME);
	memcpy(b, &h, sizeof(h));
	for (unsigned i = sizeof(h); i < len; i++)
		b[i] = (uint8_t)hk_rng_next(&r);
	return len;
}

/* ---- a secondary ----------------------------------------------------------------------------- */

static struct hk_port *port;
static struct rte_mempool *tx_pool;
static char own_side;
static unsigned own_queue;

static uint32_t send_some(uint32_t epoch, uint32_t seq, uint32_t end)
{
	struct rte_mbuf *m[BURST];
	unsigned n = 0;
	while (n < BURST && seq + n < end && (m[n] = rte_pktmbuf_alloc(tx_pool))) {
		uint8_t *b = rte_pktmbuf_mtod(m[n], uint8_t *);
		m[n]->pkt_len = m[n]->data_len = (uint16_t)make_frame(b, own_side, own_queue, epoch,
								      seq + n);
		n++;
	}
	/* faults delay frames, which leave with a burst of none */
	uint16_t sent = n > 0 || port->wrapped
				? hk_port_tx(port, (uint16_t)own_queue, m, (uint16_t)n)
				: 0;
	for (unsigned i = sent; i < n; i++)
		rte_pktmbuf_free(m[i]);
	return seq + sent;
}

/* Receives frames. Those of another epoch are left over from a dead process. */
static uint32_t take_some(uint32_t epoch, uint32_t seq)
{
	static uint8_t want[FRAME];
	struct rte_mbuf *m[BURST];
	uint16_t n = hk_port_rx(port, (uint16_t)own_queue, m, BURST);
	for (unsigned i = 0; i < n; i++) {
		struct head h;
		CHECK_MSG(m[i]->data_len >= MIN_LEN && m[i]->nb_segs == 1,
			  "frame %u of %u has %u segments, the first of %u bytes; packet %u of "
			  "epoch %u is next",
			  i, n, m[i]->nb_segs, m[i]->data_len, seq, epoch);
		memcpy(&h, rte_pktmbuf_mtod(m[i], void *), sizeof(h));
		CHECK_EQ(h.queue, own_queue);
		CHECK_EQ(h.side, own_side == 'a' ? 'b' : 'a');
		if (h.epoch == epoch) {
			CHECK_EQ(h.seq, seq);
			unsigned len = make_frame(want, (char)h.side, own_queue, epoch, seq);
			CHECK_EQ(m[i]->data_len, len);
			CHECK_EQ(memcmp(rte_pktmbuf_mtod(m[i], void *), want, len), 0);
			seq++;
		}
		rte_pktmbuf_free(m[i]);
	}
	return seq;
}

/* Sends and receives until both have reached @end or the test sends a command. */
static void stream(uint32_t epoch, uint32_t end)
{
	uint32_t sent = 0, taken = 0;
	bool reported = false;
	char line[64];
	for (unsigned round = 0; sent < end || taken < end; round++) {
		uint32_t before = sent + taken;
		sent = send_some(epoch, sent, end);
		taken = take_some(epoch, taken);
		if (end == UINT32_MAX && !reported && taken >= STREAM_RUN) {
			role_reply("flows");
			reported = true;
		}
		if (sent + taken == before)
			sched_yield();
		if (round % 64 == 0 && end == UINT32_MAX && role_receive(line, 0)) {
			CHECK_MSG(strcmp(line, "stop") == 0, "%s", line);
			break;
		}
	}
	role_reply("done %u", taken);
}

/* Sends until the ring is full. The peer does not poll now. */
static void fill(uint32_t epoch)
{
	uint32_t seq = 0;

	for (uint32_t before = UINT32_MAX; seq != before;) {
		before = seq;
		seq = send_some(epoch, seq, UINT32_MAX);
	}
	role_reply("full %u", seq);
}

static void drain(void)
{
	struct rte_mbuf *m[BURST];
	unsigned n, count = 0;

	while ((n = hk_port_rx(port, (uint16_t)own_queue, m, BURST)) > 0) {
		rte_pktmbuf_free_bulk(m, n);
		count += n;
	}
	role_reply("drained %u", count);
}

/* ---- death inside the driver ----------------------------------------------------------------- */

static void in_tx(int sig)
{
	(void)sig;
	role_reply("in tx");
	for (;;)
		pause();
}

/* Enters tx with some short frames, and one that cannot be read. It stays there, with the short
 * frames in the ring and not sent. */
static void stay_in_tx(void)
{
	void *unreadable = mmap(NULL, FRAME, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rte_mbuf *m[BURST];

	CHECK(unreadable != MAP_FAILED && signal(SIGSEGV, in_tx) != SIG_ERR);
	CHECK_EQ(rte_pktmbuf_alloc_bulk(tx_pool, m, BURST), 0);
	for (unsigned i = 0; i < BURST; i++)
		m[i]->pkt_len = m[i]->data_len = MIN_LEN;
	m[BURST - 1]->buf_addr = unreadable;
	(void)hk_port_tx(port, (uint16_t)own_queue, m, BURST);
	FAIL("tx has read what cannot be read");
}

/* Moves the driver's position in the ring back by 3 slots, which it has given back already. A kill
 * between the two stores at the end of rx has that effect. */
static void stay_in_rx(void)
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;
	struct hk_memif_rings rings;

	CHECK_EQ(hk_memif_shared_rings(&p->memory, port->info.queues, &rings), 0);
	*hk_memif_rx_position(&rings, port->id, (uint16_t)own_queue) -= 3;
	role_reply("in rx");
}

/* Fault injection in this process alone: it sends duplicates, and its copies return to the pool.
 * The peer does not poll now, and discards this epoch later. */
static void faults(void)
{
	const struct hk_faults_config all = {.dup = 1, .seed = 3};
	CHECK_OK(hk_faults_attach(port, &all, ERR));
	unsigned before = rte_mempool_avail_count(tx_pool);
	for (uint32_t seq = 0; seq < 100;)
		seq = send_some(99, seq, 100);
	CHECK_EQ(hk_faults_counters(port)->duplicated, 100);
	CHECK_EQ(hk_faults_pending(port), 0);
	CHECK_EQ(rte_mempool_avail_count(tx_pool), before);
	hk_faults_detach(port);
	role_reply("doubled");
}

/* ---- wakeups -------------------------------------------------------------------------------- */

/* Sleeps as the poller does, without a clock. */
static void sleep_until_signalled(void)
{
	static int wakeup_fd = -1;

	if (wakeup_fd < 0)
		CHECK_OK(hk_wakeup_listen(HK_WAKEUP_POLLER, &wakeup_fd, ERR));
	(void)hk_wakeup_listen_wire(port); /* more than one call is harmless */
	while (hk_wakeup_finish_wait(HK_WAKEUP_POLLER))
		; /* old signals */
	hk_wakeup_prepare_wait(HK_WAKEUP_POLLER);
	role_reply("asleep");
	struct pollfd p = {.fd = wakeup_fd, .events = POLLIN};
	CHECK_MSG(poll(&p, 1, RIG_WAIT_MS) == 1, "no signal came");
	bool waiting = hk_wakeup_waiting(HK_WAKEUP_POLLER);
	CHECK(hk_wakeup_finish_wait(HK_WAKEUP_POLLER));
	CHECK(!hk_wakeup_waiting(HK_WAKEUP_POLLER));
	role_reply(waiting ? "woken by a wire" : "woken here");
}

/* Listens to the wire as hikyakud's switch does, and gets a signal for the poller. */
static void listen_for_poller(void)
{
	int wakeup_fd;

	CHECK_OK(hk_wakeup_listen(HK_WAKEUP_SWITCH, &wakeup_fd, ERR));
	CHECK(hk_wakeup_listen_wire(port));
	hk_wakeup_prepare_wait(HK_WAKEUP_SWITCH);
	role_reply("asleep");
	struct pollfd p = {.fd = wakeup_fd, .events = POLLIN};
	CHECK_MSG(poll(&p, 1, RIG_WAIT_MS) == 1, "no signal came");
	CHECK(!hk_wakeup_finish_wait(HK_WAKEUP_SWITCH));
	role_reply("passed on");
}

/* Sends what we never send: several bytes, none, descriptors, until the socket is full. */
static void signal_badly(void)
{
	static char big[4096];
	int fd = hk_wakeup_take_wire(port->id), sent = 0;

	while (send_with(fd, big, sizeof(big), STDERR_FILENO, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		sent++;
	CHECK(sent > 0 && errno == EAGAIN);
	hk_wakeup_set_wire(port->id, fd);
	CHECK(!hk_wakeup_signal_wire(
		port->id, HK_WAKEUP_POLLER)); /* the socket is full, and the call does not wait */
	role_reply("signalled badly");
}

/* Signals, and waits until somebody at the other end has read it. */
static void signal_until_read(void)
{
	int fd, n;

	CHECK(hk_wakeup_signal_wire(port->id, HK_WAKEUP_POLLER));
	fd = hk_wakeup_take_wire(port->id);
	AWAIT(RIG_WAIT_MS, ioctl(fd, SIOCOUTQ, &n) == 0 && n == 0);
	hk_wakeup_set_wire(port->id, fd);
	role_reply("read");
}

/* Signals without end. */
static void signal_on(void)
{
	char line[64];

	role_reply("signals");
	while (!role_receive(line, 0))
		if (!hk_wakeup_signal_wire(port->id, HK_WAKEUP_POLLER))
			sched_yield();
	CHECK_MSG(strcmp(line, "stop") == 0, "%s", line);
	role_reply("stopped");
}

/* A queue that the wire does not have. Its number may come from a peer. */
static void take_others(void)
{
	const struct hk_port_impl *p = (const struct hk_port_impl *)port;
	struct hk_memif_rings rings;

	CHECK_EQ(hk_port_take_queue(port, QUEUES, ERR), -EPROTO);
	CHECK_EQ(hk_port_take_queue(port, UINT16_MAX, ERR), -EPROTO);
	CHECK_EQ(hk_memif_shared_rings(&p->memory, port->info.queues, &rings), 0);
	for (unsigned q = QUEUES; q <= UINT16_MAX; q++)
		CHECK_EQ(hk_memif_rings_take(&rings, port->id, (uint16_t)q, port->info.frame_max),
			 -EPROTO);
	role_reply("refused");
}

static void start_secondary(const char *name, unsigned queue)
{
	struct hk_eal_config eal = {.role = HK_EAL_SECONDARY, .shared = name, .lcore = 1 + queue};
	cpu_set_t before, after;
	char pool[32];
	CHECK_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
	int64_t from = hk_clock_ms();
	CHECK_OK(hk_eal_init(&eal, ERR));
	role_reply("started %d", (int)(hk_clock_ms() - from));
	CHECK_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
	CHECK(CPU_EQUAL(&before, &after));
	own_side = name[strlen(name) - 1];
	own_queue = queue;
	snprintf(pool, sizeof(pool), "tx%u", queue);
	CHECK_OK(hk_pool_find(pool, &tx_pool, ERR));
	struct rte_mempool *none;
	CHECK_EQ(hk_pool_find("no such pool", &none, ERR), -ENOENT);
	CHECK_EQ(hk_pool_reset(tx_pool, ERR), -EPERM);
}

ROLE(secondary)
{
	char line[64];
	start_secondary(argv[0], (unsigned)atoi(argv[1]));
	while (role_receive(line, RIG_WAIT_MS)) {
		unsigned id, ms, epoch, n;
		if (sscanf(line, "attach %u %u", &id, &ms) == 2) {
			int64_t from = hk_clock_ms();
			struct hk_port *got;
			int rc = hk_port_attach((uint16_t)id, (int)ms, &got, ERR);
			port = rc ? port : got;
			if (rc == 0)
				CHECK_OK(hk_port_take_queue(port, (uint16_t)own_queue, ERR));
			role_reply(rc ? "attached %d %s" : "attached %d%.0s %d", rc,
				   hk_test_err.text, (int)(hk_clock_ms() - from));
		} else if (sscanf(line, "exchange %u %u", &epoch, &n) == 2) {
			stream(epoch, n);
		} else if (sscanf(line, "stream %u", &epoch) == 1) {
			stream(epoch, UINT32_MAX);
		} else if (sscanf(line, "fill %u", &epoch) == 1) {
			fill(epoch);
		} else if (strcmp(line, "drain") == 0) {
			drain();
		} else if (strcmp(line, "take others") == 0) {
			take_others();
		} else if (strcmp(line, "stay in tx") == 0) {
			stay_in_tx();
		} else if (strcmp(line, "stay in rx") == 0) {
			stay_in_rx();
		} else if (strcmp(line, "link") == 0) {
			role_reply("link %d", hk_port_link(port));
		} else if (strcmp(line, "faults") == 0) {
			faults();
		} else if (strcmp(line, "open") == 0) {
			struct hk_port *none;
			role_reply("open %d",
				   hk_port_open("vdev:net_ring0", 64, NULL, 0, &none, ERR));
		} else if (strcmp(line, "sleep") == 0) {
			sleep_until_signalled();
		} else if (strcmp(line, "requested") == 0) {
			bool requested = hk_wakeup_requested(HK_WAKEUP_POLLER);

			CHECK_EQ(hk_wakeup_finish_wait(HK_WAKEUP_POLLER), requested);
			role_reply("requested %d, then %d", requested,
				   hk_wakeup_requested(HK_WAKEUP_POLLER));
		} else if (strcmp(line, "signal wire") == 0) {
			CHECK(hk_wakeup_signal_wire(port->id, HK_WAKEUP_POLLER));
		} else if (strcmp(line, "signal until read") == 0) {
			signal_until_read();
		} else if (strcmp(line, "signal on") == 0) {
			signal_on();
		} else if (strcmp(line, "signal here") == 0) {
			hk_wakeup_signal(HK_WAKEUP_POLLER);
		} else if (strcmp(line, "signal badly") == 0) {
			signal_badly();
		} else if (strcmp(line, "detach") == 0) {
			hk_port_detach(port);
			port = NULL;
			role_reply("detached");
		} else {
			CHECK_MSG(strcmp(line, "end") == 0, "%s", line);
			hk_port_detach(port);
			hk_eal_end();
			return;
		}
	}
	FAIL("the test sent no command");
}

/* ---- a primary ------------------------------------------------------------------------------- */

static void limits(const char *spec, struct rte_mempool *pool)
{
	struct rte_mempool *pools[300];
	struct hk_port *none;
	for (unsigned i = 0; i < HK_ARRAY_LEN(pools); i++)
		pools[i] = pool;
	struct hk_port_queues q = {300, pools};
	CHECK_REFUSED(hk_port_open_queues(spec, &q, 0, &none, ERR), -ERANGE,
		      "net_memif has 1 to 255");
	q.count = 129; /* two rings of 256 each: one queue more than 16 bits can number */
	CHECK_REFUSED(hk_port_open_queues(spec, &q, 0, &none, ERR), -ERANGE, "at most 128");
	CHECK_EQ(hk_port_attach(0, 0, &none, ERR), -EPERM);
	CHECK_EQ(rte_eth_dev_count_avail(), 0);
}

static void add_chunk(struct rte_mempool *mp, void *sum, struct rte_mempool_memhdr *chunk,
		      unsigned i)
{
	*(size_t *)sum += chunk->len;
}

/* hk_pool_sized_bytes() is enough for a pool, and not much more than needed. */
static void pools_take_what_is_reckoned(void)
{
	static const unsigned sizes[][3] = {{64, 0, 256}, {1000, 64, 2048}, {1000, 0, 9472}};
	for (unsigned i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		const unsigned *s = sizes[i];
		struct rte_mempool *mp;
		size_t real = 0, reckoned = hk_pool_sized_bytes(s[0], s[1], s[2]);
		CHECK_OK(hk_pool_create_sized("reckoned", s[0], s[1], s[2], &mp, ERR));
		rte_mempool_mem_iter(mp, add_chunk, &real);
		real += sizeof(*mp) + RTE_MAX_LCORE * sizeof(struct rte_mempool_cache);
		CHECK_CMP(real, <=, reckoned);
		CHECK_CMP(reckoned, <=, real + real / 16 + (1u << 20));
		hk_pool_free(mp);
	}
}

ROLE(primary)
{
	struct hk_eal_config eal = {.role = HK_EAL_PRIMARY,
				    .shared = argv[0],
				    .huge_dir = argv[1],
				    .memory_mb = MEMORY_MB};
	struct rte_mempool *rx[QUEUES], *tx[QUEUES];
	struct hk_port *ring_port = NULL;
	char line[64], name[32];
	CHECK_OK(hk_eal_init(&eal, ERR));
	for (unsigned q = 0; q < QUEUES; q++) {
		snprintf(name, sizeof(name), "rx%u", q);
		CHECK_OK(hk_pool_create(name, BUFFERS, FRAME, &rx[q], ERR));
		snprintf(name, sizeof(name), "tx%u", q);
		CHECK_OK(hk_pool_create(name, BUFFERS, FRAME, &tx[q], ERR));
	}
	CHECK_EQ(hk_pool_create("tx0", BUFFERS, FRAME, &(struct rte_mempool *){NULL}, ERR),
		 -EEXIST);
	/* the memory does not grow, because secondaries would have to answer */
	CHECK_EQ(hk_pool_create("huge", 1000000, FRAME, &(struct rte_mempool *){NULL}, ERR),
		 -ENOMEM);
	CHECK_EQ(hk_pool_create("", BUFFERS, FRAME, &(struct rte_mempool *){NULL}, ERR), -EINVAL);
	limits(argv[2], rx[0]);
	pools_take_what_is_reckoned();
	role_reply("ready");
	while (role_receive(line, RIG_WAIT_MS)) {
		unsigned q;
		if (strcmp(line, "open") == 0) {
			struct hk_port_queues queues = {QUEUES, rx};
			const char *why;
			CHECK_OK(hk_port_open_queues(argv[2], &queues, RIG_WAIT_MS, &port, ERR));
			CHECK_EQ(port->info.queues, QUEUES);
			CHECK(hk_port_shares_queues(port, &why));
			role_reply("open %u", port->id);
		} else if (strcmp(line, "wait") == 0) {
			CHECK_OK(hk_port_wait_link(port, RIG_WAIT_MS, ERR));
			role_reply("up");
		} else if (strcmp(line, "go on") == 0) {
			role_reply("going on"); /* and waits as long again */
		} else if (strcmp(line, "link") == 0) {
			role_reply("link %d", hk_port_link(port));
		} else if (strcmp(line, "listen") == 0) {
			listen_for_poller();
		} else if (sscanf(line, "reset %u", &q) == 1) {
			CHECK(q < QUEUES);
			/* as a dying user may leave them */
			memset(rte_mempool_get_priv(tx[q]), 0xa5,
			       sizeof(struct rte_pktmbuf_pool_private));
			tx[q]->local_cache[1 + q].len = 1u << 30;
			struct rte_ring *ring =
				tx[q]->pool_data; /* as if it died during an enqueue */
			ring->prod.head += 3;
			ring->mask = 1;
			CHECK_OK(hk_pool_reset(rx[q], ERR));
			CHECK_OK(hk_pool_reset(tx[q], ERR));
			CHECK_EQ(rte_mempool_avail_count(rx[q]), BUFFERS);
			CHECK_EQ(rte_mempool_avail_count(tx[q]), BUFFERS);
			CHECK(rte_pktmbuf_data_room_size(tx[q]) >= FRAME);
			rte_mempool_audit(tx[q]);
			role_reply("reset");
		} else if (strcmp(line, "ring") == 0) { /* an unknown driver */
			struct rte_mempool *big;
			struct hk_port_queues queues = {1, &big};
			CHECK_OK(hk_pool_create("big", 64, 9216, &big, ERR));
			CHECK_OK(
				hk_port_open_queues("vdev:net_ring0", &queues, 0, &ring_port, ERR));
			role_reply("ring %u", ring_port->id);
		} else {
			CHECK_MSG(strcmp(line, "end") == 0, "%s", line);
			hk_port_close(port);
			hk_port_close(ring_port);
			for (q = 0; q < QUEUES; q++) {
				hk_pool_free(rx[q]);
				hk_pool_free(tx[q]);
			}
			hk_eal_end();
			return;
		}
	}
	FAIL("the test sent no command");
}

/* ---- one that only starts ---------------------------------------------------------------------
 */

ROLE(try)
{
	struct hk_eal_config eal = {.role = strcmp(argv[0], "primary") == 0 ? HK_EAL_PRIMARY
									    : HK_EAL_SECONDARY,
				    .shared = argv[1],
				    .huge_dir = strcmp(argv[2], "-") == 0 ? NULL : argv[2],
				    .memory_mb = (unsigned)atoi(argv[3])};
	if (atoi(argv[4]))
		CHECK_EQ(setreuid((uid_t)atoi(argv[4]), (uid_t)atoi(argv[4])), 0);
	int rc = hk_eal_init(&eal, ERR);
	if (rc == 0)
		hk_eal_end();
	role_reply("init %d %s", rc, hk_test_err.text);
}
