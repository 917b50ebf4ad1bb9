/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/keycount.c: all nodes count keys together.
 *
 *   hikyaku lab mpirun -np 2 build/examples/keycount --keys 1000000
 *
 * Each key belongs to one node, by its hash. A node that meets a key tells the owner. Counting is
 * exact on a network that loses frames, because messages of class HK_RTC_RETRY are resent until
 * they are answered, and handled once.
 *
 * A message carries many keys. A node that has finished tells all others. When it knows that
 * from all, and has all replies, its counts are final.
 */
#include "example.h"

#include <stdio.h>
#include <string.h>

#define KEYS             1 /* message types */
#define DONE             2
#define DISTINCT         4096 /* number of different keys */
#define KEYS_PER_MESSAGE 32   /* keys in a message */

static uint64_t keys = 100000;
static uint64_t met, sent, answered, given_up, done_received, total;
static uint64_t count[DISTINCT];
static uint16_t pending[HK_RTC_MAX_NODES]
		       [KEYS_PER_MESSAGE]; /* for each owner: keys that are not sent yet */
static unsigned pending_count[HK_RTC_MAX_NODES];
static bool done_sent[HK_RTC_MAX_NODES];
static uint64_t rng;

static unsigned owner_of(uint16_t key, unsigned nodes)
{
	return (key * 40503u >> 4) % nodes;
}

static void on_keys(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	(void)rtc;
	(void)arg;
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < msg[i].len / 2u; k++) {
			uint16_t key;
			memcpy(&key, (char *)msg[i].data + 2 * k, sizeof(key));
			count[key % DISTINCT]++;
			total++;
		}
	/* no reply needed: the library tells the sender that the message arrived */
}

static void on_done(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	(void)rtc;
	(void)arg;
	(void)msg;
	done_received += n;
}

static void on_reply(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	(void)rtc;
	(void)arg;
	(void)msg;
	answered += n;
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

/* Sends the pending keys. False: not now (too many open requests, or the owner is not a member).
 */
static bool send_keys(struct hk_rtc *rtc, unsigned owner)
{
	if (hk_rtc_send(rtc, (uint16_t)owner, KEYS, pending[owner], 2 * pending_count[owner],
			NULL) != 0)
		return false;
	sent++;
	pending_count[owner] = 0;
	return true;
}

/* Returns the next key of a seeded sequence; small keys are more frequent. */
static uint16_t next_key(void)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	uint32_t r = (uint32_t)(rng >> 33);
	return (uint16_t)((r % DISTINCT) * ((r >> 12) % DISTINCT) / DISTINCT);
}

/* Does some keys in each round, so that the node handles messages between them. */
static void work(struct hk_rtc *rtc)
{
	unsigned nodes = hk_rtc_nodes(rtc), self = hk_rtc_node(rtc);

	for (unsigned i = 0; i < 256 && met < keys; i++) {
		uint64_t before = rng;
		uint16_t key = next_key();
		unsigned owner = owner_of(key, nodes);
		if (owner == self) {
			count[key]++;
			total++;
		} else {
			if (pending_count[owner] == KEYS_PER_MESSAGE && !send_keys(rtc, owner)) {
				rng = before; /* take the same key in the next round */
				return;
			}
			pending[owner][pending_count[owner]++] = key;
		}
		met++;
	}
	for (unsigned i = 0; met == keys && i < nodes; i++) {
		if (i == self || (pending_count[i] && !send_keys(rtc, i)) || done_sent[i])
			continue;
		done_sent[i] = hk_rtc_send(rtc, (uint16_t)i, DONE, NULL, 0, NULL) == 0;
		sent += done_sent[i];
	}
}

int main(int argc, char **argv)
{
	const struct example_option own[] = {{"keys", &keys, "keys that each node meets"}};
	struct hk_rtc_type type = {.name = "keys",
				   .class = HK_RTC_RETRY,
				   .on_message = on_keys,
				   .on_reply = on_reply,
				   .on_given_up = on_given_up};
	struct hk_rtc_config cfg;
	uint64_t until = UINT64_MAX, distinct = 0;

	example_options(argc, argv, "counts keys on all nodes together", own, 1, &cfg);
	struct hk_rtc *rtc = example_open(&cfg, 1);
	example_register(rtc, KEYS, &type);
	type.name = "done";
	type.on_message = on_done;
	example_register(rtc, DONE, &type);
	rng = hk_rtc_node(rtc) + 1u;
	unsigned others = hk_rtc_nodes(rtc) - 1u;
	/* at the end, stay a moment for nodes whose reply was lost */
	while (hk_rtc_now(rtc) < until) {
		hk_rtc_poll(rtc);
		work(rtc);
		if (until == UINT64_MAX && met == keys && sent == answered &&
		    done_received >= others)
			until = hk_rtc_now(rtc) + 300 * 1000000;
	}
	for (unsigned i = 0; i < DISTINCT; i++)
		distinct += count[i] != 0;
	if (example_json) {
		example_print_stats(rtc);
		printf("{\"node\": %u, \"met\": %llu, \"counted\": %llu, \"distinct\": %llu, "
		       "\"given_up\": %llu}\n",
		       hk_rtc_node(rtc), (unsigned long long)met, (unsigned long long)total,
		       (unsigned long long)distinct, (unsigned long long)given_up);
	} else {
		printf("node %u: met %llu keys, and counted %llu of %llu different ones; %llu "
		       "given up\n",
		       hk_rtc_node(rtc), (unsigned long long)met, (unsigned long long)total,
		       (unsigned long long)distinct, (unsigned long long)given_up);
	}
	hk_rtc_close(rtc);
	return given_up ? 1 : 0;
}
