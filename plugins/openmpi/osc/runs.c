/* SPDX-License-Identifier: BSD-3-Clause */
/* openmpi/osc/runs.c: a datatype's memory as runs of elements (runs.h). */
#include "openmpi/osc/runs.h"

#include "ompi/constants.h"

#include "base/common.h"

extern opal_convertor_t *ompi_mpi_local_convertor;

/* Fetches the next pieces of memory. False: there are none. */
static bool fetch(struct hk_osc_runs *r)
{
	size_t len = SIZE_MAX;

	if (r->ended)
		return false;
	r->iovs = HK_OSC_IOVS;
	r->next = 0;
	r->ended = opal_convertor_raw(&r->convertor, r->iov, &r->iovs, &len) == 1;
	return r->iovs > 0;
}

/* Sets the next run. A piece of memory may begin or end within an element that has gaps. */
static void advance(struct hk_osc_runs *r)
{
	r->count = 0;
	while (r->count == 0 && r->convertor_used && (r->next < r->iovs || fetch(r))) {
		const struct iovec *v = &r->iov[r->next++];
		size_t inside = r->position % r->packed;
		size_t skip = inside ? r->packed - inside : 0;

		r->position += v->iov_len;
		if (skip >= v->iov_len)
			continue;
		r->at = (char *)v->iov_base + skip;
		r->count = (v->iov_len - skip + r->packed - 1) / r->packed;
	}
}

int hk_osc_runs_open(struct hk_osc_runs *r, void *base, int count, ompi_datatype_t *dt,
		     ompi_datatype_t *element)
{
	ptrdiff_t lb, extent, true_lb, true_extent;
	size_t size;

	/* not the whole: most runs need no convertor */
	r->convertor_used = r->ended = false;
	r->extent = r->packed = 1;
	r->position = r->count = r->total = 0;
	r->iovs = r->next = 0;
	ompi_datatype_type_size(dt, &size);
	if (element) {
		ompi_datatype_type_size(element, &r->packed);
		ompi_datatype_get_extent(element, &lb, &extent);
		r->extent = (size_t)extent;
	}
	size *= (size_t)count;
	if (size == 0)
		return OMPI_SUCCESS;
	if (!r->packed || size % r->packed)
		return OMPI_ERR_BAD_PARAM;
	r->total = size / r->packed;
	if (element == dt || (r->extent == r->packed &&
			      opal_datatype_is_contiguous_memory_layout(&dt->super, count))) {
		ompi_datatype_get_true_extent(dt, &true_lb, &true_extent);
		r->at = (char *)base + true_lb;
		r->count = r->total;
		return OMPI_SUCCESS;
	}
	OBJ_CONSTRUCT(&r->convertor, opal_convertor_t);
	r->convertor_used = true;
	if (opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &dt->super,
						     (size_t)count, base, 0,
						     &r->convertor) != OPAL_SUCCESS) {
		hk_osc_runs_close(r);
		return OMPI_ERR_BAD_PARAM;
	}
	advance(r);
	return OMPI_SUCCESS;
}

void hk_osc_runs_close(struct hk_osc_runs *r)
{
	if (r->convertor_used)
		OBJ_DESTRUCT(&r->convertor);
	r->convertor_used = false;
}

void hk_osc_runs_take(struct hk_osc_runs *r, size_t n)
{
	r->at += n * r->extent;
	r->count -= n;
	if (HK_UNLIKELY(r->count == 0))
		advance(r);
}
