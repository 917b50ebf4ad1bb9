/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/service.c: the entry by which libraries of one process find an MPI plug-in's worker.
 */
#include "hikyaku/service.h"

#include <stdatomic.h>

static _Atomic(const struct hk_service *) published;
static _Atomic(const char *) companion;

void hk_service_publish(const struct hk_service *service)
{
	atomic_store_explicit(&published, service, memory_order_release);
}

const struct hk_service *hk_service_find(void)
{
	return atomic_load_explicit(&published, memory_order_acquire);
}

void hk_service_announce_companion(const char *name)
{
	atomic_store_explicit(&companion, name, memory_order_release);
}

const char *hk_service_companion(void)
{
	return atomic_load_explicit(&companion, memory_order_acquire);
}
