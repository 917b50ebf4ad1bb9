/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/internal.h: the files of the library, and the interfaces between them.
 *
 *   alloc.c     allocator of offsets in a range; does not touch the memory
 *   spec.c      parser of the pop spec
 *   pci.c       PCI devices in sysfs; mapping of their BARs
 *   memory.c    huge pages, physical memory, and the choice of a provider
 *   cmb.c       registers of an NVMe controller's memory buffer
 *   gpu.c       GPU memory through DPDK's gpudev (DPDK)
 *   addr.c      translation between offsets and bus addresses
 *   pop.c       a pop: open, blocks, the CPU's access (DPDK)
 *   dma.c       devices and pools of packet buffers (DPDK)
 *   rings.c     a heap of DPDK, for descriptor rings (DPDK)
 *   nvme.c      a minimal NVMe driver (DPDK)
 *   vfio.c      BARs of devices that are bound to vfio-pci (DPDK)
 *   scan.c      search for bytes in main memory (DPDK; scan.h)
 *
 * Files without the mark (DPDK) need libc alone. Unit tests run them on artificial trees in place
 * of /sys.
 */
#ifndef HK_POP_INTERNAL_H
#define HK_POP_INTERNAL_H

#include "devmem/pop/pop.h"

#define HK_PCI_BARS     6
#define HK_PCI_ADDR_LEN 16 /* 0000:00:05.0, a NUL and padding */
#define HK_POP_ALIGN                                                                               \
	(UINT64_C(2) << 20) /* alignment of mappings, so that few pages describe them */

/* ---- spec.c ---------------------------------------------------------------------------------- */

struct hk_pop_spec {
	enum hk_pop_kind kind;
	char device[HK_PCI_ADDR_LEN];
	unsigned bar, gpu;
	uint64_t physical, offset, size; /* size 0: all of it */
	bool wc, accept_corruption;
};

/* Parses a pop spec. -EINVAL. */
int hk_pop_spec_parse(const char *text, struct hk_pop_spec *spec, struct hk_error *err);

const char *hk_pop_kind_name(enum hk_pop_kind kind);

/* ---- pci.c ----------------------------------------------------------------------------------- */

struct hk_pci {
	char addr[HK_PCI_ADDR_LEN];
	char dir[160];   /* directory in sysfs */
	char driver[32]; /* name of the bound kernel driver; "": none */
	char iommu[24];  /* type of its IOMMU group: DMA, DMA-FQ, identity, blocked; "": no group */
	unsigned vendor, device, class;
	struct {
		uint64_t start, size,
			flags; /* as in the kernel's struct resource; size 0: no such BAR */
	} bar[HK_PCI_BARS];
};

#define HK_PCI_BAR_MEM UINT64_C(0x200)

/* Whether @text is a full PCI address (DDDD:BB:DD.F). */
bool hk_pci_is_addr(const char *text);

/* Reads the device @addr from the tree @sysfs ("/sys"). -ENODEV, -EIO. */
int hk_pci_read(const char *sysfs, const char *addr, struct hk_pci *pci, struct hk_error *err);

/* Checks that user space may use the device's BARs: no ordinary kernel driver is bound. -EBUSY. */
int hk_pci_check_free(const struct hk_pci *pci, struct hk_error *err);

/* Checks that [offset, offset + size) is a range of whole pages in memory BAR @bar. @size 0 means
 * the rest of the BAR, and is filled in. -ENOTSUP no such BAR, -ERANGE. */
int hk_pci_bar_range(const struct hk_pci *pci, unsigned bar, uint64_t offset, uint64_t *size,
		     struct hk_error *err);

struct hk_pci_map {
	void *va;
	uint64_t size;
	int lock; /* descriptor of the locked BAR file; -1: none */
	int vfio; /* VFIO descriptor of the device; -1: mapped through sysfs */
	char addr[HK_PCI_ADDR_LEN];
};

/* Access to devices that are bound to vfio-pci. vfio.c implements it with DPDK. open() returns a
 * descriptor in which BAR @bar is mapped at *@at, and checks that the BAR has @need bytes. */
struct hk_pci_vfio {
	int (*open)(const struct hk_pci *pci, unsigned bar, uint64_t need, uint64_t *at,
		    struct hk_error *err);
	void (*close)(const char *addr, int fd);
};

extern const struct hk_pci_vfio hk_pci_by_vfio;

/* Set by hk_pop_open(). NULL, as in tests without DPDK: VFIO is not available. */
extern const struct hk_pci_vfio *hk_pci_vfio;

/* Locks the BAR for this process, enables the device's memory and maps the range, which is of whole
 * pages. Undone by hk_pci_unmap(). -EBUSY names the process that holds the lock. */
int hk_pci_map(const struct hk_pci *pci, unsigned bar, uint64_t offset, uint64_t size, bool wc,
	       struct hk_pci_map *map, struct hk_error *err);
void hk_pci_unmap(struct hk_pci_map *map);

/* Enables the device as bus master, so that it can use DMA. -EIO. */
int hk_pci_set_master(const struct hk_pci *pci, struct hk_error *err);

/* Maps @size bytes at an address aligned to HK_POP_ALIGN. Returns MAP_FAILED and sets errno if it
 * cannot. */
void *hk_pop_mmap(uint64_t size, int prot, int flags, int fd, uint64_t at);

/* ---- memory.c, cmb.c, gpu.c ------------------------------------------------------------------ */

/* The memory that a provider has mapped. */
struct hk_pop_memory {
	struct hk_pop_info info; /* filled in by the provider, except `spec` */
	unsigned char *va;
	uint64_t *pages;       /* physical address of each page; NULL if they are contiguous */
	struct hk_pci_map map; /* of BARs */
	void *priv;
	void (*close)(struct hk_pop_memory *m);
};

/* Opens the memory that @spec names; any kind except a GPU's. With @virtual_iova, the provider does
 * not look up physical addresses. */
int hk_pop_memory_open(const char *sysfs, const struct hk_pop_spec *spec, bool virtual_iova,
		       struct hk_pop_memory *m, struct hk_error *err);
int hk_pop_bar_open(const struct hk_pci *pci, const struct hk_pop_spec *spec,
		    struct hk_pop_memory *m, struct hk_error *err);
int hk_pop_cmb_open(const struct hk_pci *pci, const struct hk_pop_spec *spec,
		    struct hk_pop_memory *m, struct hk_error *err);
int hk_pop_gpu_open(const struct hk_pop_spec *spec, struct hk_pop_memory *m, struct hk_error *err);

/* Computes where a CMB is from the registers CMBLOC and CMBSZ. -ENOTSUP: the controller has none.
 * Pure. */
int hk_cmb_place(uint32_t loc, uint32_t sz, unsigned *bar, uint64_t *offset, uint64_t *size);

/* Tells the controller with registers @regs the bus address of its memory buffer, if it has one. */
void hk_cmb_enable(const struct hk_pci *pci, volatile void *regs);

/* ---- addr.c ---------------------------------------------------------------------------------- */

uint64_t hk_pop_memory_bus(const struct hk_pop_memory *m, uint64_t offset, uint64_t len);
uint64_t hk_pop_memory_offset(const struct hk_pop_memory *m, uint64_t bus, uint64_t len);

#endif
