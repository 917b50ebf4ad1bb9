/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/measure_loop.c: NIC A sends from main memory to NIC B, which receives into the pop.
 * Throughput is measured with many frames in flight. Latency is measured with one, from its send to
 * the descriptor of its receive.
 */
#include "base/clock.h"
#include "devmem/tool/measure.h"

#include <errno.h>

#include <rte_mbuf.h>

#define WINDOW  64u /* frames in flight: fewer than a ring holds, so that none is lost */
#define LOST_NS (100 * HK_MSEC)
/* Without a first frame for so long there is no wire. A guest that shares its processor may not run
 * for longer than a short measurement takes. */
#define NO_WIRE_NS (5 * HK_SEC)

int hk_measure_loop_set_up(struct hk_measure *m)
{
	char spec[64];
	int rc = hk_pool_create("plain", HK_PROBE_BUFFERS, HK_PROBE_BUFFER, &m->plain, &m->err);

	snprintf(spec, sizeof(spec), "pci:%s,frame=%u,ring=256", m->nics[0], HK_PROBE_FRAME_MAX);
	if (!rc)
		rc = hk_port_open(spec, 0, m->plain, HK_DEVMEM_LINK_MS, &m->a, &m->err);
	return rc ? rc : hk_measure_open_tested(m, m->nics[1]);
}

/* Receives frames. Returns how many have the size of ours. */
static unsigned receive(struct hk_measure *m)
{
	struct rte_mbuf *f[HK_PROBE_BURST];
	uint16_t n = hk_port_rx(m->b, 0, f, HK_PROBE_BURST);
	struct hk_probe probe;
	unsigned ours = 0;

	for (uint16_t i = 0; i < n; i++) {
		if (rte_pktmbuf_pkt_len(f[i]) != m->size)
			continue;
		ours++;
		if (m->count++ % HK_MEASURE_CHECK_EACH == 0)
			m->wrong += !hk_probe_read(m->pop, f[i], &probe);
	}
	if (n)
		rte_pktmbuf_free_bulk(f, n);
	return ours;
}

/* Frames that are late no longer count as in flight, so that others are sent. A frame is lost only
 * if it has not arrived at the end. */
static void throughput(struct hk_measure *m, struct hk_probe *probe)
{
	uint64_t start = hk_clock_ns(), end = hk_measure_end(m, start, 1), moved = start;
	uint64_t t = start, came = 0, given_up = 0;

	while (!hk_devmem_stop &&
	       ((t = hk_clock_ns()) < end || (m->received == 0 && t - start < NO_WIRE_NS))) {
		uint64_t flying = m->sent - came - given_up;
		if (flying < WINDOW)
			m->sent += hk_probe_burst(m->a, m->plain, NULL, probe,
						  HK_MIN(WINDOW - (unsigned)flying, HK_PROBE_BURST),
						  (unsigned)m->size);
		unsigned n = receive(m);
		m->received += n;
		came = HK_MIN(came + n, m->sent);
		given_up = HK_MIN(given_up, m->sent - came);
		if (n) {
			moved = t;
		} else if (t - moved > LOST_NS) {
			given_up = m->sent - came;
			moved = t;
		}
	}
	m->took = (double)(t - start) / HK_SEC;
	for (moved = hk_clock_ns(); came < m->sent && hk_clock_ns() - moved < LOST_NS;) {
		unsigned n = receive(m);
		came = HK_MIN(came + n, m->sent);
		if (n)
			moved = hk_clock_ns();
	}
	m->lost += m->sent - came;
}

static void latency(struct hk_measure *m, struct hk_probe *probe)
{
	uint64_t begin = hk_clock_ns(), end = hk_measure_end(m, begin, 0.5), start = begin;

	while (!hk_devmem_stop && m->samples < HK_MEASURE_SAMPLES &&
	       (start < end || (m->samples == 0 && start - begin < NO_WIRE_NS))) {
		uint64_t t = start = hk_clock_ns();
		unsigned got = 0;

		if (hk_probe_burst(m->a, m->plain, NULL, probe, 1, (unsigned)m->size) == 0)
			continue;
		while (!got && (t = hk_clock_ns()) - start < LOST_NS)
			got = receive(m);
		if (got)
			m->sample[m->samples++] = (double)(t - start) / HK_USEC;
		else
			m->lost++;
	}
}

int hk_measure_loop(struct hk_measure *m)
{
	struct hk_probe probe;

	hk_probe_fill(&probe, m->b->info.mac, m->a->info.mac, HK_PROBE_DATA, 0);
	throughput(m, &probe);
	if (m->received)
		latency(m, &probe);
	if (!hk_devmem_stop && m->samples == 0)
		return hk_error_set(&m->err, -EIO,
				    "nothing arrived from %s at %s; fix: connect them by a cable "
				    "or a patch",
				    m->nics[0], m->nics[1]);
	return 0;
}
