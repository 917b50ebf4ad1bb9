/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/raw_pingpong.c: the lower bound of the port. Two processes play ping-pong with one Ethernet
 * frame over a port, with nothing above DPDK, and print half of the round trip. Then one side sends
 * frames as fast as the port takes them, and the other counts them.
 *
 *   taskset -c 0 raw_pingpong --spec memif:socket=/tmp/a.sock,role=server --role pong &
 *   taskset -c 1 raw_pingpong --spec memif:socket=/tmp/a.sock,role=client --role ping \
 *                --sizes 64,1500 --iters 20000 --json
 *
 * The ping side decides on sizes and counts, and prints. The other side needs only its port. Frames
 * carry a 12-byte command after the Ethernet header, so the sides need no other channel. The
 * commands are ECHO (send it back), FLOOD (count it), REPORT (answer with the count) and QUIT. On
 * wires that lose frames, the ping side repeats a request without an answer. It leaves such
 * samples out, and counts them.
 *
 * The pong side sends the received buffer back. So one frame is one receive and one send, without a
 * copy or an allocation of ours. Every wait has a limit: a side that receives nothing for --timeout
 * seconds prints that and exits with 1.
 */
#include "arguments.h"
#include "line.h"
#include "port/port.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_byteorder.h>
#include <rte_cycles.h>

#define ETHERTYPE       0x88B6 /* IEEE 802 local experimental 2; Hikyaku's frames have another */
#define ETH_HLEN_NO_FCS 14
#define MIN_SIZE        60
#define MAX_SIZES       32
#define BURST           32
#define BUFFERS         2048
#define SPINS_A_CHECK   (1u << 13) /* empty polls between two checks of clock and link */
#define RETRY_MS        100
#define FLOOD_BYTES     (UINT64_C(64) << 20)
#define FLOOD_MAX       UINT64_C(200000)
#define SAMPLES_MAX     1000000u

enum command { ECHO = 1, FLOOD, REPORT, QUIT };

struct head { /* after the Ethernet header */
	uint32_t command;
	uint32_t seq;  /* number of the request (ECHO) or of the flood (FLOOD, REPORT) */
	uint32_t size; /* bytes of the frame; in the answer to REPORT, the counted frames */
};

static struct {
	const char *spec, *line;
	bool ping, json, verbose;
	unsigned sizes[MAX_SIZES], num_sizes;
	unsigned iters, warmup, timeout;
} opt = {.iters = 20000, .warmup = 2000, .timeout = 10, .sizes = {64, 1500}, .num_sizes = 2};

static struct hk_port *port;
static double line_ns; /* of bench/line.h; 0: unknown */
static volatile sig_atomic_t stop;
static bool over; /* a limit has passed: all further waits end at once */

static void on_signal(int sig)
{
	stop = sig;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static struct head *head_of(struct rte_mbuf *m)
{
	return rte_pktmbuf_mtod_offset(m, struct head *, ETH_HLEN_NO_FCS);
}

static bool is_ours(struct rte_mbuf *m)
{
	const uint8_t *b = rte_pktmbuf_mtod(m, const uint8_t *);
	return m->data_len >= ETH_HLEN_NO_FCS + sizeof(struct head) && b[12] == ETHERTYPE >> 8 &&
	       b[13] == (ETHERTYPE & 0xff);
}

static struct rte_mbuf *make(enum command command, uint32_t seq, unsigned size)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);
	if (!m)
		return NULL;
	uint8_t *b = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)size);
	if (!b) {
		rte_pktmbuf_free(m);
		return NULL;
	}
	memset(b, 0xff, 6); /* broadcast, so that the sides need not know their addresses */
	memcpy(b + 6, port->info.mac, 6);
	b[12] = ETHERTYPE >> 8;
	b[13] = ETHERTYPE & 0xff;
	*head_of(m) = (struct head){command, seq, size};
	return m;
}

/* True if the wait that began at @since has exceeded its limit, or the link is down; prints the
 * reason. */
static bool is_over(uint64_t since, const char *what)
{
	if (over)
		return true;
	over = stop || !hk_port_link(port) ||
	       rte_get_tsc_cycles() - since >= opt.timeout * hk_eal_tsc_hz();
	if (over && !stop)
		fprintf(stderr, "raw_pingpong: %s while waiting for %s\n",
			hk_port_link(port) ? "no frame came for the time of --timeout"
					   : "the other side has ended",
			what);
	return over;
}

/* Receives one frame of this program. NULL: none came within @limit cycles (0: --timeout). */
static inline struct rte_mbuf *receive(const char *what, uint64_t limit)
{
	uint64_t since = 0;
	for (;;) {
		struct rte_mbuf *m;
		for (unsigned i = 0; i < SPINS_A_CHECK; i++) {
			if (HK_LIKELY(hk_port_rx(port, 0, &m, 1) == 0))
				continue;
			if (HK_LIKELY(is_ours(m)))
				return m;
			rte_pktmbuf_free(m);
		}
		if (!since)
			since = rte_get_tsc_cycles();
		if (is_over(since, what) || (limit && rte_get_tsc_cycles() - since >= limit))
			return NULL;
	}
}

static inline bool transmit(struct rte_mbuf **m, unsigned n, const char *what)
{
	uint64_t since = 0;
	for (unsigned i = 1; n; i++) {
		unsigned sent = hk_port_tx(port, 0, m, (uint16_t)n);
		m += sent;
		n -= sent;
		if (HK_LIKELY(sent) || i % SPINS_A_CHECK)
			continue;
		if (!since)
			since = rte_get_tsc_cycles();
		if (is_over(since, what)) {
			rte_pktmbuf_free_bulk(m, n);
			return false;
		}
	}
	return true;
}

/* ---- the side that answers ------------------------------------------------------------------- */

static int pong(void)
{
	uint32_t flood = 0, counted = 0;
	for (;;) {
		struct rte_mbuf *m = receive("a ping", 0);
		if (!m)
			return 1;
		struct head *h = head_of(m);
		switch (h->command) {
		case REPORT:
			h->size = h->seq == flood ? counted : 0;
			/* fall through */
		case ECHO:
			if (!transmit(&m, 1, "space for the answer"))
				return 1;
			break;
		case FLOOD:
			counted = h->seq == flood ? counted + 1 : 1;
			flood = h->seq;
			rte_pktmbuf_free(m);
			break;
		default:
			rte_pktmbuf_free(m);
			return h->command == QUIT ? 0 : 1;
		}
	}
}

/* ---- the side that measures ------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

struct result {
	double median, min, max; /* half a round trip in µs */
	double frames_per_s, megabytes_per_s;
	double lost;      /* share of the flood's frames */
	unsigned retries; /* pings that were sent again; their samples are left out */
};

/* Sends @command until an answer comes, since wires lose frames and the other side may start later.
 * Sends @m first if it is not NULL. Returns the answer, or NULL; *@asked becomes the number of
 * repetitions. */
static struct rte_mbuf *ask(struct rte_mbuf *m, enum command command, uint32_t seq, unsigned size,
			    const char *what, unsigned *asked)
{
	uint64_t start = rte_get_tsc_cycles();
	for (*asked = 0; !over; (*asked)++) {
		if (!m)
			m = make(command, seq, size);
		if (!m || !transmit(&m, 1, what))
			return NULL;
		while ((m = receive(what, RETRY_MS * hk_eal_tsc_hz() / 1000))) {
			if (head_of(m)->command == command && head_of(m)->seq == seq)
				return m;
			rte_pktmbuf_free(m); /* the answer to an earlier request */
		}
		(void)is_over(start, what);
	}
	return NULL;
}

static bool measure_latency(unsigned size, uint32_t *samples, struct result *r)
{
	static uint32_t seq;
	unsigned n = 0, asked;
	struct rte_mbuf *m = NULL;
	for (uint64_t i = 0; n < opt.iters; i++) {
		uint64_t t = rte_rdtsc_precise();
		if (m)
			head_of(m)->seq = ++seq;
		else
			seq++;
		m = ask(m, ECHO, seq, size, "an answer", &asked);
		if (!m)
			return false;
		t = rte_rdtsc_precise() - t;
		r->retries += i >= opt.warmup ? asked : 0;
		if (i >= opt.warmup && !asked)
			samples[n++] = (uint32_t)HK_MIN(t, UINT64_C(0xffffffff));
	}
	rte_pktmbuf_free(m);
	qsort(samples, n, sizeof(*samples), by_value);
	double us = 5e5 / (double)hk_eal_tsc_hz(); /* half a round trip */
	r->median = samples[n / 2] * us;
	r->min = samples[0] * us;
	r->max = samples[n - 1] * us;
	return true;
}

static bool measure_flood(unsigned size, struct result *r)
{
	static uint32_t flood;
	uint64_t frames = HK_MIN(FLOOD_BYTES / size, FLOOD_MAX), sent = 0;
	flood++;
	uint64_t t = rte_rdtsc_precise();
	while (sent < frames && !over) {
		struct rte_mbuf *m[BURST];
		unsigned n = 0;
		while (n < BURST && sent + n < frames && (m[n] = make(FLOOD, flood, size)))
			n++;
		if (!transmit(m, n, "space for the flood"))
			return false;
		sent += n;
		if (!n && is_over(t, "buffers that the driver returns"))
			return false;
	}
	unsigned asked;
	struct rte_mbuf *answer = ask(NULL, REPORT, flood, MIN_SIZE, "the count of a flood",
				      &asked);
	if (!answer)
		return false;
	/* without the waits for lost requests */
	double seconds = (double)(rte_rdtsc_precise() - t) / (double)hk_eal_tsc_hz() -
			 asked * RETRY_MS / 1000.0;
	uint32_t counted = head_of(answer)->size;
	rte_pktmbuf_free(answer);
	r->frames_per_s = counted / seconds;
	r->megabytes_per_s = r->frames_per_s * size / 1e6;
	r->lost = 1 - (double)counted / (double)frames;
	return true;
}

static void print(unsigned size, const struct result *r, bool first, bool last)
{
	if (!opt.json) {
		if (first)
			printf("# %s (%s), frames up to %u bytes\n"
			       "# size  half round trip us: median min max  one way: MB/s "
			       "Mframes/s lost\n",
			       port->info.spec, port->info.driver, port->info.frame_max);
		printf("%6u  %7.3f %7.3f %9.3f  %9.1f %7.3f  %.4f\n", size, r->median, r->min,
		       r->max, r->megabytes_per_s, r->frames_per_s / 1e6, r->lost);
	} else {
		if (first)
			printf("{\"spec\":\"%s\",\"driver\":\"%s\",\"frame_max\":%u,"
			       "\"line_ns\":%.1f,\"rows\":[",
			       port->info.spec, port->info.driver, port->info.frame_max, line_ns);
		printf("%s{\"size\":%u,\"latency_us\":{\"median\":%.4f,\"min\":%.4f,\"max\":%.4f},"
		       "\"retries\":%u,\"bandwidth_MBps\":%.1f,\"frames_per_s\":%.0f,"
		       "\"lost\":%.6f}%s",
		       first ? "" : ",", size, r->median, r->min, r->max, r->retries,
		       r->megabytes_per_s, r->frames_per_s, r->lost, last ? "]}\n" : "");
	}
	fflush(stdout);
}

static int ping(void)
{
	uint32_t *samples = calloc(opt.iters, sizeof(*samples));
	bool ok = samples != NULL;
	for (unsigned i = 0; ok && i < opt.num_sizes; i++) {
		struct result r = {0};
		unsigned size = opt.sizes[i];
		ok = measure_latency(size, samples, &r) && measure_flood(size, &r);
		if (ok)
			print(size, &r, i == 0, i + 1 == opt.num_sizes);
	}
	free(samples);
	struct rte_mbuf *m = make(QUIT, 0, MIN_SIZE);
	if (m)
		(void)transmit(&m, 1, "space for the last frame");
	return ok ? 0 : 1;
}

/* ---- start ----------------------------------------------------------------------------------- */

static const char usage[] =
	"usage: raw_pingpong --spec SPEC --role ping|pong [--sizes 64,1500,…] [--iters N]\n"
	"                    [--warmup N] [--timeout SECONDS] [--json] [--verbose]\n"
	"                    [--line FILE]\n"
	"Raw DPDK ping-pong over one port (docs/ports.md lists the specs). Pin each side to a\n"
	"core of its own with taskset. --line: a file of 64 zero bytes that both sides map, for\n"
	"the time of a cache line (bench/line.h). Sizes are those of Ethernet frames without the "
	"FCS.\n";

static unsigned number(const char *name, const char *text, unsigned min, unsigned max)
{
	return hk_argument_number("raw_pingpong", name, text, min, max);
}

static void parse_args(int argc, char **argv)
{
	static const struct option options[] = {{"spec", required_argument, NULL, 's'},
						{"role", required_argument, NULL, 'r'},
						{"sizes", required_argument, NULL, 'z'},
						{"iters", required_argument, NULL, 'i'},
						{"warmup", required_argument, NULL, 'w'},
						{"timeout", required_argument, NULL, 't'},
						{"line", required_argument, NULL, 'l'},
						{"json", no_argument, NULL, 'j'},
						{"verbose", no_argument, NULL, 'v'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	const char *role = NULL;
	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (c) {
		case 's':
			opt.spec = optarg;
			break;
		case 'r':
			role = optarg;
			break;
		case 'z':
			opt.num_sizes = hk_argument_sizes("raw_pingpong", optarg, MIN_SIZE, 65000,
							  opt.sizes, MAX_SIZES);
			break;
		case 'i':
			opt.iters = number("--iters", optarg, 1, SAMPLES_MAX);
			break;
		case 'w':
			opt.warmup = number("--warmup", optarg, 0, SAMPLES_MAX);
			break;
		case 't':
			opt.timeout = number("--timeout", optarg, 1, 3600);
			break;
		case 'l':
			opt.line = optarg;
			break;
		case 'j':
			opt.json = true;
			break;
		case 'v':
			opt.verbose = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind < argc || !opt.spec || !role ||
	    (strcmp(role, "ping") != 0 && strcmp(role, "pong") != 0) || !opt.num_sizes) {
		fputs(usage, stderr);
		exit(2);
	}
	opt.ping = strcmp(role, "ping") == 0;
}

int main(int argc, char **argv)
{
	struct hk_error err;
	parse_args(argc, argv);

	struct hk_eal_config eal = {.verbose = opt.verbose};
	int rc = hk_port_spec_eal(opt.spec, &eal, &err);
	if (rc == 0)
		rc = hk_eal_init(&eal, &err);
	if (rc == 0)
		rc = hk_port_open(opt.spec, BUFFERS, NULL, (int)opt.timeout * 1000, &port, &err);
	if (rc == 0)
		rc = hk_port_wait_link(port, (int)opt.timeout * 1000, &err);
	if (rc) {
		fprintf(stderr, "raw_pingpong: %s\n", err.text);
		hk_port_close(port);
		return 1;
	}
	struct sigaction sa = {.sa_handler = on_signal};
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);

	for (unsigned i = 0; opt.ping && i < opt.num_sizes; i++) {
		if (opt.sizes[i] <= port->info.frame_max)
			continue;
		fprintf(stderr, "raw_pingpong: port %s carries frames of up to %u bytes, not %u\n",
			port->info.spec, port->info.frame_max, opt.sizes[i]);
		hk_port_close(port);
		return 2;
	}
	struct hk_line line = {NULL, 0};
	if (opt.line && !hk_line_open(&line, opt.line)) {
		fprintf(stderr, "raw_pingpong: --line %s: %s\n", opt.line, strerror(errno));
		hk_port_close(port);
		return 2;
	}
	line_ns = hk_line_ns(&line, opt.ping ? 0 : 1);
	rc = opt.ping ? ping() : pong();
	hk_port_close(port);
	return stop ? 128 + stop : rc;
}
