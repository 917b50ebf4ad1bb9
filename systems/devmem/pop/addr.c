/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/addr.c: translates offsets to bus addresses and back. A pop has one of three forms:
 * the process's own addresses, which an IOMMU translates; one physical range; or scattered pages.
 */
#include "devmem/pop/internal.h"

uint64_t hk_pop_memory_bus(const struct hk_pop_memory *m, uint64_t offset, uint64_t len)
{
	const struct hk_pop_info *i = &m->info;

	if (len == 0 || len > i->size || offset > i->size - len)
		return HK_POP_NONE;
	if (i->virtual_iova)
		return (uintptr_t)m->va + offset;
	if (!m->pages)
		return i->physical == HK_POP_NONE ? HK_POP_NONE : i->physical + offset;
	uint64_t first = offset / i->page, last = (offset + len - 1) / i->page;
	for (uint64_t p = first; p < last; p++) {
		if (m->pages[p + 1] != m->pages[p] + i->page)
			return HK_POP_NONE;
	}
	return m->pages[first] + offset % i->page;
}

uint64_t hk_pop_memory_offset(const struct hk_pop_memory *m, uint64_t bus, uint64_t len)
{
	const struct hk_pop_info *i = &m->info;
	uint64_t base = i->virtual_iova ? (uintptr_t)m->va : i->physical;

	if (len == 0 || len > i->size)
		return HK_POP_NONE;
	if (i->virtual_iova || !m->pages) {
		if (base == HK_POP_NONE || bus < base || bus - base > i->size - len)
			return HK_POP_NONE;
		return bus - base;
	}
	for (uint64_t p = 0; p < i->size / i->page; p++) {
		if (bus >= m->pages[p] && bus - m->pages[p] < i->page) {
			uint64_t offset = p * i->page + (bus - m->pages[p]);
			return hk_pop_memory_bus(m, offset, len) == bus ? offset : HK_POP_NONE;
		}
	}
	return HK_POP_NONE;
}
