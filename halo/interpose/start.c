/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/start.c: Open MPI's own functions; whether anything can be promoted at all; what runs within MPI's
 * progress; and how all of it ends, with a communicator and with MPI.
 */
#include "halo/interpose/calls.h"

#include "ompi/mca/pml/base/base.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/mca/pmix/pmix.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/proc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hk_real hk_real;
const struct hk_btl_service *hk_service;
const char *hk_service_why = "MPI_Init was not called";
bool hk_watching;
int hk_busy;

__attribute__((noreturn)) void hk_broken(const char *what)
{
	fprintf(stderr, "hikyaku_halo: %s; fix: run without LD_PRELOAD=libhikyaku_halo.so\n", what);
	PMPI_Abort(MPI_COMM_WORLD, 1);
	abort();
}

/* PMPI_ names, since Fortran's functions call those: ours have these names too, and the next after ours are real. */
__attribute__((constructor)) static void find_real(void)
{
#define FIND(name)                                                                                 \
	*(void **)&hk_real.name = dlsym(RTLD_NEXT, "PMPI_" #name);                                 \
	if (!hk_real.name) {                                                                       \
		fprintf(stderr, "hikyaku_halo: there is no PMPI_" #name                            \
				" of Open MPI; fix: preload the library, do not open it later\n"); \
		abort();                                                                           \
	}
	HK_REAL_FUNCTIONS(FIND)
#undef FIND
}

int hk_progress(void)
{
	static bool inside;

	if (HK_LIKELY(hk_busy == 0) || inside)
		return 0;
	inside = true;
	hk_control_poll();
	hk_in_poll();
	hk_out_poll();
	hk_pending_poll();
	inside = false;
	return 0;
}

static const char *obstacle(void)
{
	const char *backend = getenv("HK_HALO_BACKEND");
	struct hk_btl_identity me;
	int level, size;

	PMPI_Query_thread(&level);
	PMPI_Comm_size(MPI_COMM_WORLD, &size);
	if (level == MPI_THREAD_MULTIPLE)
		return "the program asked for MPI_THREAD_MULTIPLE";
	if (backend && *backend && strcmp(backend, "auto") != 0 && strcmp(backend, "fabric") != 0)
		return "HK_HALO_BACKEND is neither auto nor fabric";
	if (strcmp(mca_pml_base_selected_component.pmlm_version.mca_component_name, "ob1") != 0)
		return "Open MPI's PML is not ob1";
	if (opal_process_info.num_local_peers + 1 >= size)
		return "all ranks are on one node";
	hk_service = hk_btl_service_find();
	if (!hk_service || !hk_service->identity(&me))
		return "this rank has not loaded Hikyaku's BTL";
	return NULL;
}

extern const char HK_BTL_EVERYWHERE[];
__attribute__((visibility("default"))) const char HK_BTL_EVERYWHERE[] = "libhikyaku_halo.so 1";

static bool published_by(int rank)
{
	opal_process_name_t name = {OPAL_PROC_MY_NAME.jobid, (opal_vpid_t)rank};
	char *data = NULL;
	int rc, bytes;

	OPAL_MODEX_RECV_STRING(rc, HK_BTL_EVERYWHERE_KEY, &name, &data, &bytes);
	bool same = rc == OPAL_SUCCESS && (size_t)bytes == sizeof(HK_BTL_EVERYWHERE) &&
		    memcmp(data, HK_BTL_EVERYWHERE, sizeof(HK_BTL_EVERYWHERE)) == 0;

	free(data);
	return same;
}

/* Has each rank this library, and the BTL? All that have the library find the same, and no other takes part. */
static bool everywhere(void)
{
	static char why[120];
	int me, size, lacks = -1;

	PMPI_Comm_rank(MPI_COMM_WORLD, &me);
	PMPI_Comm_size(MPI_COMM_WORLD, &size);
	if (!published_by(me))
		lacks = me; /* without the BTL: nobody else needs to be asked */
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

/* All ranks watch, or none does. */
void hk_start(void)
{
	int good, all;

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
	opal_progress_register(hk_progress);
	hk_watching = true;
}

/* ---- the end ----------------------------------------------------------------------------------------------- */

static bool left; /* something that each_left() looked at */

static void end_outs(struct hk_comm *c)
{
	struct hk_sender *o;

	c->closing = true;
	for (uint32_t k = 0; (o = hk_table_next(&c->out, &k));)
		hk_out_end(o, NULL);
}

static void look_unanswered(struct hk_comm *c)
{
	struct hk_sender *o;

	for (uint32_t k = 0; (o = hk_table_next(&c->out, &k));)
		left |= o->state == HK_OUT_PROPOSED;
}

static void look_under_way(struct hk_comm *c)
{
	struct hk_sender *o;

	for (uint32_t k = 0; (o = hk_table_next(&c->out, &k));)
		left |= hk_out_flies(o);
	left |= hk_in_waits(c);
}

/* Ends all channels of @c, on all its ranks. Receives that wait for a put have it then. */
void hk_close(struct hk_comm *c)
{
	end_outs(c);
	for (left = true; left; opal_progress()) {
		left = false;
		look_unanswered(c);
	}
	PMPI_Barrier(c->comm);
	for (left = true; left; opal_progress()) {
		left = false;
		look_under_way(c);
	}
	hk_comm_gone(c);
}

void hk_stop(void)
{
	if (hk_watching) {
		hk_comm_each(end_outs);
		for (left = true; left; opal_progress()) {
			left = hk_pending_sends_behind();
			hk_comm_each(look_unanswered);
		}
		hk_control_barrier();
		for (left = true; left; opal_progress()) {
			left = hk_in_telling();
			hk_comm_each(look_under_way);
		}
		hk_watching = false;
		opal_progress_unregister(hk_progress);
		hk_comm_each(hk_comm_gone);
		hk_control_close();
	}
	hk_report();
	hk_service = NULL;
}

/* ---- MPI's functions -------------------------------------------------------------------------------------- */

/* The program is about to give @comm back. */
static void leave(const MPI_Comm *comm)
{
	struct hk_comm *c = comm && *comm != MPI_COMM_WORLD && *comm != MPI_COMM_SELF
				    ? hk_watched(*comm)
				    : NULL;

	if (c)
		hk_close(c);
	else if (comm && hk_watching)
		hk_comm_forget(*comm);
}

int MPI_Comm_free(MPI_Comm *comm)
{
	leave(comm);
	return hk_real.Comm_free(comm);
}
ALSO(Comm_free);

int MPI_Comm_disconnect(MPI_Comm *comm)
{
	leave(comm);
	return hk_real.Comm_disconnect(comm);
}
ALSO(Comm_disconnect);

int MPI_Init(int *argc, char ***argv)
{
	int rc = hk_real.Init(argc, argv);

	if (rc == MPI_SUCCESS)
		hk_start();
	return rc;
}
ALSO(Init);

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int rc = hk_real.Init_thread(argc, argv, required, provided);

	if (rc == MPI_SUCCESS)
		hk_start();
	return rc;
}
ALSO(Init_thread);

int MPI_Finalize(void)
{
	hk_stop();
	return hk_real.Finalize();
}
ALSO(Finalize);
