/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/cmb.c: the controller memory buffer of an NVMe SSD (NVM Express Base Specification
 * 1.4, 3.1 and 4.8).
 *
 * From version 1.4 on, the registers that say where the buffer is read zero until CMBMSC.CRE is
 * set. The controller itself accepts addresses in the buffer only after software has written the
 * buffer's bus address (CBA, CMSE).
 */
#include "devmem/pop/internal.h"

#include <errno.h>
#include <string.h>

#define REG_CAP     0x00
#define REG_VS      0x08
#define REG_CMBLOC  0x38
#define REG_CMBSZ   0x3c
#define REG_CMBMSC  0x50
#define CAP_CMBS    (UINT64_C(1) << 57)
#define CMBMSC_CRE  UINT64_C(1)
#define CMBMSC_CMSE UINT64_C(2)
#define SZ_RDS      (1u << 3)
#define SZ_WDS      (1u << 4)
#define REGISTERS   4096u
#define VERSION_14  0x00010400u

int hk_cmb_place(uint32_t loc, uint32_t sz, unsigned *bar, uint64_t *offset, uint64_t *size)
{
	unsigned units = sz >> 8 & 0xf; /* 4 KB, 64 KB, … 64 GB */

	if (sz >> 12 == 0 || units > 6 || (loc & 7) >= HK_PCI_BARS || (loc & 7) == 1)
		return -ENOTSUP;
	uint64_t unit = UINT64_C(4096) << (4 * units);
	*bar = loc & 7;
	*offset = (uint64_t)(loc >> 12) * unit;
	*size = (uint64_t)(sz >> 12) * unit;
	return 0;
}

static uint32_t read32(const volatile void *regs, unsigned at)
{
	return *(const volatile uint32_t *)((const volatile char *)regs + at);
}

/* Writes two halves, because a controller need not accept a write of 8 bytes. */
static void write64(volatile void *regs, unsigned at, uint64_t value)
{
	volatile uint32_t *p = (volatile uint32_t *)((volatile char *)regs + at);
	p[0] = (uint32_t)value;
	p[1] = (uint32_t)(value >> 32);
}

void hk_cmb_enable(const struct hk_pci *pci, volatile void *regs)
{
	uint64_t cap = read32(regs, REG_CAP) | (uint64_t)read32(regs, REG_CAP + 4) << 32;
	uint64_t offset, size;
	unsigned bar;

	if (read32(regs, REG_VS) < VERSION_14 || !(cap & CAP_CMBS))
		return;
	write64(regs, REG_CMBMSC, CMBMSC_CRE);
	if (hk_cmb_place(read32(regs, REG_CMBLOC), read32(regs, REG_CMBSZ), &bar, &offset, &size) ==
	    0)
		write64(regs, REG_CMBMSC,
			(pci->bar[bar].start + offset) | CMBMSC_CRE | CMBMSC_CMSE);
}

int hk_pop_cmb_open(const struct hk_pci *pci, const struct hk_pop_spec *spec,
		    struct hk_pop_memory *m, struct hk_error *err)
{
	struct hk_pci_map regs;
	struct hk_pop_spec bar = *spec;
	uint64_t page = REGISTERS, offset = 0, size = 0;

	if (pci->class != 0x010802)
		return hk_error_set(err, -ENOTSUP,
				    "PCI device %s has class %06x and is not an NVMe controller; "
				    "fix: use pop:bar:… for other devices",
				    pci->addr, pci->class);
	int rc = hk_pci_bar_range(pci, 0, 0, &page, err);
	if (!rc)
		rc = hk_pci_map(pci, 0, 0, page, false, &regs, err);
	if (rc)
		return rc;
	uint64_t cap = read32(regs.va, REG_CAP) | (uint64_t)read32(regs.va, REG_CAP + 4) << 32;
	bool is_14 = read32(regs.va, REG_VS) >= VERSION_14;
	hk_cmb_enable(pci, regs.va);
	uint32_t loc = read32(regs.va, REG_CMBLOC), sz = read32(regs.va, REG_CMBSZ);
	if ((is_14 && !(cap & CAP_CMBS)) || hk_cmb_place(loc, sz, &bar.bar, &offset, &size) != 0 ||
	    !(sz & SZ_RDS) || !(sz & SZ_WDS)) {
		rc = hk_error_set(err, -ENOTSUP,
				  "NVMe controller %s has no memory buffer for data (CMBLOC %08x, "
				  "CMBSZ %08x); fix: use another SSD; in QEMU, cmb_size_mb=16",
				  pci->addr, loc, sz);
		hk_pci_unmap(&regs);
		return rc;
	}
	/* the BAR may be smaller than the buffer that the registers describe */
	if (offset >= pci->bar[bar.bar].size) {
		rc = hk_error_set(err, -ERANGE,
				  "NVMe controller %s: its buffer begins past the end of BAR %u; "
				  "fix: use another SSD",
				  pci->addr, bar.bar);
		hk_pci_unmap(&regs);
		return rc;
	}
	size = HK_MIN(size, pci->bar[bar.bar].size - offset);
	if (spec->offset >= size || spec->size > size - spec->offset) {
		rc = hk_error_set(err, -ERANGE,
				  "NVMe controller %s: its buffer has %llu bytes; fix: give a "
				  "smaller size= or offset=",
				  pci->addr, (unsigned long long)size);
		hk_pci_unmap(&regs);
		return rc;
	}
	bar.offset = offset + spec->offset;
	bar.size = spec->size ? spec->size : size - spec->offset;
	rc = hk_pop_bar_open(pci, &bar, m, err);
	hk_pci_unmap(&regs);
	return rc;
}
