/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/debian/…/threads_pthreads_threads.h: a header that Debian 13's libopenmpi-dev lacks;
 * see threads_pthreads_mutex.h.
 */
#ifndef HK_DEBIAN_THREADS_H
#define HK_DEBIAN_THREADS_H

#include "opal/mca/threads/threads.h"

#define OPAL_THREAD_YIELD_WHEN_IDLE_DEFAULT false

/* Open MPI's library has it. */
OPAL_DECLSPEC extern void (*opal_threads_pthreads_yield_fn)(void);

static inline void opal_thread_yield(void)
{
	opal_threads_pthreads_yield_fn();
}

#endif
