/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/osc/runs.h: the memory that a count of a datatype names, as runs of elements that follow
 * each other. An element is a byte for put and get, and a predefined type for the others, whole
 * even if it has gaps.
 */
#ifndef HK_OSC_RUNS_H
#define HK_OSC_RUNS_H

#include "ompi_config.h"
#include "ompi/datatype/ompi_datatype.h"
#include "opal/datatype/opal_convertor.h"

#define HK_OSC_IOVS 32

struct hk_osc_runs {
	opal_convertor_t convertor;
	bool convertor_used;
	bool ended;      /* the convertor has no more */
	size_t extent;   /* bytes of an element in memory */
	size_t packed;   /* bytes of an element without gaps */
	size_t position; /* packed bytes that the convertor gave */
	struct iovec iov[HK_OSC_IOVS];
	uint32_t iovs, next; /* of these, and the next one */
	char *at;            /* the current run */
	size_t count;        /* its elements; 0: none is left */
	size_t total;        /* elements of all runs */
};

/* Begins at the first run of @count elements of @dt at @base. @element: the predefined type, or
 * NULL for bytes. Returns OMPI_SUCCESS, or an error if @dt has elements of other types. */
int hk_osc_runs_open(struct hk_osc_runs *r, void *base, int count, struct ompi_datatype_t *dt,
		     struct ompi_datatype_t *element);
void hk_osc_runs_close(struct hk_osc_runs *r);

/* Leaves out the next @n elements, at most `count`. */
void hk_osc_runs_take(struct hk_osc_runs *r, size_t n);

#endif
