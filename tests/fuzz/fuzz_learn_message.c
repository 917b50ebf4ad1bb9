/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_learn_message.c: arbitrary bytes as messages to a learning node.
 *
 * The first byte chooses the merge and the size of slices. Each message then has a byte for its
 * sender and type, a byte for its length in words, and its content. Between messages the node
 * trains. In a second pass the target corrects version and fingerprint, so that the fuzzer gets
 * past them. The node's parameters must stay finite, and it must send only messages that it would
 * accept itself.
 */
#include "learn/gossip.h"
#include "tests/support/hk_test.h"

#include <math.h>

#define NODES 4
#define P     3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct hk_learn_model model = {HK_LEARN_LINEAR, P, 0, 0, false, 0.1};

static unsigned neighbours(void *arg, const uint16_t **list)
{
	static const uint16_t all[] = {1, 2, 3};

	(void)arg;
	*list = all;
	return 3;
}

static int pick(void *arg)
{
	return 1 + (int)(++*(unsigned *)arg % 3);
}

static bool alive(void *arg, uint16_t node)
{
	(void)arg;
	return node < NODES;
}

static void sent(void *arg, uint16_t dst, uint8_t type, const void *data, size_t len)
{
	struct hk_learn_slice_hdr slice;
	struct hk_learn_status_hdr status;
	const void *rest;

	(void)arg;
	CHECK(dst >= 1 && dst < NODES);
	if (type == HK_LEARN_T_STATUS)
		CHECK(hk_learn_status_parse(data, len, &status, &rest));
	else
		CHECK(hk_learn_slice_parse(data, len, &slice, &rest));
}

static void correct(uint8_t *m, size_t len, uint8_t type, const struct hk_learn_gossip *g)
{
	struct hk_learn_slice_hdr h;
	struct hk_learn_status_hdr s;

	if (type == HK_LEARN_T_STATUS && len >= sizeof(s)) {
		memcpy(&s, m, sizeof(s));
		s.version = HK_LEARN_VERSION;
		s.flags &= HK_LEARN_STATUS_F_HELLO | HK_LEARN_STATUS_F_STOP;
		s.reason = s.flags & HK_LEARN_STATUS_F_STOP ? 1 + s.reason % (HK_LEARN_STOPS - 1)
							    : 0;
		s.zero = 0;
		s.count = (uint16_t)((len - sizeof(s)) / sizeof(struct hk_learn_status_entry));
		s.fingerprint = g->fingerprint;
		memcpy(m, &s, sizeof(s));
	} else if (len >= sizeof(h)) {
		memcpy(&h, m, sizeof(h));
		h.version = HK_LEARN_VERSION;
		h.merge = (uint8_t)g->set->merge;
		h.slice = (uint16_t)(type - HK_LEARN_T_SLICE);
		h.slices = (uint16_t)g->slices;
		h.count = (uint16_t)((len - sizeof(h)) / sizeof(double));
		h.fingerprint = g->fingerprint;
		h.to_run = g->run;
		h.since_copy = h.since_copy < h.number ? h.since_copy : 0;
		memcpy(m, &h, sizeof(h));
	}
}

static void feed(struct hk_learn_gossip *g, const uint8_t *data, size_t size, bool right)
{
	while (size >= 2) {
		uint16_t src = data[0] % NODES;
		uint8_t type = data[0] / NODES % (HK_LEARN_T_SLICE + 3);
		size_t len = HK_MIN((size_t)data[1], size - 2);
		uint8_t *m = malloc(len ? len : 1);
		CHECK(m != NULL);
		memcpy(m, data + 2, len);
		if (right)
			correct(m, len, type, g);
		hk_learn_gossip_message(g, src, type, m, len);
		free(m);
		data += 2 + len;
		size -= 2 + len;
		if (!hk_learn_gossip_round(g))
			break;
		CHECK(hk_learn_guard_finite(g->train.w, g->parameters));
		for (unsigned i = 0; i < g->slices; i++)
			CHECK(g->slice[i].weight > 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const double x[] = {1, 2, 3, -1, 0, 1, 2, -2, 0, 1, 1, -1}, y[] = {1, -1, 0, 2};
	struct hk_learn_settings set;
	unsigned turn = 0;

	if (size < 1)
		return 0;
	hk_learn_defaults(&set);
	set.merge = data[0] % HK_LEARN_MERGES;
	struct hk_learn_gossip_config cfg = {
		.model = &model,
		.set = &set,
		.data = {x, y, 4},
		.nodes = NODES,
		.run = 7,
		.payload_max = sizeof(struct hk_learn_slice_hdr) +
			       (data[0] & 0x80 ? 2 : 4) * sizeof(double),
		.net = {&turn, neighbours, pick, alive, sent},
	};
	for (int right = 0; right < 2; right++) {
		struct hk_learn_gossip *g;
		CHECK(hk_learn_gossip_open(&cfg, &g, NULL) == 0);
		feed(g, data + 1, size - 1, right);
		hk_learn_gossip_close(g);
	}
	return 0;
}
