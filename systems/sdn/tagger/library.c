/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/library.c: libhk_tag.so, preloaded into the ranks of a tagged job.
 *
 * Before MPI makes its first socket, it registers the rank with hk-tagger, by its number in the
 * launcher's environment. From then on it reports the rank's MPI function, by one store into a page
 * that the kernel's program reads. It links no MPI library. It does nothing in processes that are
 * not ranks.
 *
 * Threads: threads that are in MPI at the same time share one function, that of the last caller.
 */
#include "sdn/registrar/registrar.h"
#include "sdn/tagger/socket.h"
#include "sdn/tagger/pending.h"
#include "sdn/tagger/shared.h"

#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
/* The time of the holder's current call to the registrar, and of the next one, which includes this
 * rank. */
#define WAIT_MS (2 * HK_REGISTRAR_WAIT_S * 1000 + 4000)

/* The function of this rank. Without hk-tagger it is a variable that nobody reads. */
static uint32_t nowhere;
static volatile uint32_t *function = &nowhere;

/* ---- joining --------------------------------------------------------------------------------- */

static bool number(const char *name, uint32_t *out)
{
	const char *text = getenv(name);
	char *end;

	if (!text || !*text)
		return false;
	*out = (uint32_t)strtoul(text, &end, 10);
	return *end == '\0';
}

static void complain(const char *text)
{
	fprintf(stderr, "libhk_tag: this rank is not tagged: %s\n", text);
}

/* Joins the job. The connection stays open: it is the lease. */
static void join(void)
{
	const char *path = getenv(HK_TAGGER_SOCKET_ENV);
	struct hk_tagger_request request = {
		.magic = HK_TAGGER_MAGIC, .version = HK_TAGGER_VERSION, .kind = HK_TAGGER_JOIN};
	const char *secret = getenv(HK_REGISTRAR_SECRET_ENV);
	struct hk_tagger_reply reply;
	struct hk_error err;
	int sock, fd;

	if (!path || function != &nowhere || !number("OMPI_COMM_WORLD_RANK", &request.rank) ||
	    !number("OMPI_COMM_WORLD_SIZE", &request.ranks))
		return;
	if (secret)
		snprintf(request.secret, sizeof(request.secret), "%s", secret);
	sock = hk_tagger_connect(path, &err);
	if (sock < 0) {
		complain(err.text);
		return;
	}
	if (hk_tagger_call(sock, &request, WAIT_MS, &reply, &fd, &err) != 0) {
		complain(err.text);
		close(sock);
		return;
	}
	void *map = MAP_FAILED;
	if (fd >= 0 && reply.slot < HK_TAGGER_SLOTS)
		map = mmap(NULL, HK_TAGGER_SLOTS * sizeof(struct hk_tagger_slot),
			   PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (map == MAP_FAILED) {
		complain("cannot map the page of functions; fix: check the limits of memory "
			 "(ulimit -v)");
		close(sock);
		return;
	}
	function = &((struct hk_tagger_slot *)map)[reply.slot].function;
}

/* ---- MPI ------------------------------------------------------------------------------------- */

/* Returns the MPI library's own function. It is looked up by name, so that this library can be
 * loaded into any process. A process that calls MPI has the function. */
static void *mpi_function(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found) {
		void *mpi = dlopen("libmpi.so.40", RTLD_LAZY | RTLD_NOLOAD);
		found = mpi ? dlsym(mpi, name) : NULL;
	}
	if (!found) {
		fprintf(stderr,
			"libhk_tag: this program calls MPI, but its MPI library has no %s; fix: "
			"run it without 'tag run'\n",
			name);
		abort();
	}
	return found;
}

#define NEXT(name)                                                                                 \
	static typeof(MPI_##name) *next;                                                           \
	if (!next)                                                                                 \
	next = (typeof(next))mpi_function("PMPI_" #name)

/* Defines both names: C programs call MPI_*, Open MPI's Fortran interface and other profiling
 * libraries call PMPI_*. */
#define BOTH(name, parameters)                                                                     \
	EXPORT int PMPI_##name parameters __attribute__((alias("MPI_" #name)))

/* Sets the function during a call. Restores the previous function, because some libraries'
 * collectives call others. */
#define WRAP(what, name, parameters, arguments)                                                    \
	EXPORT int MPI_##name parameters                                                           \
	{                                                                                          \
		NEXT(name);                                                                        \
		uint32_t before = *function;                                                       \
		*function = HK_TAG_##what;                                                         \
		int rc = next arguments;                                                           \
		*function = before;                                                                \
		return rc;                                                                         \
	}                                                                                          \
	BOTH(name, parameters);

/* Wraps a nonblocking collective, and remembers its request for the calls that complete it. */
#define WRAP_START(what, name, parameters, arguments)                                              \
	EXPORT int MPI_##name parameters                                                           \
	{                                                                                          \
		NEXT(name);                                                                        \
		uint32_t before = *function;                                                       \
		*function = HK_TAG_##what;                                                         \
		int rc = next arguments;                                                           \
		if (rc == MPI_SUCCESS)                                                             \
			hk_tagger_pending_add(*request, HK_TAG_##what);                            \
		*function = before;                                                                \
		return rc;                                                                         \
	}                                                                                          \
	BOTH(name, parameters);

/* A call that completes requests. Its function is that of the first known request. */
struct completing {
	uint32_t before;
	unsigned n;
	struct hk_tagger_pending_found found[HK_TAGGER_PENDING];
};

static void enter(struct completing *c, MPI_Request *requests, int count)
{
	c->n = hk_tagger_pending_find((const void *const *)requests, count, c->found);
	if (HK_UNLIKELY(c->n > 0)) {
		c->before = *function;
		*function = c->found[0].function;
	}
}

static void leave(struct completing *c, MPI_Request *requests)
{
	static MPI_Request null;

	if (HK_LIKELY(c->n == 0))
		return;
	*function = c->before;
	if (!null) /* by name: this library must load into processes without MPI */
		null = mpi_function("ompi_request_null");
	for (unsigned i = 0; i < c->n; i++)
		if (requests[c->found[i].index] == null)
			hk_tagger_pending_remove(c->found[i].request);
}

#define WRAP_COMPLETE(name, requests, count, parameters, arguments)                                \
	EXPORT int MPI_##name parameters                                                           \
	{                                                                                          \
		NEXT(name);                                                                        \
		struct completing c;                                                               \
		enter(&c, requests, count);                                                        \
		int rc = next arguments;                                                           \
		leave(&c, requests);                                                               \
		return rc;                                                                         \
	}                                                                                          \
	BOTH(name, parameters);

EXPORT int MPI_Init(int *argc, char ***argv)
{
	NEXT(Init);
	join();
	int rc = next(argc, argv);
	*function = HK_TAG_P2P;
	return rc;
}
BOTH(Init, (int *argc, char ***argv));

EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	NEXT(Init_thread);
	join();
	int rc = next(argc, argv, required, provided);
	*function = HK_TAG_P2P;
	return rc;
}
BOTH(Init_thread, (int *argc, char ***argv, int required, int *provided));

EXPORT int MPI_Finalize(void)
{
	NEXT(Finalize);
	*function = HK_TAG_OTHER;
	return next();
}
BOTH(Finalize, (void));

/* MPI does not allow a program to free a collective's request (MPI 3.1, 5.12), but programs do, and
 * Open MPI reuses its handle. */
EXPORT int MPI_Request_free(MPI_Request *request)
{
	NEXT(Request_free);
	MPI_Request freed = *request;
	int rc = next(request);
	if (rc == MPI_SUCCESS)
		hk_tagger_pending_remove(freed);
	return rc;
}
BOTH(Request_free, (MPI_Request * request));

/* clang-format off: one line each reads as a table */
#define T  MPI_Datatype
#define C  MPI_Comm
#define R  MPI_Request *request
#define CB const void *
WRAP(BARRIER, Barrier, (C comm), (comm))
WRAP_START(BARRIER, Ibarrier, (C comm, R), (comm, request))
WRAP(BCAST, Bcast, (void *b, int n, T t, int root, C comm), (b, n, t, root, comm))
WRAP_START(BCAST, Ibcast, (void *b, int n, T t, int root, C comm, R),
	   (b, n, t, root, comm, request))
WRAP(REDUCE, Reduce, (CB s, void *r, int n, T t, MPI_Op op, int root, C comm),
     (s, r, n, t, op, root, comm))
WRAP_START(REDUCE, Ireduce, (CB s, void *r, int n, T t, MPI_Op op, int root, C comm, R),
	   (s, r, n, t, op, root, comm, request))
WRAP(ALLREDUCE, Allreduce, (CB s, void *r, int n, T t, MPI_Op op, C comm), (s, r, n, t, op, comm))
WRAP_START(ALLREDUCE, Iallreduce, (CB s, void *r, int n, T t, MPI_Op op, C comm, R),
	   (s, r, n, t, op, comm, request))
WRAP(SCAN, Scan, (CB s, void *r, int n, T t, MPI_Op op, C comm), (s, r, n, t, op, comm))
WRAP_START(SCAN, Iscan, (CB s, void *r, int n, T t, MPI_Op op, C comm, R),
	   (s, r, n, t, op, comm, request))
WRAP(SCAN, Exscan, (CB s, void *r, int n, T t, MPI_Op op, C comm), (s, r, n, t, op, comm))
WRAP_START(SCAN, Iexscan, (CB s, void *r, int n, T t, MPI_Op op, C comm, R),
	   (s, r, n, t, op, comm, request))
WRAP(REDUCE_SCATTER, Reduce_scatter, (CB s, void *r, const int n[], T t, MPI_Op op, C comm),
     (s, r, n, t, op, comm))
WRAP_START(REDUCE_SCATTER, Ireduce_scatter,
	   (CB s, void *r, const int n[], T t, MPI_Op op, C comm, R),
	   (s, r, n, t, op, comm, request))
WRAP(REDUCE_SCATTER, Reduce_scatter_block, (CB s, void *r, int n, T t, MPI_Op op, C comm),
     (s, r, n, t, op, comm))
WRAP_START(REDUCE_SCATTER, Ireduce_scatter_block, (CB s, void *r, int n, T t, MPI_Op op, C comm, R),
	   (s, r, n, t, op, comm, request))
WRAP(GATHER, Gather, (CB s, int n, T t, void *r, int m, T u, int root, C comm),
     (s, n, t, r, m, u, root, comm))
WRAP_START(GATHER, Igather, (CB s, int n, T t, void *r, int m, T u, int root, C comm, R),
	   (s, n, t, r, m, u, root, comm, request))
WRAP(GATHER, Gatherv,
     (CB s, int n, T t, void *r, const int m[], const int d[], T u, int root, C comm),
     (s, n, t, r, m, d, u, root, comm))
WRAP_START(GATHER, Igatherv,
	   (CB s, int n, T t, void *r, const int m[], const int d[], T u, int root, C comm, R),
	   (s, n, t, r, m, d, u, root, comm, request))
WRAP(SCATTER, Scatter, (CB s, int n, T t, void *r, int m, T u, int root, C comm),
     (s, n, t, r, m, u, root, comm))
WRAP_START(SCATTER, Iscatter, (CB s, int n, T t, void *r, int m, T u, int root, C comm, R),
	   (s, n, t, r, m, u, root, comm, request))
WRAP(SCATTER, Scatterv,
     (CB s, const int n[], const int d[], T t, void *r, int m, T u, int root, C comm),
     (s, n, d, t, r, m, u, root, comm))
WRAP_START(SCATTER, Iscatterv,
	   (CB s, const int n[], const int d[], T t, void *r, int m, T u, int root, C comm, R),
	   (s, n, d, t, r, m, u, root, comm, request))
WRAP(ALLGATHER, Allgather, (CB s, int n, T t, void *r, int m, T u, C comm),
     (s, n, t, r, m, u, comm))
WRAP_START(ALLGATHER, Iallgather, (CB s, int n, T t, void *r, int m, T u, C comm, R),
	   (s, n, t, r, m, u, comm, request))
WRAP(ALLGATHER, Allgatherv, (CB s, int n, T t, void *r, const int m[], const int d[], T u, C comm),
     (s, n, t, r, m, d, u, comm))
WRAP_START(ALLGATHER, Iallgatherv,
	   (CB s, int n, T t, void *r, const int m[], const int d[], T u, C comm, R),
	   (s, n, t, r, m, d, u, comm, request))
WRAP(ALLTOALL, Alltoall, (CB s, int n, T t, void *r, int m, T u, C comm), (s, n, t, r, m, u, comm))
WRAP_START(ALLTOALL, Ialltoall, (CB s, int n, T t, void *r, int m, T u, C comm, R),
	   (s, n, t, r, m, u, comm, request))
WRAP(ALLTOALL, Alltoallv,
     (CB s, const int n[], const int d[], T t, void *r, const int m[], const int e[], T u, C comm),
     (s, n, d, t, r, m, e, u, comm))
WRAP_START(ALLTOALL, Ialltoallv,
	   (CB s, const int n[], const int d[], T t, void *r, const int m[], const int e[], T u,
	    C comm, R),
	   (s, n, d, t, r, m, e, u, comm, request))
WRAP(ALLTOALL, Alltoallw,
     (CB s, const int n[], const int d[], const T t[], void *r, const int m[], const int e[],
      const T u[], C comm),
     (s, n, d, t, r, m, e, u, comm))
WRAP(NEIGHBOR, Neighbor_allgather, (CB s, int n, T t, void *r, int m, T u, C comm),
     (s, n, t, r, m, u, comm))
WRAP(NEIGHBOR, Neighbor_allgatherv,
     (CB s, int n, T t, void *r, const int m[], const int d[], T u, C comm),
     (s, n, t, r, m, d, u, comm))
WRAP(NEIGHBOR, Neighbor_alltoall, (CB s, int n, T t, void *r, int m, T u, C comm),
     (s, n, t, r, m, u, comm))
WRAP(NEIGHBOR, Neighbor_alltoallv,
     (CB s, const int n[], const int d[], T t, void *r, const int m[], const int e[], T u, C comm),
     (s, n, d, t, r, m, e, u, comm))
WRAP(RMA, Win_fence, (int assert, MPI_Win win), (assert, win))
WRAP(RMA, Win_lock, (int type, int rank, int assert, MPI_Win win), (type, rank, assert, win))
WRAP(RMA, Win_unlock, (int rank, MPI_Win win), (rank, win))
WRAP(RMA, Win_lock_all, (int assert, MPI_Win win), (assert, win))
WRAP(RMA, Win_unlock_all, (MPI_Win win), (win))
WRAP(RMA, Win_flush, (int rank, MPI_Win win), (rank, win))
WRAP(RMA, Win_flush_all, (MPI_Win win), (win))
WRAP(RMA, Win_start, (MPI_Group group, int assert, MPI_Win win), (group, assert, win))
WRAP(RMA, Win_complete, (MPI_Win win), (win))
WRAP(RMA, Win_wait, (MPI_Win win), (win))
WRAP(RMA, Put, (CB s, int n, T t, int rank, MPI_Aint d, int m, T u, MPI_Win win),
     (s, n, t, rank, d, m, u, win))
WRAP(RMA, Get, (void *s, int n, T t, int rank, MPI_Aint d, int m, T u, MPI_Win win),
     (s, n, t, rank, d, m, u, win))
WRAP(RMA, Accumulate, (CB s, int n, T t, int rank, MPI_Aint d, int m, T u, MPI_Op op, MPI_Win win),
     (s, n, t, rank, d, m, u, op, win))
WRAP_COMPLETE(Wait, r, 1, (MPI_Request * r, MPI_Status *s), (r, s))
WRAP_COMPLETE(Waitall, r, n, (int n, MPI_Request r[], MPI_Status s[]), (n, r, s))
WRAP_COMPLETE(Waitany, r, n, (int n, MPI_Request r[], int *i, MPI_Status *s), (n, r, i, s))
WRAP_COMPLETE(Waitsome, r, n, (int n, MPI_Request r[], int *m, int i[], MPI_Status s[]),
	      (n, r, m, i, s))
WRAP_COMPLETE(Test, r, 1, (MPI_Request * r, int *flag, MPI_Status *s), (r, flag, s))
WRAP_COMPLETE(Testall, r, n, (int n, MPI_Request r[], int *flag, MPI_Status s[]), (n, r, flag, s))
WRAP_COMPLETE(Testany, r, n, (int n, MPI_Request r[], int *i, int *flag, MPI_Status *s),
	      (n, r, i, flag, s))
WRAP_COMPLETE(Testsome, r, n, (int n, MPI_Request r[], int *m, int i[], MPI_Status s[]),
	      (n, r, m, i, s))
/* clang-format on */
