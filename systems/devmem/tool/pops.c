/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/pops.c: `hk_devmem pops SPEC...` opens each pop alone, and prints one line of JSON: a
 * description, or why the pop cannot be opened. It helps to choose a pop before anything depends on
 * it.
 */
#include "devmem/pop/pop.h"
#include "devmem/tool/tool.h"

#include <inttypes.h>

/* Prints a string of JSON. It escapes characters, because the user wrote the spec. */
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

int hk_devmem_pops(int argc, char **argv)
{
	struct hk_error err;
	int failed = 0;

	if (argc < 2) {
		fprintf(stderr, "hk_devmem pops: no pop is named; fix: name one, as in hk_devmem "
				"pops pop:ivshmem:0000:00:08.0\n");
		return 2;
	}
	if (hk_devmem_eal(NULL, 0, 16, &err)) {
		fprintf(stderr, "hk_devmem pops: %s\n", err.text);
		return 1;
	}
	for (int i = 1; i < argc; i++)
		failed += !show(argv[i]);
	return failed ? 1 : 0;
}
