/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/report.h: the state of a job on a node as JSON, for `hikyaku tag status`.
 */
#ifndef HK_TAGGER_REPORT_H
#define HK_TAGGER_REPORT_H

#include "sdn/tagger/kernel.h"
#include "sdn/tagger/node.h"
#include "sdn/tagger/registry.h"

struct hk_tagger_report {
	unsigned job;
	enum hk_tagger_attach way;
	bool restore;
	const char *cgroup;
	unsigned links;
	const struct hk_tagger_link *link;
	const struct hk_tagger_registry *registry;
	const struct hk_tagger_kernel *kernel;
};

/* Returns a descriptor of a file in memory with the report, at its start. The caller closes it. A
 * negative errno if there is no memory, or the kernel does not list connections. */
int hk_tagger_report_fd(const struct hk_tagger_report *r, struct hk_error *err);

/* Returns the name of a function: that of Python's hikyaku.sdn.tag.Function in small letters. */
const char *hk_tagger_function_name(uint32_t function);

#endif
