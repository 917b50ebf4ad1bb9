/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/measure.c: `hk_devmem measure` measures throughput and latency of a device that
 * writes into memory by DMA (paper P4), while the CPU runs a load.
 *
 *   hk_devmem measure --pop SPEC|none --nics A,B | --nvme ADDR [--load nothing|read|write|train]
 *                     [--seconds N] [--size N] [--load-mb N]
 *
 * NIC A sends from main memory to NIC B, which receives into the pop; none means DPDK's own main
 * memory. A cable, a switch or a patch connects them. Throughput is measured with many frames in
 * flight. Latency is measured with one, from its send to the descriptor of its receive. With
 * --nvme, an SSD reads blocks into the pop instead, and no NIC is needed.
 *
 * It prints one line of JSON. Rates count the payload of frames that arrived. The first 8 bytes of
 * each 64th frame are compared, which bounds the reads of slow memory.
 */
#include "base/clock.h"
#include "devmem/pop/nvme.h"
#include "devmem/pop/pop.h"
#include "devmem/tool/load.h"
#include "devmem/tool/tool.h"
#include "port/port.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#define BURST      16
#define BUFFERS    1024
#define FRAME_MAX  9216u
#define SAMPLES    4096
#define WINDOW     64 /* frames in flight: fewer than a ring holds, so that none is lost */
#define LOST_NS    (100 * HK_MSEC)
#define NVME_AHEAD 32
#define NVME_READ  4096u
#define MARK       UINT64_C(0x21554b414b494821)

struct measure {
	const char *pop_spec, *nvme_addr;
	char *nics[2];
	unsigned n;
	enum hk_devmem_load load;
	uint64_t seconds, size, load_mb;

	struct hk_pop *pop, *queues;
	struct hk_nvme *nvme;
	struct rte_mempool *to, *from;
	struct hk_port *a, *b;
	uint64_t bytes, count, lost, wrong;
	double took;
	double sample[SAMPLES];
	unsigned samples;
	struct hk_error err;
};

static int usage(const char *why)
{
	fprintf(stderr,
		"hk_devmem measure: %s; fix: hk_devmem measure --pop SPEC|none --nics A,B | --nvme "
		"ADDR "
		"[--load nothing|read|write|train] [--seconds N] [--size N] [--load-mb N]\n",
		why);
	return 2;
}

static int parse(int argc, char **argv, struct measure *m)
{
	static const struct option known[] = {
		{"pop", required_argument, NULL, 'p'},     {"nics", required_argument, NULL, 'n'},
		{"nvme", required_argument, NULL, 'v'},    {"load", required_argument, NULL, 'l'},
		{"seconds", required_argument, NULL, 's'}, {"size", required_argument, NULL, 'z'},
		{"load-mb", required_argument, NULL, 'm'}, {NULL, 0, NULL, 0}};
	char *save = NULL;
	int c;

	*m = (struct measure){.seconds = 1, .size = 1024, .load_mb = 64};
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
		uint64_t *number = c == 's'   ? &m->seconds
				   : c == 'z' ? &m->size
				   : c == 'm' ? &m->load_mb
					      : NULL;
		if (number && (!hk_devmem_number(optarg, number) || *number == 0))
			return usage("--seconds, --size and --load-mb take numbers above 0");
		if (c == 'p')
			m->pop_spec = optarg;
		else if (c == 'v')
			m->nvme_addr = optarg;
		else if (c == 'l' && (m->load = hk_devmem_load_find(optarg)) == HK_DEVMEM_LOADS)
			return usage("there is no such --load");
		else if (c == 'n') {
			for (char *t = strtok_r(optarg, ",", &save); t;
			     t = strtok_r(NULL, ",", &save)) {
				if (m->n == 2)
					return usage("--nics takes two");
				m->nics[m->n++] = t;
			}
		} else if (c == '?')
			return usage("unknown option");
	}
	if (!m->pop_spec || (m->nvme_addr ? m->n != 0 : m->n != 2) || optind != argc)
		return usage("a pop, and two NICs or an NVMe controller are needed");
	if (m->size < 60 || m->size > 9000 || m->seconds > 3600 || m->load_mb > 65536)
		return usage(
			"--size is 60 to 9000, --seconds at most 3600, --load-mb at most 65536");
	return 0;
}

/* ---- NICs ------------------------------------------------------------------------------------ */

static int set_up_nics(struct measure *m)
{
	char spec[64];
	int rc = hk_pool_create("from", BUFFERS, FRAME_MAX, &m->from, &m->err);

	if (!rc && m->pop)
		rc = hk_pop_mempool(m->pop, "to", BUFFERS, FRAME_MAX, &m->to, &m->err);
	else if (!rc)
		rc = hk_pool_create("to", BUFFERS, FRAME_MAX, &m->to, &m->err);
	if (!rc && m->pop)
		rc = hk_pop_map_for(m->pop, m->nics[1], &m->err);
	snprintf(spec, sizeof(spec), "pci:%s,frame=%u,ring=256", m->nics[0], FRAME_MAX);
	if (!rc)
		rc = hk_port_open(spec, 0, m->from, HK_DEVMEM_LINK_MS, &m->a, &m->err);
	snprintf(spec, sizeof(spec), "pci:%s,frame=%u,ring=256", m->nics[1], FRAME_MAX);
	if (!rc)
		rc = hk_port_open(spec, 0, m->to, HK_DEVMEM_LINK_MS, &m->b, &m->err);
	if (!rc && m->size > m->b->info.frame_max)
		rc = hk_error_set(
			&m->err, -EMSGSIZE,
			"NIC %s takes frames of at most %u bytes; fix: give a smaller --size",
			m->nics[1], m->b->info.frame_max);
	return rc;
}

/* As in nvme.c: memory is freed only after the devices that write to it have been stopped. */
static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static bool send_one(struct measure *m, uint64_t number)
{
	struct rte_mbuf *f = rte_pktmbuf_alloc(m->from);
	unsigned char *p = f ? (void *)rte_pktmbuf_append(f, (uint16_t)m->size) : NULL;
	uint64_t mark = MARK;

	if (!p) {
		rte_pktmbuf_free(f);
		return false;
	}
	memcpy(p, m->b->info.mac, 6);
	memcpy(p + 6, m->a->info.mac, 6);
	p[12] = 0x88;
	p[13] = 0xb5;
	memcpy(p + 14, &mark, 8);
	memcpy(p + 22, &number, 8);
	if (hk_port_tx(m->a, 0, &f, 1) == 1)
		return true;
	rte_pktmbuf_free(f);
	return false;
}

static bool is_ours(struct measure *m, struct rte_mbuf *f)
{
	uint64_t mark = 0;

	if (rte_pktmbuf_pkt_len(f) != m->size)
		return false;
	const unsigned char *p = rte_pktmbuf_mtod_offset(f, const unsigned char *, 14);
	if (m->pop)
		(void)hk_pop_read(m->pop, hk_pop_offset_of(m->pop, p, 8), &mark, 8);
	else
		memcpy(&mark, p, 8);
	return mark == MARK;
}

/* Receives frames. Returns how many have the size of ours. */
static unsigned receive(struct measure *m)
{
	struct rte_mbuf *f[BURST];
	uint16_t n = hk_port_rx(m->b, 0, f, BURST);
	unsigned ours = 0;

	for (uint16_t i = 0; i < n; i++) {
		ours += rte_pktmbuf_pkt_len(f[i]) == m->size;
		if (m->count % 64 == 0 && rte_pktmbuf_pkt_len(f[i]) == m->size)
			m->wrong += !is_ours(m, f[i]);
		m->count++;
	}
	if (n)
		rte_pktmbuf_free_bulk(f, n);
	return ours;
}

/* Frames that are late no longer count as in flight, so that others are sent. A frame is lost only
 * if it has not arrived at the end. */
static void nic_throughput(struct measure *m)
{
	uint64_t start = hk_clock_ns(), end = start + m->seconds * HK_SEC, moved = start;
	uint64_t t = start, sent = 0, came = 0, given_up = 0;

	while (!stop && (t = hk_clock_ns()) < end) {
		while (sent - came - given_up < WINDOW && send_one(m, sent))
			sent++;
		unsigned n = receive(m);
		m->bytes += n * m->size;
		came = HK_MIN(came + n, sent);
		given_up = HK_MIN(given_up, sent - came);
		if (n) {
			moved = t;
		} else if (t - moved > LOST_NS) {
			given_up = sent - came;
			moved = t;
		}
	}
	m->took = (double)(t - start) / HK_SEC;
	for (moved = hk_clock_ns(); came < sent && hk_clock_ns() - moved < LOST_NS;) {
		unsigned n = receive(m);
		came = HK_MIN(came + n, sent);
		if (n)
			moved = hk_clock_ns();
	}
	m->lost += sent - came;
}

static void nic_latency(struct measure *m)
{
	uint64_t end = hk_clock_ns() + m->seconds * HK_SEC / 2;

	for (uint64_t k = 0; !stop && m->samples < SAMPLES && hk_clock_ns() < end; k++) {
		uint64_t start = hk_clock_ns(), t = start;
		unsigned got = 0;
		if (!send_one(m, k))
			continue;
		while (!got && (t = hk_clock_ns()) - start < LOST_NS)
			got = receive(m);
		if (got)
			m->sample[m->samples++] = (double)(t - start) / HK_USEC;
		else
			m->lost++;
	}
}

/* ---- NVMe ------------------------------------------------------------------------------------ */

static uint64_t nvme_at; /* offset of the block in the pop into which reads go */

static int set_up_nvme(struct measure *m)
{
	int rc = hk_pop_open("pop:huge:size=2M", &m->queues, &m->err);

	if (rc)
		return rc;
	nvme_at = hk_pop_alloc(m->pop, (uint64_t)NVME_AHEAD * NVME_READ, 4096);
	if (nvme_at == HK_POP_NONE)
		return hk_error_set(&m->err, -ENOMEM,
				    "%s has no space for %d reads; fix: use a larger pop",
				    m->pop_spec, NVME_AHEAD);
	return hk_nvme_open(m->nvme_addr, m->queues, &m->nvme, &m->err);
}

/* Runs @ahead reads at a time for @ns. */
static int nvme_run(struct measure *m, unsigned ahead, uint64_t ns)
{
	const struct hk_nvme_info *info = hk_nvme_info(m->nvme);
	unsigned each = NVME_READ / info->block_size, tags[NVME_AHEAD], status[NVME_AHEAD], n;
	uint64_t started[NVME_AHEAD], start = hk_clock_ns(), t = start, moved = start, lba = 0;
	uint64_t reading = 0; /* bit i: read i is in progress */

	while ((t = hk_clock_ns()) - start < ns || reading) {
		if (stop)
			return hk_error_set(&m->err, -EINTR, "ended by a signal");
		for (unsigned i = 0; i < ahead && t - start < ns; i++) {
			uint64_t bus = hk_pop_bus(m->pop, nvme_at + (uint64_t)i * NVME_READ,
						  NVME_READ);
			if (reading >> i & 1)
				continue;
			started[i] = hk_clock_ns(); /* an emulator may have finished the read when
						  the call returns */
			if (hk_nvme_read(m->nvme, i, lba, each, bus) != 0)
				continue;
			reading |= UINT64_C(1) << i;
			lba = (lba + each) % (info->blocks - each + 1);
		}
		n = hk_nvme_poll(m->nvme, tags, status, NVME_AHEAD);
		for (unsigned i = 0; i < n; i++) {
			reading &= ~(UINT64_C(1) << tags[i]);
			if (status[i])
				return hk_error_set(&m->err, -EIO,
						    "NVMe controller %s failed a read (status "
						    "%#x); fix: check that it can write to %s",
						    m->nvme_addr, status[i], m->pop_spec);
			if (ahead == 1 && m->samples < SAMPLES)
				m->sample[m->samples++] =
					(double)(hk_clock_ns() - started[tags[i]]) / HK_USEC;
			if (ahead > 1)
				m->bytes += NVME_READ;
			m->count++;
		}
		if (n)
			moved = t;
		else if (t - moved > 5 * HK_SEC)
			return hk_error_set(&m->err, -ETIMEDOUT,
					    "NVMe controller %s has not answered for 5 s; fix: "
					    "check whether it has been removed",
					    m->nvme_addr);
	}
	if (ahead > 1)
		m->took = (double)(t - start) / HK_SEC;
	return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int set_up(struct measure *m)
{
	bool none = strcmp(m->pop_spec, "none") == 0;
	int rc = hk_devmem_eal(m->nics, m->n, 64, &m->err);

	if (!rc && none && m->nvme_addr)
		rc = hk_pop_open("pop:huge:size=2M", &m->pop, &m->err);
	else if (!rc && !none)
		rc = hk_pop_open(m->pop_spec, &m->pop, &m->err);
	if (!rc)
		rc = m->nvme_addr ? set_up_nvme(m) : set_up_nics(m);
	return rc;
}

static void tear_down(struct measure *m)
{
	hk_port_close(m->a);
	hk_port_close(m->b);
	hk_nvme_close(m->nvme);
	if (m->pop)
		hk_pop_mempool_free(m->pop, m->to);
	else
		hk_pool_free(m->to);
	hk_pool_free(m->from);
	hk_pop_close(m->pop);
	hk_pop_close(m->queues);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int run(struct measure *m)
{
	struct hk_devmem_load_done done;
	int rc = hk_devmem_load_start(m->load, (unsigned)m->load_mb, &m->err);

	if (rc)
		return rc;
	if (m->nvme_addr) {
		rc = nvme_run(m, NVME_AHEAD, m->seconds * HK_SEC);
		if (!rc)
			rc = nvme_run(m, 1, m->seconds * HK_SEC / 2);
	} else {
		nic_throughput(m);
		nic_latency(m);
	}
	hk_devmem_load_stop(&done);
	if (!rc && stop)
		rc = hk_error_set(&m->err, -EINTR, "ended by a signal");
	if (!rc && (m->samples == 0 || m->bytes == 0))
		rc = hk_error_set(
			&m->err, -EIO,
			"nothing arrived from %s at %s; fix: connect them by a cable or a patch",
			m->nvme_addr ? m->nvme_addr : m->nics[0],
			m->nvme_addr ? m->pop_spec : m->nics[1]);
	if (rc)
		return rc;
	qsort(m->sample, m->samples, sizeof(m->sample[0]), compare);
	printf("{\"device\": \"%s\", \"pop\": \"%s\", \"load\": \"%s\", \"size\": %" PRIu64
	       ", \"gbit_per_s\": %.4f, \"latency_us\": %.2f, \"latency_p99_us\": %.2f, "
	       "\"samples\": %u, "
	       "\"lost\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"load_mb_per_s\": %.1f}\n",
	       m->nvme_addr ? "nvme" : "nic", m->pop_spec, hk_devmem_load_name(m->load),
	       m->nvme_addr ? NVME_READ : m->size, (double)m->bytes * 8 / 1e9 / m->took,
	       m->sample[m->samples / 2], m->sample[m->samples * 99 / 100], m->samples, m->lost,
	       m->wrong, (double)done.bytes / 1e6 / ((double)m->seconds * 1.5));
	return 0;
}

int hk_devmem_measure(int argc, char **argv)
{
	static struct measure m;
	int rc = parse(argc, argv, &m);

	if (rc)
		return rc;
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	rc = set_up(&m);
	if (!rc)
		rc = run(&m);
	tear_down(&m);
	if (rc)
		fprintf(stderr, "hk_devmem measure: %s\n", m.err.text);
	return rc ? 1 : 0;
}
