/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/nvme.c: registers, the admin queue for set-up, and one I/O queue pair for reads.
 */
#include "devmem/pop/nvme.h"
#include "base/clock.h"
#include "devmem/pop/pop_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_io.h>

#define REG_CAP  0x00
#define REG_CC   0x14
#define REG_CSTS 0x1c
#define REG_AQA  0x24
#define REG_ASQ  0x28
#define REG_ACQ  0x30
#define DOORBELL 0x1000

#define CC_ENABLE                                                                                  \
	(1u | 6u << 16 | 4u << 20) /* entries of 64 and 16 bytes, pages of 4 KB, NVM commands */
#define CSTS_READY   1u
#define CSTS_FATAL   2u
#define PAGE         4096u
#define ADMIN_DEPTH  16u
#define IDENTIFY_AT  (4 * PAGE)
#define COMMAND_MS   10000
#define DRAIN_MS     2000 /* for reads in progress when the controller is stopped */
#define OP_READ      0x02
#define OP_CREATE_SQ 0x01
#define OP_CREATE_CQ 0x05
#define OP_IDENTIFY  0x06

struct command {
	uint32_t head; /* opcode, flags, command id */
	uint32_t nsid;
	uint64_t reserved, metadata, prp1, prp2;
	uint32_t d10, d11, d12, d13, d14, d15;
};

struct completion {
	uint32_t result, reserved;
	uint16_t sq_head, sq_id, id, status; /* status: bit 0 is the phase */
};

_Static_assert(sizeof(struct command) == 64, "NVMe: submission entry");
_Static_assert(sizeof(struct completion) == 16, "NVMe: completion entry");

struct queue {
	struct command *sq;
	volatile struct completion *cq;
	uint64_t sq_bus, cq_bus;
	unsigned id, depth, tail, head;
	uint16_t phase;
};

struct hk_nvme {
	struct hk_pci pci;
	struct hk_pci_map regs;
	struct hk_pop *pop;
	uint64_t memory; /* offset of the queues in the pop */
	unsigned stride, timeout_ms;
	struct queue admin, io;
	bool pending[HK_NVME_DEPTH];
	struct hk_nvme_info info;
};

/* ---- registers ------------------------------------------------------------------------------- */

static volatile uint32_t *reg(const struct hk_nvme *n, uint64_t at)
{
	return (volatile uint32_t *)((volatile char *)n->regs.va + at);
}

static uint32_t get32(const struct hk_nvme *n, uint64_t at)
{
	return rte_read32(reg(n, at));
}

static void put32(const struct hk_nvme *n, uint64_t at, uint32_t value)
{
	rte_write32(value, reg(n, at));
}

static void put64(const struct hk_nvme *n, uint64_t at, uint64_t value)
{
	put32(n, at, (uint32_t)value);
	put32(n, at + 4, (uint32_t)(value >> 32));
}

/* Waits until CSTS.RDY is @ready. */
static int wait_ready(const struct hk_nvme *n, bool ready, struct hk_error *err)
{
	int64_t end = hk_clock_ms() + n->timeout_ms;

	for (;;) {
		uint32_t csts = get32(n, REG_CSTS);
		if (csts == UINT32_MAX)
			return hk_error_set(
				err, -EIO,
				"NVMe controller %s does not answer (its registers read all ones); "
				"fix: check whether it has been removed",
				n->pci.addr);
		if (ready && csts & CSTS_FATAL)
			return hk_error_set(err, -EIO,
					    "NVMe controller %s reports a fatal error; fix: "
					    "power it off and on",
					    n->pci.addr);
		if ((csts & CSTS_READY) == ready)
			return 0;
		if (hk_clock_ms() > end)
			return hk_error_set(err, -ETIMEDOUT,
					    "NVMe controller %s is not %s after %u ms; fix: "
					    "power it off and on",
					    n->pci.addr, ready ? "ready" : "stopped",
					    n->timeout_ms);
		usleep(500);
	}
}

/* ---- queues ---------------------------------------------------------------------------------- */

static void write_sq_doorbell(const struct hk_nvme *n, const struct queue *q)
{
	rte_wmb(); /* order the entry before the doorbell */
	put32(n, DOORBELL + (uint64_t)(2 * q->id) * n->stride, q->tail);
}

static void submit(const struct hk_nvme *n, struct queue *q, const struct command *c)
{
	q->sq[q->tail] = *c;
	q->tail = (q->tail + 1) % q->depth;
	write_sq_doorbell(n, q);
}

/* Takes the next completion. False if there is none. */
static bool take(const struct hk_nvme *n, struct queue *q, uint16_t *id, unsigned *status)
{
	volatile struct completion *c = &q->cq[q->head];
	uint16_t s = c->status;

	if ((s & 1) != q->phase)
		return false;
	rte_rmb(); /* order reads of the entry after its phase */
	*id = c->id;
	*status = s >> 1;
	if (++q->head == q->depth) {
		q->head = 0;
		q->phase ^= 1;
	}
	put32(n, DOORBELL + (uint64_t)(2 * q->id + 1) * n->stride, q->head);
	return true;
}

static int admin(struct hk_nvme *n, struct command c, const char *what, struct hk_error *err)
{
	int64_t end = hk_clock_ms() + COMMAND_MS;
	unsigned status;
	uint16_t id;

	submit(n, &n->admin, &c);
	while (!take(n, &n->admin, &id, &status)) {
		if (hk_clock_ms() > end)
			return hk_error_set(err, -ETIMEDOUT,
					    "NVMe controller %s did not %s within %d s; fix: check "
					    "that it can reach main memory (IOMMU, bus master)",
					    n->pci.addr, what, COMMAND_MS / 1000);
		usleep(100);
	}
	return status ? hk_error_set(err, -EIO,
				     "NVMe controller %s refused to %s (status %#x); fix: look up "
				     "the status in the NVMe specification",
				     n->pci.addr, what, status)
		      : 0;
}

/* One page each: admin SQ, admin CQ, I/O SQ, I/O CQ, and a buffer for identify. */
static int make_queues(struct hk_nvme *n, struct hk_error *err)
{
	unsigned char *va;

	n->memory = hk_pop_alloc(n->pop, HK_NVME_MEMORY, PAGE);
	uint64_t bus = n->memory == HK_POP_NONE ? HK_POP_NONE
						: hk_pop_bus(n->pop, n->memory, HK_NVME_MEMORY);
	va = bus == HK_POP_NONE ? NULL : hk_pop_cpu(n->pop, n->memory, HK_NVME_MEMORY);
	if (!va)
		return hk_error_set(err, -ENOMEM,
				    "%s has no space for the queues of %s; fix: use a pop in main "
				    "memory with 20 KB in one piece",
				    hk_pop_info(n->pop)->spec, n->pci.addr);
	memset(va, 0, HK_NVME_MEMORY);
	n->admin = (struct queue){.sq = (void *)va,
				  .cq = (void *)(va + PAGE),
				  .sq_bus = bus,
				  .cq_bus = bus + PAGE,
				  .depth = ADMIN_DEPTH,
				  .phase = 1};
	n->io = (struct queue){.sq = (void *)(va + 2 * PAGE),
			       .cq = (void *)(va + 3 * PAGE),
			       .sq_bus = bus + 2 * PAGE,
			       .cq_bus = bus + 3 * PAGE,
			       .id = 1,
			       .depth = HK_NVME_DEPTH,
			       .phase = 1};
	return 0;
}

/* ---- open ------------------------------------------------------------------------------------ */

static int start(struct hk_nvme *n, struct hk_error *err)
{
	uint64_t cap = get32(n, REG_CAP) | (uint64_t)get32(n, REG_CAP + 4) << 32;

	n->stride = 4u << (cap >> 32 & 0xf);
	n->timeout_ms = HK_MAX((unsigned)(cap >> 24 & 0xff), 1u) * 500;
	if ((cap & 0xffff) + 1 < HK_NVME_DEPTH || cap >> 48 & 0xf)
		return hk_error_set(err, -ENOTSUP,
				    "NVMe controller %s does not support queues of %d entries, or "
				    "pages of 4 KB; fix: use another controller",
				    n->pci.addr, HK_NVME_DEPTH);
	if (DOORBELL + 4 * (uint64_t)n->stride > n->regs.size)
		return hk_error_set(err, -ENOTSUP,
				    "NVMe controller %s has its doorbells outside of its "
				    "registers; fix: use another controller",
				    n->pci.addr);
	put32(n, REG_CC, 0);
	int rc = wait_ready(n, false, err);
	if (!rc)
		rc = make_queues(n, err);
	if (rc)
		return rc;
	put32(n, REG_AQA, (ADMIN_DEPTH - 1) << 16 | (ADMIN_DEPTH - 1));
	put64(n, REG_ASQ, n->admin.sq_bus);
	put64(n, REG_ACQ, n->admin.cq_bus);
	put32(n, REG_CC, CC_ENABLE);
	rc = wait_ready(n, true, err);
	hk_cmb_enable(&n->pci, n->regs.va); /* the reset may have disabled the memory buffer */
	return rc;
}

static int identify(struct hk_nvme *n, struct hk_error *err)
{
	const unsigned char *page = hk_pop_cpu(n->pop, n->memory + IDENTIFY_AT, PAGE);
	uint32_t format;
	struct command c = {.head = OP_IDENTIFY,
			    .nsid = 1,
			    .prp1 = hk_pop_bus(n->pop, n->memory + IDENTIFY_AT, PAGE)};
	int rc = admin(n, c, "identify its first namespace", err);

	if (rc)
		return rc;
	memcpy(&n->info.blocks, page, 8);
	memcpy(&format, page + 128 + 4 * (page[26] & 0xf), 4);
	unsigned shift = format >> 16 & 0xff;
	if (shift < 9 || shift > 12 || n->info.blocks == 0 || format & 0xffff)
		return hk_error_set(
			err, -ENOTSUP,
			"NVMe controller %s: its first namespace has blocks of 2^%u "
			"bytes, or metadata, or is empty; fix: format it with blocks of 512 to "
			"4096 bytes",
			n->pci.addr, shift);
	n->info.block_size = 1u << shift;
	return 0;
}

static int create_io(struct hk_nvme *n, struct hk_error *err)
{
	struct command cq = {.head = OP_CREATE_CQ, .prp1 = n->io.cq_bus, .d11 = 1};
	struct command sq = {.head = OP_CREATE_SQ, .prp1 = n->io.sq_bus, .d11 = 1u << 16 | 1};

	cq.d10 = sq.d10 = (HK_NVME_DEPTH - 1) << 16 | 1;
	int rc = admin(n, cq, "create a completion queue", err);
	return rc ? rc : admin(n, sq, "create a submission queue", err);
}

int hk_nvme_open(const char *device, struct hk_pop *queues, struct hk_nvme **out,
		 struct hk_error *err)
{
	struct hk_nvme *n = calloc(1, sizeof(*n));

	*out = NULL;
	if (!n)
		return hk_error_set(err, -ENOMEM, "no memory for an NVMe controller");
	n->pop = queues;
	n->memory = HK_POP_NONE;
	n->regs = (struct hk_pci_map){.lock = -1, .vfio = -1};
	uint64_t size = 2 * PAGE;
	int rc = hk_pci_read("/sys", device, &n->pci, err);
	if (!rc)
		rc = hk_pci_check_free(&n->pci, err);
	if (!rc && n->pci.class != 0x010802)
		rc = hk_error_set(err, -ENOTSUP,
				  "PCI device %s is not an NVMe controller; fix: `hikyaku devmem "
				  "list` shows the devices",
				  device);
	if (!rc && (hk_pop_info(queues)->virtual_iova ||
		    (n->pci.iommu[0] && strcmp(n->pci.iommu, "identity") != 0)))
		rc = hk_error_set(err, -EPERM,
				  "NVMe controller %s would need an IOMMU's addresses, and this "
				  "driver uses physical ones; fix: bind NICs to uio_pci_generic, "
				  "and disable the IOMMU or boot with iommu=pt",
				  device);
	if (!rc)
		rc = hk_pci_bar_range(&n->pci, 0, 0, &size, err);
	if (!rc)
		rc = hk_pci_map(&n->pci, 0, 0, size, false, &n->regs, err);
	if (!rc)
		rc = hk_pci_set_master(&n->pci, err);
	if (!rc)
		rc = start(n, err);
	if (!rc)
		rc = identify(n, err);
	if (!rc)
		rc = create_io(n, err);
	if (rc) {
		hk_nvme_close(n);
		return rc;
	}
	*out = n;
	return 0;
}

const struct hk_nvme_info *hk_nvme_info(const struct hk_nvme *n)
{
	return &n->info;
}

/* ---- reads ----------------------------------------------------------------------------------- */

int hk_nvme_read(struct hk_nvme *n, unsigned tag, uint64_t lba, unsigned count, uint64_t bus)
{
	uint64_t bytes = (uint64_t)count * n->info.block_size;

	if (tag >= HK_NVME_DEPTH - 1 || n->pending[tag] || count == 0 || bytes > HK_NVME_READ_MAX ||
	    lba >= n->info.blocks || count > n->info.blocks - lba || bus % 4)
		return -EINVAL;
	struct command c = {.head = OP_READ | tag << 16, .nsid = 1, .prp1 = bus, .d12 = count - 1};
	uint64_t second = (bus & ~(uint64_t)(PAGE - 1)) + PAGE;

	/* two pointers cover one page border; a third page would need a list */
	if (bus + bytes > second + PAGE)
		return -EINVAL;
	if (bus + bytes > second)
		c.prp2 = second;
	c.d10 = (uint32_t)lba;
	c.d11 = (uint32_t)(lba >> 32);
	n->pending[tag] = true;
	submit(n, &n->io, &c);
	return 0;
}

unsigned hk_nvme_poll(struct hk_nvme *n, unsigned *tags, unsigned *status, unsigned max)
{
	unsigned got = 0;
	uint16_t id;

	while (got < max && take(n, &n->io, &id, &status[got])) {
		if (id >= HK_NVME_DEPTH - 1 || !n->pending[id])
			continue; /* a number that is not in use */
		n->pending[id] = false;
		tags[got++] = id;
	}
	return got;
}

/* ---- close ----------------------------------------------------------------------------------- */

/* Waits for reads in progress, at most DRAIN_MS. Stopping a controller aborts its reads. QEMU's
 * controller (7.2) then writes to memory of its own that it has freed, and crashes. */
static void wait_reads(struct hk_nvme *n)
{
	int64_t end = hk_clock_ms() + DRAIN_MS;
	unsigned tag, status, pending;

	do {
		while (hk_nvme_poll(n, &tag, &status, 1))
			continue;
		pending = 0;
		for (unsigned i = 0; i < HK_NVME_DEPTH; i++)
			pending += n->pending[i];
	} while (pending && hk_clock_ms() < end);
}

void hk_nvme_close(struct hk_nvme *n)
{
	if (!n)
		return;
	if (n->regs.va && n->timeout_ms) {
		struct hk_error ignored;
		wait_reads(n);
		put32(n, REG_CC, 0);
		(void)wait_ready(n, false, &ignored);
	}
	if (n->memory != HK_POP_NONE)
		(void)hk_pop_free(n->pop, n->memory);
	hk_pci_unmap(&n->regs);
	free(n);
}
