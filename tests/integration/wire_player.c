/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/integration/wire_player.c: plays pcap files into ports, and records what comes out of them.
 *
 *   wire_player [--window N] [--rounds N] --expect N --port SPEC IN.pcap OUT.pcap [--port …]
 *
 * Of each port it sends the frames of IN in order, and writes what it receives to OUT. A frame's time in
 * IN, in seconds, says how many frames come back for it, by any port; at most a window of frames that will come back are
 * under way, so none is lost for want of room. It ends when N frames have come in; if none has
 * come for 10 s, it fails and says how many did. With --rounds the files are played so often, nothing
 * is recorded, and the rate is printed.
 */
#include "port/port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PORTS 4
#define BURST 32

struct frame {
	uint32_t len, back;
	const uint8_t *bytes;
};

struct side {
	struct hk_port *port;
	struct frame *frame;
	size_t frames, at;
	FILE *out;
};

static struct side side[PORTS];
static unsigned sides;
static unsigned long window = 128, rounds = 1, expect;

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "wire_player: %s\n", what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * HK_SEC + (uint64_t)t.tv_nsec;
}

static void read_pcap(struct side *s, const char *path)
{
	FILE *f = fopen(path, "rb");
	uint32_t head[6], record[4];

	if (!f || fread(head, sizeof(head), 1, f) != 1 || head[0] != 0xa1b2c3d4)
		die("no pcap file");
	while (fread(record, sizeof(record), 1, f) == 1) {
		uint8_t *bytes = malloc(record[2] + 1);
		struct frame *more = realloc(s->frame, (s->frames + 1) * sizeof(*more));
		if (!bytes || !more || fread(bytes, 1, record[2], f) != record[2])
			die("a pcap file that ends early");
		s->frame = more;
		s->frame[s->frames++] = (struct frame){record[2], record[0], bytes};
	}
	fclose(f);
}

static FILE *write_pcap(const char *path)
{
	const uint32_t head[6] = {0xa1b2c3d4, 4u << 16 | 2, 0, 0, 65535, 1};
	FILE *f = fopen(path, "wb");

	if (!f || fwrite(head, sizeof(head), 1, f) != 1)
		die("cannot write a pcap file");
	return f;
}

static void record(FILE *out, const struct rte_mbuf *m)
{
	const uint32_t head[4] = {0, 0, m->pkt_len, m->pkt_len};

	fwrite(head, sizeof(head), 1, out);
	for (; m; m = m->next)
		fwrite(rte_pktmbuf_mtod(m, const void *), m->data_len, 1, out);
}

static unsigned receive(struct side *s)
{
	struct rte_mbuf *m[BURST];
	unsigned n = hk_port_rx(s->port, 0, m, BURST);

	for (unsigned i = 0; i < n && rounds == 1; i++)
		record(s->out, m[i]);
	rte_pktmbuf_free_bulk(m, n);
	return n;
}

/* Returns how many frames will come back for what was sent. */
static unsigned long transmit(struct side *s, unsigned long room)
{
	struct rte_mbuf *m[BURST];
	unsigned long back[BURST + 1] = {0};
	unsigned n = 0;

	while (n < BURST && back[n] < room && s->at + n < s->frames * rounds) {
		const struct frame *f = &s->frame[(s->at + n) % s->frames];
		m[n] = rte_pktmbuf_alloc(s->port->pool);
		if (!m[n])
			break;
		memcpy(rte_pktmbuf_append(m[n], (uint16_t)f->len), f->bytes, f->len);
		back[n + 1] = back[n] + f->back;
		n++;
	}
	unsigned sent = n ? hk_port_tx(s->port, 0, m, (uint16_t)n) : 0;
	rte_pktmbuf_free_bulk(m + sent, n - sent);
	s->at += sent;
	return back[sent];
}

static void play(void)
{
	unsigned long under_way = 0, came = 0;
	uint64_t start = now_ns(), heard = start;
	bool more = true;

	while (came < expect || more) {
		unsigned got = 0;
		more = false;
		for (unsigned i = 0; i < sides; i++) {
			got += receive(&side[i]);
			if (under_way < window)
				under_way += transmit(&side[i], window - under_way);
			more |= side[i].at < side[i].frames * rounds;
		}
		came += got;
		under_way -= HK_MIN(under_way, (unsigned long)got);
		if (got) {
			heard = 0;
			continue;
		}
		uint64_t t = now_ns();
		heard = heard ? heard : t;
		if (t - heard > 10 * HK_SEC)
			break;
	}
	double seconds = (double)(now_ns() - start) / 1e9;
	printf("{\"received\": %lu, \"seconds\": %.6f, \"mpps\": %.4f}\n", came, seconds,
	       (double)came / seconds / 1e6);
	if (came != expect)
		die("not as many frames came as were expected");
}

static void open_side(const char *spec)
{
	struct hk_eal_config eal = {.memory_mb = 256};
	struct hk_error err = {""};

	if (hk_port_spec_eal(spec, &eal, &err) || hk_eal_init(&eal, &err) ||
	    hk_port_open(spec, 4096, NULL, 20000, &side[sides].port, &err) ||
	    hk_port_wait_link(side[sides].port, 20000, &err))
		die(err.text);
	sides++;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--window") == 0 && i + 1 < argc) {
			window = strtoul(argv[++i], NULL, 10);
		} else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
			rounds = strtoul(argv[++i], NULL, 10);
		} else if (strcmp(argv[i], "--expect") == 0 && i + 1 < argc) {
			expect = strtoul(argv[++i], NULL, 10);
		} else if (strcmp(argv[i], "--port") == 0 && i + 3 < argc && sides < PORTS) {
			read_pcap(&side[sides], argv[i + 2]);
			side[sides].out = write_pcap(argv[i + 3]);
			open_side(argv[i + 1]);
			i += 3;
		} else {
			die("see the head of its source for its arguments");
		}
	}
	play();
	for (unsigned i = 0; i < sides; i++) {
		if (fclose(side[i].out) != 0)
			die("cannot write a pcap file");
		hk_port_close(side[i].port);
	}
	return 0;
}
