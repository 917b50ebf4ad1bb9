/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/pop.c: opens a pop; its blocks, addresses, and the CPU's access.
 */
#include "devmem/pop/pop_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <rte_atomic.h>
#include <rte_eal.h>

int hk_pop_open(const char *text, struct hk_pop **out, struct hk_error *err)
{
	struct hk_pop_spec spec;
	int rc = hk_pop_spec_parse(text, &spec, err);

	*out = NULL;
	if (rc)
		return rc;
	struct hk_pop *pop = calloc(1, sizeof(*pop));
	if (!pop)
		return hk_error_set(err, -ENOMEM, "no memory for a pop");
	hk_pci_vfio = &hk_pci_by_vfio;
	bool virtual_iova = rte_eal_iova_mode() == RTE_IOVA_VA;
	rc = spec.kind == HK_POP_GPU
		     ? hk_pop_gpu_open(&spec, &pop->memory, err)
		     : hk_pop_memory_open("/sys", &spec, virtual_iova, &pop->memory, err);
	if (rc) {
		free(pop);
		return rc;
	}
	snprintf(pop->memory.info.spec, sizeof(pop->memory.info.spec), "%s", text);
	pop->blocks = hk_alloc_new(pop->memory.info.size);
	if (pop->blocks)
		rc = hk_pop_dma_init(pop, err);
	else
		rc = hk_error_set(err, -ENOMEM, "no memory for the blocks of %s", text);
	if (rc) {
		hk_alloc_delete(pop->blocks);
		pop->memory.close(&pop->memory);
		free(pop);
		return rc;
	}
	pthread_mutex_init(&pop->lock, NULL);
	*out = pop;
	return 0;
}

void hk_pop_close(struct hk_pop *pop)
{
	if (!pop)
		return;
	if (hk_pop_dma_end(pop))
		pop->memory.close(&pop->memory);
	hk_alloc_delete(pop->blocks);
	pthread_mutex_destroy(&pop->lock);
	free(pop);
}

const struct hk_pop_info *hk_pop_info(const struct hk_pop *pop)
{
	return &pop->memory.info;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

uint64_t hk_pop_alloc(struct hk_pop *pop, uint64_t size, uint64_t align)
{
	pthread_mutex_lock(&pop->lock);
	uint64_t offset = hk_alloc_take(pop->blocks, size, align);
	pthread_mutex_unlock(&pop->lock);
	return offset == HK_ALLOC_NONE ? HK_POP_NONE : offset;
}

int hk_pop_free(struct hk_pop *pop, uint64_t offset)
{
	pthread_mutex_lock(&pop->lock);
	int rc = hk_alloc_give(pop->blocks, offset);
	pthread_mutex_unlock(&pop->lock);
	return rc;
}

void hk_pop_usage(struct hk_pop *pop, struct hk_pop_usage *out)
{
	struct hk_alloc_usage u;

	pthread_mutex_lock(&pop->lock);
	hk_alloc_usage(pop->blocks, &u);
	pthread_mutex_unlock(&pop->lock);
	*out = (struct hk_pop_usage){u.used, u.free, u.largest_free, u.blocks, u.free_pieces};
}

/* ---- addresses ------------------------------------------------------------------------------- */

static bool inside(const struct hk_pop *pop, uint64_t offset, uint64_t len)
{
	uint64_t size = pop->memory.info.size;
	return len <= size && offset <= size - len;
}

uint64_t hk_pop_bus(const struct hk_pop *pop, uint64_t offset, uint64_t len)
{
	return hk_pop_memory_bus(&pop->memory, offset, len);
}

uint64_t hk_pop_offset(const struct hk_pop *pop, uint64_t bus, uint64_t len)
{
	return hk_pop_memory_offset(&pop->memory, bus, len);
}

uint64_t hk_pop_offset_of(const struct hk_pop *pop, const void *cpu, uint64_t len)
{
	uint64_t at = (uintptr_t)cpu - (uintptr_t)pop->memory.va;

	return len && inside(pop, at, len) ? at : HK_POP_NONE;
}

void *hk_pop_cpu(const struct hk_pop *pop, uint64_t offset, uint64_t len)
{
	bool ok = !pop->memory.info.slow_read && len && inside(pop, offset, len);
	return ok ? pop->memory.va + offset : NULL;
}

/* ---- the CPU's access ------------------------------------------------------------------------ */

/* Devices accept aligned words of at most 8 bytes; memcpy() would use other sizes. */
static void words_out(unsigned char *to, const volatile unsigned char *from, uint64_t len)
{
	for (; len && (uintptr_t)from % 8; len--)
		*to++ = *from++;
	for (; len >= 8; len -= 8, to += 8, from += 8) {
		uint64_t word = *(const volatile uint64_t *)from;
		memcpy(to, &word, 8);
	}
	for (; len; len--)
		*to++ = *from++;
}

static void words_in(volatile unsigned char *to, const unsigned char *from, uint64_t len)
{
	for (; len && (uintptr_t)to % 8; len--)
		*to++ = *from++;
	for (; len >= 8; len -= 8, to += 8, from += 8) {
		uint64_t word;
		memcpy(&word, from, 8);
		*(volatile uint64_t *)to = word;
	}
	for (; len; len--)
		*to++ = *from++;
}

int hk_pop_read(struct hk_pop *pop, uint64_t offset, void *to, uint64_t len)
{
	if (!inside(pop, offset, len))
		return -ERANGE;
	words_out(to, pop->memory.va + offset, len);
	if (pop->memory.info.slow_read)
		atomic_fetch_add_explicit(&pop->slow_bytes, len, memory_order_relaxed);
	return 0;
}

int hk_pop_write(struct hk_pop *pop, uint64_t offset, const void *from, uint64_t len)
{
	if (!inside(pop, offset, len))
		return -ERANGE;
	words_in(pop->memory.va + offset, from, len);
	return 0;
}

uint64_t hk_pop_slow_bytes(const struct hk_pop *pop)
{
	return atomic_load_explicit(&pop->slow_bytes, memory_order_relaxed);
}

void hk_pop_flush(const struct hk_pop *pop)
{
	/* sfence on x86: stores in write-combining buffers leave the core before later stores */
	if (pop->memory.info.write_combined)
		rte_wmb();
	else
		rte_io_wmb();
}

void hk_pop_flush_wait(const struct hk_pop *pop, uint64_t offset)
{
	hk_pop_flush(pop);
	if (inside(pop, offset & ~UINT64_C(3), 4))
		(void)*(volatile uint32_t *)(pop->memory.va + (offset & ~UINT64_C(3)));
	rte_io_rmb();
}
