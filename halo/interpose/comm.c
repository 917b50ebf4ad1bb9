/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/comm.c: communicators that the program uses, their channels, and what was received on
 * them without naming a channel.
 */
#include "halo/interpose/interpose.h"

#include "ompi/proc/proc.h"

#include <stdlib.h>
#include <string.h>

struct hk_lately hk_outs_lately[HK_LATELY], hk_ins_lately[HK_LATELY];

static struct hk_comm *comms, *last;

static unsigned bucket(int peer, int tag)
{
	return ((unsigned)peer * 31U + (unsigned)tag * 7U) % HK_BUCKETS;
}

static struct hk_comm *comm_new(MPI_Comm comm)
{
	struct hk_comm *c = hk_need(sizeof(*c));

	c->comm = comm;
	c->cid = comm->c_contextid;
	c->rank = ompi_comm_rank(comm);
	c->size = ompi_comm_size(comm);
	c->dull = OMPI_COMM_IS_INTER(comm);
	c->next = comms;
	comms = c;
	return c;
}

struct hk_comm *hk_comm_find(MPI_Comm comm)
{
	if (HK_LIKELY(last && last->comm == comm))
		return last;
	struct hk_comm *c = comms;

	while (c && c->comm != comm)
		c = c->next;
	if (!c)
		c = comm_new(comm);
	if (c->dull)
		return NULL;
	return last = c;
}

struct hk_comm *hk_comm_known(MPI_Comm comm)
{
	struct hk_comm *c = comms;

	while (c && (c->comm != comm || c->dull))
		c = c->next;
	return c;
}

struct hk_comm *hk_comm_of_id(uint32_t cid)
{
	struct hk_comm *c = comms;

	while (c && (c->cid != cid || c->dull))
		c = c->next;
	return c;
}

void hk_comm_each(void (*each)(struct hk_comm *c))
{
	for (struct hk_comm *c = comms, *next; c; c = next) {
		next = c->next;
		each(c);
	}
}

static struct hk_pair *pair_find(const struct hk_comm *c, int peer)
{
	struct hk_pair *p = c->pair[bucket(peer, 0)];

	while (p && p->peer != peer)
		p = p->next;
	return p;
}

/* What goes to this rank cannot be kept in order by us. */
static void pair_many(struct hk_pair *p)
{
	for (int k = 0; !p->many && k < p->tags; k++)
		hk_out_end(p->out[k], "too many tags to this rank");
	p->many = true;
}

static void pair_add(struct hk_comm *c, struct hk_sender *o)
{
	struct hk_pair **at = &c->pair[bucket(o->peer, 0)], *p = pair_find(c, o->peer);

	if (!p) {
		p = hk_need(sizeof(*p));
		p->peer = o->peer;
		p->next = *at;
		*at = p;
	}
	o->pair = p;
	o->slot = -1;
	if (p->tags < HK_PAIR_TAGS) {
		o->slot = p->tags;
		p->out[p->tags++] = o;
		return;
	}
	pair_many(p);
}

static const char *unreachable(const struct hk_comm *c, int peer)
{
	const char *why = NULL;

	if (!hk_service)
		return hk_service_why;
	if (peer == c->rank)
		return "the rank itself";
	hk_world_rank(c->comm, peer, &why);
	return why;
}

struct hk_sender *hk_out_find(struct hk_comm *c, int peer, int tag)
{
	struct hk_sender **at = &c->out[bucket(peer, tag)], *o;

	for (o = *at; o && (o->peer != peer || o->tag != tag);)
		o = o->next;
	if (o) {
		*hk_lately_at(hk_outs_lately, c->comm, peer,
			      tag) = (struct hk_lately){c->comm, peer, tag, o};
		return o;
	}
	if (c->outs == HK_CHANNELS_MOST) {
		struct hk_pair *p = pair_find(c, peer);

		if (p)
			pair_many(p);
		return NULL;
	}
	c->outs++;
	o = hk_need(sizeof(*o));
	o->comm = c;
	o->peer = peer;
	o->tag = tag;
	o->never = unreachable(c, peer);
	hk_list_init(&o->held);
	hk_watch_init(&o->watch, 0);
	pair_add(c, o);
	o->next = *at;
	*at = o;
	return o;
}

struct hk_receiver *hk_in_known(struct hk_comm *c, int peer, int tag)
{
	struct hk_receiver *n = c->in[bucket(peer, tag)];

	while (n && (n->peer != peer || n->tag != tag))
		n = n->next;
	return n;
}

struct hk_receiver *hk_in_find(struct hk_comm *c, int peer, int tag)
{
	struct hk_receiver *n = hk_in_known(c, peer, tag);

	if (HK_LIKELY(n != NULL)) {
		*hk_lately_at(hk_ins_lately, c->comm, peer, tag) = (struct hk_lately){c->comm, peer,
										      tag, n};
		return n;
	}
	if (c->ins == HK_CHANNELS_MOST)
		return NULL;
	c->ins++;
	n = hk_need(sizeof(*n));
	n->comm = c;
	n->peer = peer;
	n->tag = tag;
	n->next = c->in[bucket(peer, tag)];
	hk_list_init(&n->held);
	c->in[bucket(peer, tag)] = n;
	return n;
}

uint32_t hk_comm_wild(const struct hk_comm *c, int peer, int tag)
{
	uint32_t calls = 0;

	for (int k = 0; k < c->patterns; k++)
		if ((c->pattern[k].peer == peer || c->pattern[k].peer == MPI_ANY_SOURCE) &&
		    (c->pattern[k].tag == tag || c->pattern[k].tag == MPI_ANY_TAG))
			calls += c->pattern[k].calls;
	return calls;
}

int hk_world_rank(ompi_communicator_t *comm, int peer, const char **why)
{
	const ompi_proc_t *p = ompi_comm_peer_lookup(comm, peer);

	if (p->super.proc_name.jobid != ompi_proc_local()->super.proc_name.jobid)
		*why = "a rank of another mpirun or MPI_Comm_spawn";
	else if (OPAL_PROC_ON_LOCAL_NODE(p->super.proc_flags))
		*why = "a rank of this node";
	return (int)p->super.proc_name.vpid;
}

/* The program has freed it, on all ranks, and nothing is under way. */
void hk_comm_gone(struct hk_comm *c)
{
	struct hk_comm **at = &comms;

	for (int b = 0; b < HK_BUCKETS; b++) {
		for (struct hk_sender *o = c->out[b], *next; o; o = next) {
			next = o->next;
			hk_report_keep(o);
			hk_out_free(o);
		}
		for (struct hk_receiver *n = c->in[b], *next; n; n = next) {
			next = n->next;
			hk_in_free(n);
		}
	}
	for (int b = 0; b < HK_BUCKETS; b++) /* senders of any bucket look at theirs */
		for (struct hk_pair *p = c->pair[b], *next; p; p = next) {
			next = p->next;
			free(p);
		}
	hk_loose_forget(c);
	hk_persistent_comm_gone(c->comm);
	hk_message_comm_gone(c->comm);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (last == c)
		last = NULL;
	for (int k = 0; k < HK_LATELY; k++) {
		if (hk_outs_lately[k].comm == c->comm)
			hk_outs_lately[k].end = NULL;
		if (hk_ins_lately[k].comm == c->comm)
			hk_ins_lately[k].end = NULL;
	}
	free(c);
}

/* The program frees one that is not watched, before another may get its address. */
void hk_comm_forget(MPI_Comm comm)
{
	for (struct hk_comm *c = comms; c; c = c->next)
		if (c->comm == comm) {
			hk_comm_gone(c);
			return;
		}
}
