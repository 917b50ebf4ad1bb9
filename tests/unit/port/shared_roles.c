/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/port/shared_roles.c: see shared_roles.h. */
#include "tests/unit/port/shared_roles.h"

#include "port/bell.h"
#include "port/faults.h"
#include "port/internal.h"
#include "tests/unit/port/shared_rig.h"

#include <errno.h>
#include <poll.h>
#include <rte_ring.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEMORY_MB 32
#define BUFFERS   512
#define BURST     16
#define MIN_LEN   64

/* ---- frames ----------------------------------------------------------------------------------- */

struct head {
	uint8_t eth[14];
	uint8_t side, queue; /* of the sender */
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

/* ---- a secondary ------------------------------------------------------------------------------ */

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
	uint16_t sent = hk_port_tx(port, (uint16_t)own_queue, m, (uint16_t)n);
	for (unsigned i = sent; i < n; i++)
		rte_pktmbuf_free(m[i]);
	return seq + sent;
}

/* Frames of another epoch are what a dead process left. */
static uint32_t take_some(uint32_t epoch, uint32_t seq)
{
	static uint8_t want[FRAME];
	struct rte_mbuf *m[BURST];
	uint16_t n = hk_port_rx(port, (uint16_t)own_queue, m, BURST);
	for (unsigned i = 0; i < n; i++) {
		struct head h;
		CHECK(m[i]->data_len >= MIN_LEN && m[i]->nb_segs == 1);
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

/* Sends and takes until both have reached @end, or the test asks for something. */
static void stream(uint32_t epoch, uint32_t end)
{
	uint32_t sent = 0, taken = 0;
	bool told = false;
	char line[64];
	for (unsigned round = 0; sent < end || taken < end; round++) {
		uint32_t before = sent + taken;
		sent = send_some(epoch, sent, end);
		taken = take_some(epoch, taken);
		if (end == UINT32_MAX && !told && taken >= STREAM_RUN) {
			role_tell("flows");
			told = true;
		}
		if (sent + taken == before)
			sched_yield();
		if (round % 64 == 0 && end == UINT32_MAX && role_asked(line, sizeof(line), 0)) {
			CHECK_MSG(strcmp(line, "stop") == 0, "%s", line);
			break;
		}
	}
	role_tell("done %u", taken);
}

/* The wrapper in this process alone: it sends twins, and what it copies comes back to the pool. The peer
 * does not poll now, and discards this epoch later. */
static void faults(void)
{
	const struct hk_faults_config all = {.dup = 1, .seed = 3};
	struct hk_error err = {""};
	CHECK_MSG(hk_faults_attach(port, &all, &err) == 0, "%s", err.text);
	unsigned before = rte_mempool_avail_count(tx_pool);
	for (uint32_t seq = 0; seq < 100;)
		seq = send_some(99, seq, 100);
	CHECK_EQ(hk_faults_counters(port)->duplicated, 100);
	CHECK_EQ(hk_faults_held(port), 0);
	CHECK_EQ(rte_mempool_avail_count(tx_pool), before);
	hk_faults_detach(port);
	role_tell("doubled");
}

/* ---- bells ------------------------------------------------------------------------------------ */

/* Sleeps as the polling process does, without a clock to help. */
static void sleep_until_rung(void)
{
	static int bell = -1;
	struct hk_error err = {""};

	if (bell < 0)
		CHECK_MSG(hk_bell_listen(HK_BELL_POLLER, &bell, &err) == 0, "%s", err.text);
	(void)hk_bell_listen_wire(port); /* more than once does no harm */
	while (hk_bell_get_up(HK_BELL_POLLER))
		; /* junk of before */
	hk_bell_lie_down(HK_BELL_POLLER);
	role_tell("asleep");
	struct pollfd p = {.fd = bell, .events = POLLIN};
	CHECK_MSG(poll(&p, 1, RIG_WAIT_MS) == 1, "nobody rang");
	bool lay = hk_bell_lies(HK_BELL_POLLER);
	CHECK(hk_bell_get_up(HK_BELL_POLLER));
	CHECK(!hk_bell_lies(HK_BELL_POLLER));
	role_tell(lay ? "rung on a wire" : "rung here");
}

/* Hears the wire as hikyakud's switch does, and what it hears is for the poller. */
static void hear_for_another(void)
{
	struct hk_error err = {""};
	int bell;

	CHECK_MSG(hk_bell_listen(HK_BELL_SWITCH, &bell, &err) == 0, "%s", err.text);
	CHECK(hk_bell_listen_wire(port));
	hk_bell_lie_down(HK_BELL_SWITCH);
	role_tell("asleep");
	struct pollfd p = {.fd = bell, .events = POLLIN};
	CHECK_MSG(poll(&p, 1, RIG_WAIT_MS) == 1, "nobody rang");
	CHECK(!hk_bell_get_up(HK_BELL_SWITCH));
	role_tell("handed on");
}

/* What no ringer of ours sends: more than one byte, nothing, descriptors. As much as is taken. */
static void ring_badly(void)
{
	static char big[4096];
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec v = {big, sizeof(big)};
	struct msghdr h = {.msg_iov = &v,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);
	int fd = hk_bell_take_wire(port->id), own = STDERR_FILENO, sent = 0;

	*c = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(c), &own, sizeof(own));
	while (sendmsg(fd, &h, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		sent++;
	CHECK(sent > 0 && errno == EAGAIN);
	hk_bell_set_wire(port->id, fd);
	CHECK(!hk_bell_ring_wire(port->id, HK_BELL_POLLER)); /* full, and nobody waits */
	role_tell("rang badly");
}

static int64_t now_ms(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void start_secondary(const char *name, unsigned queue)
{
	struct hk_error err = {""};
	struct hk_eal_config eal = {.role = HK_EAL_SECONDARY, .shared = name, .lcore = 1 + queue};
	cpu_set_t before, after;
	char pool[32];
	CHECK_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
	int64_t from = now_ms();
	CHECK_MSG(hk_eal_init(&eal, &err) == 0, "%s", err.text);
	role_tell("started %d", (int)(now_ms() - from));
	CHECK_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
	CHECK(CPU_EQUAL(&before, &after));
	own_side = name[strlen(name) - 1];
	own_queue = queue;
	snprintf(pool, sizeof(pool), "tx%u", queue);
	CHECK_MSG(hk_pool_find(pool, &tx_pool, &err) == 0, "%s", err.text);
	struct rte_mempool *none;
	CHECK_EQ(hk_pool_find("no such pool", &none, &err), -ENOENT);
	CHECK_EQ(hk_pool_reset(tx_pool, &err), -EPERM);
}

void role_secondary(char **arg)
{
	struct hk_error err = {""};
	char line[64];
	start_secondary(arg[0], (unsigned)atoi(arg[1]));
	while (role_asked(line, sizeof(line), RIG_WAIT_MS)) {
		unsigned id, ms, epoch, n;
		if (sscanf(line, "attach %u %u", &id, &ms) == 2) {
			int64_t from = now_ms();
			struct hk_port *got;
			int rc = hk_port_attach((uint16_t)id, (int)ms, &got, &err);
			port = rc ? port : got;
			role_tell(rc ? "attached %d %s" : "attached %d%.0s %d", rc, err.text,
				  (int)(now_ms() - from));
		} else if (sscanf(line, "exchange %u %u", &epoch, &n) == 2) {
			stream(epoch, n);
		} else if (sscanf(line, "stream %u", &epoch) == 1) {
			stream(epoch, UINT32_MAX);
		} else if (strcmp(line, "link") == 0) {
			role_tell("link %d", hk_port_link(port));
		} else if (strcmp(line, "faults") == 0) {
			faults();
		} else if (strcmp(line, "open") == 0) {
			struct hk_port *none;
			role_tell("open %d",
				  hk_port_open("vdev:net_ring0", 64, NULL, 0, &none, &err));
		} else if (strcmp(line, "sleep") == 0) {
			sleep_until_rung();
		} else if (strcmp(line, "asked") == 0) {
			bool asked = hk_bell_asked(HK_BELL_POLLER);

			CHECK_EQ(hk_bell_get_up(HK_BELL_POLLER), asked);
			role_tell("asked %d, then %d", asked, hk_bell_asked(HK_BELL_POLLER));
		} else if (strcmp(line, "ring wire") == 0) {
			CHECK(hk_bell_ring_wire(port->id, HK_BELL_POLLER));
		} else if (strcmp(line, "ring here") == 0) {
			hk_bell_ring(HK_BELL_POLLER);
		} else if (strcmp(line, "ring badly") == 0) {
			ring_badly();
		} else if (strcmp(line, "detach") == 0) {
			hk_port_detach(port);
			port = NULL;
			role_tell("detached");
		} else {
			CHECK_MSG(strcmp(line, "end") == 0, "%s", line);
			hk_port_detach(port);
			hk_eal_end();
			return;
		}
	}
	FAIL("the test asks for nothing");
}

/* ---- a primary -------------------------------------------------------------------------------- */

static void limits(const char *spec, struct rte_mempool *pool)
{
	struct rte_mempool *pools[300];
	struct hk_port *none;
	struct hk_error err = {""};
	for (unsigned i = 0; i < HK_ARRAY_LEN(pools); i++)
		pools[i] = pool;
	struct hk_port_queues q = {300, pools};
	CHECK_EQ(hk_port_open_queues(spec, &q, 0, &none, &err), -ERANGE);
	CHECK_MSG(strstr(err.text, "net_memif has 1 to 255"), "%s", err.text);
	q.count = 129; /* of two rings of 256 each: one more than 16 bits number */
	CHECK_EQ(hk_port_open_queues(spec, &q, 0, &none, &err), -ERANGE);
	CHECK_MSG(strstr(err.text, "at most 128"), "%s", err.text);
	CHECK_EQ(hk_port_attach(0, 0, &none, &err), -EPERM);
	CHECK_EQ(rte_eth_dev_count_avail(), 0);
}

static void add_chunk(struct rte_mempool *mp, void *sum, struct rte_mempool_memhdr *chunk,
		      unsigned i)
{
	(void)mp;
	(void)i;
	*(size_t *)sum += chunk->len;
}

/* Who plans memory by what pools are said to take has enough, and not much too much. */
static void pools_take_what_is_reckoned(void)
{
	static const unsigned sizes[][3] = {{64, 0, 256}, {1000, 64, 2048}, {1000, 0, 9472}};
	for (unsigned i = 0; i < HK_ARRAY_LEN(sizes); i++) {
		const unsigned *s = sizes[i];
		struct rte_mempool *mp;
		struct hk_error err = {""};
		size_t real = 0, reckoned = hk_pool_room_bytes(s[0], s[1], s[2]);
		CHECK_MSG(hk_pool_create_room("reckoned", s[0], s[1], s[2], &mp, &err) == 0, "%s",
			  err.text);
		rte_mempool_mem_iter(mp, add_chunk, &real);
		real += sizeof(*mp) + RTE_MAX_LCORE * sizeof(struct rte_mempool_cache);
		CHECK_CMP(real, <=, reckoned);
		CHECK_CMP(reckoned, <=, real + real / 16 + (1u << 20));
		hk_pool_free(mp);
	}
}

void role_primary(char **arg)
{
	struct hk_error err = {""};
	struct hk_eal_config eal = {.role = HK_EAL_PRIMARY,
				    .shared = arg[0],
				    .huge_dir = arg[1],
				    .memory_mb = MEMORY_MB};
	struct rte_mempool *rx[QUEUES], *tx[QUEUES];
	struct hk_port *ring_port = NULL;
	char line[64], name[32];
	CHECK_MSG(hk_eal_init(&eal, &err) == 0, "%s", err.text);
	for (unsigned q = 0; q < QUEUES; q++) {
		snprintf(name, sizeof(name), "rx%u", q);
		CHECK_MSG(hk_pool_create(name, BUFFERS, FRAME, &rx[q], &err) == 0, "%s", err.text);
		snprintf(name, sizeof(name), "tx%u", q);
		CHECK_MSG(hk_pool_create(name, BUFFERS, FRAME, &tx[q], &err) == 0, "%s", err.text);
	}
	CHECK_EQ(hk_pool_create("tx0", BUFFERS, FRAME, &(struct rte_mempool *){NULL}, &err),
		 -EEXIST);
	/* the memory does not grow, or secondaries would have to answer */
	CHECK_EQ(hk_pool_create("huge", 1000000, FRAME, &(struct rte_mempool *){NULL}, &err),
		 -ENOMEM);
	CHECK_EQ(hk_pool_create("", BUFFERS, FRAME, &(struct rte_mempool *){NULL}, &err), -EINVAL);
	limits(arg[2], rx[0]);
	pools_take_what_is_reckoned();
	role_tell("ready");
	while (role_asked(line, sizeof(line), RIG_WAIT_MS)) {
		unsigned q;
		if (strcmp(line, "open") == 0) {
			struct hk_port_queues queues = {QUEUES, rx};
			const char *why;
			CHECK_MSG(hk_port_open_queues(arg[2], &queues, RIG_WAIT_MS, &port, &err) ==
					  0,
				  "%s", err.text);
			CHECK_EQ(port->info.queues, QUEUES);
			CHECK(hk_port_shares_queues(port, &why));
			role_tell("open %u", port->id);
		} else if (strcmp(line, "wait") == 0) {
			CHECK_MSG(hk_port_wait_link(port, RIG_WAIT_MS, &err) == 0, "%s", err.text);
			role_tell("up");
		} else if (strcmp(line, "link") == 0) {
			role_tell("link %d", hk_port_link(port));
		} else if (strcmp(line, "hear") == 0) {
			hear_for_another();
		} else if (sscanf(line, "reset %u", &q) == 1) {
			CHECK(q < QUEUES);
			/* as a dying user may leave them */
			memset(rte_mempool_get_priv(tx[q]), 0xa5,
			       sizeof(struct rte_pktmbuf_pool_private));
			tx[q]->local_cache[1 + q].len = 1u << 30;
			struct rte_ring *ring = tx[q]->pool_data; /* inside an enqueue */
			ring->prod.head += 3;
			ring->mask = 1;
			CHECK_MSG(hk_pool_reset(rx[q], &err) == 0, "%s", err.text);
			CHECK_MSG(hk_pool_reset(tx[q], &err) == 0, "%s", err.text);
			CHECK_EQ(rte_mempool_avail_count(rx[q]), BUFFERS);
			CHECK_EQ(rte_mempool_avail_count(tx[q]), BUFFERS);
			CHECK(rte_pktmbuf_data_room_size(tx[q]) >= FRAME);
			rte_mempool_audit(tx[q]);
			role_tell("reset");
		} else if (strcmp(line, "ring") == 0) { /* a driver of which nothing is known */
			struct rte_mempool *big;
			struct hk_port_queues queues = {1, &big};
			CHECK_MSG(hk_pool_create("big", 64, 9216, &big, &err) == 0, "%s", err.text);
			CHECK_MSG(hk_port_open_queues("vdev:net_ring0", &queues, 0, &ring_port,
						      &err) == 0,
				  "%s", err.text);
			role_tell("ring %u", ring_port->id);
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
	FAIL("the test asks for nothing");
}

/* ---- who only tries -------------------------------------------------------------------------- */

void role_try(char **arg)
{
	struct hk_error err = {""};
	struct hk_eal_config eal = {.role = strcmp(arg[0], "primary") == 0 ? HK_EAL_PRIMARY
									   : HK_EAL_SECONDARY,
				    .shared = arg[1],
				    .huge_dir = strcmp(arg[2], "-") == 0 ? NULL : arg[2],
				    .memory_mb = (unsigned)atoi(arg[3])};
	if (atoi(arg[4]))
		CHECK_EQ(setreuid((uid_t)atoi(arg[4]), (uid_t)atoi(arg[4])), 0);
	int rc = hk_eal_init(&eal, &err);
	if (rc == 0)
		hk_eal_end();
	role_tell("init %d %s", rc, err.text);
}
