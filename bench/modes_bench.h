/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/modes_bench.h: shared by the scenes of modes_bench.
 *
 *   modes_bench.c   options, messages, counters; the scene idle
 *   modes_absent.c  the scenes busy and pickup: a rank computes
 *   modes_flood.c   the scene flood: a rank is sent more than it receives
 */
#ifndef HK_BENCH_MODES_BENCH_H
#define HK_BENCH_MODES_BENCH_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#define MAX_SIZE   4096
#define MAX_ROUNDS 1000000

/* Rank 0's btl_hikyaku_window in the scene pickup; main() sets it. */
#define PICKUP_WINDOW 8

enum tag { TAG_DATA = 1, TAG_GO, TAG_RESULT, TAG_LAST };

struct options {
	const char *scene, *flag;
	long messages, size, compute_ms, rounds, sample_ms, seconds;
	bool asleep;
};

extern struct options opt;
extern int rank, ranks;
extern char buf[MAX_SIZE];

void fail(const char *what, const char *detail) __attribute__((noreturn));

/* Seconds of CLOCK_MONOTONIC. */
double now(void);

/* Prints a line of JSON. */
void result(const char *metric, long size, double value);

/* The BTL's performance variable @name, and its value. */
MPI_T_pvar_handle counter(const char *name);
uint64_t count_of(MPI_T_pvar_handle handle);

void send_number(int to, int tag, uint64_t number);
uint64_t receive_number(int from, int tag);

/* Messages of --size bytes that carry a number. expect_numbered() fails if the next one is not
 * @number. */
void send_numbered(int to, uint64_t number);
uint64_t receive_numbered(int from);
void expect_numbered(int from, uint64_t number);

/* Exchanges messages until connections, credits and round-trip times are in their steady state. */
void warm_up(int peer);

/* Enters MPI, which makes progress. */
void progress(void);

/* Space for MAX_ROUNDS values, which the caller frees. */
double *samples(void);

/* Sorts @v and returns its quantile @q. */
double quantile(double *v, long n, double q);

void busy(void);
void pickup(void);
void flood(void);

#endif
