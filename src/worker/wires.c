/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/wires.c: opens point-to-point wires to peers.
 */
#include "worker/wires.h"

/* Opens our end. @wait: a client waits for its server; else it is left out if that is not there. */
static int open_wire(struct hk_wires *w, struct hk_wires_peer *peer, unsigned i, bool wait,
		     struct hk_error *err)
{
	char spec[HK_PORT_SPEC_MAX];
	bool server;
	int rc = hk_port_wire_spec(w->spec[i], w->key, w->endpoint, peer->endpoint, spec,
				   sizeof(spec), &server, err);

	if (rc == 0 && !server && !wait && !hk_port_wire_is_served(spec))
		return 0;
	if (rc == 0)
		rc = hk_port_open(spec, w->buffers, w->pool, w->timeout_ms, &peer->wire[i], err);
	if (rc == 0 && !w->pool) {
		w->owner = peer->wire[i];
		w->pool = w->owner->pool;
	}
	return rc;
}

/* Closes a wire that failed; the one that owns the buffers of the others stays to the end. */
static void drop_wire(struct hk_wires *w, struct hk_port *wire)
{
	if (wire == w->owner)
		w->owner_unused = true;
	else
		hk_port_close(wire);
}

/* Waits until both ends of the wire are there, and gives it to the worker. */
static int use_wire(struct hk_wires *w, struct hk_wires_peer *peer, unsigned i,
		    hk_wires_tell_fn tell, void *arg)
{
	struct hk_error err;
	char text[700];
	int txq = -1;

	if (!peer->wire[i])
		return -1;
	if (hk_port_wait_link(peer->wire[i], w->timeout_ms, &err) != 0) {
		snprintf(text, sizeof(text), "no wire to %s: %s", peer->name, err.text);
		tell(arg, text);
	} else if ((txq = hk_worker_add_port(w->worker, peer->wire[i], &err)) < 0) {
		tell(arg, err.text);
	}
	if (txq < 0)
		drop_wire(w, peer->wire[i]);
	return txq;
}

/* Wire sets that both ends have. */
static unsigned shared(const struct hk_wires *w, const struct hk_wires_peer *peer)
{
	return HK_MIN(w->count, peer->count);
}

static void init(struct hk_wires_peer *peer)
{
	for (unsigned i = 0; i < HK_PATHS_MAX; i++) {
		peer->wire[i] = NULL;
		peer->txq[i] = -1;
	}
}

void hk_wires_open(struct hk_wires *w, struct hk_wires_peer *list, size_t n, hk_wires_tell_fn tell,
		   void *arg)
{
	struct hk_error err;

	for (size_t k = 0; k < n; k++)
		init(&list[k]);
	for (int clients = 0; clients < 2; clients++)
		for (size_t k = 0; k < n; k++)
			for (unsigned i = 0; i < shared(w, &list[k]); i++)
				if ((list[k].endpoint < w->endpoint) == clients &&
				    open_wire(w, &list[k], i, true, &err) != 0)
					tell(arg, err.text);
	for (size_t k = 0; k < n; k++)
		for (unsigned i = 0; i < shared(w, &list[k]); i++)
			list[k].txq[i] = use_wire(w, &list[k], i, tell, arg);
}

int hk_wires_begin(struct hk_wires *w, struct hk_wires_peer *peer, struct hk_error *err)
{
	int rc = 0;

	init(peer);
	for (unsigned i = 0; rc == 0 && w->endpoint < peer->endpoint && i < shared(w, peer); i++)
		rc = open_wire(w, peer, i, false, err);
	return rc;
}

int hk_wires_step(struct hk_wires *w, struct hk_wires_peer *peer, struct hk_error *err)
{
	unsigned ready = 0;
	int rc = 0;

	for (unsigned i = 0; i < shared(w, peer); i++) {
		if (!peer->wire[i])
			rc = open_wire(w, peer, i, false, err);
		if (rc)
			return rc;
		ready += peer->wire[i] && hk_port_wait_link(peer->wire[i], 0, err) == 0;
	}
	if (ready < shared(w, peer))
		return 0;
	for (unsigned i = 0; i < shared(w, peer); i++) {
		rc = hk_worker_add_port(w->worker, peer->wire[i], err);
		if (rc < 0)
			return rc;
		peer->txq[i] = rc;
	}
	return 1;
}

void hk_wires_abandon(struct hk_wires *w, struct hk_wires_peer *peer)
{
	for (unsigned i = 0; i < HK_PATHS_MAX; i++)
		if (peer->wire[i] && peer->txq[i] < 0)
			drop_wire(w, peer->wire[i]);
}

void hk_wires_end(struct hk_wires *w)
{
	if (w && w->owner_unused)
		hk_port_close(w->owner);
}
