/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Command lines of hikyaku-sim from one text, without the program's name: parsed, and run.
 */
#ifndef HK_TEST_SIM_COMMAND_H
#define HK_TEST_SIM_COMMAND_H

#include "sim/options.h"
#include "sim/scenarios.h"

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

/* Prepares a run of the command @line. */
HK_TEST_UNUSED static void begin(struct run *r, const char *line)
{
	struct sim_options o;
	struct hk_error err;

	CHECK_MSG(command(&o, line, &err) == 0, "%s", err.text);
	run_init(r, &o);
}

/* Runs the command @line; its report, which the caller frees. */
HK_TEST_UNUSED static char *report(const char *line)
{
	static char *text;
	size_t len;
	struct run r;
	FILE *out;

	text = NULL;
	begin(&r, line);
	run_go(&r);
	CHECK((out = open_memstream(&text, &len)) != NULL);
	run_report(&r, out);
	CHECK_EQ(fclose(out), 0);
	run_free(&r);
	return text;
}

#endif
