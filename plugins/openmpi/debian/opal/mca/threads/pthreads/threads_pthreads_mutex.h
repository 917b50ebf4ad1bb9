/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * openmpi/debian/…/threads_pthreads_mutex.h: a header that Debian 13's libopenmpi-dev lacks.
 *
 * Open MPI 5 includes it by name from opal_config.h. It has the types of locks and conditions, and
 * the functions on them, which opal/mca/threads/mutex.h uses. Both are POSIX threads' own, so the
 * layout of Open MPI's structures is known.
 */
#ifndef HK_DEBIAN_THREADS_MUTEX_H
#define HK_DEBIAN_THREADS_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "opal/class/opal_object.h"
#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER           PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER            PTHREAD_COND_INITIALIZER

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *m, bool recursive)
{
	pthread_mutexattr_t how;
	int rc = pthread_mutexattr_init(&how);

	if (rc == 0) {
		pthread_mutexattr_settype(&how, recursive ? PTHREAD_MUTEX_RECURSIVE
							  : PTHREAD_MUTEX_DEFAULT);
		rc = pthread_mutex_init(m, &how);
		pthread_mutexattr_destroy(&how);
	}
	return rc ? OPAL_ERR_IN_ERRNO : OPAL_SUCCESS;
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *m)
{
	(void)pthread_mutex_lock(m);
}

static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *m)
{
	return pthread_mutex_trylock(m) != 0;
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *m)
{
	(void)pthread_mutex_unlock(m);
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *m)
{
	(void)pthread_mutex_destroy(m);
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t *c)
{
	return pthread_cond_init(c, NULL) ? OPAL_ERR_IN_ERRNO : OPAL_SUCCESS;
}

static inline void opal_thread_internal_cond_wait(opal_thread_internal_cond_t *c,
						  opal_thread_internal_mutex_t *m)
{
	(void)pthread_cond_wait(c, m);
}

static inline void opal_thread_internal_cond_broadcast(opal_thread_internal_cond_t *c)
{
	(void)pthread_cond_broadcast(c);
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *c)
{
	(void)pthread_cond_signal(c);
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *c)
{
	(void)pthread_cond_destroy(c);
}

#endif
