/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hk_test.h: the harness of the unit tests, whole.
 *
 * A test program is a table of named functions and `return hk_test_main(argc, argv, table, n)`.
 * The first CHECK that fails prints where, what, the seed and the command that repeats exactly
 * this failure, and ends the program with 1. Randomness comes from one seeded generator, which
 * restarts at the seed for each test, so that a test repeats alone as it ran among others.
 *
 *   test_x                      every test, seed from HK_SEED or 1
 *   test_x --seed 7 NAME …      these tests, with this seed
 *   test_x --list
 */
#ifndef HK_TEST_H
#define HK_TEST_H

#include "base/common.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HK_TEST_UNUSED __attribute__((unused))

struct hk_test {
	const char *name;
	void (*run)(void);
};

/* What to print when a check fails: how to repeat it. Test programs with options of their own
 * (test_sim) set `replay` to a complete command. Weak: one for all files of a program. */
struct hk_test_state {
	const char *program, *test;
	uint64_t seed;
	char replay[512];
};
__attribute__((weak)) struct hk_test_state hk_test_now;

/* ---- randomness: splitmix64 ---------------------------------------------------------------- */

struct hk_rng {
	uint64_t state;
};

HK_TEST_UNUSED static inline uint64_t hk_rng_next(struct hk_rng *r)
{
	uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* A number below @n (which is not 0); the bias is far below anything a test sees. */
HK_TEST_UNUSED static inline uint64_t hk_rng_below(struct hk_rng *r, uint64_t n)
{
	return hk_rng_next(r) % n;
}

/* lo … hi, both included */
HK_TEST_UNUSED static inline uint64_t hk_rng_range(struct hk_rng *r, uint64_t lo, uint64_t hi)
{
	return lo + hk_rng_below(r, hi - lo + 1);
}

/* True in @ppm of a million cases. */
HK_TEST_UNUSED static inline bool hk_rng_chance(struct hk_rng *r, uint32_t ppm)
{
	return ppm != 0 && hk_rng_below(r, 1000000) < ppm;
}

__attribute__((weak)) struct hk_rng hk_test_rng;

/* ---- checks -------------------------------------------------------------------------------- */

__attribute__((noreturn, format(printf, 3, 4))) HK_TEST_UNUSED static void
hk_test_fail(const char *file, int line, const char *fmt, ...)
{
	va_list ap;
	fflush(stdout);
	fprintf(stderr, "FAIL %s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n  seed %" PRIu64 "; repeat with: ", hk_test_now.seed);
	if (hk_test_now.replay[0])
		fprintf(stderr, "%s\n", hk_test_now.replay);
	else
		fprintf(stderr, "%s --seed %" PRIu64 " %s\n",
			hk_test_now.program ? hk_test_now.program : "(the program)",
			hk_test_now.seed, hk_test_now.test ? hk_test_now.test : "");
	fflush(stderr);
	_Exit(1); /* no destructors: a leak checker would bury the message */
}

#define FAIL(...) hk_test_fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			FAIL("%s", #cond);                                                         \
	} while (0)

/* With a sentence that says what was seen. */
#define CHECK_MSG(cond, ...)                                                                       \
	do {                                                                                       \
		if (!(cond))                                                                       \
			FAIL(__VA_ARGS__);                                                         \
	} while (0)

/* Compares integers and prints both. */
#define CHECK_CMP(a, op, b)                                                                        \
	do {                                                                                       \
		long long check_a_ = (long long)(a), check_b_ = (long long)(b);                    \
		if (!(check_a_ op check_b_))                                                       \
			FAIL("%s %s %s: it is %lld, against %lld", #a, #op, #b, check_a_,          \
			     check_b_);                                                            \
	} while (0)

#define CHECK_EQ(a, b) CHECK_CMP(a, ==, b)

/* ---- main ---------------------------------------------------------------------------------- */

HK_TEST_UNUSED static uint64_t hk_test_seed_from(const char *text)
{
	char *end;
	uint64_t seed = strtoull(text, &end, 0);
	if (*text == '\0' || *end != '\0') {
		fprintf(stderr, "seed '%s' is not a number\n", text);
		exit(2);
	}
	return seed;
}

HK_TEST_UNUSED static int hk_test_main(int argc, char **argv, const struct hk_test *tests, size_t n)
{
	const char *env = getenv("HK_SEED");
	bool all = true;

	hk_test_now.program = argv[0];
	hk_test_now.seed = env ? hk_test_seed_from(env) : 1;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
			hk_test_now.seed = hk_test_seed_from(argv[++i]);
		} else if (strcmp(argv[i], "--list") == 0) {
			for (size_t t = 0; t < n; t++)
				puts(tests[t].name);
			return 0;
		} else {
			size_t t = 0;
			while (t < n && strcmp(argv[i], tests[t].name) != 0)
				t++;
			if (t == n) {
				fprintf(stderr, "no test '%s'; %s --list names them\n", argv[i],
					argv[0]);
				return 2;
			}
			all = false;
		}
	}
	for (size_t t = 0; t < n; t++) {
		bool wanted = all;
		for (int i = 1; i < argc; i++)
			wanted |= strcmp(argv[i], tests[t].name) == 0;
		if (!wanted)
			continue;
		hk_test_now.test = tests[t].name;
		hk_test_rng.state = hk_test_now.seed;
		tests[t].run();
		printf("ok %s\n", tests[t].name);
	}
	return 0;
}

#endif
