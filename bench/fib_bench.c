/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/fib_bench.c: measures the routers' forwarding table with as many prefixes as the Internet
 * has.
 *
 *   taskset -c 1 fib_bench [PREFIXES [SECONDS]]      # 1000000 and 2
 *
 * It prints as JSON:
 *
 * - the time from a file, in text and in MRT, to the first lookup: reading it, and making the table
 * - the table's memory
 * - lookups per second on this core in bursts of 64: of random addresses, and of a million
 *   addresses that have a route
 * - the time of single updates, by prefix length
 *
 */
#include "base/clock.h"
#include "devmem/router/fib.h"
#include "devmem/router/generate.h"
#include "port/port.h"
#include "tests/support/hk_test.h"

#include <unistd.h>

#include <rte_malloc.h>

#define ADDRESSES (1u << 20)
#define HOPS      64

static double heap_mb(void)
{
	struct rte_malloc_socket_stats s;

	CHECK(rte_malloc_get_socket_stats(0, &s) == 0);
	return (double)s.heap_allocsz_bytes / 1e6;
}

static char path[48], table[64];

static struct hk_fib *load(const struct hk_table_prefix *t, size_t count, bool mrt)
{
	struct hk_error err = {""};
	struct hk_routes *r;
	struct hk_fib *fib;

	FILE *f = fopen(table, "w");
	CHECK(f && hk_table_write(t, count, mrt, f) && fclose(f) == 0);
	f = fopen(path, "w");
	CHECK(f && fprintf(f, "address 198.18.0.1/24 port 0\ntable %s\n", table) > 0 &&
	      fclose(f) == 0);
	double start = hk_clock_s();
	CHECK_MSG(hk_routes_load(path, 1, &r, &err) == 0, "%s", err.text);
	double read = hk_clock_s();
	double before = heap_mb();
	CHECK_MSG(hk_fib_make(r, &fib, &err) == 0, "%s", err.text);
	double made = hk_clock_s();
	printf("  \"%s\": {\"read_s\": %.3f, \"make_s\": %.3f, \"load_s\": %.3f, \"table_mb\": "
	       "%.1f, "
	       "\"prefixes\": %zu},\n",
	       mrt ? "mrt" : "text", read - start, made - read, made - start, heap_mb() - before,
	       fib->routes[0]);
	hk_routes_free(r);
	return fib;
}

static void measure(const char *name, const struct hk_fib *fib, uint32_t *address, double seconds)
{
	uint64_t hop[HK_FIB_BURST], sum = 0, n = 0;
	double start = hk_clock_s(), end = start + seconds, best = 0;

	while (hk_clock_s() < end) {
		double t = hk_clock_s();
		for (size_t i = 0; i < ADDRESSES; i += HK_FIB_BURST) {
			hk_fib_lookup4(fib, address + i, hop, HK_FIB_BURST);
			sum += hop[0] + hop[HK_FIB_BURST - 1];
		}
		best = HK_MAX(best, ADDRESSES / (hk_clock_s() - t));
		n += ADDRESSES;
	}
	printf("  \"%s\": {\"mlps\": %.1f, \"best_mlps\": %.1f, \"sum\": %llu},\n", name,
	       (double)n / (hk_clock_s() - start) / 1e6, best / 1e6, (unsigned long long)sum);
}

static void updates(struct hk_fib *fib)
{
	const char *comma = "";

	printf("  \"update_us\": {");
	for (unsigned depth = 8; depth <= 32; depth += 4) {
		double worst = 0, total = 0;
		for (unsigned i = 0; i < 32; i++) {
			uint32_t a = (uint32_t)hk_rng_next(&hk_test_rng) & UINT32_MAX
										   << (32 - depth);
			uint8_t prefix[16] = {(uint8_t)(1 + (a >> 24) % 100), (uint8_t)(a >> 16),
					      (uint8_t)(a >> 8), (uint8_t)a};
			double t = hk_clock_s();
			(void)hk_fib_update(fib, 4, prefix, depth, 2 + HK_HOP_BLACKHOLE, false);
			t = hk_clock_s() - t;
			worst = HK_MAX(worst, t);
			total += t;
		}
		printf("%s\"/%u\": {\"mean\": %.1f, \"worst\": %.1f}", comma, depth,
		       total / 32 * 1e6, worst * 1e6);
		comma = ", ";
	}
	printf("}\n");
}

int main(int argc, char **argv)
{
	struct hk_eal_config eal = {.memory_mb = 2048,
				    .extra_args = "--force-max-simd-bitwidth=512"};
	size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000;
	double seconds = argc > 2 ? strtod(argv[2], NULL) : 2;
	struct hk_error err = {""};
	struct hk_table_prefix *t;
	uint32_t *address = calloc(ADDRESSES, sizeof(*address));

	hk_test_rng.state = 1;
	snprintf(path, sizeof(path), "/tmp/hk-fib-bench-%d", (int)getpid());
	snprintf(table, sizeof(table), "%s.table", path);
	CHECK_MSG(address && hk_eal_init(&eal, &err) == 0 &&
			  hk_table_make(1, count, HOPS, &t, &err) == 0,
		  "%s", err.text);
	printf("{\n");
	hk_fib_free(load(t, count, true));
	struct hk_fib *fib = load(t, count, false);
	(void)unlink(path);
	(void)unlink(table);
	for (size_t i = 0; i < ADDRESSES; i++)
		address[i] = (uint32_t)hk_rng_next(&hk_test_rng);
	measure("any_address", fib, address, seconds);
	for (size_t i = 0; i < ADDRESSES; i++) {
		const struct hk_table_prefix *p = &t[hk_rng_below(&hk_test_rng, count)];
		address[i] = p->address | ((uint32_t)hk_rng_next(&hk_test_rng) &
					   ~(UINT32_MAX << (32 - p->depth)));
	}
	measure("routed_address", fib, address, seconds);
	updates(fib);
	printf("}\n");
	hk_fib_free(fib);
	free(t);
	free(address);
	return 0;
}
