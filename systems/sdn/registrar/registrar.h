/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/registrar/registrar.h: a rank's interface to the job's registrar, which runs beside mpirun
 * (python/hikyaku/sdn/registrar.py). A rank registers its address and asks for multicast groups;
 * the registrar passes both on to the controller.
 *
 * Each call opens one connection and exchanges one line each way. @address is
 * "SECRET@/path/of/a/socket" or "SECRET@HOST:PORT". Every call may block for some seconds. There is
 * no state; any thread may call.
 *
 * Errors: a negative errno, with a sentence in @err.
 */
#ifndef HK_REGISTRAR_REGISTRAR_H
#define HK_REGISTRAR_REGISTRAR_H

#include "base/common.h"
#include "hikyaku/error.h"

#define HK_REGISTRAR_WAIT_S 8 /* longest wait for an answer, in seconds */

/* Registers the address @mac for these @n ranks; sends "SECRET RANK,RANK,… MAC". On success, the
 * controller knows the address of all of them. On failure, it knows that of none. */
int hk_registrar_register(const char *address, const uint32_t *ranks, size_t n, uint64_t mac,
			  struct hk_error *err);

/* Asks whether the network has located the rank's address, so that it delivers frames there; sends
 * "SECRET located RANK". 0: yes; -EAGAIN: not yet. */
int hk_registrar_located(const char *address, uint32_t rank, struct hk_error *err);

/* Requests a group; sends "SECRET group RANK,RANK,…". On success, frames to @group reach these @n
 * ranks of MPI_COMM_WORLD. Callers that ask for the same ranks get the same group. */
int hk_registrar_group(const char *address, const uint32_t *ranks, size_t n, uint32_t *group,
		       struct hk_error *err);

/* Returns a group that the caller has requested; sends "SECRET drop GROUP". */
int hk_registrar_group_drop(const char *address, uint32_t group, struct hk_error *err);

#endif
