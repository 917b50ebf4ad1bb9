/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/peers.h: the file of addresses, for jobs without a launcher. Internal to rtc/.
 *
 *   # comment
 *   0 10.0.0.1:4711
 *   1 10.0.0.2:4711
 *
 * The file has a line "NODE ADDRESS" for each node, in any order. Errors name file and line.
 */
#ifndef HK_RTC_PEERS_H
#define HK_RTC_PEERS_H

#include "rtc/backend.h"

struct hk_rtc_peers {
	uint16_t nodes;
	char (*address)[HK_RTC_ADDRESS_MAX]; /* [nodes] */
};

/* Reads @cfg->peers_file. It must have a line for each node below @cfg->nodes (0: up to the highest
 * node that it names), including @cfg->node. The caller frees @out with hk_rtc_peers_free(). */
int hk_rtc_peers_read(const struct hk_rtc_config *cfg, struct hk_rtc_peers *out,
		      struct hk_error *err);

/* The same from @len arbitrary bytes at @text; @file is the name in errors. */
int hk_rtc_peers_parse(const char *file, const char *text, size_t len, uint16_t node,
		       uint16_t nodes, struct hk_rtc_peers *out, struct hk_error *err);

/* Frees the table. May be repeated, and may be called on zeros. */
void hk_rtc_peers_free(struct hk_rtc_peers *peers);

#endif
