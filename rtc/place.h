/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/place.h: which backend, and where. Internal to rtc/.
 *
 * What a program does not say, the environment does, so that the same command line runs in the lab and
 * on a cluster: HIKYAKU_RTC_BACKEND, and for each backend's address HIKYAKU_RTC_ADDRESS_DPDK, …_AF_XDP,
 * …_RAW, …_UDP and …_TCP. `hikyaku lab mpirun` sets them.
 */
#ifndef HK_RTC_PLACE_H
#define HK_RTC_PLACE_H

#include "rtc/backend.h"

/* Where the texts lie that hk_rtc_place() makes `cfg` point to. */
struct hk_rtc_place {
	char name[16];      /* "tcp" of "tcp:batch=1" */
	const char *option; /* what follows the colon, or "" */
	char address[256];
};

/* Fills in backend and address of @cfg if they are NULL, and `{rank}` and `{local_rank}` in the address;
 * then both point into @place or the environment. @own: this node's address in the peers_file, which is
 * where udp and tcp open if nothing else is said; or NULL. */
int hk_rtc_place(struct hk_rtc_config *cfg, unsigned local_rank, const char *own,
		 struct hk_rtc_place *place, struct hk_error *err);

#endif
