/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/transport_mpi.c: the transport "mpi", which is always possible: one persistent request
 * each way. And the transport "self" for a rank that is its own neighbour: a copy.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <stdlib.h>

#define GIVE_UP_AFTER 2.0 /* seconds to wait for a message when its exchange is freed */

struct state {
	MPI_Request send, recv;  /* MPI_REQUEST_NULL: no data in that direction */
	bool sending, receiving; /* MPI is using the buffers of that direction */
};

/* Turns an error of MPI into one of the library; needed with MPI_ERRORS_RETURN. */
static int mpi_result(const struct hk_halo *h, const struct hk_halo_neighbour *nb, int code)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int len;

	if (HK_LIKELY(code == MPI_SUCCESS))
		return 0;
	MPI_Error_string(code, text, &len);
	return hk_halo_fail(-EIO,
			    "rank %d: MPI's message to or from rank %d failed: %s; fix: check what "
			    "that rank does",
			    h->rank, nb->rank, text);
}

/* One type for all halves of a message, relative to MPI_BOTTOM. */
static int fused(const struct hk_halo_message *m, MPI_Datatype *t)
{
	size_t n = (size_t)m->halves;
	int *count = malloc(n * sizeof(*count));
	MPI_Aint *at = malloc(n * sizeof(*at));
	MPI_Datatype *type = malloc(n * sizeof(*type));

	if (count && at && type) {
		for (size_t k = 0; k < n; k++) {
			count[k] = m->half[k].count;
			MPI_Get_address(m->half[k].base, &at[k]);
			type[k] = m->half[k].type;
		}
		MPI_Type_create_struct(m->halves, count, at, type, t);
		MPI_Type_commit(t);
	}
	bool ok = count && at && type;

	free(count);
	free(at);
	free(type);
	return ok ? 0 : -ENOMEM;
}

typedef int init_fn(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static int send_init(void *buf, int n, MPI_Datatype t, int peer, int tag, MPI_Comm c,
		     MPI_Request *r)
{
	return MPI_Send_init(buf, n, t, peer, tag, c, r);
}

static int request(struct hk_halo *h, int rank, const struct hk_halo_message *m, init_fn *init,
		   MPI_Request *r)
{
	MPI_Datatype t;

	*r = MPI_REQUEST_NULL;
	if (m->bytes == 0)
		return 0;
	if (m->halves == 1) {
		init(m->half[0].base, m->half[0].count, m->half[0].type, rank, h->tag + 1, h->comm,
		     r);
		return 0;
	}
	int rc = fused(m, &t);

	if (rc == 0) {
		init(MPI_BOTTOM, 1, t, rank, h->tag + 1, h->comm, r);
		MPI_Type_free(&t);
	}
	return rc;
}

static bool offer(struct hk_halo *h, struct hk_halo_neighbour *nb, char *address)
{
	(void)h;
	(void)nb;
	(void)address;
	return true;
}

/* After a failed exchange: cancels the receive, since MPI must not write to memory that belongs to
 * the caller again. It reads the send buffer until the other end has received the message. MPI 4.0
 * deprecates MPI_Cancel of a send. Open MPI ignores it, and over libfabric it crashes. */
static void end_requests(const struct hk_halo *h, const struct hk_halo_neighbour *nb,
			 struct state *s)
{
	double end = hk_clock_s() + GIVE_UP_AFTER;
	int done = !s->sending;

	if (s->receiving) {
		MPI_Cancel(&s->recv);
		MPI_Wait(&s->recv, MPI_STATUS_IGNORE);
	}
	while (!done && hk_clock_s() < end)
		if (MPI_Test(&s->send, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
			break;
	if (!done)
		fprintf(stderr,
			"hk_halo: rank %d has freed an exchange, but rank %d has not received its "
			"message; "
			"fix: do not free the send buffers\n",
			h->rank, nb->rank);
}

static void free_state(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;

	if (!s)
		return;
	end_requests(h, nb, s);
	if (s->send != MPI_REQUEST_NULL)
		MPI_Request_free(&s->send);
	if (s->recv != MPI_REQUEST_NULL)
		MPI_Request_free(&s->recv);
	free(s);
	nb->state = NULL;
}

static int open(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs, char *mine)
{
	struct state *s = calloc(1, sizeof(*s));

	(void)theirs;
	(void)mine;
	if (!s)
		return -ENOMEM;
	s->send = s->recv = MPI_REQUEST_NULL;
	nb->state = s;
	int rc = request(h, nb->rank, &nb->in, MPI_Recv_init, &s->recv);

	if (rc == 0)
		rc = request(h, nb->rank, &nb->out, send_init, &s->send);
	if (rc)
		free_state(h, nb);
	return rc;
}

static int connect_noop(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs)
{
	(void)h;
	(void)nb;
	(void)theirs;
	return 0;
}

static int put(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;

	int code = MPI_SUCCESS;

	if (s->recv != MPI_REQUEST_NULL)
		code = MPI_Start(&s->recv);
	s->receiving = code == MPI_SUCCESS && s->recv != MPI_REQUEST_NULL;
	if (code == MPI_SUCCESS && s->send != MPI_REQUEST_NULL)
		code = MPI_Start(&s->send);
	s->sending = code == MPI_SUCCESS && s->send != MPI_REQUEST_NULL;
	return mpi_result(h, nb, code);
}

static int poll(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct state *s = nb->state;
	int done, code = MPI_SUCCESS;

	if (!nb->arrived) {
		code = MPI_Test(&s->recv, &done, MPI_STATUS_IGNORE);
		nb->arrived = code == MPI_SUCCESS && done;
		s->receiving = s->receiving && !nb->arrived;
	}
	if (code == MPI_SUCCESS && !nb->sent) {
		code = MPI_Test(&s->send, &done, MPI_STATUS_IGNORE);
		nb->sent = code == MPI_SUCCESS && done;
		s->sending = s->sending && !nb->sent;
	}
	return mpi_result(h, nb, code);
}

const struct hk_transport hk_transport_mpi = {
	.name = "mpi",
	.offer = offer,
	.open = open,
	.connect = connect_noop,
	.put = put,
	.poll = poll,
	.close = free_state,
};

/* ---- self --------------------------------------------------------------------------------- */

static int self_open(struct hk_halo *h, struct hk_halo_neighbour *nb, const char *theirs,
		     char *mine)
{
	(void)h;
	(void)nb;
	(void)theirs;
	(void)mine;
	return 0;
}

static int self_put(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	struct hk_layout from = hk_halo_blocks_layout(&nb->out.blocks),
			 to = hk_halo_blocks_layout(&nb->in.blocks);

	(void)h;
	for (size_t k = 0; k < from.count; k++)
		hk_layout_scatter(&to, from.block[k].at, from.block[k].len, from.block[k].base);
	return 0;
}

static int self_poll(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	(void)h;
	nb->arrived = nb->sent = true;
	return 0;
}

static void self_close(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	(void)h;
	(void)nb;
}

const struct hk_transport hk_transport_self = {
	.name = "self",
	.offer = offer,
	.open = self_open,
	.connect = connect_noop,
	.put = self_put,
	.poll = self_poll,
	.close = self_close,
};
