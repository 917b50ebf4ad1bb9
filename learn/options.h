/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/options.h: the command line of hk_learn.
 */
#ifndef HK_LEARN_OPTIONS_H
#define HK_LEARN_OPTIONS_H

#include "base/error.h"
#include "learn/gossip.h"
#include "rtc/rtc.h"

struct hk_learn_options {
	struct hk_learn_model model; /* features and classes come from the shard */
	struct hk_learn_settings set;
	struct hk_rtc_config rtc;
	const char *shard;  /* path; {node} is filled in */
	const char *output; /* path of the parameters, {node} is filled in; NULL: none */
	const char *log;    /* path of the lines, {node} is filled in; NULL: standard output */
	const char *fault;  /* "NODE:nan,NODE:outlier=LENGTH", or NULL */
	double max_seconds, report_seconds;
	bool yield; /* lets others run after each round: nodes share cores */
	bool help;
};

/* -EINVAL, with a sentence. The strings are the command line's. */
int hk_learn_options(int argc, char **argv, struct hk_learn_options *o, struct hk_error *err);
void hk_learn_usage(void);

/* What @fault says of @node. -EINVAL: it is none. */
int hk_learn_fault(const char *fault, uint16_t node, enum hk_gossip_fault *kind, double *scale,
		   struct hk_error *err);

/* @path with {node} filled in. -ENAMETOOLONG. */
int hk_learn_path(const char *path, uint16_t node, char *out, size_t size, struct hk_error *err);

#endif
