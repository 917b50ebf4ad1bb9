/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/modes_flood.c: the scene flood of modes_bench: ranks 0 and 1 play ping-pong, rank 2 floods
 * rank 3.
 */
#include "modes_bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 16 /* messages that the flooded rank receives between two sleeps */
#define END   UINT64_MAX

/* The flooded rank enters MPI's progress when it has received all messages that MPI has for it. MPI
 * then takes in the whole rx backlog. So the flood proceeds and stalls in turn, each for about a
 * second. The sample covers several turns. */
#define FLOOD_SAMPLES 6

/* Quantiles of half a round trip, in seconds. */
struct trip {
	double median, p90;
};

static struct trip ping(double *v, long samples)
{
	double start = now(), before = start, after = start;
	long n = 0;

	while (n < MAX_ROUNDS &&
	       (after - start < (double)(samples * opt.sample_ms) / 1e3 || n < 10)) {
		before = now();
		send_number(1, TAG_DATA, (uint64_t)n);
		if (receive_number(1, TAG_DATA) != (uint64_t)n)
			fail("ping-pong was answered by another number", "");
		after = now();
		v[n++] = (after - before) / 2;
	}
	return (struct trip){quantile(v, n, 0.5), quantile(v, n, 0.9)};
}

static void ping_side(MPI_T_pvar_handle resends)
{
	double *v = samples();
	struct trip quiet, flooded;
	uint64_t before = count_of(resends), sent, waits, resent, came;

	ping(v, 1); /* warm up */
	quiet = ping(v, 1);
	send_number(2, TAG_GO, 0);
	receive_number(2, TAG_GO); /* the flood has begun */
	flooded = ping(v, FLOOD_SAMPLES);
	send_number(2, TAG_LAST, 0);
	send_number(1, TAG_DATA, END);
	sent = receive_number(2, TAG_RESULT);
	waits = receive_number(2, TAG_RESULT);
	resent = receive_number(2, TAG_RESULT) + count_of(resends) - before;
	resent += receive_number(1, TAG_RESULT);
	came = receive_number(3, TAG_RESULT);
	result("flood_quiet_us", 8, quiet.median * 1e6);
	result("flood_quiet_p90_us", 8, quiet.p90 * 1e6);
	result("flood_us", 8, flooded.median * 1e6);
	result("flood_p90_us", 8, flooded.p90 * 1e6);
	result("flood_ratio", 8, flooded.median / quiet.median);
	result("flood_messages", opt.size, (double)sent);
	result("flood_lost", opt.size, (double)sent - (double)came);
	result("flood_waits", opt.size, (double)waits);
	result("flood_resends", opt.size, (double)resent);
	free(v);
}

static void pong_side(MPI_T_pvar_handle resends)
{
	uint64_t before = count_of(resends), number;

	while ((number = receive_number(0, TAG_DATA)) != END)
		send_number(0, TAG_DATA, number);
	send_number(0, TAG_RESULT, count_of(resends) - before);
}

static void flooder(MPI_T_pvar_handle resends)
{
	MPI_T_pvar_handle waits = counter("btl_hikyaku_no_credit");
	uint64_t resent_before = count_of(resends), waits_before, n = 0;
	double start;
	int stop = 0;

	receive_number(0, TAG_GO);
	waits_before = count_of(waits);
	start = now();
	do {
		send_numbered(3, n++);
		/* the ping-pong starts when credit limits the flood */
		if (start > 0 && (count_of(waits) != waits_before || now() > start + 1)) {
			send_number(0, TAG_GO, 0);
			start = 0;
		}
		MPI_Iprobe(0, TAG_LAST, MPI_COMM_WORLD, &stop, MPI_STATUS_IGNORE);
	} while (!stop);
	receive_number(0, TAG_LAST);
	send_numbered(3, END);
	send_number(0, TAG_RESULT, n);
	send_number(0, TAG_RESULT, count_of(waits) - waits_before);
	send_number(0, TAG_RESULT, count_of(resends) - resent_before);
}

/* It enters MPI's progress only when it has received everything. Otherwise MPI would take the flood
 * into its own memory, and credit would never limit the flood. */
static void flooded_rank(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t n = 0, number;
	int begun;

	/* it also sleeps before the flood, so that its neighbour always has the same CPU time */
	do {
		nanosleep(&pause, NULL);
		MPI_Iprobe(2, TAG_DATA, MPI_COMM_WORLD, &begun, MPI_STATUS_IGNORE);
	} while (!begun);
	while ((number = receive_numbered(2)) != END) {
		if (number != n++)
			fail("a message of the flood was lost, came twice or came late", "");
		if (n % BATCH == 0)
			nanosleep(&pause, NULL);
	}
	send_number(0, TAG_RESULT, n);
}

/* Ranks 0 and 2 on one node, 1 and 3 on another. */
static void check_places(void)
{
	char mine[MPI_MAX_PROCESSOR_NAME] = "", all[4][MPI_MAX_PROCESSOR_NAME];
	int len;

	MPI_Get_processor_name(mine, &len);
	MPI_Allgather(mine, sizeof(mine), MPI_BYTE, all, sizeof(mine), MPI_BYTE, MPI_COMM_WORLD);
	for (int i = 0; i < 4; i++)
		if ((strcmp(all[i], all[0]) == 0) != (i % 2 == 0) ||
		    strcmp(all[i], all[i % 2]) != 0)
			fail("the even ranks must be on one node and the odd ones on another", "");
}

void flood(void)
{
	MPI_T_pvar_handle resends = counter("btl_hikyaku_tx_resends");

	check_places();
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		ping_side(resends);
	else if (rank == 1)
		pong_side(resends);
	else if (rank == 2)
		flooder(resends);
	else
		flooded_rank();
}
