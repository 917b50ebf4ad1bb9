/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/pending.h: the requests of messages that go by puts, and persistent requests
 * (pending.c).
 */
#ifndef HK_HALO_PENDING_H
#define HK_HALO_PENDING_H

#include "base/common.h"

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/request/request.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* A message sent by puts, or a receive that waits for one. With @mpi_request, Open MPI carries the
 * message, and the program's request is completed after it. */
struct hk_pending {
	ompi_request_t request;       /* the program's request, unless it is a persistent one */
	ompi_request_t *user_request; /* the one that the program waits for; NULL: none */
	ompi_request_t *mpi_request;  /* Open MPI's, if Open MPI sends or receives the message */
	struct hk_persistent *persistent; /* the program's persistent request; NULL: none */
	struct hk_pending *next;
	uint64_t index; /* number of the message in its channel */
	void *buf;
	int count;             /* elements */
	ompi_datatype_t *type; /* retained, unless contiguous */
	uint32_t bytes;        /* length of a send, capacity of a receive */
	char *copy;            /* a packed copy, freed with this; NULL: none */
	uint64_t position;     /* as in hk_put_position */
	int peer, tag;
	ompi_communicator_t *comm;
	bool contiguous, is_send;
};

/* A queue of pending messages. */
struct hk_pending_list {
	struct hk_pending *head, **tail;
};

/* A request of MPI_Send_init, MPI_Recv_init and so on. */
struct hk_persistent {
	ompi_request_t *request;
	void *buf;
	int count; /* elements */
	ompi_datatype_t *type;
	int peer, tag;
	ompi_communicator_t *comm; /* NULL: the program has freed it */
	bool is_send;
	bool standard;             /* a standard or ready send */
	struct hk_pending *active; /* NULL: not started, or started by MPI */
	struct hk_persistent *next;
};

/* A pending message with a request that is active. The buffer starts at @buf plus the type's lower
 * bound. */
struct hk_pending *hk_pending_new(ompi_communicator_t *comm, const void *buf, int count,
				  ompi_datatype_t *type, int peer, int tag);
/* Completes the program's request and frees @p, at once or when the program gives the request
 * back. */
void hk_pending_complete(struct hk_pending *p);
/* The program has started @persistent; @p completes it. */
void hk_pending_activate(struct hk_pending *p, struct hk_persistent *persistent);
/* The program has started @persistent, for which Open MPI receives by @mpi_request. */
void hk_pending_wrap(struct hk_persistent *persistent, ompi_request_t *mpi_request);
/* Sends or receives @p by Open MPI after all. */
void hk_pending_use_mpi(struct hk_pending *p);
/* Completes those whose MPI request is complete. */
void hk_pending_poll(void);
/* Does Open MPI still send one of them? */
bool hk_pending_mpi_sends(void);
/* Is the request one of hk_pending_new()? */
bool hk_pending_is(const ompi_request_t *request);
/* Copies the message to p->copy. */
void hk_pending_pack(struct hk_pending *p);
/* Copies @bytes from @from to the program's buffer. */
void hk_pending_unpack(struct hk_pending *p, const void *from, uint32_t bytes);

void hk_pending_list_init(struct hk_pending_list *l);
void hk_pending_list_add(struct hk_pending_list *l, struct hk_pending *p);
struct hk_pending *hk_pending_list_pop(struct hk_pending_list *l);

struct hk_persistent *hk_persistent_find(ompi_request_t *request);
struct hk_persistent *hk_persistent_add(ompi_request_t *request);
/* The program frees the request. */
void hk_persistent_forget(struct hk_persistent *p);
/* The program frees @comm: its requests belong to MPI alone. */
void hk_persistent_comm_freed(const ompi_communicator_t *comm);

/* Zeroed memory; aborts the job if there is none. */
void *hk_promote_alloc(size_t bytes);

#endif
