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

static struct hk_comm *comms;
struct hk_comm *hk_comm_last;

static void add(struct hk_table *t, int peer, int tag, void *end)
{
	if (!hk_table_add(t, peer, tag, end))
		hk_broken("there is no memory");
}

/* Those of another mpirun or MPI_Comm_spawn have agreed on their own whether they watch, perhaps that they do not. */
static bool has_strangers(MPI_Comm comm)
{
	ompi_group_t *group = comm->c_local_group;

	for (int k = 0; k < ompi_comm_size(comm); k++)
		if (ompi_group_get_proc_name(group, k).jobid != OPAL_PROC_MY_NAME.jobid)
			return true;
	return false;
}

static struct hk_comm *comm_new(MPI_Comm comm)
{
	struct hk_comm *c = hk_need(sizeof(*c));

	c->comm = comm;
	c->cid = comm->c_contextid;
	c->rank = ompi_comm_rank(comm);
	c->size = ompi_comm_size(comm);
	c->dull = OMPI_COMM_IS_INTER(comm) || has_strangers(comm);
	c->next = comms;
	comms = c;
	return c;
}

struct hk_comm *hk_comm_find(MPI_Comm comm)
{
	if (HK_LIKELY(hk_comm_last && hk_comm_last->comm == comm))
		return hk_comm_last;
	struct hk_comm *c = comms;

	while (c && c->comm != comm)
		c = c->next;
	if (!c)
		c = comm_new(comm);
	if (c->dull)
		return NULL;
	return hk_comm_last = c;
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

/* What goes to this rank cannot be kept in order by us. */
static void pair_many(struct hk_pair *p)
{
	for (int k = 0; !p->many && k < p->tags; k++) {
		hk_out_end(p->out[k], "too many tags to this rank");
		if (!p->out[k]->never)
			p->out[k]->never = "too many tags to this rank";
	}
	p->many = true;
}

static void pair_add(struct hk_comm *c, struct hk_sender *o)
{
	struct hk_pair *p = hk_table_find(&c->pair, o->peer, 0);

	if (!p) {
		p = hk_need(sizeof(*p));
		p->peer = o->peer;
		hk_log_init(&p->log);
		add(&c->pair, o->peer, 0, p);
	}
	if (p->tags == p->room) {
		struct hk_sender **more = hk_need(sizeof(struct hk_sender *) *
						  HK_MAX(2 * (size_t)p->room, 4U));

		if (p->tags)
			memcpy(more, p->out, (size_t)p->tags * sizeof(*more));
		free(p->out);
		p->out = more;
		p->room = HK_MAX(2 * p->room, 4);
	}
	o->pair = p;
	o->slot = p->tags;
	p->out[p->tags++] = o;
	if (!hk_log_fit(&p->log, p->tags))
		hk_broken("there is no memory");
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
	struct hk_sender *o = hk_table_find(&c->out, peer, tag);

	if (o) {
		*hk_lately_at(hk_outs_lately, c->comm, peer,
			      tag) = (struct hk_lately){c->comm, peer, tag, o};
		return o;
	}
	struct hk_pair *p = hk_table_find(&c->pair, peer, 0);

	if (c->out.count == HK_CHANNELS_MOST || (p && p->tags == HK_PAIR_TAGS)) {
		if (p && !p->many)
			pair_many(p);
		return NULL;
	}
	o = hk_need(sizeof(*o));
	o->comm = c;
	o->peer = peer;
	o->tag = tag;
	o->never = unreachable(c, peer);
	hk_list_init(&o->held);
	pair_add(c, o);
	add(&c->out, peer, tag, o);
	return o;
}

void hk_out_unwatched(struct hk_comm *c, size_t bytes)
{
	c->unwatched++;
	c->unwatched_bytes += bytes;
}

struct hk_receiver *hk_in_known(struct hk_comm *c, int peer, int tag)
{
	return hk_table_find(&c->in, peer, tag);
}

static struct hk_in_pair *in_pair(struct hk_comm *c, int peer)
{
	struct hk_in_pair *p = hk_table_find(&c->in_pair, peer, 0);

	if (p)
		return p;
	p = hk_need(sizeof(*p));
	p->peer = peer;
	add(&c->in_pair, peer, 0, p);
	return p;
}

struct hk_receiver *hk_in_need(struct hk_comm *c, int peer, int tag)
{
	struct hk_receiver *n = hk_in_known(c, peer, tag);

	if (n)
		return n;
	n = hk_need(sizeof(*n));
	n->comm = c;
	n->pair = in_pair(c, peer);
	n->peer = peer;
	n->tag = tag;
	hk_list_init(&n->held);
	add(&c->in, peer, tag, n);
	return n;
}

/* Where tags are not counted, no order is known: all that is promoted ends, and what has ended already has the tags that
 * its order is about counted. */
static void in_many(struct hk_comm *c)
{
	c->in_many = true;
	for (struct hk_receiver *n = hk_in_live(); n; n = n->live) {
		if (n->comm != c)
			continue;
		if (n->state == HK_IN_PUT)
			hk_control_ask_end(n);
		hk_past_count(n);
	}
}

struct hk_receiver *hk_in_find(struct hk_comm *c, int peer, int tag)
{
	struct hk_receiver *n = hk_in_known(c, peer, tag);

	if (HK_LIKELY(n != NULL)) {
		*hk_lately_at(hk_ins_lately, c->comm, peer, tag) = (struct hk_lately){c->comm, peer,
										      tag, n};
		return n;
	}
	if (c->in.count >= HK_CHANNELS_MOST) {
		if (!c->in_many)
			in_many(c);
		if (c->open_ins == 0) /* else its sender may name this tag when it ends */
			return NULL;
	}
	return hk_in_need(c, peer, tag);
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

	if (OPAL_PROC_ON_LOCAL_NODE(p->super.proc_flags))
		*why = "a rank of this node";
	return (int)p->super.proc_name.vpid;
}

/* The program has freed it, on all ranks, and nothing is under way. */
void hk_comm_gone(struct hk_comm *c)
{
	struct hk_comm **at = &comms;
	struct hk_receiver *n;
	struct hk_sender *o;
	struct hk_pair *p;
	struct hk_in_pair *i;

	for (uint32_t k = 0; (o = hk_table_next(&c->out, &k));) {
		hk_report_keep(o);
		hk_out_free(o);
	}
	hk_report_rest(c);
	for (uint32_t k = 0; (n = hk_table_next(&c->in, &k));)
		hk_in_free(n);
	for (uint32_t k = 0; (p = hk_table_next(&c->pair, &k));) { /* senders look at theirs */
		hk_log_free(&p->log);
		free(p->out);
		free(p);
	}
	for (uint32_t k = 0; (i = hk_table_next(&c->in_pair, &k));) {
		hk_past_drop(i->past);
		free(i);
	}
	hk_table_free(&c->out);
	hk_table_free(&c->in);
	hk_table_free(&c->pair);
	hk_table_free(&c->in_pair);
	hk_loose_forget(c);
	hk_persistent_comm_gone(c->comm);
	hk_message_comm_gone(c->comm);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (hk_comm_last == c)
		hk_comm_last = NULL;
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
