/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A command line of hikyaku-sim from one text, without the program's name.
 */
#ifndef HK_TEST_SIM_COMMAND_H
#define HK_TEST_SIM_COMMAND_H

#include "sim/options.h"

#include "tests/support/hk_test.h"

static inline int command(struct sim_options *o, const char *line, struct hk_error *err)
{
	char text[512], *argv[64];
	int argc = 0;

	CHECK_CMP(strlen(line) + 20, <, sizeof(text));
	snprintf(text, sizeof(text), "hikyaku-sim %s", line);
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
		CHECK_CMP((size_t)argc, <, HK_ARRAY_LEN(argv));
		argv[argc++] = word;
	}
	return sim_options_parse(o, argc, argv, err);
}

#endif
