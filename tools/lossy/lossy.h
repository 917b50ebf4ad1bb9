/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/lossy/lossy.h: what hk-lossy and its programs in the kernel share. Layouts are of one machine.
 */
#ifndef HK_LOSSY_H
#define HK_LOSSY_H

#include <stdint.h>

/* Which frames of an interface, as its namespace sees them. */
enum hk_lossy_way { HK_LOSSY_OUT, HK_LOSSY_IN, HK_LOSSY_WAYS };

/* Of one way of one interface. */
struct hk_lossy_count {
	uint64_t seen;        /* frames so far, lost ones included */
	uint64_t lost, bytes; /* frames, and their bytes with Ethernet headers */
};

#endif
