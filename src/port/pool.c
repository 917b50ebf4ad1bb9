/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/pool.c: the frame buffers of a port.
 */
#include "port/internal.h"

#include <errno.h>
#include <string.h>

#include <rte_mbuf_pool_ops.h>

#define POOL_CACHE 256

/* Returns the buffers that the rings of a queue pair take. vmxnet3's driver fills two receive
 * rings; the second is for the rest of long frames. */
static unsigned ring_buffers(const char *driver, unsigned ring)
{
	return (strcmp(driver, "net_vmxnet3") == 0 ? 3 : 2) * ring;
}

unsigned hk_port_ring_buffers(const char *device, unsigned ring)
{
	struct rte_eth_dev_info info;
	uint16_t id;

	if (rte_eth_dev_get_port_by_name(device, &id) != 0 || rte_eth_dev_info_get(id, &info) != 0)
		return 2 * ring;
	return ring_buffers(info.driver_name, ring);
}

struct rte_mempool *hk_pool_populated(const char *name, unsigned n, unsigned cache, size_t element,
				      struct rte_pktmbuf_pool_private *priv, const char *ops,
				      unsigned flags)
{
	if (hk_eal_bare())
		return hk_pool_bare(name, n, element, priv);
	struct rte_mempool *mp = rte_mempool_create_empty(name, n, (unsigned)element, cache,
							  sizeof(*priv), SOCKET_ID_ANY, flags);

	if (!mp)
		return NULL;
	if (rte_mempool_set_ops_byname(mp, ops, NULL) == 0) {
		rte_pktmbuf_pool_init(mp, priv);
		if (rte_mempool_populate_default(mp) == (int)n)
			return mp;
	}
	rte_mempool_free(mp);
	return NULL;
}

/* Returns the bytes that a NIC writes to a buffer at most. A NIC that has its sizes in powers of
 * two (82574) splits what is longer, and e.g. 82599 knows steps of 1024. The driver counts two VLAN
 * tags, the FCS and the virtio header of 12 bytes too. */
static unsigned nic_buffer(unsigned frame)
{
	return HK_MAX(rte_align32pow2(frame + HK_NIC_FRAME_EXTRA), 2048u);
}

/* Returns the bytes that a buffer needs, headroom included. */
static unsigned buffer_data_room(const struct hk_port_impl *p)
{
	unsigned frame = p->port.info.frame_max;
	if (p->spec.kind == HK_SPEC_AF_PACKET) {
		unsigned slot = 2048; /* the driver needs buffers as large as a slot */
		while (slot < frame + 128u)
			slot *= 2;
		return RTE_PKTMBUF_HEADROOM + slot;
	}
	return RTE_PKTMBUF_HEADROOM + ((frame + 63u) & ~63u);
}

static bool left;

void hk_pools_leave(void)
{
	left = true;
}

bool hk_pools_left(void)
{
	return left;
}

int hk_pool_suits(const struct hk_port_impl *p, struct rte_mempool *given, struct hk_error *err)
{
	const struct hk_port_info *info = &p->port.info;
	unsigned data_room = buffer_data_room(p);
	if (rte_pktmbuf_data_room_size(given) < data_room)
		return hk_error_set(err, -EMSGSIZE,
				    "port %s: the given buffers hold %u bytes, and %u are "
				    "needed; fix: open the port with the largest frames "
				    "first, or lower its frame size",
				    info->spec, rte_pktmbuf_data_room_size(given), data_room);
	return 0;
}

int hk_pool_make(struct hk_port_impl *p, unsigned buffers, struct rte_mempool *given,
		 struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	unsigned data_room = p->spec.kind == HK_SPEC_PCI
				     ? RTE_PKTMBUF_HEADROOM + nic_buffer(info->frame_max)
				     : buffer_data_room(p);

	if (given) {
		p->port.pool = given;
		return hk_pool_suits(p, given, err);
	}
	if (!p->xsk) /* whose rings have memory of their own */
		buffers += info->queues * ring_buffers(info->driver, info->rx_ring);
	char name[RTE_MEMPOOL_NAMESIZE];
	snprintf(name, sizeof(name), "hk_pool_%u", p->port.id);
	unsigned cache = HK_MIN((unsigned)POOL_CACHE, buffers / 2); /* DPDK's limit: two thirds */
	p->port.pool = hk_pool_new(name, buffers, cache, 0, (uint16_t)data_room, NULL);
	if (!p->port.pool)
		return hk_error_set(err, -ENOMEM,
				    "port %s: no memory for %u buffers of %u bytes (%u MB); "
				    "fix: give DPDK more memory, or take fewer buffers",
				    info->spec, buffers, data_room,
				    (unsigned)(((uint64_t)buffers * (data_room + 256)) >> 20));
	p->own_pool = true;
	return 0;
}
