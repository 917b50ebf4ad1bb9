/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/nic/region.h: the memory that emulated NICs share: BARs, buffers in main memory, and the
 * host's lookup rings. libc only.
 *
 * A region is a file in a directory that all NICs of a router are given. Its owner makes it under
 * another name, locks it (flock(2)), and renames it. So a region that others find is complete, and
 * its lock tells whether the owner lives. An owner that ends in good order says so in the header,
 * and removes the file. A mapping stays valid in any case.
 *
 * Peers may write anything into a region, so its readers check every value (ring.h, lookup.h). The
 * file's mode is 0600. A process of the same user could still truncate it, which kills the others.
 */
#ifndef HK_NIC_REGION_H
#define HK_NIC_REGION_H

#include "devmem/nic/ring.h"
#include "hikyaku/error.h"

#define HK_NICS 8u /* most NICs of a router */

/* Where the frames of one NIC to another lie, and which table the NICs use. */
enum hk_nic_variant {
	HK_NIC_WR,     /* DMA write: in the BAR of the NIC that sends them */
	HK_NIC_RD,     /* DMA read: in the BAR of the NIC that has received them */
	HK_NIC_BN,     /* bounce: in main memory */
	HK_NIC_PKTPIT, /* as HK_NIC_WR; a process of the host looks addresses up */
	HK_NIC_VARIANTS
};

const char *hk_nic_variant_name(enum hk_nic_variant v);
int hk_nic_variant_parse(const char *name); /* -1: unknown name */

struct hk_nic_header {
	uint32_t magic, size; /* HK_NIC_MAGIC; bytes of the region */
	uint8_t variant, nics;
	uint8_t mac[6];       /* of a BAR: the port's MAC address */
	uint16_t frame_max;   /* of a BAR: bytes that the port can send */
	_Atomic uint8_t left; /* the owner has ended in good order */
};

#define HK_NIC_MAGIC UINT32_C(0x314e4b48) /* another layout has another number */

/* Next hops from the host to a NIC, by family. */
struct hk_nic_hops {
	_Alignas(HK_NIC_LINE) _Atomic uint32_t doorbell[2];
	_Alignas(
		HK_NIC_LINE) uint64_t cell[2][HK_NIC_RING]; /* hk_cell, in the order of addresses */
};

struct hk_nic_bar {
	struct hk_nic_header header;
	struct hk_nic_inbound in[HK_NICS]; /* by sender */
	struct hk_nic_hops hops;
	_Alignas(4096) uint8_t window[HK_NICS][HK_NIC_WINDOW]; /* Wr, Pktpit: by sender; Rd: by
								  receiver */
};

/* The buffer of one NIC in main memory. */
struct hk_nic_main {
	struct hk_nic_header header;
	_Alignas(4096) uint8_t window[HK_NICS][HK_NIC_WINDOW]; /* by receiver */
};

/* Addresses from one NIC to the host. */
struct hk_nic_addresses {
	_Alignas(HK_NIC_LINE) _Atomic uint32_t doorbell[2]; /* by family */
	_Alignas(HK_NIC_LINE) uint32_t four[HK_NIC_RING];   /* in host order */
	uint8_t six[HK_NIC_RING][16];
};

struct hk_nic_host {
	struct hk_nic_header header;
	struct hk_nic_addresses from[HK_NICS];
};

struct hk_nic_region {
	char path[256];
	int fd;
	bool owner;
	struct hk_nic_header *header; /* the region itself */
	uint32_t size;
};

/* Makes the region @name, a new file of zeros except for the fields of @header; its magic and size
 * are filled in. -EBUSY: a living process owns a region of this name. Stale ones are replaced. */
int hk_nic_region_make(const char *dir, const char *name, uint32_t size,
		       const struct hk_nic_header *header, struct hk_nic_region *out,
		       struct hk_error *err);

/* Maps a region of another process; waits for it until @deadline (hk_clock_ms()). @header: the
 * variant and the number of NICs that it must have. -ETIMEDOUT; -EPROTO: it is of another router.
 */
int hk_nic_region_map(const char *dir, const char *name, uint32_t size,
		      const struct hk_nic_header *header, int64_t deadline,
		      struct hk_nic_region *out, struct hk_error *err);

enum hk_nic_owner { HK_NIC_LIVES, HK_NIC_LEFT, HK_NIC_DEAD };

/* Whether the owner of a mapped region lives. Makes a system call. */
enum hk_nic_owner hk_nic_region_owner(const struct hk_nic_region *r);

/* Unmaps the region, and removes it if it is this process's own. All zeros is allowed. */
void hk_nic_region_close(struct hk_nic_region *r);

#endif
