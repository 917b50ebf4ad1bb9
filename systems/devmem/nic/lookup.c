/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/lookup.c: addresses to the host, and next hops back.
 */
#include "devmem/nic/lookup.h"

#include <rte_cycles.h>

static const unsigned address_bytes[2] = {4, 16};

void hk_nic_ask(struct hk_nic_asker *a, const struct hk_burst *b, struct hk_nic_transfers *t)
{
	const unsigned n[2] = {b->n4, b->n6};

	for (unsigned i = 0; i < n[0]; i++)
		a->addresses->four[(a->asked[0] + i) % HK_NIC_RING] = b->dst4[i];
	for (unsigned i = 0; i < n[1]; i++)
		memcpy(a->addresses->six[(a->asked[1] + i) % HK_NIC_RING], b->dst6[i], 16);
	for (unsigned family = 0; family < 2; family++) {
		if (!n[family])
			continue;
		a->asked[family] += n[family];
		atomic_store_explicit(&a->addresses->doorbell[family], a->asked[family],
				      memory_order_release);
		hk_nic_count(t, HK_NIC_HOST, HK_NIC_ADDRESS, HK_NIC_WRITE, 1,
			     n[family] * address_bytes[family]);
		hk_nic_count(t, HK_NIC_HOST, HK_NIC_DOORBELL, HK_NIC_WRITE, 1, 4);
	}
}

/* A cell from the host, as one that hk_forward_finish_cells() takes. */
static inline hk_cell checked(struct hk_nic_asker *a, hk_cell cell)
{
	if (HK_LIKELY(hk_cell_kind(cell) == HK_HOP_FORWARD ? hk_cell_port(cell) < a->nics
							   : hk_cell_kind(cell) < HK_HOP_KINDS))
		return cell;
	a->bad_hops++;
	return hk_cell_make(HK_HOP_NO_ROUTE, 0, NULL);
}

int hk_nic_ask_poll(struct hk_nic_asker *a, struct hk_burst *b, struct hk_nic_transfers *t)
{
	const unsigned n[2] = {b->n4, b->n6};
	hk_cell *to[2] = {b->cell4, b->cell6};

	for (unsigned family = 0; family < 2; family++) {
		uint32_t came = atomic_load_explicit(&a->hops->doorbell[family],
						     memory_order_acquire) -
				a->taken[family];
		if (HK_UNLIKELY(came > a->asked[family] - a->taken[family]))
			return -1;
		if (came < n[family])
			return 0;
	}
	for (unsigned family = 0; family < 2; family++) {
		const volatile uint64_t *cell = a->hops->cell[family];
		for (unsigned i = 0; i < n[family]; i++) {
			to[family][i] = checked(a, cell[(a->taken[family] + i) % HK_NIC_RING]);
		}
		a->taken[family] += n[family];
		if (n[family])
			hk_nic_count(t, a->id, HK_NIC_HOP, HK_NIC_READ, 1, n[family] * 8);
	}
	return 1;
}

/* Looks up @n addresses of a family. */
static void look_up(struct hk_nic_server *s, unsigned nic, unsigned family, unsigned n)
{
	const struct hk_nic_addresses *from = &s->host->from[nic];
	uint32_t at = s->served[nic][family], four[HK_FIB_BURST];
	uint8_t six[HK_FIB_BURST][16];
	uint64_t hop[HK_FIB_BURST];

	if (family == 0) {
		for (unsigned i = 0; i < n; i++)
			four[i] = from->four[(at + i) % HK_NIC_RING];
		hk_fib_lookup4(s->fib, four, hop, n);
	} else {
		for (unsigned i = 0; i < n; i++)
			memcpy(six[i], from->six[(at + i) % HK_NIC_RING], 16);
		hk_fib_lookup6(s->fib, six, hop, n);
	}
	for (unsigned i = 0; i < n; i++)
		s->hops[nic]->cell[family][(at + i) % HK_NIC_RING] = hk_fib_cell(s->fib, hop[i]);
	s->served[nic][family] += n;
	atomic_store_explicit(&s->hops[nic]->doorbell[family], s->served[nic][family],
			      memory_order_release);
	s->lookups += n;
	hk_nic_count(&s->transfers, HK_NIC_HOST, HK_NIC_ADDRESS, HK_NIC_READ, 1,
		     n * address_bytes[family]);
	hk_nic_count(&s->transfers, nic, HK_NIC_HOP, HK_NIC_WRITE, 1, n * 8);
	hk_nic_count(&s->transfers, nic, HK_NIC_DOORBELL, HK_NIC_WRITE, 1, 4);
}

int hk_nic_serve(struct hk_nic_server *s)
{
	uint64_t since = rte_rdtsc();
	unsigned done = 0;

	for (unsigned nic = 0; nic < s->nics; nic++)
		for (unsigned family = 0; family < 2; family++) {
			uint32_t n = atomic_load_explicit(&s->host->from[nic].doorbell[family],
							  memory_order_acquire) -
				     s->served[nic][family];
			if (HK_UNLIKELY(n > HK_NIC_RING))
				return -1 - (int)nic;
			n = HK_MIN(n, (uint32_t)HK_FIB_BURST);
			if (n)
				look_up(s, nic, family, n);
			done += n;
		}
	if (done)
		hk_load_cost_add(&s->cost, rte_rdtsc() - since, done);
	return (int)done;
}
