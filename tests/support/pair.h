/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/pair.h: two workers of one process, over a real memif.
 *
 * One thread drives both ends in turn, so the test decides the order of everything. EACH_WAY(name)
 * defines a test that runs with zero-copy puts and with copies (CRC), each over a good and over a
 * lossy wire.
 */
#ifndef HK_TEST_PAIR_H
#define HK_TEST_PAIR_H

#include "hikyaku/rma.h"
#include "hikyaku/worker.h"
#include "port/port.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS 50000000 /* calls of progress; no wait takes a thousandth */
#define AM     7
#define A      0
#define B      1
#define MEMORY (4u << 20)

struct end {
	struct hk_worker *w;
	hk_peer peer;
	unsigned messages, lost, paths_down;
	uint64_t last; /* number in the last message that had one */
	struct hk_port *port, *bulk;
};

static struct end end[2];
static char dir[TMP_PATH];
static const char *faults = "";
static bool two_ports;     /* one port for messages, one for bulk; faults on the latter */
static bool several_paths; /* both ports for all frames */
static bool bulk_apart;    /* of several paths, the second is for bulk */
static bool on_first;      /* faults on the first port */
static bool on_both;       /* faults on both ports */
static enum hk_protection with_protection;
static uint64_t peer_timeout;
static uint16_t window;         /* in packets; 0: the default */
static hk_stranger_fn stranger; /* of B, which then does not know A at the start */
static const uint8_t *job_key[2];
static uint32_t key_of_b = 1; /* A has key 1 */
static bool b_seals;          /* whatever A has */
static char lost_text[512];   /* the last */

static void on_message(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned n)
{
	struct end *e = arg;

	e->messages++;
	if (iov[0].len == sizeof(e->last)) {
		uint64_t number;

		memcpy(&number, iov[0].base, sizeof(number));
		CHECK_EQ(number, e->last + 1);
		e->last = number;
	}
}

static void on_lost(void *arg, hk_peer peer, enum hk_disconnect_reason why, const char *text)
{
	((struct end *)arg)->lost++;
	snprintf(lost_text, sizeof(lost_text), "%s", text);
}

static void on_path_down(void *arg, hk_peer peer, unsigned port, const char *text)
{
	CHECK_EQ(port, on_first ? 0 : 1);
	CHECK_HAS(text, on_first ? "port 0 (memif:" : "port 1 (memif:", "the other end");
	((struct end *)arg)->paths_down++;
}

static struct hk_port *open_port(uint32_t self, uint32_t key, const char *with)
{
	struct hk_port *port;
	char set[128], spec[600];
	bool server;

	snprintf(set, sizeof(set), "memif:dir=%s", dir);
	CHECK_OK(hk_port_wire_spec(set, key, self, 3 - self, spec, sizeof(spec), &server, ERR));
	strncat(spec, with, sizeof(spec) - strlen(spec) - 1);
	CHECK_OK(hk_port_open(spec, 1024, NULL, 30000, &port, ERR));
	return port;
}

static void open_worker(int which, struct hk_port *port, struct hk_port *bulk)
{
	uint32_t self = (uint32_t)which + 1;
	struct hk_worker_config cfg;
	struct end *e = &end[which];

	CHECK_OK(hk_port_wait_link(port, 30000, ERR));
	if (bulk)
		CHECK_OK(hk_port_wait_link(bulk, 30000, ERR));
	hk_worker_config_default(&cfg);
	cfg.engine.key = which == B ? key_of_b : 1;
	cfg.engine.endpoint = self;
	cfg.engine.epoch = 100;
	cfg.engine.max_peers = 4;
	cfg.engine.protection = which == B && b_seals ? HK_PROTECTION_SEAL : with_protection;
	if (peer_timeout)
		cfg.engine.peer_timeout = peer_timeout;
	if (window)
		cfg.engine.window = window;
	cfg.stranger = stranger;
	cfg.job_key = job_key[which];
	cfg.tx_buffers = 1024;
	cfg.rx_backlog = 512;
	cfg.regions = 1024;
	cfg.frame_max = 9216;
	cfg.lost = on_lost;
	cfg.path_down = on_path_down;
	cfg.lost_arg = e;
	*e = (struct end){.port = port, .bulk = bulk};
	CHECK_OK(hk_worker_open(&cfg, &e->w, ERR));
	CHECK_OK(hk_worker_add_port(e->w, port, ERR));
	if (bulk)
		CHECK_EQ(hk_worker_add_port(e->w, bulk, ERR), 1);
	hk_worker_set_am(e->w, AM, on_message, e);
}

static void add_other_end(int which)
{
	struct end *e = &end[which];
	struct hk_peer_addr addr;

	CHECK_EQ(hk_worker_address(end[!which].w, 0, &addr), 0);
	addr.name = "the other end";
	if (e->bulk && several_paths) {
		addr.more = 1;
		addr.bulk = bulk_apart ? 1 + 1 : 0;
		addr.path[0] = (struct hk_path_addr){.port = 1, .frame_max = 9216};
	} else if (e->bulk) {
		addr.bulk = 1 + 1;
	}
	CHECK_OK(hk_worker_peer_add(e->w, &addr, &e->peer, ERR));
}

static void open_both(void)
{
	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = 256}, ERR));
	tmp_dir(dir);
	const char *first = two_ports && !on_first && !on_both ? "" : faults;
	struct hk_port *a = open_port(1, 1, first), *b = open_port(2, 1, first);
	struct hk_port *c = NULL, *d = NULL;

	if (two_ports) {
		const char *second = on_first ? "" : faults;

		c = open_port(1, 2, second);
		d = open_port(2, 2, second);
	}
	open_worker(A, a, c);
	open_worker(B, b, d);
	add_other_end(A);
	if (!stranger)
		add_other_end(B);
}

static void close_both(void)
{
	hk_worker_close(end[A].w, 0);
	hk_worker_close(end[B].w, 0);
	tmp_gone(dir);
}

static void progress(void)
{
	hk_worker_progress(end[A].w);
	hk_worker_progress(end[B].w);
}

/* Drives both ends until @cond. */
#define UNTIL(cond)                                                                                \
	do {                                                                                       \
		int rounds_ = 0;                                                                   \
		while (!(cond)) {                                                                  \
			progress();                                                                \
			CHECK_MSG(rounds_++ < ROUNDS, "waited in vain for: " #cond);               \
		}                                                                                  \
	} while (0)

/* MEMORY bytes that follow from @seed. */
HK_TEST_UNUSED static char *memory(uint64_t seed)
{
	char *m = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct hk_rng r = {seed};

	CHECK(m != MAP_FAILED);
	for (size_t i = 0; i < MEMORY; i += 8) {
		uint64_t v = hk_rng_next(&r);

		memcpy(m + i, &v, 8);
	}
	return m;
}

/* Such memory until the end of the block. */
#define MAPPED(name, seed) __attribute__((cleanup(unmap))) char *name = memory(seed)
HK_TEST_UNUSED static void unmap(char **m)
{
	munmap(*m, MEMORY);
}

/* ---- operations ------------------------------------------------------------------------------ */

/* A put or get on its way. Its status is 0 until it has ended; then 1, or a negative errno. */
struct xfer {
	struct hk_op op;
	int status;
};

HK_TEST_UNUSED static void done(void *arg, int status)
{
	*(int *)arg = status ? status : 1;
}

/* End @e begins to put @len bytes at @offset of region @r of the other end. */
HK_TEST_UNUSED static void put_start(struct xfer *x, int e, const void *from, size_t len,
				     hk_region r, uint64_t offset)
{
	x->status = 0;
	CHECK_EQ(hk_worker_put(end[e].w, end[e].peer, &x->op, from, len, r, offset, done,
			       &x->status),
		 0);
}

HK_TEST_UNUSED static void get_start(struct xfer *x, int e, void *to, size_t len, hk_region r,
				     uint64_t offset)
{
	x->status = 0;
	CHECK_EQ(hk_worker_get(end[e].w, end[e].peer, &x->op, to, len, r, offset, done, &x->status),
		 0);
}

/* Waits for the end, and returns the status. */
HK_TEST_UNUSED static int finish(const struct xfer *x)
{
	UNTIL(x->status);
	return x->status;
}

/* The whole operation. Returns its status. */
HK_TEST_UNUSED static int put(int e, const void *from, size_t len, hk_region r, uint64_t offset)
{
	struct xfer x;

	put_start(&x, e, from, len, r, offset);
	return finish(&x);
}

HK_TEST_UNUSED static int get(int e, void *to, size_t len, hk_region r, uint64_t offset)
{
	struct xfer x;

	get_start(&x, e, to, len, r, offset);
	return finish(&x);
}

HK_TEST_UNUSED static void message(int from)
{
	hk_buf *b = hk_worker_alloc(end[from].w);

	CHECK(b != NULL);
	CHECK(hk_worker_send(end[from].w, end[from].peer, AM, b, 0) >= 0);
}

HK_TEST_UNUSED static void each_way(void (*test)(void))
{
	static const struct {
		const char *faults;
		enum hk_protection protection;
	} way[] = {
		{"", HK_PROTECTION_OFF},
		{"", HK_PROTECTION_CRC},
		{"", HK_PROTECTION_AUTH},
		{"", HK_PROTECTION_SEAL},
		{";faults=drop=0.02,dup=0.02,reorder=0.02,delay=0.02,seed=5", HK_PROTECTION_OFF},
		{";faults=drop=0.02,dup=0.02,reorder=0.02,corrupt=0.01,seed=3", HK_PROTECTION_CRC},
		{";faults=drop=0.02,dup=0.02,reorder=0.02,corrupt=0.01,seed=3", HK_PROTECTION_AUTH},
		{";faults=drop=0.02,dup=0.02,reorder=0.02,corrupt=0.01,seed=3",
		 HK_PROTECTION_SEAL}};

	for (unsigned i = 0; i < HK_ARRAY_LEN(way); i++) {
		faults = way[i].faults;
		with_protection = way[i].protection;
		open_both();
		test();
		close_both();
	}
}

#define EACH_WAY(name)                                                                             \
	static void name##_each_way(void);                                                         \
	TEST(name)                                                                                 \
	{                                                                                          \
		each_way(name##_each_way);                                                         \
	}                                                                                          \
	static void name##_each_way(void)

/* Runs @test with both ends open, over a good wire (@with: what it is to have else). */
HK_TEST_UNUSED static void once(const char *with, void (*test)(void))
{
	faults = with;
	with_protection = HK_PROTECTION_OFF;
	open_both();
	test();
	close_both();
}

HK_TEST_UNUSED static void each_way_by_two_ports(void (*test)(void))
{
	two_ports = true;
	each_way(test);
	two_ports = false;
}

HK_TEST_UNUSED static void each_way_by_paths(void (*test)(void))
{
	several_paths = true;
	each_way_by_two_ports(test);
	several_paths = false;
}

#endif
