/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/rtc_load_send.c: a sender whose clock says when a message is due (bench/pace.h).
 *
 * It sends all that is due, in bursts of at most 32, and receives one burst after each. So a flood
 * of answers cannot keep it from sending: answers that it is too slow for are lost. It sends a
 * message that a full port refuses no second time.
 */
#include "rtc_load.h"

#include "bench/pace.h"
#include "bench/quantiles.h"
#include "examples/add.h"

#include <stdio.h>
#include <string.h>

#define DEPTH      64              /* most messages of the pace at once */
#define SILENCE    (20 * HK_MSEC)  /* without an answer: all that come have come */
#define LOST_AFTER (100 * HK_MSEC) /* closed loop: open requests are lost */

static struct {
	uint64_t offered, no_buffer, returned, wrong, open;
	uint64_t last; /* time of the last answer */
	unsigned answered_mark;
	bool failed;
	struct hk_quantiles latency;
} seen;

static uint16_t first_number(uint64_t stamp)
{
	return (uint16_t)(stamp % 60000);
}

static void on_answer(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	uint64_t now = hk_rtc_now(rtc);

	(void)arg;
	for (unsigned i = 0; i < n; i++) {
		const char *p = msg[i].data;
		uint64_t stamp;
		uint32_t sum;
		if (msg[i].len != ANSWER_LEN) {
			seen.wrong++;
			continue;
		}
		memcpy(&sum, p, sizeof(sum));
		memcpy(&stamp, p + ANSWER_STAMP, sizeof(stamp));
		seen.wrong += stamp > now ||
			      (!load.hold && sum != add_expected(first_number(stamp), load.repeat));
		hk_quantiles_add(&seen.latency, stamp > now ? 0 : now - stamp);
	}
	seen.returned += n;
	seen.open -= HK_MIN(n, seen.open);
	seen.last = now;
}

static void on_marked(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	(void)rtc;
	(void)arg;
	for (unsigned i = 0; i < n; i++)
		seen.answered_mark = HK_MAX(seen.answered_mark, msg[i].type);
}

static void on_given_up(struct hk_rtc *rtc, void *arg, uint16_t dst, uint32_t number)
{
	(void)rtc;
	(void)arg;
	(void)dst;
	(void)number;
	seen.failed = true;
}

static void on_member(struct hk_rtc *rtc, void *arg, uint16_t node, bool joined)
{
	(void)rtc;
	(void)arg;
	(void)node;
	seen.failed |= !joined;
}

/* Sends @n messages, or fewer if buffers are missing. */
static void send_some(struct hk_rtc *rtc, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint16_t *v = hk_rtc_begin(rtc);
		uint64_t stamp = hk_rtc_now(rtc);
		seen.offered++;
		if (!v) {
			seen.no_buffer++;
			continue;
		}
		add_fill(v, first_number(stamp));
		memcpy((char *)v + STAMP_AT, &stamp, sizeof(stamp));
		if (hk_rtc_end(rtc, 0, LOAD, REQUEST_LEN, NULL) != 0) {
			seen.failed = true; /* the receiver has left */
			return;
		}
		seen.open++;
	}
	hk_rtc_flush(rtc);
}

/* The receiver's answer to a mark. False: it does not come. */
static bool mark(struct hk_rtc *rtc, uint8_t type)
{
	if (hk_rtc_send(rtc, 0, type, NULL, 0, NULL) != 0)
		return false;
	while (seen.answered_mark < type && !seen.failed) /* ends by on_given_up() */
		hk_rtc_poll(rtc);
	return seen.answered_mark >= type;
}

static uint64_t refused(const struct hk_rtc *rtc)
{
	struct hk_rtc_stats stats;

	hk_rtc_stats(rtc, &stats);
	return stats.tx_full;
}

/* How many messages may be sent now. */
static unsigned due(struct hk_pace *pace, uint64_t now)
{
	uint64_t n = load.rate ? hk_pace_due(pace, now) : HK_RTC_BURST;

	if (load.window) {
		if (seen.open >= load.window && now - seen.last > LOST_AFTER)
			seen.open = 0, seen.last = now;
		n = HK_MIN(n, load.window - HK_MIN(load.window, seen.open));
	}
	return (unsigned)HK_MIN(n, (uint64_t)HK_RTC_BURST);
}

/* Sends the load. Returns how long it took, in ns. */
static uint64_t run(struct hk_rtc *rtc, struct hk_pace *pace)
{
	uint64_t begin = hk_rtc_now(rtc), end = begin + load.ms * HK_MSEC, now = begin;

	hk_pace_start(pace, load.rate, DEPTH, begin);
	seen.last = begin;
	for (; now < end && !seen.failed; now = hk_rtc_now(rtc)) {
		unsigned n = due(pace, now);
		if (n) {
			send_some(rtc, n);
			if (load.rate)
				hk_pace_take(pace, n);
		}
		hk_rtc_poll(rtc);
	}
	return now - begin;
}

/* Receives the answers that are still on their way. */
static void drain(struct hk_rtc *rtc)
{
	uint64_t begin = hk_rtc_now(rtc);

	while (seen.returned < seen.offered && !seen.failed &&
	       hk_rtc_now(rtc) < HK_MAX(seen.last, begin) + SILENCE)
		hk_rtc_poll(rtc);
}

static int failure(struct hk_rtc *rtc, const char *why)
{
	fprintf(stderr, "%s; fix: start node 0 with the same --peers and --key\n", why);
	hk_rtc_close(rtc);
	return 1;
}

int load_send(struct hk_rtc_config *cfg)
{
	const struct hk_rtc_type request = {.name = "load", .on_reply = on_answer};
	const struct hk_rtc_type marks = {.name = "mark",
					  .class = HK_RTC_RETRY,
					  .on_reply = on_marked,
					  .on_given_up = on_given_up,
					  .timeout_us = 2000,
					  .tries = 12};
	struct hk_error err = {""};
	struct hk_pace pace;

	cfg->on_member = on_member;
	struct hk_rtc *rtc = example_open(cfg, 2);
	example_register(rtc, LOAD, &request);
	example_register(rtc, MARK_BEGIN, &marks);
	example_register(rtc, MARK_END, &marks);
	if (hk_rtc_wait_all(rtc, &err) != 0)
		return failure(rtc, err.text);
	if (!mark(rtc, MARK_BEGIN))
		return failure(rtc, "node 0 does not answer");
	uint64_t before = refused(rtc), ns = run(rtc, &pace);
	uint64_t dropped = refused(rtc) - before + seen.no_buffer;
	if (!mark(rtc, MARK_END))
		return failure(rtc, "node 0 has left or no longer answers");
	drain(rtc);
	printf("{\"offered\": %llu, \"refused\": %llu, \"skipped\": %llu, \"returned\": %llu, "
	       "\"wrong\": %llu, \"sending_ns\": %llu, \"p50_us\": %.3f, \"p99_us\": %.3f}\n",
	       (unsigned long long)seen.offered, (unsigned long long)dropped,
	       (unsigned long long)pace.skipped, (unsigned long long)seen.returned,
	       (unsigned long long)seen.wrong, (unsigned long long)ns,
	       (double)hk_quantiles_at(&seen.latency, 0.5) / 1e3,
	       (double)hk_quantiles_at(&seen.latency, 0.99) / 1e3);
	hk_rtc_close(rtc);
	if (seen.wrong)
		fprintf(stderr,
			"%llu answers are wrong; fix: give both nodes the same --repeat "
			"and --hold\n",
			(unsigned long long)seen.wrong);
	return seen.wrong != 0;
}
