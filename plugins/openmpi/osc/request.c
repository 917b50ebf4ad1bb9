/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/request.c: requests of rput and its relatives. */
#include "openmpi/osc/osc_hikyaku.h"

void hk_osc_request_free(struct hk_osc_request *r)
{
	OMPI_REQUEST_FINI(&r->super); /* Fortran may have a number for it */
	OBJ_RELEASE(r);
}

static int request_free(struct ompi_request_t **request)
{
	hk_osc_request_free((struct hk_osc_request *)*request);
	*request = MPI_REQUEST_NULL;
	return OMPI_SUCCESS;
}

static int request_cancel(struct ompi_request_t *request, int complete)
{
	(void)request;
	(void)complete;
	return MPI_ERR_REQUEST; /* MPI 3.1, 11.3.4: it is erroneous */
}

static void construct(struct hk_osc_request *r)
{
	r->super.req_type = OMPI_REQUEST_WIN;
	r->super.req_free = request_free;
	r->super.req_cancel = request_cancel;
	r->super.req_status = ompi_status_empty; /* MPI defines its error alone */
}

OBJ_CLASS_INSTANCE(hk_osc_request, ompi_request_t, construct, NULL);

struct hk_osc_request *hk_osc_request_new(struct ompi_win_t *win)
{
	struct hk_osc_request *r = OBJ_NEW(hk_osc_request);

	if (!r)
		return NULL;
	OMPI_REQUEST_INIT(&r->super, false);
	r->super.req_mpi_object.win = win;
	r->super.req_state = OMPI_REQUEST_ACTIVE;
	r->super.req_status.MPI_ERROR = MPI_SUCCESS;
	r->parts = 1;
	return r;
}

void hk_osc_request_part_ended(struct hk_osc_request *r, int error)
{
	if (error != OMPI_SUCCESS)
		r->super.req_status.MPI_ERROR = error;
	if (--r->parts == 0)
		ompi_request_complete(&r->super, true);
}
