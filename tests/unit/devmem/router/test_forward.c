/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/router/test_forward.c: the bytes of a packet that the data plane touches.
 *
 * Packets are in a simulated device's memory, which is mapped twice. The device sees all of it. In
 * the data plane's mapping, everything beyond the first 64 bytes of a frame is on a page that no
 * instruction may read or write. So any access beyond 64 bytes ends the test, in every mode and
 * from any code. The test compares the modes' output byte for byte.
 */
#include "devmem/router/forward.h"
#include "port/port.h"
#include "tests/support/hk_test.h"

#include <sys/mman.h>
#include <unistd.h>

#define PAGE    4096u
#define FRAMES  64
#define ROOM    (2 * PAGE) /* of each frame: a readable page and a protected page */
#define HEAD    RTE_PKTMBUF_HEADROOM
#define START   (PAGE - HK_HEADER_MAX) /* offset of the frame in its two pages */
#define PAYLOAD 1400

static uint8_t *device, *view;
static struct rte_mempool *headers, *own, *pieces;
static struct rte_mbuf_ext_shared_info shared[FRAMES];
static struct hk_fib *fib;
static const uint8_t mac[2][8] = {{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 1, 1}};

/* Everything beyond the first 64 bytes of a frame. */
static void protect(void)
{
	for (unsigned i = 0; i < FRAMES; i++)
		CHECK(mprotect(view + i * ROOM + PAGE, PAGE, PROT_NONE) == 0);
}

static void given_back(void *addr, void *arg)
{
}

BEFORE_ALL()
{
	static const char text[] = "port 1 mtu 1200\n"
				   "address 10.0.0.1/24 port 0\naddress fd00:1::1/64 port 0\n"
				   "neighbour 10.0.0.2 port 0 mac 02:00:00:00:00:99\n"
				   "neighbour fd00:1::2 port 0 mac 02:00:00:00:00:99\n"
				   "neighbour 10.0.1.2 port 1 mac 02:00:00:00:01:99\n"
				   "neighbour fd00:2::2 port 1 mac 02:00:00:00:01:99\n"
				   "route 10.1.0.0/16 via 10.0.1.2 port 1\n"
				   "route fd00:3::/32 via fd00:2::2 port 1\n";
	struct hk_routes *r;

	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = 512}, ERR));
	CHECK_OK(hk_routes_parse(text, sizeof(text) - 1, "test", 2, &r, ERR));
	CHECK_OK(hk_fib_make(r, &fib, ERR));
	hk_routes_free(r);
	/* headers of buffers only: the packets are in the device's memory */
	headers = rte_pktmbuf_pool_create("test_headers", 1023, 0, 0, 0, SOCKET_ID_ANY);
	own = rte_pktmbuf_pool_create("test_own", 1023, 0, 0, 2048, SOCKET_ID_ANY);
	pieces = rte_pktmbuf_pool_create("test_pieces", 1023, 0, 0, HEAD + 80, SOCKET_ID_ANY);
	CHECK(headers && own && pieces);
	int fd = memfd_create("device", MFD_CLOEXEC);
	CHECK(fd >= 0 && ftruncate(fd, FRAMES * ROOM) == 0);
	device = mmap(NULL, FRAMES * ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	view = mmap(NULL, FRAMES * ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(device != MAP_FAILED && view != MAP_FAILED);
	protect();
}

static struct rte_mbuf *receive(unsigned i, const uint8_t *frame, unsigned len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(headers);

	CHECK(m && len <= HK_HEADER_MAX + PAGE);
	shared[i].free_cb = given_back;
	rte_mbuf_ext_refcnt_set(&shared[i], 1);
	rte_pktmbuf_attach_extbuf(m, view + i * ROOM + START - HEAD, 0,
				  (uint16_t)(HEAD + HK_HEADER_MAX + PAGE), &shared[i]);
	m->data_off = HEAD;
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	memcpy(device + i * ROOM + START, frame, len);
	return m;
}

/* Returns the bytes that the device would send. */
static const uint8_t *sent(const struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);

	return p >= view && p < view + FRAMES * ROOM ? device + (p - view) : p;
}

static unsigned make_frame(uint8_t *f)
{
	struct hk_rng *r = &hk_test_rng;
	bool ip6 = hk_rng_below(r, 3) == 0;
	unsigned options = ip6 ? 0 : 4 * (unsigned)hk_rng_below(r, 10);
	unsigned header = ip6 ? 40 : 20 + options;
	unsigned payload = (unsigned)hk_rng_below(r, PAYLOAD), len = 14 + header + payload;

	for (unsigned i = 0; i < len + 64; i++)
		f[i] = (uint8_t)hk_rng_next(r);
	memcpy(f, mac[0], 6);
	f[12] = ip6 ? 0x86 : 8;
	f[13] = ip6 ? 0xdd : 0;
	uint8_t ttl = hk_rng_below(r, 4) ? 64 : 1, *h = f + 14;
	if (ip6) {
		static const uint8_t addresses[32] = {0xfd, 0, 0, 1, [15] = 9,
						      0xfd, 0, 0, 3, [31] = 7};
		memcpy(h,
		       (uint8_t[]){0x60, 0, 0, 0, (uint8_t)(payload >> 8), (uint8_t)payload,
				   (uint8_t[]){17, 0, 43, 58}[hk_rng_below(r, 4)], ttl},
		       8);
		memcpy(h + 8, addresses, 32);
		h[8 + 15] = 2; /* a neighbour, so that ICMP messages reach it */
	} else {
		unsigned total = header + payload;
		memcpy(h,
		       (uint8_t[]){(uint8_t)(0x45 + options / 4),
				   0,
				   (uint8_t)(total >> 8),
				   (uint8_t)total,
				   1,
				   2,
				   (uint8_t)(hk_rng_below(r, 2) ? 0x40 : 0),
				   0,
				   ttl,
				   (uint8_t)(hk_rng_below(r, 2) ? 1 : 17),
				   0,
				   0,
				   10,
				   0,
				   0,
				   2,
				   10,
				   1,
				   2,
				   3},
		       20);
		memset(h + 20, 1, options);
		uint16_t sum = (uint16_t)~hk_sum(h, header, 0);
		memcpy(h + 10, &sum, 2);
	}
	if (hk_rng_below(r, 8) == 0)
		f[hk_rng_below(r, HK_MIN(len, 74u))] ^= 0x40;
	return HK_MAX(len, 60u);
}

/* Copies a frame's buffers to @out, as a NIC does. Returns the length. */
static unsigned flat(const struct rte_mbuf *m, uint8_t *out)
{
	unsigned n = 0, segments = 0;

	for (const struct rte_mbuf *s = m; s; s = s->next) {
		memcpy(out + n, sent(s), s->data_len);
		n += s->data_len;
		segments++;
	}
	CHECK_EQ(m->pkt_len, n);
	CHECK_EQ(m->nb_segs, segments);
	return n;
}

static struct hk_forward *make_forward(enum hk_router_mode mode, bool gathers)
{
	struct hk_forward *f = aligned_alloc(64, (sizeof(*f) + 63) / 64 * 64);

	CHECK(f != NULL);
	memset(f, 0, sizeof(*f));
	f->mode = mode;
	f->ports = 2;
	f->fib = fib;
	f->own = own;
	f->pieces = pieces;
	f->icmp = (struct hk_icmp_limit){.per_token = UINT64_MAX, .tokens = 1000, .burst = 1000};
	for (unsigned i = 0; i < 2; i++) {
		memcpy(f->port[i].mac, mac[i], 8);
		f->port[i].frame_max = 1514;
		f->port[i].gathers = gathers;
	}
	return f;
}

/* Sends a burst through one mode. Returns everything that was sent, in one array. */
static size_t through(enum hk_router_mode mode, bool gathers,
		      uint8_t (*frame)[HK_HEADER_MAX + PAGE], const unsigned *len, uint8_t *out,
		      struct hk_forward_counters *count)
{
	struct hk_forward *f = make_forward(mode, gathers);
	struct rte_mbuf *m[FRAMES];
	size_t n = 0;

	for (unsigned i = 0; i < FRAMES; i++)
		m[i] = receive(i, frame[i], len[i]);
	hk_forward_burst(f, 0, m, FRAMES);
	for (unsigned port = 0; port < 2; port++)
		for (unsigned i = 0; i < f->port[port].queued; i++) {
			struct rte_mbuf *s = f->port[port].out[i];
			out[n++] = (uint8_t)port;
			n += flat(s, out + n);
			rte_pktmbuf_free(s);
		}
	*count = f->port[0].count;
	free(f);
	return n;
}

static void all_back(void)
{
	CHECK_EQ(rte_mempool_avail_count(headers), 1023);
	CHECK_EQ(rte_mempool_avail_count(own), 1023);
	CHECK_EQ(rte_mempool_avail_count(pieces), 1023);
	for (unsigned i = 0; i < FRAMES; i++)
		CHECK_EQ(rte_mbuf_ext_refcnt_read(&shared[i]), 0);
}

TEST(nothing_beyond_64_bytes)
{
	static uint8_t frame[FRAMES][HK_HEADER_MAX + PAGE], out[3][FRAMES * 2 * PAGE];
	static struct hk_forward_counters count[3];
	uint64_t all[HK_RESULTS] = {0}, icmp_sent_all = 0, cut = 0;

	for (unsigned round = 0; round < 200; round++) {
		unsigned len[FRAMES];
		uint64_t want = 0;
		size_t n[3];
		for (unsigned i = 0; i < FRAMES; i++) {
			len[i] = make_frame(frame[i]);
			want += HK_MIN(len[i], (unsigned)HK_HEADER_MAX);
		}
		for (unsigned mode = 0; mode < 3; mode++)
			n[mode] = through(mode, true, frame, len, out[mode], &count[mode]);
		for (unsigned mode = 1; mode < 3; mode++) {
			CHECK(n[mode] == n[0] && memcmp(out[mode], out[0], n[0]) == 0);
			CHECK(memcmp(&count[mode], &count[0], sizeof(count[0])) == 0);
		}
		CHECK_EQ(count[0].header_bytes, want);
		icmp_sent_all += count[0].icmp_sent;
		cut += count[0].fragmented;
		for (unsigned v = 0; v < HK_RESULTS; v++)
			all[v] += count[0].result[v];
	}
	/* the packets were of all kinds */
	CHECK(all[HK_RESULT_FORWARD] > 3000 && all[HK_RESULT_TTL] > 1000 &&
	      all[HK_RESULT_TOO_BIG] > 500 && all[HK_RESULT_OPTIONS_LONG] > 500 &&
	      all[HK_RESULT_CHECKSUM] > 100 && icmp_sent_all > 1000);
	CHECK(cut > 300);
	all_back();
}

/* Makes a burst with packets that must be cut, and returns its output. */
static size_t some_cut(uint8_t (*frame)[HK_HEADER_MAX + PAGE], unsigned *len, uint8_t *out,
		       struct hk_forward_counters *count)
{
	size_t n;

	do {
		for (unsigned i = 0; i < FRAMES; i++)
			len[i] = make_frame(frame[i]);
		n = through(HK_ROUTER_P2P, true, frame, len, out, count);
	} while (!count->fragmented);
	return n;
}

/* A pop's buffers are pinned to their bytes, even if a driver forgets the flag. */
TEST(pinned_buffers)
{
	enum { ROOMS = 3 };
	static uint8_t frame[HK_HEADER_MAX + PAGE], out[2 * PAGE];
	static uint8_t memory[ROOMS * ROOM] __attribute__((aligned(4096)));
	const struct rte_pktmbuf_extmem bytes = {
		.buf_ptr = memory, .buf_iova = 4096, .buf_len = sizeof(memory), .elt_size = ROOM};
	struct rte_mempool *pool = rte_pktmbuf_pool_create_extbuf("test_pinned", ROOMS, 0, 0, ROOM,
								  SOCKET_ID_ANY, &bytes, 1);
	struct hk_forward *f = make_forward(HK_ROUTER_P2P, true);
	struct rte_mbuf *m;
	unsigned len;

	CHECK(pool != NULL);
	for (unsigned round = 0; round < 10 * ROOMS; round++) {
		do
			len = make_frame(frame);
		while (frame[12] != 8 || frame[14] != 0x45 || len < 1300 || frame[20] & 0x40 ||
		       frame[22] == 1);
		m = rte_pktmbuf_alloc(pool);
		CHECK(m != NULL);
		memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
		m->ol_flags = 0; /* as e1000's driver does */
		hk_forward_burst(f, 0, &m, 1);
		if (!f->port[1].queued) /* the frame had a flipped bit */
			continue;
		CHECK_EQ(f->port[1].queued, 2);
		CHECK(rte_mempool_avail_count(pool) == ROOMS - 1);
		for (unsigned i = 0; i < 2; i++) {
			struct rte_mbuf *s = f->port[1].out[i];
			unsigned n = flat(s, out);
			CHECK(memcmp(out + 34, frame + 34 + (i ? 1176 : 0), n - 34) == 0);
			rte_pktmbuf_free(s);
		}
		f->port[1].queued = 0;
	}
	CHECK(f->port[0].count.fragmented > ROOMS);
	CHECK_EQ(rte_mempool_avail_count(pool), ROOMS);
	all_back();
	rte_mempool_free(pool);
	free(f);
}

/* A port that sends only from one buffer gets copies in main memory. Packets in device memory are
 * dropped. */
TEST(no_gathering)
{
	static uint8_t frame[FRAMES][HK_HEADER_MAX + PAGE], out[2][FRAMES * 2 * PAGE];
	struct hk_forward_counters a, b;
	unsigned len[FRAMES];

	/* mode bounce reads the payload */
	CHECK(mprotect(view, FRAMES * ROOM, PROT_READ | PROT_WRITE) == 0);
	size_t n = some_cut(frame, len, out[0], &a);
	CHECK_EQ(through(HK_ROUTER_BOUNCE, false, frame, len, out[1], &b), n);
	CHECK(memcmp(out[0], out[1], n) == 0 && memcmp(&a, &b, sizeof(a)) == 0);
	through(HK_ROUTER_P2P, false, frame, len, out[1], &b);
	CHECK_EQ(b.fragmented, 0);
	CHECK_EQ(b.result[HK_RESULT_TOO_BIG], a.result[HK_RESULT_TOO_BIG] + a.fragmented);
	protect();
	all_back();
}

/* Without buffers for all of a packet's fragments, none is sent and no buffer is lost. */
TEST(no_buffers)
{
	static uint8_t frame[FRAMES][HK_HEADER_MAX + PAGE], out[FRAMES * 2 * PAGE];
	struct rte_mbuf *taken[1020];
	struct hk_forward_counters a, c;
	unsigned len[FRAMES];

	some_cut(frame, len, out, &a);
	CHECK(rte_pktmbuf_alloc_bulk(pieces, taken, 1020) ==
	      0); /* 3 are left; a fragment needs 2 */
	through(HK_ROUTER_P2P, true, frame, len, out, &c);
	CHECK_EQ(c.fragmented, 0);
	CHECK_EQ(c.result[HK_RESULT_NO_BUFFER], a.fragmented);
	CHECK_EQ(rte_mempool_avail_count(pieces), 3);
	rte_pktmbuf_free_bulk(taken, 1020);
	all_back();
}

/* The first buffer ends before 54 bytes: a driver that splits too early. */
TEST(split_header)
{
	static uint8_t frame[1][HK_HEADER_MAX + PAGE];
	struct hk_forward *f = make_forward(HK_ROUTER_BOUNCE, false);
	unsigned len;

	do
		len = make_frame(frame[0]);
	while (frame[0][12] != 8 || frame[0][14] != 0x45);
	struct rte_mbuf *m = receive(0, frame[0], 30), *rest = rte_pktmbuf_alloc(own);
	CHECK(rest && rte_pktmbuf_append(rest, (uint16_t)(len - 30)));
	m->next = rest;
	m->nb_segs = 2;
	m->pkt_len = len;
	hk_forward_burst(f, 0, &m, 1);
	CHECK_EQ(f->port[0].count.result[HK_RESULT_HEADER_SPLIT], 1);
	CHECK_EQ(rte_mempool_avail_count(own), 1023);
	free(f);
}

/* Takes a frame for the kernel if @arg says so. */
static bool to_kernel(void *arg, struct rte_mbuf *m)
{
	const bool *accept = arg;

	CHECK_EQ(m->port, 0);
	if (*accept)
		rte_pktmbuf_free(m);
	return *accept;
}

static void one(struct hk_forward *f, const uint8_t *frame, unsigned len,
		enum hk_router_result want)
{
	struct rte_mbuf *m = receive(0, frame, len);
	uint64_t before = f->port[0].count.result[want];

	hk_forward_burst(f, 0, &m, 1);
	CHECK_MSG(f->port[0].count.result[want] == before + 1, "not %s",
		  hk_router_result_name(want));
}

/* Cases that the router in Python does not have: short frames, a full ring to the kernel, a full
 * queue. */
TEST(full_and_short)
{
	static uint8_t frame[HK_HEADER_MAX + PAGE];
	struct hk_forward *f = make_forward(HK_ROUTER_PKTPIT, true);
	bool accept = false;
	unsigned len;

	do
		len = make_frame(frame);
	while (memcmp(frame, mac[0], 6) != 0 || hk_be16(frame + 12) != 0x0800 ||
	       frame[14] != 0x45 || hk_sum(frame + 14, 20, 0) != 0xffff || frame[20] & 0x40 ||
	       frame[22] == 1 || len < 14 + 1300); /* a packet that must be cut */
	one(f, frame, 13, HK_RESULT_SHORT);
	one(f, frame, 14 + 19, HK_RESULT_SHORT);

	f->port[1].queued = HK_FORWARD_QUEUE - 1; /* space for one packet; the fragments are two */
	one(f, frame, len, HK_RESULT_TX_FULL);
	CHECK_EQ(f->port[1].queued, HK_FORWARD_QUEUE - 1);
	f->port[1].queued = 0;

	frame[13] = 6; /* ARP */
	one(f, frame, 60, HK_RESULT_NO_KERNEL);
	f->kernel = to_kernel;
	f->kernel_arg = &accept;
	one(f, frame, 60, HK_RESULT_KERNEL_FULL);
	accept = true;
	one(f, frame, 60, HK_RESULT_KERNEL);
	all_back();
	free(f);
}
