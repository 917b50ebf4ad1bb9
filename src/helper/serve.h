/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/serve.h: answers clients, and takes back what they leave.
 */
#ifndef HK_HELPER_SERVE_H
#define HK_HELPER_SERVE_H

#include <stdbool.h>

struct hk_serve_config {
	int listening;      /* a SOCK_SEQPACKET socket; belongs to the caller */
	const char *policy; /* file: helper/policy.h */
	bool on_demand;     /* ends when its last client has gone, or if none comes in 5 s */
	bool borrowed;      /* the rights are those of the program's file, not of its user */
};

/* Serves until a signal's handler calls hk_serve_stop(), or until an on-demand helper is not
 * needed. The caller has blocked that signal. */
void hk_serve(const struct hk_serve_config *cfg);
void hk_serve_stop(void);

#endif
