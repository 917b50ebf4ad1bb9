/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_protect.c: messages with keys, between nodes and against somebody who hears
 * all frames and has recorded them. SEAL: payloads are encrypted.
 */
#include "rtc/keys.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/rtc/node_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- nodes with a secret --------------------------------------------------------------------- */

static uint8_t secret[4][HK_AGREE_LEN]; /* of each node */

static struct hk_rtc_protect *by_secret(const struct hk_rtc_config *c)
{
	const struct hk_rtc_keys_config k = {.node = c->node,
					     .nodes = c->nodes,
					     .key = c->key,
					     .secret = secret[c->node],
					     .seal = SEAL};
	struct hk_rtc_protect *p;

	CHECK_OK(hk_rtc_keys_open(&k, &p, ERR));
	return p;
}

/* Frames that somebody has recorded. */
static struct {
	uint16_t from, to;
	uint32_t len;
	uint8_t bytes[LOOP_FRAME];
} heard[4096];
static unsigned heard_n;

static void hear(uint16_t from, uint16_t to, const uint8_t *bytes, uint32_t len)
{
	CHECK_CMP(heard_n, <, HK_ARRAY_LEN(heard));
	heard[heard_n].from = from;
	heard[heard_n].to = to;
	heard[heard_n].len = len;
	memcpy(heard[heard_n++].bytes, bytes, len);
}

static struct seen seen;
static const struct hk_rtc_type plain_type = {.name = "plain", .on_message = note, .arg = &seen};

static void start(uint16_t i, uint16_t nodes, uint16_t epoch)
{
	struct hk_rtc_config c = config(i, nodes);
	node[i] = loop_open(&net, &c, epoch);
	add_type(node[i], 1, &plain_type);
}

static void begin(void)
{
	loop_init(&net, hk_test_now.seed);
	net.protect = by_secret;
	net.tap = hear;
	heard_n = 0;
	memset(secret, 0x5e, sizeof(secret));
	memset(node, 0, sizeof(node));
	memset(&seen, 0, sizeof(seen));
}

/* Runs for @intervals of alive messages. */
static void pass(unsigned n, unsigned intervals)
{
	loop_run(&net, node, n, intervals * 20, 5 * HK_MSEC);
}

static void begin_two(void)
{
	begin();
	start(0, 2, 1);
	start(1, 2, 1);
	pass(2, 4);
	CHECK(hk_rtc_members(node[0]) == 2 && hk_rtc_members(node[1]) == 2);
}

static struct hk_rtc_stats stats(unsigned i)
{
	struct hk_rtc_stats s;
	hk_rtc_stats(node[i], &s);
	return s;
}

TEST(nodes_meet_and_talk)
{
	begin_two();
	send_value(node[1], 0, 1, 17);
	pass(2, 1);
	CHECK_EQ(seen.messages, 1);
	CHECK_EQ(seen.values[0], 17);
	for (unsigned i = 0; i < 2; i++)
		CHECK(stats(i).forged == 0 && stats(i).replayed == 0);
	close_all(2);
}

TEST(only_seal_hides_payloads)
{
	unsigned readable = 0;

	begin_two();
	send_value(node[1], 0, 1, 0x5a17c0de);
	pass(2, 1);
	CHECK_EQ(seen.values[0], 0x5a17c0de);
	for (unsigned i = 0; i < heard_n; i++)
		readable += memmem(heard[i].bytes, heard[i].len, &seen.values[0], 4) != NULL;
	CHECK_EQ(readable, SEAL ? 0 : 1);
	close_all(2);
}

TEST(another_secret_does_not_join)
{
	begin();
	secret[1][0] ^= 1;
	start(0, 2, 1);
	start(1, 2, 1);
	pass(2, 40);
	CHECK(hk_rtc_members(node[0]) == 1 && hk_rtc_members(node[1]) == 1);
	CHECK(stats(0).forged > 0 && stats(1).forged > 0);
	close_all(2);
}

TEST(a_wait_for_nodes_with_another_secret_says_so)
{
	struct hk_rtc_config c = config(0, 2);

	begin();
	secret[1][0] ^= 1;
	c.timeout_ms = 300;
	node[0] = loop_open(&net, &c, 1);
	start(1, 2, 1);
	pass(2, 2);
	net.step = HK_MSEC; /* for each reading of the clock */
	CHECK_REFUSED(hk_rtc_wait_all(node[0], ERR), -ETIMEDOUT, "1 of 2 nodes did not join",
		      "fix: start them", "the same secret and protection");
	net.step = 0;
	close_all(2);
}

TEST(a_node_without_protection_does_not_join)
{
	begin();
	start(0, 2, 1);
	net.protect = NULL;
	start(1, 2, 1);
	pass(2, 4);
	CHECK(hk_rtc_members(node[0]) == 1 && hk_rtc_members(node[1]) == 1);
	CHECK(stats(0).forged > 0 && stats(1).forged > 0);
	close_all(2);
}

/* ---- attacks --------------------------------------------------------------------------------- */

/* Gives @bytes to node 0, which must count it as @forged or @replayed, and do nothing else. */
static void refused(const uint8_t *bytes, uint32_t len, unsigned forged, unsigned replayed)
{
	struct hk_rtc_stats before = stats(0), after;
	uint64_t sent = net.sent;
	unsigned messages = seen.messages, members = hk_rtc_members(node[0]);
	struct hk_rtc *all = node[1];

	node[1] = NULL; /* what it sends is not an answer */
	loop_inject(&net, 0, bytes, len);
	loop_run(&net, node, 1, 4, HK_USEC);
	node[1] = all;
	after = stats(0);
	CHECK_EQ(after.forged, before.forged + forged);
	CHECK_EQ(after.replayed, before.replayed + replayed);
	CHECK_EQ(after.rx_messages, before.rx_messages);
	CHECK_EQ(seen.messages, messages);
	CHECK_EQ(net.sent, sent);
	CHECK_EQ(hk_rtc_members(node[0]), members);
}

/* The last frame of the type that node 1 sent to node 0. */
static unsigned last_of(uint8_t type)
{
	for (unsigned i = heard_n; i-- > 0;)
		if (heard[i].from == 1 && heard[i].to == 0 && heard[i].bytes[1] == type)
			return i;
	CHECK_MSG(false, "no frame of type %u", type);
	return 0;
}

TEST(a_recorded_frame_is_refused)
{
	begin_two();
	send_value(node[1], 0, 1, 17);
	pass(2, 1);
	unsigned at = last_of(1), alive = last_of(HK_MSG_T_ALIVE);

	refused(heard[at].bytes, heard[at].len, 0, 1);
	refused(heard[alive].bytes, heard[alive].len, 0, 1);
	close_all(2);
}

TEST(a_changed_frame_is_refused)
{
	begin_two();
	net.cut[0] = true; /* it is recorded, but does not arrive */
	send_value(node[1], 0, 1, 17);
	hk_rtc_flush(node[1]);
	net.cut[0] = false;
	unsigned at = last_of(1);

	for (uint32_t i = 0; i < heard[at].len; i++) {
		struct hk_rtc_stats before = stats(0);
		uint8_t changed[LOOP_FRAME];

		memcpy(changed, heard[at].bytes, heard[at].len);
		changed[i] ^= (uint8_t)(1u << hk_rng_below(&hk_test_rng, 8));
		loop_inject(&net, 0, changed, heard[at].len);
		loop_run(&net, node, 1, 1, HK_USEC);
		struct hk_rtc_stats s = stats(0);
		/* a changed header may also be of another job, another node or malformed */
		CHECK_EQ(s.forged + s.bad + s.other_job + s.not_for_us + s.not_member,
			 before.forged + before.bad + before.other_job + before.not_for_us +
				 before.not_member + 1);
		CHECK_EQ(seen.messages, 0);
	}
	loop_inject(&net, 0, heard[at].bytes, heard[at].len);
	loop_run(&net, node, 1, 1, HK_USEC);
	CHECK_EQ(seen.messages, 1); /* it was right before it was changed */
	close_all(2);
}

TEST(a_reflected_frame_is_refused)
{
	struct hk_msg_hdr h;

	begin_two();
	send_value(node[0], 1, 1, 17);
	pass(2, 1);
	for (unsigned i = 0; i < heard_n; i++) {
		if (heard[i].from != 0)
			continue;
		CHECK_EQ(hk_msg_parse(heard[i].bytes, heard[i].len, &h), HK_MSG_OK);
		h.src = 1;
		h.dst = 0;
		hk_msg_encode(heard[i].bytes, &h);
		/* a member's greeting is ignored, also a genuine one */
		refused(heard[i].bytes, heard[i].len, h.type != HK_MSG_T_GREET, 0);
	}
	close_all(2);
}

TEST(a_leave_message_is_not_believed_from_others)
{
	const struct hk_msg_hdr h = {.ver_flags = HK_MSG_VERSION | HK_MSG_F_TAG,
				     .type = HK_MSG_T_LEAVE,
				     .src = 1,
				     .dst = 0,
				     .key = KEY,
				     .epoch = 1};
	uint8_t frame[HK_MSG_HLEN + HK_MSG_TRAILER_LEN] = {0};

	begin_two();
	hk_msg_encode(frame, &h);
	refused(frame, sizeof(frame), 1, 0);
	*frame &= (uint8_t)~HK_MSG_F_TAG;
	refused(frame, HK_MSG_HLEN, 1, 0);
	close_all(2);
}

static void inject_all(unsigned n, uint16_t to)
{
	for (unsigned i = 0; i < n; i++)
		if (heard[i].to == to)
			loop_inject(&net, to, heard[i].bytes, heard[i].len);
}

TEST(frames_of_an_old_incarnation_are_refused)
{
	begin_two();
	for (unsigned i = 0; i < 50; i++)
		send_value(node[1], 0, 1, i);
	pass(2, 1);
	CHECK_EQ(seen.messages, 50);
	loop_close(&net, node[1], true);
	node[1] = NULL;
	unsigned n = heard_n;

	/* while it is a member, and when it is lost */
	for (unsigned turn = 0; turn < 4; turn++) {
		inject_all(n, 0);
		pass(1, 5);
	}
	CHECK_EQ(hk_rtc_members(node[0]), 1);
	CHECK_EQ(seen.messages, 50);
	/* it restarts, and all comes again */
	start(1, 2, 2);
	pass(2, 20);
	CHECK_EQ(hk_rtc_members(node[0]), 2);
	CHECK_EQ(hk_rtc_members(node[1]), 2);
	struct hk_rtc_stats before = stats(0);
	inject_all(n, 0);
	pass(2, 1);
	CHECK_EQ(seen.messages, 50);
	CHECK(stats(0).forged > before.forged && stats(0).joined == before.joined &&
	      stats(0).lost == before.lost);
	send_value(node[1], 0, 1, 99);
	pass(2, 1);
	CHECK_EQ(seen.messages, 51);
	/* its second life ends, and the frames of its first one come again */
	loop_close(&net, node[1], true);
	node[1] = NULL;
	pass(1, 20);
	for (unsigned turn = 0; turn < 4; turn++) {
		inject_all(n, 0);
		pass(1, 5);
	}
	CHECK_EQ(hk_rtc_members(node[0]), 1);
	CHECK_EQ(seen.messages, 51);
	close_all(2);
}

TEST(a_restarted_receiver_refuses_frames_for_its_old_incarnation)
{
	begin_two();
	for (unsigned i = 0; i < 50; i++)
		send_value(node[1], 0, 1, i);
	pass(2, 1);
	loop_close(&net, node[0], true);
	node[0] = NULL;
	loop_close(&net, node[1], true);
	node[1] = NULL;
	unsigned n = heard_n;

	memset(&seen, 0, sizeof(seen));
	start(0, 2, 2);
	for (unsigned turn = 0; turn < 10; turn++) {
		inject_all(n, 0);
		pass(1, 1);
	}
	CHECK_EQ(hk_rtc_members(node[0]), 1);
	CHECK_EQ(seen.messages, 0);
	/* the greetings among them do not keep out the node itself */
	start(1, 2, 2);
	for (unsigned turn = 0; turn < 100 && hk_rtc_members(node[0]) < 2; turn++) {
		inject_all(n, 0);
		pass(2, 1);
	}
	CHECK_EQ(hk_rtc_members(node[0]), 2);
	close_all(2);
}

TEST(a_node_that_left_joins_again_soon)
{
	begin_two();
	loop_close(&net, node[1], false);
	pass(1, 1);
	CHECK_EQ(hk_rtc_members(node[0]), 1);
	start(1, 2, 2);
	pass(2, 4);
	CHECK(hk_rtc_members(node[0]) == 2 && hk_rtc_members(node[1]) == 2);
	close_all(2);
}

TEST(a_partition_heals)
{
	begin_two();
	net.cut[1] = true;
	pass(2, 20);
	CHECK(hk_rtc_members(node[0]) == 1 && hk_rtc_members(node[1]) == 1);
	net.cut[1] = false;
	pass(2, 5);
	CHECK(hk_rtc_members(node[0]) == 2 && hk_rtc_members(node[1]) == 2);
	/* one of them hears nothing for a while */
	net.mute[1] = true;
	pass(2, 30);
	net.mute[1] = false;
	pass(2, 15);
	CHECK(hk_rtc_members(node[0]) == 2 && hk_rtc_members(node[1]) == 2);
	send_value(node[1], 0, 1, 5);
	pass(2, 1);
	CHECK_EQ(seen.messages, 1);
	close_all(2);
}

static int by_counter(const void *a, const void *b)
{
	return memcmp(a, b, 10);
}

/* Over lost frames, resends, restarts of the other node and a partition. */
TEST(no_counter_repeats)
{
	static const struct hk_rtc_type retried = {
		.name = "retried", .class = HK_RTC_RETRY, .on_message = add_one, .tries = 100};
	static uint8_t used[HK_ARRAY_LEN(heard)][10];
	unsigned n = 0;

	begin();
	net.drop = 300000;
	start(0, 2, 1);
	start(1, 2, 1);
	add_type(node[0], 2, &retried);
	add_type(node[1], 2, &retried);
	for (unsigned turn = 0; turn < 3; turn++) {
		pass(2, 30);
		for (unsigned i = 0; i < 20 && hk_rtc_is_member(node[0], 1); i++)
			send_value(node[0], 1, 2, i);
		pass(2, 10);
		loop_close(&net, node[1], true);
		start(1, 2, (uint16_t)(turn + 2));
		add_type(node[1], 2, &retried);
	}
	for (unsigned i = 0; i < heard_n; i++) {
		const uint8_t *t = heard[i].bytes + heard[i].len - HK_MSG_TRAILER_LEN;
		if (heard[i].from != 0 || heard[i].bytes[1] == HK_MSG_T_GREET)
			continue;
		memcpy(used[n], &heard[i].to, 2);
		memcpy(used[n++] + 2, t, 8);
	}
	CHECK_CMP(n, >, 100);
	qsort(used, n, sizeof(used[0]), by_counter);
	for (unsigned i = 1; i < n; i++)
		CHECK(memcmp(used[i - 1], used[i], sizeof(used[0])) != 0);
	close_all(2);
}

TEST(a_flood_of_forged_greetings_costs_few_proofs)
{
	struct hk_msg_hdr h = {.ver_flags = HK_MSG_VERSION | HK_MSG_F_TAG,
			       .type = HK_MSG_T_GREET,
			       .len = HK_RTC_NONCE_LEN,
			       .src = 1,
			       .dst = 0,
			       .key = KEY,
			       .epoch = 1};
	uint8_t frame[HK_MSG_HLEN + HK_RTC_NONCE_LEN + HK_MSG_TRAILER_LEN];

	begin();
	start(0, 2, 1);
	pass(1, 1);
	for (unsigned i = 0; i < 1000; i++) {
		for (unsigned b = 0; b < sizeof(frame); b++)
			frame[b] = (uint8_t)hk_rng_next(&hk_test_rng);
		hk_msg_encode(frame, &h);
		refused(frame, sizeof(frame), 1, 0);
	}
	start(1, 2, 1);
	pass(2, 4);
	CHECK_EQ(hk_rtc_members(node[0]), 2);
	close_all(2);
}

/* ---- frame by frame -------------------------------------------------------------------------- */

struct frame {
	struct hk_msg_hdr h;
	struct hk_rtc_buf buf;
	uint8_t bytes[HK_MSG_HLEN + HK_RTC_NONCE_LEN + HK_MSG_TRAILER_LEN];
};

static void frame_set(struct frame *f, uint16_t from, uint8_t type, uint16_t len)
{
	*f = (struct frame){
		.h = {.ver_flags = HK_MSG_VERSION | HK_MSG_F_TAG,
		      .type = type,
		      .len = len,
		      .src = from,
		      .dst = !from,
		      .key = KEY,
		      .epoch = 1},
		.buf = {.len = HK_MSG_HLEN + len + HK_MSG_TRAILER_LEN, .dst = !from},
	};
	f->buf.hdr = f->bytes;
	hk_msg_encode(f->bytes, &f->h);
	memset(f->bytes + HK_MSG_HLEN, 'x', len);
}

static bool is_clear(const struct frame *f)
{
	for (unsigned i = 0; i < f->h.len; i++)
		if (f->bytes[HK_MSG_HLEN + i] != 'x')
			return false;
	return true;
}

static struct frame message_of(struct hk_rtc_protect *p, uint16_t from)
{
	struct frame f;
	struct hk_rtc_buf *m = &f.buf;

	frame_set(&f, from, 1, 24);
	p->apply(p, &m, 1);
	CHECK_EQ(is_clear(&f), !SEAL);
	return f;
}

static struct hk_rtc_protect *keys_of(uint16_t number)
{
	const struct hk_rtc_config c = {.node = number, .nodes = 2, .key = KEY};
	return by_secret(&c);
}

static void greet(struct hk_rtc_protect *from, uint16_t number, struct hk_rtc_protect *to)
{
	struct frame f;

	frame_set(&f, number, HK_MSG_T_GREET, HK_RTC_NONCE_LEN);
	CHECK(from->greet(from, !number, f.bytes));
	CHECK(to->greeted(to, f.bytes, &f.h, HK_SEC));
}

static void check_genuine(struct hk_rtc_protect *p, struct frame *f)
{
	CHECK_EQ(p->judge(p, f->bytes, &f->h), HK_RTC_GENUINE);
	CHECK(is_clear(f));
}

/* The node that gets it tries it with the keys of the earlier incarnation first. */
TEST(the_first_message_of_another_incarnation_has_a_payload)
{
	memset(secret, 0x5e, sizeof(secret));
	struct hk_rtc_protect *p[3] = {keys_of(0), keys_of(1), keys_of(1)};

	for (unsigned i = 1; i < 3; i++) {
		greet(p[i], 1, p[0]);
		greet(p[0], 0, p[i]);
		struct frame f = message_of(p[i], 1), kept = f;
		check_genuine(p[0], &f);
		CHECK_EQ(p[0]->judge(p[0], kept.bytes, &kept.h), HK_RTC_REPLAYED);
		f = message_of(p[0], 0);
		check_genuine(p[i], &f);
	}
	/* the earlier one is not believed any more */
	struct frame f = message_of(p[1], 1);
	CHECK_EQ(p[0]->judge(p[0], f.bytes, &f.h), HK_RTC_FORGED);
	for (unsigned i = 0; i < 3; i++)
		p[i]->close(p[i]);
}

/* ---- with a launcher ------------------------------------------------------------------------- */

/* The sessions are there at once, and a third node cannot speak for either. */
TEST(pairs_of_a_launcher)
{
	struct hk_rtc_protect *p[3];
	uint8_t frame[4][HK_MSG_HLEN + 8 + HK_MSG_TRAILER_LEN] = {0};
	struct hk_msg_hdr h = {.ver_flags = HK_MSG_VERSION | HK_MSG_F_TAG,
			       .type = 1,
			       .len = 8,
			       .src = 1,
			       .dst = 0,
			       .key = KEY,
			       .epoch = 1};

	for (uint16_t i = 0; i < 3; i++) {
		const struct hk_rtc_keys_config k = {
			.node = i, .nodes = 3, .key = KEY, .launcher = true, .seal = SEAL};
		CHECK_OK(hk_rtc_keys_open(&k, &p[i], ERR));
	}
	for (uint16_t i = 0; i < 3; i++)
		for (uint16_t j = 0; j < 3; j++)
			if (i != j)
				CHECK_OK(hk_rtc_keys_peer(p[i], j, hk_rtc_keys_public(p[j]), ERR));
	CHECK(!p[0]->greet && !p[0]->greeted && p[0]->ready(p[0], 1));
	for (uint16_t i = 1; i < 3; i++) {
		struct hk_rtc_buf b = {.hdr = frame[i], .len = sizeof(frame[i])}, *m = &b;
		hk_msg_encode(frame[i], &h);
		p[i]->apply(p[i], &m, 1);
	}
	memcpy(frame[3], frame[1], sizeof(frame[1]));
	CHECK_EQ(p[0]->judge(p[0], frame[2], &h), HK_RTC_FORGED);
	CHECK_EQ(p[0]->judge(p[0], frame[1], &h), HK_RTC_GENUINE);
	CHECK_EQ(p[0]->judge(p[0], frame[3], &h), HK_RTC_REPLAYED);
	/* each direction has a key, since both ends count from 1 */
	struct hk_rtc_buf b = {.hdr = frame[0], .len = sizeof(frame[0]), .dst = 1}, *m = &b;
	hk_msg_encode(frame[0], &h);
	p[0]->apply(p[0], &m, 1);
	CHECK(memcmp(frame[0] + HK_MSG_HLEN + 8, frame[1] + HK_MSG_HLEN + 8, 8) == 0);
	CHECK(memcmp(frame[0], frame[1], sizeof(frame[0])) != 0);
	for (unsigned i = 0; i < 3; i++)
		p[i]->close(p[i]);
}

TEST(an_invalid_public_key_is_refused)
{
	const struct hk_rtc_keys_config k = {.nodes = 2, .launcher = true};
	static const uint8_t zeros[HK_AGREE_LEN];
	struct hk_rtc_protect *p;

	CHECK_OK(hk_rtc_keys_open(&k, &p, ERR));
	CHECK_REFUSED(hk_rtc_keys_peer(p, 1, zeros, ERR), -EPROTO, "public key of node 1");
	p->close(p);
}

/* A message of one protection is forged for the other, also with the same secrets. */
TEST(auth_and_seal_have_other_keys)
{
	struct hk_rtc_keys_config k = {.nodes = 2, .key = KEY, .secret = secret[0], .seal = SEAL};
	struct hk_rtc_protect *p[2];

	memset(secret, 0x5e, sizeof(secret));
	for (uint16_t i = 0; i < 2; i++, k.seal = !SEAL) {
		k.node = i;
		CHECK_OK(hk_rtc_keys_open(&k, &p[i], ERR));
	}
	greet(p[0], 0, p[1]);
	greet(p[1], 1, p[0]);
	struct frame f = message_of(p[0], 0);
	CHECK_EQ(p[1]->judge(p[1], f.bytes, &f.h), HK_RTC_FORGED);
	for (unsigned i = 0; i < 2; i++)
		p[i]->close(p[i]);
}

/* ---- the file of the secret ------------------------------------------------------------------ */

static const char *written(const char *dir, const char *text, mode_t mode)
{
	static char path[256];
	snprintf(path, sizeof(path), "%s/secret", dir);
	FILE *f = fopen(path, "we");

	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, mode) == 0);
	return path;
}

#define DIGITS "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100"

TEST(the_file_of_a_secret)
{
	uint8_t s[HK_AGREE_LEN];
	char dir[TMP_PATH];
	const char *path;

	tmp_dir(dir);
	CHECK_OK(hk_rtc_secret_read(written(dir, DIGITS "\n", 0600), s, ERR));
	CHECK(s[0] == 0 && s[1] == 0x11 && s[15] == 0xff && s[16] == 0xff && s[31] == 0);
	CHECK_OK(hk_rtc_secret_read(written(dir, DIGITS, 0400), s, ERR));
	path = written(dir, DIGITS, 0640);
	CHECK_REFUSED(hk_rtc_secret_read(path, s, ERR), -EACCES, "mode 0640", "fix: chmod 600 ");
	path = written(dir, DIGITS, 0604);
	CHECK_REFUSED(hk_rtc_secret_read(path, s, ERR), -EACCES, "fix: chmod 600 ");
	static const char *const wrong[] = {"g" DIGITS,    "",        "\n", "0", DIGITS "0",
					    DIGITS "\n\n", DIGITS " "};
	for (size_t i = 0; i < HK_ARRAY_LEN(wrong); i++) {
		path = written(dir, wrong[i], 0600);
		CHECK_REFUSED(hk_rtc_secret_read(path, s, ERR), -EINVAL,
			      "64 hexadecimal digits; fix: (umask 077; openssl rand -hex 32 >");
	}
	remove(path);
	CHECK_REFUSED(hk_rtc_secret_read(path, s, ERR), -ENOENT, "openssl rand -hex 32 >");
	CHECK_REFUSED(hk_rtc_secret_read(dir, s, ERR), -EINVAL, "is not a file");
	tmp_gone(dir);
}
