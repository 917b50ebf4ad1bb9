/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/control_receiver.c: the control messages of the receivers of this rank (control.h).
 */
#include "halo/promote/control_message.h"

#include "ompi/mca/pml/pml.h"

/* HK_REASONS if the proposal can be accepted: then *@n is its receiver and *@from the peer. */
static enum hk_control_reason judge(int world_rank, const struct hk_control_message *c,
				    struct hk_receiver **n, hk_peer *from)
{
	struct hk_comm *k = hk_comm_of_id(c->cid);

	if (!k || k->closing)
		return k ? HK_REASON_CLOSING : HK_REASON_ENDING;
	if (c->from < 0 || c->from >= k->size || hk_control_world_rank(k, c->from) != world_rank ||
	    c->tag < 0 || !hk_schedule_valid(&c->schedule))
		return HK_REASON_NOT_WATCHED;
	if (k->too_many_receivers || !(*n = hk_receiver_find(k, c->from, c->tag)))
		return HK_REASON_NOT_WATCHED;
	if (hk_wildcard_recent(*n))
		return HK_REASON_WILDCARD;
	hk_receiver_check(*n);
	if ((*n)->state != HK_RECEIVER_PLAIN)
		return HK_REASON_ENDING;
	*from = hk_service->peer(&c->me);
	return *from == HK_PEER_NONE ? HK_REASON_UNREACHABLE : HK_REASONS;
}

void hk_control_on_propose(int world_rank, const struct hk_control_message *c)
{
	struct hk_control_message answer = {.kind = HK_CONTROL_REFUSE, .peer_id = c->own_id};
	struct hk_receiver *n = NULL;
	hk_peer from = HK_PEER_NONE;

	answer.reason = judge(world_rank, c, &n, &from);
	if (answer.reason == HK_REASONS && hk_service->identity(&answer.me)) {
		if (hk_receiver_accept(n, &c->schedule, from, answer.region)) {
			if (!n->id)
				n->id = hk_control_add_end(HK_END_RECEIVER, world_rank, n);
			n->remote_id = c->own_id;
			n->world_rank = world_rank;
			n->start = HK_MAX(n->posted, c->index) + HK_MIN(c->margin, 64U);
			answer.kind = HK_CONTROL_ACCEPT;
			answer.own_id = n->id;
			answer.index = n->start;
		} else {
			answer.reason = HK_REASON_NO_MEMORY;
		}
	}
	hk_control_send(world_rank, &answer);
}

void hk_control_on_commit(int world_rank, const struct hk_control_message *c)
{
	struct hk_receiver *n = hk_control_find_receiver(world_rank, c);

	if (!n || n->state != HK_RECEIVER_ACCEPTED)
		return;
	if (c->kind == HK_CONTROL_COMMIT)
		hk_receiver_committed(n, c->region);
	else
		hk_receiver_withdrawn(n);
}

void hk_control_on_end(int world_rank, const struct hk_control_message *c, const char *rest,
		       size_t bytes)
{
	struct hk_receiver *n = hk_control_find_receiver(world_rank, c);
	const struct hk_put_position *untaken = (const struct hk_put_position *)(const void *)rest;
	const struct hk_send_order *send_order;

	if (!n || n->state != HK_RECEIVER_PROMOTED || c->untaken > HK_UNTAKEN_MAX ||
	    c->untaken * sizeof(*untaken) > bytes)
		return;
	bytes -= c->untaken * sizeof(*untaken);
	send_order = (const struct hk_send_order *)(const void *)(untaken + c->untaken);
	if (bytes && !hk_send_order_reported(n->pair, c->order_number, send_order, bytes))
		return;
	hk_receiver_ended(n, c->index, untaken, c->untaken,
			  hk_send_order_acquire(n->pair, c->order_number));
}

void hk_control_on_ask_taken(int world_rank, const struct hk_control_message *c)
{
	struct hk_receiver *n = hk_control_find_receiver(world_rank, c);
	struct hk_control_message answer = {.kind = HK_CONTROL_TAKEN};

	if (!n || n->state != HK_RECEIVER_PROMOTED)
		return;
	answer.peer_id = n->remote_id;
	for (int k = 0; k < n->schedule.sizes; k++)
		answer.taken[k] = n->rx[k].target.taken;
	hk_control_send(world_rank, &answer);
}

void hk_control_ask_end(struct hk_receiver *n)
{
	struct hk_control_message c = {.kind = HK_CONTROL_ASK,
				       .peer_id = n->remote_id,
				       .reason = n->comm->too_many_receivers ? HK_REASON_NOT_WATCHED
									     : HK_REASON_WILDCARD};

	if (n->end_requested)
		return;
	n->end_requested = true;
	/* includes the call that asks for the end */
	n->wildcard_calls = hk_comm_wildcard_calls(n->comm, n->peer, n->tag);
	hk_control_send(n->world_rank, &c);
}

void hk_control_flush(struct hk_receiver *n)
{
	struct hk_control_message c = {.kind = HK_CONTROL_FLUSH, .peer_id = n->remote_id};

	hk_control_send(n->world_rank, &c);
	if (MCA_PML_CALL(recv(NULL, 0, MPI_BYTE, n->peer, HK_CONTROL_FLUSHED_TAG, n->comm->comm,
			      MPI_STATUS_IGNORE)) != OMPI_SUCCESS)
		hk_promote_abort("MPI cannot receive a control message");
	n->flushed = true;
}
