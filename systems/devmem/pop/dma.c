/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/dma.c: maps a pop for devices, and makes pools of packet buffers in it.
 *
 * A mapping in VFIO's container serves all its devices, and a second one would fail with -EEXIST.
 * So this file maps the memory with the first device only. A driver with memory regions of its own
 * (mlx5) needs one call for each device.
 */
#include "devmem/pop/pop_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_memory.h>

#define POOL_CACHE 256u

/* Returns the largest page size with which a page table can describe the range. */
static uint64_t describing_page(const struct hk_pop_memory *m, uint64_t at, uint64_t len)
{
	const struct hk_pop_info *i = &m->info;
	uint64_t bits = ((uintptr_t)m->va + at) | len;

	if (m->pages)
		return i->page;
	if (!i->virtual_iova)
		bits |= i->physical + at;
	return HK_MIN(bits & -bits, UINT64_C(1) << 30);
}

int hk_pop_dma_pages(const struct hk_pop *pop, uint64_t at, uint64_t len, struct hk_pop_pages *out,
		     struct hk_error *err)
{
	const struct hk_pop_memory *m = &pop->memory;

	out->size = describing_page(m, at, len);
	out->count = (unsigned)(len / out->size);
	out->iova = malloc(out->count * sizeof(*out->iova));
	if (!out->iova)
		return hk_error_set(err, -ENOMEM, "no memory for the pages of %s", m->info.spec);
	for (unsigned i = 0; i < out->count; i++)
		out->iova[i] = hk_pop_memory_bus(m, at + i * out->size, out->size);
	return 0;
}

int hk_pop_dma_init(struct hk_pop *pop, struct hk_error *err)
{
	struct hk_pop_memory *m = &pop->memory;
	uint64_t len = m->info.size - pop->rings;
	struct hk_pop_pages pages;
	int rc = hk_pop_dma_pages(pop, pop->rings, len, &pages, err);

	if (rc)
		return rc;
	rc = rte_extmem_register(m->va + pop->rings, len, pages.iova, pages.count, pages.size);
	free(pages.iova);
	if (rc)
		return hk_error_set(err, -EIO,
				    "DPDK cannot register the memory of %s: %s; fix: close pops "
				    "that overlap it, or give a smaller size=",
				    m->info.spec, rte_strerror(rte_errno));
	pop->registered = true;
	return 0;
}

void hk_pop_dma_unregister(struct hk_pop *pop)
{
	if (pop->registered)
		(void)rte_extmem_unregister(pop->memory.va + pop->rings,
					    pop->memory.info.size - pop->rings);
	pop->registered = false;
}

/* Calls @what for each range that is contiguous for devices. DPDK has mapped the heap for rings. */
static int each_range(struct hk_pop *pop, struct rte_device *dev,
		      int (*what)(struct rte_device *, void *, uint64_t, size_t))
{
	struct hk_pop_memory *m = &pop->memory;
	uint64_t at = pop->rings;

	while (at < m->info.size) {
		uint64_t len = m->info.size - at;
		if (hk_pop_memory_bus(m, at, len) == HK_POP_NONE)
			len = m->info.page - at % m->info.page;
		if (what(dev, m->va + at, hk_pop_memory_bus(m, at, len), len) != 0)
			return -rte_errno;
		at += len;
	}
	return 0;
}

bool hk_pop_dma_end(struct hk_pop *pop)
{
	if (pop->mapped)
		(void)each_range(pop, pop->mapped, rte_dev_dma_unmap);
	hk_pop_dma_unregister(pop);
	return hk_pop_rings_end(pop);
}

static struct rte_device *find_device(const char *name)
{
	struct rte_dev_iterator it;
	struct rte_device *dev, *found = NULL;

	RTE_DEV_FOREACH(dev, "bus=pci", &it)
	{
		if (strcmp(rte_dev_name(dev), name) == 0)
			found = dev;
	}
	return found;
}

static int map_vfio(struct hk_pop *pop, struct rte_device *dev, struct hk_error *err)
{
	const struct hk_pop_info *i = &pop->memory.info;

	if (pop->mapped)
		return 0;
	int rc = each_range(pop, dev, rte_dev_dma_map);
	if (rc == -EEXIST)
		return 0; /* DPDK itself has mapped the same range */
	if (rc) {
		bool narrow = rc == -EINVAL || rc == -EFAULT || rc == -ENOSPC || rc == -E2BIG;
		return hk_error_set(
			err, narrow ? -EFBIG : -EIO,
			"%s cannot be mapped for %s in the IOMMU at 0x%" PRIx64
			": %s; fix: use an IOMMU with wider addresses (QEMU: "
			"intel-iommu,aw-bits=48), or physical addresses (EAL: --iova-mode=pa)",
			i->spec, rte_dev_name(dev), hk_pop_memory_bus(&pop->memory, 0, 1),
			strerror(-rc));
	}
	pop->mapped = dev;
	return 0;
}

int hk_pop_map_for(struct hk_pop *pop, const char *device, struct hk_error *err)
{
	const struct hk_pop_info *i = &pop->memory.info;
	struct hk_pci pci;
	int rc = hk_pci_read("/sys", device, &pci, err);

	if (rc)
		return rc;
	struct rte_device *dev = find_device(device);
	if (!dev)
		return hk_error_set(err, -ENODEV,
				    "DPDK does not drive PCI device %s; fix: bind it to "
				    "vfio-pci or uio_pci_generic, and allow it",
				    device);
	if (strcmp(pci.driver, "vfio-pci") == 0)
		return map_vfio(pop, dev, err);
	if (strcmp(pci.driver, "uio_pci_generic") == 0 || strcmp(pci.driver, "igb_uio") == 0) {
		if (pci.iommu[0] && strcmp(pci.iommu, "identity") != 0)
			return hk_error_set(err, -EPERM,
					    "the IOMMU translates for PCI device %s (%s), and its "
					    "driver %s cannot map %s there; fix: bind the device "
					    "to vfio-pci, or boot with iommu=pt",
					    device, pci.iommu, pci.driver, i->spec);
		if (i->virtual_iova)
			return hk_error_set(
				err, -EPERM,
				"PCI device %s uses physical addresses (%s), and DPDK uses virtual "
				"ones; fix: start the EAL with --iova-mode=pa",
				device, pci.driver);
		return 0;
	}
	/* a driver that shares the device with the kernel registers memory itself */
	if (each_range(pop, dev, rte_dev_dma_map) != 0)
		return hk_error_set(err, rte_errno == ENOTSUP ? -ENOTSUP : -EIO,
				    "the driver of PCI device %s cannot register the memory of %s: "
				    "%s; fix: bind it to vfio-pci",
				    device, i->spec, rte_strerror(rte_errno));
	return 0;
}

int hk_pop_map_for_port(struct hk_pop *pop, uint16_t port, struct hk_error *err)
{
	struct rte_eth_dev_info info;

	if (rte_eth_dev_info_get(port, &info) != 0)
		return hk_error_set(err, -ENODEV, "there is no DPDK port %u", port);
	const char *name = rte_dev_name(info.device);
	if (!hk_pci_is_addr(name))
		return 0; /* not a PCI device: the CPU copies its frames */
	return hk_pop_map_for(pop, name, err);
}

int hk_pop_map_for_ports(struct hk_pop *pop, struct hk_error *err)
{
	uint16_t port;
	int rc = 0;

	RTE_ETH_FOREACH_DEV(port)
	{
		if (!rc)
			rc = hk_pop_map_for_port(pop, port, err);
	}
	return rc;
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* Makes the pool on the memory @ext, or frees the block at @offset. */
static int create_pool(struct hk_pop *pop, uint64_t offset, const struct rte_pktmbuf_extmem *ext,
		       unsigned pieces, const char *name, unsigned count, unsigned buffer_size,
		       struct rte_mempool **pool, struct hk_error *err)
{
	*pool = rte_pktmbuf_pool_create_extbuf(name, count, HK_MIN(POOL_CACHE, count / 2), 0,
					       (uint16_t)buffer_size, SOCKET_ID_ANY, ext, pieces);
	if (*pool)
		return 0;
	(void)hk_pop_free(pop, offset);
	return hk_error_set(err, -rte_errno,
			    "cannot make the pool '%s' of %u buffers in %s: %s; fix: use another "
			    "name, fewer buffers, or more memory for DPDK",
			    name, count, pop->memory.info.spec, rte_strerror(rte_errno));
}

int hk_pop_mempool(struct hk_pop *pop, const char *name, unsigned count, unsigned frame_max,
		   struct rte_mempool **pool, struct hk_error *err)
{
	const struct hk_pop_info *i = &pop->memory.info;
	unsigned buffer_size = RTE_PKTMBUF_HEADROOM + ((frame_max + 63u) & ~63u);

	*pool = NULL;
	if (count < 2 || frame_max < 64 || frame_max > UINT16_MAX - RTE_PKTMBUF_HEADROOM - 63)
		return hk_error_set(err, -EINVAL,
				    "a pool cannot have %u buffers for frames of %u bytes; fix: "
				    "use at least 2, of 64 to 65000 bytes",
				    count, frame_max);
	/* No buffer crosses a border of 2 MB. The next huge page may have any address; and for
	 * other memory, a device then needs one IOTLB entry for a frame. */
	uint64_t each = HK_POP_ALIGN / buffer_size,
		 n = (count + each - 1) / each; /* buffers in each 2 MB; number of such parts */
	uint64_t bytes = (n - 1) * HK_POP_ALIGN + (count - (n - 1) * each) * buffer_size;
	uint64_t offset = hk_pop_alloc(pop, bytes, i->size > HK_POP_ALIGN ? HK_POP_ALIGN : 4096);
	if (offset == HK_POP_NONE) {
		struct hk_pop_usage u;
		hk_pop_usage(pop, &u);
		return hk_error_set(err, -ENOMEM,
				    "%s has no space for %u buffers of %u bytes (%" PRIu64
				    " in all; the largest free piece has %" PRIu64
				    "); fix: use fewer or smaller buffers",
				    i->spec, count, buffer_size, bytes, u.largest_free);
	}
	struct rte_pktmbuf_extmem *ext = calloc(n, sizeof(*ext));
	if (!ext) {
		(void)hk_pop_free(pop, offset);
		return hk_error_set(err, -ENOMEM, "no memory for a pool's table");
	}
	for (uint64_t p = 0; p < n; p++) {
		uint64_t at = offset + p * HK_POP_ALIGN;
		uint64_t len = HK_MIN(each, count - p * each) * buffer_size;
		ext[p] = (struct rte_pktmbuf_extmem){
			.buf_ptr = pop->memory.va + at,
			.buf_iova = hk_pop_memory_bus(&pop->memory, at, len),
			.buf_len = len,
			.elt_size = (uint16_t)buffer_size,
		};
	}
	int rc = create_pool(pop, offset, ext, (unsigned)n, name, count, buffer_size, pool, err);
	free(ext);
	return rc;
}

struct first {
	const void *lowest;
};

static void lowest_buffer(struct rte_mempool *pool, void *arg, void *object, unsigned index)
{
	struct first *f = arg;
	const struct rte_mbuf *m = object;

	(void)pool;
	(void)index;
	if (!f->lowest || m->buf_addr < f->lowest)
		f->lowest = m->buf_addr;
}

void hk_pop_mempool_free(struct hk_pop *pop, struct rte_mempool *pool)
{
	struct first f = {0};

	if (!pool)
		return;
	rte_mempool_obj_iter(pool, lowest_buffer, &f);
	rte_mempool_free(pool);
	(void)hk_pop_free(pop, hk_pop_offset_of(pop, f.lowest, 1));
}
