/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/peer.c: `hk_devmem peer --nic ADDR` is the other end of a cable for `hk_devmem
 * measure
 * --direction`. It sends, receives and counts as the measured side asks (probe.h), and serves one
 * cell after the other until a signal ends it. Its buffers are in main memory. Run it on another
 * machine: on the measured one, its own traffic would suffer from the load and add to it.
 *
 * Prints "ready" when it polls.
 */
#include "base/clock.h"
#include "devmem/tool/probe.h"
#include "devmem/tool/tool.h"

#include <getopt.h>
#include <string.h>

#include <rte_mbuf.h>

struct peer {
	char *nic;
	struct rte_mempool *pool;
	struct hk_port *port;

	struct hk_probe data; /* header of the frames that it sends; run 0: no cell yet */
	unsigned size;
	uint64_t since; /* start of the cell, ns */
	uint64_t until; /* it sends until then, ns; 0: it does not send */
	uint64_t rate;  /* most frames/s that it sends; 0: any */
	bool stopped;   /* the cell has ended, and only its report may be asked for again */
	uint64_t received, wrong;
	struct hk_error err;
};

static int usage(const char *why)
{
	fprintf(stderr, "hk_devmem peer: %s; fix: hk_devmem peer --nic ADDR\n", why);
	return 2;
}

static int parse(int argc, char **argv, struct peer *p)
{
	static const struct option known[] = {{"nic", required_argument, NULL, 'n'},
					      {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (c == '?')
			return usage("unknown option");
		p->nic = optarg;
	}
	return p->nic && optind == argc ? 0 : usage("a NIC is needed");
}

/* If there is no space for the answer, the measured side asks again. */
static void answer(struct peer *p, const struct hk_probe *request, enum hk_probe_kind kind)
{
	struct hk_probe out;

	hk_probe_fill(&out, request->from, p->port->info.mac, kind, request->run);
	out.number = p->data.number;
	out.first = p->received;
	out.second = p->wrong;
	(void)hk_probe_send(p->port, p->pool, NULL, &out);
}

static void begin(struct peer *p, const struct hk_probe *start)
{
	hk_probe_fill(&p->data, start->from, p->port->info.mac, HK_PROBE_DATA, start->run);
	p->size = (unsigned)HK_MIN(start->number, (uint64_t)HK_PROBE_MAX);
	p->since = hk_clock_ns();
	p->until = start->first ? p->since + start->first : 0;
	p->rate = start->second;
	p->received = p->wrong = 0;
	p->stopped = false;
}

static void take(struct peer *p, struct rte_mbuf *frame)
{
	struct hk_probe in;
	bool ours = hk_probe_read(NULL, frame, &in);

	if (rte_pktmbuf_pkt_len(frame) == p->size && !p->stopped) {
		p->received++;
		p->wrong += !ours || in.kind != HK_PROBE_DATA;
	} else if (ours && in.kind == HK_PROBE_START && in.number >= HK_PROBE_MIN) {
		if (p->data.run != in.run)
			begin(p, &in);
		answer(p, &in, HK_PROBE_READY);
	} else if (ours && in.kind == HK_PROBE_STOP && in.run == p->data.run) {
		p->until = 0;
		p->stopped = true;
		answer(p, &in, HK_PROBE_REPORT);
	}
}

static void serve(struct peer *p)
{
	struct rte_mbuf *f[HK_PROBE_BURST];

	while (!hk_devmem_stop) {
		uint64_t now = hk_clock_ns();
		uint16_t n = hk_port_rx(p->port, 0, f, HK_PROBE_BURST);
		for (uint16_t i = 0; i < n; i++)
			take(p, f[i]);
		if (n)
			rte_pktmbuf_free_bulk(f, n);
		if (now < p->until)
			(void)hk_probe_burst(
				p->port, p->pool, NULL, &p->data,
				hk_probe_allowed(p->rate, now - p->since, p->data.number), p->size);
	}
}

int hk_devmem_peer(int argc, char **argv)
{
	static struct peer p;
	char spec[64];
	int rc = parse(argc, argv, &p);

	if (rc)
		return rc;
	hk_devmem_on_signals();
	rc = hk_devmem_eal(&p.nic, 1, 48, &p.err);
	if (!rc)
		rc = hk_pool_create("peer", HK_PROBE_BUFFERS, HK_PROBE_BUFFER, &p.pool, &p.err);
	snprintf(spec, sizeof(spec), "pci:%s,frame=%u,ring=256", p.nic, HK_PROBE_FRAME_MAX);
	if (!rc)
		rc = hk_port_open(spec, 0, p.pool, HK_DEVMEM_LINK_MS, &p.port, &p.err);
	if (!rc) {
		printf("ready\n");
		fflush(stdout);
		serve(&p);
	}
	hk_port_close(p.port);
	hk_pool_free(p.pool);
	if (rc)
		fprintf(stderr, "hk_devmem peer: %s\n", p.err.text);
	return rc ? 1 : 0;
}
