/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/pending.c: a short list, searched only if it is not empty.
 */
#include "sdn/tagger/pending.h"

#include <pthread.h>
#include <stdatomic.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry {
	const void *request;
	uint32_t function;
} known[HK_TAGGER_PENDING];
static atomic_uint count; /* written under `lock` */

void hk_tagger_pending_add(const void *request, uint32_t function)
{
	pthread_mutex_lock(&lock);
	unsigned n = atomic_load_explicit(&count, memory_order_relaxed);
	if (request && n < HK_TAGGER_PENDING) {
		known[n] = (struct entry){request, function};
		atomic_store_explicit(&count, n + 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&lock);
}

static const struct entry *find_entry(const void *request, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (known[i].request == request)
			return &known[i];
	return NULL;
}

unsigned hk_tagger_pending_find(const void *const requests[], int many,
				struct hk_tagger_pending_found found[HK_TAGGER_PENDING])
{
	unsigned n = 0;

	if (HK_LIKELY(atomic_load_explicit(&count, memory_order_relaxed) == 0))
		return 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < many && n < HK_TAGGER_PENDING; i++) {
		const struct entry *e = find_entry(
			requests[i], atomic_load_explicit(&count, memory_order_relaxed));
		if (e)
			found[n++] = (struct hk_tagger_pending_found){i, e->request, e->function};
	}
	pthread_mutex_unlock(&lock);
	return n;
}

void hk_tagger_pending_remove(const void *request)
{
	pthread_mutex_lock(&lock);
	unsigned n = atomic_load_explicit(&count, memory_order_relaxed);
	for (unsigned i = 0; i < n; i++)
		if (known[i].request == request) {
			known[i] = known[--n];
			atomic_store_explicit(&count, n, memory_order_relaxed);
			break;
		}
	pthread_mutex_unlock(&lock);
}
