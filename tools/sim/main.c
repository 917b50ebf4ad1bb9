/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/main.c: hikyaku-sim: runs one scenario and writes its results as JSON.
 */
#include "sim/options.h"

int main(int argc, char **argv)
{
	struct sim_options o;
	struct hk_error err = {0};

	if (sim_options_parse(&o, argc, argv, &err) != 0) {
		fprintf(stderr, "hikyaku-sim: %s\n", err.text);
		return 2;
	}
	run_print(&o, stdout);
	return 0;
}
