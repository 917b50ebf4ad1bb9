/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/backend_choice.h: the choice of backend and local address. Internal to rtc/.
 *
 * A program that does not set them takes them from the environment, so that one command line runs
 * in the lab and on a cluster. The variables are HIKYAKU_RTC_BACKEND, and HIKYAKU_RTC_ADDRESS_DPDK,
 * …_AF_XDP, …_RAW, …_UDP and …_TCP. `hikyaku lab mpirun` sets them.
 */
#ifndef HK_RTC_BACKEND_CHOICE_H
#define HK_RTC_BACKEND_CHOICE_H

#include "rtc/backend.h"

/* Memory of the texts to which hk_rtc_backend_choose() points the configuration. */
struct hk_rtc_backend_choice {
	char name[16];      /* "tcp" of "tcp:batch=1" */
	const char *option; /* text after the colon, or "" */
	char address[256];
};

/* Fills in backend and address of @cfg if they are NULL, and `{rank}` and `{local_rank}` in the
 * address. Afterwards both point into @choice or the environment. @own: this node's address in the
 * peers_file, which udp and tcp use by default; or NULL. */
int hk_rtc_backend_choose(struct hk_rtc_config *cfg, unsigned local_rank, const char *own,
			  struct hk_rtc_backend_choice *choice, struct hk_error *err);

#endif
