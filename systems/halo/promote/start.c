/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/start.c: start and end of the promoter. It finds Open MPI's own functions and
 * decides whether anything can be promoted. It does the work inside MPI's progress. It ends all
 * channels of a communicator, or of the program.
 */
#include "halo/promote/calls.h"
#include "halo/api/variables.h"
#include "openmpi/version.h"

#include "ompi/mca/pml/base/base.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/proc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct hk_real hk_real;
const struct hk_service *hk_service;
const char *hk_service_why = "MPI_Init was not called";
bool hk_promote_watching;
int hk_promote_busy;

__attribute__((noreturn)) void hk_promote_abort(const char *cause)
{
	fprintf(stderr, "hikyaku_halo: %s; fix: run without LD_PRELOAD=libhikyaku_halo.so\n",
		cause);
	PMPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

/* Ends a program of another MPI: its MPI_Comm does not lead to what we read. A process without MPI,
 * such as a launcher, gets Open MPI's PMPI_Init with us, and runs on. */
static void refuse_other_mpis(void)
{
	Dl_info theirs, ours;

	if (!dladdr(dlsym(RTLD_NEXT, "PMPI_Init"), &theirs) ||
	    !dladdr((void *)(uintptr_t)ompi_mpi_init, &ours) || theirs.dli_fbase == ours.dli_fbase)
		return;
	fprintf(stderr,
		"hikyaku_halo: this program calls MPI in %s, and the promoter works with Open "
		"MPI's in %s only; fix: run it without LD_PRELOAD=libhikyaku_halo.so\n",
		theirs.dli_fname, ours.dli_fname);
	_exit(1);
}

/* Finds the real functions by their PMPI_ names, which Open MPI's Fortran functions call. The
 * promoter's functions have these names too; Open MPI's are the next ones. */
__attribute__((constructor)) static void find_real(void)
{
#define FIND(name)                                                                                 \
	*(void **)&hk_real.name = dlsym(RTLD_NEXT, "PMPI_" #name);                                 \
	if (!hk_real.name) {                                                                       \
		fprintf(stderr, "hikyaku_halo: Open MPI has no PMPI_" #name                        \
				"; fix: preload the library, do not open it later\n");             \
		abort();                                                                           \
	}
	HK_REAL_FUNCTIONS(FIND)
#undef FIND
	refuse_other_mpis();
}

int hk_promote_progress(void)
{
	static bool inside;

	if (HK_LIKELY(hk_promote_busy == 0) || inside)
		return 0;
	inside = true;
	hk_control_poll();
	hk_receiver_poll();
	hk_sender_poll();
	hk_pending_poll();
	inside = false;
	return 0;
}

/* The reason why this rank cannot promote; NULL: it can. */
static const char *obstacle(void)
{
	const char *transport = getenv("HK_HALO_TRANSPORT");
	struct hk_identity me;
	int level, size;

	PMPI_Query_thread(&level);
	PMPI_Comm_size(MPI_COMM_WORLD, &size);
	if (level == MPI_THREAD_MULTIPLE)
		return "the program asked for MPI_THREAD_MULTIPLE";
	if (transport && *transport && strcmp(transport, "auto") != 0 &&
	    strcmp(transport, "worker") != 0)
		return "HK_HALO_TRANSPORT is neither auto nor worker";
	if (strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "ob1") != 0)
		return "Open MPI's PML is not ob1";
	if ((int)opal_process_info.num_local_peers + 1 >= size)
		return "all ranks are on one node";
	hk_service = hk_service_find();
	if (!hk_service || !hk_service->identity(&me))
		return "this rank has not loaded Hikyaku's BTL";
	return NULL;
}

static const char companion[] = "libhikyaku_halo.so 1";

__attribute__((constructor)) static void announce(void)
{
	hk_service_announce_companion(companion);
}

static bool published_by(int rank)
{
	opal_process_name_t name = {OPAL_PROC_MY_NAME.jobid, (opal_vpid_t)rank};
	char *data = NULL;
	int rc, bytes;

	OPAL_MODEX_RECV_STRING(rc, HK_SERVICE_COMPANION_KEY, &name, &data, &bytes);
	bool same = rc == OPAL_SUCCESS && (size_t)bytes == sizeof(companion) &&
		    memcmp(data, companion, sizeof(companion)) == 0;

	free(data);
	return same;
}

/* Do all ranks have this library and the BTL? All ranks with the library get the same result; the
 * others do not call this. */
static bool everywhere(void)
{
	static char why[120];
	int me, size, lacks = -1;

	PMPI_Comm_rank(MPI_COMM_WORLD, &me);
	PMPI_Comm_size(MPI_COMM_WORLD, &size);
	if (!published_by(me))
		lacks = me; /* without the BTL; the others need not be checked */
	for (int rank = 0; lacks < 0 && rank < size; rank++)
		if (!published_by(rank))
			lacks = rank;
	if (lacks < 0)
		return true;
	snprintf(why, sizeof(why),
		 "rank %d has not preloaded this libhikyaku_halo.so, or not loaded Hikyaku's BTL",
		 lacks);
	if (!hk_service_why)
		hk_service_why = why;
	return false;
}

/* The report is off by default, so a misspelt variable has a line of its own. */
static void warn_of_misspelt_variables(void)
{
	struct hk_error err = {""};
	int me;

	PMPI_Comm_rank(MPI_COMM_WORLD, &me);
	if (me == 0 && hk_halo_check_variables(&err) != 0)
		fprintf(stderr, "hikyaku_halo: %s\n", err.text);
}

/* Collective: all ranks watch their messages, or none does. */
void hk_promote_start(void)
{
	int good, all;

	warn_of_misspelt_variables();
	hk_service_why = obstacle();
	if (!everywhere()) {
		hk_service = NULL;
		return;
	}
	good = !hk_service_why;
	PMPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (good && !all)
		hk_service_why = "another rank cannot";
	if (!all) {
		hk_service = NULL;
		return;
	}
	hk_control_open();
	opal_progress_register(hk_promote_progress);
	hk_promote_watching = true;
}

/* ---- the end --------------------------------------------------------------------------------- */

static bool unfinished; /* set by the poll functions below if a channel is not done */

static void end_senders(struct hk_comm *c)
{
	struct hk_sender *o;

	c->closing = true;
	for (uint32_t k = 0; (o = hk_table_next(&c->senders, &k));)
		hk_sender_end(o, NULL);
}

static void poll_proposals(struct hk_comm *c)
{
	struct hk_sender *o;

	for (uint32_t k = 0; (o = hk_table_next(&c->senders, &k));)
		unfinished |= o->state == HK_SENDER_PROPOSED;
}

static void poll_in_flight(struct hk_comm *c)
{
	struct hk_sender *o;

	for (uint32_t k = 0; (o = hk_table_next(&c->senders, &k));)
		unfinished |= hk_sender_in_flight(o);
	unfinished |= hk_receiver_any_waiting(c);
}

/* Receives that wait for a put get it before this returns. */
void hk_promote_close_comm(struct hk_comm *c)
{
	end_senders(c);
	for (unfinished = true; unfinished; opal_progress()) {
		unfinished = false;
		poll_proposals(c);
	}
	PMPI_Barrier(c->comm);
	for (unfinished = true; unfinished; opal_progress()) {
		unfinished = false;
		poll_in_flight(c);
	}
	hk_comm_free(c);
}

void hk_promote_stop(void)
{
	if (hk_promote_watching) {
		hk_comm_for_each(end_senders);
		for (unfinished = true; unfinished; opal_progress()) {
			unfinished = hk_pending_mpi_sends();
			hk_comm_for_each(poll_proposals);
		}
		hk_control_barrier();
		for (unfinished = true; unfinished; opal_progress()) {
			unfinished = hk_receiver_reporting();
			hk_comm_for_each(poll_in_flight);
		}
		hk_promote_watching = false;
		opal_progress_unregister(hk_promote_progress);
		hk_comm_for_each(hk_comm_free);
		hk_control_close();
	}
	hk_promote_report();
	hk_service = NULL;
}

/* ---- MPI's functions ------------------------------------------------------------------------- */

/* The program is about to free @comm. */
static void leave(const MPI_Comm *comm)
{
	struct hk_comm *c = comm && *comm != MPI_COMM_WORLD && *comm != MPI_COMM_SELF
				    ? hk_comm_watched(*comm)
				    : NULL;

	if (c)
		hk_promote_close_comm(c);
	else if (comm && hk_promote_watching)
		hk_comm_forget(*comm);
}

int MPI_Comm_free(MPI_Comm *comm)
{
	leave(comm);
	return hk_real.Comm_free(comm);
}
PMPI_ALIAS(Comm_free);

int MPI_Comm_disconnect(MPI_Comm *comm)
{
	leave(comm);
	return hk_real.Comm_disconnect(comm);
}
PMPI_ALIAS(Comm_disconnect);

int MPI_Init(int *argc, char ***argv)
{
	int rc = hk_real.Init(argc, argv);

	if (rc == MPI_SUCCESS)
		hk_promote_start();
	return rc;
}
PMPI_ALIAS(Init);

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int rc = hk_real.Init_thread(argc, argv, required, provided);

	if (rc == MPI_SUCCESS)
		hk_promote_start();
	return rc;
}
PMPI_ALIAS(Init_thread);

int MPI_Finalize(void)
{
	hk_promote_stop();
	return hk_real.Finalize();
}
PMPI_ALIAS(Finalize);
