/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/pop/gpu.c: a GPU's memory by DPDK's gpudev: taken from the GPU, and mapped for the CPU, as DPDK wants
 * an address of the process for each buffer.
 *
 * Compiled where gpudev's header is; it serves where a driver has found a GPU. There was none to try it on.
 */
#include "p2p/pop/internal.h"

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
	const uint64_t page = UINT64_C(64) << 10; /* of GPUs' BARs */
	uint64_t size = (spec->size + page - 1) & ~(page - 1);
	struct gpu *g = calloc(1, sizeof(*g));

	*m = (struct hk_pop_memory){.map = {.lock = -1, .vfio = -1}};
	if (!g)
		return hk_error_set(err, -ENOMEM, "no memory for a GPU");
	g->id = (int16_t)spec->gpu;
	if (!rte_gpu_is_valid(g->id)) {
		free(g);
		return hk_error_set(err, -ENODEV,
				    "DPDK has no GPU %u (it has %u); fix: a GPU with a driver of "
				    "gpudev (gpu_cuda), allowed by its PCI address",
				    spec->gpu, (unsigned)rte_gpu_count_avail());
	}
	g->memory = rte_gpu_mem_alloc(g->id, size, (unsigned)page);
	m->va = g->memory ? rte_gpu_mem_cpu_map(g->id, size, g->memory) : NULL;
	if (!m->va) {
		int rc = hk_error_set(err, -ENOMEM,
				      "GPU %u gives no %" PRIu64 " bytes that the CPU can map: "
				      "%s; fix: less, or load gdrdrv",
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
	m->info.virtual_iova = true; /* the NIC's driver translates, by the registration */
	return 0;
}

#else

int hk_pop_gpu_open(const struct hk_pop_spec *spec, struct hk_pop_memory *m, struct hk_error *err)
{
	(void)m;
	return hk_error_set(err, -ENOTSUP,
			    "pop:gpu:%u: this build has no gpudev; fix: a DPDK with it", spec->gpu);
}

#endif
