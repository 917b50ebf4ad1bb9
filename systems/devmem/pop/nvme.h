/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/nvme.h: a minimal NVMe driver that reads blocks into memory that devices reach (NVM
 * Express Base Specification 1.4). It polls one queue pair. It serves generators and measurements,
 * not file systems, and never writes to the medium.
 *
 * The controller must not have a kernel driver. It uses physical addresses: no IOMMU may translate
 * for it, and DPDK must run with physical addresses (NICs bound to uio). The caller provides a pop
 * for its queues.
 *
 * Threads: one at a time. Errors: a negative errno and a sentence in @err. The driver gives up a
 * controller that does not answer within the time that it reports itself (CAP.TO), and a command
 * after 10 s.
 */
#ifndef HK_POP_NVME_H
#define HK_POP_NVME_H

#include "devmem/pop/pop.h"

#define HK_NVME_DEPTH    64   /* queue entries: one more than the reads in progress */
#define HK_NVME_READ_MAX 8192 /* most bytes of one read */
#define HK_NVME_MEMORY   (UINT64_C(5) * 4096) /* bytes that a controller takes from @queues */

struct hk_nvme;

struct hk_nvme_info {
	uint64_t blocks;
	unsigned block_size; /* bytes */
};

/* Resets the controller @device and makes its queues in @queues (main memory, pop:huge:…). A pop in
 * its memory buffer must have been opened before, and stays valid. Errors: -ENODEV, -EBUSY,
 * -ENOTSUP, -EPERM (an IOMMU), -ETIMEDOUT, -EIO. */
int hk_nvme_open(const char *device, struct hk_pop *queues, struct hk_nvme **nvme,
		 struct hk_error *err);

/* Stops the controller, so that it writes nothing any longer, and releases it. @nvme may be
 * NULL. */
void hk_nvme_close(struct hk_nvme *nvme);

const struct hk_nvme_info *hk_nvme_info(const struct hk_nvme *nvme);

/* Starts read number @tag of @count blocks from @lba to bus address @bus, a multiple of 4. The read
 * has at most HK_NVME_READ_MAX bytes; @tag is below HK_NVME_DEPTH - 1 and not in progress. -EINVAL:
 * out of range, and the read is not started. */
int hk_nvme_read(struct hk_nvme *nvme, unsigned tag, uint64_t lba, unsigned count, uint64_t bus);

/* Collects up to @max finished reads: their tags, and in @status 0 or the status of a failed read.
 * Does not wait. The data is then in memory of the controller itself. If it is in another device's
 * memory, and a third device is to read it, see "Ordering" in pop.h. */
unsigned hk_nvme_poll(struct hk_nvme *nvme, unsigned *tags, unsigned *status, unsigned max);

#endif
