/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/path_fabric.c: puts through the fabric of Hikyaku's BTL (mpi/service.h): an inbox at each end for what
 * comes from the other.
 *
 * Why no further flow control is needed (fabric/notify.h asks for it): both ends put to each other in every
 * exchange, also if there are no bytes to tell but the number. A rank begins exchange n + 2 after its wait n + 1
 * has returned, which needs the neighbour's put n + 1, which the neighbour sends after its own
 * wait n has returned, and that takes put n out of the inbox. So put n + 2 finds the place of put n empty.
 */
#include "halo/internal.h"

#include "mpi/service.h"

#include <errno.h>
#include <stdlib.h>

static const struct hk_btl_service *service;

struct state {
	hk_peer peer;
	hk_region remote;
	struct hk_layout from;
	struct hk_inbox in;
	struct sending { /* by the exchange's number: the last may still be unacknowledged */
		struct hk_op op;
		bool flying;
		int *status;
	} send[2];
	int status;
	unsigned idle; /* polls in vain */
	char *early;   /* untouched, and so without memory, where neighbours keep step */
};

#define LOOK_AT_PEER 1024 /* polls in vain between two looks whether the peer lives */

void hk_fabric_poll(bool all)
{
	service->progress(all);
}

static bool offer(struct hk_halo *h, struct hk_neighbour *nb, char *address)
{
	struct hk_btl_identity me;

	(void)h;
	service = hk_btl_service_find();
	if (!service || !service->identity(&me)) {
		snprintf(nb->why, sizeof(nb->why), "this rank has not loaded Hikyaku's BTL");
		return false;
	}
	if (nb->flat) {
		snprintf(nb->why, sizeof(nb->why), "only MPI knows the layout of a type");
		return false;
	}
	memcpy(address, &me, sizeof(me));
	return true;
}

static void done(void *arg, int status)
{
	struct sending *s = arg;

	s->flying = false;
	if (status)
		*s->status = status;
}

static int open(struct hk_halo *h, struct hk_neighbour *nb, const char *theirs, char *mine)
{
	struct hk_btl_identity who;
	struct state *s;

	(void)h;
	memcpy(&who, theirs, sizeof(who));
	hk_peer peer = service->peer(&who);

	if (peer == HK_PEER_NONE) {
		snprintf(nb->why, sizeof(nb->why),
			 "Hikyaku's BTL does not reach it (it is on this node, or has no common "
			 "port)");
		return -ENOTCONN;
	}
	s = calloc(1, sizeof(*s));
	if (s)
		s->early = malloc(2 * nb->in.bytes + 1);
	if (!s || !s->early) {
		free(s);
		snprintf(nb->why, sizeof(nb->why), "no memory for early bytes");
		return -ENOMEM;
	}
	nb->state = s;
	s->peer = peer;
	s->from = hk_layout_of(&nb->out.blocks);
	struct hk_layout to = hk_layout_of(&nb->in.blocks);
	hk_region region = service->inbox_add(&s->in, peer, &to, s->early, 2);

	if (region == HK_REGION_NONE) {
		snprintf(nb->why, sizeof(nb->why), "the table of regions is full");
		free(s->early);
		free(s);
		nb->state = NULL;
		return -ENOSPC;
	}
	memcpy(mine, &region, sizeof(region));
	return 0;
}

static int fabric_connect(struct hk_halo *h, struct hk_neighbour *nb, const char *theirs)
{
	struct state *s = nb->state;

	(void)h;
	memcpy(&s->remote, theirs, sizeof(s->remote));
	unsigned ports = service->rails(s->peer);

	snprintf(nb->why, sizeof(nb->why), "puts to %s by %u port%s; %zu blocks out, %zu in",
		 service->name(s->peer), ports, ports == 1 ? "" : "s", nb->out.blocks.count,
		 nb->in.blocks.count);
	return 0;
}

static int lost(const struct state *s)
{
	return hk_halo_fail(-ENOTCONN, "%s is lost, or has left; fix: look at its output",
			    service->name(s->peer));
}

static int put(struct hk_halo *h, struct hk_neighbour *nb)
{
	struct state *s = nb->state;
	struct sending *x = &s->send[h->number & 1];

	/* The last but one of ours was answered by what the neighbour put since; its acknowledgement may
	 * come later still. */
	for (unsigned i = 1; HK_UNLIKELY(x->flying); i++) {
		service->progress(i % 64 == 0);
		if (s->status || (i % LOOK_AT_PEER == 0 && !service->alive(s->peer)))
			return lost(s);
	}
	service->inbox_open(&s->in);
	s->idle = 0;
	x->flying = true;
	x->status = &s->status;
	if (service->put(s->peer, &x->op, &s->from, s->remote, h->number, done, x) != 0) {
		x->flying = false;
		return lost(s);
	}
	return 0;
}

static int poll(struct hk_halo *h, struct hk_neighbour *nb)
{
	struct state *s = nb->state;

	if (!nb->arrived && hk_inbox_whole(&s->in)) {
		service->inbox_take(&s->in);
		nb->arrived = true;
	}
	if (!nb->sent)
		nb->sent = hk_op_source_free(&s->send[h->number & 1].op);
	if (HK_UNLIKELY(s->status) || (HK_UNLIKELY(++s->idle % LOOK_AT_PEER == 0) && !nb->arrived &&
				       !service->alive(s->peer)))
		return lost(s);
	return 0;
}

static void close_inbox(struct hk_halo *h, struct hk_neighbour *nb)
{
	struct state *s = nb->state;

	(void)h;
	if (!s)
		return;
	/* What we sent is the fabric's until it is acknowledged, or given back since the peer is lost. */
	for (unsigned i = 1, dead = 0; s->send[0].flying || s->send[1].flying; i++) {
		service->progress(i % 64 == 0);
		if (i % LOOK_AT_PEER == 0 && !service->alive(s->peer) && ++dead == 16)
			break;
	}
	service->inbox_del(&s->in);
	free(s->early);
	if (!s->send[0].flying && !s->send[1].flying)
		free(s); /* otherwise the fabric still has it, in a job that is ending */
	nb->state = NULL;
}

const struct hk_path hk_path_fabric = {
	.name = "fabric",
	.offer = offer,
	.open = open,
	.connect = fabric_connect,
	.put = put,
	.poll = poll,
	.close = close_inbox,
};
