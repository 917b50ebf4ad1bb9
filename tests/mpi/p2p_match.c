/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/p2p_match.c: matching. Wildcards, probes, truncation, PROC_NULL, sendrecv, cancel.
 *
 * Unless a part says otherwise, rank 0 receives and the others send. Every part ends with a
 * barrier, so that its messages cannot match receives of the next part.
 */
#include "common.h"

#define W MPI_COMM_WORLD

static uint8_t *buf, *buf2;

static uint64_t key_of(int from, int to, int tag, size_t size)
{
	return hkt_key((uint64_t)from, (uint64_t)to, (uint64_t)tag, size);
}

static void send_to(int to, int tag, size_t size)
{
	hkt_fill(buf, size, key_of(hkt_rank, to, tag, size));
	MPI_Send(buf, (int)size, MPI_BYTE, to, tag, W);
}

/* Sizes differ by sender, so that a status of the wrong message cannot pass. */
static size_t size_for(int rank, int i)
{
	return hkt_few_sizes[(rank * 7 + i) % (hkt_nfew - 1)];
}

static void wildcards(void)
{
	int n = hkt_nfew;

	if (hkt_rank != 0) {
		for (int i = 0; i < n; i++) {
			hkt_at("wildcards: send %d", i);
			send_to(0, 100 + i, size_for(hkt_rank, i));
		}
		return;
	}
	int *next = hkt_alloc((size_t)hkt_size * sizeof(int));
	memset(next, 0, (size_t)hkt_size * sizeof(int));
	for (int k = 0; k < n * (hkt_size - 1); k++) {
		MPI_Status st;
		hkt_at("wildcards: receive %d from any source, any tag", k);
		MPI_Recv(buf, (int)HKT_MAX_SIZE, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, W, &st);
		int from = st.MPI_SOURCE, count;
		HKT_CHECK(from > 0 && from < hkt_size, "wildcards: source %d", from);
		size_t size = size_for(from, next[from]);
		MPI_Get_count(&st, MPI_BYTE, &count);
		HKT_CHECK(st.MPI_TAG == 100 + next[from] && count == (int)size,
			  "wildcards: peer %d: expected tag %d size %zu, found tag %d size %d",
			  from, 100 + next[from], size, st.MPI_TAG, count);
		hkt_verify(buf, size, key_of(from, 0, st.MPI_TAG, size), from, "wildcards");
		next[from]++;
	}
	free(next);
}

enum probing { PROBE, IPROBE, MPROBE, IMPROBE, PROBINGS };
static const char *const probing_name[PROBINGS] = {"probe", "iprobe", "mprobe", "improbe"};

/* Probes each sender's messages with growing tags, and receives them into buffers of exactly the
 * probed size. */
static void probes(enum probing how)
{
	const char *what = probing_name[how];

	if (hkt_rank != 0) {
		for (int i = 0; i < hkt_nfew; i++) {
			hkt_at("%s: send %d", what, i);
			send_to(0, 200 + i, size_for(hkt_rank, i));
		}
		return;
	}
	for (int k = 0; k < hkt_nfew * (hkt_size - 1); k++) {
		int tag = 200 + k / (hkt_size - 1), flag = 0, count;
		MPI_Message msg = MPI_MESSAGE_NULL;
		MPI_Status st, st2;

		hkt_at("%s: message %d with tag %d from any source", what, k, tag);
		if (how == PROBE)
			MPI_Probe(MPI_ANY_SOURCE, tag, W, &st);
		else if (how == MPROBE)
			MPI_Mprobe(MPI_ANY_SOURCE, tag, W, &msg, &st);
		while ((how == IPROBE || how == IMPROBE) && !flag) {
			if (how == IPROBE)
				MPI_Iprobe(MPI_ANY_SOURCE, tag, W, &flag, &st);
			else
				MPI_Improbe(MPI_ANY_SOURCE, tag, W, &flag, &msg, &st);
		}
		int from = st.MPI_SOURCE;
		size_t size = size_for(from, tag - 200);
		MPI_Get_count(&st, MPI_BYTE, &count);
		HKT_CHECK(st.MPI_TAG == tag && count == (int)size,
			  "%s: peer %d: expected tag %d size %zu, found tag %d size %d", what, from,
			  tag, size, st.MPI_TAG, count);
		void *exact = hkt_alloc(size);
		hkt_at("%s: receive of the probed message, tag %d from %d", what, tag, from);
		if (how == MPROBE)
			MPI_Mrecv(exact, count, MPI_BYTE, &msg, &st2);
		else if (how == IMPROBE) {
			MPI_Request r;
			MPI_Imrecv(exact, count, MPI_BYTE, &msg, &r);
			MPI_Wait(&r, &st2);
		} else
			MPI_Recv(exact, count, MPI_BYTE, from, tag, W, &st2);
		hkt_verify(exact, size, key_of(from, 0, tag, size), from, what);
		free(exact);
	}
}

/* Open MPI 4.1 itself writes behind a truncated receive when a rendezvous message comes by put.
 * That happens over TCP and shared memory. So only eager messages are checked for that. */
#define TRUNCATION_GUARDED 1024

/* A message longer than its buffer is an error of that receive only. The memory behind the buffer
 * stays unchanged, and the next messages arrive. */
static void truncation(void)
{
	MPI_Errhandler old;
	MPI_Comm_get_errhandler(W, &old);
	MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);

	for (int posted_first = 0; posted_first < 2; posted_first++) {
		for (int i = 0; i < hkt_nfew; i++) {
			size_t size = hkt_few_sizes[i], room = size / 2;
			int tag = 300 + 2 * i;
			if (size == 0 || hkt_rank > 1)
				continue;
			hkt_at("truncation: size %zu into %zu", size, room);
			if (hkt_rank == 1) {
				if (posted_first)
					MPI_Recv(NULL, 0, MPI_BYTE, 0, 299, W, MPI_STATUS_IGNORE);
				send_to(0, tag, size);
				send_to(0, tag + 1, size);
				continue;
			}
			MPI_Request r;
			memset(buf, 0x5A, HKT_MAX_SIZE);
			int rc, class;
			if (posted_first) {
				MPI_Irecv(buf, (int)room, MPI_BYTE, 1, tag, W, &r);
				MPI_Send(NULL, 0, MPI_BYTE, 1, 299, W);
				rc = MPI_Wait(&r, MPI_STATUS_IGNORE);
			} else {
				MPI_Status st;
				MPI_Probe(1, tag, W, &st); /* so that it lies unexpected */
				rc = MPI_Recv(buf, (int)room, MPI_BYTE, 1, tag, W,
					      MPI_STATUS_IGNORE);
			}
			MPI_Error_class(rc, &class);
			HKT_CHECK(class == MPI_ERR_TRUNCATE,
				  "truncation: peer 1, size %zu into %zu (%s): expected "
				  "MPI_ERR_TRUNCATE (%d), found class %d",
				  size, room, posted_first ? "posted" : "unexpected",
				  MPI_ERR_TRUNCATE, class);
			if (size <= TRUNCATION_GUARDED)
				hkt_verify_value(buf + room, size - room, 0x5A, 1, "truncation");
			hkt_at("truncation: message after that of size %zu", size);
			rc = MPI_Recv(buf, (int)size, MPI_BYTE, 1, tag + 1, W, MPI_STATUS_IGNORE);
			HKT_CHECK(rc == MPI_SUCCESS, "truncation: next receive failed, %d", rc);
			hkt_verify(buf, size, key_of(1, 0, tag + 1, size), 1, "after truncation");
		}
	}
	MPI_Comm_set_errhandler(W, old);
	MPI_Errhandler_free(&old);
}

static void proc_null(void)
{
	MPI_Status st;
	int count = -1;

	memset(buf, 0x5A, 100);
	MPI_Send(buf, 100, MPI_BYTE, MPI_PROC_NULL, 1, W);
	MPI_Recv(buf, 100, MPI_BYTE, MPI_PROC_NULL, 1, W, &st);
	MPI_Get_count(&st, MPI_BYTE, &count);
	HKT_CHECK(st.MPI_SOURCE == MPI_PROC_NULL && st.MPI_TAG == MPI_ANY_TAG && count == 0,
		  "PROC_NULL: source %d, tag %d, count %d", st.MPI_SOURCE, st.MPI_TAG, count);
	hkt_verify_value(buf, 100, 0x5A, MPI_PROC_NULL, "PROC_NULL");
}

static void sendrecv(void)
{
	int to = (hkt_rank + 1) % hkt_size, from = (hkt_rank - 1 + hkt_size) % hkt_size;

	for (int i = 0; i < hkt_nfew; i++) {
		/* sizes of both directions differ */
		size_t out = size_for(hkt_rank, i), in = size_for(from, i);
		MPI_Status st;
		int count;

		hkt_at("sendrecv: %zu out, %zu in", out, in);
		hkt_fill(buf, out, key_of(hkt_rank, to, 400 + i, out));
		MPI_Sendrecv(buf, (int)out, MPI_BYTE, to, 400 + i, buf2, (int)HKT_MAX_SIZE,
			     MPI_BYTE, from, 400 + i, W, &st);
		MPI_Get_count(&st, MPI_BYTE, &count);
		HKT_CHECK(count == (int)in, "sendrecv: peer %d: expected size %zu, found %d", from,
			  in, count);
		hkt_verify(buf2, in, key_of(from, hkt_rank, 400 + i, in), from, "sendrecv");

		size_t size = hkt_few_sizes[i];
		hkt_at("sendrecv_replace: size %zu", size);
		hkt_fill(buf, size, key_of(hkt_rank, to, 500 + i, size));
		MPI_Sendrecv_replace(buf, (int)size, MPI_BYTE, to, 500 + i, from, 500 + i, W, &st);
		hkt_verify(buf, size, key_of(from, hkt_rank, 500 + i, size), from,
			   "sendrecv_replace");

		/* to itself */
		hkt_fill(buf, size, key_of(hkt_rank, hkt_rank, 600 + i, size));
		MPI_Sendrecv(buf, (int)size, MPI_BYTE, hkt_rank, 600 + i, buf2, (int)size, MPI_BYTE,
			     hkt_rank, 600 + i, W, &st);
		hkt_verify(buf2, size, key_of(hkt_rank, hkt_rank, 600 + i, size), hkt_rank, "self");
	}
}

/* A cancelled receive takes no message: the next message with its tag goes to the next receive. */
static void cancel(void)
{
	for (int i = 0; i < hkt_nfew; i++) {
		size_t size = hkt_few_sizes[i];
		if (hkt_rank == 1) {
			hkt_at("cancel: wait for the word to send %zu", size);
			MPI_Recv(NULL, 0, MPI_BYTE, 0, 699, W, MPI_STATUS_IGNORE);
			send_to(0, 700 + i, size);
		} else if (hkt_rank == 0) {
			MPI_Request r;
			MPI_Status st;
			int flag = 0;
			memset(buf2, 0x5A, size);
			MPI_Irecv(buf2, (int)size, MPI_BYTE, 1, 700 + i, W, &r);
			MPI_Cancel(&r);
			hkt_at("cancel: wait for the cancelled receive, size %zu", size);
			MPI_Wait(&r, &st);
			MPI_Test_cancelled(&st, &flag);
			HKT_CHECK(flag, "cancel: receive of %zu bytes was not cancelled", size);
			MPI_Send(NULL, 0, MPI_BYTE, 1, 699, W);
			hkt_at("cancel: receive after the cancelled one, size %zu", size);
			MPI_Recv(buf, (int)size, MPI_BYTE, 1, 700 + i, W, &st);
			hkt_verify(buf, size, key_of(1, 0, 700 + i, size), 1, "after cancel");
			hkt_verify_value(buf2, size, 0x5A, 1, "cancelled buffer");
		}
	}
}

static void barrier(const char *after)
{
	hkt_at("barrier after %s", after);
	MPI_Barrier(W);
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "p2p_match", MPI_THREAD_SINGLE);
	if (hkt_size < 2)
		hkt_fail("needs at least 2 ranks, has %d", hkt_size);
	buf = hkt_alloc(HKT_MAX_SIZE);
	buf2 = hkt_alloc(HKT_MAX_SIZE);

	wildcards();
	barrier("wildcards");
	for (int h = 0; h < PROBINGS; h++) {
		probes((enum probing)h);
		barrier(probing_name[h]);
	}
	truncation();
	barrier("truncation");
	proc_null();
	sendrecv();
	barrier("sendrecv");
	cancel();
	barrier("cancel");
	free(buf);
	free(buf2);
	return hkt_finish();
}
