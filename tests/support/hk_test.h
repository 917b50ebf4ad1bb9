/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/hk_test.h: the harness of the unit tests.
 *
 * A test program is a list of named tests:
 *
 *     TEST(a_lost_packet_is_resent)
 *     {
 *             CHECK_EQ(resent(), 1);
 *     }
 *
 * hk_test.c has main(). It runs the tests in the order of the file:
 *
 *   test_x                      every test, seed from HK_SEED or 1
 *   test_x --seed 7 NAME …      these tests, with this seed
 *   test_x --list
 *   test_x --role NAME ARG …    a ROLE instead of tests
 *
 * The first check that fails prints the place, the condition, the seed and the command that repeats
 * exactly this failure. It ends the program with status 1. All randomness comes from one seeded
 * generator. It restarts at the seed for each test, so a test alone repeats its run among others.
 *
 * A program without TEST may have a main() of its own, and need not link hk_test.c.
 */
#ifndef HK_TEST_H
#define HK_TEST_H

#include "base/common.h"
#include "base/rng.h"
#include "hikyaku/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HK_TEST_UNUSED __attribute__((unused))

/* The running test, and how to repeat it. `replay`, unless empty, is a complete command, for
 * programs with options of their own. Weak: one for all files of a program. */
struct hk_test_state {
	const char *program, *test;
	uint64_t seed;
	char replay[512];
};
__attribute__((weak)) struct hk_test_state hk_test_now;

/* ---- tests --------------------------------------------------------------------------------- */

struct hk_test_entry {
	const char *name;
	union {
		void (*test)(void);
		void (*role)(char **argv);
	} run;
	int line;
	struct hk_test_entry *next;
};

void hk_test_add(struct hk_test_entry *t);
void hk_test_add_role(struct hk_test_entry *t);

#define HK_TEST_BEFORE_MAIN(name)                                                                  \
	__attribute__((constructor)) static void hk_test_before_##name(void)

/* Defines a test: TEST(name) { … } */
#define TEST(name)                                                                                 \
	static void test_##name(void);                                                             \
	HK_TEST_BEFORE_MAIN(test_##name)                                                           \
	{                                                                                          \
		static struct hk_test_entry t = {#name, {.test = test_##name}, __LINE__, NULL};    \
                                                                                                   \
		hk_test_add(&t);                                                                   \
	}                                                                                          \
	static void test_##name(void)

/* Defines another life of the program, for tests that start it again: ROLE(name) { … }. Its
 * arguments are in @argv, which ends with NULL. */
#define ROLE(name)                                                                                 \
	static void role_##name(char **argv);                                                      \
	HK_TEST_BEFORE_MAIN(role_##name)                                                           \
	{                                                                                          \
		static struct hk_test_entry t = {#name, {.role = role_##name}, __LINE__, NULL};    \
                                                                                                   \
		hk_test_add_role(&t);                                                              \
	}                                                                                          \
	static void role_##name(char **argv)

/* Code that a program or its rig runs around the tests: BEFORE_ALL() { … }. At most one of each. */
struct hk_test_around {
	void (*before_all)(void), (*after_all)(void), (*after_each)(void);
};
extern struct hk_test_around hk_test_around;

#define HK_TEST_AROUND(when)                                                                       \
	static void hk_test_##when(void);                                                          \
	HK_TEST_BEFORE_MAIN(when)                                                                  \
	{                                                                                          \
		hk_test_around.when = hk_test_##when;                                              \
	}                                                                                          \
	static void hk_test_##when(void)
#define BEFORE_ALL() HK_TEST_AROUND(before_all)
#define AFTER_ALL()  HK_TEST_AROUND(after_all)
#define AFTER_EACH() HK_TEST_AROUND(after_each)

/* ---- randomness ------------------------------------------------------------------------ */

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
	_Exit(1); /* no destructors: the report of a leak checker would hide the message */
}

#define FAIL(...) hk_test_fail(__FILE__, __LINE__, __VA_ARGS__)

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			FAIL("%s", #cond);                                                         \
	} while (0)

/* With a message of the test. */
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

/* Compares strings and prints both. */
#define CHECK_STR(a, b) hk_test_str(__FILE__, __LINE__, #a, (a), (b))

HK_TEST_UNUSED static void hk_test_str(const char *file, int line, const char *what, const char *a,
				       const char *b)
{
	if (strcmp(a, b) != 0)
		hk_test_fail(file, line, "%s is '%s', not '%s'", what, a, b);
}

/* The text contains every one of the strings that follow. */
#define CHECK_HAS(text, ...)                                                                       \
	hk_test_has(__FILE__, __LINE__, (text), (const char *const[]){__VA_ARGS__, NULL})

HK_TEST_UNUSED static void hk_test_has(const char *file, int line, const char *text,
				       const char *const *parts)
{
	for (; *parts; parts++)
		if (!strstr(text, *parts))
			hk_test_fail(file, line, "'%s' does not contain '%s'", text, *parts);
}

/* ---- errors -------------------------------------------------------------------------------- */

/* The error text of the last call that got ERR. One for each thread, and for all files. */
__attribute__((weak)) _Thread_local struct hk_error hk_test_err;

/* For a parameter `struct hk_error *`. */
#define ERR (hk_test_err.text[0] = '\0', &hk_test_err)

/* The call returns 0. */
#define CHECK_OK(call)                                                                             \
	do {                                                                                       \
		long long check_rc_ = (call);                                                      \
		if (check_rc_ != 0)                                                                \
			FAIL("%s: %lld: %s", #call, check_rc_, hk_test_err.text);                  \
	} while (0)

/* The call, which gets ERR, returns @code, and its error contains every string that follows. */
#define CHECK_REFUSED(call, code, ...)                                                             \
	do {                                                                                       \
		long long check_rc_ = (call), check_want_ = (code);                                \
		if (check_rc_ != check_want_)                                                      \
			FAIL("%s: it is %lld, not %lld: %s", #call, check_rc_, check_want_,        \
			     hk_test_err.text);                                                    \
		CHECK_HAS(hk_test_err.text, __VA_ARGS__);                                          \
	} while (0)

/* ---- numbers of the command line ------------------------------------------------------------ */

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

#endif
