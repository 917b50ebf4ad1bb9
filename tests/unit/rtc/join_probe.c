/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/join_probe.c: joins a job like hk_rtc_open(), but without a backend. For
 * tests/integration/test_rtc_join.py.
 *
 *   join_probe [TIMEOUT_MS [TIMES [ABSENT]]]
 *
 * It joins TIMES times with the address "at-NODE-TURN", and prints a line for each: "node 0 of 2,
 * local 0, key 12345678: at-0-0 at-1-0". Node ABSENT does not join, like a program that never opens
 * a node. It stays alive until mpirun ends it.
 */
#include "base/clock.h"
#include "rtc/join.h"
#include "rtc/backend_choice.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int turn(int64_t timeout_ms, int i)
{
	struct hk_rtc_config cfg = {0};
	struct hk_rtc_join *join = NULL;
	struct hk_rtc_backend_choice choice;
	struct hk_error err;
	char own[HK_RTC_ENTRY_MAX];
	int rc = hk_rtc_join_begin(&cfg, &join, &err);

	if (rc) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	unsigned local = hk_rtc_join_local_rank(join);
	char(*address)[HK_RTC_ENTRY_MAX] = calloc(cfg.nodes, sizeof(*address));
	snprintf(own, sizeof(own), "at-%u-%d", cfg.node, i);
	rc = address ? hk_rtc_join_exchange(join, own, address, hk_clock_ms() + timeout_ms, &err)
		     : -1;
	hk_rtc_join_end(join);
	if (rc) {
		fprintf(stderr, "node %u: %s\n", cfg.node, err.text);
		free(address);
		return 1;
	}
	/* a single write, so that lines of several nodes do not mix */
	size_t size = 256 + (size_t)cfg.nodes * HK_RTC_ENTRY_MAX, at = 0;
	char *line = malloc(size);
	if (!line)
		abort();
	at += (size_t)snprintf(line, size, "node %u of %u, local %u, key %08x:", cfg.node,
			       cfg.nodes, local, cfg.key);
	for (unsigned n = 0; n < cfg.nodes; n++)
		at += (size_t)snprintf(line + at, size - at, " %s", address[n]);
	if (hk_rtc_backend_choose(&cfg, local, NULL, &choice, &err) == 0)
		at += (size_t)snprintf(line + at, size - at, "; %s at %s", cfg.backend,
				       cfg.address);
	puts(line);
	fflush(stdout);
	free(line);
	free(address);
	return 0;
}

int main(int argc, char **argv)
{
	int64_t timeout_ms = argc > 1 ? atoi(argv[1]) : 10000;
	int times = argc > 2 ? atoi(argv[2]) : 1;
	const char *rank = getenv("PMIX_RANK");

	if (argc > 3 && rank && strcmp(rank, argv[3]) == 0) {
		/* mpirun ends this process when the others fail */
		for (;;)
			pause();
	}
	for (int i = 0; i < times; i++)
		if (turn(timeout_ms, i))
			return 1;
	return 0;
}
