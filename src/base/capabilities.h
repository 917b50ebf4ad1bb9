/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/capabilities.h: a process gives up privileges that it no longer needs (capabilities(7)).
 */
#ifndef HK_BASE_CAPABILITIES_H
#define HK_BASE_CAPABILITIES_H

#include "hikyaku/error.h"

#include <signal.h>
#include <stdint.h>

/* Capabilities belong to threads, and a thread can change only its own. So each one is told by this
 * signal. */
#define HK_CAPABILITIES_SIGNAL (SIGRTMIN + 6)

/* The signals that a thread of ours blocks, since the application's threads handle them. */
static inline void hk_thread_signals(sigset_t *set)
{
	sigfillset(set);
	sigdelset(set, HK_CAPABILITIES_SIGNAL);
}

/* Gives up all capabilities but those in @keep (bits of CAP_*), in every thread of this process.
 * It is for good: no program that it executes has more. Call it from one thread. Returns 0, or a
 * negative errno: -ETIMEDOUT, a thread did not answer, and may still have them. */
int hk_capabilities_drop(uint64_t keep, struct hk_error *err);

#endif
