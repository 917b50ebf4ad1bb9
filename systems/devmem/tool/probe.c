/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/probe.c: the frames of measurements, in main memory or in a pop. The CPU writes to a
 * pop by hk_pop_write(), because devices do not accept any size of access.
 */
#include "devmem/tool/probe.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#include <rte_mbuf.h>

#define DATA_BYTES offsetof(struct hk_probe, first) /* written into a frame of data */

static const uint8_t type[2] = {0x88, 0xb5}; /* IEEE 802: for local experiments */

void hk_probe_fill(struct hk_probe *p, const uint8_t to[6], const uint8_t from[6],
		   enum hk_probe_kind kind, uint32_t run)
{
	*p = (struct hk_probe){.mark = HK_PROBE_MARK, .kind = kind, .run = run};
	memcpy(p->to, to, 6);
	memcpy(p->from, from, 6);
	memcpy(p->type, type, 2);
}

void hk_probe_swap(struct hk_probe *p)
{
	p->mark = htole64(p->mark);
	p->kind = htole32(p->kind);
	p->run = htole32(p->run);
	p->number = htole64(p->number);
	p->first = htole64(p->first);
	p->second = htole64(p->second);
}

/* Writes @len bytes of @p into the new frame @m of @size bytes. */
static void write_header(struct rte_mbuf *m, struct hk_pop *pop, const struct hk_probe *p,
			 size_t len, unsigned size)
{
	void *at = rte_pktmbuf_append(m, (uint16_t)size);
	struct hk_probe sent = *p;

	hk_probe_swap(&sent);
	if (pop)
		(void)hk_pop_write(pop, hk_pop_offset_of(pop, at, len), &sent, len);
	else
		memcpy(at, &sent, len);
}

bool hk_probe_send(struct hk_port *port, struct rte_mempool *pool, struct hk_pop *pop,
		   const struct hk_probe *p)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	if (!m)
		return false;
	write_header(m, pop, p, sizeof(*p), HK_PROBE_BYTES);
	if (pop)
		hk_pop_flush(pop);
	if (hk_port_tx(port, 0, &m, 1) == 1)
		return true;
	rte_pktmbuf_free(m);
	return false;
}

unsigned hk_probe_burst(struct hk_port *port, struct rte_mempool *pool, struct hk_pop *pop,
			struct hk_probe *p, unsigned n, unsigned size)
{
	struct rte_mbuf *m[HK_PROBE_BURST];

	if (n == 0 || rte_pktmbuf_alloc_bulk(pool, m, n) != 0)
		return 0;
	for (unsigned i = 0; i < n; i++) {
		write_header(m[i], pop, p, DATA_BYTES, size);
		p->number++;
	}
	if (pop)
		hk_pop_flush(pop);
	uint16_t sent = hk_port_tx(port, 0, m, (uint16_t)n);
	p->number -= n - sent;
	if (sent < n)
		rte_pktmbuf_free_bulk(m + sent, n - sent);
	return sent;
}

unsigned hk_probe_allowed(uint64_t rate, uint64_t ns, uint64_t sent)
{
	double due = (double)rate * (double)ns / HK_SEC - (double)sent;

	if (rate == 0 || due >= HK_PROBE_BURST)
		return HK_PROBE_BURST;
	return due > 0 ? (unsigned)due : 0;
}

bool hk_probe_read(struct hk_pop *pop, struct rte_mbuf *frame, struct hk_probe *out)
{
	const void *at = rte_pktmbuf_mtod(frame, const void *);

	if (rte_pktmbuf_data_len(frame) < HK_PROBE_BYTES)
		return false;
	if (!pop)
		memcpy(out, at, sizeof(*out));
	else if (hk_pop_read(pop, hk_pop_offset_of(pop, at, sizeof(*out)), out, sizeof(*out)) != 0)
		return false;
	hk_probe_swap(out);
	return memcmp(out->type, type, 2) == 0 && out->mark == HK_PROBE_MARK;
}
