/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/options.h: the command line of hikyaku-capture, which `hikyaku capture` runs.
 */
#ifndef HK_CAPTURE_OPTIONS_H
#define HK_CAPTURE_OPTIONS_H

#include "hikyaku/error.h"
#include "capture/filter.h"
#include "capture/source.h"

#define HK_CAPTURE_SOURCES 256 /* processes at once */

struct hk_capture_options {
	pid_t pid[HK_CAPTURE_SOURCES];
	unsigned pids;        /* 0: all present ones, and those that come while one is captured */
	const char *shared;   /* only processes of this shared memory; NULL: any */
	bool wait;            /* wait for processes when none is left */
	const char *file;     /* NULL: only count frames; "-": standard output */
	uint64_t count;       /* frames; 0: no limit */
	uint64_t duration_ns; /* 0: no limit */
	uint32_t snaplen;     /* bytes written of a frame; the rings may have more for the filter */
	struct hk_source_config source;
	struct hk_filter filter;
};

/* Returns 0; 1 if it has printed the usage; or -EINVAL with an error text. */
int hk_capture_options(int argc, char **argv, struct hk_capture_options *o, struct hk_error *err);

#endif
