/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/control_sender.c: the control messages of the senders of this rank (control.h).
 */
#include "halo/promote/control_message.h"

#include "ompi/mca/pml/pml.h"

#include <string.h>

static const char *const reasons[HK_REASONS] = {
	[HK_REASON_ENDING] = "the receiver still ends an earlier schedule",
	[HK_REASON_WILDCARD] = "the receiver received or probed from any source or tag",
	[HK_REASON_NOT_WATCHED] = "the receiver has too many channels",
	[HK_REASON_UNREACHABLE] = "Hikyaku's BTL does not reach it",
	[HK_REASON_NO_MEMORY] = "no memory or region at the receiver",
	[HK_REASON_CLOSING] = "the communicator is being freed",
};

void hk_control_propose(struct hk_sender *o)
{
	struct hk_control_message c = {.kind = HK_CONTROL_PROPOSE,
				       .cid = o->comm->cid,
				       .tag = o->tag,
				       .from = o->comm->rank,
				       .index = o->sent,
				       .margin = HK_MAX(o->margin, (uint8_t)2),
				       .schedule = o->schedule};

	if (!hk_service->identity(&c.me))
		return;
	if (!o->id)
		o->id = hk_control_add_end(HK_END_SENDER, hk_control_world_rank(o->comm, o->peer),
					   o);
	c.own_id = o->id;
	o->state = HK_SENDER_PROPOSED;
	hk_control_send(hk_control_world_rank(o->comm, o->peer), &c);
}

void hk_control_commit(struct hk_sender *o, bool good, const hk_region *taken)
{
	struct hk_control_message c = {.kind = good ? HK_CONTROL_COMMIT : HK_CONTROL_WITHDRAW,
				       .peer_id = o->remote_id};

	if (good)
		memcpy(c.region, taken, o->schedule.sizes * sizeof(*taken));
	hk_control_send(hk_control_world_rank(o->comm, o->peer), &c);
}

void hk_control_end(struct hk_sender *o, uint64_t end)
{
	static _Alignas(struct hk_send_order) char buffer[HK_CONTROL_MAX];
	struct hk_control_message *c = (struct hk_control_message *)(void *)buffer;
	struct hk_put_position *untaken = (struct hk_put_position *)(void *)(buffer + sizeof(*c));
	size_t bytes = 0;

	*c = (struct hk_control_message){
		.kind = HK_CONTROL_END, .peer_id = o->remote_id, .index = end};
	c->untaken = hk_sender_untaken(o, untaken);
	if (c->untaken && o->pair->tags > 1) {
		bytes = hk_send_order_report(
			o, untaken, c->untaken,
			(struct hk_send_order *)(void *)(untaken + c->untaken));
		c->order_number = o->pair->order_number;
	}
	hk_control_send_bytes(hk_control_world_rank(o->comm, o->peer), c,
			      sizeof(*c) + c->untaken * sizeof(*untaken) + bytes);
}

void hk_control_ask_taken(const struct hk_sender *o)
{
	struct hk_control_message c = {.kind = HK_CONTROL_ASK_TAKEN, .peer_id = o->remote_id};

	hk_control_send(hk_control_world_rank(o->comm, o->peer), &c);
}

void hk_control_on_taken(int world_rank, const struct hk_control_message *c)
{
	struct hk_sender *o = hk_control_find_sender(world_rank, c);

	if (o)
		hk_sender_taken(o, c->taken);
}

void hk_control_on_accept(int world_rank, const struct hk_control_message *c)
{
	struct hk_sender *o = hk_control_find_sender(world_rank, c);

	if (o && o->state == HK_SENDER_PROPOSED)
		hk_sender_accepted(o, c->own_id, c->index, hk_service->peer(&c->me), c->region);
}

void hk_control_on_refuse(int world_rank, const struct hk_control_message *c)
{
	struct hk_sender *o = hk_control_find_sender(world_rank, c);

	if (!o || o->state != HK_SENDER_PROPOSED)
		return;
	hk_sender_refused(o, reasons[HK_MIN(c->reason, (uint32_t)HK_REASONS - 1)],
			  c->reason != HK_REASON_ENDING && c->reason != HK_REASON_WILDCARD);
	if (c->reason == HK_REASON_WILDCARD)
		hk_sender_back_off(o);
}

void hk_control_on_ask(int world_rank, const struct hk_control_message *c)
{
	struct hk_sender *o = hk_control_find_sender(world_rank, c);

	if (!o)
		return;
	const char *why = reasons[c->reason == HK_REASON_NOT_WATCHED ? HK_REASON_NOT_WATCHED
								     : HK_REASON_WILDCARD];

	hk_sender_end(o, why);
	hk_sender_back_off(o);
	if (c->reason == HK_REASON_NOT_WATCHED)
		o->unpromotable = why;
}

/* MPI matches the messages of a rank in a communicator in the order of sending. So when the
 * receiver gets this one, all earlier ones have been matched. */
void hk_control_on_flush(int world_rank, const struct hk_control_message *c)
{
	struct hk_sender *o = hk_control_find_sender(world_rank, c);
	struct hk_control_sent *s;

	if (!o)
		return;
	s = hk_promote_alloc(sizeof(*s));
	if (MCA_PML_CALL(isend(NULL, 0, MPI_BYTE, o->peer, HK_CONTROL_FLUSHED_TAG,
			       MCA_PML_BASE_SEND_STANDARD, o->comm->comm, &s->request)) !=
	    OMPI_SUCCESS)
		hk_promote_abort("MPI cannot send a control message");
	hk_control_track(s);
}
