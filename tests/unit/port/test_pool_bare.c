/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_pool_bare.c: pools in a process that starts DPDK later, or never.
 */
#include "port/internal.h"
#include "tests/support/hk_test.h"

#include <errno.h>

#define COUNT  100u
#define ROOM   2048u
#define UDP    "udp:addr=127.0.0.1"
#define DEVICE "vdev:net_null0"

static struct rte_mempool *pool;

static void start(void)
{
	struct hk_eal_config cfg = {.lazy_buffers = true};

	if (pool)
		return;
	CHECK_OK(hk_port_spec_eal(UDP, &cfg, ERR));
	CHECK_OK(hk_port_spec_eal(UDP, &cfg, ERR));
	CHECK_OK(hk_eal_init(&cfg, ERR));
	CHECK(hk_eal_bare() && hk_eal_lazy_buffers());
	CHECK_EQ(hk_eal_role(), HK_EAL_ALONE);
	CHECK_OK(hk_pool_create_sized("bare", COUNT, 64, ROOM, &pool, ERR));
}

static void see(struct rte_mempool *mp, void *arg, void *object, unsigned i)
{
	struct rte_mbuf *m = object;

	CHECK_EQ(i, (*(unsigned *)arg)++);
	CHECK(m->pool == mp && rte_mempool_from_obj(m) == mp);
	CHECK(rte_mempool_virt2iova(m) == (rte_iova_t)(uintptr_t)m);
	CHECK_EQ(*hk_pool_number(m), i);
	CHECK_EQ((uintptr_t)m % RTE_CACHE_LINE_SIZE, 0);
}

TEST(each_buffer_is_there_once)
{
	start();
	struct rte_mbuf *m[COUNT + 1];
	unsigned seen = 0;

	CHECK_EQ(rte_mempool_obj_iter(pool, see, &seen), COUNT);
	CHECK_EQ(rte_mempool_avail_count(pool), COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		m[i] = rte_pktmbuf_alloc(pool);
		CHECK(m[i] != NULL);
		memset(rte_pktmbuf_append(m[i], ROOM - RTE_PKTMBUF_HEADROOM), (int)i,
		       ROOM - RTE_PKTMBUF_HEADROOM);
	}
	CHECK(rte_pktmbuf_alloc(pool) == NULL);
	CHECK_EQ(rte_mempool_in_use_count(pool), COUNT);
	for (unsigned i = 0; i < COUNT; i++) {
		const uint8_t *byte = rte_pktmbuf_mtod(m[i], const uint8_t *);

		CHECK(byte[0] == (uint8_t)i && byte[m[i]->data_len - 1] == (uint8_t)i);
	}
	rte_pktmbuf_free_bulk(m, COUNT);
	CHECK_EQ(rte_mempool_avail_count(pool), COUNT);
	CHECK_EQ(rte_pktmbuf_alloc_bulk(pool, m, COUNT + 1), -ENOBUFS);
	CHECK_EQ(rte_pktmbuf_alloc_bulk(pool, m, COUNT), 0);
	rte_pktmbuf_free_bulk(m, COUNT);
}

TEST(it_cannot_be_reset)
{
	start();
	CHECK_REFUSED(hk_pool_reset(pool, ERR), -EPERM, "without DPDK");
}

/* The rate that we measure ourselves is the one that DPDK measures. */
TEST(dpdk_starts_later)
{
	start();
	struct hk_eal_config cfg = {.lazy_buffers = true};
	uint64_t hz = hk_eal_tsc_hz();
	struct rte_mempool *other;

	CHECK_OK(hk_port_spec_eal(UDP, &cfg, ERR));
	CHECK_OK(hk_port_spec_eal(DEVICE, &cfg, ERR));
	CHECK_OK(hk_eal_init(&cfg, ERR));
	CHECK(!hk_eal_bare());
	double ratio = (double)hz / (double)hk_eal_tsc_hz();

	CHECK(ratio > 0.98 && ratio < 1.02);
	CHECK_OK(hk_pool_create_sized("other", COUNT, 64, ROOM, &other, ERR));
	struct rte_mbuf *a = rte_pktmbuf_alloc(pool), *b = rte_pktmbuf_alloc(other);

	rte_pktmbuf_free(a);
	rte_pktmbuf_free(b);
	CHECK_EQ(rte_mempool_avail_count(pool), COUNT);
	CHECK_EQ(rte_mempool_avail_count(other), COUNT);
	hk_pool_free(pool);
	hk_pool_free(other);
}
