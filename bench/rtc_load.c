/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/rtc_load.c: loads a receiver by a sender that has a rate of its own. The sender never waits
 * for answers (open loop), so overload loses messages, as in a network.
 *
 *   rtc_load --node 0 --peers FILE --backend raw --address hk0 --repeat 10 &
 *   rtc_load --node 1 --peers FILE --backend raw --address hk0 --repeat 10 --rate 500000
 *
 * Node 0 adds 32 numbers a message and returns the sum (the second experiment of Yamamoto,
 * Kawashima and Matsuo, 2022), or works for a time (the first one). It is an rtc node over any
 * backend. With --socket 1 it is a program with a UDP socket that sleeps in the kernel until
 * messages come, and node 1 has the backend udp. With --threads 1 it is a pipeline, the opposite of
 * run to completion: one thread receives and sends, and a second one computes.
 *
 * Node 1 sends. With --window N it keeps N requests open instead (closed loop), so that both kinds
 * of load can be compared. Both nodes print a line of JSON.
 */
#include "rtc_load.h"

#include <stdio.h>
#include <string.h>

#define KEY 7u
/* A node that is overloaded must not take the other for dead: ten of these intervals. */
#define ALIVE_MS 1000

struct load_options load = {.ms = 500, .repeat = 1};

static void on_load(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	void *payload[HK_RTC_BURST];
	uint16_t len[HK_RTC_BURST];

	(void)rtc;
	(void)arg;
	for (unsigned i = 0; i < n; i++) {
		payload[i] = msg[i].data;
		len[i] = msg[i].reply_max < ANSWER_LEN ? 0 : msg[i].len;
	}
	load_answer(payload, len, n);
	for (unsigned i = 0; i < n; i++) {
		if (!len[i])
			continue; /* dropped */
		msg[i].len = len[i];
		msg[i].action = HK_RTC_REPLY;
	}
}

static void on_mark(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	(void)rtc;
	(void)arg;
	for (unsigned i = 0; i < n; i++)
		load_mark(msg[i].type);
}

static void on_member(struct hk_rtc *rtc, void *arg, uint16_t node, bool joined)
{
	(void)arg;
	(void)node;
	if (!joined)
		hk_rtc_stop(rtc);
}

static int receive(struct hk_rtc_config *cfg)
{
	/* every message costs more than 1 ns, so after some bursts the handler thread gets all */
	const struct hk_rtc_type request = {
		.name = "load", .on_message = on_load, .budget_ns = cfg->threads ? 1 : 0};
	const struct hk_rtc_type mark = {
		.name = "mark", .class = HK_RTC_RETRY, .on_message = on_mark};
	struct hk_rtc_stats stats;

	cfg->on_member = on_member;
	struct hk_rtc *rtc = example_open(cfg, 2);
	example_register(rtc, LOAD, &request);
	example_register(rtc, MARK_BEGIN, &mark);
	example_register(rtc, MARK_END, &mark);
	hk_rtc_run(rtc);
	hk_rtc_stats(rtc, &stats);
	load_print(stats.tx_full);
	hk_rtc_close(rtc);
	return 0;
}

int main(int argc, char **argv)
{
	const struct example_option own[] = {
		{"rate", &load.rate, "node 1: messages a second; 0: as many as it can"},
		{"window", &load.window, "node 1: most open requests; 0: it never waits"},
		{"ms", &load.ms, "node 1: length of the load in ms"},
		{"repeat", &load.repeat, "how often the numbers are added, the same on both nodes"},
		{"plain", &load.plain, "node 0: 1: add by a plain loop in place of vectors"},
		{"hold", &load.hold, "work for so many ns in place of a sum; both nodes"},
		{"socket", &load.socket, "node 0: 1: a UDP socket at --address, not an rtc node"},
	};
	struct hk_rtc_config cfg;

	example_options(argc, argv, "node 1 sends node 0 messages at a rate of its own", own,
			HK_ARRAY_LEN(own), &cfg);
	if (cfg.node > 1 || load.ms < 1 || load.ms > 60000 || load.rate > 1000000000 ||
	    load.repeat < 1 || cfg.threads > 1 || load.hold > 100000 || load.window > 1024) {
		fprintf(stderr, "an option is out of range; fix: use --node 0 or 1, --ms 1 to "
				"60000, --rate up to 1000000000, --repeat from 1, --hold up to "
				"100000, --window up to 1024, --threads 0 or 1\n");
		return 2;
	}
	cfg.key = cfg.key ? cfg.key : KEY;
	cfg.nodes = 2;
	cfg.alive_ms = ALIVE_MS;
	if (cfg.node == 1)
		return load_send(&cfg);
	return load.socket ? load_by_socket(&cfg) : receive(&cfg);
}
