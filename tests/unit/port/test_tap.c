/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_tap.c: a capture sees the frames that a port moves, and never delays them.
 * The port is DPDK's ring device, which receives its own frames. The test captures itself, with the
 * code of `hikyaku capture`.
 */
#include "capture/source.h"
#include "tests/support/await.h"
#include "tests/support/lines.h"
#include "tests/support/loopback.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BUFFERS 4096
#define SIZE    HK_TAP_SIZE_MIN
#define WAIT_MS 10000

static struct hk_port *port;
static struct hk_source *source;

/* ---- the rig --------------------------------------------------------------------------------- */

static bool is_off(void)
{
	return !atomic_load(&hk_tap_on);
}

static void find_us(struct hk_source_name *at)
{
	struct hk_source_name all[64];
	unsigned n = hk_source_list(all, HK_ARRAY_LEN(all)), found = 0;

	for (unsigned i = 0; i < n; i++) {
		if (all[i].pid != getpid())
			continue;
		*at = all[i];
		found++;
	}
	CHECK_EQ(found, 1);
}

static void begin(uint32_t snaplen)
{
	const struct hk_source_config cfg = {.size = SIZE, .snaplen = snaplen};
	struct hk_source_name at;

	CHECK_OK(hk_tap_open("rank 3", "hk0-x", ERR));
	find_us(&at);
	CHECK(strcmp(at.shared, "hk0-x") == 0);
	CHECK_OK(hk_source_open(&at, &cfg, &source, ERR));
	CHECK(strcmp(source->who, "rank 3") == 0);
	CHECK(!is_off());
}

static void finish(void)
{
	hk_source_stop(source);
	hk_source_close(source);
	AWAIT(WAIT_MS, is_off(), pause_1ms());
	hk_tap_close();
}

/* Makes a frame of any length, of one or several segments. */
static struct rte_mbuf *make(uint32_t seq, unsigned segments)
{
	struct rte_mbuf *head = NULL, *last = NULL;
	unsigned at = 0;

	for (unsigned s = 0; s < segments; s++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);

		CHECK(m != NULL);
		unsigned n = (unsigned)hk_rng_range(&hk_test_rng, 8, 700);
		uint8_t *b = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)n);

		CHECK(b != NULL);
		for (unsigned i = 0; i < n; i++, at++)
			b[i] = at < 4 ? (uint8_t)(seq >> (8 * at)) : (uint8_t)(seq * 31 + at);
		if (!head) {
			head = m;
		} else {
			last->next = m;
			head->nb_segs++;
			head->pkt_len += n;
		}
		last = m;
	}
	return head;
}

static uint32_t seq_of(const char *bytes)
{
	uint32_t seq;

	memcpy(&seq, bytes, sizeof(seq));
	return seq;
}

static void check_bytes(const char *bytes, uint32_t n)
{
	uint32_t seq = seq_of(bytes);

	for (uint32_t i = 4; i < n; i++)
		CHECK_EQ((uint8_t)bytes[i], (uint8_t)(seq * 31 + i));
}

/* Reads the next frame; false if there is none. Checks records of ports on the way. */
static bool next(struct hk_captured *c)
{
	int rc;

	while ((rc = hk_reader_peek(&source->reader, c)) == 1 && c->r.kind == HK_TAP_PORT) {
		CHECK(strcmp(c->port.name, port->info.spec) == 0);
		CHECK(strcmp(c->port.driver, port->info.driver) == 0);
		CHECK_EQ(c->port.frame_max, port->info.frame_max);
		CHECK(memcmp(c->port.mac, port->info.mac, 6) == 0);
		hk_reader_take(&source->reader, c);
	}
	CHECK(rc >= 0);
	return rc == 1;
}

static void free_all(struct rte_mbuf **m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free(m[i]);
}

static void empty_port(void)
{
	struct rte_mbuf *m[64];

	for (uint16_t n; (n = hk_port_rx(port, 0, m, 64)) > 0;)
		free_all(m, n);
	CHECK_EQ(rte_mempool_in_use_count(port->pool), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void expect(uint32_t seq, enum hk_tap_direction direction, uint32_t len, uint32_t snaplen,
		   uint64_t *last_ns)
{
	struct hk_captured c;

	CHECK(next(&c));
	CHECK_EQ(c.r.direction, direction);
	CHECK_EQ(c.r.len, len);
	CHECK_EQ(c.r.cap, HK_MIN(len, snaplen));
	CHECK_EQ(c.r.queue, 0);
	CHECK_EQ(seq_of(c.bytes), seq);
	check_bytes(c.bytes, c.r.cap);
	CHECK(c.r.ns >= *last_ns);
	*last_ns = c.r.ns;
	hk_reader_take(&source->reader, &c);
}

static void each_frame_once(uint32_t snaplen)
{
	uint64_t seen, dropped, last_ns = 0;
	uint32_t seq = 0;

	begin(snaplen);
	for (unsigned round = 0; round < 400; round++) {
		struct rte_mbuf *m[100];
		uint32_t len[100];
		unsigned n = (unsigned)hk_rng_range(&hk_test_rng, 1, 100);

		for (unsigned i = 0; i < n; i++) {
			m[i] = make(seq + i, (unsigned)hk_rng_range(&hk_test_rng, 1, 3));
			len[i] = m[i]->pkt_len;
		}
		CHECK_EQ(hk_port_tx(port, 0, m, (uint16_t)n), n);
		for (unsigned i = 0; i < n; i++)
			expect(seq + i, HK_TAP_OUT, len[i], snaplen, &last_ns);
		CHECK_EQ(hk_port_rx(port, 0, m, (uint16_t)n), n);
		for (unsigned i = 0; i < n; i++)
			expect(seq + i, HK_TAP_IN, len[i], snaplen, &last_ns);
		free_all(m, n);
		seq += n;
	}
	struct hk_captured c;

	CHECK(!next(&c));
	hk_reader_counters(&source->reader, 0, &seen, &dropped);
	CHECK_EQ(seen, 2 * seq);
	CHECK_EQ(dropped, 0);
	finish();
	empty_port();
}

TEST(whole_frames)
{
	each_frame_once(HK_TAP_SNAPLEN_MAX);
}

TEST(first_bytes)
{
	each_frame_once(50);
}

/* The capture has the frames that the driver accepted, not those that it refused. */
TEST(refused_frames_are_not_shown)
{
	struct rte_mbuf *m[200];
	struct hk_captured c;
	unsigned sent = 0, shown = 0;
	uint16_t took;

	begin(64);
	do {
		for (unsigned i = 0; i < 200; i++)
			m[i] = make(sent + i, 1);
		took = hk_port_tx(port, 0, m, 200);
		free_all(m + took, 200u - took);
		sent += took;
		for (; next(&c); shown++) {
			CHECK_EQ(seq_of(c.bytes), shown);
			hk_reader_take(&source->reader, &c);
		}
		CHECK_EQ(shown, sent);
	} while (took == 200);
	uint64_t seen, dropped;

	hk_reader_counters(&source->reader, 0, &seen, &dropped);
	CHECK_EQ(seen, sent);
	CHECK_EQ(port->tx_full > 0, true);
	finish();
	empty_port();
}

static unsigned move(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *m = make(i, 1);

		CHECK_EQ(hk_port_tx(port, 0, &m, 1), 1);
		CHECK_EQ(hk_port_rx(port, 0, &m, 1), 1);
		rte_pktmbuf_free(m);
	}
	return 2 * n;
}

/* Without a reader, frames that do not fit are counted. Then a reader comes, and gets all frames
 * again. */
TEST(drops_are_counted)
{
	struct hk_captured c;
	uint64_t seen, dropped;
	unsigned shown = 0, moved;

	begin(HK_TAP_SNAPLEN_MAX);
	for (int round = 0; round < 3; round++) {
		moved = move(2000);
		shown = 0;
		for (; next(&c); shown++) {
			check_bytes(c.bytes, c.r.cap);
			hk_reader_take(&source->reader, &c);
		}
		hk_reader_counters(&source->reader, 0, &seen, &dropped);
		CHECK(shown > 100);
		CHECK(shown < moved);
		CHECK_EQ(seen, moved * (unsigned)(round + 1));
	}
	uint64_t before = dropped;

	CHECK_EQ(dropped, hk_reader_dropped(&source->reader));
	CHECK_EQ(move(10), 20);
	for (shown = 0; next(&c); shown++)
		hk_reader_take(&source->reader, &c);
	CHECK_EQ(shown, 20);
	CHECK_EQ(hk_reader_dropped(&source->reader), before);
	finish();
	empty_port();
}

/* For every value that the reader writes into the ring, frames move, and no access is outside of
 * the ring. */
TEST(a_mad_reader_harms_nobody)
{
	begin(2000);
	struct hk_tap_ring *ring = source->reader.ring;

	for (unsigned i = 0; i < 3000; i++) {
		uint64_t v = hk_rng_next(&hk_test_rng) >> hk_rng_below(&hk_test_rng, 64);

		atomic_store(&ring->tail, i % 3 ? v : atomic_load(&ring->head) + v % 4096);
		atomic_store(&ring->head, hk_rng_next(&hk_test_rng));
		((uint64_t *)(ring + 1))[hk_rng_below(&hk_test_rng, SIZE / 8)] = v;
		move(1);
	}
	/* a reader with an index ahead of the writer gets nothing */
	atomic_store(&ring->tail, atomic_load(&ring->head) + HK_TAP_ALIGN);
	uint64_t before = hk_reader_dropped(&source->reader);

	unsigned moved = move(1);

	CHECK_EQ(hk_reader_dropped(&source->reader), before + moved);
	finish();
	empty_port();
}

/* ---- who may, and until when ----------------------------------------------------------------- */

TEST(one_at_a_time)
{
	const struct hk_source_config cfg = {.size = SIZE, .snaplen = 100};
	struct hk_source *second;
	struct hk_source_name at;
	char want[64];

	begin(100);
	find_us(&at);
	CHECK_EQ(hk_source_open(&at, &cfg, &second, ERR), -EBUSY);
	snprintf(want, sizeof(want), "process %d captures it already", getpid());
	CHECK_MSG(strstr(hk_test_err.text, want) != NULL, "%s", hk_test_err.text);
	move(1);
	struct hk_captured c;

	CHECK(next(&c)); /* the first capture continues */
	finish();
	begin(100); /* when it has ended, the next may begin */
	finish();
	empty_port();
}

/* A killed capture only closes its connection. */
TEST(the_connection_is_the_lease)
{
	begin(100);
	hk_source_close(source);
	AWAIT(WAIT_MS, is_off(), pause_1ms());
	move(10);
	hk_tap_close();
	empty_port();
}

TEST(an_orderly_end_is_reported)
{
	struct hk_captured c;
	unsigned shown = 0;

	begin(100);
	CHECK(!hk_source_ended(source));
	move(5);
	hk_tap_close();
	CHECK(is_off());
	move(5);
	CHECK(hk_source_ended(source));
	CHECK(source->said_end);
	for (; next(&c); shown++) /* its frames can still be read */
		hk_reader_take(&source->reader, &c);
	CHECK_EQ(shown, 10);
	hk_source_close(source);
	empty_port();
}

/* A connection to our own tap. */
static int connect_to_us(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct hk_source_name at;
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	find_us(&at);
	strcpy(a.sun_path + 1, at.name);
	CHECK_EQ(connect(s, (struct sockaddr *)&a,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(at.name))),
		 0);
	return s;
}

/* Sends START with @m and @fd (-1: none). Returns the reply's text, or "" for STARTED. */
static const char *ask(const struct hk_tap_msg *m, int fd)
{
	static struct hk_tap_msg reply;
	int s = connect_to_us();

	CHECK_EQ(send_with(s, m, sizeof(*m), fd, 0), sizeof(*m));
	CHECK_EQ(recv(s, &reply, sizeof(reply), 0), sizeof(reply));
	close(s);
	return reply.type == HK_TAP_STARTED ? "" : reply.text;
}

static int memory(uint64_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

static int lowest_free(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

TEST(wrong_requests_are_refused)
{
	const struct hk_tap_msg good = {.magic = HK_TAP_MAGIC,
					.version = HK_TAP_VERSION,
					.type = HK_TAP_START,
					.snaplen = 100,
					.size = SIZE};
	const uint64_t bytes = sizeof(struct hk_tap_ring) + SIZE;
	int sealed = memory(bytes, F_SEAL_SHRINK), loose = memory(bytes, 0),
	    small = memory(bytes - 4096, F_SEAL_SHRINK),
	    null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct hk_tap_msg m;

	CHECK_OK(hk_tap_open("rank 3", NULL, ERR));
	int lowest = lowest_free();
#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		m = good;                                                                          \
		m.field = value;                                                                   \
		CHECK_MSG(*ask(&m, sealed), "%s = %s is taken", #field, #value);                   \
		CHECK(is_off());                                                                   \
	} while (0)
	for (int round = 0; round < 2; round++) {
		REFUSED(magic, 1);
		REFUSED(version, HK_TAP_VERSION + 1);
		REFUSED(type, HK_TAP_STARTED);
		REFUSED(snaplen, 0);
		REFUSED(snaplen, HK_TAP_SNAPLEN_MAX + 1);
		REFUSED(flags, 2);
		REFUSED(size, SIZE * 2);
		REFUSED(size, SIZE - 32);
		REFUSED(size, 4096);
		REFUSED(size, UINT64_C(1) << 63);
		CHECK(*ask(&good, -1));
		CHECK(*ask(&good, loose));
		CHECK(*ask(&good, small));
		CHECK(*ask(&good, null));
	}
#undef REFUSED
	CHECK_MSG(!*ask(&good, sealed), "a good one is refused");
	AWAIT(WAIT_MS, is_off(), pause_1ms());
	AWAIT(WAIT_MS, lowest_free() == lowest, pause_1ms()); /* this process plays both sides */
	hk_tap_close();
	close(sealed);
	close(loose);
	close(small);
	close(null);
}

/* ---- two threads ----------------------------------------------------------------------------- */

static _Atomic bool stop;
static _Atomic uint64_t counted;

static void *reader(void *arg)
{
	struct hk_captured c;

	for (bool last = false; !last;) {
		last = atomic_load(&stop);
		for (; next(&c); atomic_fetch_add(&counted, 1)) {
			check_bytes(c.bytes, c.r.cap);
			hk_reader_take(&source->reader, &c);
		}
	}
	return NULL;
}

/* ---- counters -------------------------------------------------------------------------------- */

static size_t some_text(char *text, size_t room)
{
	return (size_t)snprintf(text, room, "{\"a\": 1}");
}

static size_t too_much(char *text, size_t room)
{
	memset(text, 'x', room);
	return room + 1;
}

/* Requests counters as `hikyaku stats` does. Returns the reply's type, and its text in @text. */
static uint32_t ask_stats(char text[HK_TAP_STATS_MAX + 1])
{
	struct hk_tap_msg m = {
		.magic = HK_TAP_MAGIC, .version = HK_TAP_VERSION, .type = HK_TAP_STATS};
	int fd = connect_to_us();

	CHECK_EQ(send(fd, &m, sizeof(m), 0), (ssize_t)sizeof(m));
	CHECK_EQ(recv(fd, &m, sizeof(m), 0), (ssize_t)sizeof(m));
	CHECK_EQ(m.magic, HK_TAP_MAGIC);
	ssize_t n = m.type == HK_TAP_STATS ? recv(fd, text, HK_TAP_STATS_MAX, 0) : 0;

	CHECK_EQ((uint64_t)n, m.type == HK_TAP_STATS ? m.size : 0);
	text[n] = '\0';
	CHECK_EQ(recv(fd, &m, sizeof(m), 0), 0); /* and nothing follows */
	close(fd);
	return m.type;
}

/* With and without a capture; errors without counters and with too many. */
TEST(counters_are_reported)
{
	char text[HK_TAP_STATS_MAX + 1];

	begin(100);
	CHECK_EQ(ask_stats(text), HK_TAP_REFUSED);
	hk_tap_stats(some_text);
	CHECK_EQ(ask_stats(text), HK_TAP_STATS);
	CHECK(strcmp(text, "{\"a\": 1}") == 0);
	hk_tap_stats(too_much);
	CHECK_EQ(ask_stats(text), HK_TAP_REFUSED);
	struct hk_captured c;

	move(1);
	CHECK(next(&c)); /* the capture continues */
	hk_source_stop(source);
	hk_source_close(source);
	AWAIT(WAIT_MS, is_off(), pause_1ms());
	hk_tap_stats(some_text);
	CHECK_EQ(ask_stats(text), HK_TAP_STATS);
	hk_tap_stats(NULL);
	CHECK_EQ(ask_stats(text), HK_TAP_REFUSED);
	hk_tap_close();
	empty_port();
}

/* At full speed with a reader: each frame is captured intact, or counted. */
TEST(under_load)
{
	pthread_t t;

	begin(300);
	atomic_store(&stop, false);
	atomic_store(&counted, 0);
	CHECK_EQ(pthread_create(&t, NULL, reader, NULL), 0);
	unsigned moved = move(50000);

	atomic_store(&stop, true);
	pthread_join(t, NULL);
	CHECK_EQ(counted + hk_reader_dropped(&source->reader), moved);
	finish();
	empty_port();
}

/* Captures begin and end while frames move. */
static void *capture_again_and_again(void *arg)
{
	const struct hk_source_config cfg = {.size = SIZE, .snaplen = 200};
	struct hk_source_name at;
	struct hk_captured c;
	struct hk_source *s;
	struct hk_error e;

	find_us(&at);
	for (int i = 0; i < 200; i++) {
		int rc = hk_source_open(&at, &cfg, &s, &e);

		if (rc == -EBUSY) /* the tap has not noticed the last one's end yet */
			continue;
		CHECK_MSG(rc == 0, "%s", e.text);
		while ((rc = hk_reader_peek(&s->reader, &c)) == 1) {
			if (c.r.kind == HK_TAP_FRAME)
				check_bytes(c.bytes, c.r.cap);
			hk_reader_take(&s->reader, &c);
		}
		CHECK_EQ(rc, 0);
		if (i % 2)
			hk_source_stop(s);
		hk_source_close(s);
		atomic_fetch_add(&counted, 1);
	}
	atomic_store(&stop, true);
	return NULL;
}

TEST(captures_come_and_go)
{
	pthread_t t;

	CHECK_OK(hk_tap_open("rank 3", NULL, ERR));
	atomic_store(&stop, false);
	atomic_store(&counted, 0);
	CHECK_EQ(pthread_create(&t, NULL, capture_again_and_again, NULL), 0);
	while (!atomic_load(&stop))
		move(100);
	pthread_join(t, NULL);
	CHECK(counted > 50);
	hk_tap_close();
	empty_port();
}

/* A closed port and another with its number are two ports. */
TEST(ports_have_numbers)
{
	struct hk_captured c;
	int ports = 0;

	begin(100);
	move(1);
	hk_tap_forget(port);
	move(1);
	while (hk_reader_peek(&source->reader, &c) == 1) {
		CHECK_EQ(c.r.port, c.r.kind == HK_TAP_PORT ? ports : ports - 1);
		ports += c.r.kind == HK_TAP_PORT;
		hk_reader_take(&source->reader, &c);
	}
	CHECK_EQ(ports, 2);
	finish();
	empty_port();
}

BEFORE_ALL()
{
	port = loopback_open(64, BUFFERS);
}

AFTER_ALL()
{
	hk_port_close(port);
}
