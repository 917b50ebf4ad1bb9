/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/pop.h: memory that devices reach over PCIe.
 *
 * A *pop* (pool of packet buffers) is one piece of such memory. It consists of huge pages, a BAR of
 * a PCI device, the controller memory buffer (CMB) of an NVMe SSD, or a GPU's memory. The library
 * allocates blocks in it and gives the address by which a device reaches a block. It opens the
 * IOMMU for devices, and makes DPDK pools of packet buffers in the memory. So a NIC can receive
 * into another device's memory and send from it, although its driver knows nothing of peer-to-peer
 * DMA (libpop: docs/references.md).
 *
 * A text, the *pop spec*, selects the memory:
 *
 *   pop:huge:size=64M                     huge pages of main memory; the baseline of measurements
 *   pop:bar:0000:00:05.0,bar=2[,size=N][,offset=N][,wc=1]      a memory BAR of a PCI device
 *   pop:ivshmem:0000:00:05.0              the shared memory of QEMU's ivshmem device, its BAR 2
 *   pop:cmb:0000:00:06.0                  an NVMe controller's memory buffer, from its registers
 *   pop:gpu:0,size=N                      memory of DPDK's gpudev 0; needs a GPU driver
 *   pop:physical:0x…,size=N,accept=corruption     raw physical memory through /dev/mem
 *
 * A wrong address in pop:physical lets a device write over the kernel, so the spec is refused
 * without `accept=corruption`. Sizes take K, M and G. docs/devmem.md says what each kind needs from
 * the system.
 *
 * A block is named by its *offset* in the pop. hk_pop_cpu() and hk_pop_bus() derive the CPU's and
 * the device's address from an offset, and check its bounds. The allocator stores nothing in the
 * memory itself, because reading it may be slow and devices write to it.
 *
 * Reading by the CPU. A load from a BAR crosses PCIe and stalls the core for about a microsecond
 * for each 4 or 8 bytes. With `wc`, a load may also overtake older stores. So hk_pop_cpu() returns
 * NULL if the pop's info says `slow_read`. A caller that accepts the cost uses hk_pop_read().
 *
 * Ordering. A BAR is mapped uncached unless the spec has wc=1. That maps it write-combining, which
 * only a prefetchable BAR allows. The core then gathers stores and sends them in any order, up to a
 * cache line at once.
 *  - Stores to an uncached BAR leave the core in order. Stores to a write-combining BAR are ordered
 *    before later ones, such as a doorbell write, only by hk_pop_flush().
 *  - PCIe writes are posted: a flush orders them, but does not prove that they have arrived. A read
 *    from the same device pushes posted writes ahead of it and does prove it: hk_pop_flush_wait().
 *  - If data and completion (a descriptor's done bit) go to the *same* place, the data is in memory
 *    when the completion is. Data in a peer's BAR and its completion in main memory take different
 *    paths. The NIC's done bit does not prove that the data has reached the peer.
 *  - Suppose that the CPU sees the done bit and then tells another device to read the data. That
 *    read pushes the writes ahead of it only if both take the same path, through one switch.
 *    Otherwise read one byte of the data first (hk_pop_flush_wait()).
 *
 * Threads: several threads may allocate, free and translate at the same time; one lock protects the
 * allocator alone. One thread opens, closes, maps and makes pools. Processes: a device's memory
 * belongs to one process, by a lock on its BAR; -EBUSY names the other process.
 *
 * Errors: a negative errno, with a sentence and its fix in @err. If a call fails, it leaves nothing
 * mapped.
 */
#ifndef HK_POP_POP_H
#define HK_POP_POP_H

#include "base/common.h"
#include "hikyaku/error.h"

struct rte_mempool;
struct hk_pop;

#define HK_POP_SPEC_MAX 256
#define HK_POP_NONE     UINT64_MAX /* no offset, no address */

enum hk_pop_kind {
	HK_POP_HUGE,
	HK_POP_BAR,
	HK_POP_IVSHMEM,
	HK_POP_CMB,
	HK_POP_GPU,
	HK_POP_PHYSICAL,
	HK_POP_KINDS
};

struct hk_pop_info {
	char spec[HK_POP_SPEC_MAX]; /* as the caller wrote it */
	enum hk_pop_kind kind;
	char device[16];   /* PCI address, such as 0000:00:05.0; "" for main memory */
	unsigned bar;      /* number of the BAR of that device */
	uint64_t size;     /* bytes, a multiple of `page` */
	uint64_t page;     /* bytes; every aligned page is contiguous for devices */
	uint64_t physical; /* bus address of the first byte; HK_POP_NONE if the pages are scattered
			    */
	bool slow_read;    /* loads by the CPU cross PCIe; hk_pop_cpu() returns NULL */
	bool write_combined; /* the core gathers stores; call hk_pop_flush() before a doorbell */
	bool virtual_iova;   /* devices use the process's addresses; the IOMMU translates */
};

/* Opens the memory that @spec names. The EAL must be initialised (hk_eal_init()) and its NICs
 * probed. The EAL chooses whether devices use physical addresses or the process's addresses; the
 * pop keeps that choice. Errors:
 *  - -EINVAL: the spec does not parse.
 *  - -ENODEV: there is no such device.
 *  - -ENOTSUP: the device has no such memory, or this build lacks the kind.
 *  - -EBUSY: a kernel driver or another process owns the device.
 *  - -ERANGE: the range ends past the memory's end.
 *  - -EPERM: the spec does not accept a danger, or the kernel forbids the access.
 *  - -ENOMEM. */
int hk_pop_open(const char *spec, struct hk_pop **pop, struct hk_error *err);

/* Unmaps the memory for devices and for the CPU, and frees all blocks. The caller has freed the
 * pools of packet buffers and stopped the ports before: no device may use the memory any longer. If
 * a driver still has memory of hk_pop_rings(), the pop stays mapped until the process ends. @pop
 * may be NULL. */
void hk_pop_close(struct hk_pop *pop);

/* Valid until hk_pop_close(). */
const struct hk_pop_info *hk_pop_info(const struct hk_pop *pop);

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Allocates @size bytes aligned to @align (a power of two, at most 1 GB; 0: a cache line). Returns
 * their offset, or HK_POP_NONE if no free piece is large enough. The block is contiguous for
 * devices if info.physical or virtual_iova is set, or if it lies within a page; hk_pop_bus() checks
 * it. devmem/pop/alloc.h states the bound on fragmentation. */
uint64_t hk_pop_alloc(struct hk_pop *pop, uint64_t size, uint64_t align);

/* Frees the block at @offset. -EINVAL, without effect, if no block starts there (a block freed
 * twice, for example). */
int hk_pop_free(struct hk_pop *pop, uint64_t offset);

struct hk_pop_usage {
	uint64_t used, free, largest_free; /* bytes */
	uint64_t blocks, free_pieces;
};

void hk_pop_usage(struct hk_pop *pop, struct hk_pop_usage *out);

/* ---- addresses ------------------------------------------------------------------------------- */

/* Returns the bus address of the @len bytes at @offset, to write into a descriptor. HK_POP_NONE
 * past the end, for @len 0, or if the bytes are not contiguous for devices. The device must have
 * been mapped by hk_pop_map_for(). */
uint64_t hk_pop_bus(const struct hk_pop *pop, uint64_t offset, uint64_t len);

/* Returns the offset of the @len bytes at bus address @bus, or HK_POP_NONE if they are not all in
 * the pop. */
uint64_t hk_pop_offset(const struct hk_pop *pop, uint64_t bus, uint64_t len);

/* The same for an address of this process, such as an mbuf's buf_addr. */
uint64_t hk_pop_offset_of(const struct hk_pop *pop, const void *cpu, uint64_t len);

/* Returns the CPU's address of the @len bytes at @offset, to read and write. NULL past the end, and
 * NULL if reading is slow. */
void *hk_pop_cpu(const struct hk_pop *pop, uint64_t offset, uint64_t len);

/* Copy out of and into the memory, by aligned words of 8 bytes where possible. hk_pop_read() adds
 * the bytes that it reads from slow memory to hk_pop_slow_bytes(). -ERANGE past the end; nothing is
 * copied then. */
int hk_pop_read(struct hk_pop *pop, uint64_t offset, void *to, uint64_t len);
int hk_pop_write(struct hk_pop *pop, uint64_t offset, const void *from, uint64_t len);

/* The bytes that hk_pop_read() has read from slow memory. */
uint64_t hk_pop_slow_bytes(const struct hk_pop *pop);

/* Orders this thread's earlier stores before its later ones (see "Ordering"). */
void hk_pop_flush(const struct hk_pop *pop);

/* The same, and returns after the device has received the stores: it reads the 4 bytes at @offset,
 * rounded down to 4. Past the end it reads nothing. */
void hk_pop_flush_wait(const struct hk_pop *pop, uint64_t offset);

/* ---- devices and DPDK ------------------------------------------------------------------------ */

/* Lets @device ("0000:00:03.0", probed by DPDK) reach the memory. With VFIO, it maps the memory in
 * the IOMMU, once for all devices of the container. With uio, it checks that no IOMMU translates
 * for the device. A port that is not a PCI device (memif, af_packet) needs nothing, because the CPU
 * copies its frames. Call this before the device's port is opened. Otherwise the NIC counts frames
 * as received that it could not write, and the buffer holds an earlier frame. Errors:
 *  - -ENODEV: DPDK does not drive the device.
 *  - -EPERM: an IOMMU translates for the device, and its driver cannot map memory there.
 *  - -EFBIG: the IOMMU's addresses are too narrow for the memory's.
 *  - -EIO: the kernel refused. */
int hk_pop_map_for(struct hk_pop *pop, const char *device, struct hk_error *err);

/* The same for DPDK's Ethernet port @port. */
int hk_pop_map_for_port(struct hk_pop *pop, uint16_t port, struct hk_error *err);

/* The same for each Ethernet port that DPDK has. */
int hk_pop_map_for_ports(struct hk_pop *pop, struct hk_error *err);

/* Makes the first 2 MB of the pop a heap of DPDK, and returns its socket in *@socket. A driver that
 * heeds the socket of hk_port_open_rings() has its descriptor rings there. Call it before any other
 * use of the pop; the ports are closed before the pop is. A port's NIC writes back descriptors into
 * the device's memory then, and the CPU reads them across PCIe. Errors; only hk_pop_close() may
 * follow:
 *  - -EBUSY: the pop is in use, or has such a heap.
 *  - -ENOMEM: the pop is too small.
 *  - -EIO: DPDK refused. */
int hk_pop_rings(struct hk_pop *pop, unsigned *socket, struct hk_error *err);

/* The bytes of the heap that drivers have taken, and how much of it. */
struct hk_pop_rings_use {
	unsigned zones; /* number of ranges for DMA: at least one for each ring */
	uint64_t bytes; /* of these ranges */
	uint64_t other; /* bytes for what only the driver reads and writes, such as lists of buffers
			 */
};

void hk_pop_rings_use(const struct hk_pop *pop, struct hk_pop_rings_use *out);

/* Checks that the heap has rings of DPDK's Ethernet port @port. -ENOTSUP: its driver places rings
 * elsewhere. */
int hk_pop_rings_check(const struct hk_pop *pop, uint16_t port, struct hk_error *err);

/* Makes a pool of @count packet buffers for frames of at most @frame_max bytes; a NIC that can
 * scatter needs less. The packets are in the pop; the headers of the buffers (struct rte_mbuf) are
 * in ordinary memory. hk_port_open() and rte_eth_rx_queue_setup() take it as any other pool. Its
 * mbufs carry RTE_MBUF_F_EXTERNAL and are pinned: no other bytes may be attached to them, but other
 * mbufs may be attached to their bytes. @name has at most 20 characters and is unique in the
 * process. The caller owns the pool until hk_pop_mempool_free(). Call hk_pop_map_for_port() first,
 * for each port that receives into the pool or sends from it. Errors:
 *  - -EINVAL: @count or @frame_max is out of range.
 *  - -ENOMEM: no space in the pop, or no memory for the headers.
 *  - -EEXIST: the name is in use. */
int hk_pop_mempool(struct hk_pop *pop, const char *name, unsigned count, unsigned frame_max,
		   struct rte_mempool **pool, struct hk_error *err);

/* Frees the pool and its block of @pop, the pop that it was made in. All its buffers must have been
 * returned. @pool may be NULL. */
void hk_pop_mempool_free(struct hk_pop *pop, struct rte_mempool *pool);

#endif
