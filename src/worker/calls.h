/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/calls.h: a worker asks another one, by a *call*, to open its end of a wire.
 *
 * A point-to-point wire needs both ends (worker/wires.h). A program may tell only one of two
 * workers of the other: Open MPI's component for libfabric does so, for the rank that sends first.
 * A call is one datagram with the caller's name. It goes to a Unix socket in the directory of the
 * set of wires, where the called worker looks from time to time.
 *
 * The socket belongs to the user alone. The receiver checks the bytes of a call itself.
 *
 * Threads: one.
 */
#ifndef HK_WORKER_CALLS_H
#define HK_WORKER_CALLS_H

#include "base/common.h"
#include "hikyaku/error.h"

#pragma GCC visibility push(default)

struct hk_calls;

/* Opens the socket of the worker @endpoint of job @key in the directory of @set_spec, whose calls
 * have @len bytes. A negative errno has its sentence in @err. */
int hk_calls_open(const char *set_spec, uint32_t key, uint32_t endpoint, size_t len,
		  struct hk_calls **out, struct hk_error *err);

/* Calls the worker @endpoint. -EAGAIN: it is not there yet, or does not look now; call again. */
int hk_calls_send(const struct hk_calls *c, uint32_t endpoint, const void *call);

/* Is the worker @endpoint there, or was it before it was killed? */
bool hk_calls_reaches(const struct hk_calls *c, uint32_t endpoint);

/* Takes the next call. False: there is none. */
bool hk_calls_next(const struct hk_calls *c, void *call);

/* Removes the socket. NULL is allowed. */
void hk_calls_close(struct hk_calls *c);

#pragma GCC visibility pop

#endif
