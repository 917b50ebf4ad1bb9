/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/options.h: the command line of hk_learn.
 */
#ifndef HK_LEARN_OPTIONS_H
#define HK_LEARN_OPTIONS_H

#include "hikyaku/error.h"
#include "learn/gossip.h"
#include "hikyaku/rtc.h"

struct hk_learn_options {
	struct hk_learn_model model; /* features and classes come from the shard */
	struct hk_learn_settings set;
	struct hk_rtc_config rtc;
	const char *shard;  /* path of the rows, with {node} */
	const char *output; /* path of the parameters, with {node}; NULL: not written */
	const char *log;    /* path of the JSON lines, with {node}; NULL: standard output */
	const char *fault;  /* "NODE:nan,NODE:outlier=LENGTH", or NULL */
	double max_seconds, report_seconds;
	bool yield; /* yield after each round, for nodes that share cores */
	bool help;
};

/* By enum hk_rtc_protection; ends with NULL. */
extern const char *const hk_learn_protection_name[];

/* Parses the command line; strings point into it. -EINVAL: see @err. */
int hk_learn_options(int argc, char **argv, struct hk_learn_options *o, struct hk_error *err);
void hk_learn_usage(void);

/* Finds the fault of @node in @fault. -EINVAL: @fault is invalid. */
int hk_learn_fault(const char *fault, uint16_t node, enum hk_learn_gossip_fault *kind,
		   double *scale, struct hk_error *err);

/* Copies @path with {node} filled in. -ENAMETOOLONG: @size is too small. */
int hk_learn_path(const char *path, uint16_t node, char *out, size_t size, struct hk_error *err);

#endif
