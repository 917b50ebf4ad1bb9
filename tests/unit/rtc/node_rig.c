/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/rtc/node_rig.c: see node_rig.h. */
#include "tests/unit/rtc/node_rig.h"

struct loop_net net;
struct hk_rtc *node[4];

struct hk_rtc_config config(uint16_t self, uint16_t nodes)
{
	struct hk_rtc_config c;
	hk_rtc_defaults(&c);
	c.node = self;
	c.nodes = nodes;
	c.key = KEY;
	c.buffers = 512;
	return c;
}

void add_type(struct hk_rtc *r, uint8_t type, const struct hk_rtc_type *t)
{
	CHECK_OK(hk_rtc_register(r, type, t, ERR));
}

void open_all(unsigned n)
{
	loop_init(&net, hk_test_now.seed);
	memset(node, 0, sizeof(node));
	for (unsigned i = 0; i < n; i++) {
		struct hk_rtc_config c = config((uint16_t)i, (uint16_t)n);
		node[i] = loop_open(&net, &c, 1);
	}
}

void meet(unsigned n)
{
	loop_run(&net, node, n, 20, 2 * HK_USEC);
	for (unsigned i = 0; i < n; i++)
		CHECK_EQ(hk_rtc_members(node[i]), n);
}

void open_two(uint8_t type, const struct hk_rtc_type *server, const struct hk_rtc_type *client)
{
	open_all(2);
	add_type(node[0], type, server);
	add_type(node[1], type, client);
	meet(2);
}

void close_all(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (node[i])
			loop_close(&net, node[i], false);
	loop_done(&net);
}

struct hk_rtc_type_stats stats_of(struct hk_rtc *r, uint8_t type)
{
	struct hk_rtc_type_stats s;
	CHECK(hk_rtc_type_stats(r, type, &s));
	return s;
}

static uint32_t value_of(const struct hk_msg *m)
{
	uint32_t v = 0;
	memcpy(&v, m->data, HK_MIN(sizeof(v), m->len));
	return v;
}

void note(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	struct seen *s = arg;
	CHECK(n >= 1 && n <= HK_RTC_BURST);
	s->calls++;
	s->largest = HK_MAX(s->largest, n);
	for (unsigned i = 0; i < n; i++) {
		unsigned at = s->messages++ % 1024;
		CHECK_EQ(m[i].action, HK_RTC_DONE);
		CHECK_EQ(m[i].reply_max, LOOP_PAYLOAD);
		s->values[at] = value_of(&m[i]);
		s->numbers[at] = m[i].number;
		s->types[at] = m[i].type;
		CHECK_EQ(m[i].type, m[0].type);
	}
}

void add_one(struct hk_rtc *r, void *arg, struct hk_msg *m, unsigned n)
{
	if (arg)
		note(r, arg, m, n);
	for (unsigned i = 0; i < n; i++) {
		uint32_t v = value_of(&m[i]) + 1;
		memcpy(m[i].data, &v, sizeof(v));
		m[i].action = HK_RTC_REPLY;
	}
}

void send_value(struct hk_rtc *r, uint16_t dst, uint8_t type, uint32_t v)
{
	CHECK_EQ(hk_rtc_send(r, dst, type, &v, sizeof(v), NULL), 0);
}
