/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/transport_worker.c: puts by the worker of Hikyaku's BTL (hikyaku/service.h). Each
 * end has a notify target of depth 2 for the puts of the other.
 *
 * DESIGN NOTES: why two places suffice, without further flow control (hikyaku/notify.h requires
 * some). Both ends put to each other in every exchange, even if a put carries only its number.
 *
 * - A rank starts exchange n + 2 after its wait n + 1 has returned.
 * - That wait needs the neighbour's put n + 1.
 * - The neighbour sends it after its own wait n has returned, which consumes put n.
 *
 * So put n + 2 finds the place of put n empty.
 */
#include "halo/api/internal.h"

#include "hikyaku/service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct hk_service *service;

struct state {
	hk_peer peer;
	hk_region remote;
	struct hk_layout from;
	struct hk_notify_target in;
	struct sending { /* by the exchange's number modulo 2; the last may be unacknowledged */
		struct hk_op op;
		bool in_flight;
		int *status; /* state.status */
	} send[2];
	int status;    /* negative errno of a failed put; 0: none */
	unsigned idle; /* polls since the put */
	char *staging; /* for early puts; if there are none, its pages are never allocated */
};

#define PEER_ROUNDS 1024 /* polls without success between two checks that the peer is alive */

void hk_halo_poll_worker(bool all)
{
	service->progress(all);
}

static bool offer(struct hk_halo *h, struct hk_halo_neighbour *nb, char *address)
{
	struct hk_identity me;

	(void)h;
	if (nb->flat) {
		snprintf(nb->why, sizeof(nb->why), "only MPI knows the layout of a type");
		return false;
	}
	service = hk_service_find();
	if (!service || !service->identity(&me)) {
		snprintf(nb->why, sizeof(nb->why), "this rank has not loaded Hikyaku's BTL");
		return false;
	}
	memcpy(address, &me, sizeof(me));
	return true;
}

static void done(void *arg, int status)
{
	struct sending *s = arg;

	s->in_flight = false;
	if (status)
		*s->status = status;
}

static int open(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs, char *mine)
{
	struct hk_identity who;
	struct state *s;

	(void)h;
	memcpy(&who, theirs, sizeof(who));
	hk_peer peer = service->peer(&who);

	if (peer == HK_PEER_NONE) {
		snprintf(nb->why, sizeof(nb->why),
			 "Hikyaku's BTL does not reach it (it is on this node, or no port connects "
			 "them)");
		return -ENOTCONN;
	}
	s = calloc(1, sizeof(*s));
	if (s)
		s->staging = malloc(2 * nb->in.bytes + 1);
	if (!s || !s->staging) {
		free(s);
		snprintf(nb->why, sizeof(nb->why), "out of memory for a staging buffer");
		return -ENOMEM;
	}
	nb->state = s;
	s->peer = peer;
	s->from = hk_halo_blocks_layout(&nb->out.blocks);
	struct hk_layout to = hk_halo_blocks_layout(&nb->in.blocks);
	hk_region region = service->notify_add(&s->in, peer, &to, s->staging, 2);

	if (region == HK_REGION_NONE) {
		snprintf(nb->why, sizeof(nb->why), "the table of regions is full");
		free(s->staging);
		free(s);
		nb->state = NULL;
		return -ENOSPC;
	}
	memcpy(mine, &region, sizeof(region));
	return 0;
}

static int connect_target(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs)
{
	struct state *s = nb->state;

	(void)h;
	memcpy(&s->remote, theirs, sizeof(s->remote));
	unsigned ports = service->paths(s->peer);

	snprintf(nb->why, sizeof(nb->why), "puts to %s by %u port%s; %zu blocks out, %zu in",
		 service->name(s->peer), ports, ports == 1 ? "" : "s", nb->out.blocks.count,
		 nb->in.blocks.count);
	return 0;
}

static int lost(const struct state *s)
{
	return hk_halo_fail(-ENOTCONN, "%s is disconnected; fix: read its output",
			    service->name(s->peer));
}

static int put(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;
	struct sending *x = &s->send[h->number & 1];

	/* The neighbour has received this rank's put of two exchanges ago, since it has put again.
	 * The acknowledgement may arrive later. */
	for (unsigned i = 1; HK_UNLIKELY(x->in_flight); i++) {
		service->progress(i % 64 == 0);
		if (s->status || (i % PEER_ROUNDS == 0 && !service->alive(s->peer)))
			return lost(s);
	}
	service->notify_open(&s->in);
	s->idle = 0;
	x->in_flight = true;
	x->status = &s->status;
	if (service->put(s->peer, &x->op, &s->from, s->remote, h->number, done, x) != 0) {
		x->in_flight = false;
		return lost(s);
	}
	return 0;
}

static int poll(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;

	if (!nb->arrived && hk_notify_complete(&s->in)) {
		service->notify_take(&s->in);
		nb->arrived = true;
	}
	if (!nb->sent)
		nb->sent = hk_op_source_free(&s->send[h->number & 1].op);
	if (HK_UNLIKELY(s->status) ||
	    (HK_UNLIKELY(++s->idle % PEER_ROUNDS == 0) && !nb->arrived && !service->alive(s->peer)))
		return lost(s);
	return 0;
}

static void close_target(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;

	(void)h;
	if (!s)
		return;
	/* The worker uses the sent data until the peer acknowledges it or is disconnected. */
	for (unsigned i = 1, dead = 0; s->send[0].in_flight || s->send[1].in_flight; i++) {
		service->progress(i % 64 == 0);
		if (i % PEER_ROUNDS == 0 && !service->alive(s->peer) && ++dead == 16)
			break;
	}
	service->notify_del(&s->in);
	free(s->staging);
	if (!s->send[0].in_flight && !s->send[1].in_flight)
		free(s); /* else the worker still uses it, in a job that is ending */
	nb->state = NULL;
}

const struct hk_transport hk_transport_worker = {
	.name = "worker",
	.offer = offer,
	.open = open,
	.connect = connect_target,
	.put = put,
	.poll = poll,
	.close = close_target,
};
