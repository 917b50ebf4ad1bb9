/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/sim_nic.c: replacements of DPDK functions for sim_nic.h.
 *
 * The receive function finds its queue by the driver's own pointer for that queue, because
 * rte_eth_rx_burst() passes nothing else on.
 */
#include "tests/unit/port/sim_nic.h"

#include "base/common.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>

#define QUEUES 40
#define RING   512 /* limit of frames that wait in a queue */
#define BURST  32
#define BYTES  40 /* limit of compared bytes, from the start of the frame */
#define EXPORT __attribute__((visibility("default")))

struct rte_flow {
	struct rte_flow *next;
	uint16_t port, queue;
	uint8_t value[BYTES], mask[BYTES];
};

struct nic {
	eth_rx_burst_t rx;
	void *rxq[QUEUES];
	unsigned queues;
	struct rte_mbuf *frame[QUEUES][RING];
	unsigned head[QUEUES], tail[QUEUES];
};

static struct nic *nics[RTE_MAX_ETHPORTS];
static struct rte_flow *flows;
static unsigned made;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool can(const char *word)
{
	const char *all = getenv("HK_SIM_NIC");
	size_t n = strlen(word);

	for (const char *at = all; at && (at = strstr(at, word)); at += n)
		if ((at == all || at[-1] == ',') && (at[n] == ',' || !at[n]))
			return true;
	return false;
}

static bool there(void)
{
	return getenv("HK_SIM_NIC") != NULL;
}

EXPORT unsigned sim_nic_rules(void)
{
	unsigned n = 0;

	for (const struct rte_flow *f = flows; f; f = f->next)
		n++;
	return n;
}

EXPORT unsigned sim_nic_made(void)
{
	return made;
}

#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

/* ---- frames ---------------------------------------------------------------------------------- */

static unsigned queue_of(uint16_t port, const struct rte_mbuf *m)
{
	const uint8_t *b = rte_pktmbuf_mtod(m, const uint8_t *);

	for (const struct rte_flow *f = flows; f; f = f->next) {
		unsigned i = 0;

		if (f->port != port)
			continue;
		while (i < BYTES &&
		       (!f->mask[i] || (i < m->data_len && (b[i] & f->mask[i]) == f->value[i])))
			i++;
		if (i == BYTES)
			return f->queue;
	}
	return 0;
}

static void sort_in(struct nic *nic, uint16_t port)
{
	struct rte_mbuf *m[BURST];

	for (unsigned real = 0; real < nic->queues; real++) {
		uint16_t got = nic->rx(nic->rxq[real], m, BURST);

		for (uint16_t i = 0; i < got; i++) {
			unsigned q = queue_of(port, m[i]);

			if (q >= nic->queues || nic->head[q] - nic->tail[q] == RING)
				rte_pktmbuf_free(m[i]);
			else
				nic->frame[q][nic->head[q]++ % RING] = m[i];
		}
	}
}

static uint16_t receive(void *rxq, struct rte_mbuf **m, uint16_t n)
{
	uint16_t got = 0;

	pthread_mutex_lock(&lock);
	for (uint16_t port = 0; port < RTE_MAX_ETHPORTS; port++) {
		struct nic *nic = nics[port];
		unsigned q = 0;

		while (nic && q < nic->queues && nic->rxq[q] != rxq)
			q++;
		if (!nic || q == nic->queues)
			continue;
		sort_in(nic, port);
		while (got < n && nic->tail[q] != nic->head[q])
			m[got++] = nic->frame[q][nic->tail[q]++ % RING];
	}
	pthread_mutex_unlock(&lock);
	return got;
}

/* ---- the device ------------------------------------------------------------------------------ */

static void forget(uint16_t port);

EXPORT int rte_eth_dev_start(uint16_t port)
{
	int rc = REAL(rte_eth_dev_start)(port);
	struct rte_eth_dev_info info;

	if (rc || !there() || rte_eth_dev_info_get(port, &info) != 0)
		return rc;
	struct nic *nic = calloc(1, sizeof(*nic));

	if (!nic || info.nb_rx_queues > QUEUES)
		abort();
	nic->rx = rte_eth_fp_ops[port].rx_pkt_burst;
	nic->queues = info.nb_rx_queues;
	for (unsigned q = 0; q < nic->queues; q++)
		nic->rxq[q] = rte_eth_fp_ops[port].rxq.data[q];
	pthread_mutex_lock(&lock);
	nics[port] = nic;
	if (can("leftover")) {
		struct rte_flow *f = calloc(1, sizeof(*f));

		if (!f)
			abort();
		*f = (struct rte_flow){.next = flows, .port = port, .queue = 2};
		flows = f;
	}
	pthread_mutex_unlock(&lock);
	rte_eth_fp_ops[port].rx_pkt_burst = receive;
	return 0;
}

/* net_af_packet reports 1514 bytes whatever its slots hold, and needs buffers for whole slots.
 * This value fits slots of 2000 bytes (framesz=2000,blocksz=512000, since slots must fill a
 * block): 1934 bytes for a frame, the others for the kernel's header. */
EXPORT int rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
	int rc = REAL(rte_eth_dev_info_get)(port, info);

	if (rc == 0 && there() && strstr(info->driver_name, "af_packet"))
		info->max_rx_pktlen = 1930;
	return rc;
}

EXPORT int rte_eth_dev_stop(uint16_t port)
{
	struct nic *nic = nics[port];
	int rc = REAL(rte_eth_dev_stop)(port);

	pthread_mutex_lock(&lock);
	nics[port] = NULL;
	for (unsigned q = 0; nic && q < nic->queues; q++)
		while (nic->tail[q] != nic->head[q])
			rte_pktmbuf_free(nic->frame[q][nic->tail[q]++ % RING]);
	pthread_mutex_unlock(&lock);
	free(nic);
	return rc;
}

EXPORT int rte_eth_dev_mac_addr_add(uint16_t port, struct rte_ether_addr *mac, uint32_t pool)
{
	return can("one-mac") ? -ENOSPC : REAL(rte_eth_dev_mac_addr_add)(port, mac, pool);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static int refuse(struct rte_flow_error *e, int code, const char *text)
{
	return rte_flow_error_set(e, code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, NULL, text);
}

static void want(struct rte_flow *f, unsigned at, const void *value, const void *mask, unsigned len)
{
	for (unsigned i = 0; i < len; i++) {
		f->mask[at + i] = ((const uint8_t *)mask)[i];
		f->value[at + i] = ((const uint8_t *)value)[i] & f->mask[at + i];
	}
}

static bool raw(struct rte_flow *f, const struct rte_flow_item *item, bool relative)
{
	const struct rte_flow_item_raw *spec = item->spec, *mask = item->mask;
	unsigned at = (unsigned)spec->offset + (relative ? 14 : 0);

	if (!mask || spec->relative != relative || !mask->relative || mask->length != UINT16_MAX ||
	    spec->search || at + spec->length > BYTES)
		return false;
	want(f, at, spec->pattern, mask->pattern, spec->length);
	return true;
}

/* Returns whether the words of HK_SIM_NIC allow the pattern. */
static bool understood(struct rte_flow *f, const struct rte_flow_item *p)
{
	static const uint8_t all[6] = {255, 255, 255, 255, 255, 255}, ipv4[2] = {8, 0}, udp = 17;
	const struct rte_flow_item_eth *eth = p->spec, *mask = p->mask;

	if (p[0].type == RTE_FLOW_ITEM_TYPE_RAW)
		return can("endpoint-abs") && raw(f, &p[0], false) &&
		       (p[1].type == RTE_FLOW_ITEM_TYPE_END ||
			(p[1].type == RTE_FLOW_ITEM_TYPE_RAW && raw(f, &p[1], false) &&
			 p[2].type == RTE_FLOW_ITEM_TYPE_END));
	if (p[0].type != RTE_FLOW_ITEM_TYPE_ETH)
		return false;
	if (p[1].type == RTE_FLOW_ITEM_TYPE_IPV4) {
		const struct rte_flow_item_udp *u = p[2].spec, *um = p[2].mask;

		if (!can("udp") || eth || p[1].spec || p[2].type != RTE_FLOW_ITEM_TYPE_UDP || !u ||
		    um->hdr.dst_port != UINT16_MAX || p[3].type != RTE_FLOW_ITEM_TYPE_END)
			return false;
		want(f, 12, ipv4, all, 2);
		want(f, 14 + 9, &udp, all, 1);
		want(f, 14 + 20 + 2, &u->hdr.dst_port, all, 2);
		return true;
	}
	if (!eth || !mask || !rte_is_zero_ether_addr(&mask->src))
		return false;
	if (mask->type)
		want(f, 12, &eth->type, &mask->type, 2);
	if (p[1].type == RTE_FLOW_ITEM_TYPE_RAW)
		return can("endpoint") && mask->type == UINT16_MAX && raw(f, &p[1], true) &&
		       p[2].type == RTE_FLOW_ITEM_TYPE_END;
	if (p[1].type != RTE_FLOW_ITEM_TYPE_END || memcmp(&mask->dst, all, 6) != 0)
		return false;
	want(f, 0, &eth->dst, all, 6);
	return can(mask->type ? "mac-type" : "mac");
}

static int check(uint16_t port, const struct rte_flow_attr *attr, const struct rte_flow_item *items,
		 const struct rte_flow_action *actions, struct rte_flow *f,
		 struct rte_flow_error *e)
{
	const struct rte_flow_action_queue *to = actions[0].conf;

	*f = (struct rte_flow){.port = port};
	if (!nics[port])
		return refuse(e, EBUSY, "the simulated NIC is not started");
	if (!attr->ingress || attr->egress || attr->transfer)
		return refuse(e, EINVAL, "the simulated NIC steers what comes in");
	if (actions[0].type != RTE_FLOW_ACTION_TYPE_QUEUE ||
	    actions[1].type != RTE_FLOW_ACTION_TYPE_END || to->index >= nics[port]->queues)
		return refuse(e, EINVAL, "the simulated NIC has no such action");
	if (!understood(f, items))
		return refuse(e, ENOTSUP, "the simulated NIC has no \"such\" filter");
	f->queue = to->index;
	return 0;
}

EXPORT int rte_flow_validate(uint16_t port, const struct rte_flow_attr *attr,
			     const struct rte_flow_item items[],
			     const struct rte_flow_action actions[], struct rte_flow_error *e)
{
	struct rte_flow f;

	return there() ? check(port, attr, items, actions, &f, e)
		       : REAL(rte_flow_validate)(port, attr, items, actions, e);
}

EXPORT struct rte_flow *rte_flow_create(uint16_t port, const struct rte_flow_attr *attr,
					const struct rte_flow_item items[],
					const struct rte_flow_action actions[],
					struct rte_flow_error *e)
{
	const char *room = getenv("HK_SIM_NIC_RULES");

	if (!there())
		return REAL(rte_flow_create)(port, attr, items, actions, e);
	struct rte_flow *f = malloc(sizeof(*f));

	if (!f)
		abort();
	if (check(port, attr, items, actions, f, e) != 0 ||
	    (can("lies") && refuse(e, EINVAL, "the simulated NIC has lied")) ||
	    (sim_nic_rules() >= (room ? (unsigned)atoi(room) : 64) &&
	     refuse(e, ENOSPC, "the table of the simulated NIC is full"))) {
		free(f);
		return NULL;
	}
	pthread_mutex_lock(&lock);
	f->next = flows;
	flows = f;
	made++;
	pthread_mutex_unlock(&lock);
	return f;
}

EXPORT int rte_flow_destroy(uint16_t port, struct rte_flow *flow, struct rte_flow_error *e)
{
	if (!there())
		return REAL(rte_flow_destroy)(port, flow, e);
	pthread_mutex_lock(&lock);
	struct rte_flow **at = &flows;

	while (*at && *at != flow)
		at = &(*at)->next;
	bool found = *at;

	if (found)
		*at = flow->next;
	pthread_mutex_unlock(&lock);
	if (!found)
		return refuse(e, ENOENT, "the simulated NIC has no such rule");
	free(flow);
	return 0;
}

static void forget(uint16_t port)
{
	pthread_mutex_lock(&lock);
	for (struct rte_flow **at = &flows, *f; (f = *at);) {
		if (f->port == port) {
			*at = f->next;
			free(f);
		} else {
			at = &f->next;
		}
	}
	pthread_mutex_unlock(&lock);
}

EXPORT int rte_flow_flush(uint16_t port, struct rte_flow_error *e)
{
	if (!there())
		return REAL(rte_flow_flush)(port, e);
	if (can("sticky"))
		return refuse(e, EIO, "the simulated NIC does not forget");
	forget(port);
	return 0;
}
