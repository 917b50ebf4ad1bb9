/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/measure_peer.c: one NIC sends, receives, or does both, with all its buffers in the
 * pop. At the other end of its cable, `hk_devmem peer` does the counterpart. So nothing else of
 * this machine moves frames, and a load on memory slows only what is measured.
 */
#include "base/clock.h"
#include "devmem/tool/measure.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <rte_mbuf.h>

#define ASK_MS    20    /* between two requests */
#define ANSWER_MS 10000 /* longest wait for an answer */
#define GRACE     5     /* seconds that the peer goes on sending after a cell, if nobody stops it */

static const uint8_t anyone[6] = {255, 255, 255, 255, 255, 255};

int hk_measure_peer_set_up(struct hk_measure *m)
{
	return hk_measure_open_tested(m, m->nics[0]);
}

/* Receives frames, and returns how many are data. If one of the others is an answer of @kind to
 * this run, it is in *@answer, and *@answered becomes true. */
static unsigned receive(struct hk_measure *m, enum hk_probe_kind kind, uint32_t run,
			struct hk_probe *answer, bool *answered)
{
	struct rte_mbuf *f[HK_PROBE_BURST];
	uint16_t n = hk_port_rx(m->b, 0, f, HK_PROBE_BURST);
	struct hk_probe probe;
	unsigned data = 0;

	for (uint16_t i = 0; i < n; i++) {
		if (rte_pktmbuf_pkt_len(f[i]) == m->size) {
			data++;
			if (m->count++ % HK_MEASURE_CHECK_EACH == 0 &&
			    !hk_probe_read(m->pop, f[i], &probe))
				m->wrong++;
		} else if (kind != HK_PROBE_DATA && hk_probe_read(m->pop, f[i], &probe) &&
			   probe.kind == kind && probe.run == run) {
			*answer = probe;
			*answered = true;
		}
	}
	if (n)
		rte_pktmbuf_free_bulk(f, n);
	return data;
}

/* Sends @ask until an answer of @kind comes. Adds the data that arrives meanwhile to *@late. */
static int ask(struct hk_measure *m, const struct hk_probe *request, enum hk_probe_kind kind,
	       struct hk_probe *answer, uint64_t *late)
{
	int64_t start = hk_clock_ms(), asked = start - ASK_MS;
	bool answered = false;

	while (!answered) {
		int64_t now = hk_clock_ms();
		if (hk_devmem_stop)
			return hk_error_set(&m->err, -EINTR, "ended by a signal");
		if (now - start > ANSWER_MS)
			return hk_error_set(
				&m->err, -ETIMEDOUT,
				"no peer has answered NIC %s for %d s; fix: start `hikyaku devmem "
				"peer --nic ADDRESS` for the NIC at the other end of its cable",
				m->nics[0], ANSWER_MS / 1000);
		if (now - asked >= ASK_MS && hk_probe_send(m->b, m->tested, m->pop, request))
			asked = now;
		*late += receive(m, kind, request->run, answer, &answered);
	}
	return 0;
}

/* Sends and receives for the cell's time. */
static void move(struct hk_measure *m, struct hk_probe *data)
{
	uint64_t start = hk_clock_ns(), end = hk_measure_end(m, start, 1), t = start;
	bool sends = m->direction != HK_DIRECTION_RECEIVE;
	bool receives = m->direction != HK_DIRECTION_TRANSMIT;
	bool unused = false;

	while (!hk_devmem_stop && (t = hk_clock_ns()) < end) {
		if (sends)
			m->sent += hk_probe_burst(m->b, m->tested, m->pop, data,
						  hk_probe_allowed(m->rate, t - start, m->sent),
						  (unsigned)m->size);
		if (receives)
			m->received += receive(m, HK_PROBE_DATA, data->run, NULL, &unused);
	}
	m->took = (double)(t - start) / HK_SEC;
}

int hk_measure_peer(struct hk_measure *m)
{
	uint32_t run = (uint32_t)(hk_clock_ns() / HK_USEC) ^ (uint32_t)getpid() << 16;
	const uint8_t *mac = m->b->info.mac;
	struct hk_probe start, data, stop, ready = {0}, report = {0};
	uint64_t early = 0, late = 0;

	hk_probe_fill(&start, anyone, mac, HK_PROBE_START, run);
	start.number = m->size;
	if (m->direction != HK_DIRECTION_TRANSMIT)
		start.first = (uint64_t)((m->seconds + GRACE) * HK_SEC);
	start.second = m->rate;
	int rc = ask(m, &start, HK_PROBE_READY, &ready, &early);
	if (rc)
		return rc;
	hk_probe_fill(&data, ready.from, mac, HK_PROBE_DATA, run);
	hk_probe_fill(&stop, ready.from, mac, HK_PROBE_STOP, run);
	move(m, &data);
	rc = ask(m, &stop, HK_PROBE_REPORT, &report, &late);
	if (rc)
		return rc;
	uint64_t came = early + m->received + late, sent = m->sent;
	m->lost = report.number - HK_MIN(report.number, came);
	m->lost += sent - HK_MIN(sent, report.first);
	m->wrong += report.second;
	m->sent = HK_MIN(sent, report.first); /* a frame counts if it arrives */
	bool silent = (m->direction != HK_DIRECTION_RECEIVE && m->sent == 0) ||
		      (m->direction != HK_DIRECTION_TRANSMIT && m->received == 0);
	if (silent)
		return hk_error_set(&m->err, -EIO,
				    "the peer of NIC %s answers, and no frame of %u bytes passes; "
				    "fix: give a --size that both NICs and the cable take",
				    m->nics[0], (unsigned)m->size);
	return 0;
}
