/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/memory.c: the providers that need only libc.
 */
#include "base/common.h"
#include "base/huge.h"
#include "devmem/pop/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE      (UINT64_C(2) << 20)
#define IVSHMEM_VENDOR 0x1af4
#define IVSHMEM_DEVICE 0x1110

/* ---- huge pages ------------------------------------------------------------------------------ */

static void close_plain(struct hk_pop_memory *m)
{
	munmap(m->va, m->info.size);
	free(m->pages);
}

/* Fills in the physical address of each page from /proc/self/pagemap (Linux:
 * Documentation/admin-guide/mm/pagemap.rst). */
static int find_pages(struct hk_pop_memory *m, struct hk_error *err)
{
	uint64_t n = m->info.size / HUGE_PAGE, small = (uint64_t)sysconf(_SC_PAGESIZE);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool ok = fd >= 0;

	m->pages = malloc(n * sizeof(*m->pages));
	for (uint64_t i = 0; i < n && ok && m->pages; i++) {
		uint64_t entry, va = (uintptr_t)m->va + i * HUGE_PAGE;
		ok = pread(fd, &entry, 8, (off_t)(va / small * 8)) == 8 && entry >> 63 &&
		     (entry & ((UINT64_C(1) << 55) - 1));
		m->pages[i] = (entry & ((UINT64_C(1) << 55) - 1)) * small;
	}
	if (fd >= 0)
		close(fd);
	if (!m->pages)
		return hk_error_set(err, -ENOMEM, "no memory for the table of %" PRIu64 " pages",
				    n);
	if (!ok)
		return hk_error_set(err, -EPERM,
				    "the kernel does not report the physical addresses of huge "
				    "pages; fix: run as root (CAP_SYS_ADMIN), or use VFIO");
	bool contiguous = true;
	for (uint64_t i = 1; i < n; i++)
		contiguous &= m->pages[i] == m->pages[i - 1] + HUGE_PAGE;
	m->info.physical = contiguous ? m->pages[0] : HK_POP_NONE;
	return 0;
}

static int no_pages(uint64_t size, const char *why, struct hk_error *err)
{
	struct hk_huge_pool p = {0};
	uint64_t need = size / HUGE_PAGE;
	char fix[256];

	if (!hk_huge_read(HUGE_PAGE >> 10, &p))
		return hk_error_set(err, -ENOSYS,
				    "pop:huge: this kernel has no huge pages of 2 MB; fix: use "
				    "another kind of pop");
	uint64_t pages = (uint64_t)p.all + need - HK_MIN((uint64_t)p.nfree, need);
	return hk_error_set(err, -ENOMEM,
			    "pop:huge: no %" PRIu64 " free huge pages of 2 MB: %s; fix: %s", need,
			    why, hk_huge_fix(&p, pages, (unsigned)(size >> 20), fix, sizeof(fix)));
}

static int open_huge(const struct hk_pop_spec *spec, bool virtual_iova, struct hk_pop_memory *m,
		     struct hk_error *err)
{
	if (spec->size > UINT64_C(1) << 40)
		return hk_error_set(err, -ERANGE,
				    "pop:huge: more than 1024G (%" PRIu64
				    " bytes); fix: give a smaller size=",
				    spec->size);
	uint64_t size = (spec->size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
	void *va = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE |
				21 << MAP_HUGE_SHIFT,
			-1, 0);
	if (va == MAP_FAILED)
		return no_pages(size, strerror(errno), err);
	m->va = va;
	m->close = close_plain;
	m->info.size = size;
	m->info.page = HUGE_PAGE;
	m->info.physical = HK_POP_NONE;
	int rc = virtual_iova ? 0 : find_pages(m, err);
	if (rc)
		close_plain(m);
	return rc;
}

/* ---- physical memory ------------------------------------------------------------------------- */

static int open_physical(const struct hk_pop_spec *spec, struct hk_pop_memory *m,
			 struct hk_error *err)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (spec->size % page || spec->physical > INT64_MAX - spec->size)
		return hk_error_set(err, -ERANGE,
				    "pop:physical: %" PRIu64
				    " bytes are not whole pages; fix: give a multiple of %" PRIu64,
				    spec->size, page);
	int fd = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
	if (fd < 0)
		return hk_error_set(err, -EPERM, "cannot open /dev/mem: %s; fix: run as root",
				    strerror(errno));
	void *va = hk_pop_mmap(spec->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, spec->physical);
	int saved = errno;
	close(fd);
	if (va == MAP_FAILED)
		return hk_error_set(err, -EPERM,
				    "the kernel does not map physical memory at 0x%" PRIx64
				    ": %s; fix: use pop:bar:…, or boot with iomem=relaxed",
				    spec->physical, strerror(saved));
	m->va = va;
	m->close = close_plain;
	m->info.size = spec->size;
	m->info.page = page;
	m->info.physical = spec->physical;
	m->info.slow_read = true;
	return 0;
}

/* ---- BARs ------------------------------------------------------------------------------------ */

static void close_bar(struct hk_pop_memory *m)
{
	hk_pci_unmap(&m->map);
}

int hk_pop_bar_open(const struct hk_pci *pci, const struct hk_pop_spec *spec,
		    struct hk_pop_memory *m, struct hk_error *err)
{
	uint64_t size = spec->size;
	int rc = hk_pci_bar_range(pci, spec->bar, spec->offset, &size, err);
	if (!rc)
		rc = hk_pci_map(pci, spec->bar, spec->offset, size, spec->wc, &m->map, err);
	if (rc)
		return rc;
	m->va = m->map.va;
	m->close = close_bar;
	memcpy(m->info.device, pci->addr, sizeof(m->info.device));
	m->info.bar = spec->bar;
	m->info.size = size;
	m->info.page = (uint64_t)sysconf(_SC_PAGESIZE);
	m->info.physical = pci->bar[spec->bar].start + spec->offset;
	m->info.slow_read = true;
	m->info.write_combined = spec->wc;
	return 0;
}

static int open_device(const char *sysfs, const struct hk_pop_spec *spec, struct hk_pop_memory *m,
		       struct hk_error *err)
{
	struct hk_pci pci;
	int rc = hk_pci_read(sysfs, spec->device, &pci, err);
	if (!rc)
		rc = hk_pci_check_free(&pci, err);
	if (rc)
		return rc;
	if (spec->kind == HK_POP_CMB)
		return hk_pop_cmb_open(&pci, spec, m, err);
	if (spec->kind == HK_POP_IVSHMEM &&
	    (pci.vendor != IVSHMEM_VENDOR || pci.device != IVSHMEM_DEVICE))
		return hk_error_set(err, -ENOTSUP,
				    "PCI device %s is %04x:%04x, not ivshmem; fix: use "
				    "pop:bar:%s,bar=N for other devices",
				    pci.addr, pci.vendor, pci.device, pci.addr);
	return hk_pop_bar_open(&pci, spec, m, err);
}

int hk_pop_memory_open(const char *sysfs, const struct hk_pop_spec *spec, bool virtual_iova,
		       struct hk_pop_memory *m, struct hk_error *err)
{
	int rc;

	*m = (struct hk_pop_memory){.map = {.lock = -1, .vfio = -1}};
	m->info.kind = spec->kind;
	switch (spec->kind) {
	case HK_POP_HUGE:
		rc = open_huge(spec, virtual_iova, m, err);
		break;
	case HK_POP_PHYSICAL:
		rc = open_physical(spec, m, err);
		break;
	case HK_POP_BAR:
	case HK_POP_IVSHMEM:
	case HK_POP_CMB:
		rc = open_device(sysfs, spec, m, err);
		break;
	default:
		return hk_error_set(
			err, -ENOTSUP,
			"pop:%s is not a kind of these providers; fix: use another kind",
			hk_pop_kind_name(spec->kind));
	}
	m->info.virtual_iova = virtual_iova;
	return rc;
}
