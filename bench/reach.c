/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/reach.c: checks whether two nodes reach each other by their ports. `hikyaku reach` starts
 * one process on each node at the same time. Each prints a line of JSON with the frames that it
 * sent and received.
 *
 * 1. Both send a short frame every 10 ms, which says whether its sender has received one of the
 *    other.
 * 2. When both directions work, or after --timeout, both send ROUNDS frames of each size.
 * 3. Each waits until the other has finished.
 *
 * The receivers' counts judge each direction separately. All frames are broadcasts, since the
 * processes do not know each other's addresses yet. Frames of other pairs have another --key, and
 * are ignored.
 */
#include "port/port.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ETHERTYPE   0x88B6 /* IEEE 802 local experimental 2, as in raw_pingpong */
#define ETH_HLEN    14
#define MAGIC       "hkreach"
#define BUFFERS     2048
#define BURST       32
#define BEACON_MS   10
#define ROUNDS      50
#define GAP_US      200 /* between two frames, so that no ring overflows */
#define DONE_MS     2000
#define DONE_FRAMES 5
#define MAX_SIZES   16
#define RELEASE_LEN 24

enum flags { RECEIVES = 1, BEACON = 2, DONE = 4 };

struct probe { /* after the Ethernet header */
	char magic[8];
	uint64_t key;
	uint16_t flags, size, frame_max;
	uint8_t side, pad;
	char release[RELEASE_LEN];
};

#define SHORT (ETH_HLEN + (unsigned)sizeof(struct probe) + 2)

static const unsigned all_sizes[] = {SHORT, 256,  512,  1024, 1514, 2048,
				     3072,  3520, 4096, 6144, 8192, 9014};

static struct {
	const char *spec;
	uint64_t key;
	char side;
	unsigned timeout_ms;
} opt = {.timeout_ms = 10000};

static struct hk_port *port;
static unsigned sizes[MAX_SIZES], num_sizes;

static struct {
	uint64_t sent[MAX_SIZES], received[MAX_SIZES];
	bool receives;      /* we have received from the other */
	bool is_received;   /* the other has received from us */
	bool done;          /* the other has finished */
	unsigned frame_max; /* of the other side */
	char release[RELEASE_LEN];
} state;

static int64_t now_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* Frames that the port does not take at once count as lost, like those lost on the wire. */
static void transmit(unsigned size, unsigned flags)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);
	uint8_t *b = m ? (uint8_t *)rte_pktmbuf_append(m, (uint16_t)size) : NULL;
	struct probe p = {.magic = MAGIC,
			  .key = opt.key,
			  .flags = (uint16_t)(flags | (state.receives ? RECEIVES : 0)),
			  .size = (uint16_t)size,
			  .frame_max = port->info.frame_max,
			  .side = (uint8_t)opt.side,
			  .release = HK_RELEASE};

	if (b) {
		memset(b, 0, size);
		memset(b, 0xff, 6);
		memcpy(b + 6, port->info.mac, 6);
		b[12] = ETHERTYPE >> 8;
		b[13] = ETHERTYPE & 0xff;
		memcpy(b + ETH_HLEN, &p, sizeof(p));
	}
	if (!b || hk_port_tx(port, 0, &m, 1) == 0)
		rte_pktmbuf_free(m);
}

static void handle(const struct rte_mbuf *m)
{
	const uint8_t *b = rte_pktmbuf_mtod(m, const uint8_t *);
	struct probe p;

	if (m->data_len < ETH_HLEN + sizeof(p) || b[12] != ETHERTYPE >> 8 ||
	    b[13] != (ETHERTYPE & 0xff))
		return;
	memcpy(&p, b + ETH_HLEN, sizeof(p));
	if (memcmp(p.magic, MAGIC, sizeof(p.magic)) != 0 || p.key != opt.key ||
	    p.side == (uint8_t)opt.side || m->data_len != p.size)
		return;
	state.receives = true;
	state.is_received |= (p.flags & RECEIVES) != 0;
	state.done |= (p.flags & DONE) != 0;
	state.frame_max = p.frame_max;
	p.release[RELEASE_LEN - 1] = '\0';
	for (size_t i = 0; i < RELEASE_LEN; i++) /* the text goes into JSON */
		state.release[i] = strchr("\"\\", p.release[i]) || (p.release[i] & 0x80) ||
						   (p.release[i] && p.release[i] < ' ')
					   ? '\0'
					   : p.release[i];
	for (unsigned i = 0; i < num_sizes; i++)
		state.received[i] += sizes[i] == p.size && !(p.flags & (BEACON | DONE));
}

static void receive_for(int64_t us)
{
	int64_t until = now_us() + us;
	do {
		struct rte_mbuf *m[BURST];
		unsigned n = hk_port_rx(port, 0, m, BURST);
		for (unsigned i = 0; i < n; i++)
			handle(m[i]);
		rte_pktmbuf_free_bulk(m, n);
	} while (now_us() < until);
}

static void wait_for_other(void)
{
	int64_t until = now_us() + (int64_t)opt.timeout_ms * 1000;

	while (!(state.receives && state.is_received) && now_us() < until) {
		transmit(SHORT, BEACON);
		receive_for(BEACON_MS * 1000);
	}
}

static void exchange(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < num_sizes; i++) {
			transmit(sizes[i], 0);
			state.sent[i]++;
			receive_for(GAP_US);
		}
	}
	int64_t until = now_us() + DONE_MS * 1000;
	for (unsigned left = DONE_FRAMES; left && now_us() < until; left -= state.done) {
		transmit(SHORT, DONE);
		receive_for(BEACON_MS * 1000);
	}
}

static void choose_sizes(void)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(all_sizes); i++)
		if (all_sizes[i] < port->info.frame_max)
			sizes[num_sizes++] = all_sizes[i];
	sizes[num_sizes++] = port->info.frame_max;
}

/* Prints the line for `hikyaku reach`. */
static void report(const char *error)
{
	char host[256] = "";
	(void)gethostname(host, sizeof(host) - 1);
	printf("{\"reach\": 1, \"side\": \"%c\", \"host\": \"%s\", \"release\": \"%s\"", opt.side,
	       host, HK_RELEASE);
	if (error) {
		printf(", \"error\": \"");
		for (; *error; error++)
			printf(strchr("\"\\", *error) ? "\\%c" : "%c",
			       (unsigned char)*error < ' ' ? ' ' : *error);
		printf("\"}\n");
		return;
	}
	printf(", \"driver\": \"%s\", \"frame_max\": %u, \"receives\": %s, \"is_received\": %s, "
	       "\"other_release\": \"%s\", \"other_frame_max\": %u, \"sizes\": [",
	       port->info.driver, port->info.frame_max, state.receives ? "true" : "false",
	       state.is_received ? "true" : "false", state.release, state.frame_max);
	for (unsigned i = 0; i < num_sizes; i++)
		printf("%s{\"size\": %u, \"sent\": %llu, \"received\": %llu}", i ? ", " : "",
		       sizes[i], (unsigned long long)state.sent[i],
		       (unsigned long long)state.received[i]);
	printf("]}\n");
}

static bool parse(int argc, char **argv)
{
	static const struct option options[] = {{"spec", required_argument, NULL, 's'},
						{"side", required_argument, NULL, 'd'},
						{"key", required_argument, NULL, 'k'},
						{"timeout-ms", required_argument, NULL, 't'},
						{0}};
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		char *end = NULL;
		if (c == 's')
			opt.spec = optarg;
		else if (c == 'd')
			opt.side = optarg[0];
		else if (c == 'k')
			opt.key = strtoull(optarg, &end, 10);
		else if (c == 't')
			opt.timeout_ms = (unsigned)strtoul(optarg, &end, 10);
		else
			return false;
		if (end && (end == optarg || *end))
			return false;
	}
	return optind == argc && opt.spec && (opt.side == 'a' || opt.side == 'b') && opt.key;
}

int main(int argc, char **argv)
{
	struct hk_error err;
	struct hk_eal_config eal = {.verbose = false};

	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: reach --spec SPEC --side a|b --key N [--timeout-ms N]   "
				"(hikyaku reach starts it)\n");
		return 2;
	}
	int rc = hk_port_spec_eal(opt.spec, &eal, &err);
	if (rc == 0)
		rc = hk_eal_init(&eal, &err);
	if (rc == 0)
		rc = hk_port_open(opt.spec, BUFFERS, NULL, (int)opt.timeout_ms, &port, &err);
	if (rc == 0 && port->info.frame_max < SHORT) {
		rc = -EMSGSIZE;
		hk_error_set(&err, rc,
			     "port %s carries frames of only %u bytes; fix: set a larger MTU",
			     opt.spec, port->info.frame_max);
	}
	if (rc) {
		report(err.text);
		hk_port_close(port);
		return 1;
	}
	choose_sizes();
	wait_for_other();
	exchange();
	report(NULL);
	hk_port_close(port);
	return 0;
}
