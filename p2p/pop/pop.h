/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/pop/pop.h: memory that devices reach over PCIe, wherever it lies.
 *
 * A *pop* is one piece of such memory: huge pages, a BAR of a PCI device, the controller memory
 * buffer (CMB) of an NVMe SSD, a GPU's memory. It hands out blocks, tells the address by which a
 * device reaches them, opens the IOMMU for a device, and makes DPDK pools of packet buffers that
 * lie there, so that a NIC which never knew peer-to-peer DMA receives into another device's memory
 * and sends from it (libpop: docs/references.md). It is opened from a text, the *pop spec*:
 *
 *   pop:huge:size=64M                     huge pages of main memory; the baseline to compare with
 *   pop:bar:0000:00:05.0,bar=2[,size=N][,offset=N][,wc=1]      a memory BAR of a PCI device
 *   pop:ivshmem:0000:00:05.0              the shared memory of QEMU's ivshmem device: its BAR 2
 *   pop:cmb:0000:00:06.0                  an NVMe controller's memory buffer, as its registers say
 *   pop:gpu:0,size=N                      of DPDK's gpudev 0, where a GPU driver is there
 *   pop:physical:0x…,size=N,accept=corruption     raw physical memory by /dev/mem: refused without
 *       `accept=corruption`, since a wrong number lets a device write over the kernel
 *
 * Sizes take K, M and G. docs/p2p.md says what each kind needs of the system.
 *
 * Blocks are named by their *offset* in the pop. The CPU's address and the device's are derived
 * from it (hk_pop_cpu(), hk_pop_bus()), with bounds; nothing of the allocator's own is kept in the
 * memory itself, which may be slow to read, and is written by devices.
 *
 * Reading by the CPU. A load from a BAR crosses PCIe and stalls the core for about a microsecond,
 * each 4 or 8 bytes; with `wc` it may also pass by older stores. So hk_pop_cpu() gives NULL for a pop whose info says
 * `slow_read`, and who really wants to look says so: hk_pop_read(), hk_pop_map_slow().
 *
 * Ordering. A BAR is mapped uncached unless the spec says wc=1 (write-combining: stores gather in the core's
 * buffers and leave in any order, up to a cache line at once; only BARs that are prefetchable).
 *  - Stores to an uncached BAR leave in order. Stores to a write-combining one reach the device in order with later
 *    ones, e.g. a doorbell, only after hk_pop_flush().
 *  - PCIe writes are posted: a flush orders them and does not say that they have arrived. A read from the same
 *    device does (it pushes posted writes before it): hk_pop_flush_wait().
 *  - What a device wrote is in memory when its completion is (a descriptor's done bit), if data and
 *    completion go to the *same* place. Data in a peer's BAR and the completion in main memory take different
 *    ways: a NIC's done bit does not prove that the data is in the peer. Another device that is told to read it
 *    after the CPU saw the done bit sends a read over the fabric, which pushes writes before it only if both take
 *    the same way (one switch); else read one byte of the data first (hk_pop_flush_wait()).
 *
 * Threads: allocation and translation are safe from several threads (one lock, around the allocator
 * alone). Opening, closing, mapping and making pools are for one thread. Processes: a device's memory
 * belongs to one process, by a lock on its BAR (-EBUSY names the other).
 *
 * Errors: a negative errno, with a sentence and its fix in @err; when a call fails, nothing is mapped.
 */
#ifndef HK_POP_H
#define HK_POP_H

#include "base/common.h"
#include "base/error.h"

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
	char spec[HK_POP_SPEC_MAX]; /* as it was opened */
	enum hk_pop_kind kind;
	char device[16];     /* 0000:00:05.0; "" if the memory belongs to none */
	unsigned bar;        /* of that device */
	uint64_t size;       /* bytes, a multiple of `page` */
	uint64_t page;       /* what is contiguous for devices, at least */
	uint64_t physical;   /* on the bus, of the first byte; HK_POP_NONE if it is in pieces */
	bool slow_read;      /* loads by the CPU cross PCIe: hk_pop_cpu() refuses */
	bool write_combined; /* stores gather: hk_pop_flush() before a doorbell */
	bool virtual_iova;   /* devices use the process's addresses, by the IOMMU */
};

/* Opens the memory that @spec names. The EAL must be up (hk_eal_init()), and its NICs probed: whether
 * devices use physical addresses or the process's is the EAL's choice, and fixed here. Codes: -EINVAL
 * a spec that does not parse; -ENODEV no such device; -ENOTSUP it has no such memory, or none of this
 * kind is compiled in; -EBUSY a kernel driver or another process has it; -ERANGE past its end; -EPERM
 * a danger was not accepted, or the kernel forbids it; -ENOMEM. */
int hk_pop_open(const char *spec, struct hk_pop **pop, struct hk_error *err);

/* Takes back what was mapped for devices, and unmaps. Its pools must be freed, and no device may use
 * it any more: stop the ports first. Blocks go with it. NULL is allowed. */
void hk_pop_close(struct hk_pop *pop);

/* Valid until hk_pop_close(). */
const struct hk_pop_info *hk_pop_info(const struct hk_pop *pop);

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Takes @size bytes aligned to @align (a power of two, at most 1 GB; 0: a cache line): their offset, or
 * HK_POP_NONE if no free piece is large enough. @contiguous for devices: only with info.physical or
 * virtual_iova, or within a page; hk_pop_bus() tells. What is promised of fragmentation stands in p2p/pop/alloc.h. */
uint64_t hk_pop_alloc(struct hk_pop *pop, uint64_t size, uint64_t align);

/* Gives a block back by its offset. -EINVAL if no block starts there (twice freed, say); nothing happens then. */
int hk_pop_free(struct hk_pop *pop, uint64_t offset);

struct hk_pop_usage {
	uint64_t used, free, largest_free; /* bytes */
	uint64_t blocks, free_pieces;
};

void hk_pop_usage(struct hk_pop *pop, struct hk_pop_usage *out);

/* ---- addresses ------------------------------------------------------------------------------- */

/* The address by which a device reaches the @len bytes at @offset: what goes into a descriptor.
 * HK_POP_NONE past the end, for @len 0, or if they are not contiguous for devices. A device must have been let
 * in by hk_pop_map_for(). */
uint64_t hk_pop_bus(const struct hk_pop *pop, uint64_t offset, uint64_t len);

/* Back: the offset of the @len bytes at bus address @bus; HK_POP_NONE if they do not lie in the pop. */
uint64_t hk_pop_offset(const struct hk_pop *pop, uint64_t bus, uint64_t len);

/* The same of an address of this process, as an mbuf's buf_addr. */
uint64_t hk_pop_offset_of(const struct hk_pop *pop, const void *cpu, uint64_t len);

/* The CPU's address of the @len bytes at @offset, to read and write; NULL past the end, and NULL
 * where reading is slow. */
void *hk_pop_cpu(const struct hk_pop *pop, uint64_t offset, uint64_t len);

/* The same for memory that is slow to read: for those who know. NULL past the end. */
volatile void *hk_pop_map_slow(const struct hk_pop *pop, uint64_t offset, uint64_t len);

/* Copies out of and into the memory, by aligned words of 8 bytes where it can. hk_pop_read() of slow memory counts
 * each byte that it read (hk_pop_slow_bytes()). -ERANGE past the end; nothing is copied then. */
int hk_pop_read(struct hk_pop *pop, uint64_t offset, void *to, uint64_t len);
int hk_pop_write(struct hk_pop *pop, uint64_t offset, const void *from, uint64_t len);

/* Bytes that the CPU has read from slow memory by hk_pop_read(). */
uint64_t hk_pop_slow_bytes(const struct hk_pop *pop);

/* Orders what this thread stored before what it stores next (see "Ordering"). */
void hk_pop_flush(const struct hk_pop *pop);

/* The same, and returns when the device has them: reads 4 bytes at @offset, rounded down to 4 (past the end: none). */
void hk_pop_flush_wait(const struct hk_pop *pop, uint64_t offset);

/* ---- devices and DPDK ------------------------------------------------------------------------ */

/* Lets @device ("0000:00:03.0", probed by DPDK) reach the memory. With VFIO: maps it in the IOMMU, once for all
 * devices of the container. With uio: checks that no IOMMU stands between. A device that DPDK does not drive
 * by PCI (memif, af_packet: the CPU copies) needs nothing. Before the device's port is opened: a NIC counts as received
 * what it could not write, and its buffer has the bytes of an earlier frame. Codes: -ENODEV; -EPERM an IOMMU
 * translates for the device and nothing can map there; -EFBIG the IOMMU's addresses are too narrow for
 * the memory's; -EIO the kernel refused. */
int hk_pop_map_for(struct hk_pop *pop, const char *device, struct hk_error *err);

/* The same for DPDK's Ethernet port @port. */
int hk_pop_map_for_port(struct hk_pop *pop, uint16_t port, struct hk_error *err);

/* The same for each Ethernet port that DPDK has. */
int hk_pop_map_for_ports(struct hk_pop *pop, struct hk_error *err);

/* Makes a pool of @count packet buffers for frames of at most @frame_max bytes (a NIC that can scatter takes
 * smaller ones); headers of the buffers (struct rte_mbuf) lie in ordinary memory, the packets
 * in the pop. Like any pool it may be given to hk_port_open() and to rte_eth_rx_queue_setup(); its mbufs carry
 * RTE_MBUF_F_EXTERNAL and are pinned: attach no other bytes to them. Others may be attached to their bytes. The
 * name, at most 20 characters, is unique in the process. The pool is the caller's, until hk_pop_mempool_free(). Call
 * hk_pop_map_for_port() first, for each port that receives into it or sends from it. Codes: -EINVAL a count or size
 * that cannot be; -ENOMEM no room in the pop, or none for the headers; -EEXIST the name. */
int hk_pop_mempool(struct hk_pop *pop, const char *name, unsigned count, unsigned frame_max,
		   struct rte_mempool **pool, struct hk_error *err);

/* Frees the pool and its block of @pop, of which it was made. All its buffers must be back. NULL is allowed. */
void hk_pop_mempool_free(struct hk_pop *pop, struct rte_mempool *pool);

#endif
