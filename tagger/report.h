/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/report.h: what `hikyaku tag status` shows of a job on a node, as JSON.
 */
#ifndef HK_TAGGER_REPORT_H
#define HK_TAGGER_REPORT_H

#include "tagger/kernel.h"
#include "tagger/place.h"
#include "tagger/registry.h"

struct hk_report {
	unsigned job;
	enum hk_attach way;
	bool restore;
	const char *cgroup;
	unsigned links;
	const struct hk_place_link *link;
	const struct hk_registry *registry;
	const struct hk_kernel *kernel;
};

/* A descriptor of a file in memory with the report, to be read from its start; the caller closes it. A
 * negative errno if there is no memory. */
int hk_report_fd(const struct hk_report *r);

/* The name of a function, as Python's hikyaku.sdn.tag.Function has it in small letters. */
const char *hk_report_function(uint32_t function);

#endif
