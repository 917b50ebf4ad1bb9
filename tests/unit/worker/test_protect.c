/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_protect.c: workers whose frames have keys, and frames that are not right.
 * The tests of messages, puts and multicasts run with each protection, too (each_way()).
 */
#include "tests/support/child.h"
#include "tests/support/pair.h"
#include "worker/tx.h"

static const struct hk_worker_counters *count(int which)
{
	return hk_worker_counters(end[which].w);
}

static unsigned asked;
static bool answer;

static bool on_stranger(void *arg, uint32_t endpoint, uint32_t epoch)
{
	CHECK(arg == &end[B] && endpoint == 1 && epoch == 100);
	asked++;
	if (answer)
		add_other_end(B);
	return answer;
}

static void open_with_stranger(enum hk_protection protection, bool known)
{
	with_protection = protection;
	stranger = on_stranger;
	asked = 0;
	answer = known;
	faults = "";
	open_both();
}

static void close_again(void)
{
	close_both();
	stranger = NULL;
	with_protection = HK_PROTECTION_OFF;
	job_key[A] = job_key[B] = NULL;
}

TEST(a_stranger_is_added_when_it_first_sends)
{
	for (int p = HK_PROTECTION_AUTH; p <= HK_PROTECTION_SEAL; p++) {
		open_with_stranger(p, true);
		message(A);
		UNTIL(end[B].messages == 1);
		CHECK_EQ(asked, 1);
		CHECK_EQ(count(B)->drop_seal, 0);
		message(B);
		UNTIL(end[A].messages == 1);
		close_again();
	}
}

/* Nobody knows the sender: its frames are counted, and the callback runs once in a millisecond at
 * the most. Meanwhile the sender tries again and again. */
TEST(an_unknown_stranger_is_refused)
{
	open_with_stranger(HK_PROTECTION_AUTH, false);
	uint64_t since = hk_worker_now(end[B].w);

	message(A);
	UNTIL(asked >= 2);
	uint64_t took = hk_worker_now(end[B].w) - since;

	CHECK_CMP(asked, <=, 1 + took / HK_MSEC);
	CHECK_CMP(count(B)->drop_seal, >=, asked);
	CHECK_EQ(end[B].messages, 0);
	answer = true; /* at last */
	UNTIL(end[B].messages == 1);
	close_again();
}

TEST(without_a_callback_a_peer_may_be_added_later)
{
	open_with_stranger(HK_PROTECTION_SEAL, false);
	message(A);
	UNTIL(count(B)->drop_seal > 0);
	add_other_end(B);
	UNTIL(end[B].messages == 1);
	close_again();
}

/* A job's key that only one side has. */
TEST(another_job_key_is_refused)
{
	static const uint8_t key[HK_KEY_LEN] = {1}, other[HK_KEY_LEN] = {2};

	for (int both = 0; both < 2; both++) {
		with_protection = HK_PROTECTION_AUTH;
		faults = "";
		job_key[A] = key;
		job_key[B] = both ? key : other;
		open_both();
		message(A);
		UNTIL(both ? end[B].messages == 1 : count(B)->drop_seal > 3);
		CHECK_EQ(end[B].messages, both);
		close_again();
	}
}

/* Frames without a tag, from somebody who knows job, endpoints and epochs. */
TEST(a_frame_without_a_tag_is_dropped)
{
	with_protection = HK_PROTECTION_AUTH;
	faults = "";
	open_both();
	message(A);
	UNTIL(end[B].messages == 1);

	struct rte_mbuf *m = rte_pktmbuf_alloc(end[A].w->bufs.pool);
	const struct hk_wire_hdr h = {.version = HK_WIRE_VERSION_BYTE(HK_WIRE_BARE),
				      .job = 1,
				      .src = 1,
				      .dst = 2,
				      .src_epoch = 100,
				      .dst_epoch = 100,
				      .type = HK_WIRE_DATA,
				      .psn = 1,
				      .am = AM,
				      .frags = 1};
	char *frame = rte_pktmbuf_append(m, HK_WIRE_DATA_OVERHEAD);

	hk_wire_eth_encode(frame, (uint8_t[6]){2}, (uint8_t[6]){2});
	hk_wire_hdr_encode(frame + HK_ETH_HLEN, &h);
	hk_tx_bare(end[A].w, 0, m);
	const struct hk_engine_counters *n = hk_engine_counters(hk_worker_engine(end[B].w));

	UNTIL(n->drop_protection == 1);
	message(A);
	UNTIL(end[B].messages == 2);
	close_again();
}

/* Every frame arrives twice, as if somebody had recorded it. */
TEST(replayed_frames_change_nothing)
{
	with_protection = HK_PROTECTION_AUTH;
	faults = ";faults=dup=1,seed=1";
	open_both();
	for (unsigned i = 0; i < 200; i++) {
		message(A);
		message(B);
		UNTIL(end[A].messages == i + 1 && end[B].messages == i + 1);
	}
	for (int i = 0; i < 2; i++) {
		const struct hk_engine_counters *n = hk_engine_counters(hk_worker_engine(end[i].w));

		CHECK_EQ(n->rx_packets, 200);
		CHECK_CMP(n->rx_duplicates, >=, 150);
		CHECK_EQ(end[i].messages, 200);
	}
	close_again();
}

static void finds_no_key(void)
{
	const uint64_t *word = (const void *)end[A].w->seal;

	for (unsigned i = 0; i < 256; i++)
		CHECK_EQ(word[i], 0);
}

/* Flags of the memory that has the keys: proc_pid_smaps(5). */
TEST(keys_are_in_no_core_dump_and_no_child)
{
	unsigned long from, to, at;
	bool there = false;
	unsigned found = 0;
	char line[512];

	open_with_stranger(HK_PROTECTION_AUTH, true);
	message(A);
	UNTIL(end[B].messages == 1);
	at = (unsigned long)(uintptr_t)end[A].w->seal;
	FILE *f = fopen("/proc/self/smaps", "re");

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			there = at >= from && at < to;
		else if (there && strncmp(line, "VmFlags:", 8) == 0)
			found += strstr(line, " dd") && strstr(line, " wf");
	fclose(f);
	CHECK_EQ(found, 1);
	child_runs(finds_no_key);
	close_again();
}
