/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/rtc_keys.c: the time that keys add to a message of rtc at either end.
 *
 *   taskset -c 0 rtc_keys
 *
 * It protects and judges bursts of messages of several lengths, many times, with auth and with
 * seal. It prints the best time of each in nanoseconds a message. The best is the cost of the code,
 * whatever else the machine does.
 */
#include "base/clock.h"
#include "rtc/keys.h"

#include <stdio.h>
#include <stdlib.h>

#define LONGEST 1454 /* bytes of payload in a frame of 1500 */
#define TIMES   5000

static const uint16_t lengths[] = {4, 64, 110, LONGEST};

static struct hk_rtc_protect *node[2];
static uint8_t frame[HK_RTC_BURST][HK_MSG_HLEN + LONGEST + HK_MSG_TRAILER_LEN];

static void check(int rc, const struct hk_error *err)
{
	if (rc == 0)
		return;
	fprintf(stderr, "rtc_keys: %s\n", err->text);
	exit(1);
}

static void open_nodes(bool seal)
{
	struct hk_error err;

	for (uint16_t i = 0; i < 2; i++) {
		const struct hk_rtc_keys_config k = {
			.node = i, .nodes = 2, .key = 1, .launcher = true, .seal = seal};
		check(hk_rtc_keys_open(&k, &node[i], &err), &err);
	}
	for (uint16_t i = 0; i < 2; i++)
		check(hk_rtc_keys_peer(node[i], !i, hk_rtc_keys_public(node[!i]), &err), &err);
}

static void measure(uint16_t len)
{
	const struct hk_msg_hdr h = {.ver_flags = HK_MSG_VERSION | HK_MSG_F_TAG,
				     .type = 1,
				     .len = len,
				     .src = 0,
				     .dst = 1,
				     .key = 1,
				     .epoch = 1};
	struct hk_rtc_buf buf[HK_RTC_BURST], *m[HK_RTC_BURST];
	uint64_t apply = UINT64_MAX, judge = UINT64_MAX;
	unsigned wrong = 0;

	for (unsigned i = 0; i < HK_RTC_BURST; i++) {
		hk_msg_encode(frame[i], &h);
		buf[i] = (struct hk_rtc_buf){
			.hdr = frame[i], .len = HK_MSG_HLEN + len + HK_MSG_TRAILER_LEN, .dst = 1};
		m[i] = &buf[i];
	}
	for (unsigned t = 0; t < TIMES; t++) {
		uint64_t start = hk_clock_ns();
		node[0]->apply(node[0], m, HK_RTC_BURST);
		uint64_t applied = hk_clock_ns();
		for (unsigned i = 0; i < HK_RTC_BURST; i++)
			wrong += node[1]->judge(node[1], frame[i], &h) != HK_RTC_GENUINE;
		uint64_t end = hk_clock_ns();
		apply = HK_MIN(apply, applied - start);
		judge = HK_MIN(judge, end - applied);
	}
	printf("%4u bytes: apply %.1f ns, judge %.1f ns\n", len, (double)apply / HK_RTC_BURST,
	       (double)judge / HK_RTC_BURST);
	if (wrong) {
		fprintf(stderr, "rtc_keys: %u messages were refused\n", wrong);
		exit(1);
	}
}

int main(void)
{
	for (int seal = 0; seal < 2; seal++) {
		open_nodes(seal);
		printf("%s\n", seal ? "seal" : "auth");
		for (size_t i = 0; i < HK_ARRAY_LEN(lengths); i++)
			measure(lengths[i]);
		for (unsigned i = 0; i < 2; i++)
			node[i]->close(node[i]);
	}
	return 0;
}
