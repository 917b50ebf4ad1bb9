/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/gossip.c: nodes agree on the average of their numbers by talking to neighbours only
 * (Boyd, Ghosh, Prabhakar, Shah: Randomized gossip algorithms, 2006).
 *
 *   hikyaku lab mpirun -np 4 build/examples/gossip --rounds 200
 *
 * From time to time a node sends its number to a neighbour. Each then moves towards the other by
 * the same amount, so the sum of all numbers does not change. The reply tells the asking node by
 * how much it moves. Lost frames do no harm: with HK_RTC_RETRY a request is handled once, however
 * often it arrives.
 *
 * Both move by a quarter of their difference, not by half. Two nodes may ask each other at the same
 * moment and so move twice. Two moves by half would exchange their numbers, and while their clocks
 * agree this would happen in every round.
 */
#include "example.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MEET 1 /* the message type */

static double value;
static uint64_t rounds = 200, topology = HK_RTC_RING, asked, answered, given_up;
static uint64_t until = UINT64_MAX;

static void on_message(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	(void)rtc;
	(void)arg;
	for (unsigned i = 0; i < n; i++) {
		double theirs, step;
		if (msg[i].len != sizeof(theirs))
			continue;
		memcpy(&theirs, msg[i].data, sizeof(theirs));
		step = (theirs - value) / 4;
		if (!isfinite(step))
			continue; /* a reply without a payload: neither node moves */
		value += step;
		memcpy(msg[i].data, &step, sizeof(step));
		msg[i].action = HK_RTC_REPLY;
	}
}

static void on_reply(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	(void)rtc;
	(void)arg;
	answered += n;
	for (unsigned i = 0; i < n; i++) {
		double step;
		if (msg[i].len != sizeof(step))
			continue;
		memcpy(&step, msg[i].data, sizeof(step));
		value -= step;
	}
}

static void on_given_up(struct hk_rtc *rtc, void *arg, uint16_t dst, uint32_t number)
{
	(void)rtc;
	(void)arg;
	(void)dst;
	(void)number;
	answered++;
	given_up++;
}

static void on_tick(struct hk_rtc *rtc, void *arg)
{
	int neighbour = hk_rtc_pick(rtc);

	(void)arg;
	/* one request at a time: the value in it stays true until it is answered */
	if (asked < rounds && asked == answered && neighbour >= 0 &&
	    hk_rtc_send(rtc, (uint16_t)neighbour, MEET, &value, sizeof(value), NULL) == 0)
		asked++;
	/* at the end, stay a second for nodes that still ask */
	if (until == UINT64_MAX && asked == rounds && asked == answered)
		until = hk_rtc_now(rtc) + 1000 * 1000000;
	if (hk_rtc_now(rtc) > until)
		hk_rtc_stop(rtc);
}

int main(int argc, char **argv)
{
	const struct example_option own[] = {
		{"rounds", &rounds, "how often each node asks"},
		{"topology", &topology, "0 all, 1 ring, 2 random, 3 exponential"},
	};
	const struct hk_rtc_type type = {.name = "meet",
					 .class = HK_RTC_RETRY,
					 .on_message = on_message,
					 .on_reply = on_reply,
					 .on_given_up = on_given_up};
	struct hk_rtc_config cfg;
	struct hk_error err;

	example_options(argc, argv, "the average of all nodes' numbers, by gossip", own, 2, &cfg);
	cfg.topology = (enum hk_rtc_topology)topology;
	struct hk_rtc *rtc = example_open(&cfg, 2);
	value = 100.0 * hk_rtc_node(rtc);
	example_register(rtc, MEET, &type);
	/* wait for all nodes: the average includes only those that take part */
	if (hk_rtc_wait_all(rtc, &err) != 0) {
		fprintf(stderr, "%s\n", err.text);
		hk_rtc_close(rtc);
		return 1;
	}
	hk_rtc_timer(rtc, 0, 2 * 1000000, on_tick, NULL);
	hk_rtc_run(rtc);
	if (example_json) {
		example_print_stats(rtc);
		printf("{\"node\": %u, \"value\": %.9f, \"asked\": %llu, \"given_up\": %llu}\n",
		       hk_rtc_node(rtc), value, (unsigned long long)asked,
		       (unsigned long long)given_up);
	} else {
		printf("node %u: the average is %.9f after %llu exchanges; %llu given up\n",
		       hk_rtc_node(rtc), value, (unsigned long long)asked,
		       (unsigned long long)given_up);
	}
	hk_rtc_close(rtc);
	return given_up ? 1 : 0;
}
