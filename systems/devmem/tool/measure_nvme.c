/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/measure_nvme.c: an SSD reads blocks into the pop, without a NIC. Throughput is
 * measured with many reads in progress, and latency with one.
 */
#include "base/clock.h"
#include "devmem/tool/measure.h"

#include <errno.h>

#define AHEAD     32
#define SILENT_NS (5 * HK_SEC)

int hk_measure_nvme_set_up(struct hk_measure *m)
{
	int rc = hk_pop_open("pop:huge:size=2M", &m->queues, &m->err);

	if (rc)
		return rc;
	m->nvme_at = hk_pop_alloc(m->pop, (uint64_t)AHEAD * HK_MEASURE_NVME_READ, 4096);
	if (m->nvme_at == HK_POP_NONE)
		return hk_error_set(&m->err, -ENOMEM,
				    "%s has no space for %d reads; fix: use a larger pop",
				    m->pop_spec, AHEAD);
	return hk_nvme_open(m->nvme_addr, m->queues, &m->nvme, &m->err);
}

/* Runs @ahead reads at a time for @share of the cell's time. */
static int reads(struct hk_measure *m, unsigned ahead, double share)
{
	const struct hk_nvme_info *info = hk_nvme_info(m->nvme);
	unsigned each = HK_MEASURE_NVME_READ / info->block_size, tags[AHEAD], status[AHEAD], n;
	uint64_t started[AHEAD], start = hk_clock_ns(), t = start, moved = start, lba = 0;
	uint64_t end = hk_measure_end(m, start, share);
	uint64_t reading = 0; /* bit i: read i is in progress */

	while ((t = hk_clock_ns()) < end || reading) {
		if (hk_devmem_stop)
			return hk_error_set(&m->err, -EINTR, "ended by a signal");
		for (unsigned i = 0; i < ahead && t < end; i++) {
			uint64_t at = m->nvme_at + (uint64_t)i * HK_MEASURE_NVME_READ;
			uint64_t bus = hk_pop_bus(m->pop, at, HK_MEASURE_NVME_READ);
			if (reading >> i & 1)
				continue;
			started[i] = hk_clock_ns(); /* an emulator may have finished the read when
						  the call returns */
			if (hk_nvme_read(m->nvme, i, lba, each, bus) != 0)
				continue;
			reading |= UINT64_C(1) << i;
			lba = (lba + each) % (info->blocks - each + 1);
		}
		n = hk_nvme_poll(m->nvme, tags, status, AHEAD);
		for (unsigned i = 0; i < n; i++) {
			reading &= ~(UINT64_C(1) << tags[i]);
			if (status[i])
				return hk_error_set(&m->err, -EIO,
						    "NVMe controller %s failed a read (status "
						    "%#x); fix: check that it can write to %s",
						    m->nvme_addr, status[i], m->pop_spec);
			if (ahead == 1 && m->samples < HK_MEASURE_SAMPLES)
				m->sample[m->samples++] =
					(double)(hk_clock_ns() - started[tags[i]]) / HK_USEC;
			if (ahead > 1)
				m->received++;
		}
		if (n)
			moved = t;
		else if (t - moved > SILENT_NS)
			return hk_error_set(&m->err, -ETIMEDOUT,
					    "NVMe controller %s has not answered for 5 s; fix: "
					    "check whether it has been removed",
					    m->nvme_addr);
	}
	if (ahead > 1)
		m->took = (double)(t - start) / HK_SEC;
	return 0;
}

int hk_measure_nvme(struct hk_measure *m)
{
	int rc = reads(m, AHEAD, 1);

	if (!rc)
		rc = reads(m, 1, 0.5);
	if (!rc && (m->samples == 0 || m->received == 0))
		rc = hk_error_set(
			&m->err, -EIO,
			"NVMe controller %s read nothing in time; fix: give more --seconds",
			m->nvme_addr);
	return rc;
}
