/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/pool.c: the packet buffers of a port.
 */
#include "port/internal.h"

#include <errno.h>
#include <string.h>

#include <rte_mbuf_pool_ops.h>

#define POOL_CACHE     256
#define AF_XDP_IN_RING 8192 /* fill, rx, tx and completion ring of 2048 each can hold buffers */

/* vmxnet3's driver fills two receive rings, the second with buffers for what follows in a long frame. */
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

/* A pool whose objects are exactly a page each, in one piece. The driver gives the kernel a umem of
 * (number of objects) x (size of one) bytes, while the pool keeps small pages' objects from crossing
 * page borders: were an object smaller than its page, the last of them would lie outside the umem,
 * and whatever is sent from them is silently refused. */
static struct rte_mempool *page_pool(const char *name, unsigned n, unsigned cache)
{
	struct rte_pktmbuf_pool_private priv = {.mbuf_data_room_size = HK_AF_XDP_ROOM};
	struct rte_mempool *mp = rte_mempool_create_empty(
		name, n, sizeof(struct rte_mbuf) + HK_AF_XDP_ROOM, cache, sizeof(priv),
		SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_SPREAD);
	if (!mp)
		return NULL;
	if (rte_mempool_set_ops_byname(mp, rte_mbuf_best_mempool_ops(), NULL) == 0) {
		rte_pktmbuf_pool_init(mp, &priv);
		if (rte_mempool_populate_default(mp) == (int)n && mp->nb_mem_chunks == 1 &&
		    mp->header_size + mp->elt_size + mp->trailer_size == 4096) {
			rte_mempool_obj_iter(mp, rte_pktmbuf_init, NULL);
			return mp;
		}
	}
	rte_mempool_free(mp);
	return NULL;
}

/* Bytes of a buffer, headroom included. */
static unsigned buffer_room(const struct hk_port_impl *p)
{
	unsigned frame = p->port.info.frame_max;
	if (p->spec.kind == HK_SPEC_AF_PACKET) {
		unsigned slot = 2048; /* the driver wants room for a whole slot */
		while (slot < frame + 128u)
			slot *= 2;
		return RTE_PKTMBUF_HEADROOM + slot;
	}
	return p->spec.kind == HK_SPEC_AF_XDP ? HK_AF_XDP_ROOM
					      : RTE_PKTMBUF_HEADROOM + ((frame + 63u) & ~63u);
}

int hk_pool_suits(const struct hk_port_impl *p, struct rte_mempool *given, struct hk_error *err)
{
	const struct hk_port_info *info = &p->port.info;
	unsigned room = buffer_room(p);
	if (rte_pktmbuf_data_room_size(given) < room)
		return hk_error_set(err, -EMSGSIZE,
				    "port %s: the given buffers hold %u bytes, and %u are "
				    "needed; fix: open the port with the largest frames "
				    "first, or lower its frame size",
				    info->spec, rte_pktmbuf_data_room_size(given), room);
	if (p->spec.kind == HK_SPEC_AF_XDP)
		return hk_error_set(err, -EINVAL,
				    "port %s: AF_XDP needs buffers of its own; fix: let "
				    "the port make its pool",
				    info->spec);
	return 0;
}

int hk_pool_make(struct hk_port_impl *p, unsigned buffers, struct rte_mempool *given,
		 struct hk_error *err)
{
	struct hk_port_info *info = &p->port.info;
	bool xdp = p->spec.kind == HK_SPEC_AF_XDP;
	unsigned room = buffer_room(p);

	if (given) {
		p->port.pool = given;
		return hk_pool_suits(p, given, err);
	}
	buffers += xdp ? AF_XDP_IN_RING : info->queues * ring_buffers(info->driver, info->rx_ring);
	char name[RTE_MEMPOOL_NAMESIZE];
	snprintf(name, sizeof(name), "hk_pool_%u", p->port.id);
	unsigned cache = HK_MIN((unsigned)POOL_CACHE, buffers / 2); /* DPDK's bound: two thirds */
	p->port.pool = xdp ? page_pool(name, buffers, cache)
			   : rte_pktmbuf_pool_create(name, buffers, cache, 0, (uint16_t)room,
						     SOCKET_ID_ANY);
	if (!p->port.pool)
		return hk_error_set(err, -ENOMEM,
				    "port %s: no memory for %u buffers of %u bytes (%u MB); "
				    "fix: give DPDK more memory, or take fewer buffers",
				    info->spec, buffers, room,
				    (unsigned)(((uint64_t)buffers * (room + 256)) >> 20));
	p->own_pool = true;
	return 0;
}
