/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/request.c: what the program holds for a message that goes by a put: a request of Open MPI's own
 * kind, so that MPI_Wait, MPI_Test and all their relatives, in C and Fortran, work on it as on any.
 *
 * A persistent request stays Open MPI's. When its message goes by a put, it is set active here, and completed.
 */
#include "halo/interpose/interpose.h"

#include "opal/datatype/opal_convertor.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *hk_need(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (!p)
		hk_broken("there is no memory");
	return p;
}

/* ---- lists ------------------------------------------------------------------------------------------ */

void hk_list_init(struct hk_list *l)
{
	l->head = NULL;
	l->tail = &l->head;
}

void hk_list_add(struct hk_list *l, struct hk_pending *p)
{
	p->next = NULL;
	*l->tail = p;
	l->tail = &p->next;
}

struct hk_pending *hk_list_pop(struct hk_list *l)
{
	struct hk_pending *p = l->head;

	if (p && !(l->head = p->next))
		l->tail = &l->head;
	return p;
}

/* ---- requests --------------------------------------------------------------------------------------- */

static struct hk_pending *unused; /* linked by next */
/* … given back with an error: Open MPI asks their communicators for the error handler only then. */
static struct hk_pending *failed;
static struct hk_list behind = {NULL, &behind.head}; /* have an inner request */

static void recycle(struct hk_pending *p)
{
	OBJ_RELEASE(p->comm);
	p->next = unused;
	unused = p;
}

/* Open MPI gives the request back: the program has waited for it, or freed it while it is active. */
static int give_back(ompi_request_t **request)
{
	struct hk_pending *p = (struct hk_pending *)*request;

	OMPI_REQUEST_FINI(&p->own);
	if (!REQUEST_COMPLETE(&p->own)) {
		p->user = NULL;
	} else if (HK_LIKELY(p->own.req_status.MPI_ERROR == MPI_SUCCESS)) {
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
	p = hk_need(sizeof(*p));
	OBJ_CONSTRUCT(&p->own, ompi_request_t);
	return p;
}

struct hk_pending *hk_pending_new(ompi_communicator_t *comm, const void *buf, int count,
				  ompi_datatype_t *type, int peer, int tag)
{
	struct hk_pending *p = pending_make();
	opal_datatype_t *t = &type->super;
	ompi_request_t *own = &p->own;

	OMPI_REQUEST_INIT(own, false);
	own->req_type = OMPI_REQUEST_PML;
	own->req_state = OMPI_REQUEST_ACTIVE;
	own->req_mpi_object.comm = comm;
	own->req_free = give_back;
	own->req_cancel = NULL;
	own->req_f_to_c_index = MPI_UNDEFINED;
	own->req_status = (MPI_Status){.MPI_SOURCE = peer, .MPI_TAG = tag};
	p->user = own;
	p->inner = NULL;
	p->of = NULL;
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
			 p->bytes <= INT_MAX) || /* MPI may get it as so many bytes */
			p->bytes == 0;
	if (p->contiguous)
		p->buf = (char *)p->buf + t->true_lb;
	else
		OBJ_RETAIN(type);
	return p;
}

/* The program has started @of, and waits for it. */
void hk_pending_activate(struct hk_pending *p, struct hk_persistent *of)
{
	p->user = of->request;
	p->of = of;
	of->active = p;
	of->request->req_complete = REQUEST_PENDING;
	of->request->req_state = OMPI_REQUEST_ACTIVE;
}

void hk_pending_done(struct hk_pending *p)
{
	free(p->copy);
	if (!p->contiguous)
		OBJ_RELEASE(p->type);
	if (p->of)
		p->of->active = NULL;
	if (p->user == &p->own) {
		ompi_request_complete(p->user, true); /* given back later */
		return;
	}
	if (p->user) {
		p->user->req_status = p->own.req_status;
		ompi_request_complete(p->user, true);
	}
	p->own.req_complete = REQUEST_COMPLETED;
	recycle(p);
}

/* Sends or receives it by Open MPI after all. */
void hk_pending_by_mpi(struct hk_pending *p)
{
	MPI_Datatype type = p->contiguous ? MPI_BYTE : p->type;
	int count = p->contiguous ? (int)p->bytes : p->count, rc;

	if (p->sends && p->copy)
		rc = hk_real.Isend(p->copy, (int)p->bytes, MPI_BYTE, p->peer, p->tag, p->comm,
				   &p->inner);
	else if (p->sends)
		rc = hk_real.Isend(p->buf, count, type, p->peer, p->tag, p->comm, &p->inner);
	else
		rc = hk_real.Irecv(p->buf, count, type, p->peer, p->tag, p->comm, &p->inner);
	if (rc != MPI_SUCCESS) /* the program was told that it is under way */
		hk_broken("MPI refuses a message that puts have taken");
	hk_busy++;
	hk_list_add(&behind, p);
}

/* @inner receives for the persistent request @of. */
void hk_pending_behind(struct hk_persistent *of, ompi_request_t *inner)
{
	struct hk_pending *p = hk_pending_new(of->comm, of->buf, of->count, of->type, of->peer,
					      of->tag);

	p->sends = false;
	p->inner = inner;
	hk_pending_activate(p, of);
	hk_busy++;
	hk_list_add(&behind, p);
}

void hk_pending_poll(void)
{
	struct hk_list left;
	struct hk_pending *p;

	if (HK_LIKELY(!behind.head))
		return;
	hk_list_init(&left);
	while ((p = hk_list_pop(&behind))) {
		if (!REQUEST_COMPLETE(p->inner)) {
			hk_list_add(&left, p);
			continue;
		}
		p->own.req_status = p->inner->req_status;
		ompi_request_free(&p->inner);
		hk_busy--;
		hk_pending_done(p);
	}
	behind.head = left.head;
	behind.tail = left.head ? left.tail : &behind.head;
}

bool hk_pending_sends_behind(void)
{
	for (const struct hk_pending *p = behind.head; p; p = p->next)
		if (p->sends)
			return true;
	return false;
}

/* ---- types with gaps ---------------------------------------------------------------------------------- */

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

void hk_pack(struct hk_pending *p)
{
	p->copy = malloc(HK_MAX(p->bytes, 1U)); /* all of it is written */
	if (!p->copy)
		hk_broken("there is no memory");
	if (p->contiguous)
		memcpy(p->copy, p->buf, p->bytes);
	else
		convert(p, p->copy, p->bytes, true);
}

void hk_unpack(struct hk_pending *p, const void *from, uint32_t bytes)
{
	if (p->contiguous)
		memcpy(p->buf, from, bytes);
	else if (bytes)
		convert(p, (char *)(uintptr_t)from, bytes, false);
}

/* ---- persistent requests -------------------------------------------------------------------------------- */

#define BUCKETS 1024

static struct hk_persistent *persistent[BUCKETS];

static struct hk_persistent **place(const ompi_request_t *request)
{
	return &persistent[((uintptr_t)request >> 6) % BUCKETS];
}

struct hk_persistent *hk_persistent_find(ompi_request_t *request)
{
	struct hk_persistent *p = *place(request);

	while (p && p->request != request)
		p = p->next;
	return p;
}

struct hk_persistent *hk_persistent_add(ompi_request_t *request)
{
	struct hk_persistent *p = hk_need(sizeof(*p));

	p->request = request;
	p->next = *place(request);
	*place(request) = p;
	return p;
}

void hk_persistent_comm_gone(const ompi_communicator_t *comm)
{
	for (int b = 0; b < BUCKETS; b++)
		for (struct hk_persistent *p = persistent[b]; p; p = p->next)
			if (p->comm == comm)
				p->comm = NULL;
}

/* Its program frees it; a message that is under way has nobody who waits for it. */
void hk_persistent_forget(struct hk_persistent *p)
{
	struct hk_persistent **at = place(p->request);

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->active) {
		p->active->user = NULL;
		p->active->of = NULL;
		p->request->req_complete = REQUEST_COMPLETED;
		p->request->req_state = OMPI_REQUEST_INACTIVE;
	}
	OBJ_RELEASE(p->type);
	free(p);
}
