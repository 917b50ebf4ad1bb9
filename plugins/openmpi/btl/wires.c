/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/btl/wires.c: the own ports that reach each peer, as many as both ends have.
 *
 * One port reaches all peers; the n-th of several reaches the n-th of its kind (modex.h). A set of
 * point-to-point wires has one wire for each peer, which this file opens. With hikyakud it is the
 * queue of a wire that the nodes share (mode.c).
 */
#include "openmpi/btl/btl_hikyaku.h"

#include <stdlib.h>

#define PARAMS (&mca_btl_hikyaku_component.param)

/* @c is reached by our port @txq, which leads to its port @path. */
static void add_txq(struct hk_candidate *c, unsigned path, int txq)
{
	if (c->txq < 0) {
		c->txq = txq;
		c->first = path;
		return;
	}
	c->path[c->further] = (struct hk_path_addr){.port = (uint16_t)txq,
						    .frame_max = c->m.path[path].frame_max};
	memcpy(c->path[c->further].mac, c->m.path[path].mac, 6);
	memcpy(c->path[c->further++].ip6, c->m.path[path].address, HK_IP6_LEN);
}

static void tell(void *arg, const char *text)
{
	(void)arg;
	hk_btl_error("%s", text);
}

static void init_wires(void)
{
	struct hk_wires *w = &hk_btl.wires;

	if (w->worker)
		return;
	*w = (struct hk_wires){
		.worker = hk_btl.worker,
		.count = hk_btl.ports.count,
		.key = hk_btl.key,
		.endpoint = hk_btl.endpoint,
		.buffers = PARAMS->rx_buffers,
		.timeout_ms = (int)PARAMS->connect_timeout_ms,
		.pool = hk_btl.rx_pool,
	};
	memcpy(w->spec, hk_btl.ports.spec, sizeof(w->spec));
}

/* A candidate keeps the wires that work; failures are reported to the user. */
static void open_wires(struct hk_candidate *list, size_t n)
{
	struct hk_wires_peer *peer = n ? calloc(n, sizeof(*peer)) : NULL;

	if (!peer)
		return;
	init_wires();
	for (size_t i = 0; i < n; i++) {
		peer[i].endpoint = list[i].m.endpoint;
		peer[i].count = list[i].m.path_count;
		snprintf(peer[i].name, sizeof(peer[i].name), "rank %u on %s",
			 list[i].proc->proc_name.vpid, list[i].m.host);
	}
	hk_wires_open(&hk_btl.wires, peer, n, tell, NULL);
	for (size_t i = 0; i < n; i++)
		for (unsigned path = 0; path < HK_PATHS_MAX; path++)
			if (peer[i].txq[path] >= 0)
				add_txq(&list[i], path, peer[i].txq[path]);
	free(peer);
}

/* Our port @path leads to port @to of @c, if they have addresses of one kind. */
static void use_port(struct hk_candidate *c, unsigned path, unsigned to)
{
	const struct hk_modex_path *peer = &c->m.path[to];
	struct hk_error err;

	if (hk_port_meets(hk_btl.port[path], peer->has_address, &err) != 0)
		hk_btl_error("rank %u on %s: %s", c->proc->proc_name.vpid, c->m.host, err.text);
	else
		add_txq(c, to, (int)path);
}

static void use_ports(struct hk_candidate *c)
{
	int to[HK_MODEX_PATHS];

	if (hk_modex_pair(&hk_btl.self, &c->m, to) == 0)
		hk_btl_error("rank %u on %s has no port that ours reaches: a UDP socket reaches "
			     "only UDP sockets; fix: give all ranks the same btl_hikyaku_port",
			     c->proc->proc_name.vpid, c->m.host);
	for (unsigned path = 0; path < hk_btl.ports.count; path++)
		if (to[path] >= 0)
			use_port(c, path, (unsigned)to[path]);
}

/* If only some of the ports to @c are good at bulk, the first of these carries it alone. */
static void choose_bulk(struct hk_candidate *c)
{
	unsigned good = 0;

	if (c->txq < 0)
		return;
	for (unsigned i = 0; i <= c->further; i++) {
		int txq = i == 0 ? c->txq : c->path[i - 1].port;

		if (hk_btl.port[txq]->info.bulk && good++ == 0)
			c->bulk = txq;
	}
	if (good == c->further + 1)
		c->bulk = -1;
}

void hk_btl_open_txqs(struct hk_candidate *list, size_t n)
{
	if (hk_btl.daemon)
		hk_btl_mode_txqs(list, n);
	else if (hk_btl.ports.wire_set)
		open_wires(list, n);
	else
		for (size_t i = 0; i < n; i++) {
			use_ports(&list[i]);
			choose_bulk(&list[i]);
		}
}
