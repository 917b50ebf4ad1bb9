/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/comm.c: the library's own communicator beside each of the program's, so that its messages meet nobody else's.
 *
 * MPI_Comm_dup() is most of what a set-up costs, and takes one of the context ids of which MPI has some thousand. So
 * there is one for all handles of a communicator, kept with it as an attribute; each set-up has tags of its own.
 * It lives as long as the program's communicator or one of the handles.
 */
#include "halo/internal.h"

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

static int keyval = MPI_KEYVAL_INVALID;

void hk_halo_comm_leave(struct hk_halo_comm *c)
{
	int finalized;

	if (atomic_fetch_sub(&c->users, 1) != 1)
		return;
	MPI_Finalized(
		&finalized); /* its communicator is MPI_COMM_WORLD then, and MPI takes all back */
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

static void make_keyval(void)
{
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, freed, &keyval, NULL);
}

struct hk_halo_comm *hk_halo_comm_join(MPI_Comm theirs, MPI_Comm *comm, int *tag)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct hk_halo_comm *c;
	MPI_Errhandler handler;
	int found;

	(void)pthread_once(&once, make_keyval);
	MPI_Comm_get_attr(theirs, keyval, &c, &found);
	if (!found) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return NULL;
		MPI_Comm_dup(theirs, &c->comm);
		atomic_init(&c->users, 1);
		MPI_Comm_set_attr(theirs, keyval, c);
	}
	MPI_Comm_get_errhandler(theirs, &handler);
	MPI_Comm_set_errhandler(c->comm, handler);
	MPI_Errhandler_free(&handler);
	atomic_fetch_add(&c->users, 1);
	*comm = c->comm;
	*tag = 2 * (int)(c->setups++ % SETUPS);
	return c;
}
