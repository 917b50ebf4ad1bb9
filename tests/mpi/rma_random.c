/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/rma_random.c: random one-sided epochs, compared with results that are computed without
 * MPI windows.
 *
 * Each rank owns a slice of every rank's MPI window, and has a model of it in its own memory. Only
 * this rank changes the slice, and it changes the model in the same way (accumulate by
 * MPI_Reduce_local). After each round the models go to the owners of the MPI windows by messages,
 * which compare every byte. Fetched values are compared too. The seed determines the kinds of MPI
 * windows, the synchronisation, operations, types, counts and offsets. All ranks also add to common
 * counters, whose sums are known.
 *
 * --rounds N scales the work; --mode create|allocate|dynamic uses MPI windows of one kind only, and
 * --mode until:FILE those of MPI_Win_create until FILE exists.
 */
#include "common.h"

#define SLICE   16384 /* bytes */
#define BLOCK   2048  /* an operation touches one block */
#define BLOCKS  (SLICE / BLOCK)
#define COMMON  64 /* counters behind the slices */
#define ATTEMPT 6  /* operations on one target in an epoch */

enum flavor { CREATE, ALLOCATE, DYNAMIC, FLAVORS };
enum way { FENCE, PSCW, LOCK_SHARED, LOCK_EXCLUSIVE, LOCK_ALL, WAYS };

static const char *const flavor_name[] = {"create", "allocate", "dynamic"};
static const char *const way_name[] = {"fence", "post-start", "shared lock", "exclusive lock",
				       "lock all"};

static struct {
	MPI_Win win;
	enum flavor flavor;
	char *mem;
	size_t bytes;
	MPI_Aint *base; /* dynamic: of each rank */
	char *model;    /* my slice of each rank's window */
	int64_t added[COMMON];
} w;

static struct hkt_rng rng;  /* the same numbers in all ranks: what the round is */
static struct hkt_rng mine; /* this rank's own: what it does */

/* ---- windows --------------------------------------------------------------------------------- */

static void open_window(enum flavor flavor)
{
	w.flavor = flavor;
	w.bytes = (size_t)hkt_size * SLICE + COMMON * sizeof(int64_t);
	w.base = hkt_alloc((size_t)hkt_size * sizeof(*w.base));
	w.model = hkt_alloc((size_t)hkt_size * SLICE);
	memset(w.model, 0, (size_t)hkt_size * SLICE);
	memset(w.added, 0, sizeof(w.added));
	memset(w.base, 0, (size_t)hkt_size * sizeof(*w.base));
	if (flavor == ALLOCATE) {
		MPI_Win_allocate((MPI_Aint)w.bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.mem,
				 &w.win);
		memset(w.mem, 0, w.bytes);
	} else {
		w.mem = hkt_alloc(w.bytes);
		memset(w.mem, 0, w.bytes);
	}
	if (flavor == CREATE)
		MPI_Win_create(w.mem, (MPI_Aint)w.bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
	if (flavor == DYNAMIC) {
		MPI_Aint here;

		MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win);
		MPI_Win_attach(w.win, w.mem, (MPI_Aint)w.bytes);
		MPI_Get_address(w.mem, &here);
		MPI_Allgather(&here, 1, MPI_AINT, w.base, 1, MPI_AINT, MPI_COMM_WORLD);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

static void close_window(void)
{
	if (w.flavor == DYNAMIC)
		MPI_Win_detach(w.win, w.mem);
	MPI_Win_free(&w.win);
	if (w.flavor != ALLOCATE)
		free(w.mem);
	free(w.base);
	free(w.model);
}

/* ---- operations ------------------------------------------------------------------------------ */

struct fetched {
	char *got, *want;
	size_t bytes;
	int target;
	const char *what;
};
static struct fetched fetched[ATTEMPT * 64];
static int nfetched;

static const struct {
	MPI_Datatype type;
	size_t size;
	bool integer;
} types[] = {
	{MPI_SIGNED_CHAR, 1, true}, {MPI_SHORT, 2, true},   {MPI_INT, 4, true},
	{MPI_UNSIGNED, 4, true},    {MPI_LONG, 8, true},    {MPI_UINT64_T, 8, true},
	{MPI_FLOAT, 4, false},      {MPI_DOUBLE, 8, false},
};
#define NTYPES (sizeof(types) / sizeof(types[0]))

static MPI_Op draw_op(bool integer)
{
	const MPI_Op of_all[] = {MPI_SUM, MPI_MIN, MPI_MAX, MPI_REPLACE, MPI_PROD};
	const MPI_Op of_integers[] = {MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};

	if (integer && hkt_below(&mine, 2))
		return of_integers[hkt_below(&mine, 6)];
	return of_all[hkt_below(&mine, 5)];
}

/* Small whole numbers, so that sums and products of any type are exact. */
static void fill(void *buf, size_t n, unsigned t)
{
	char *to = buf;

	for (size_t i = 0; i < n; i++, to += types[t].size) {
		int v = (int)hkt_below(&mine, 4);

		if (types[t].type == MPI_FLOAT)
			memcpy(to, &(float){(float)v}, 4);
		else if (types[t].type == MPI_DOUBLE)
			memcpy(to, &(double){v}, 8);
		else
			memcpy(to, &(int64_t){v}, types[t].size); /* little-endian */
	}
}

static void remember(char *got, const char *model, size_t bytes, int target, const char *what)
{
	struct fetched *f = &fetched[nfetched++];

	f->got = got;
	f->want = hkt_alloc(bytes);
	f->bytes = bytes;
	f->target = target;
	f->what = what;
	memcpy(f->want, model, bytes);
}

static void check_fetched(void)
{
	for (int i = 0; i < nfetched; i++) {
		struct fetched *f = &fetched[i];
		size_t k = 0;

		while (k < f->bytes && f->got[k] == f->want[k])
			k++;
		HKT_CHECK(k == f->bytes,
			  "%s of %zu bytes from rank %d (%s window): byte %zu is %d, not %d",
			  f->what, f->bytes, f->target, flavor_name[w.flavor], k,
			  k < f->bytes ? f->got[k] : 0, k < f->bytes ? f->want[k] : 0);
		free(f->got);
		free(f->want);
	}
	nfetched = 0;
}

static char *sources[ATTEMPT * 64];
static int nsources;

/* One operation on block @block of my slice at @target. */
static void operate(int target, int block)
{
	unsigned t = (unsigned)hkt_below(&mine, NTYPES);
	size_t size = types[t].size, most = BLOCK / size;
	size_t n = hkt_below(&mine, 3) ? 1 + hkt_below(&mine, 40) : 1 + hkt_below(&mine, most);
	size_t skip = n < most ? hkt_below(&mine, most - n + 1) : 0;
	size_t at = (size_t)block * BLOCK + skip * size;
	char *model = w.model + (size_t)target * SLICE + at;
	MPI_Aint disp = w.base[target] + (MPI_Aint)((size_t)hkt_rank * SLICE + at);
	MPI_Datatype type = types[t].type;
	char *src = hkt_alloc(BLOCK);
	char *got = hkt_alloc(BLOCK);
	bool keeps = false;

	fill(src, most, t);
	switch (hkt_below(&mine, 7)) {
	case 0:
		MPI_Put(src, (int)n, type, target, disp, (int)n, type, w.win);
		memcpy(model, src, n * size);
		break;
	case 1: { /* every second element, both ends of another shape */
		MPI_Datatype strided;
		size_t half = (n + 1) / 2;

		MPI_Type_vector((int)half, 1, 2, type, &strided);
		MPI_Type_commit(&strided);
		MPI_Put(src, (int)half, type, target, disp, 1, strided, w.win);
		MPI_Type_free(&strided);
		for (size_t i = 0; i < half; i++)
			memcpy(model + 2 * i * size, src + i * size, size);
		break;
	}
	case 2:
		MPI_Get(got, (int)n, type, target, disp, (int)n, type, w.win);
		remember(got, model, n * size, target, "get");
		keeps = true;
		break;
	case 3: {
		MPI_Op op = draw_op(types[t].integer);

		MPI_Accumulate(src, (int)n, type, target, disp, (int)n, type, op, w.win);
		if (op == MPI_REPLACE)
			memcpy(model, src, n * size);
		else
			MPI_Reduce_local(src, model, (int)n, type, op);
		break;
	}
	case 4: {
		MPI_Op op = hkt_below(&mine, 5) ? draw_op(types[t].integer) : MPI_NO_OP;

		MPI_Get_accumulate(src, (int)n, type, got, (int)n, type, target, disp, (int)n, type,
				   op, w.win);
		remember(got, model, n * size, target, "get-accumulate");
		keeps = true;
		if (op == MPI_REPLACE)
			memcpy(model, src, n * size);
		else if (op != MPI_NO_OP)
			MPI_Reduce_local(src, model, (int)n, type, op);
		break;
	}
	case 5: {
		MPI_Op op = draw_op(types[t].integer);

		MPI_Fetch_and_op(src, got, type, target, disp, op, w.win);
		remember(got, model, size, target, "fetch-and-op");
		keeps = true;
		if (op == MPI_REPLACE)
			memcpy(model, src, size);
		else
			MPI_Reduce_local(src, model, 1, type, op);
		break;
	}
	default: {
		char *compare = hkt_alloc(8);

		if (!types[t].integer) { /* only these compare */
			MPI_Put(src, (int)n, type, target, disp, (int)n, type, w.win);
			memcpy(model, src, n * size);
			free(compare);
			break;
		}
		memcpy(compare, model, size);
		compare[0] = (char)(compare[0] + (hkt_below(&mine, 2) ? 1 : 0));
		MPI_Compare_and_swap(src, compare, got, type, target, disp, w.win);
		remember(got, model, size, target, "compare-and-swap");
		keeps = true;
		if (memcmp(compare, model, size) == 0)
			memcpy(model, src, size);
		sources[nsources++] = compare;
		break;
	}
	}
	sources[nsources++] = src;
	if (!keeps)
		free(got);
}

static void add_to_counter(int target)
{
	static const int64_t one = 1;
	int which = (int)hkt_below(&mine, COMMON);

	MPI_Accumulate(&one, 1, MPI_INT64_T, target,
		       w.base[target] + (MPI_Aint)((size_t)hkt_size * SLICE) + which * 8, 1,
		       MPI_INT64_T, MPI_SUM, w.win);
	w.added[which]++;
}

/* Operations touch each block of a target once, unless there is a flush between them. */
static void operate_on(int target, bool may_flush)
{
	int order[BLOCKS], n = 1 + (int)hkt_below(&mine, ATTEMPT);

	for (int i = 0; i < BLOCKS; i++)
		order[i] = i;
	for (int i = BLOCKS - 1; i > 0; i--) {
		int k = (int)hkt_below(&mine, (uint64_t)i + 1), o = order[i];

		order[i] = order[k];
		order[k] = o;
	}
	for (int i = 0; i < n; i++) {
		operate(target, order[i]);
		if (hkt_below(&mine, 3) == 0)
			add_to_counter(target);
		if (may_flush && hkt_below(&mine, 3) == 0) {
			MPI_Win_flush(target, w.win);
			operate(target, order[i]); /* the same block again */
			MPI_Win_flush(target, w.win);
		}
	}
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void epoch(enum way way)
{
	int first = (int)hkt_below(&mine, (uint64_t)hkt_size);
	MPI_Group all;

	MPI_Comm_group(MPI_COMM_WORLD, &all);
	if (way == FENCE)
		MPI_Win_fence(0, w.win);
	if (way == PSCW) {
		MPI_Win_post(all, 0, w.win);
		MPI_Win_start(all, 0, w.win);
	}
	if (way == LOCK_ALL)
		MPI_Win_lock_all(0, w.win);
	for (int i = 0; i < hkt_size; i++) {
		int target = (first + i) % hkt_size;

		if (way == LOCK_SHARED || way == LOCK_EXCLUSIVE)
			MPI_Win_lock(way == LOCK_SHARED ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE,
				     target, 0, w.win);
		operate_on(target, way >= LOCK_SHARED);
		if (way == LOCK_SHARED || way == LOCK_EXCLUSIVE)
			MPI_Win_unlock(target, w.win);
	}
	if (way == FENCE)
		MPI_Win_fence(0, w.win);
	if (way == PSCW) {
		MPI_Win_complete(w.win);
		MPI_Win_wait(w.win);
	}
	if (way == LOCK_ALL)
		MPI_Win_unlock_all(w.win);
	MPI_Group_free(&all);
	while (nsources)
		free(sources[--nsources]);
	check_fetched();
}

/* Every owner compares its MPI window with the models of the others. */
static void compare(int round, enum way way)
{
	char *theirs = hkt_alloc((size_t)hkt_size * SLICE);
	int64_t sum[COMMON];

	MPI_Alltoall(w.model, SLICE, MPI_BYTE, theirs, SLICE, MPI_BYTE, MPI_COMM_WORLD);
	/* what remote ranks wrote becomes visible by this in any model of memory */
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, hkt_rank, 0, w.win);
	for (size_t i = 0; i < (size_t)hkt_size * SLICE; i++)
		if (w.mem[i] != theirs[i])
			hkt_fail("round %d, %s, %s window: byte %zu of rank %zu's slice is %d, not "
				 "%d",
				 round, way_name[way], flavor_name[w.flavor], i % SLICE, i / SLICE,
				 w.mem[i], theirs[i]);
	hkt_count(1);
	MPI_Win_unlock(hkt_rank, w.win);
	free(theirs);
	int64_t here[COMMON];

	memcpy(here, w.mem + (size_t)hkt_size * SLICE, sizeof(here));
	MPI_Allreduce(MPI_IN_PLACE, here, COMMON, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(w.added, sum, COMMON, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	HKT_CHECK(memcmp(here, sum, sizeof(sum)) == 0, "round %d, %s: counters add up to less",
		  round, way_name[way]);
}

static void one_round(int round, enum flavor kind)
{
	enum way way = round < WAYS ? (enum way)round : (enum way)hkt_below(&rng, WAYS);

	hkt_at("%s window, round %d: %s", flavor_name[kind], round, way_name[way]);
	epoch(way);
	MPI_Barrier(MPI_COMM_WORLD);
	compare(round, way);
}

static void until(const char *file)
{
	int round = 0;

	open_window(CREATE);
	do
		one_round(round++, CREATE);
	while (!hkt_is_there(file));
	close_window();
}

int main(int argc, char **argv)
{
	hkt_init(&argc, &argv, "rma_random", MPI_THREAD_SINGLE);
	int rounds = hkt_opt.rounds ? hkt_opt.rounds : 12;

	if (hkt_size > 8)
		return hkt_skip("models of more than 8 ranks take long");
	rng.state = hkt_key(1, 0, 0, 0);
	mine.state = hkt_key(2, (uint64_t)hkt_rank, 0, 0);
	if (hkt_until())
		until(hkt_until());
	for (int kind = 0; kind < FLAVORS && !hkt_until(); kind++) {
		if (hkt_opt.mode && strcmp(hkt_opt.mode, flavor_name[kind]) != 0)
			continue;
		open_window((enum flavor)kind);
		for (int round = 0; round < rounds; round++)
			one_round(round, (enum flavor)kind);
		close_window();
	}
	return hkt_finish();
}
