/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/coll.h: a collective, blocking or not, by one call. COLL(MPI_Bcast, MPI_Ibcast, …)
 * calls the one that `nonblocking` chooses and completes it. It notes the call for the watchdog.
 */
#ifndef HKT_COLL_H
#define HKT_COLL_H

#include "common.h"

static bool nonblocking;

#define COLL(blocking_name, nonblocking_name, ...)                                                 \
	do {                                                                                       \
		hkt_at("%s", nonblocking ? #nonblocking_name : #blocking_name);                    \
		if (nonblocking) {                                                                 \
			MPI_Request r_;                                                            \
			nonblocking_name(__VA_ARGS__, &r_);                                        \
			MPI_Wait(&r_, MPI_STATUS_IGNORE);                                          \
		} else {                                                                           \
			blocking_name(__VA_ARGS__);                                                \
		}                                                                                  \
	} while (0)

#endif
