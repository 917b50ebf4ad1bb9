/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/fabric/pair.h: two fabrics of one process, over a real memif.
 *
 * One thread drives both ends in turn, so everything happens in an order the test decides. each_way() runs a
 * test with source memory lent to the driver and with copies (CRC), each over a good and over a lossy wire.
 */
#ifndef HK_TEST_FABRIC_PAIR_H
#define HK_TEST_FABRIC_PAIR_H

#include "fabric/rma.h"
#include "port/port.h"
#include "tests/unit/hk_test.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS 50000000 /* of progress: no wait takes a thousandth */
#define AM     7
#define A      0
#define B      1
#define MEMORY (4u << 20)

struct end {
	struct hk_fabric *f;
	hk_peer peer;
	unsigned messages, lost, rails_down;
	uint64_t last; /* number in the last message that had one */
	struct hk_port *port, *bulk;
};

static struct end end[2];
static char dir[64];
static const char *faults;
static bool two_ports; /* one for messages, one for bulk; faults on the latter alone … */
static bool rails;     /* … or both for all … */
static bool on_first;  /* … faults on the first alone … */
static bool on_both;   /* … or on both */
static bool crc;
static uint64_t peer_timeout;

static void on_message(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned n)
{
	struct end *e = arg;

	(void)peer;
	(void)am;
	(void)n;
	e->messages++;
	if (iov[0].len == sizeof(e->last)) {
		uint64_t number;

		memcpy(&number, iov[0].base, sizeof(number));
		CHECK_EQ(number, e->last + 1);
		e->last = number;
	}
}

static void on_lost(void *arg, hk_peer peer, enum hk_verdict why, const char *text)
{
	(void)peer;
	(void)why;
	(void)text;
	((struct end *)arg)->lost++;
}

static void on_rail_down(void *arg, hk_peer peer, const char *text)
{
	(void)peer;
	CHECK(strstr(text, on_first ? "port 0 (memif:" : "port 1 (memif:") &&
	      strstr(text, "the other end"));
	((struct end *)arg)->rails_down++;
}

static struct hk_port *open_port(uint32_t self, uint32_t key, const char *with)
{
	struct hk_error err = {""};
	struct hk_port *port;
	char set[128], spec[600];
	bool server;

	snprintf(set, sizeof(set), "memif:dir=%s", dir);
	CHECK(hk_port_wire_spec(set, key, self, 3 - self, spec, sizeof(spec), &server, &err) == 0);
	strncat(spec, with, sizeof(spec) - strlen(spec) - 1);
	CHECK_MSG(hk_port_open(spec, 1024, NULL, 30000, &port, &err) == 0, "%s", err.text);
	return port;
}

static void open_fabric(int which, struct hk_port *port, struct hk_port *bulk)
{
	uint32_t self = (uint32_t)which + 1;
	struct hk_peer_addr addr = {
		.endpoint = 3 - self, .epoch = 100, .frame_max = 9216, .name = "the other end"};
	struct hk_fabric_config cfg;
	struct hk_error err = {""};
	struct end *e = &end[which];

	CHECK_MSG(hk_port_wait_link(port, 30000, &err) == 0, "%s", err.text);
	if (bulk)
		CHECK_MSG(hk_port_wait_link(bulk, 30000, &err) == 0, "%s", err.text);
	hk_fabric_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = self;
	cfg.engine.epoch = 100;
	cfg.engine.max_peers = 4;
	cfg.engine.crc = crc;
	if (peer_timeout)
		cfg.engine.peer_timeout = peer_timeout;
	cfg.tx_buffers = 1024;
	cfg.rx_keep = 512;
	cfg.regions = 1024;
	cfg.frame_max = 9216;
	cfg.lost = on_lost;
	cfg.rail_down = on_rail_down;
	cfg.lost_arg = e;
	*e = (struct end){.port = port, .bulk = bulk};
	CHECK_MSG(hk_fabric_open(&cfg, &e->f, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_fabric_add_port(e->f, port, &err) == 0, "%s", err.text);
	if (bulk) {
		CHECK_MSG(hk_fabric_add_port(e->f, bulk, &err) == 1, "%s", err.text);
		if (rails) {
			addr.more = 1;
			addr.rail[0] = (struct hk_rail_addr){.port = 1, .frame_max = 9216};
		} else {
			addr.bulk = 1 + 1;
		}
	}
	CHECK_MSG(hk_fabric_peer_add(e->f, &addr, &e->peer, &err) == 0, "%s", err.text);
	hk_fabric_set_am(e->f, AM, on_message, e);
}

static void open_both(void)
{
	struct hk_eal_config eal = {.memory_mb = 256};
	struct hk_error err = {""};

	CHECK_MSG(hk_eal_init(&eal, &err) == 0, "%s", err.text);
	snprintf(dir, sizeof(dir), "/tmp/hk-test-rma-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	const char *first = two_ports && !on_first && !on_both ? "" : faults;
	struct hk_port *a = open_port(1, 1, first), *b = open_port(2, 1, first);
	struct hk_port *c = NULL, *d = NULL;

	if (two_ports) {
		const char *second = on_first ? "" : faults;

		c = open_port(1, 2, second);
		d = open_port(2, 2, second);
	}
	open_fabric(A, a, c);
	open_fabric(B, b, d);
}

static void close_both(void)
{
	hk_fabric_close(end[A].f, 0);
	hk_fabric_close(end[B].f, 0);
	CHECK(rmdir(dir) == 0);
}

static void progress(void)
{
	hk_fabric_progress(end[A].f);
	hk_fabric_progress(end[B].f);
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

HK_TEST_UNUSED static void done(void *arg, int status)
{
	*(int *)arg = status ? status : 1;
}

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

HK_TEST_UNUSED static void message(int from)
{
	hk_buf *b = hk_fabric_alloc(end[from].f);

	CHECK(b != NULL);
	CHECK(hk_fabric_send(end[from].f, end[from].peer, AM, b, 0) >= 0);
}

HK_TEST_UNUSED static void each_way(void (*test)(void))
{
	static const struct {
		const char *faults;
		bool crc;
	} way[] = {{"", false},
		   {"", true},
		   {";faults=drop=0.02,dup=0.02,reorder=0.02,delay=0.02,seed=5", false},
		   {";faults=drop=0.02,dup=0.02,reorder=0.02,corrupt=0.01,seed=3", true}};

	for (unsigned i = 0; i < HK_ARRAY_LEN(way); i++) {
		faults = way[i].faults;
		crc = way[i].crc;
		open_both();
		test();
		close_both();
	}
}

HK_TEST_UNUSED static void each_way_by_two_ports(void (*test)(void))
{
	two_ports = true;
	each_way(test);
	two_ports = false;
}

HK_TEST_UNUSED static void each_way_by_rails(void (*test)(void))
{
	rails = true;
	each_way_by_two_ports(test);
	rails = false;
}

#endif
