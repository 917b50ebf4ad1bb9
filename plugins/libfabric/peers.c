/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/peers.c: the workers that a domain knows, of all its address vectors.
 *
 * A worker has one place here, which stays its own. That place names the source of a message, since
 * the number that our worker gives to the peer (hk_peer) may not be known yet. A point-to-point
 * wire comes up when the other end has opened it too, and fi_av_insert() does not wait for that.
 * The same is true of the wire between two nodes, which hikyakud opens for all their workers.
 * Until then a send to such a peer is refused with -FI_EAGAIN. The peer's program may never insert
 * our address, so its worker is called (worker/calls.h).
 */
#include "libfabric/provider.h"

#include "worker/calls.h"
#include "worker/wires.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NS HK_MSEC /* between two looks at wires that are not up, and for calls */
#define ASK_MS  1       /* for one look of hikyakud, which also answers the others that wait */

static uint32_t add(struct hk_fi_domain *d, uint32_t endpoint)
{
	struct hk_fi_peer *grown = d->peers == HK_FI_PEERS
					   ? NULL
					   : hk_fi_grow(d->peer, &d->peer_room, d->peers,
							sizeof(*grown), 0);

	if (!grown)
		return HK_FI_NO_PEER;
	d->peer = grown;
	d->peer[d->peers] = (struct hk_fi_peer){.endpoint = endpoint, .peer = HK_PEER_NONE};
	return d->peers++;
}

int hk_fi_peers_open(struct hk_fi_domain *d)
{
	return add(d, d->name.endpoint) == HK_FI_SELF ? 0 : -FI_ENOMEM;
}

/* Forgets the wire to @p, if there is one. Its ends that the worker has got are the worker's. */
static void drop_wire(struct hk_fi_domain *d, struct hk_fi_peer *p)
{
	if (p->wire)
		hk_wires_abandon(d->wires, p->wire);
	free(p->wire);
	p->wire = NULL;
}

void hk_fi_peers_close(struct hk_fi_domain *d)
{
	for (uint32_t i = 0; i < d->peers; i++)
		drop_wire(d, &d->peer[i]);
	free(d->peer);
	free(d->by_worker);
}

/* Notes that the worker knows @index as @peer. */
static int note(struct hk_fi_domain *d, uint32_t index, hk_peer peer)
{
	uint32_t *grown = hk_fi_grow(d->by_worker, &d->by_worker_room, peer, sizeof(*grown), 0xff);

	if (!grown)
		return -FI_ENOMEM;
	d->by_worker = grown;
	d->by_worker[peer] = index;
	d->peer[index].peer = peer;
	return 0;
}

uint32_t hk_fi_peer_of_stranger(struct hk_fi_domain *d, hk_peer peer)
{
	uint32_t index = add(d, 0);

	if (index != HK_FI_NO_PEER && note(d, index, peer) != 0) {
		d->peers--;
		index = HK_FI_NO_PEER;
	}
	return index;
}

/* The worker's ports to a peer. */
struct txqs {
	int txq[HK_PATHS_MAX]; /* by the peer's ports */
	unsigned count;
	bool node_wire; /* no port of the peer has an address there */
	int bulk;       /* for bulk; -1: all are */
};

/* Makes @name a peer of the worker. *@index: its place; another one if the worker knows it already,
 * because it has sent before. */
static int meet(struct hk_fi_domain *d, const struct hk_fi_name *name, const struct txqs *by,
		uint32_t *index)
{
	struct hk_peer_addr addr;
	struct hk_error err = {""};
	hk_peer peer;
	char text[48];

	snprintf(text, sizeof(text), "endpoint %08x", name->endpoint);
	hk_fi_name_address(name, by->txq, by->count, text, &addr);
	if (by->node_wire) {
		memset(addr.mac, 0, sizeof(addr.mac));
		memset(addr.ip6, 0, sizeof(addr.ip6));
	}
	addr.bulk = (uint16_t)(by->bulk + 1);
	if (hk_worker_peer_add(d->worker, &addr, &peer, &err) != 0) {
		hk_fi_warn("%s", err.text);
		return -FI_EADDRNOTAVAIL;
	}
	if (peer < d->by_worker_room && d->by_worker[peer] != HK_FI_NO_PEER) {
		*index = d->by_worker[peer];
		d->peer[*index].endpoint = name->endpoint;
		return 0;
	}
	return note(d, *index, peer);
}

/* hikyakud makes no wire between two workers of its node. */
static bool shares_node(const struct hk_fi_domain *d, const struct hk_fi_peer *p)
{
	return d->hosted &&
	       hk_fi_name_hosted(&p->name).node_id == hk_hosted_node(d->hosted).node_id;
}

/* The worker's ports to @p. Returns whether its wire, if it needs one, is up, or a negative code.
 * @ask_ms: how long hikyakud may take to say that it is not. */
static int look(struct hk_fi_domain *d, struct hk_fi_peer *p, unsigned ask_ms, struct txqs *by,
		struct hk_error *err)
{
	const struct hk_hosted_node node = hk_fi_name_hosted(&p->name);
	int rc = 0;

	*by = (struct txqs){
		.txq = {0, 1, 2}, /* MACs, of which a name has at most three */
		.count = HK_MIN(hk_fi_name_ports(&d->name), hk_fi_name_ports(&p->name)),
		.bulk = -1,
	};
	if (p->wire) {
		by->node_wire = d->node_wires != NULL;
		by->count = by->node_wire ? 1 : by->count;
		rc = hk_wires_step(d->wires, p->wire, err);
		memcpy(by->txq, p->wire->txq, sizeof(by->txq));
		return rc;
	}
	if (!d->hosted)
		return 1;
	if (ask_ms)
		rc = hk_hosted_wires(d->hosted, &node, 1, ask_ms, err);
	if (rc == -ETIMEDOUT || (rc == 0 && !hk_hosted_reaches(d->hosted, node.node_id)))
		return 0;
	if (rc == 0)
		rc = hk_hosted_txqs(d->hosted, &node, by->txq, &by->bulk, err);
	return rc ? rc : 1;
}

/* The wire to a peer of this node does not come up. The ports lead there as well. */
static bool goes_by_ports(struct hk_fi_domain *d, struct hk_fi_peer *p, int rc, const char *why)
{
	if (!d->node_wires || !p->wire)
		return false;
	if (rc == 0 && !p->by_ports && hk_calls_reaches(d->calls, p->endpoint))
		return false;
	hk_fi_say(FI_LOG_INFO, "no wire to endpoint %08x of this node, so the ports carry all: %s",
		  p->endpoint, rc ? why : "the other end has none");
	drop_wire(d, p);
	return true;
}

/* Makes the peer at *@index, whose name is there, a peer of the worker if its wire is up. Returns
 * whether it is, or a negative code after a warning. */
static int connect_to(struct hk_fi_domain *d, uint32_t *index, unsigned ask_ms)
{
	struct hk_fi_peer *p = &d->peer[*index];
	struct hk_error err = {""};
	struct txqs by;
	int rc = look(d, p, ask_ms, &by, &err);

	if (rc <= 0 && goes_by_ports(d, p, rc, err.text))
		rc = look(d, p, 0, &by, &err);
	if (rc == 0)
		return 0;
	if (rc > 0)
		rc = meet(d, &p->name, &by, index);
	else
		hk_fi_warn("%s", err.text);
	drop_wire(d, p);
	return rc ? -FI_EADDRNOTAVAIL : 1;
}

/* Begins the wire to @p, if the worker has wires of its own that lead there. */
static int begin_wire(struct hk_fi_domain *d, struct hk_fi_peer *p)
{
	struct hk_error err = {""};

	if (!d->wires || (d->node_wires && !hk_calls_reaches(d->calls, p->endpoint)))
		return 0;
	p->wire = calloc(1, sizeof(*p->wire));
	if (!p->wire)
		return -FI_ENOMEM;
	p->wire->endpoint = p->endpoint;
	p->wire->count = hk_fi_name_ports(&p->name);
	int rc = hk_wires_begin(d->wires, p->wire, &err);

	if (rc == 0 || goes_by_ports(d, p, rc, err.text))
		return 0;
	hk_fi_warn("%s", err.text);
	drop_wire(d, p);
	return -FI_EADDRNOTAVAIL;
}

/* Makes @name, which is not our own, a peer of the worker: now, or when its wire is up. */
static int begin(struct hk_fi_domain *d, const struct hk_fi_name *name, uint32_t *index)
{
	struct hk_fi_peer *p = &d->peer[*index];

	p->name = *name;
	p->failed = shares_node(d, p); /* a send says so */
	int rc = p->failed ? 1 : begin_wire(d, p);

	if (rc == 0)
		rc = connect_to(d, index, 0);
	if (rc == 0) {
		p->connecting = true;
		d->connecting++;
	}
	return HK_MIN(rc, 0);
}

int hk_fi_peer_find(struct hk_fi_domain *d, const struct hk_fi_name *name, uint32_t *index)
{
	const char *why = hk_fi_name_check(&d->name, name);
	int rc;

	if (why) {
		hk_fi_warn("endpoint %08x has %s", name->endpoint, why);
		return -FI_EINVAL;
	}
	for (uint32_t i = 0; i < d->peers; i++)
		if (d->peer[i].endpoint == name->endpoint) {
			*index = i;
			return 0;
		}
	*index = add(d, name->endpoint);
	if (*index == HK_FI_NO_PEER)
		return -FI_ENOMEM;
	uint32_t added = *index;

	rc = begin(d, name, index);
	if (rc || *index != added)
		d->peers--; /* its place is not needed */
	return rc;
}

/* Looks whether the wire to a peer is up. Returns false if it is not. */
static bool step(struct hk_fi_domain *d, uint32_t index)
{
	struct hk_fi_peer *p = &d->peer[index];
	uint32_t place = index;
	int rc = connect_to(d, &place, ASK_MS);

	if (rc == 0) {
		if (!p->called)
			p->called = hk_calls_send(d->calls, p->endpoint, &d->name) == 0;
		return false;
	}
	p->failed = rc < 0 ||
		    place != index; /* the other one has sent by a wire that is not its own */
	p->connecting = false;
	d->connecting--;
	return true;
}

/* hikyakud's wire to a node serves all workers there, and the worker shall know each of them before
 * it sends. So a look that finds the wire up finds all of them, and one look in vain is enough. */
static void step_all(struct hk_fi_domain *d)
{
	uint32_t first = d->first, count = d->peers;
	bool in_vain = false;

	for (uint32_t i = 0; d->connecting && i < count; i++) {
		uint32_t index = (first + i) % count;
		const struct hk_fi_peer *p = &d->peer[index];

		if (!p->connecting ||
		    (in_vain && !hk_hosted_reaches(d->hosted, hk_fi_name_hosted(&p->name).node_id)))
			continue;
		if (!step(d, index) && d->hosted) {
			in_vain = true;
			d->first = index + 1; /* of the next look */
		}
	}
}

void hk_fi_peers_step(struct hk_fi_domain *d)
{
	uint64_t now = hk_worker_now(d->worker);
	struct hk_fi_name caller;
	uint32_t index;

	if (now < d->next_step)
		return;
	d->next_step = now + STEP_NS;
	/* the caller's call says so if it is in vain */
	while (hk_calls_next(d->calls, &caller))
		(void)hk_fi_peer_find(d, &caller, &index);
	step_all(d);
}

int hk_fi_peer_wait(struct hk_fi_domain *d, struct hk_fi_peer *p)
{
	uint64_t now = hk_worker_now(d->worker);

	if (!p->wanted)
		p->wanted = now;
	if (!p->failed && now - p->wanted < (uint64_t)hk_fi_params.connect_timeout_ms * HK_MSEC)
		return -FI_EAGAIN;
	if (!p->failed && p->wire && d->node_wires) { /* the next look sees to it */
		p->by_ports = true;
		return -FI_EAGAIN;
	}
	if (p->failed && shares_node(d, p))
		hk_fi_warn("hikyakud makes no wire to endpoint %08x, since it is on this node; "
			   "fix: let the program's shared memory carry what stays on a node, or "
			   "set FI_HIKYAKU_MODE to inline",
			   p->endpoint);
	else
		hk_fi_warn("no wire to endpoint %08x: the other end has not connected within %d "
			   "ms; fix: see why that process does not insert our address, or set "
			   "FI_HIKYAKU_CONNECT_TIMEOUT_MS",
			   p->endpoint, hk_fi_params.connect_timeout_ms);
	return -FI_EHOSTUNREACH;
}
