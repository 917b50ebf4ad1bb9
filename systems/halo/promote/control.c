/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/control.c: sends, receives and dispatches control messages (control.h).
 */
#include "halo/promote/control_message.h"

#include "opal/runtime/opal_progress.h"

#include <stdlib.h>
#include <string.h>

#define TAG 1

static MPI_Comm comm = MPI_COMM_NULL;
static MPI_Request request = MPI_REQUEST_NULL;
static _Alignas(uint64_t) char received[HK_CONTROL_MAX];
static struct hk_control_sent *sending;
static bool arrived; /* `received` holds a message */

static struct hk_ends ends;

uint32_t hk_control_add_end(enum hk_end_kind kind, int world_rank, void *end)
{
	uint32_t number = hk_ends_add(&ends, kind, world_rank, end);

	if (!number)
		hk_promote_abort("out of memory");
	return number;
}

struct hk_sender *hk_control_find_sender(int world_rank, const struct hk_control_message *c)
{
	return hk_ends_find(&ends, c->peer_id, HK_END_SENDER, world_rank);
}

struct hk_receiver *hk_control_find_receiver(int world_rank, const struct hk_control_message *c)
{
	return hk_ends_find(&ends, c->peer_id, HK_END_RECEIVER, world_rank);
}

void hk_control_forget_end(uint32_t number)
{
	if (number)
		hk_ends_remove(&ends, number);
}

void hk_control_track(struct hk_control_sent *s)
{
	s->next = sending;
	sending = s;
	hk_promote_busy++;
}

void hk_control_send_bytes(int world_rank, const struct hk_control_message *c, size_t bytes)
{
	struct hk_control_sent *s = hk_promote_alloc(sizeof(*s) + bytes);

	memcpy(s->bytes, c, bytes);
	if (hk_real.Isend(s->bytes, (int)bytes, MPI_BYTE, world_rank, TAG, comm, &s->request) !=
	    MPI_SUCCESS)
		hk_promote_abort("MPI cannot send a control message");
	hk_control_track(s);
}

void hk_control_send(int world_rank, const struct hk_control_message *c)
{
	hk_control_send_bytes(world_rank, c, sizeof(*c));
}

static int note_arrived(ompi_request_t *r)
{
	(void)r;
	arrived = true;
	hk_promote_busy++;
	return OMPI_SUCCESS;
}

static void receive_next(void)
{
	if (hk_real.Irecv(received, sizeof(received), MPI_BYTE, MPI_ANY_SOURCE, TAG, comm,
			  &request) != MPI_SUCCESS)
		hk_promote_abort("MPI cannot receive control messages");
	ompi_request_set_callback(request, note_arrived, NULL);
}

void hk_control_open(void)
{
	if (PMPI_Comm_dup(MPI_COMM_WORLD, &comm) != MPI_SUCCESS)
		hk_promote_abort("MPI cannot make a communicator");
	receive_next();
}

static void free_sent(void)
{
	for (struct hk_control_sent **at = &sending, *s; (s = *at);) {
		if (!REQUEST_COMPLETE(s->request)) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		ompi_request_free(&s->request);
		free(s);
		hk_promote_busy--;
	}
}

void hk_control_poll(void)
{
	while (HK_UNLIKELY(arrived && REQUEST_COMPLETE(request))) {
		/* Handlers do not call this function, so one copy is enough. */
		static _Alignas(uint64_t) char copy[HK_CONTROL_MAX];
		const struct hk_control_message *c =
			(const struct hk_control_message *)(const void *)copy;
		int world_rank = request->req_status.MPI_SOURCE;
		size_t bytes = request->req_status._ucount;

		memcpy(copy, received, HK_MIN(bytes, sizeof(copy)));
		arrived = false;
		hk_promote_busy--;
		ompi_request_free(&request);
		receive_next();
		if (bytes < sizeof(*c))
			continue;
		switch (c->kind) {
		case HK_CONTROL_PROPOSE:
			hk_control_on_propose(world_rank, c);
			break;
		case HK_CONTROL_ACCEPT:
			hk_control_on_accept(world_rank, c);
			break;
		case HK_CONTROL_REFUSE:
			hk_control_on_refuse(world_rank, c);
			break;
		case HK_CONTROL_COMMIT:
		case HK_CONTROL_WITHDRAW:
			hk_control_on_commit(world_rank, c);
			break;
		case HK_CONTROL_ASK:
			hk_control_on_ask(world_rank, c);
			break;
		case HK_CONTROL_END:
			hk_control_on_end(world_rank, c, copy + sizeof(*c), bytes - sizeof(*c));
			break;
		case HK_CONTROL_FLUSH:
			hk_control_on_flush(world_rank, c);
			break;
		case HK_CONTROL_ASK_TAKEN:
			hk_control_on_ask_taken(world_rank, c);
			break;
		case HK_CONTROL_TAKEN:
			hk_control_on_taken(world_rank, c);
			break;
		default:
			break;
		}
	}
	if (HK_UNLIKELY(sending != NULL))
		free_sent();
}

void hk_control_barrier(void)
{
	PMPI_Barrier(comm);
}

void hk_control_close(void)
{
	PMPI_Barrier(comm);
	while (sending) {
		free_sent();
		opal_progress();
	}
	PMPI_Cancel(&request);
	PMPI_Wait(&request, MPI_STATUS_IGNORE);
	PMPI_Comm_free(&comm);
	hk_ends_free(&ends);
}
