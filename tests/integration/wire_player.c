/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/integration/wire_player.c: sends the frames of pcap files by ports, and records the frames
 * that these ports receive.
 *
 *   wire_player [--window N] [--rounds N] --expect N --port SPEC IN.pcap OUT.pcap [--port …]
 *
 * For each port it sends the frames of IN in order, and writes the received frames to OUT. A
 * frame's timestamp in IN, in seconds, is the number of frames that come back for it, by any port.
 * At most --window frames that will come back are in flight, so no queue overflows. The program
 * ends when it has received --expect frames. It fails if it receives none for 10 s, and prints how
 * many came. With --rounds it sends the files so many times, records nothing, and prints the rate.
 */
#include "base/clock.h"
#include "port/port.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PORTS 4
#define BURST 32

struct frame {
	uint32_t len, back; /* back: the number of frames that come back for it */
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

static void read_pcap(struct side *s, const char *path)
{
	FILE *f = fopen(path, "rb");
	uint32_t head[6], record[4];

	if (!f || fread(head, sizeof(head), 1, f) != 1 || head[0] != 0xa1b2c3d4)
		die("cannot read IN, or it is not a pcap file");
	while (fread(record, sizeof(record), 1, f) == 1) {
		uint8_t *bytes = malloc(record[2] + 1);
		struct frame *more = realloc(s->frame, (s->frames + 1) * sizeof(*more));
		if (!bytes || !more || fread(bytes, 1, record[2], f) != record[2])
			die("a pcap file is truncated");
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

/* Sends a burst for which about @most frames come back, or fewer. Returns how many will. */
static unsigned long transmit(struct side *s, unsigned long most)
{
	struct rte_mbuf *m[BURST];
	unsigned long back[BURST + 1] = {0};
	unsigned n = 0;

	while (n < BURST && back[n] < most && s->at + n < s->frames * rounds) {
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
	unsigned long in_flight = 0, came = 0;
	uint64_t start = hk_clock_ns(), idle_since = start;
	bool more = true;

	/* The client end of a memif offers buffers when it first receives. Before that the other
	 * end can only drop what it forwards. */
	for (unsigned i = 0; i < sides; i++)
		came += receive(&side[i]);
	while (came < expect || more) {
		unsigned got = 0;
		more = false;
		for (unsigned i = 0; i < sides; i++) {
			got += receive(&side[i]);
			if (in_flight < window)
				in_flight += transmit(&side[i], window - in_flight);
			more |= side[i].at < side[i].frames * rounds;
		}
		came += got;
		in_flight -= HK_MIN(in_flight, (unsigned long)got);
		if (got) {
			idle_since = 0;
			continue;
		}
		uint64_t t = hk_clock_ns();
		idle_since = idle_since ? idle_since : t;
		if (t - idle_since > 10 * HK_SEC)
			break;
	}
	double seconds = (double)(hk_clock_ns() - start) / 1e9;
	printf("{\"received\": %lu, \"seconds\": %.6f, \"mpps\": %.4f}\n", came, seconds,
	       (double)came / seconds / 1e6);
	if (came != expect)
		die("received another number of frames than expected");
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
			die("unknown argument; see the first comment of wire_player.c");
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
