/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/mpi/common.c: see common.h.
 *
 * The watchdog is alarm(2). A signal handler needs neither a thread nor MPI, so it also reports
 * from a rank that loops inside the library. Each rank writes where it is. Then it waits LINGER_S
 * seconds, since the launcher kills the other ranks as soon as one exits.
 */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS     16
#define PLACE_LEN       160
#define LINGER_S        2
#define EXIT_WATCHDOG   124
#define EXIT_SKIP       77
#define DEFAULT_TIMEOUT 120

static const struct hkt_options defaults = {.seed = 1, .timeout = DEFAULT_TIMEOUT};

struct hkt_options hkt_opt = {.seed = 1, .timeout = DEFAULT_TIMEOUT};
int hkt_rank = -1, hkt_size;
bool hkt_more;
const size_t *hkt_sizes, *hkt_few_sizes;
int hkt_nsizes, hkt_nfew;

static const char *prog_name = "?";
static char place[MAX_THREADS][PLACE_LEN];
static atomic_int threads_seen;
static _Thread_local int thread_slot = -1;
static atomic_ullong checks;

/* ---- places and failures --------------------------------------------------------------------- */

static char *my_place(void)
{
	if (thread_slot < 0) {
		int n = atomic_fetch_add(&threads_seen, 1);
		thread_slot = n < MAX_THREADS ? n : MAX_THREADS - 1;
	}
	return place[thread_slot];
}

void hkt_at(const char *fmt, ...)
{
	char *p = my_place();
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(p, PLACE_LEN, fmt, ap);
	va_end(ap);
}

static void write_str(const char *s)
{
	size_t left = strlen(s);
	while (left > 0) {
		ssize_t n = write(STDERR_FILENO, s, left);
		if (n < 0 && errno != EINTR)
			return; /* without a reader, the exit status remains */
		if (n > 0) {
			s += n;
			left -= (size_t)n;
		}
	}
}

static char alarm_prefix[128]; /* formatted at start, since a signal handler cannot */

static void on_alarm(int sig)
{
	(void)sig;
	int n = atomic_load(&threads_seen);
	for (int i = 0; i < n && i < MAX_THREADS; i++) {
		char line[sizeof(alarm_prefix) + PLACE_LEN + 2] = "";
		strcat(line,
		       alarm_prefix); /* one write per line, so that ranks do not interleave */
		strcat(line, place[i]);
		strcat(line, "\n");
		write_str(line);
	}
	struct timespec t = {.tv_sec = LINGER_S};
	nanosleep(&t, NULL);
	_exit(EXIT_WATCHDOG);
}

void hkt_fail(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "FAIL %s: rank %d of %d: %s (at: %s; seed %llu)\n", prog_name, hkt_rank,
		hkt_size, text, my_place(), (unsigned long long)hkt_opt.seed);
	fflush(stderr);
	MPI_Abort(MPI_COMM_WORLD, 1);
	_exit(1);
}

void hkt_count(unsigned n)
{
	atomic_fetch_add_explicit(&checks, n, memory_order_relaxed);
}

void *hkt_alloc(size_t bytes)
{
	void *p = malloc(bytes ? bytes : 1);
	if (!p)
		hkt_fail("no memory for %zu bytes", bytes);
	return p;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static const size_t few[] = {
	0,     1,     2,     3,      7,      8,       63,      64,      65,           255,   256,
	257,   1023,  1425,  1437,   1453,   1457,    1499,    1501,    2047,         2048,  2049,
	4095,  4096,  4097,  8119,   8143,   8191,    8193,    16383,   16384,        16385, 32767,
	65535, 65536, 65537, 131073, 262143, 1048575, 1048576, 1048577, HKT_MAX_SIZE,
};

static void make_sizes(void)
{
	enum { ROOM = 640 };
	size_t *s = hkt_alloc(ROOM * sizeof(*s));
	int n = 0;

	/* merges `few` with the two ranges of odd numbers, in order */
	for (size_t i = 0, odd = 1001; i < sizeof(few) / sizeof(few[0]); i++) {
		while (odd <= 8299 && odd <= few[i]) {
			if (odd != few[i])
				s[n++] = odd;
			odd = odd == 1599 ? 8101 : odd + 2;
		}
		s[n++] = few[i];
	}
	if (n > ROOM)
		hkt_fail("size table holds %d, has %d", ROOM, n);
	hkt_sizes = s;
	hkt_nsizes = n;
	hkt_few_sizes = few;
	hkt_nfew = (int)(sizeof(few) / sizeof(few[0]));
}

/* ---- start and end --------------------------------------------------------------------------- */

static void parse_options(int argc, char **argv)
{
	for (int i = 1; i < argc; i += 2) {
		const char *o = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
		if (!v)
			hkt_fail("option %s needs a value", o);
		if (!strcmp(o, "--seed"))
			hkt_opt.seed = strtoull(v, NULL, 0);
		else if (!strcmp(o, "--rounds"))
			hkt_opt.rounds = atoi(v);
		else if (!strcmp(o, "--timeout"))
			hkt_opt.timeout = atoi(v);
		else if (!strcmp(o, "--mode"))
			hkt_opt.mode = v;
		else
			hkt_fail("unknown option %s; known: --seed --rounds --timeout --mode", o);
	}
}

/* Starts MPI, or returns the level with which an earlier program started it. */
static int start_mpi(int *argc, char ***argv, int thread_level)
{
	int up, provided;

	MPI_Initialized(&up);
	if (!up) {
		hkt_at("MPI_Init_thread");
		MPI_Init_thread(argc, argv, thread_level, &provided);
		return provided;
	}
	MPI_Query_thread(&provided);
	if (provided != thread_level)
		hkt_fail("this program needs thread level %d, and the job was started with %d",
			 thread_level, provided);
	return provided;
}

int hkt_init(int *argc, char ***argv, const char *name, int thread_level)
{
	hkt_opt = defaults;
	atomic_store(&checks, 0);
	atomic_store(&threads_seen, 0);
	thread_slot = -1;
	prog_name = name;
	snprintf(alarm_prefix, sizeof(alarm_prefix), "WATCHDOG %s: before MPI_Init ended: ", name);
	/* MPI_Init can hang too, and the program must not read its options before that call */
	signal(SIGALRM, on_alarm);
	alarm(DEFAULT_TIMEOUT);
	int provided = start_mpi(argc, argv, thread_level);
	MPI_Comm_rank(MPI_COMM_WORLD, &hkt_rank);
	MPI_Comm_size(MPI_COMM_WORLD, &hkt_size);
	parse_options(*argc, *argv);
	if (!hkt_sizes)
		make_sizes();

	char host[64] = "";
	gethostname(host, sizeof(host) - 1);
	snprintf(alarm_prefix, sizeof(alarm_prefix),
		 "WATCHDOG %.32s: rank %d on %.48s waits at: ", name, hkt_rank, host);
	alarm((unsigned)hkt_opt.timeout);
	hkt_at("started");
	return provided;
}

/* Ends MPI and the watchdog, or leaves both to the next program. No rank starts that one before
 * rank 0 has said how this one ended. */
static void end_mpi(const char *at)
{
	hkt_at("%s", at);
	if (hkt_more) {
		MPI_Barrier(MPI_COMM_WORLD);
		return;
	}
	MPI_Finalize();
	alarm(0);
}

int hkt_finish(void)
{
	unsigned long long mine = atomic_load(&checks), all = 0;

	hkt_at("final reduction of the number of checks");
	MPI_Reduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (hkt_rank == 0 && all == 0)
		hkt_fail("nothing was checked");
	if (hkt_rank == 0) {
		printf("PASS %s (%llu checks)\n", prog_name, all);
		fflush(stdout);
	}
	end_mpi("MPI_Finalize");
	return 0;
}

int hkt_skip(const char *why)
{
	if (hkt_rank == 0) {
		printf("SKIP %s: %s\n", prog_name, why);
		fflush(stdout);
	}
	end_mpi("MPI_Finalize after a skip");
	return EXIT_SKIP;
}

/* ---- numbers and payload --------------------------------------------------------------------- */

uint64_t hkt_mix(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

uint64_t hkt_next(struct hkt_rng *r)
{
	return hkt_mix(r->state += UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t hkt_below(struct hkt_rng *r, uint64_t n)
{
	return hkt_next(r) % n; /* the bias of a modulus does not matter to a test */
}

uint64_t hkt_key(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	uint64_t k = hkt_mix(hkt_opt.seed + UINT64_C(0x9e3779b97f4a7c15));
	k = hkt_mix(k ^ (a + 1));
	k = hkt_mix(k ^ (b + 2));
	k = hkt_mix(k ^ (c + 3));
	return hkt_mix(k ^ (d + 4));
}

static uint64_t payload_word(uint64_t key, size_t i)
{
	return hkt_mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

uint8_t hkt_byte(uint64_t key, size_t i)
{
	return (uint8_t)(payload_word(key, i / 8) >> (i % 8 * 8));
}

void hkt_fill(void *buf, size_t len, uint64_t key)
{
	uint8_t *p = buf;
	size_t i = 0;

	for (; i + 8 <= len; i += 8) {
		uint64_t w = payload_word(key, i / 8);
		memcpy(p + i, &w, 8); /* hkt_byte() has the same order on little-endian machines */
	}
	for (; i < len; i++)
		p[i] = hkt_byte(key, i);
}

/* Finds the first wrong byte and the number of wrong bytes. */
__attribute__((noreturn)) static void report_mismatch(const uint8_t *p, size_t len, uint64_t key,
						      int peer, const char *what)
{
	size_t first = len, wrong = 0;

	for (size_t i = 0; i < len; i++) {
		if (p[i] == hkt_byte(key, i))
			continue;
		if (first == len)
			first = i;
		wrong++;
	}
	hkt_fail("%s: peer %d, size %zu, offset %zu: expected 0x%02x, found 0x%02x (%zu bytes "
		 "differ)",
		 what, peer, len, first, hkt_byte(key, first), p[first], wrong);
}

void hkt_verify(const void *buf, size_t len, uint64_t key, int peer, const char *what)
{
	const uint8_t *p = buf;
	size_t i = 0;

	hkt_count(1);
	for (; i + 8 <= len; i += 8) {
		uint64_t w = payload_word(key, i / 8);
		if (memcmp(p + i, &w, 8))
			report_mismatch(p, len, key, peer, what);
	}
	for (; i < len; i++) {
		if (p[i] != hkt_byte(key, i))
			report_mismatch(p, len, key, peer, what);
	}
}

void hkt_verify_value(const void *buf, size_t len, uint8_t value, int peer, const char *what)
{
	const uint8_t *p = buf;

	hkt_count(1);
	for (size_t i = 0; i < len; i++) {
		if (p[i] != value)
			hkt_fail("%s: peer %d, size %zu, offset %zu: expected untouched 0x%02x, "
				 "found 0x%02x",
				 what, peer, len, i, value, p[i]);
	}
}

void hkt_digest_add(struct hkt_digest *d, const void *buf, size_t len)
{
	const uint8_t *p = buf;
	uint64_t h = hkt_mix(d->h ^ (len + 1));

	for (size_t i = 0; i < len; i += 8) {
		uint64_t w = 0;
		memcpy(&w, p + i, len - i < 8 ? len - i : 8);
		h = hkt_mix(h ^ w) + i;
	}
	d->h = h;
}

long hkt_peak_kib(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

void hkt_compute(unsigned ms)
{
	struct timespec t0, t;
	volatile uint64_t sink = 0;

	clock_gettime(CLOCK_MONOTONIC, &t0);
	do {
		for (int i = 0; i < 1000; i++)
			sink = hkt_mix(sink);
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while ((t.tv_sec - t0.tv_sec) * 1000 + (t.tv_nsec - t0.tv_nsec) / 1000000 < (long)ms);
}

#define UNTIL "until:"

const char *hkt_until(void)
{
	bool given = hkt_opt.mode && strncmp(hkt_opt.mode, UNTIL, strlen(UNTIL)) == 0;

	return given ? hkt_opt.mode + strlen(UNTIL) : NULL;
}

/* Makes FILE.begun. */
static void tell_begun(const char *file)
{
	char name[PATH_MAX];
	snprintf(name, sizeof name, "%s.begun", file);
	int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	if (fd < 0)
		hkt_fail("cannot make %s: %s", name, strerror(errno));
	close(fd);
}

bool hkt_is_there(const char *file)
{
	static bool begun;
	int there = hkt_rank == 0 && access(file, F_OK) == 0;

	if (hkt_rank == 0 && !begun)
		tell_begun(file);
	begun = true;
	hkt_at("a round, until %s exists", file);
	MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return there;
}
