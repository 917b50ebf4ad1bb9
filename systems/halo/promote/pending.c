/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/pending.c: the requests of messages that go by puts, and persistent requests.
 *
 * DESIGN NOTES
 *
 * For a message that goes by a put the program gets a request of Open MPI's own type. So MPI_Wait,
 * MPI_Test and the other functions, in C and Fortran, work on it as on any other.
 *
 * A persistent request stays Open MPI's. When its message goes by a put, the promoter sets it
 * active and completes it.
 */
#include "halo/promote/promote.h"

#include "opal/datatype/opal_convertor.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *hk_promote_alloc(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (!p)
		hk_promote_abort("out of memory");
	return p;
}

/* ---- lists ----------------------------------------------------------------------------------- */

void hk_pending_list_init(struct hk_pending_list *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

void hk_pending_list_add(struct hk_pending_list *l, struct hk_pending *p)
{
	p->next = NULL;
	*l->tail = p;
	l->tail = &p->next;
}

struct hk_pending *hk_pending_list_pop(struct hk_pending_list *l)
{
	struct hk_pending *p = l->head;

	if (p && !(l->head = p->next))
		l->tail = &l->head;
	return p;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct hk_pending *unused; /* linked by next */
/* Given back with an error. Open MPI still reads their communicators, for the error handler. */
static struct hk_pending *failed;
static struct hk_pending_list by_mpi = {NULL, &by_mpi.head}; /* those with an mpi_request */

static void recycle(struct hk_pending *p)
{
	OBJ_RELEASE(p->comm);
	p->next = unused;
	unused = p;
}

/* Called by Open MPI when the program has waited for the request, or frees it while it is active.
 */
static int give_back(ompi_request_t **request)
{
	struct hk_pending *p = (struct hk_pending *)*request;

	OMPI_REQUEST_FINI(&p->request);
	if (!REQUEST_COMPLETE(&p->request)) {
		p->user_request = NULL;
	} else if (HK_LIKELY(p->request.req_status.MPI_ERROR == MPI_SUCCESS)) {
		recycle(p);
	} else {
		p->next = failed;
		failed = p;
	}
	*request = MPI_REQUEST_NULL;
	return OMPI_SUCCESS;
}

bool hk_pending_is(const ompi_request_t *request)
{
	return request->req_free == give_back;
}

static struct hk_pending *pending_make(void)
{
	struct hk_pending *p;

	while (HK_UNLIKELY((p = failed) != NULL)) {
		failed = p->next;
		recycle(p);
	}
	p = unused;
	if (HK_LIKELY(p != NULL)) {
		unused = p->next;
		return p;
	}
	p = hk_promote_alloc(sizeof(*p));
	OBJ_CONSTRUCT(&p->request, ompi_request_t);
	return p;
}

struct hk_pending *hk_pending_new(ompi_communicator_t *comm, const void *buf, int count,
				  ompi_datatype_t *type, int peer, int tag)
{
	struct hk_pending *p = pending_make();
	opal_datatype_t *t = &type->super;
	ompi_request_t *own = &p->request;

	OMPI_REQUEST_INIT(own, false);
	own->req_type = OMPI_REQUEST_PML;
	own->req_state = OMPI_REQUEST_ACTIVE;
	own->req_mpi_object.comm = comm;
	own->req_free = give_back;
	own->req_cancel = NULL;
	own->req_f_to_c_index = MPI_UNDEFINED;
	own->req_status = (MPI_Status){.MPI_SOURCE = peer, .MPI_TAG = tag};
	p->user_request = own;
	p->mpi_request = NULL;
	p->persistent = NULL;
	p->buf = (void *)(uintptr_t)buf;
	p->count = count;
	p->type = type;
	p->bytes = (uint32_t)HK_MIN(t->size * (size_t)count, (size_t)HK_SIZE_NONE);
	p->copy = NULL;
	p->peer = peer;
	p->tag = tag;
	p->comm = comm; /* the program may free it first */
	OBJ_RETAIN(comm);
	p->contiguous = (opal_datatype_is_contiguous_memory_layout(t, count) &&
			 p->bytes <= INT_MAX) || /* MPI may have to send it as bytes */
			p->bytes == 0;
	if (p->contiguous)
		p->buf = (char *)p->buf + t->true_lb;
	else
		OBJ_RETAIN(type);
	return p;
}

void hk_pending_activate(struct hk_pending *p, struct hk_persistent *persistent)
{
	p->user_request = persistent->request;
	p->persistent = persistent;
	persistent->active = p;
	persistent->request->req_complete = REQUEST_PENDING;
	persistent->request->req_state = OMPI_REQUEST_ACTIVE;
}

void hk_pending_complete(struct hk_pending *p)
{
	free(p->copy);
	if (!p->contiguous)
		OBJ_RELEASE(p->type);
	if (p->persistent)
		p->persistent->active = NULL;
	if (p->user_request == &p->request) {
		ompi_request_complete(p->user_request, true); /* give_back() recycles it */
		return;
	}
	if (p->user_request) {
		p->user_request->req_status = p->request.req_status;
		ompi_request_complete(p->user_request, true);
	}
	p->request.req_complete = REQUEST_COMPLETED;
	recycle(p);
}

void hk_pending_use_mpi(struct hk_pending *p)
{
	MPI_Datatype type = p->contiguous ? MPI_BYTE : p->type;
	int count = p->contiguous ? (int)p->bytes : p->count, rc;

	if (p->is_send && p->copy)
		rc = hk_real.Isend(p->copy, (int)p->bytes, MPI_BYTE, p->peer, p->tag, p->comm,
				   &p->mpi_request);
	else if (p->is_send)
		rc = hk_real.Isend(p->buf, count, type, p->peer, p->tag, p->comm, &p->mpi_request);
	else
		rc = hk_real.Irecv(p->buf, count, type, p->peer, p->tag, p->comm, &p->mpi_request);
	if (rc != MPI_SUCCESS) /* the program already has a request for it */
		hk_promote_abort("MPI refuses a message that was to go by a put");
	hk_promote_busy++;
	hk_pending_list_add(&by_mpi, p);
}

void hk_pending_wrap(struct hk_persistent *persistent, ompi_request_t *mpi_request)
{
	struct hk_pending *p = hk_pending_new(persistent->comm, persistent->buf, persistent->count,
					      persistent->type, persistent->peer, persistent->tag);

	p->is_send = false;
	p->mpi_request = mpi_request;
	hk_pending_activate(p, persistent);
	hk_promote_busy++;
	hk_pending_list_add(&by_mpi, p);
}

void hk_pending_poll(void)
{
	struct hk_pending_list left;
	struct hk_pending *p;

	if (HK_LIKELY(!by_mpi.head))
		return;
	hk_pending_list_init(&left);
	while ((p = hk_pending_list_pop(&by_mpi))) {
		if (!REQUEST_COMPLETE(p->mpi_request)) {
			hk_pending_list_add(&left, p);
			continue;
		}
		p->request.req_status = p->mpi_request->req_status;
		ompi_request_free(&p->mpi_request);
		hk_promote_busy--;
		hk_pending_complete(p);
	}
	by_mpi.head = left.head;
	by_mpi.tail = left.head ? left.tail : &by_mpi.head;
}

bool hk_pending_mpi_sends(void)
{
	for (const struct hk_pending *p = by_mpi.head; p; p = p->next)
		if (p->is_send)
			return true;
	return false;
}

/* ---- types with gaps ------------------------------------------------------------------------- */

/* Moves @bytes between @p's buffer and @flat. */
static void convert(const struct hk_pending *p, char *flat, uint32_t bytes, bool pack)
{
	struct iovec iov = {.iov_base = flat, .iov_len = bytes};
	opal_convertor_t convertor;
	uint32_t pieces = 1;
	size_t most = bytes;

	OBJ_CONSTRUCT(&convertor, opal_convertor_t);
	if (pack) {
		opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &p->type->super,
							 (size_t)p->count, p->buf, 0, &convertor);
		opal_convertor_pack(&convertor, &iov, &pieces, &most);
	} else {
		opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &p->type->super,
							 (size_t)p->count, p->buf, 0, &convertor);
		opal_convertor_unpack(&convertor, &iov, &pieces, &most);
	}
	OBJ_DESTRUCT(&convertor);
}

void hk_pending_pack(struct hk_pending *p)
{
	p->copy = malloc(HK_MAX(p->bytes, 1U));
	if (!p->copy)
		hk_promote_abort("out of memory");
	if (p->contiguous)
		memcpy(p->copy, p->buf, p->bytes);
	else
		convert(p, p->copy, p->bytes, true);
}

void hk_pending_unpack(struct hk_pending *p, const void *from, uint32_t bytes)
{
	if (p->contiguous)
		memcpy(p->buf, from, bytes);
	else if (bytes)
		convert(p, (char *)(uintptr_t)from, bytes, false);
}

/* ---- persistent requests --------------------------------------------------------------------- */

#define BUCKETS 1024

static struct hk_persistent *buckets[BUCKETS];

static struct hk_persistent **bucket(const ompi_request_t *request)
{
	return &buckets[((uintptr_t)request >> 6) % BUCKETS];
}

struct hk_persistent *hk_persistent_find(ompi_request_t *request)
{
	struct hk_persistent *p = *bucket(request);

	while (p && p->request != request)
		p = p->next;
	return p;
}

struct hk_persistent *hk_persistent_add(ompi_request_t *request)
{
	struct hk_persistent *p = hk_promote_alloc(sizeof(*p));

	p->request = request;
	p->next = *bucket(request);
	*bucket(request) = p;
	return p;
}

void hk_persistent_comm_freed(const ompi_communicator_t *comm)
{
	for (int b = 0; b < BUCKETS; b++)
		for (struct hk_persistent *p = buckets[b]; p; p = p->next)
			if (p->comm == comm)
				p->comm = NULL;
}

/* If a message is under way, the program does not wait for it any longer. */
void hk_persistent_forget(struct hk_persistent *p)
{
	struct hk_persistent **at = bucket(p->request);

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->active) {
		p->active->user_request = NULL;
		p->active->persistent = NULL;
		p->request->req_complete = REQUEST_COMPLETED;
		p->request->req_state = OMPI_REQUEST_INACTIVE;
	}
	OBJ_RELEASE(p->type);
	free(p);
}
