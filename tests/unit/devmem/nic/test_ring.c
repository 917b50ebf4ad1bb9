/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/nic/test_ring.c: frames from one NIC to another, and everything that a peer can
 * write wrongly.
 */
#include "devmem/nic/ring.h"
#include "tests/support/hk_test.h"

/* One direction of a link. */
static struct hk_nic_inbound inbound;
static _Atomic uint32_t credit;
static uint8_t window[HK_NIC_WINDOW];
static struct hk_nic_sender to;
static struct hk_nic_receiver from;

static void start(void)
{
	memset(&inbound, 0, sizeof(inbound));
	credit = 0;
	to = (struct hk_nic_sender){.descriptor = inbound.descriptor,
				    .doorbell = &inbound.doorbell,
				    .credit = &credit,
				    .window = window};
	from = (struct hk_nic_receiver){.descriptor = inbound.descriptor,
					.doorbell = &inbound.doorbell,
					.credit = &credit,
					.window = window};
}

/* Fills frame number @n, whose length and bytes follow from it. */
static uint32_t length_of(uint32_t n)
{
	return HK_NIC_FRAME_MIN + n * 7919u % (HK_NIC_FRAME_MAX - HK_NIC_FRAME_MIN + 1);
}

static void send(uint32_t n)
{
	uint32_t length = length_of(n);

	memset(hk_nic_sender_place(&to, length), (int)(n % 251), length);
}

static void receive(uint32_t *n, unsigned most)
{
	int waiting = hk_nic_receiver_waiting(&from);

	CHECK(waiting >= 0);
	unsigned take = HK_MIN((unsigned)waiting, most);
	for (unsigned i = 0; i < take; i++, ++*n) {
		uint32_t length;
		const uint8_t *frame = hk_nic_receiver_frame(&from, i, &length);
		CHECK(frame && length == length_of(*n));
		for (uint32_t at = 0; at < length; at++)
			CHECK_EQ(frame[at], *n % 251);
	}
	hk_nic_receiver_release(&from, take);
}

TEST(frames_arrive_in_order_and_unchanged)
{
	uint32_t sent = 0, came = 0;

	start();
	while (came < 20000) {
		CHECK(hk_nic_sender_refresh(&to));
		if (hk_nic_sender_has_space(&to)) {
			for (uint64_t n = hk_rng_range(&hk_test_rng, 1, HK_NIC_BURST); n; n--)
				send(sent++);
			hk_nic_sender_notify(&to);
		} else {
			CHECK(sent > came);
		}
		receive(&came, (unsigned)hk_rng_below(&hk_test_rng, HK_NIC_BURST + 1));
	}
}

TEST(counters_wrap)
{
	uint32_t came = 0, sent = 0;

	start();
	to.sent = to.taken = from.taken = UINT32_MAX - 100;
	inbound.doorbell = credit = UINT32_MAX - 100;
	for (unsigned i = 0; i < 10; i++) {
		CHECK(hk_nic_sender_refresh(&to) && hk_nic_sender_has_space(&to));
		for (unsigned n = 0; n < HK_NIC_BURST; n++)
			send(sent++);
		hk_nic_sender_notify(&to);
		receive(&came, HK_NIC_BURST);
	}
	CHECK_EQ(came, 10 * HK_NIC_BURST);
}

TEST(a_full_ring_or_window_has_no_space)
{
	start();
	for (unsigned i = 0; i < HK_NIC_RING - HK_NIC_BURST; i++)
		(void)hk_nic_sender_place(&to, 64);
	CHECK(hk_nic_sender_has_space(&to));
	(void)hk_nic_sender_place(&to, 64);
	CHECK(!hk_nic_sender_has_space(&to));
	start();
	while (hk_nic_sender_has_space(&to))
		(void)hk_nic_sender_place(&to, HK_NIC_FRAME_MAX);
	for (unsigned i = 0; i < HK_NIC_BURST - 1; i++)
		(void)hk_nic_sender_place(&to, HK_NIC_FRAME_MAX);
	CHECK_CMP(to.head, <=, HK_NIC_WINDOW);
}

TEST(a_wrong_descriptor_gives_no_frame)
{
	static const struct hk_nic_descriptor wrong[] = {
		{0, 0},
		{0, HK_NIC_FRAME_MIN - 1},
		{0, HK_NIC_FRAME_MAX + 1},
		{0, UINT32_MAX},
		{HK_NIC_WINDOW, HK_NIC_FRAME_MIN},
		{HK_NIC_WINDOW - HK_NIC_FRAME_MIN + 1, HK_NIC_FRAME_MIN},
		{HK_NIC_WINDOW - 1, HK_NIC_FRAME_MAX},
		{UINT32_MAX, HK_NIC_FRAME_MIN},
		{UINT32_MAX - HK_NIC_FRAME_MIN + 1, HK_NIC_FRAME_MIN},
	};
	uint32_t length;

	for (size_t i = 0; i < HK_ARRAY_LEN(wrong); i++) {
		start();
		inbound.descriptor[0] = wrong[i];
		inbound.doorbell = 1;
		CHECK_EQ(hk_nic_receiver_waiting(&from), 1);
		CHECK_MSG(!hk_nic_receiver_frame(&from, 0, &length), "descriptor %zu", i);
	}
	inbound.descriptor[0] = (struct hk_nic_descriptor){HK_NIC_WINDOW - HK_NIC_FRAME_MIN,
							   HK_NIC_FRAME_MIN};
	CHECK(hk_nic_receiver_frame(&from, 0, &length) ==
	      window + HK_NIC_WINDOW - HK_NIC_FRAME_MIN);
}

TEST(an_impossible_doorbell_is_refused)
{
	start();
	inbound.doorbell = HK_NIC_RING;
	CHECK_EQ(hk_nic_receiver_waiting(&from), HK_NIC_BURST);
	inbound.doorbell = HK_NIC_RING + 1;
	CHECK_EQ(hk_nic_receiver_waiting(&from), -1);
	inbound.doorbell = UINT32_MAX; /* backwards */
	CHECK_EQ(hk_nic_receiver_waiting(&from), -1);
}

TEST(an_impossible_credit_is_refused)
{
	start();
	for (unsigned i = 0; i < 10; i++)
		send(i);
	credit = 4;
	CHECK(hk_nic_sender_refresh(&to));
	CHECK_EQ(to.taken, 4);
	credit = 3; /* backwards */
	CHECK(!hk_nic_sender_refresh(&to));
	credit = 11;
	CHECK(!hk_nic_sender_refresh(&to));
	credit = 10;
	CHECK(hk_nic_sender_refresh(&to));
	CHECK_EQ(to.tail, to.head);
}
