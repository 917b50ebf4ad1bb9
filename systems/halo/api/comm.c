/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/comm.c: the library's own communicator for each of the program's, so that the library's
 * messages cannot match those of the program.
 *
 * MPI_Comm_dup() takes most of the time of a set-up, and one of MPI's few thousand context ids. So
 * all handles of a communicator share one duplicate, and each set-up has MPI tags of its own. The
 * duplicate is an attribute of the program's communicator. It lives as long as that communicator or
 * one of the handles.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Set-ups with different MPI tags. Each has two: for handshakes and for exchanges. Every MPI in use
 * has at least this many tags. Two handles of one communicator share a tag only if they are two
 * million set-ups apart. */
#define SETUPS (1 << 21)

struct hk_halo_comm {
	MPI_Comm comm;
	atomic_int users; /* handles, plus 1 for the program's communicator */
	unsigned setups;  /* set-ups so far; equal on all ranks, since set-ups are collective */
	bool *same_node;  /* by rank */
};

/* `keyval` marks a communicator of the program, `own_keyval` one of the library. A builder passes
 * its plan's communicator to hk_halo_setup(), which uses that one and does not duplicate it. */
static int keyval = MPI_KEYVAL_INVALID, own_keyval = MPI_KEYVAL_INVALID;

void hk_halo_comm_leave(struct hk_halo_comm *c)
{
	int finalized;

	if (atomic_fetch_sub(&c->users, 1) != 1)
		return;
	/* MPI_Finalize deletes the attributes of MPI_COMM_WORLD, and frees all communicators. */
	MPI_Finalized(&finalized);
	if (!finalized)
		MPI_Comm_free(&c->comm);
	free(c->same_node);
	free(c);
}

/* Collective. False: out of memory. */
static bool find_same_node(struct hk_halo_comm *c)
{
	MPI_Group all, near;
	MPI_Comm node;
	int size, count;

	MPI_Comm_size(c->comm, &size);
	MPI_Comm_split_type(c->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
	MPI_Comm_size(node, &count);
	MPI_Comm_group(c->comm, &all);
	MPI_Comm_group(node, &near);
	int *theirs = malloc(2 * (size_t)count * sizeof(*theirs));

	c->same_node = calloc((size_t)size, sizeof(*c->same_node));
	if (theirs && c->same_node) {
		for (int k = 0; k < count; k++)
			theirs[k] = k;
		MPI_Group_translate_ranks(near, count, theirs, all, theirs + count);
		for (int k = 0; k < count; k++)
			c->same_node[theirs[count + k]] = true;
	}
	MPI_Group_free(&all);
	MPI_Group_free(&near);
	MPI_Comm_free(&node);
	bool ok = theirs && c->same_node;

	free(theirs);
	return ok;
}

bool hk_halo_comm_same_node(const struct hk_halo_comm *c, int rank)
{
	return c->same_node[rank];
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

int hk_halo_comm_check(MPI_Comm comm)
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
		if (!find_same_node(c)) {
			MPI_Comm_free(&c->comm);
			free(c->same_node);
			free(c);
			return NULL;
		}
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
