/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/capture/test_reader.c: rings as a captured process may leave them: good, wrong in one
 * point, and scribbled over at random. And filters, whose frames are nobody's promise either.
 */
#include "capture/filter.h"
#include "capture/reader.h"
#include "tests/support/frames.h"
#include "tests/support/hk_test.h"

#include <errno.h>

#define SIZE    4096u /* of the ring */
#define SNAPLEN 200
#define GUARD   64 /* bytes behind it that must stay as they are */

static struct {
	struct hk_tap_ring ring;
	char bytes[SIZE];
	char guard[GUARD];
} mem;
static struct hk_reader reader;

static void fresh(void)
{
	memset(&mem, 0, sizeof(mem));
	memset(mem.guard, 0x5a, GUARD);
	hk_reader_init(&reader, &mem.ring, SIZE, SNAPLEN);
}

/* Writes a record where the writer is; returns it, for the test to spoil. */
static struct hk_tap_record *put(struct hk_tap_record r)
{
	uint64_t head = atomic_load(&mem.ring.head);
	struct hk_tap_record *at = (struct hk_tap_record *)(mem.bytes + head % SIZE);

	*at = r;
	atomic_store(&mem.ring.head, head + r.size);
	return at;
}

static struct hk_tap_record *put_port(uint16_t number)
{
	struct hk_tap_record *r = put(
		(struct hk_tap_record){.size = sizeof(*r) + sizeof(struct hk_tap_port),
				       .kind = HK_TAP_PORT,
				       .port = number});
	struct hk_tap_port *p = (struct hk_tap_port *)(r + 1);

	memset(p, 0, sizeof(*p));
	strcpy(p->name, "a port");
	return r;
}

static struct hk_tap_record *put_frame(uint32_t len)
{
	uint32_t cap = HK_MIN(len, (uint32_t)SNAPLEN);

	return put((struct hk_tap_record){.size = sizeof(struct hk_tap_record) +
						  (cap + HK_TAP_ALIGN - 1) / HK_TAP_ALIGN *
							  HK_TAP_ALIGN,
					  .kind = HK_TAP_FRAME,
					  .len = len,
					  .cap = cap,
					  .direction = HK_TAP_IN});
}

static int next(struct hk_captured *c)
{
	int rc = hk_reader_peek(&reader, c);

	if (rc == 1)
		hk_reader_take(&reader, c);
	return rc;
}

TEST(good_records)
{
	struct hk_captured c;

	fresh();
	CHECK_EQ(next(&c), 0);
	put_port(0);
	CHECK_EQ(next(&c), 1);
	CHECK(c.r.kind == HK_TAP_PORT && strcmp(c.port.name, "a port") == 0);
	for (uint32_t i = 0; i < 1000; i++) { /* around the ring, many times */
		uint32_t len = 10 + i % 300;
		uint64_t head = atomic_load(&mem.ring.head), left = SIZE - head % SIZE;

		if (left < sizeof(c.r) + SNAPLEN + HK_TAP_ALIGN)
			put((struct hk_tap_record){.size = (uint32_t)left, .kind = HK_TAP_SKIP});
		put_frame(len);
		CHECK_EQ(next(&c), 1);
		CHECK_EQ(c.r.len, len);
		CHECK_EQ(c.r.cap, HK_MIN(len, (uint32_t)SNAPLEN));
		CHECK_EQ(next(&c), 0);
		CHECK_EQ(atomic_load(&mem.ring.tail), atomic_load(&mem.ring.head)); /* it is told */
	}
}

TEST(each_rule)
{
	struct hk_captured c;

#define BROKEN(make, ...)                                                                          \
	do {                                                                                       \
		fresh();                                                                           \
		put_port(0);                                                                       \
		CHECK_EQ(next(&c), 1);                                                             \
		struct hk_tap_record *r = make;                                                    \
		(void)r;                                                                           \
		__VA_ARGS__;                                                                       \
		CHECK_MSG(next(&c) == -EPROTO, "%s is taken", #__VA_ARGS__);                       \
	} while (0)
	BROKEN(put_frame(100), r->size = 0);
	BROKEN(put_frame(100), r->size = 31);
	BROKEN(put_frame(100), r->size += 1);
	BROKEN(put_frame(100), r->size += 32); /* beyond what is written */
	BROKEN(put_frame(100), r->size = UINT32_MAX & ~31u);
	BROKEN(put_frame(100), r->kind = 0);
	BROKEN(put_frame(100), r->kind = 4);
	BROKEN(put_frame(100), r->port = 1); /* no such port */
	BROKEN(put_frame(100), r->cap = 129);
	BROKEN(put_frame(100), r->cap = UINT32_MAX);
	BROKEN(put_frame(100), r->len = 99);
	BROKEN(put_frame(300), r->cap = SNAPLEN + 1);
	BROKEN(put_frame(100), r->direction = 0);
	BROKEN(put_frame(100), r->direction = 3);
	BROKEN(put_frame(100), r->kind = HK_TAP_SKIP); /* not to the end of the ring */
	BROKEN(put_port(0));                           /* again */
	BROKEN(put_port(2));                           /* out of order */
	BROKEN(put_port(1), r->size += 32; put_frame(10));
	BROKEN(put_frame(100), atomic_fetch_add(&mem.ring.head, 1));
	BROKEN(put_frame(100), atomic_fetch_add(&mem.ring.head, SIZE));
	BROKEN(put_frame(100), atomic_store(&mem.ring.head, 0)); /* back */
#undef BROKEN
}

/* As many ports as there are numbers, and not one more. */
TEST(ports_end)
{
	struct hk_captured c;

	fresh();
	for (unsigned i = 0; i < HK_TAP_PORTS; i++) {
		uint64_t left = SIZE - atomic_load(&mem.ring.head) % SIZE;

		if (left < sizeof(c.r) + sizeof(c.port))
			put((struct hk_tap_record){.size = (uint32_t)left, .kind = HK_TAP_SKIP});
		put_port((uint16_t)i);
		CHECK_EQ(next(&c), 1);
	}
	if (SIZE - atomic_load(&mem.ring.head) % SIZE < sizeof(c.r) + sizeof(c.port))
		fresh();
	put_port(HK_TAP_PORTS);
	CHECK_EQ(next(&c), -EPROTO);
}

TEST(texts_are_printable)
{
	struct hk_captured c;

	fresh();
	struct hk_tap_port *p = (struct hk_tap_port *)(put_port(0) + 1);

	memset(p->name, 'x', sizeof(p->name)); /* does not end */
	strcpy(p->driver, "a\033[2Jb\n\377");
	CHECK_EQ(next(&c), 1);
	CHECK_EQ(strlen(c.port.name), sizeof(c.port.name) - 1);
	CHECK_MSG(strcmp(c.port.driver, "a?[2Jb??") == 0, "%s", c.port.driver);
}

static uint8_t touch(const char *bytes, uint32_t n)
{
	uint8_t sum = 0;

	CHECK(bytes >= mem.bytes && bytes + n <= mem.bytes + SIZE);
	for (uint32_t i = 0; i < n; i++)
		sum = (uint8_t)(sum + (uint8_t)bytes[i]);
	return sum;
}

/* Good records with words written over: nothing beyond the ring is read, and it comes to an end. */
TEST(scribbles)
{
	struct hk_captured c;
	unsigned garbage = 0, frames = 0;

	for (unsigned round = 0; round < 20000; round++) {
		int rc = 1;

		fresh();
		put_port(0);
		for (unsigned i = 0; i < 12; i++)
			put_frame((uint32_t)hk_rng_below(&hk_test_rng, 250));
		for (uint64_t i = hk_rng_below(&hk_test_rng, 4); i-- > 0;) {
			uint32_t v = (uint32_t)(hk_rng_next(&hk_test_rng) >>
						hk_rng_below(&hk_test_rng, 64));
			uint64_t at = hk_rng_chance(&hk_test_rng, 200000)
					      ? hk_rng_below(&hk_test_rng, sizeof(mem.ring) / 4)
					      : (sizeof(mem.ring) / 4 +
						 hk_rng_below(&hk_test_rng, SIZE / 4));

			((uint32_t *)&mem)[at] = v;
		}
		for (unsigned i = 0; i < SIZE / HK_TAP_ALIGN + 1 && rc == 1; i++) {
			rc = next(&c);
			if (rc == 1 && c.r.kind == HK_TAP_FRAME) {
				(void)touch(c.bytes, c.r.cap);
				frames++;
			}
		}
		CHECK(rc == 0 || rc == -EPROTO);
		garbage += rc != 0;
		for (unsigned i = 0; i < GUARD; i++)
			CHECK_EQ(mem.guard[i], 0x5a);
	}
	CHECK(garbage > 1000);
	CHECK(frames > 10000);
}

/* ---- filters ------------------------------------------------------------------------------------
 */

TEST(filters)
{
	uint8_t frame[HK_ETH_HLEN + HK_WIRE_HLEN];
	const struct hk_wire_hdr h = frame_hdr(HK_WIRE_DATA, 0xc0ffee, 0x100003, 0x100007);
	static const struct {
		struct hk_filter f;
		bool match;
	} cases[] = {
		{{.by_job = false}, true},
		{{.by_job = true, .job = 0xc0ffee}, true},
		{{.by_job = true, .job = 0xc0ffed}, false},
		{{.by_endpoint = true, .endpoint = 0x100003}, true},
		{{.by_endpoint = true, .endpoint = 0x100007}, true},
		{{.by_endpoint = true, .endpoint = 3}, false},
		{{.by_rank = true, .rank = 3}, true},
		{{.by_rank = true, .rank = 7}, true},
		{{.by_rank = true, .rank = 1}, false},
		{{.by_rank = true, .rank = 3, .by_job = true, .job = 0xc0ffee}, true},
		{{.by_rank = true, .rank = 3, .by_job = true, .job = 1}, false},
	};
	char text[128];

	frame_encode(frame, &h, NULL, HK_WIRE_BARE);
	for (size_t i = 0; i < HK_ARRAY_LEN(cases); i++)
		CHECK_MSG(hk_filter_match(&cases[i].f, frame, sizeof(frame)) == cases[i].match,
			  "case %zu", i);
	CHECK(sizeof(frame) <= HK_FILTER_BYTES);
	for (size_t len = 0; len < sizeof(frame); len++) /* too short to tell */
		CHECK(!hk_filter_match(&cases[1].f, frame, len));
	frame[12] = 8;
	CHECK(!hk_filter_match(&cases[1].f, frame, sizeof(frame)));
	CHECK(hk_filter_match(&cases[0].f, frame, 1)); /* without a condition all are wanted */
	hk_filter_text(&cases[9].f, text, sizeof(text));
	CHECK_STR(text, "job 00c0ffee rank 3");
	hk_filter_text(&cases[0].f, text, sizeof(text));
	CHECK(!*text);
}
