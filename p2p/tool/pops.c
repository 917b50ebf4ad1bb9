/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * p2p/tool/pops.c: `hk_p2p pops SPEC...`: opens each pop, alone, and says what it is, or why it cannot be:
 * one line of JSON for each. For people who choose one, before anything depends on it.
 */
#include "p2p/pop/pop.h"
#include "p2p/tool/tool.h"

#include <inttypes.h>

/* A text in JSON: specs and sentences are ours, but for what the user wrote. */
static void text(const char *key, const char *value)
{
	printf("\"%s\": \"", key);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\' || (unsigned char)*value < ' ')
			printf("\\u%04x", (unsigned char)*value);
		else
			putchar(*value);
	}
	putchar('"');
}

static bool show(const char *spec)
{
	struct hk_error err;
	struct hk_pop *pop;
	bool ok = hk_pop_open(spec, &pop, &err) == 0;

	printf("{");
	text("spec", spec);
	printf(", ");
	if (ok) {
		const struct hk_pop_info *i = hk_pop_info(pop);
		text("device", i->device);
		printf(", \"bar\": %u, \"size\": %" PRIu64 ", \"bus\": \"0x%" PRIx64
		       "\", \"slow_read\": %s, \"write_combined\": %s",
		       i->bar, i->size, hk_pop_bus(pop, 0, 1), i->slow_read ? "true" : "false",
		       i->write_combined ? "true" : "false");
		hk_pop_close(pop);
	} else {
		text("error", err.text);
	}
	printf("}\n");
	return ok;
}

int hk_p2p_pops(int argc, char **argv)
{
	struct hk_error err;
	int failed = 0;

	if (argc < 2) {
		fprintf(stderr, "hk_p2p pops: no pop is named; fix: hk_p2p pops "
				"pop:ivshmem:0000:00:08.0\n");
		return 2;
	}
	if (hk_p2p_eal(NULL, 0, 16, &err)) {
		fprintf(stderr, "hk_p2p pops: %s\n", err.text);
		return 1;
	}
	for (int i = 1; i < argc; i++)
		failed += !show(argv[i]);
	return failed ? 1 : 0;
}
