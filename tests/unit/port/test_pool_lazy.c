/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_pool_lazy.c: buffers that take memory once they are used.
 */
#include "tests/support/loopback.h"

#include <stdio.h>
#include <unistd.h>

#include <rte_malloc.h>

#define BUFFERS 4096
#define ROOM    9344
#define FEW     (6u << 20) /* bytes: mbufs, and the first huge page */

static size_t resident(void)
{
	size_t all, pages;
	FILE *f = fopen("/proc/self/statm", "r");

	CHECK(f != NULL);
	CHECK_EQ(fscanf(f, "%zu %zu", &all, &pages), 2);
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static struct rte_mempool *make(const char *name)
{
	struct hk_eal_config cfg = {.lazy_buffers = true};
	struct rte_mempool *pool;

	CHECK_OK(hk_eal_init(&cfg, ERR));
	CHECK_OK(hk_pool_create_sized(name, BUFFERS, 0, ROOM, &pool, ERR));
	return pool;
}

/* A pool of 38 MB takes little. A buffer that is used again takes nothing else. */
TEST(unused_buffers_take_no_memory)
{
	hk_pool_free(make("first")); /* DPDK's own memory, once */
	size_t before = resident();
	struct rte_mempool *pool = make("second");

	CHECK_CMP(resident() - before, <, FEW);
	for (unsigned i = 0; i < 10000; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

		CHECK(m != NULL);
		memset(rte_pktmbuf_append(m, 9000), (int)i, 9000);
		rte_pktmbuf_free(m);
	}
	CHECK_CMP(resident() - before, <, FEW);
	hk_pool_free(pool);
}

static struct rte_malloc_socket_stats dpdk(void)
{
	struct rte_malloc_socket_stats stats;

	CHECK_EQ(rte_malloc_get_socket_stats(0, &stats), 0);
	return stats;
}

/* With its caches for 128 cores, DPDK would take 1 MB of its memory. */
TEST(a_small_pool_takes_little_of_dpdks_memory)
{
	struct rte_mempool *pool;

	hk_pool_free(make("fifth"));
	CHECK_EQ(dpdk().heap_totalsz_bytes, 64u << 20);
	size_t before = dpdk().heap_allocsz_bytes;

	CHECK_OK(hk_pool_create_sized("small", 64, 0, ROOM, &pool, ERR));
	CHECK_CMP(dpdk().heap_allocsz_bytes - before, <, 128u << 10);
	struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, rte_lcore_id());
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	CHECK_EQ(cache->size, 32);
	CHECK_EQ(cache->len, 32);
	rte_pktmbuf_free(m);
	CHECK_EQ(cache->len, 33);
	CHECK_EQ(rte_mempool_avail_count(pool), 64);
	hk_pool_free(pool);
	CHECK_EQ(dpdk().heap_allocsz_bytes, before);
}

/* Each buffer has its own bytes, which stay what they were while others are written. */
TEST(buffers_do_not_overlap)
{
	static struct rte_mbuf *all[BUFFERS];
	struct rte_mempool *pool = make("third");

	for (unsigned i = 0; i < BUFFERS; i++) {
		all[i] = rte_pktmbuf_alloc(pool);
		CHECK(all[i] != NULL);
		CHECK_EQ(all[i]->buf_len, ROOM);
		CHECK_EQ(rte_pktmbuf_headroom(all[i]), RTE_PKTMBUF_HEADROOM);
		memset(all[i]->buf_addr, (int)(i % 251), ROOM);
	}
	CHECK(rte_pktmbuf_alloc(pool) == NULL);
	for (unsigned i = 0; i < BUFFERS; i++) {
		const uint8_t *b = all[i]->buf_addr;

		CHECK(b[0] == i % 251 && b[ROOM / 2] == i % 251 && b[ROOM - 1] == i % 251);
		rte_pktmbuf_free(all[i]);
	}
	CHECK_EQ(rte_mempool_in_use_count(pool), 0);
	hk_pool_free(pool);
}

/* A port's own pool is such a one, too. */
TEST(a_port_receives_into_them)
{
	make("fourth");
	struct hk_port *port = loopback_open(256, BUFFERS);
	size_t before = resident();
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);

	memset(rte_pktmbuf_append(m, 100), 7, 100);
	CHECK_EQ(hk_port_tx(port, 0, &m, 1), 1);
	CHECK_EQ(hk_port_rx(port, 0, &m, 1), 1);
	CHECK_EQ(rte_pktmbuf_mtod(m, uint8_t *)[99], 7);
	rte_pktmbuf_free(m);
	CHECK_CMP(resident() - before, <, FEW);
	hk_port_close(port);
}

/* A device may share DPDK's memory with others, so it gets buffers there. */
TEST(other_virtual_devices_have_whole_buffers)
{
	static const struct {
		const char *spec;
		bool lazy;
	} table[] = {{"memif:dir=/x", true},
		     {"af_xdp:iface=a", true},
		     {"af_packet:iface=a", true},
		     {"vdev:net_virtio_user0,path=/x", false}};

	for (unsigned i = 0; i < HK_ARRAY_LEN(table); i++) {
		struct hk_eal_config cfg = {.lazy_buffers = true};

		CHECK_OK(hk_port_spec_eal(table[i].spec, &cfg, ERR));
		CHECK_EQ(cfg.lazy_buffers, table[i].lazy);
	}
}
