/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_node.c: sending, handling of valid and invalid messages, and statistics.
 */
#include "tests/unit/rtc/node_rig.h"

#include <errno.h>

/* ---- sending and registering ----------------------------------------------------------------- */

TEST(request_and_reply)
{
	struct seen asked = {0}, answered = {0};
	struct hk_rtc_type server = {.name = "add", .on_message = add_one, .arg = &asked};
	struct hk_rtc_type client = {.name = "add", .on_reply = note, .arg = &answered};

	open_two(7, &server, &client);
	for (uint32_t i = 0; i < 40; i++)
		send_value(node[1], 0, 7, i);
	loop_run(&net, node, 2, 20, 2 * HK_USEC);
	CHECK_EQ(asked.messages, 40);
	CHECK_EQ(answered.messages, 40);
	CHECK(asked.largest == HK_RTC_BURST); /* in bursts of 32 */
	for (uint32_t i = 0; i < 40; i++) {
		CHECK_EQ(answered.values[i], i + 1);
		CHECK_EQ(answered.numbers[i], asked.numbers[i]);
	}
	CHECK_EQ(stats_of(node[0], 7).replied, 40);
	CHECK_EQ(stats_of(node[1], 7).sent, 40);
	CHECK_EQ(stats_of(node[1], 7).replies, 40);
	close_all(2);
}

/* A mixed burst becomes one run for each type, in the order in which it was sent. */
TEST(runs_of_a_type)
{
	static struct seen seen;
	struct hk_rtc_type t = {.name = "t", .on_message = note, .arg = &seen};

	memset(&seen, 0, sizeof(seen));
	open_all(2);
	for (uint8_t i = 0; i < 2; i++)
		for (uint8_t type = 10; type < 13; type++)
			add_type(node[i], type, &t);
	meet(2);
	for (uint32_t i = 0; i < 30; i++)
		send_value(node[1], 0, (uint8_t)(10 + hk_rng_below(&hk_test_rng, 3)), i);
	loop_run(&net, node, 2, 10, 2 * HK_USEC);
	CHECK_EQ(seen.messages, 30);
	CHECK_EQ(seen.calls, 3);
	for (unsigned i = 1; i < 30; i++)
		CHECK(seen.types[i] != seen.types[i - 1] || seen.values[i] > seen.values[i - 1]);
	close_all(2);
}

TEST(without_copy)
{
	struct seen seen = {0};
	struct hk_rtc_type t = {.name = "t", .on_message = note, .arg = &seen};

	open_two(0, &t, &t);
	void *at = hk_rtc_begin(node[1]);
	CHECK(at != NULL && (uintptr_t)at % 32 == 0);
	CHECK(hk_rtc_begin(node[1]) == at); /* the same buffer */
	memcpy(at, &(uint32_t){77}, 4);
	CHECK_EQ(hk_rtc_end(node[1], 0, 99, 4, NULL), -EINVAL); /* the message is still begun */
	CHECK_EQ(hk_rtc_end(node[1], 0, 0, 4, NULL), 0);
	CHECK_EQ(hk_rtc_end(node[1], 0, 0, 4, NULL), -EAGAIN); /* no message was begun */
	loop_run(&net, node, 2, 10, 2 * HK_USEC);
	CHECK_EQ(seen.messages, 1);
	CHECK_EQ(seen.values[0], 77);
	CHECK(hk_rtc_begin(node[1]) != NULL); /* closing the node frees a begun message */
	close_all(2);
}

TEST(sends_that_cannot_be)
{
	struct hk_rtc_type t = {.name = "t"};
	char big[LOOP_PAYLOAD + 1] = "";

	open_all(2);
	add_type(node[1], 0, &t);
	CHECK_EQ(hk_rtc_send(node[1], 0, 0, "x", 1, NULL), -ENOTCONN); /* not members yet */
	meet(2);
	CHECK_EQ(hk_rtc_send(node[1], 0, 1, "x", 1, NULL), -EINVAL);
	CHECK_EQ(hk_rtc_send(node[1], 0, 255, "x", 1, NULL), -EINVAL);
	CHECK_EQ(hk_rtc_send(node[1], 1, 0, "x", 1, NULL), -EINVAL);
	CHECK_EQ(hk_rtc_send(node[1], 2, 0, "x", 1, NULL), -ENOTCONN);
	CHECK_EQ(hk_rtc_send(node[1], 0, 0, big, sizeof(big), NULL), -EMSGSIZE);
	CHECK_EQ(hk_rtc_send(node[1], 0, 0, big, sizeof(big) - 1, NULL), 0);
	CHECK_EQ(hk_rtc_send(node[1], 0, 0, NULL, 0, NULL), 0);
	loop_run(&net, node, 2, 5, 2 * HK_USEC);
	struct hk_rtc_stats s;
	hk_rtc_stats(node[0], &s);
	CHECK_EQ(s.unknown_type, 2); /* node 0 has no types */
	close_all(2);
}

TEST(registrations_that_cannot_be)
{
	const struct hk_rtc_type ok = {.name = "t"};
	struct hk_rtc_type t = ok;

	open_all(1);
	CHECK_REFUSED(hk_rtc_register(node[0], HK_RTC_MAX_TYPES, &t, ERR), -EINVAL, "fix: ");
	t.name = "";
	CHECK_EQ(hk_rtc_register(node[0], 0, &t, ERR), -EINVAL);
	t = ok;
	t.class = HK_RTC_RETRY + 1;
	CHECK_EQ(hk_rtc_register(node[0], 0, &t, ERR), -EINVAL);
	t = ok;
	t.budget_ns = UINT32_MAX;
	CHECK_EQ(hk_rtc_register(node[0], 0, &t, ERR), -EINVAL);
	CHECK_OK(hk_rtc_register(node[0], 0, &ok, ERR));
	CHECK_EQ(hk_rtc_register(node[0], 0, &ok, ERR), -EEXIST);
	hk_rtc_poll(node[0]);
	CHECK_EQ(hk_rtc_register(node[0], 1, &ok, ERR), -EBUSY);
	close_all(1);
}

TEST(configurations_that_cannot_be)
{
	static const struct {
		uint16_t node, nodes;
		unsigned buffers, alive, threads;
		const char *says;
	} bad[] = {
		{0, 0, 0, 0, 0, "1 to 1024"},      {0, 1025, 0, 0, 0, "1 to 1024"},
		{4, 4, 0, 0, 0, "from 0 to 3"},    {0, 1, 10, 0, 0, "256 to"},
		{0, 1, 0, 10001, 0, "at most 10"}, {0, 1, 0, 0, 65, "at most 64"},
	};
	struct hk_rtc *r;

	loop_init(&net, 1);
	for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++) {
		struct hk_rtc_config c = config(bad[i].node, bad[i].nodes);
		c.buffers = bad[i].buffers;
		c.alive_ms = bad[i].alive;
		c.threads = bad[i].threads;
		CHECK_REFUSED(loop_try(&net, &c, 1, &r, ERR), -EINVAL, bad[i].says);
	}
	int nowhere[] = {1000};
	struct hk_rtc_config c = config(0, 1);
	c.threads = 1;
	c.thread_cpu = nowhere;
	CHECK(loop_try(&net, &c, 1, &r, ERR) < 0);
	CHECK_HAS(hk_test_err.text, "CPU");
}

/* ---- received messages ----------------------------------------------------------------------- */

TEST(strange_messages)
{
	struct seen seen = {0};
	struct hk_rtc_type t = {.name = "t", .on_message = note, .arg = &seen};
	const struct hk_msg_hdr good = {.ver_flags = HK_MSG_VERSION,
					.src = 1,
					.dst = 0,
					.key = KEY,
					.number = 1,
					.epoch = 1};
	struct hk_msg_hdr h;
	struct hk_rtc_stats s;
	uint8_t bytes[HK_MSG_HLEN + 40] = {0};

	open_two(0, &t, &t);
#define BRINGS(change, length)                                                                     \
	do {                                                                                       \
		h = good;                                                                          \
		change;                                                                            \
		hk_msg_encode(bytes, &h);                                                          \
		loop_inject(&net, 0, bytes, length);                                               \
	} while (0)
	BRINGS(h.ver_flags = 2, sizeof(bytes));
	BRINGS(h.len = 41, sizeof(bytes));
	BRINGS(h.len = 0, 17);
	BRINGS(h.key++, sizeof(bytes));
	BRINGS(h.dst = 2, sizeof(bytes));
	BRINGS(h.src = 2, sizeof(bytes));
	BRINGS(h.src = 0xffff, sizeof(bytes));
	BRINGS(h.type = 5, sizeof(bytes));
	BRINGS(h.type = 250, sizeof(bytes));
	BRINGS(h.type = HK_MSG_T_GREET, sizeof(bytes));
	BRINGS(h.ver_flags |= HK_MSG_F_TAG, sizeof(bytes));   /* this node has no keys */
	BRINGS(h.epoch = 0xfff0, sizeof(bytes));              /* from an earlier incarnation */
	BRINGS(h.ver_flags |= HK_MSG_F_REPLY, sizeof(bytes)); /* a reply without a request */
	loop_run(&net, node, 2, 2, HK_USEC);
	hk_rtc_stats(node[0], &s);
	CHECK_EQ(s.bad, 3);
	CHECK_EQ(s.other_job, 1);
	CHECK_EQ(s.not_for_us, 1);
	CHECK_EQ(s.not_member, 3);
	CHECK_EQ(s.unknown_type, 3);
	CHECK_EQ(s.forged, 1);
	CHECK_EQ(seen.messages, 0);
	BRINGS(h.len = 40, sizeof(bytes));
	loop_run(&net, node, 2, 2, HK_USEC);
	CHECK_EQ(seen.messages, 1);
	close_all(2);
}

TEST(random_bytes)
{
	struct seen seen = {0};
	struct hk_rtc_type t[] = {{.name = "a", .on_message = note, .arg = &seen},
				  {.name = "b", .class = HK_RTC_LATEST, .on_message = add_one},
				  {.name = "c", .class = HK_RTC_RETRY, .on_message = add_one}};

	open_all(3);
	for (uint8_t i = 0; i < 3; i++)
		add_type(node[0], i, &t[i]);
	for (unsigned i = 0; i < 10000; i++) {
		uint8_t bytes[HK_MSG_HLEN + 30];
		struct hk_msg_hdr h;
		for (unsigned k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)hk_rng_next(&hk_test_rng);
		memcpy(&h, bytes, sizeof(h));
		h.ver_flags = (uint8_t)((h.ver_flags & 0x70) | HK_MSG_VERSION);
		h.key = KEY;
		h.dst = 0;
		h.src = (uint16_t)hk_rng_below(&hk_test_rng, 4);
		h.len %= 40;
		h.type = h.type & 8 ? (uint8_t)(0xf0 | h.type) : h.type % 4;
		h.epoch %= 4;
		if (hk_rng_below(&hk_test_rng, 8))
			hk_msg_encode(bytes, &h);
		loop_inject(&net, 0, bytes, hk_rng_below(&hk_test_rng, sizeof(bytes) + 1));
		loop_run(&net, node, 3, i % 4 == 0, 50 * HK_USEC);
	}
	loop_run(&net, node, 1, 10, HK_USEC);
	close_all(3);
}

/* ---- statistics ------------------------------------------------------------------------------ */

TEST(json)
{
	struct hk_rtc_type t = {.name = "a \"quoted\" name", .on_message = add_one};
	char text[4096], small[64];

	open_all(2);
	add_type(node[0], 5, &t);
	meet(2);
	int n = hk_rtc_stats_json(node[0], text, sizeof(text));
	CHECK(n > 0 && strlen(text) == (size_t)n && text[0] == '{' && text[n - 1] == '}');
	CHECK(strstr(text, "\"backend\": \"loop\"") && strstr(text, "\"members\": 2"));
	CHECK(strstr(text, "\"a \\\"quoted\\\" name\": {\"type\": 5, \"budget_ns\": 0"));
	CHECK(!strchr(text, '\n'));
	CHECK_EQ(hk_rtc_stats_json(node[0], small, sizeof(small)), -ENOSPC);
	CHECK(strlen(small) < sizeof(small));
	CHECK_EQ(hk_rtc_stats_json(node[0], text, (size_t)n), -ENOSPC);
	CHECK_EQ(hk_rtc_stats_json(node[0], text, (size_t)n + 1), n);
	close_all(2);
}
