/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/sum.c: node 0 returns sums of 32 numbers of 16 bits; the other nodes ask (the second
 * experiment of Yamamoto, Kawashima and Matsuo, 2022).
 *
 *   hikyaku lab mpirun -np 2 build/examples/sum --messages 10000000 --repeat 10
 *
 * Each client keeps a window of open requests and checks each reply. Node 0 ends when all clients
 * have left.
 */
#include "add.h"
#include "example.h"

#include <stdio.h>
#include <string.h>

#define SUM 1 /* the message type */

static uint64_t repeat = 1, messages, window = 64, ms, plain;

#define USUAL_MS 2000 /* without --messages and --ms */

static bool server_left;

#define SILENT_MS 1000 /* ten alive intervals, of 100 ms without a setting */

/* ---- the server ------------------------------------------------------------------------------ */

/* At its start the program chooses the version for AVX2 or for other processors. */
__attribute__((target_clones("avx2", "default"))) static void
on_message(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	(void)rtc;
	(void)arg;
	for (unsigned i = 0; i < n; i++) {
		if (msg[i].len != ADD_VALUES * sizeof(uint16_t))
			continue; /* dropped */
		uint32_t total = add_values(msg[i].data, repeat, plain);
		memcpy(msg[i].data, &total, sizeof(total));
		msg[i].len = sizeof(total);
		msg[i].action = HK_RTC_REPLY;
	}
}

/* Node 0 ends without clients. A client notes whether node 0 left, or was silent for too long. */
static void on_member(struct hk_rtc *rtc, void *arg, uint16_t node, bool joined)
{
	static uint64_t left;
	struct hk_rtc_stats stats;

	(void)arg;
	hk_rtc_stats(rtc, &stats); /* counts a leave message before this call */
	if (node == 0)
		server_left = !joined && stats.left != left;
	left = stats.left;
	if (hk_rtc_node(rtc) == 0 && hk_rtc_members(rtc) == 1)
		hk_rtc_stop(rtc);
}

/* ---- a client -------------------------------------------------------------------------------- */

#define WINDOW_MAX 2048

static uint64_t asked, answered, wrong, lost, open_requests, seen_at_tick;
static uint64_t absent_until;             /* without node 0, hk_rtc_now() */
static bool absent, gone;                 /* node 0 never answered; it is no longer a member */
static uint32_t expected[2 * WINDOW_MAX]; /* by number of the request */

static bool ask(struct hk_rtc *rtc)
{
	uint16_t *v = hk_rtc_begin(rtc), first = (uint16_t)(asked % 60000);
	uint32_t number;

	if (!v)
		return false;
	add_fill(v, first);
	if (hk_rtc_end(rtc, 0, SUM, ADD_VALUES * sizeof(*v), &number) != 0)
		return false;
	expected[number % (2 * WINDOW_MAX)] = add_expected(first, repeat);
	asked++;
	open_requests++;
	return true;
}

static void ask_more(struct hk_rtc *rtc)
{
	while (open_requests < window && asked < messages && ask(rtc))
		;
	if (asked == messages && open_requests == 0)
		hk_rtc_stop(rtc);
}

/* The best rate over some thousand replies shows what is possible, whatever else runs. */
#define BATCH 16384
static uint64_t batch_from, batch_since;
static double best;

static void measure(struct hk_rtc *rtc)
{
	uint64_t now = hk_rtc_now(rtc);
	double rate = (double)(answered - batch_from) / (double)(now - batch_since) * 1e3;

	if (batch_since && rate > best)
		best = rate;
	batch_from = answered;
	batch_since = now;
}

static void on_reply(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	(void)arg;
	for (unsigned i = 0; i < n; i++) {
		uint32_t sum;
		memcpy(&sum, msg[i].data, sizeof(sum));
		wrong += msg[i].len != sizeof(sum) ||
			 sum != expected[msg[i].number % (2 * WINDOW_MAX)];
	}
	answered += n;
	if (answered - batch_from >= BATCH)
		measure(rtc);
	open_requests -= n < open_requests ? n : open_requests;
	ask_more(rtc);
}

static void give_up(struct hk_rtc *rtc)
{
	fprintf(stderr,
		"node 0 does not answer; fix: start it, with the same --key and addresses\n");
	absent = true;
	hk_rtc_stop(rtc);
}

static void say_gone(void)
{
	if (server_left)
		fprintf(stderr, "node 0 has left");
	else
		fprintf(stderr,
			"node 0 was silent for %d ms, and counts as gone; a busy machine does that",
			SILENT_MS);
	fprintf(stderr, "; %llu of %llu requests are answered\n", (unsigned long long)answered,
		(unsigned long long)asked);
}

/* No reply came for a while: the open requests are lost. */
static void on_tick(struct hk_rtc *rtc, void *arg)
{
	(void)arg;
	if (!asked && hk_rtc_now(rtc) >= absent_until)
		give_up(rtc);
	if (asked && answered == seen_at_tick) {
		if (!hk_rtc_is_member(rtc, 0)) {
			gone = true;
			say_gone();
			hk_rtc_stop(rtc);
		}
		lost += open_requests;
		open_requests = 0;
	}
	seen_at_tick = answered;
	ask_more(rtc);
}

/* --ms have passed: no further requests. */
static void on_end(struct hk_rtc *rtc, void *arg)
{
	(void)arg;
	if (!asked)
		give_up(rtc);
	messages = asked;
	ask_more(rtc);
}

int main(int argc, char **argv)
{
	const struct example_option own[] = {
		{"repeat", &repeat, "how often the numbers are added, the same on all nodes"},
		{"messages", &messages, "requests of each client; 0: as many as --ms permits"},
		{"window", &window, "requests that a client keeps open"},
		{"ms", &ms,
		 "time limit in ms for new requests; 0: 2000 without --messages, else none"},
		{"plain", &plain, "1: add by a plain loop in place of vectors"},
	};
	const struct hk_rtc_type server = {.name = "sum", .on_message = on_message};
	const struct hk_rtc_type client = {.name = "sum", .on_reply = on_reply};
	struct hk_rtc_config cfg;

	example_options(argc, argv, "node 0 adds 32 numbers a message for the others", own, 5,
			&cfg);
	if (window < 1 || window > WINDOW_MAX) {
		fprintf(stderr, "--window %llu is out of range; fix: use 1 to %d\n",
			(unsigned long long)window, WINDOW_MAX);
		return 2;
	}
	if (!messages) {
		messages = UINT64_MAX;
		ms = ms ? ms : USUAL_MS;
	}
	cfg.on_member = on_member;
	struct hk_rtc *rtc = example_open(&cfg, 2);
	bool is_server = hk_rtc_node(rtc) == 0;
	example_register(rtc, SUM, is_server ? &server : &client);
	if (!is_server)
		hk_rtc_timer(rtc, 0, 100 * 1000000, on_tick, NULL);
	if (!is_server && ms)
		hk_rtc_timer(rtc, ms * 1000000, 0, on_end, NULL);
	uint64_t since = hk_rtc_now(rtc);

	absent_until = since + (cfg.timeout_ms ? cfg.timeout_ms : 10000) * UINT64_C(1000000);
	hk_rtc_run(rtc);
	double seconds = (double)(hk_rtc_now(rtc) - since) / 1e9;
	if (example_json)
		example_print_stats(rtc);
	if (!is_server && !example_json)
		printf("node %u: %llu sums in %.2f s, %.2f million a second; %llu wrong, %llu lost"
		       "%s\n",
		       hk_rtc_node(rtc), (unsigned long long)answered, seconds,
		       (double)answered / seconds / 1e6, (unsigned long long)wrong,
		       (unsigned long long)lost,
		       lost && !gone ? " (not a fault: there is no flow control)" : "");
	else if (!is_server)
		printf("{\"node\": %u, \"answered\": %llu, \"wrong\": %llu, \"lost\": %llu, "
		       "\"seconds\": %.6f, \"million_per_second\": %.4f, \"best\": %.4f}\n",
		       hk_rtc_node(rtc), (unsigned long long)answered, (unsigned long long)wrong,
		       (unsigned long long)lost, seconds, (double)answered / seconds / 1e6, best);
	hk_rtc_close(rtc);
	return is_server || (!absent && answered + lost >= messages && wrong == 0) ? 0 : 1;
}
