/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/bcast.c: MPI_Bcast of long messages; every rank checks every byte.
 *
 * Rank 0 prints `COUNT name value` for each performance variable of a coll component called
 * hikyaku, if there is one. It also prints one for the multicasts that the BTL received. Values are
 * sums over all ranks.
 *
 *   --mode megabyte   1 MiB, --rounds times, from rank 0
 *   --mode until:FILE the same, until FILE exists
 *   --mode random     sizes, roots, datatypes and communicators drawn from the seed
 *   --mode absent     one receiver comes late, and one leaves early
 *   --mode lengthy    14 MiB, contiguous and with gaps
 *   --mode want       rows of 1 MiB, and a receiver that can allocate almost no memory
 *   --mode unequal    one receiver expects more bytes than are sent
 */
#include "common.h"

#include <sys/resource.h>
#include <unistd.h>

#define MEGABYTE ((size_t)1 << 20)
#define LONGEST  ((size_t)1 << 19)
#define LENGTHY  (14 * MEGABYTE)
#define SPARE    ((rlim_t)8 << 20)

enum { MOST = 32 };

#define OF_COLL "coll_hikyaku_"
#define OF_BTL  "btl_hikyaku_"

/* The name to print, if the variable is one of Hikyaku's. */
static const char *shown(const char *name)
{
	if (strncmp(name, OF_COLL, strlen(OF_COLL)) == 0)
		return name + strlen(OF_COLL);
	return strcmp(name, OF_BTL "mcasts_in") == 0 ? name + strlen(OF_BTL) : NULL;
}

/* A counter counts from the time at which its handle was made. */
static struct {
	MPI_T_pvar_session session;
	MPI_T_pvar_handle handle[MOST];
	char name[MOST][64];
	int n;
} counters;

static void counters_start(void)
{
	int provided, n;

	MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
	MPI_T_pvar_session_create(&counters.session);
	MPI_T_pvar_get_num(&n);
	for (int i = 0; i < n && counters.n < MOST; i++) {
		int name_len = sizeof(counters.name[0]), desc_len = 0, verbosity, class, bind,
		    readonly, continuous, atomic, elements;
		char *name = counters.name[counters.n];
		MPI_Datatype type;
		MPI_T_enum e;

		if (MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &e, NULL,
					&desc_len, &bind, &readonly, &continuous,
					&atomic) != MPI_SUCCESS ||
		    !shown(name))
			continue;
		MPI_T_pvar_handle_alloc(counters.session, i, NULL, &counters.handle[counters.n++],
					&elements);
	}
}

/* Sums the variables that rank 0 has. A rank without the component has none. */
static void counters_print(void)
{
	unsigned long long value[MOST], sum;
	int n = counters.n;

	for (int i = 0; i < counters.n; i++) {
		MPI_T_pvar_read(counters.session, counters.handle[i], &value[i]);
		MPI_T_pvar_handle_free(counters.session, &counters.handle[i]);
	}
	MPI_Bcast(&n, 1, MPI_INT, 0, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++) {
		unsigned long long mine = 0;
		char name[sizeof(counters.name[0])] = "";

		if (hkt_rank == 0)
			memcpy(name, counters.name[i], sizeof(name));
		MPI_Bcast(name, sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD);
		for (int k = 0; k < counters.n; k++)
			if (strcmp(counters.name[k], name) == 0)
				mine = value[k];
		MPI_Reduce(&mine, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
		if (hkt_rank == 0)
			printf("COUNT %s %llu\n", shown(name), sum);
	}
	MPI_T_pvar_session_free(&counters.session);
	MPI_T_finalize();
}

/* One Bcast of @len contiguous bytes, with guard bytes around them. */
static void one(MPI_Comm comm, int root, size_t len, uint64_t key)
{
	enum { ROOM = 64 };
	char *buf = hkt_alloc(len + 2 * ROOM);
	int me;

	MPI_Comm_rank(comm, &me);
	memset(buf, 0x5a, len + 2 * ROOM);
	if (me == root)
		hkt_fill(buf + ROOM, len, key);
	hkt_at("a Bcast of %zu bytes from %d", len, root);
	MPI_Bcast(buf + ROOM, (int)len, MPI_BYTE, root, comm);
	hkt_verify(buf + ROOM, len, key, root, "Bcast");
	hkt_verify_value(buf, ROOM, 0x5a, root, "before");
	hkt_verify_value(buf + ROOM + len, ROOM, 0x5a, root, "behind");
	free(buf);
}

/* Rows of ROW bytes: contiguous, or PITCH apart, also with gaps around the numbers in a row. So MPI
 * packs the numbers as numbers, and a part of a message can end within one. */
enum { ROW = 26, PITCH = 40, NUMBERS = 8, BEHIND = 28 };

static MPI_Datatype row_type(size_t pitch)
{
	const int count[] = {1, 2, ROW - 1 - 2 * (int)sizeof(double)};
	const MPI_Aint first = pitch == ROW ? 1 : NUMBERS;
	const MPI_Aint at[] = {0, first, pitch == ROW ? 17 : BEHIND};
	const MPI_Datatype what[] = {MPI_BYTE, MPI_DOUBLE, MPI_BYTE};
	MPI_Datatype row, type;

	MPI_Type_create_struct(3, count, at, what, &row);
	MPI_Type_create_resized(row, 0, (MPI_Aint)pitch, &type);
	MPI_Type_commit(&type);
	MPI_Type_free(&row);
	return type;
}

static bool cramped; /* rank 2 has no memory during a Bcast */

static void cramp(struct rlimit *before)
{
	struct rlimit now;
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	HKT_CHECK(f && fscanf(f, "%lu", &pages) == 1, "no /proc/self/statm");
	fclose(f);
	getrlimit(RLIMIT_AS, before);
	now = *before;
	now.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + SPARE;
	HKT_CHECK(setrlimit(RLIMIT_AS, &now) == 0, "setrlimit");
}

/* Receivers and root have different datatypes for the same bytes: rows with or without gaps. */
static void strided(MPI_Comm comm, int root, size_t rows, uint64_t key, bool gaps)
{
	int me;

	MPI_Comm_rank(comm, &me);
	size_t pitch = gaps ? PITCH : ROW, first = gaps ? NUMBERS : 1, behind = gaps ? BEHIND : 17;
	char *buf = hkt_alloc(rows * pitch), *flat = hkt_alloc(rows * ROW);
	MPI_Datatype type = row_type(pitch);
	struct rlimit before;

	hkt_fill(flat, rows * ROW, key);
	memset(buf, 0x5a, rows * pitch);
	for (size_t i = 0; i < rows && me == root; i++) {
		buf[i * pitch] = flat[i * ROW];
		memcpy(buf + i * pitch + first, flat + i * ROW + 1, 16);
		memcpy(buf + i * pitch + behind, flat + i * ROW + 17, ROW - 17);
	}
	hkt_at("a Bcast of %zu rows from %d", rows, root);
	if (cramped && me == 2)
		cramp(&before);
	MPI_Bcast(buf, (int)rows, type, root, comm);
	if (cramped && me == 2)
		setrlimit(RLIMIT_AS, &before);
	MPI_Type_free(&type);
	for (size_t i = 0; i < rows; i++) {
		const char *row = buf + i * pitch;

		HKT_CHECK(row[0] == flat[i * ROW] &&
				  memcmp(row + first, flat + i * ROW + 1, 16) == 0 &&
				  memcmp(row + behind, flat + i * ROW + 17, ROW - 17) == 0,
			  "row %zu of %zu from %d is not what was sent", i, rows, root);
		hkt_verify_value(row + 1, first - 1, 0x5a, root, "a gap");
		hkt_verify_value(row + first + 16, behind - first - 16, 0x5a, root, "a gap");
		hkt_verify_value(row + behind + 9, pitch - behind - 9, 0x5a, root, "a gap");
	}
	free(buf);
	free(flat);
}

static void megabyte(int rounds)
{
	for (int i = 0; i < rounds; i++)
		one(MPI_COMM_WORLD, 0, MEGABYTE, hkt_key(1, (uint64_t)i, 0, 0));
}

static void until(const char *file)
{
	uint64_t i = 0;

	do
		one(MPI_COMM_WORLD, 0, MEGABYTE, hkt_key(6, i++, 0, 0));
	while (!hkt_is_there(file));
}

/* All ranks draw the same numbers, since they depend only on the seed. */
static void randomly(int rounds)
{
	struct hkt_rng rng = {hkt_opt.seed};

	for (int i = 0; i < rounds; i++) {
		MPI_Comm comm;
		int colors = 1 + (int)hkt_below(&rng, 2), size, shift = (int)hkt_below(&rng, 8);

		MPI_Comm_split(MPI_COMM_WORLD, (hkt_rank + shift) / 2 % colors, -hkt_rank, &comm);
		MPI_Comm_size(comm, &size);
		for (int k = 0; k < 4; k++) {
			int root = (int)(hkt_next(&rng) % (unsigned)size);
			size_t len = (size_t)hkt_below(&rng, LONGEST) >> hkt_below(&rng, 5);
			uint64_t key = hkt_key(2, (uint64_t)i, (uint64_t)k, 0),
				 how = hkt_next(&rng);

			if (how % 3)
				one(comm, root, len, key);
			else
				strided(comm, root, len / 32 + 1, key,
					((unsigned)hkt_rank + how / 3) % 2);
		}
		MPI_Comm_free(&comm);
	}
}

/* A rank that is late, or that computes afterwards, delays the others only for that time. */
static void absent(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		if (hkt_rank == 1 + i % (hkt_size - 1))
			hkt_compute(50);
		one(MPI_COMM_WORLD, i % hkt_size, MEGABYTE / 2, hkt_key(3, (uint64_t)i, 0, 0));
		if (hkt_rank == i % hkt_size)
			hkt_compute(50);
	}
}

/* More bytes than the component sends in one transfer, contiguous and in rows. */
static void lengthy(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		one(MPI_COMM_WORLD, i % hkt_size, LENGTHY, hkt_key(4, (uint64_t)i, 0, 0));
		strided(MPI_COMM_WORLD, i % hkt_size, LENGTHY / ROW, hkt_key(4, (uint64_t)i, 1, 0),
			hkt_rank < 2);
	}
}

static void in_want(int rounds)
{
	cramped = true;
	for (int i = 0; i < rounds; i++)
		strided(MPI_COMM_WORLD, i % hkt_size, MEGABYTE / ROW, hkt_key(5, (uint64_t)i, 0, 0),
			true);
}

/* This is an error of the program, so the job must end. */
static void unequal(void)
{
	size_t len = hkt_rank == 1 ? 2 * MEGABYTE : MEGABYTE;
	char *buf = hkt_alloc(len);

	hkt_at("a Bcast of %zu bytes, where others have as many or not", len);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	memset(buf, 0x5a, len);
	MPI_Bcast(buf, (int)len, MPI_BYTE, 0, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	free(buf);
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "bcast", MPI_THREAD_SINGLE);
	const char *mode = hkt_opt.mode ? hkt_opt.mode : "random";
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 10;

	counters_start();
	if (strcmp(mode, "megabyte") == 0)
		megabyte(rounds);
	else if (hkt_until())
		until(hkt_until());
	else if (strcmp(mode, "random") == 0)
		randomly(rounds);
	else if (strcmp(mode, "absent") == 0)
		absent(rounds);
	else if (strcmp(mode, "lengthy") == 0)
		lengthy(rounds);
	else if (strcmp(mode, "want") == 0)
		in_want(rounds);
	else if (strcmp(mode, "unequal") == 0)
		unequal();
	else
		hkt_fail(
			"--mode is megabyte, until:FILE, random, absent, lengthy, want or unequal");
	counters_print();
	return hkt_finish();
}
