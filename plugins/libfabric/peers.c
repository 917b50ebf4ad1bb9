/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/peers.c: the workers that a domain knows, of all its address vectors.
 *
 * A worker has one place here, which stays its own. That place names the source of a message, since
 * the number that our worker gives to the peer (hk_peer) may not be known yet. A point-to-point
 * wire comes up when the other end has opened it too, and fi_av_insert() does not wait for that.
 * Until then a send to such a peer is refused with -FI_EAGAIN. The peer's program may never insert
 * our address, so its worker is called (worker/calls.h).
 */
#include "libfabric/provider.h"

#include "worker/calls.h"
#include "worker/wires.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_NS HK_MSEC /* between two looks at wires that are not up, and for calls */

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

void hk_fi_peers_close(struct hk_fi_domain *d)
{
	for (uint32_t i = 0; i < d->peers; i++)
		if (d->peer[i].wire) {
			hk_wires_abandon(d->wires, d->peer[i].wire);
			free(d->peer[i].wire);
		}
	free(d->peer);
	free(d->by_worker);
	d->peer = NULL;
	d->by_worker = NULL;
	d->peers = d->peer_room = d->by_worker_room = 0;
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

/* Makes @name a peer of the worker, by its port @port. *@index: its place; another one if the
 * worker knows it already, because it has sent before. */
static int meet(struct hk_fi_domain *d, const struct hk_fi_name *name, int port, uint32_t *index)
{
	struct hk_peer_addr addr;
	struct hk_error err = {""};
	hk_peer peer;
	char text[48];

	snprintf(text, sizeof(text), "endpoint %08x", name->endpoint);
	hk_fi_name_address(name, (unsigned)port, text, &addr);
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

/* Begins the wire to the peer at @index. */
static int connect_wire(struct hk_fi_domain *d, const struct hk_fi_name *name, uint32_t index)
{
	struct hk_wires_peer *wire = calloc(1, sizeof(*wire));
	struct hk_error err = {""};

	if (!wire)
		return -FI_ENOMEM;
	wire->endpoint = name->endpoint;
	wire->count = 1;
	d->peer[index].wire = wire;
	d->peer[index].name = *name;
	d->connecting++;
	if (hk_wires_begin(d->wires, wire, &err) == 0)
		return 0;
	hk_fi_warn("%s", err.text);
	hk_wires_abandon(d->wires, wire);
	free(wire);
	d->peer[index].wire = NULL;
	d->connecting--;
	return -FI_EADDRNOTAVAIL;
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

	rc = d->wires ? connect_wire(d, name, *index) : meet(d, name, 0, index);
	if (rc || *index != added)
		d->peers--; /* its place is not needed */
	return rc;
}

/* Looks whether the wire to @p is up. */
static void step(struct hk_fi_domain *d, uint32_t index)
{
	struct hk_fi_peer *p = &d->peer[index];
	struct hk_error err = {""};
	int rc = hk_wires_step(d->wires, p->wire, &err);

	if (rc == 0 && !p->called)
		p->called = hk_calls_send(d->calls, p->endpoint, &d->name) == 0;
	if (rc == 0)
		return;
	if (rc > 0)
		rc = meet(d, &p->name, p->wire->txq[0], &index);
	else
		hk_fi_warn("%s", err.text);
	if (rc) {
		hk_wires_abandon(d->wires, p->wire);
		p->failed = true;
	}
	free(p->wire);
	p->wire = NULL;
	d->connecting--;
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
	for (uint32_t i = 0; d->connecting && i < d->peers; i++)
		if (d->peer[i].wire)
			step(d, i);
}

int hk_fi_peer_wait(struct hk_fi_domain *d, struct hk_fi_peer *p)
{
	uint64_t now = hk_worker_now(d->worker);

	if (!p->wanted)
		p->wanted = now;
	if (!p->failed && now - p->wanted < (uint64_t)hk_fi_params.connect_timeout_ms * HK_MSEC)
		return -FI_EAGAIN;
	hk_fi_warn("no wire to endpoint %08x: the other end has not connected within %d ms; fix: "
		   "see why that process does not insert our address, or set "
		   "FI_HIKYAKU_CONNECT_TIMEOUT_MS",
		   p->endpoint, hk_fi_params.connect_timeout_ms);
	return -FI_EHOSTUNREACH;
}
