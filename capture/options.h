/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/options.h: the command line of hikyaku-capture, which `hikyaku capture` writes.
 */
#ifndef HK_CAPTURE_OPTIONS_H
#define HK_CAPTURE_OPTIONS_H

#include "base/error.h"
#include "capture/filter.h"
#include "capture/source.h"

#define HK_CAPTURE_SOURCES 256 /* processes at once */

struct hk_capture_options {
	pid_t pid[HK_CAPTURE_SOURCES];
	unsigned pids;      /* 0: all that there are, and those that come while one is left … */
	const char *shared; /* … if they share this memory; NULL: any */
	bool wait;          /* … and also when none is left */
	const char *file;   /* NULL: only count; "-": standard output */
	uint64_t count;     /* 0: no limit */
	uint64_t duration_ns;
	uint32_t snaplen; /* what is written; the rings may have more for the filter */
	struct hk_source_config source;
	struct hk_filter filter;
};

/* 0; 1: the usage was asked for, and printed; -EINVAL with a sentence. */
int hk_capture_options(int argc, char **argv, struct hk_capture_options *o, struct hk_error *err);

#endif
