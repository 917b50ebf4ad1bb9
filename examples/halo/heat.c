/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/halo/heat.c: heat spreads from a heater over a square plate, whose rim stays cold. The
 * plate is cut into boxes, one for each rank. In each step ranks exchange the edges of their boxes.
 *
 *     mpirun -np 4 heat [-n 128] [--steps 4000] [--moments 2] [--output FILE]
 *
 * All steps run twice, with the exchange by MPI and by the halo library. The program compares the
 * two results, bit by bit, and prints the time of each: `PASS heat: …`. FILE is for the
 * temperatures of n * n points (double, row by row) at each moment. The first moment is the start,
 * the last one the end, and the others lie between them at equal distances.
 */
#include <hikyaku/halo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OTHER_FILE "name another file by --output"
#define RATE       0.2 /* of a difference that a step evens out; stable up to 0.25 */

#define USAGE "heat [-n 2…4096] [--steps 1…1000000] [--moments 2…1000] [--output FILE]"

struct options {
	int n, steps, moments;
	const char *output; /* NULL: no file */
};

enum { ABOVE, BELOW, LEFT, RIGHT, SIDES };

struct plate {
	MPI_Comm cart;
	int ranks[2];          /* boxes along each dimension */
	int first[2], own[2];  /* this rank's box: its first point, and its size */
	int beside[SIDES];     /* ranks */
	double *u[2];          /* the box with ghosts around it: now and next, by turns */
	unsigned char *heater; /* 1 where the temperature stays 1; as the box with ghosts */
	MPI_Datatype line[2];  /* of edges above and below, and of those left and right */
	MPI_Datatype inner;    /* the box in @u */
	double *whole;         /* rank 0: n * n points for the file; NULL without one */
	MPI_Request request[2 * SIDES];
	hk_halo halo[2]; /* one for each of @u */
};

__attribute__((noreturn)) static void give_up(const char *what, const char *fix)
{
	fprintf(stderr, "heat: %s%s%s\n", what, *fix ? "; fix: " : "", fix);
	MPI_Abort(MPI_COMM_WORLD, 2);
	exit(2);
}

static size_t at(const struct plate *p, int i, int j)
{
	return (size_t)i * ((size_t)p->own[1] + 2) + (size_t)j;
}

/* ---- two ways to exchange the edges ---------------------------------------------------------- */

struct exchange {
	const char *name;
	void (*open)(struct plate *p);
	void (*start)(struct plate *p, int now);
	void (*finish)(struct plate *p, int now);
	void (*close)(struct plate *p);
};

static void nothing(struct plate *p)
{
	(void)p;
}

static void mpi_start(struct plate *p, int now)
{
	const int last[2] = {p->own[0], p->own[1]};
	/* by side: the first point to send, and the first ghost */
	const size_t send[] = {at(p, 1, 1), at(p, last[0], 1), at(p, 1, 1), at(p, 1, last[1])};
	const size_t ghost[] = {at(p, 0, 1), at(p, last[0] + 1, 1), at(p, 1, 0),
				at(p, 1, last[1] + 1)};

	for (int s = 0; s < SIDES; s++) {
		MPI_Irecv(p->u[now] + ghost[s], 1, p->line[s / 2], p->beside[s], 0, p->cart,
			  &p->request[s]);
		MPI_Isend(p->u[now] + send[s], 1, p->line[s / 2], p->beside[s], 0, p->cart,
			  &p->request[SIDES + s]);
	}
}

static void mpi_finish(struct plate *p, int now)
{
	(void)now;
	MPI_Waitall(2 * SIDES, p->request, MPI_STATUSES_IGNORE);
}

static void halo_open(struct plate *p)
{
	for (int k = 0; k < 2; k++) {
		void *field = p->u[k];

		if (hk_halo_cart(p->cart, p->own, (int[]){1, 1}, HK_HALO_STAR, MPI_ORDER_C, 1,
				 &field, MPI_DOUBLE, &p->halo[k]))
			give_up(hk_halo_error(), "");
	}
}

static void halo_start(struct plate *p, int now)
{
	if (hk_halo_put(p->halo[now]))
		give_up(hk_halo_error(), "");
}

static void halo_finish(struct plate *p, int now)
{
	if (hk_halo_wait(p->halo[now]))
		give_up(hk_halo_error(), "");
}

static void halo_close(struct plate *p)
{
	for (int k = 0; k < 2; k++)
		if (hk_halo_free(&p->halo[k]))
			give_up(hk_halo_error(), "");
}

static const struct exchange exchanges[] = {
	{"MPI", nothing, mpi_start, mpi_finish, nothing},
	{"halo", halo_open, halo_start, halo_finish, halo_close},
};

/* ---- the plate ------------------------------------------------------------------------------- */

/* The box of @rank: its first point, and its size. */
static void box(const struct plate *p, int n, int rank, int *first, int *size)
{
	int place[2];

	MPI_Cart_coords(p->cart, rank, 2, place);
	for (int d = 0; d < 2; d++) {
		first[d] = n * place[d] / p->ranks[d];
		size[d] = n * (place[d] + 1) / p->ranks[d] - first[d];
	}
}

static MPI_Datatype part(const int *whole, const int *size, const int *first)
{
	MPI_Datatype type;

	MPI_Type_create_subarray(2, whole, size, first, MPI_ORDER_C, MPI_DOUBLE, &type);
	MPI_Type_commit(&type);
	return type;
}

/* Cold, with the heater in the first quarter of the plate. */
static void reset(struct plate *p, int n)
{
	for (int i = 0; i < p->own[0] + 2; i++)
		for (int j = 0; j < p->own[1] + 2; j++) {
			double y = (p->first[0] + i - 1) / (double)n - 0.37,
			       x = (p->first[1] + j - 1) / (double)n - 0.37;
			int hot = x * x + y * y < 0.01;

			p->heater[at(p, i, j)] = (unsigned char)hot;
			p->u[0][at(p, i, j)] = p->u[1][at(p, i, j)] = hot;
		}
}

static struct plate open_plate(const struct options *o)
{
	struct plate p = {.ranks = {0, 0}};
	int size, rank;

	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Dims_create(size, 2, p.ranks);
	if (o->n < p.ranks[0])
		give_up("a rank would have no points", "give more points by -n, or start fewer");
	MPI_Cart_create(MPI_COMM_WORLD, 2, p.ranks, (int[]){0, 0}, 0, &p.cart);
	MPI_Comm_rank(p.cart, &rank);
	box(&p, o->n, rank, p.first, p.own);
	for (int d = 0; d < 2; d++)
		MPI_Cart_shift(p.cart, d, 1, &p.beside[2 * d], &p.beside[2 * d + 1]);
	int with_ghosts[] = {p.own[0] + 2, p.own[1] + 2}, one[] = {1, 1};
	size_t points = (size_t)with_ghosts[0] * (size_t)with_ghosts[1];

	p.heater = calloc(points, 1);
	for (int k = 0; k < 2; k++)
		p.u[k] = calloc(points, sizeof(double));
	if (!p.heater || !p.u[0] || !p.u[1])
		give_up("no memory for the plate", "give fewer points by -n");
	MPI_Type_contiguous(p.own[1], MPI_DOUBLE, &p.line[0]);
	MPI_Type_vector(p.own[0], 1, with_ghosts[1], MPI_DOUBLE, &p.line[1]);
	for (int d = 0; d < 2; d++)
		MPI_Type_commit(&p.line[d]);
	p.inner = part(with_ghosts, p.own, one);
	if (o->output && rank == 0 &&
	    !(p.whole = calloc((size_t)o->n * (size_t)o->n, sizeof(double))))
		give_up("no memory for the file", "give fewer points by -n");
	return p;
}

static void close_plate(struct plate *p)
{
	MPI_Type_free(&p->inner);
	for (int k = 0; k < 2; k++) {
		MPI_Type_free(&p->line[k]);
		free(p->u[k]);
	}
	free(p->heater);
	free(p->whole);
	MPI_Comm_free(&p->cart);
}

/* The next temperatures of the points in these rows and columns. */
static void step(struct plate *p, int now, int top, int bottom, int left, int right)
{
	const double *u = p->u[now];
	double *next = p->u[!now];

	for (int i = top; i <= bottom; i++)
		for (int j = left; j <= right; j++) {
			size_t k = at(p, i, j), row = at(p, 1, 0);
			double around = (u[k - row] + u[k + row]) + (u[k - 1] + u[k + 1]);

			next[k] = p->heater[k] ? 1 : u[k] + RATE * (around - 4 * u[k]);
		}
}

/* Computes the points that need no ghost while the edges are under way. */
static void all_points(struct plate *p, const struct exchange *e, int now)
{
	int rows = p->own[0], columns = p->own[1];

	e->start(p, now);
	step(p, now, 2, rows - 1, 2, columns - 1);
	e->finish(p, now);
	step(p, now, 1, 1, 1, columns);
	step(p, now, rows, rows, 1, columns);
	step(p, now, 2, rows - 1, 1, 1);
	step(p, now, 2, rows - 1, columns, columns);
}

/* ---- the runs -------------------------------------------------------------------------------- */

/* Rank 0 collects all boxes and writes them to @file, which other ranks do not have. */
static void save(const struct plate *p, FILE *file, const struct options *o, int now)
{
	size_t points = (size_t)o->n * (size_t)o->n;
	int size, rank, first[2], own[2];
	MPI_Request sent;

	if (!o->output)
		return;
	MPI_Comm_size(p->cart, &size);
	MPI_Comm_rank(p->cart, &rank);
	MPI_Isend(p->u[now], 1, p->inner, 0, 1, p->cart, &sent);
	for (int r = 0; rank == 0 && r < size; r++) {
		box(p, o->n, r, first, own);
		MPI_Datatype there = part((int[]){o->n, o->n}, own, first);

		MPI_Recv(p->whole, 1, there, r, 1, p->cart, MPI_STATUS_IGNORE);
		MPI_Type_free(&there);
	}
	MPI_Wait(&sent, MPI_STATUS_IGNORE);
	if (rank == 0 && fwrite(p->whole, sizeof(double), points, file) != points)
		give_up("the file cannot be written", OTHER_FILE);
}

/* All steps, with the exchange @e. Returns their seconds, without those of saving. */
static double run(struct plate *p, const struct exchange *e, const struct options *o, FILE *file)
{
	double seconds = 0;

	reset(p, o->n);
	e->open(p);
	save(p, file, o, 0);
	for (int moment = 1, s = 0; moment < o->moments; moment++) {
		int end = (int)((long long)o->steps * moment / (o->moments - 1));

		MPI_Barrier(p->cart);
		seconds -= MPI_Wtime();
		for (; s < end; s++)
			all_points(p, e, s % 2);
		MPI_Barrier(p->cart);
		seconds += MPI_Wtime();
		save(p, file, o, s % 2);
	}
	e->close(p);
	return seconds;
}

/* The points of this rank whose bits differ. */
static long long differences(const struct plate *p, const double *a, const double *b)
{
	long long count = 0;

	for (int i = 1; i <= p->own[0]; i++)
		for (int j = 1; j <= p->own[1]; j++)
			count += memcmp(&a[at(p, i, j)], &b[at(p, i, j)], sizeof(*a)) != 0;
	return count;
}

static int number(const char *text, int least, int most)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (!*text || *end || v < least || v > most)
		give_up("a number is missing or out of range", USAGE);
	return (int)v;
}

static struct options options(int argc, char **argv)
{
	struct options o = {128, 4000, 2, NULL};

	for (int i = 1; i < argc; i += 2) {
		const char *v = argv[i + 1] ? argv[i + 1] : "";

		if (strcmp(argv[i], "-n") == 0)
			o.n = number(v, 2, 4096);
		else if (strcmp(argv[i], "--steps") == 0)
			o.steps = number(v, 1, 1000000);
		else if (strcmp(argv[i], "--moments") == 0)
			o.moments = number(v, 2, 1000);
		else if (strcmp(argv[i], "--output") == 0 && *v)
			o.output = v;
		else
			give_up("unknown option, or one without its value", USAGE);
	}
	return o;
}

int main(int argc, char **argv)
{
	FILE *file = NULL;
	int rank, size;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		puts(USAGE);
		return 0;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	struct options o = options(argc, argv);
	struct plate p = open_plate(&o);
	int end = o.steps % 2;
	struct options unsaved = o;

	unsaved.output = NULL;
	if (o.output && rank == 0 && !(file = fopen(o.output, "wb")))
		give_up("the file cannot be opened", OTHER_FILE);
	double by_mpi = run(&p, &exchanges[0], &unsaved, NULL), *want = p.u[end];

	if (!(p.u[end] = calloc(at(&p, p.own[0] + 2, 0), sizeof(double))))
		give_up("no memory for a second result", "give fewer points by -n");
	double by_halo = run(&p, &exchanges[1], &o, file);
	long long differ = differences(&p, want, p.u[end]), sum;

	if (file && fclose(file))
		give_up("the file cannot be written", OTHER_FILE);
	MPI_Allreduce(&differ, &sum, 1, MPI_LONG_LONG, MPI_SUM, p.cart);
	if (rank == 0)
		printf("%s heat: %d ranks (%d x %d), %d x %d points, %d steps: by %s %.3f s, by "
		       "%s %.3f s; %lld points differ\n",
		       sum ? "FAIL" : "PASS", size, p.ranks[0], p.ranks[1], o.n, o.n, o.steps,
		       exchanges[0].name, by_mpi, exchanges[1].name, by_halo, sum);
	free(want);
	close_plate(&p);
	MPI_Finalize();
	return sum != 0;
}
