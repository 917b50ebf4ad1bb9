/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/gpu.c: a GPU's memory through DPDK's gpudev. It is allocated on the GPU and mapped for
 * the CPU, because DPDK needs an address of the process for each buffer.
 *
 * Built if gpudev's header is installed; it works if a driver has found a GPU. It has not been run:
 * the machines of development had no GPU.
 */
#include "devmem/pop/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#if __has_include(<rte_gpudev.h>)

#include <rte_errno.h>
#include <rte_gpudev.h>

struct gpu {
	int16_t id;
	void *memory;
};

static void close_gpu(struct hk_pop_memory *m)
{
	struct gpu *g = m->priv;

	(void)rte_gpu_mem_cpu_unmap(g->id, g->memory);
	(void)rte_gpu_mem_free(g->id, g->memory);
	free(g);
}

int hk_pop_gpu_open(const struct hk_pop_spec *spec, struct hk_pop_memory *m, struct hk_error *err)
{
	const uint64_t page = UINT64_C(64) << 10; /* page size of GPUs' BARs */
	uint64_t size = (spec->size + page - 1) & ~(page - 1);
	struct gpu *g = calloc(1, sizeof(*g));

	*m = (struct hk_pop_memory){.map = {.lock = -1, .vfio = -1}};
	if (!g)
		return hk_error_set(err, -ENOMEM, "no memory for a GPU");
	g->id = (int16_t)spec->gpu;
	if (!rte_gpu_is_valid(g->id)) {
		free(g);
		return hk_error_set(err, -ENODEV,
				    "DPDK has no GPU %u (it has %u); fix: use a GPU with a gpudev "
				    "driver (gpu_cuda), and allow its PCI address",
				    spec->gpu, (unsigned)rte_gpu_count_avail());
	}
	g->memory = rte_gpu_mem_alloc(g->id, size, (unsigned)page);
	m->va = g->memory ? rte_gpu_mem_cpu_map(g->id, size, g->memory) : NULL;
	if (!m->va) {
		int rc = hk_error_set(
			err, -ENOMEM,
			"GPU %u does not have %" PRIu64
			"bytes that the CPU can map: %s; fix: give a smaller size=, or load gdrdrv",
			spec->gpu, size, rte_strerror(rte_errno));
		if (g->memory)
			(void)rte_gpu_mem_free(g->id, g->memory);
		free(g);
		return rc;
	}
	m->priv = g;
	m->close = close_gpu;
	m->info.kind = HK_POP_GPU;
	m->info.size = size;
	m->info.page = page;
	m->info.physical = HK_POP_NONE;
	m->info.slow_read = true;
	m->info.virtual_iova = true; /* the NIC's driver translates registered memory */
	return 0;
}

#else

int hk_pop_gpu_open(const struct hk_pop_spec *spec, struct hk_pop_memory *m, struct hk_error *err)
{
	(void)m;
	return hk_error_set(
		err, -ENOTSUP,
		"pop:gpu:%u: this build has no gpudev; fix: build with a DPDK that has it",
		spec->gpu);
}

#endif
