/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/halo_errors.c: set-up reports wrong edges on all ranks, with the ranks and the edge.
 *
 * After each error a correct exchange works.
 *
 *     --mode stop       the last rank stops during an exchange; the others' wait must end
 *     --mode late       the last rank is too late for HK_HALO_TIMEOUT
 *     --mode gives-up   a rank frees an exchange that has not ended
 *     --mode behind     a rank puts after it has received a message that the other sent before
 */
#include "common.h"

#include "hikyaku/halo.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define DOUBLES 2000 /* so many that shared memory writes them directly */

static double out[DOUBLES], in[DOUBLES];

/* MPI's function, or the error that the test sets. */
static int test_fails;

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
	return test_fails ? test_fails : PMPI_Test(request, flag, status);
}

static struct hk_halo_edge edge(int peer, int tag, double *send, int sends, double *recv, int recvs)
{
	return (struct hk_halo_edge){peer, tag, send, sends, MPI_DOUBLE, recv, recvs, MPI_DOUBLE};
}

/* Only the first two ranks have edges. @parts: texts that the error must contain. */
static void refused(const char *what, int n, const struct hk_halo_edge *e, const char *const *parts)
{
	hk_halo h = (hk_halo)out;

	hkt_at("%s", what);
	int rc = hk_halo_setup(MPI_COMM_WORLD, hkt_rank < 2 ? n : 0, e, &h);

	HKT_CHECK(rc == -EINVAL && h == NULL, "%s: status %d", what, rc);
	for (; *parts; parts++)
		HKT_CHECK(strstr(hk_halo_error(), *parts), "%s: '%s' lacks '%s'", what,
			  hk_halo_error(), *parts);
	HKT_CHECK(strstr(hk_halo_error(), "; fix: "), "%s: no fix in '%s'", what, hk_halo_error());
	/* a program that did not look at the result */
	int which[8];
	HKT_CHECK(hk_halo_put(h) == -EINVAL && hk_halo_wait(h) == -EINVAL &&
			  hk_halo_ready(h, 0) == -EINVAL && hk_halo_wait_some(h, which) == -EINVAL,
		  "a handle of a failed set-up is refused");
	HKT_CHECK(strstr(hk_halo_error(), "its set-up failed"), "'%s'", hk_halo_error());
}
#define REFUSED(what, n, e, ...) refused(what, n, e, (const char *const[]){__VA_ARGS__, NULL})

static void good(void)
{
	int left = (hkt_rank + hkt_size - 1) % hkt_size, right = (hkt_rank + 1) % hkt_size;
	struct hk_halo_edge e[2] = {edge(left, 1, out, 0, in, 8), edge(right, 1, out, 8, in, 0)};
	hk_halo h;

	HKT_CHECK(hk_halo_setup(MPI_COMM_WORLD, 2, e, &h) == 0, "%s", hk_halo_error());
	for (int x = 0; x < 3; x++) {
		for (int k = 0; k < 8; k++)
			out[k] = 100 * hkt_rank + 10 * x + k;
		HKT_CHECK(hk_halo_put(h) == 0 && hk_halo_wait(h) == 0, "%s", hk_halo_error());
		for (int k = 0; k < 8; k++)
			HKT_CHECK(in[k] == 100 * left + 10 * x + k, "element %d is %g", k, in[k]);
		HKT_CHECK(hk_halo_wait(h) == 0, "wait after wait");
		HKT_CHECK(hk_halo_ready(h, 2) == -EINVAL, "edge 2 of 2");
	}
	HKT_CHECK(hk_halo_free(&h) == 0 && hk_halo_free(&h) == 0, "%s", hk_halo_error());
}

static void wrong_edges(void)
{
	bool first = hkt_rank == 0;
	int peer = !hkt_rank;
	struct hk_halo_edge e[3];

	e[0] = edge(peer, 5, out, 3, in, 3);
	e[1] = edge(peer, 7, out, first ? 10 : 0, in, first ? 0 : 9);
	REFUSED("sizes that differ", 2, e, "rank 0, edge 1", "rank 1, edge 1", "80", "72", "tag 7");
	good();
	e[1] = edge(peer, 7, out, first ? 4 : 0, in, 0);
	REFUSED("a send that nobody receives", 2, e, "rank 0, edge 1", "rank 1", "tag 7",
		"no such edge");
	e[1] = edge(peer, 7, out, 0, in, first ? 0 : 4);
	REFUSED("a receive that nobody sends", 2, e, "rank 1, edge 1", "rank 0", "tag 7",
		"no such edge");
	REFUSED("one end alone", first ? 2 : 0, e, "rank 0", "rank 1", "no such edge");
	e[0] = edge(peer, 5, out, 3, in, 3);
	e[1] = edge(peer, first ? 6 : 7, out, 2, in + 8, 2);
	REFUSED("tags that differ", 2, e, "rank 0, edge 1", "rank 1", "tag 6", "no such edge");
	e[1] = edge(peer, 7, out, 3, in + 2, 3);
	REFUSED("receive buffers that overlap", 2, e, "rank 0", "edge 0", "edge 1", "receives from",
		"overlaps");
	e[2] = edge(peer, 8, out, 1, NULL, 0);
	e[2].send_type = MPI_DOUBLE_INT; /* which has a hole */
	REFUSED("receive buffers that overlap, and a type of unknown layout", 3, e, "rank 0",
		"edge 0", "edge 1", "receives from", "overlaps");
	e[1] = edge(peer, 7, in + 1, 2, in + 8, 2);
	REFUSED("a send buffer that is received to", 2, e, "edge 0", "edge 1", "sends to",
		"overlaps");
	e[1] = edge(hkt_size, 7, out, 1, in, 1);
	REFUSED("a rank outside the communicator", 2, e, "edge 1");
	e[1] = edge(peer, -1, out, 1, in, 1);
	REFUSED("a negative tag", 2, e, "edge 1", "-1");
	e[1] = edge(peer, 1, NULL, 1, in + 8, 1);
	REFUSED("no address", 2, e, "edge 1", "no address");
	e[1] = edge(peer, 1, out, 1, in + 8, -1);
	REFUSED("a negative count", 2, e, "edge 1", "negative");
	e[1].recv_count = 1;
	e[1].recv_type = MPI_DATATYPE_NULL;
	REFUSED("no type", 2, e, "edge 1", "no type");
	REFUSED("no edges at an address", first ? 1 : 0, NULL, "rank 0");
	good();
	setenv("HK_HALO_TRANSPORT", "telegraph", 1);
	REFUSED("an unknown transport", 0, NULL, "telegraph", "HK_HALO_TRANSPORT");
	unsetenv("HK_HALO_TRANSPORT");
}

/* A program with MPI_ERRORS_RETURN gets MPI's errors as results. */
static void error_of_mpi(void)
{
	struct hk_halo_edge e = edge(!hkt_rank, 1, out, 8, in, 8);
	hk_halo h;

	hkt_at("an error of MPI");
	setenv("HK_HALO_TRANSPORT", "mpi", 1);
	HKT_CHECK(hk_halo_setup(MPI_COMM_WORLD, hkt_rank < 2, &e, &h) == 0, "%s", hk_halo_error());
	unsetenv("HK_HALO_TRANSPORT");
	HKT_CHECK(hk_halo_put(h) == 0, "%s", hk_halo_error());
	test_fails = MPI_ERR_TRUNCATE;
	int rc = hk_halo_wait(h);

	test_fails = 0;
	HKT_CHECK(rc == (hkt_rank < 2 ? -EIO : 0), "status %d", rc);
	HKT_CHECK(hkt_rank >= 2 || strstr(hk_halo_error(), "TRUNCATE"), "%s", hk_halo_error());
	HKT_CHECK(hk_halo_free(&h) == rc, "%s", hk_halo_error());
}

/* One element of @type goes around the ring. */
static void around_the_ring(MPI_Datatype type)
{
	int left = (hkt_rank + hkt_size - 1) % hkt_size, right = (hkt_rank + 1) % hkt_size;
	struct hk_halo_edge e[2] = {
		{.peer = left, .recv = in, .recv_count = 1, .recv_type = type},
		{.peer = right, .send = out, .send_count = 1, .send_type = type}};
	hk_halo h;

	HKT_CHECK(hk_halo_setup(MPI_COMM_WORLD, 2, e, &h) == 0, "%s", hk_halo_error());
	out[0] = hkt_rank + 0.5;
	HKT_CHECK(hk_halo_put(h) == 0 && hk_halo_wait(h) == 0, "%s", hk_halo_error());
	HKT_CHECK(in[0] == left + 0.5, "%g came from rank %d", in[0], left);
	HKT_CHECK(hk_halo_free(&h) == 0, "%s", hk_halo_error());
}

static void seldom_types(void)
{
	MPI_Datatype real, type;

	hkt_at("a type of Fortran's kinds");
	MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real);
	around_the_ring(real);
	MPI_Type_contiguous(1, real, &type);
	MPI_Type_commit(&type);
	around_the_ring(type);
	MPI_Type_free(&type);
	hkt_at("a type that is not committed");
	MPI_Type_contiguous(1, MPI_DOUBLE, &type);
	around_the_ring(type);
	MPI_Type_free(&type);
}

/* All blocks of the type have the same address. */
static void more_than_2_gib(void)
{
	struct hk_halo_edge e = edge(!hkt_rank, 3, out, 1, in, 1);
	MPI_Datatype block, folded;

	char *place = hkt_alloc(1 << 20);

	MPI_Type_contiguous(1 << 20, MPI_BYTE, &block);
	MPI_Type_create_hvector(2049, 1, 0, block, &folded);
	MPI_Type_commit(&folded);
	if (hkt_rank == 0) {
		e.send = place;
		e.send_type = folded;
	}
	REFUSED("a send of more than 2 GiB", 1, &e, "rank 0, edge 0 sends 2148532224 bytes",
		"rank 1, edge 0 receives 8");
	MPI_Type_free(&folded);
	MPI_Type_free(&block);
	free(place);
}

/* The last rank leaves during an exchange. Its neighbours' wait must end and name it. */
static void away(bool stops)
{
	int peer = (hkt_rank + 1) % hkt_size, rc;
	int from = (hkt_rank + hkt_size - 1) % hkt_size;
	struct hk_halo_edge e[2] = {edge(from, 1, out, 0, in, 8), edge(peer, 1, out, 8, in, 0)};
	char name[32];
	hk_halo h;

	if (!stops)
		setenv("HK_HALO_TIMEOUT", "0.5", 1);
	HKT_CHECK(hk_halo_setup(MPI_COMM_WORLD, 2, e, &h) == 0, "%s", hk_halo_error());
	HKT_CHECK(hk_halo_put(h) == 0 && hk_halo_wait(h) == 0, "%s", hk_halo_error());
	if (hkt_rank == hkt_size - 1) {
		fprintf(stderr, "LEAVING rank %d\n", hkt_rank);
		if (stops)
			raise(SIGSTOP);
		sleep(3);
	}
	HKT_CHECK(hk_halo_put(h) == 0, "%s", hk_halo_error());
	rc = hk_halo_wait(h);
	if (!stops && hkt_rank < hkt_size - 1) {
		snprintf(name, sizeof(name), "for rank %d;", hkt_size - 1);
		HKT_CHECK(rc == -ETIMEDOUT && (hkt_size > 2 || strstr(hk_halo_error(), name)),
			  "%d: %s", rc, hk_halo_error());
		rc = hk_halo_wait(h); /* it may wait again */
		while (rc == -ETIMEDOUT)
			rc = hk_halo_wait(h);
	}
	HKT_CHECK(rc == 0, "%s", hk_halo_error());
	HKT_CHECK(hk_halo_free(&h) == 0, "%s", hk_halo_error());
}

/* Rank 1 receives an element of rank 0. */
static void wrong_plans(void)
{
	long long column[2] = {hkt_rank, 0};
	int local[2], ghosts, entries = hkt_rank == 1 ? 2 : 1;
	void *vector = hkt_rank == 1 ? NULL : out;
	MPI_Comm half, inter;
	hk_halo_csr_plan plan;
	hk_halo h;

	hkt_at("a vector without an address");
	HKT_CHECK(hk_halo_csr(MPI_COMM_WORLD, 1, entries, column, local, &ghosts, &plan) == 0, "%s",
		  hk_halo_error());
	HKT_CHECK(hk_halo_csr_setup(plan, 1, &vector, MPI_DOUBLE, &h) == -EINVAL && !h, "content");
	HKT_CHECK(strstr(hk_halo_error(), "rank 1, vector 0"), "%s", hk_halo_error());
	hk_halo_csr_free(&plan);
	hkt_at("a communicator of two groups");
	MPI_Comm_split(MPI_COMM_WORLD, hkt_rank > 0, 0, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, hkt_rank == 0, 9, &inter);
	HKT_CHECK(hk_halo_csr(inter, 1, 1, column, local, &ghosts, &plan) == -EINVAL && !plan,
		  "content");
	HKT_CHECK(strstr(hk_halo_error(), "two groups"), "%s", hk_halo_error());
	MPI_Comm_free(&inter);
	MPI_Comm_free(&half);
}

/* Rank 1 puts after it has received a long message that rank 0 sent before its put. */
static void behind(void)
{
	enum { LONG = 4 << 20 };
	struct hk_halo_edge e = edge(!hkt_rank, 1, out, 8, in, 8);
	char *message = hkt_alloc(LONG);
	MPI_Request q;
	hk_halo h;

	for (int k = 0; k < 4; k++) {
		HKT_CHECK(hk_halo_setup(MPI_COMM_WORLD, hkt_rank < 2, &e, &h) == 0, "%s",
			  hk_halo_error());
		if (hkt_rank == 0)
			MPI_Isend(message, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &q);
		else if (hkt_rank == 1)
			MPI_Recv(message, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		HKT_CHECK(hk_halo_put(h) == 0 && hk_halo_wait(h) == 0, "%s", hk_halo_error());
		if (hkt_rank == 0)
			MPI_Wait(&q, MPI_STATUS_IGNORE);
		HKT_CHECK(hk_halo_free(&h) == 0, "%s", hk_halo_error());
	}
	free(message);
}

/* Rank 0 frees an exchange that has not ended; rank 1 puts to it after that. */
static void gives_up(void)
{
	struct hk_halo_edge e = edge(!hkt_rank, 1, out, DOUBLES, in, DOUBLES);
	hk_halo h;

	setenv("HK_HALO_TIMEOUT", hkt_rank == 0 ? "0.2" : "", 1);
	HKT_CHECK(hk_halo_setup(MPI_COMM_WORLD, hkt_rank < 2, &e, &h) == 0, "%s", hk_halo_error());
	for (int k = 0; k < DOUBLES; k++)
		out[k] = 1000 + hkt_rank;
	if (hkt_rank == 0) {
		HKT_CHECK(hk_halo_put(h) == 0, "%s", hk_halo_error());
		HKT_CHECK(hk_halo_wait(h) == -ETIMEDOUT, "%s", hk_halo_error());
		HKT_CHECK(hk_halo_free(&h) == -ETIMEDOUT && !h, "%s", hk_halo_error());
		for (int k = 0; k < DOUBLES; k++)
			in[k] = 7;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (hkt_rank > 0) {
		HKT_CHECK(hk_halo_put(h) == 0 && hk_halo_wait(h) == 0, "%s", hk_halo_error());
		HKT_CHECK(hk_halo_free(&h) == 0, "%s", hk_halo_error());
	}
	MPI_Barrier(MPI_COMM_WORLD);
	for (int k = 0; k < DOUBLES; k++)
		HKT_CHECK(hkt_rank || in[k] == 7, "element %d is %g after it was freed", k, in[k]);
	for (int k = 0; k < 4; k++)
		good(); /* it receives no message of the freed exchange */
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "halo_errors", MPI_THREAD_SINGLE);
	if (hkt_opt.mode && strcmp(hkt_opt.mode, "gives-up") == 0) {
		gives_up();
	} else if (hkt_opt.mode && strcmp(hkt_opt.mode, "behind") == 0) {
		behind();
	} else if (hkt_opt.mode) {
		away(strcmp(hkt_opt.mode, "stop") == 0);
	} else {
		good();
		wrong_edges();
		error_of_mpi();
		seldom_types();
		wrong_plans();
		more_than_2_gib();
		good();
	}
	return hkt_finish();
}
