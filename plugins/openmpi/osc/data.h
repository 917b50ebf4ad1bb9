/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/osc/data.h: calls that write or read a window's memory: PUT, GET, ACC, GET_ACC and CAS of
 * protocol.h. Others wrote them, so everything is checked before any of it is carried out. The
 * window's state is entered (hk_osc_state_enter()).
 */
#ifndef HK_OSC_DATA_H
#define HK_OSC_DATA_H

#include "openmpi/osc/target.h"

struct ompi_op_t;
struct ompi_datatype_t;

/* A call for data, as its arguments say. */
struct hk_osc_data {
	enum hk_osc_kind kind;
	struct ompi_op_t *op;
	struct ompi_datatype_t *type; /* predefined; of PUT and GET it is one byte */
	size_t extent;                /* bytes of an element in memory */
	unsigned runs;
	const char *args; /* the runs */
	const char *data; /* the elements behind them */
	size_t data_len;
	size_t total; /* bytes of all runs; at most t->rpc->max() */
};

/* Learns Open MPI's predefined types and operations. Call it before the others. */
void hk_osc_data_open(void);

/* The number of @type in a call. It is predefined, or a type of MPI_Type_create_f90_real() and its
 * relatives, which is the same as a predefined one. */
unsigned hk_osc_type_index(const struct ompi_datatype_t *type);

/* Reads @call, whose `len` bytes of arguments lie at @args. False: it is not valid. */
bool hk_osc_data_parse(const struct hk_osc_target *t, const struct hk_wire_atomic *call,
		       const void *args, struct hk_osc_data *a);

/* Carries it out. Returns how many bytes it stored at @result, 0 or `total`. @result does not
 * overlap the arguments. */
uint32_t hk_osc_data_run(const struct hk_osc_target *t, const struct hk_osc_data *a, char *result);

#endif
