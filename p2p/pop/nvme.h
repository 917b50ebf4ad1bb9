/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/pop/nvme.h: the least of an NVMe driver: reads blocks into memory that devices reach (NVM Express Base
 * Specification 1.4). One queue pair, polled; for generators and measurements, not for file systems. It never
 * writes to the medium.
 *
 * The controller must have no kernel driver, and reach physical addresses: no IOMMU may translate for it, and DPDK
 * must have been started with physical addresses (NICs at uio). Its queues lie in a pop of the caller's.
 *
 * Threads: one at a time. Errors: a negative errno and a sentence in @err; a controller that does not answer is given
 * up after the time that it names itself (CAP.TO), commands after 10 s.
 */
#ifndef HK_POP_NVME_H
#define HK_POP_NVME_H

#include "p2p/pop/pop.h"

#define HK_NVME_DEPTH    64                   /* reads that may be under way: one less */
#define HK_NVME_READ_MAX 8192                 /* bytes of one read */
#define HK_NVME_MEMORY   (UINT64_C(5) * 4096) /* that a controller takes from @queues */

struct hk_nvme;

struct hk_nvme_info {
	uint64_t blocks;
	unsigned block_size; /* bytes */
};

/* Takes the controller @device, resets it and makes its queues in @queues (main memory: pop:huge:…). A pop in its memory
 * buffer is opened before, and stays valid. Codes: -ENODEV, -EBUSY, -ENOTSUP, -EPERM (an IOMMU), -ETIMEDOUT, -EIO. */
int hk_nvme_open(const char *device, struct hk_pop *queues, struct hk_nvme **nvme,
		 struct hk_error *err);

/* Stops the controller, so that nothing is written any more, and gives it back. NULL is allowed. */
void hk_nvme_close(struct hk_nvme *nvme);

const struct hk_nvme_info *hk_nvme_info(const struct hk_nvme *nvme);

/* Starts a read of @count blocks from @lba to bus address @bus (a multiple of 4), at most HK_NVME_READ_MAX bytes, as
 * read @tag (below HK_NVME_DEPTH - 1, one that is not under way). -EINVAL: out of range; nothing is started then. */
int hk_nvme_read(struct hk_nvme *nvme, unsigned tag, uint64_t lba, unsigned count, uint64_t bus);

/* Takes finished reads: up to @max tags; of one that failed its status is in @status (0: well). Never waits. The data
 * is in the memory of the controller itself; of another device, and before yet another reads it: pop.h, "Ordering". */
unsigned hk_nvme_poll(struct hk_nvme *nvme, unsigned *tags, unsigned *status, unsigned max);

#endif
