/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/gcm.c: chooses the library for AES-128-GCM.
 */
#include "seal/gcm.h"

#include <errno.h>
#include <pthread.h>

const struct hk_gcm_library *hk_gcm = &hk_gcm_openssl;

static bool works;

static void choose(void)
{
#ifdef HK_HAS_IPSEC_MB
	works = hk_gcm_ipsec_mb.start();
	if (works)
		hk_gcm = &hk_gcm_ipsec_mb;
#endif
	works = works || hk_gcm_openssl.start();
}

int hk_gcm_start(struct hk_error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, choose);
	return works ? 0
		     : hk_error_set(err, -ENOSYS,
				    "neither intel-ipsec-mb nor OpenSSL can authenticate frames "
				    "here; fix: see `openssl list -cipher-algorithms`, or set "
				    "btl_hikyaku_protection to off");
}
