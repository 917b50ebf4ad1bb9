/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/wires.c: opens point-to-point wires to peers.
 */
#include "worker/wires.h"

static int open_wire(struct hk_wires *w, struct hk_wires_peer *peer, unsigned i,
		     struct hk_error *err)
{
	char spec[HK_PORT_SPEC_MAX];
	bool server;
	int rc = hk_port_wire_spec(w->spec[i], w->key, w->endpoint, peer->endpoint, spec,
				   sizeof(spec), &server, err);

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

void hk_wires_open(struct hk_wires *w, struct hk_wires_peer *list, size_t n, hk_wires_tell_fn tell,
		   void *arg)
{
	struct hk_error err;

	for (size_t k = 0; k < n; k++)
		for (unsigned i = 0; i < HK_PATHS_MAX; i++) {
			list[k].wire[i] = NULL;
			list[k].txq[i] = -1;
		}
	for (int clients = 0; clients < 2; clients++)
		for (size_t k = 0; k < n; k++)
			for (unsigned i = 0; i < shared(w, &list[k]); i++)
				if ((list[k].endpoint < w->endpoint) == clients &&
				    open_wire(w, &list[k], i, &err) != 0)
					tell(arg, err.text);
	for (size_t k = 0; k < n; k++)
		for (unsigned i = 0; i < shared(w, &list[k]); i++)
			list[k].txq[i] = use_wire(w, &list[k], i, tell, arg);
}

void hk_wires_end(struct hk_wires *w)
{
	if (w && w->owner_unused)
		hk_port_close(w->owner);
}
