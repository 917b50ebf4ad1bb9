/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/registrar/registrar.h: a rank's interface to the job's registrar, which runs beside mpirun
 * (python/hikyaku/sdn/registrar.py). A rank registers its address and asks for multicast groups;
 * the registrar passes both on to the controller.
 *
 * Each call opens one connection, on which the registrar sends a nonce. Request and answer are one
 * line each, after a HMAC-SHA256 over the nonce and the line, whose key is the job's secret. So the
 * secret itself is never sent, and no recorded line counts again.
 *
 * @address is "/path/of/a/socket" or "HOST:PORT". The secret is in the environment, which `mpirun`
 * passes on to ranks (HK_REGISTRAR_SECRET_ENV). A process that got it otherwise writes
 * "SECRET@ADDRESS". Every call may block for some seconds. There is no state; any thread may call.
 *
 * Errors: a negative errno, with a sentence in @err.
 */
#ifndef HK_REGISTRAR_REGISTRAR_H
#define HK_REGISTRAR_REGISTRAR_H

#include "base/common.h"
#include "hikyaku/error.h"

#define HK_REGISTRAR_WAIT_S 8 /* longest wait for an answer, in seconds */
/* Open MPI passes variables that begin with OMPI_ on to ranks by its own connections. Those that
 * begin with OMPI_MCA_ it also writes into command lines. */
#define HK_REGISTRAR_SECRET_ENV "OMPI_HIKYAKU_SECRET"
#define HK_REGISTRAR_SECRET_MAX 68 /* bytes of a secret, with its end */

/* Registers the address @mac for these @n ranks; sends "RANK,RANK,… MAC". On success, the
 * controller knows the address of all of them. On failure, it knows that of none. */
int hk_registrar_register(const char *address, const uint32_t *ranks, size_t n, uint64_t mac,
			  struct hk_error *err);

/* Asks whether the network has located the rank's address, so that it delivers frames there; sends
 * "located RANK". 0: yes; -EAGAIN: not yet. */
int hk_registrar_located(const char *address, uint32_t rank, struct hk_error *err);

/* Requests a group; sends "group RANK,RANK,…". On success, frames to @group reach these @n
 * ranks of MPI_COMM_WORLD. Callers that ask for the same ranks get the same group. */
int hk_registrar_group(const char *address, const uint32_t *ranks, size_t n, uint32_t *group,
		       struct hk_error *err);

/* Returns a group that the caller has requested; sends "drop GROUP". */
int hk_registrar_group_drop(const char *address, uint32_t group, struct hk_error *err);

#endif
