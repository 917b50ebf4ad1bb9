/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/peers.h: the file of addresses, for jobs without a launcher. Internal to rtc/.
 *
 *   # comment
 *   0 10.0.0.1:4711
 *   1 10.0.0.2:4711
 *
 * A line "NODE ADDRESS" for each node, in any order. Errors name file and line.
 */
#ifndef HK_RTC_PEERS_H
#define HK_RTC_PEERS_H

#include "rtc/backend.h"

struct hk_rtc_peers {
	uint16_t nodes;
	char (*address)[HK_RTC_ADDRESS_MAX]; /* [nodes] */
};

/* Reads @cfg->peers_file, which must have a line for each node below @cfg->nodes (0: for each up to the
 * highest that it names) and so one for @cfg->node. The caller frees it by hk_rtc_peers_free(). */
int hk_rtc_peers_read(const struct hk_rtc_config *cfg, struct hk_rtc_peers *out,
		      struct hk_error *err);

/* The same from @len bytes at @text, whatever they are; @file is for errors. */
int hk_rtc_peers_parse(const char *file, const char *text, size_t len, uint16_t node,
		       uint16_t nodes, struct hk_rtc_peers *out, struct hk_error *err);

/* What is zeroed or was freed may be freed again. */
void hk_rtc_peers_free(struct hk_rtc_peers *peers);

#endif
