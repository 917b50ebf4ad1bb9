/* SPDX-License-Identifier: BSD-3-Clause */
/* base/thread.h: a thread of ours in a process of an application. */
#ifndef HK_BASE_THREAD_H
#define HK_BASE_THREAD_H

#include "base/capabilities.h"

#include <pthread.h>

/* Starts a thread that takes none of the application's signals. Returns 0 or a negative errno. */
static inline int hk_thread_start(pthread_t *thread, const char *name, void *(*run)(void *),
				  void *arg)
{
	sigset_t all, old;

	hk_thread_signals(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(thread, NULL, run, arg);

	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		pthread_setname_np(*thread, name);
	return -rc;
}

#endif
