/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/common.h: the common parts of the MPI test programs.
 *
 * The programs are plain MPI: they do not know Hikyaku, and run over any transport. Each one checks
 * every byte that it receives. On success rank 0 prints `PASS name (N checks)`. Otherwise the
 * program names rank, peer, size, offset, expected and found value, and ends the job with a
 * non-zero status.
 *
 *     options   --seed N     seed of everything random (default 1; printed on failure)
 *               --rounds N   amount of work, in units of the program (0: its default)
 *               --timeout S  watchdog: after S seconds every rank prints where it waits; default
 * 120
 *               --mode TEXT  variant, where a program has several
 *
 * mpi_several (several.c) runs several programs in one job, one after the other. So a program sets
 * each of its static variables before use, and frees what it makes in MPI.
 *
 * Payload: the byte at offset i of a message is a function of (key, i). The key depends on the seed
 * and on the identity of the message, such as source, destination, tag and sequence number. So a
 * byte in the wrong message, or at a wrong offset, is a mismatch.
 *
 * Threads: several threads may call all functions except hkt_init() and hkt_finish() at once.
 */
#ifndef HKT_COMMON_H
#define HKT_COMMON_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hkt_options {
	uint64_t seed;
	int rounds;
	int timeout;
	const char *mode; /* NULL: not given */
};

extern struct hkt_options hkt_opt;
extern int hkt_rank, hkt_size; /* in MPI_COMM_WORLD */
extern bool hkt_more;          /* MPI stays up after this program, for the next one */

/* Starts MPI with @thread_level, unless an earlier program of the job did, and the watchdog.
 * Returns the level that MPI provides. */
int hkt_init(int *argc, char ***argv, const char *name, int thread_level);

/* Adds up the checks of all ranks, prints PASS and ends MPI. Returns the exit status. */
int hkt_finish(void);

/* Like hkt_finish(), for a program that cannot run here: prints `SKIP name: why`, status 77. */
int hkt_skip(const char *why);

/* Notes what this thread does next, for the watchdog's report. Fast enough for every message. */
__attribute__((format(printf, 1, 2))) void hkt_at(const char *fmt, ...);

/* Prints the failure with the last hkt_at() of this thread, and ends the job. */
__attribute__((format(printf, 1, 2), noreturn)) void hkt_fail(const char *fmt, ...);

/* Counts one check; fails with the text if @ok is false. */
#define HKT_CHECK(ok, ...)                                                                         \
	do {                                                                                       \
		hkt_count(1);                                                                      \
		if (!(ok))                                                                         \
			hkt_fail(__VA_ARGS__);                                                     \
	} while (0)

void hkt_count(unsigned n);

/* malloc that fails the test instead of returning NULL; 0 bytes give a valid pointer too. */
void *hkt_alloc(size_t bytes);

/* ---- seeded numbers -------------------------------------------------------------------------- */

struct hkt_rng {
	uint64_t state;
};

uint64_t hkt_mix(uint64_t x); /* splitmix64's finalizer: one word to one word */
uint64_t hkt_next(struct hkt_rng *r);
uint64_t hkt_below(struct hkt_rng *r, uint64_t n); /* 0 … n - 1 */

/* A key from the seed and four numbers that identify a message. */
uint64_t hkt_key(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/* ---- payload --------------------------------------------------------------------------------- */

uint8_t hkt_byte(uint64_t key, size_t i);
void hkt_fill(void *buf, size_t len, uint64_t key);

/* Fails unless @buf holds the payload of @key; @peer and @what go into the text. */
void hkt_verify(const void *buf, size_t len, uint64_t key, int peer, const char *what);

/* Fails unless all @len bytes are @value: memory that must not change. */
void hkt_verify_value(const void *buf, size_t len, uint8_t value, int peer, const char *what);

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Sizes in bytes around every border of the protocols: short ones, odd ones around one frame of
 * 1500 and of 8192 bytes, eager limits, powers of two. Sorted, without duplicates. */
extern const size_t *hkt_sizes;
extern int hkt_nsizes;

/* A shorter list with the same borders (some dozens), for programs that multiply it. */
extern const size_t *hkt_few_sizes;
extern int hkt_nfew;

#define HKT_MAX_SIZE ((size_t)4 * 1024 * 1024 + 3)

/* ---- memory ---------------------------------------------------------------------------------- */

/* The peak resident memory of this process, in KiB. */
long hkt_peak_kib(void);

/* ---- digest ---------------------------------------------------------------------------------- */

/* Order-dependent hash of data, to compare whole runs. */
struct hkt_digest {
	uint64_t h;
};

void hkt_digest_add(struct hkt_digest *d, const void *buf, size_t len);

/* ---- waiting --------------------------------------------------------------------------------- */

/* Uses the CPU for @ms milliseconds without calling MPI, as an application that computes. */
void hkt_compute(unsigned ms);

/* FILE of --mode until:FILE, or NULL: the program goes on until FILE exists. */
const char *hkt_until(void);

/*
 * Whether rank 0 sees @file; all ranks call it, and get the same answer. The first call, which is
 * after a round of the program, makes FILE.begun: the ranks have talked to each other.
 */
bool hkt_is_there(const char *file);

#endif
