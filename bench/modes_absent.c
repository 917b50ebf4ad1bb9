/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/modes_absent.c: the scenes busy and pickup of modes_bench: rank 1 computes, rank 0 sends.
 */
#include "modes_bench.h"

#include <stdlib.h>

#define LIMIT      60.0 /* seconds; longer means a hang */
#define NOT_PICKED 0.1  /* seconds */

static void compute_until(double end)
{
	while (now() < end)
		;
}

/* ---- busy ------------------------------------------------------------------------------------ */

static void busy_sender(void)
{
	MPI_T_pvar_handle left = counter("btl_hikyaku_tx_packets");
	MPI_T_pvar_handle resends = counter("btl_hikyaku_tx_resends");
	double times[2], sent, done;

	MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	uint64_t left_before = count_of(left), resent_before = count_of(resends);

	for (long i = 0; i < opt.messages; i++)
		send_numbered(1, (uint64_t)i);
	sent = done = now();
	while (count_of(left) < left_before + (uint64_t)opt.messages) {
		progress();
		done = now();
		if (done > sent + LIMIT)
			fail("the messages did not leave within a minute", "");
	}
	MPI_Recv(times, 2, MPI_DOUBLE, 1, TAG_RESULT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	result("busy_sent_ms", opt.size, (sent - times[0]) * 1e3);
	result("busy_done_ms", opt.size, (done - times[0]) * 1e3);
	result("busy_early_ms", opt.size, (times[1] - done) * 1e3);
	result("busy_resends", opt.size, (double)(count_of(resends) - resent_before));
}

void busy(void)
{
	double times[2];

	warm_up(1 - rank);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0) {
		busy_sender();
		return;
	}
	MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_GO, MPI_COMM_WORLD);
	times[0] = now();
	compute_until(times[0] + (double)opt.compute_ms / 1e3);
	times[1] = now();
	for (long i = 0; i < opt.messages; i++)
		expect_numbered(0, (uint64_t)i);
	MPI_Send(times, 2, MPI_DOUBLE, 0, TAG_RESULT, MPI_COMM_WORLD);
}

/* ---- pickup ---------------------------------------------------------------------------------- */

/* One round of rank 0: seconds until a frame was acknowledged; negative: unknown. */
static double until_acknowledged(MPI_T_pvar_handle left)
{
	MPI_Request requests[PICKUP_WINDOW + 1];
	uint64_t before = count_of(left);
	double start, end;

	MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	start = now();
	for (int i = 0; i <= PICKUP_WINDOW; i++)
		MPI_Isend(buf, (int)opt.size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
	uint64_t first = count_of(left);

	/* false if acknowledgements came while this rank was interrupted, or a loss made the window
	 * smaller */
	bool full = first == before + PICKUP_WINDOW;

	do {
		progress();
		end = now();
	} while (full && count_of(left) == first && end < start + NOT_PICKED);
	MPI_Waitall(PICKUP_WINDOW + 1, requests, MPI_STATUSES_IGNORE);
	return full && end < start + NOT_PICKED ? end - start : -1;
}

/* One round of rank 1: seconds until a proxy received a frame for it; negative: unknown. */
static double until_received(MPI_T_pvar_handle received)
{
	uint64_t before = count_of(received);

	MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_GO, MPI_COMM_WORLD);
	double start = now(), end;

	do
		end = now();
	while (count_of(received) == before && end < start + NOT_PICKED);
	/* compute long enough for the proxy's acknowledgement */
	compute_until(end + 0.003);
	for (int i = 0; i <= PICKUP_WINDOW; i++)
		MPI_Recv(buf, MAX_SIZE, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return end < start + NOT_PICKED ? end - start : -1;
}

void pickup(void)
{
	MPI_T_pvar_handle handle = counter(rank == 0 ? "btl_hikyaku_tx_packets"
						     : "btl_hikyaku_proxy_backlogged");
	double *taken = samples(), *acked = samples(), other;
	uint32_t random = 12345;
	long n = 0;

	warm_up(1 - rank);
	for (long i = 0; i < opt.rounds; i++) {
		/* stay in MPI for a random time, so that rounds do not follow the poller's period
		 */
		random = random * 1664525 + 1013904223;
		for (double end = now() + (double)(random >> 16) / 65536 * 500e-6; now() < end;)
			progress();
		MPI_Barrier(MPI_COMM_WORLD);
		if (rank == 1) {
			other = until_received(handle);
			MPI_Send(&other, 1, MPI_DOUBLE, 0, TAG_RESULT, MPI_COMM_WORLD);
			continue;
		}
		acked[n] = until_acknowledged(handle);
		MPI_Recv(&other, 1, MPI_DOUBLE, 1, TAG_RESULT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		taken[n] = other;
		n += acked[n] >= 0 && other >= 0;
	}
	if (rank == 0 && n == 0)
		fail("no round could be timed: this BTL ignores btl_hikyaku_window, or no proxy "
		     "received frames within 100 ms",
		     "");
	if (rank == 0)
		result("pickup_missed", opt.size, (double)(opt.rounds - n));
	if (rank == 0) {
		result("pickup_us", opt.size, quantile(taken, n, 0.5) * 1e6);
		result("pickup_p99_us", opt.size, quantile(taken, n, 0.99) * 1e6);
		result("ack_us", opt.size, quantile(acked, n, 0.5) * 1e6);
		result("ack_p99_us", opt.size, quantile(acked, n, 0.99) * 1e6);
	}
	free(taken);
	free(acked);
}
