/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/peer_loss.c: a rank that disappears during traffic.
 *
 *     --mode kill   the last rank kills itself by SIGKILL: the job must end soon, not with success
 *     --mode stop   the last rank stops itself by SIGSTOP: the launcher does not notice, so the
 *                   transport must notice it, name host and rank, and end the job
 *     --mode exit   the last rank calls _exit(3) without MPI_Finalize
 *
 * The program does not print PASS. Its caller checks the exit status, the time and the text on
 * stderr. The rank prints `LEAVING rank R` just before it leaves. The others continue to send and
 * receive. Their watchdog (--timeout) exits with status 124, which means that the transport did not
 * notice.
 */
#include "common.h"

#include <signal.h>
#include <unistd.h>

#define BEFORE 50 /* exchanges before the rank goes */

int main(int argc, char **argv)
{
	static uint8_t out[70000], in[70000];

	hkt_init(&argc, &argv, "peer_loss", MPI_THREAD_SINGLE);
	const char *mode = hkt_opt.mode ? hkt_opt.mode : "kill";
	int victim = hkt_size - 1;
	int to = (hkt_rank + 1) % hkt_size, from = (hkt_rank - 1 + hkt_size) % hkt_size;

	if (strcmp(mode, "kill") && strcmp(mode, "stop") && strcmp(mode, "exit"))
		hkt_fail("unknown mode %s; known: kill, stop, exit", mode);
	for (int i = 0;; i++) {
		size_t size = hkt_few_sizes[i % (hkt_nfew - 6)];
		if (hkt_rank == victim && i == BEFORE) {
			fprintf(stderr, "LEAVING rank %d\n", hkt_rank);
			fflush(stderr);
			if (!strcmp(mode, "exit"))
				_exit(3);
			raise(!strcmp(mode, "kill") ? SIGKILL : SIGSTOP);
		}
		hkt_at("exchange %d of %zu bytes, to %d, from %d", i, size, to, from);
		hkt_fill(out, size, hkt_key((uint64_t)hkt_rank, (uint64_t)to, (uint64_t)i, size));
		MPI_Sendrecv(out, (int)size, MPI_BYTE, to, 1, in, (int)size, MPI_BYTE, from, 1,
			     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		hkt_verify(in, size, hkt_key((uint64_t)from, (uint64_t)hkt_rank, (uint64_t)i, size),
			   from, "exchange");
	}
}
