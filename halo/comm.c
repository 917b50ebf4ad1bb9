/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/comm.c: the library's own communicator beside each of the program's, so that its messages meet nobody else's.
 *
 * MPI_Comm_dup() is most of what a set-up costs, and takes one of the context ids of which MPI has some thousand. So
 * there is one for all handles of a communicator, kept with it as an attribute; each set-up has tags of its own.
 * It lives as long as the program's communicator or one of the handles.
 */
#include "halo/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Two for each set-up: of its handshakes, and of exchanges. Every MPI in use has as many as this; handles of one
 * communicator would have to be two million set-ups apart to share one. */
#define SETUPS (1 << 21)

struct hk_halo_comm {
	MPI_Comm comm;
	atomic_int users; /* handles, and the program's communicator */
	unsigned setups;  /* ever; the same number on all ranks, since set-ups are collective */
};

/* The first is the program's communicator's, the second the library's own: a builder hands its plan's communicator to
 * hk_halo_setup(), and that is the one to use, not one to copy. */
static int keyval = MPI_KEYVAL_INVALID, own_keyval = MPI_KEYVAL_INVALID;

void hk_halo_comm_leave(struct hk_halo_comm *c)
{
	int finalized;

	if (atomic_fetch_sub(&c->users, 1) != 1)
		return;
	/* Then it was MPI_COMM_WORLD's, and MPI takes all back. */
	MPI_Finalized(&finalized);
	if (!finalized)
		MPI_Comm_free(&c->comm);
	free(c);
}

static int freed(MPI_Comm comm, int key, void *value, void *extra)
{
	(void)comm;
	(void)key;
	(void)extra;
	hk_halo_comm_leave(value);
	return MPI_SUCCESS;
}

static void make_keyvals(void)
{
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, freed, &keyval, NULL);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &own_keyval, NULL);
}

int hk_halo_one_group(MPI_Comm comm)
{
	int inter;

	MPI_Comm_test_inter(comm, &inter);
	return inter ? hk_halo_fail(-EINVAL, "the communicator has two groups; fix: merge them")
		     : 0;
}

struct hk_halo_comm *hk_halo_comm_join(MPI_Comm theirs, MPI_Comm *comm, int *tag)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct hk_halo_comm *c;
	MPI_Errhandler handler;
	int found;

	(void)pthread_once(&once, make_keyvals);
	MPI_Comm_get_attr(theirs, own_keyval, &c, &found);
	if (!found)
		MPI_Comm_get_attr(theirs, keyval, &c, &found);
	if (!found) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return NULL;
		MPI_Comm_dup(theirs, &c->comm);
		atomic_init(&c->users, 1);
		MPI_Comm_set_attr(theirs, keyval, c);
		MPI_Comm_set_attr(c->comm, own_keyval, c);
	}
	MPI_Comm_get_errhandler(theirs, &handler);
	MPI_Comm_set_errhandler(c->comm, handler);
	MPI_Errhandler_free(&handler);
	atomic_fetch_add(&c->users, 1);
	*comm = c->comm;
	*tag = 2 * (int)(c->setups++ % SETUPS);
	return c;
}
