/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/lossy/lossy.h: shared by hk-lossy and its programs in the kernel, on one machine.
 */
#ifndef HK_TOOLS_LOSSY_LOSSY_H
#define HK_TOOLS_LOSSY_LOSSY_H

#include <stdint.h>

/* Direction of frames, as the interface's namespace sees them. */
enum hk_lossy_way { HK_LOSSY_OUT, HK_LOSSY_IN, HK_LOSSY_WAYS };

/* Counters of one direction of one interface. */
struct hk_lossy_count {
	uint64_t seen;        /* all frames, lost ones included */
	uint64_t lost, bytes; /* lost frames, and their bytes with Ethernet headers */
};

#endif
