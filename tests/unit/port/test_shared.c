/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_shared.c: ports that processes share. Two "nodes" a and b, each a primary with two
 * secondaries, and between them one memif with two queues: secondary i of a talks to secondary i of b.
 *
 * Frames are numbered, and filled from a seed that names sender, queue, epoch and number. A queue
 * neither loses nor reorders, so a receiver wants exactly the next number, on its own queue.
 */
#include "port/faults.h"
#include "port/bell.h"
#include "port/internal.h"
#include "tests/unit/port/shared_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rte_eal.h>
#include <rte_ring.h>
#include <rte_version.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY_MB  32
#define PAGES      48 /* of two primaries, and some */
#define QUEUES     2
#define BUFFERS    512
#define FRAME      1600
#define BURST      16
#define MIN_LEN    64
#define STREAM_RUN 2000 /* frames after which a stream says that it flows */

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

static void secondary(char **arg)
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

static void primary(char **arg)
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

/* ---- the nodes -------------------------------------------------------------------------------- */

struct node {
	struct rig_proc primary, secondary[QUEUES];
	char name[32];
	unsigned port;
};

static struct node a, b;

static void say_all(const char *line)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_say(&a.secondary[q], line);
		rig_say(&b.secondary[q], line);
	}
}

static void hear_all(const char *want)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_hear(&a.secondary[q], want);
		rig_hear(&b.secondary[q], want);
	}
}

static void start_primary(struct node *n, char side, const char *role)
{
	char text[256];
	snprintf(n->name, sizeof(n->name), "hkt-%c", side);
	snprintf(text, sizeof(text), "primary %s %s memif:socket=%s/w.sock,role=%s,frame=%d",
		 n->name, rig_huge, rig_dir, role, FRAME);
	rig_spawn(&n->primary, n->name, text);
	rig_hear(&n->primary, "ready");
}

static void start_second(struct node *n, unsigned q)
{
	char text[64], name[48];
	snprintf(text, sizeof(text), "secondary %s %u", n->name, q);
	snprintf(name, sizeof(name), "%.16s/%u", n->name, q);
	rig_spawn(&n->secondary[q], name, text);
	rig_hear(&n->secondary[q], "started ");
}

static void attach(struct node *n, unsigned q)
{
	char text[64];
	snprintf(text, sizeof(text), "attach %u %d", n->port, RIG_WAIT_MS);
	rig_say(&n->secondary[q], text);
	rig_hear(&n->secondary[q], "attached 0 ");
}

/* Both nodes, all attached. Secondaries of a start before there is a port, those of b after. */
static void start_nodes(void)
{
	char text[64];
	start_primary(&a, 'a', "server");
	start_primary(&b, 'b', "client");
	for (unsigned q = 0; q < QUEUES; q++)
		start_second(&a, q);
	rig_say(&a.secondary[0], "attach 0 20");
	CHECK(strstr(rig_hear(&a.secondary[0], "attached -110 "), "has not opened it"));
	/* one that is stopped holds up nobody */
	CHECK_EQ(kill(a.secondary[1].pid, SIGSTOP), 0);
	rig_say(&a.primary, "open");
	a.port = (unsigned)atoi(rig_hear(&a.primary, "open "));
	snprintf(text, sizeof(text), "attach %u 20", a.port); /* open, but no link yet */
	rig_say(&a.secondary[0], text);
	CHECK(strstr(rig_hear(&a.secondary[0], "attached -110 "), "link"));
	rig_say(&b.primary, "open");
	b.port = (unsigned)atoi(rig_hear(&b.primary, "open "));
	rig_say(&a.primary, "wait");
	rig_hear(&a.primary, "up");
	CHECK_EQ(kill(a.secondary[1].pid, SIGCONT), 0);
	for (unsigned q = 0; q < QUEUES; q++) {
		start_second(&b, q);
		attach(&a, q);
		attach(&b, q);
	}
}

static void nothing_left(const struct node *n)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/dpdk", rig_run);
	CHECK_EQ(rig_files(path, n->name), 0);
	CHECK_EQ(rig_files(rig_huge, n->name), 0);
}

static void end_node(struct node *n)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_say(&n->secondary[q], "end");
		rig_gone(&n->secondary[q]);
	}
	rig_say(&n->primary, "end");
	rig_gone(&n->primary);
	nothing_left(n);
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void each_its_own_queue(void)
{
	char text[64];
	start_nodes();
	say_all("exchange 1 5000");
	hear_all("done 5000");
	rig_say(&a.secondary[1], "faults");
	rig_hear(&a.secondary[1], "doubled");
	rig_say(&a.primary, "ring");
	snprintf(text, sizeof(text), "attach %.8s 0", rig_hear(&a.primary, "ring "));
	rig_say(&a.secondary[0], text);
	CHECK(strstr(rig_hear(&a.secondary[0], "attached -95 "), "nobody has tried"));
	rig_say(&a.secondary[1], "open"); /* a secondary opens nothing */
	CHECK_EQ(atoi(rig_hear(&a.secondary[1], "open ")), -EPERM);
	rig_say(&a.secondary[1], "detach");
	rig_hear(&a.secondary[1], "detached");
	attach(&a, 1);
	say_all("exchange 2 5000");
	hear_all("done 5000");
	say_all("link");
	hear_all("link 1");
	end_node(&a);
	end_node(&b);
}

static void secondary_is_killed(void)
{
	start_nodes();
	say_all("stream 1");
	hear_all("flows");
	rig_kill(&a.secondary[1]);
	rig_say(&b.secondary[1], "stop");
	rig_hear(&b.secondary[1], "done");
	/* the other pair flows all the time */
	rig_say(&a.primary, "reset 1");
	rig_hear(&a.primary, "reset");
	start_second(&a, 1);
	attach(&a, 1);
	rig_say(&a.secondary[1], "exchange 2 5000");
	rig_say(&b.secondary[1], "exchange 2 5000");
	rig_hear(&a.secondary[1], "done 5000");
	rig_hear(&b.secondary[1], "done 5000");
	rig_say(&a.secondary[0], "stop");
	rig_say(&b.secondary[0], "stop");
	CHECK(atoi(rig_hear(&a.secondary[0], "done ")) > STREAM_RUN);
	CHECK(atoi(rig_hear(&b.secondary[0], "done ")) > STREAM_RUN);
	end_node(&a);
	end_node(&b);
}

static void primary_is_killed(void)
{
	struct hk_error err = {""};
	char text[128];
	start_nodes();
	say_all("stream 1");
	hear_all("flows");
	CHECK_EQ(hk_eal_remove_stale(a.name, rig_huge, &err), -EBUSY);
	rig_kill(&a.primary);
	rig_say(&b.primary, "link");
	rig_hear(&b.primary, "link 0");
	say_all("stop");
	hear_all("done");
	say_all("link");
	hear_all("link 0");
	snprintf(text, sizeof(text), "attach %u 50", a.port);
	rig_say(&a.secondary[0], text); /* nobody to attach to */
	rig_hear(&a.secondary[0], "attached -");

	snprintf(text, sizeof(text), "%s/dpdk", rig_run);
	CHECK(rig_files(rig_huge, a.name) > 0 && rig_files(text, a.name) == 1);
	CHECK_MSG(hk_eal_remove_stale(a.name, NULL, &err) == 0, "%s", err.text);
	nothing_left(&a);
	for (unsigned q = 0; q < QUEUES; q++) { /* they still live, and end well */
		rig_say(&a.secondary[q], "end");
		rig_gone(&a.secondary[q]);
	}
	nothing_left(&a);
	end_node(&b);
}

static void wake(struct rig_proc *sleeper, const struct rig_proc *ringer, const char *ring,
		 const char *hears)
{
	rig_say(sleeper, "sleep");
	rig_hear(sleeper, "asleep");
	rig_say(ringer, ring);
	rig_hear(sleeper, hears);
}

/* Who sleeps is woken, from its own node and from the other; whatever comes on a wire's bell says nothing
 * else, and a bell is neither a sign of life nor of death. */
static void bells_wake(void)
{
	start_nodes();
	wake(&b.secondary[0], &b.secondary[1], "ring here", "rung here");
	wake(&b.secondary[0], &a.secondary[1], "ring wire", "rung on a wire");
	wake(&b.secondary[0], &a.secondary[0], "ring wire", "rung on a wire");
	wake(&a.secondary[1], &b.secondary[1], "ring wire", "rung on a wire");
	rig_say(&a.secondary[0], "ring badly");
	rig_hear(&a.secondary[0], "rang badly");
	rig_say(&b.primary, "link");
	rig_hear(&b.primary, "link 1");
	wake(&b.secondary[0], &b.secondary[1], "ring here", "rung here");
	wake(&b.secondary[0], &a.secondary[1], "ring wire", "rung on a wire");
	/* who attaches anew has it again */
	rig_say(&b.secondary[0], "detach");
	rig_hear(&b.secondary[0], "detached");
	attach(&b, 0);
	wake(&b.secondary[0], &a.secondary[1], "ring wire", "rung on a wire");
	say_all("exchange 1 2000");
	hear_all("done 2000");
	end_node(&a);
	rig_say(&b.primary, "link");
	rig_hear(&b.primary, "link 0");
	/* the end of a wire does not keep anybody awake */
	wake(&b.secondary[0], &b.secondary[1], "ring here", "rung here");
	end_node(&b);
}

/* Killed all, and started anew under the same name without a clean-up between. */
static void name_is_used_again(void)
{
	start_primary(&a, 'a', "server");
	start_second(&a, 0);
	rig_kill(&a.primary);
	start_primary(&a, 'a', "server");
	rig_say(&a.secondary[0], "attach 0 50"); /* not to the new one */
	CHECK(strstr(rig_hear(&a.secondary[0], "attached -"), "ended"));
	rig_kill(&a.secondary[0]);
	start_second(&a, 0);
	rig_kill(&a.secondary[0]);
	rig_say(&a.primary, "end");
	rig_gone(&a.primary);
	nothing_left(&a);
}

/* The other node goes in good order while our secondaries poll. */
static void peer_leaves(void)
{
	start_nodes();
	say_all("stream 1");
	hear_all("flows");
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_say(&b.secondary[q], "stop");
		rig_hear(&b.secondary[q], "done");
	}
	end_node(&b);
	rig_say(&a.primary, "link");
	rig_hear(&a.primary, "link 0");
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_say(&a.secondary[q], "stop");
		rig_hear(&a.secondary[q], "done");
		rig_say(&a.secondary[q], "link");
		rig_hear(&a.secondary[q], "link 0");
	}
	end_node(&a);
}

/* ---- what is refused -------------------------------------------------------------------------- */

/* role: primary|secondary, name, directory or "-", MB, user id */
static void try_init(char **arg)
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

static void expect(const char *role, int code, const char *says)
{
	struct rig_proc p = {0};
	char text[256];
	int rc;
	snprintf(text, sizeof(text), "try %s", role);
	rig_spawn(&p, "try", text);
	const char *said = rig_hear(&p, "init ");
	CHECK(sscanf(said, "%d", &rc) == 1);
	CHECK_MSG(rc == code && strstr(said, says) && strstr(said, "fix: "),
		  "%s: \"%s\", and not %d with \"%s\"", role, said, code, says);
	rig_gone(&p);
}

/* The configuration of a primary that is not one of ours, and lives as long as this process. */
static int fake_primary(const char *name, uint32_t magic, uint32_t version)
{
	char path[160];
	uint32_t head[1024] = {magic, version};
	snprintf(path, sizeof(path), "%s/dpdk", rig_run);
	CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/dpdk/%s", rig_run, name);
	CHECK_EQ(mkdir(path, 0700), 0);
	strcat(path, "/config");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	CHECK(fd >= 0 && write(fd, head, sizeof(head)) == sizeof(head));
	CHECK_EQ(fcntl(fd, F_SETLK, &lock), 0);
	return fd;
}

static void refused(void)
{
	char text[256];
	struct hk_error err = {""};
	snprintf(text, sizeof(text), "primary ../x %s 32 0", rig_huge);
	expect(text, -EINVAL, "no name");
	snprintf(text, sizeof(text), "primary hkt-a %s 32 0", rig_run);
	expect(text, -ENODEV, "not in a hugetlbfs; fix: name one in a hugetlbfs");
	expect("primary hkt-a /nowhere 32 0", -ENOENT, "/nowhere, does not exist; fix: name one");
	snprintf(text, sizeof(text), "primary hkt-a %s 60000 0", rig_huge);
	expect(text, -ENOMEM, "huge pages");
	CHECK_EQ(chmod(rig_dir, 0755), 0);
	snprintf(text, sizeof(text), "primary hkt-a %s 32 65534", rig_huge);
	expect(text, -EACCES, "no permission");
	expect("secondary hkt-a - 0 0", -ENOENT, "no primary");

	int fd = fake_primary("hkt-v", RTE_MAGIC, RTE_VERSION + 0x10000);
	expect("secondary hkt-v - 0 0", -EPROTONOSUPPORT, "runs DPDK");
	snprintf(text, sizeof(text), "primary hkt-v %s 32 0", rig_huge);
	expect(text, -EADDRINUSE, "another primary");
	close(fd);
	expect("secondary hkt-v - 0 0", -ENOENT, "no primary"); /* the file alone is no primary */
	CHECK_EQ(hk_eal_remove_stale("hkt-v", NULL, &err), 0);
	CHECK_EQ(hk_eal_remove_stale("hkt-v", NULL, &err), 0); /* nothing there */

	fd = fake_primary("hkt-s", 0, 0);
	expect("secondary hkt-s - 0 0", -ETIMEDOUT, "not finished");
	close(fd);
	snprintf(text, sizeof(text), "%s/dpdk/hkt-s/somebody's", rig_run);
	CHECK_EQ(mkdir(text, 0700), 0);
	CHECK_EQ(hk_eal_remove_stale("hkt-s", NULL, &err), -ENOTEMPTY);
	CHECK_MSG(strstr(err.text, "hkt-s"), "%s", err.text);
}

/* No root, a directory in the hugetlbfs that an administrator has made. */
static void ordinary_user(void)
{
	struct rig_proc p = {0};
	char path[128], text[256];
	snprintf(path, sizeof(path), "%s/user", rig_huge);
	CHECK(mkdir(path, 0700) == 0 && chown(path, 65534, 65534) == 0);
	snprintf(text, sizeof(text), "%s/dpdk", rig_run); /* root's */
	CHECK(mkdir(text, 0700) == 0 || errno == EEXIST);
	CHECK(chmod(rig_dir, 0755) == 0 && chmod(rig_huge, 0755) == 0 && chmod(rig_run, 0755) == 0);
	snprintf(text, sizeof(text), "primary hkt-u %s 32 65534", path);
	expect(text, -EACCES, "XDG_RUNTIME_DIR");

	char run[128];
	snprintf(run, sizeof(run), "%s/user-run", rig_dir);
	CHECK(mkdir(run, 0700) == 0 && chown(run, 65534, 65534) == 0);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", run, 1), 0);
	snprintf(text, sizeof(text), "try primary hkt-u %s 32 65534", path);
	rig_spawn(&p, "user", text);
	rig_hear(&p, "init 0");
	rig_gone(&p);
	CHECK_EQ(rig_files(path, ""), 0);
	strcat(run, "/dpdk");
	CHECK_EQ(rig_files(run, ""), 0);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", rig_run, 1), 0);
}

/* Tests and labs that reserve huge pages at once would lose some without it. */
static void pool_of_pages_is_locked(void)
{
	int lock = rig_pool_lock(3 * RIG_WAIT_MS);
	CHECK(lock >= 0);
	CHECK_EQ(rig_pool_lock(0), -1);
	close(lock);
	lock = rig_pool_lock(3 * RIG_WAIT_MS);
	CHECK(lock >= 0);
	close(lock);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"each_its_own_queue", each_its_own_queue},
		{"secondary_is_killed", secondary_is_killed},
		{"primary_is_killed", primary_is_killed},
		{"bells_wake", bells_wake},
		{"name_is_used_again", name_is_used_again},
		{"peer_leaves", peer_leaves},
		{"ordinary_user", ordinary_user},
		{"refused", refused},
		{"pool_of_pages_is_locked", pool_of_pages_is_locked},
	};
	if (argc > 3 && strcmp(argv[1], "--role") == 0) {
		hk_test_now.test = argv[2];
		if (strcmp(argv[2], "primary") == 0)
			primary(argv + 3);
		else if (strcmp(argv[2], "secondary") == 0)
			secondary(argv + 3);
		else
			try_init(argv + 3);
		return 0;
	}
	rig_up(PAGES);
	int rc = hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
	rig_down();
	return rc;
}
