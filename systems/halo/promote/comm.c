/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/comm.c: the communicators that the program uses, their channels, and their wildcard
 * receives and probes.
 */
#include "halo/promote/promote.h"
#include "openmpi/version.h"

#include "ompi/proc/proc.h"

#include <stdlib.h>
#include <string.h>

struct hk_recent hk_recent_senders[HK_RECENT], hk_recent_receivers[HK_RECENT];

static struct hk_comm *comms;
struct hk_comm *hk_comm_last;

static void add(struct hk_table *t, int peer, int tag, void *end)
{
	if (!hk_table_add(t, peer, tag, end))
		hk_promote_abort("out of memory");
}

/* Has the communicator ranks of another mpirun or MPI_Comm_spawn? They decide for themselves
 * whether they promote. */
static bool has_other_job(MPI_Comm comm)
{
	ompi_group_t *group = comm->c_local_group;

	for (int k = 0; k < ompi_comm_size(comm); k++)
		if (ompi_group_get_proc_name(group, k).jobid != OPAL_PROC_MY_NAME.jobid)
			return true;
	return false;
}

static struct hk_comm *comm_new(MPI_Comm comm)
{
	struct hk_comm *c = hk_promote_alloc(sizeof(*c));

	c->comm = comm;
	c->cid = HK_CID(comm);
	c->rank = ompi_comm_rank(comm);
	c->size = ompi_comm_size(comm);
	c->ignored = OMPI_COMM_IS_INTER(comm) || has_other_job(comm);
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
	if (c->ignored)
		return NULL;
	return hk_comm_last = c;
}

struct hk_comm *hk_comm_lookup(MPI_Comm comm)
{
	struct hk_comm *c = comms;

	while (c && (c->comm != comm || c->ignored))
		c = c->next;
	return c;
}

struct hk_comm *hk_comm_of_id(uint32_t cid)
{
	struct hk_comm *c = comms;

	while (c && (c->cid != cid || c->ignored))
		c = c->next;
	return c;
}

void hk_comm_for_each(void (*each)(struct hk_comm *c))
{
	for (struct hk_comm *c = comms, *next; c; c = next) {
		next = c->next;
		each(c);
	}
}

/* There are too many tags to this rank to keep track of their order. */
static void pair_end(struct hk_send_pair *p)
{
	for (int k = 0; !p->too_many_tags && k < p->tags; k++) {
		hk_sender_end(p->sender[k], "too many tags to this rank");
		if (!p->sender[k]->unpromotable)
			p->sender[k]->unpromotable = "too many tags to this rank";
	}
	p->too_many_tags = true;
}

static void pair_add(struct hk_comm *c, struct hk_sender *o)
{
	struct hk_send_pair *p = hk_table_find(&c->send_pairs, o->peer, 0);

	if (!p) {
		p = hk_promote_alloc(sizeof(*p));
		p->peer = o->peer;
		hk_send_log_init(&p->log);
		add(&c->send_pairs, o->peer, 0, p);
	}
	if (p->tags == p->capacity) {
		struct hk_sender **more = hk_promote_alloc(sizeof(struct hk_sender *) *
							   HK_MAX(2 * (size_t)p->capacity, 4U));

		if (p->tags)
			memcpy(more, p->sender, (size_t)p->tags * sizeof(*more));
		free(p->sender);
		p->sender = more;
		p->capacity = HK_MAX(2 * p->capacity, 4);
	}
	o->pair = p;
	o->pair_index = p->tags;
	p->sender[p->tags++] = o;
	if (!hk_send_log_resize(&p->log, p->tags))
		hk_promote_abort("out of memory");
}

static const char *unreachable(const struct hk_comm *c, int peer)
{
	const char *why = NULL;

	if (!hk_service)
		return hk_service_why;
	if (peer == c->rank)
		return "the rank itself";
	hk_comm_world_rank(c->comm, peer, &why);
	return why;
}

struct hk_sender *hk_sender_find(struct hk_comm *c, int peer, int tag)
{
	struct hk_sender *o = hk_table_find(&c->senders, peer, tag);

	if (o) {
		*hk_recent_at(hk_recent_senders, c->comm, peer,
			      tag) = (struct hk_recent){c->comm, peer, tag, o};
		return o;
	}
	struct hk_send_pair *p = hk_table_find(&c->send_pairs, peer, 0);

	if (c->senders.count == HK_CHANNELS_MAX || (p && p->tags == HK_PAIR_TAGS)) {
		if (p && !p->too_many_tags)
			pair_end(p);
		return NULL;
	}
	o = hk_promote_alloc(sizeof(*o));
	o->comm = c;
	o->peer = peer;
	o->tag = tag;
	o->unpromotable = unreachable(c, peer);
	hk_pending_list_init(&o->queue);
	pair_add(c, o);
	add(&c->senders, peer, tag, o);
	return o;
}

void hk_comm_count_unwatched(struct hk_comm *c, size_t bytes)
{
	c->unwatched++;
	c->unwatched_bytes += bytes;
}

struct hk_receiver *hk_receiver_lookup(struct hk_comm *c, int peer, int tag)
{
	return hk_table_find(&c->receivers, peer, tag);
}

static struct hk_receive_pair *in_pair(struct hk_comm *c, int peer)
{
	struct hk_receive_pair *p = hk_table_find(&c->receive_pairs, peer, 0);

	if (p)
		return p;
	p = hk_promote_alloc(sizeof(*p));
	p->peer = peer;
	add(&c->receive_pairs, peer, 0, p);
	return p;
}

struct hk_receiver *hk_receiver_require(struct hk_comm *c, int peer, int tag)
{
	struct hk_receiver *n = hk_receiver_lookup(c, peer, tag);

	if (n)
		return n;
	n = hk_promote_alloc(sizeof(*n));
	n->comm = c;
	n->pair = in_pair(c, peer);
	n->peer = peer;
	n->tag = tag;
	hk_pending_list_init(&n->undecided);
	add(&c->receivers, peer, tag, n);
	return n;
}

/* New tags are not counted any longer, so their order is unknown. All promoted channels end. Of
 * channels that have already ended, the tags in their send order keep their counts. */
static void too_many_receivers(struct hk_comm *c)
{
	c->too_many_receivers = true;
	for (struct hk_receiver *n = hk_receiver_live(); n; n = n->next_live) {
		if (n->comm != c)
			continue;
		if (n->state == HK_RECEIVER_PROMOTED)
			hk_control_ask_end(n);
		hk_send_order_count(n);
	}
}

struct hk_receiver *hk_receiver_find(struct hk_comm *c, int peer, int tag)
{
	struct hk_receiver *n = hk_receiver_lookup(c, peer, tag);

	if (HK_LIKELY(n != NULL)) {
		*hk_recent_at(hk_recent_receivers, c->comm, peer,
			      tag) = (struct hk_recent){c->comm, peer, tag, n};
		return n;
	}
	if (c->receivers.count >= HK_CHANNELS_MAX) {
		if (!c->too_many_receivers)
			too_many_receivers(c);
		if (c->open_receivers == 0) /* else a send order may name this tag later */
			return NULL;
	}
	return hk_receiver_require(c, peer, tag);
}

uint32_t hk_comm_wildcard_calls(const struct hk_comm *c, int peer, int tag)
{
	uint32_t calls = 0;

	for (int k = 0; k < c->patterns; k++)
		if ((c->pattern[k].peer == peer || c->pattern[k].peer == MPI_ANY_SOURCE) &&
		    (c->pattern[k].tag == tag || c->pattern[k].tag == MPI_ANY_TAG))
			calls += c->pattern[k].calls;
	return calls;
}

int hk_comm_world_rank(ompi_communicator_t *comm, int peer, const char **why)
{
	const ompi_proc_t *p = ompi_comm_peer_lookup(comm, peer);

	if (OPAL_PROC_ON_LOCAL_NODE(p->super.proc_flags))
		*why = "a rank of this node";
	return (int)p->super.proc_name.vpid;
}

/* The program has freed it on all ranks, and no message is in flight. */
void hk_comm_free(struct hk_comm *c)
{
	struct hk_comm **at = &comms;
	struct hk_receiver *n;
	struct hk_sender *o;
	struct hk_send_pair *p;
	struct hk_receive_pair *i;

	for (uint32_t k = 0; (o = hk_table_next(&c->senders, &k));) {
		hk_promote_report_sender(o);
		hk_sender_free(o);
	}
	hk_promote_report_comm(c);
	for (uint32_t k = 0; (n = hk_table_next(&c->receivers, &k));)
		hk_receiver_free(n);
	/* after the senders, which use their pair */
	for (uint32_t k = 0; (p = hk_table_next(&c->send_pairs, &k));) {
		hk_send_log_free(&p->log);
		free(p->sender);
		free(p);
	}
	for (uint32_t k = 0; (i = hk_table_next(&c->receive_pairs, &k));) {
		hk_send_order_release(i->send_order);
		free(i);
	}
	hk_table_free(&c->senders);
	hk_table_free(&c->receivers);
	hk_table_free(&c->send_pairs);
	hk_table_free(&c->receive_pairs);
	hk_unmatched_forget(c);
	hk_persistent_comm_freed(c->comm);
	hk_probed_comm_freed(c->comm);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	if (hk_comm_last == c)
		hk_comm_last = NULL;
	for (int k = 0; k < HK_RECENT; k++) {
		if (hk_recent_senders[k].comm == c->comm)
			hk_recent_senders[k].end = NULL;
		if (hk_recent_receivers[k].comm == c->comm)
			hk_recent_receivers[k].end = NULL;
	}
	free(c);
}

/* Called before another communicator may get its address. */
void hk_comm_forget(MPI_Comm comm)
{
	for (struct hk_comm *c = comms; c; c = c->next)
		if (c->comm == comm) {
			hk_comm_free(c);
			return;
		}
}
