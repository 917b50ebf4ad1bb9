/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/osc/protocol.h: what ranks ask of the owner of a window: a call of its procedure
 * (openmpi/btl/rpc.h).
 *
 * Fields of the call:
 *
 *   offset    rank of the caller in the window's group
 *   operand   bits 0-7 kind, 8-15 operation (its Fortran index), 16-31 predefined type (its Fortran
 *             index), 32-47 runs, 48-49 lock
 *
 * and of its reply:
 *
 *   operand   0, or HK_OSC_REFUSED
 *
 * The arguments of PUT, GET, ACC, GET_ACC and CAS begin with the runs: pieces of the window in
 * which elements follow each other. Behind them come the elements of all runs, as they lie in
 * memory: of CAS the expected one, then the new one. GET, GET_ACC and CAS give back the elements
 * before.
 *
 * Locks. A call of one of these kinds, or LOCK, may ask for the window's lock. If it is taken,
 * the owner keeps the call, carries it out when it grants the lock (locks.h), and then replies. The
 * caller may send UNLOCK behind it at once: the owner keeps that, too. Other calls for data must
 * wait for the reply, since they would be carried out before. A call that is denied has no lock.
 *
 * All ranks run the same build, so numbers are in the order of the host.
 */
#ifndef HK_OSC_PROTOCOL_H
#define HK_OSC_PROTOCOL_H

#include <stdint.h>

enum hk_osc_kind {
	HK_OSC_PUT,
	HK_OSC_GET,
	HK_OSC_ACC,
	HK_OSC_GET_ACC,
	HK_OSC_CAS,
	HK_OSC_LOCK, /* nothing else */
	HK_OSC_UNLOCK,
	HK_OSC_POST,     /* the caller exposes its window to us */
	HK_OSC_COMPLETE, /* the caller has completed its access to our window */
	HK_OSC_GRANT,    /* a rank of our node has granted our lock to ranks that called */
	HK_OSC_KINDS,
};

enum hk_osc_lock_kind {
	HK_OSC_NO_LOCK,
	HK_OSC_SHARED,
	HK_OSC_EXCLUSIVE,
};

/* The lock is granted, and the operation was not possible: the owner has detached its memory. */
#define HK_OSC_REFUSED 1u

struct hk_osc_run {
	uint64_t offset; /* bytes from the window's base; in a dynamic window, the address */
	uint64_t count;  /* elements */
};

static inline uint64_t hk_osc_ask(enum hk_osc_kind kind, unsigned op, unsigned type, unsigned runs)
{
	return (uint64_t)kind | (uint64_t)op << 8 | (uint64_t)type << 16 | (uint64_t)runs << 32;
}

static inline uint64_t hk_osc_with_lock(enum hk_osc_lock_kind lock)
{
	return (uint64_t)lock << 48;
}

static inline enum hk_osc_kind hk_osc_kind_of(uint64_t operand)
{
	return operand & 0xff;
}

static inline unsigned hk_osc_lock_of(uint64_t operand)
{
	return operand >> 48 & 3;
}

#endif
