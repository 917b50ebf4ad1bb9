/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/registrar.h: tells the job's registrar, beside its mpirun, where a rank is, and asks it for groups
 * (python/hikyaku/sdn/registrar.py); the registrar tells the controller.
 *
 * One connection for each call, one line each way. @address: "SECRET@/path/of/a/socket" or "SECRET@HOST:PORT". Every
 * call waits, some seconds at the most, and changes no state here; any thread.
 */
#ifndef HK_HOST_REGISTRAR_H
#define HK_HOST_REGISTRAR_H

#include "base/common.h"
#include "base/error.h"

#define HK_REGISTRAR_WAIT_S 8 /* for an answer */

/* "SECRET RANK,RANK,… MAC": when it returns 0, the controller knows that these @n ranks have this address; else, that
 * none of them has. */
int hk_registrar_tell(const char *address, const uint32_t *ranks, size_t n, uint64_t mac,
		      struct hk_error *err);

/* "SECRET heard RANK": has the network heard of that address, so that it sends there? 0 if so, -EAGAIN: not yet. */
int hk_registrar_heard(const char *address, uint32_t rank, struct hk_error *err);

/* "SECRET group RANK,RANK,…": when it returns 0, frames to @group reach these @n ranks of the job's MPI_COMM_WORLD.
 * Who asks for the same ranks gets the same group. */
int hk_registrar_group(const char *address, const uint32_t *ranks, size_t n, uint32_t *group,
		       struct hk_error *err);

/* "SECRET drop GROUP": who asked for it needs it no more. */
int hk_registrar_drop(const char *address, uint32_t group, struct hk_error *err);

#endif
