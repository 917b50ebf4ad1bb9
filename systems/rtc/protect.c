/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/protect.c: see protect.h.
 */
#include "rtc/protect.h"

#include <stdlib.h>
#include <unistd.h>

void hk_rtc_nonce_draw(uint8_t nonce[HK_RTC_NONCE_LEN])
{
	/* it fails only on a kernel without random numbers; no key would be secret there */
	if (getentropy(nonce, HK_RTC_NONCE_LEN) != 0)
		abort();
}
