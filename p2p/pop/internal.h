/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/pop/internal.h: the parts of pop, and what they tell each other.
 *
 *   alloc.c     pieces of a range, by offsets; touches nothing
 *   spec.c      the pop spec
 *   pci.c       what sysfs tells of a PCI device; mapping its BARs
 *   memory.c    huge pages, physical memory, and which provider a spec means
 *   cmb.c       an NVMe controller's memory buffer: its registers
 *   gpu.c       GPU memory, where DPDK's gpudev is there (DPDK)
 *   addr.c      offset to bus and back
 *   pop.c       a pop: open, blocks, the CPU's access (DPDK)
 *   dma.c       devices and pools of packet buffers (DPDK)
 *   nvme.c      the least of an NVMe driver (DPDK)
 *   vfio.c      BARs of devices that are bound to vfio-pci (DPDK)
 *   scan.c      looks for bytes in main memory (DPDK; scan.h)
 *
 * What is not marked needs libc alone, and is tested on made-up trees in place of /sys.
 */
#ifndef HK_POP_INTERNAL_H
#define HK_POP_INTERNAL_H

#include "p2p/pop/pop.h"

#define HK_PCI_BARS     6
#define HK_PCI_ADDR_LEN 16                  /* 0000:00:05.0 and its NUL, with room */
#define HK_POP_ALIGN    (UINT64_C(2) << 20) /* of mappings, so that few pages describe them */

/* ---- spec.c ---------------------------------------------------------------------------------- */

struct hk_pop_spec {
	enum hk_pop_kind kind;
	char device[HK_PCI_ADDR_LEN];
	unsigned bar, gpu;
	uint64_t physical, offset, size; /* size 0: all */
	bool wc, accept_corruption;
};

/* -EINVAL with a sentence */
int hk_pop_spec_parse(const char *text, struct hk_pop_spec *spec, struct hk_error *err);

const char *hk_pop_kind_name(enum hk_pop_kind kind);

/* ---- pci.c ----------------------------------------------------------------------------------- */

struct hk_pci {
	char addr[HK_PCI_ADDR_LEN];
	char dir[160];   /* in sysfs */
	char driver[32]; /* of the kernel; "": none */
	char iommu
		[24]; /* type of its IOMMU group: DMA, DMA-FQ, identity, blocked; "": it has none */
	unsigned vendor, device, class;
	struct {
		uint64_t start, size, flags; /* as in the kernel's struct resource; size 0: none */
	} bar[HK_PCI_BARS];
};

#define HK_PCI_BAR_MEM      UINT64_C(0x200)
#define HK_PCI_BAR_PREFETCH UINT64_C(0x2000)

/* Is @text a full PCI address (DDDD:BB:DD.F)? */
bool hk_pci_is_addr(const char *text);

/* Reads what @sysfs ("/sys") tells of @addr. -ENODEV, -EIO. */
int hk_pci_read(const char *sysfs, const char *addr, struct hk_pci *pci, struct hk_error *err);

/* May user space take the device's BARs: is no driver of the kernel's own bound? -EBUSY. */
int hk_pci_free_for_us(const struct hk_pci *pci, struct hk_error *err);

/* Is [offset, offset + size) a range of memory BAR @bar? @size 0 stands for the rest and is filled in. -ENOTSUP no
 * such BAR, -ERANGE. */
int hk_pci_bar_range(const struct hk_pci *pci, unsigned bar, uint64_t offset, uint64_t *size,
		     struct hk_error *err);

struct hk_pci_map {
	void *va;
	uint64_t size;
	int lock; /* of the BAR's file; -1: none */
	int vfio; /* the device's, if it is mapped by VFIO; -1: by sysfs */
	char addr[HK_PCI_ADDR_LEN];
};

/* vfio.c, which needs DPDK: of a device bound to vfio-pci a descriptor on which BAR @bar, of which @need bytes must be
 * there, is mapped at *@at. */
struct hk_pci_vfio {
	int (*open)(const struct hk_pci *pci, unsigned bar, uint64_t need, uint64_t *at,
		    struct hk_error *err);
	void (*close)(const char *addr, int fd);
};

extern const struct hk_pci_vfio hk_pci_by_vfio;

/* NULL, as in tests without DPDK: there is none. Set by hk_pop_open(). */
extern const struct hk_pci_vfio *hk_pci_vfio;

/* Takes the BAR for this process, enables the device's memory and maps the range (of whole pages). Free by
 * hk_pci_unmap(). -EBUSY names the process that has it. */
int hk_pci_map(const struct hk_pci *pci, unsigned bar, uint64_t offset, uint64_t size, bool wc,
	       struct hk_pci_map *map, struct hk_error *err);
void hk_pci_unmap(struct hk_pci_map *map);

/* Lets the device be a master on the bus (its DMA). -EIO */
int hk_pci_set_master(const struct hk_pci *pci, struct hk_error *err);

/* Reserves @size bytes of addresses aligned to HK_POP_ALIGN, and maps there; MAP_FAILED with errno. */
void *hk_pop_mmap(uint64_t size, int prot, int flags, int fd, uint64_t at);

/* ---- memory.c, cmb.c, gpu.c ------------------------------------------------------------ */

/* What a provider has mapped. */
struct hk_pop_memory {
	struct hk_pop_info
		info; /* kind, device, bar, size, page, physical, slow_read, write_combined */
	unsigned char *va;
	uint64_t *pages;       /* physical address of each page, where they are not contiguous */
	struct hk_pci_map map; /* of BARs by sysfs */
	void *priv;
	void (*close)(struct hk_pop_memory *m);
};

/* Opens what @spec names, with all but GPUs. @virtual_iova: physical addresses will not be asked for. */
int hk_pop_memory_open(const char *sysfs, const struct hk_pop_spec *spec, bool virtual_iova,
		       struct hk_pop_memory *m, struct hk_error *err);
int hk_pop_bar_open(const struct hk_pci *pci, const struct hk_pop_spec *spec,
		    struct hk_pop_memory *m, struct hk_error *err);
int hk_pop_cmb_open(const struct hk_pci *pci, const struct hk_pop_spec *spec,
		    struct hk_pop_memory *m, struct hk_error *err);
int hk_pop_gpu_open(const struct hk_pop_spec *spec, struct hk_pop_memory *m, struct hk_error *err);

/* Where a CMB lies, from the registers CMBLOC and CMBSZ. -ENOTSUP: none. Pure. */
int hk_cmb_place(uint32_t loc, uint32_t sz, unsigned *bar, uint64_t *offset, uint64_t *size);

/* Tells the controller with registers @regs at which address its memory buffer lies, if it has one. */
void hk_cmb_enable(const struct hk_pci *pci, volatile void *regs);

/* ---- addr.c ------------------------------------------------------------------------------------ */

uint64_t hk_memory_bus(const struct hk_pop_memory *m, uint64_t offset, uint64_t len);
uint64_t hk_memory_offset(const struct hk_pop_memory *m, uint64_t bus, uint64_t len);

/* ---- pop.c ------------------------------------------------------------------------------------- */

struct hk_pop;
struct hk_pop_memory *hk_pop_memory_of(struct hk_pop *pop);

#endif
