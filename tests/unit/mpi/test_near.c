/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/mpi/test_near.c: one-sided operations between ranks of a node. The other rank is the test: a socket
 * of its own that asks what it likes, answers when and what it likes, or dies.
 */
#include "mpi/near.h"
#include "tests/unit/hk_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECE   32768u /* as near.c cuts */
#define PIECES  8u     /* … and has under way */
#define BUFFER  (HK_WIRE_ATOMIC_LEN + 2 * PIECE)
#define LIMIT_S 20 /* of a wait that fails */

#define REGION 7u
#define GUARD  64u

static struct hk_near_name self, other;
static char memory[GUARD + 4 * PIECE + GUARD] __attribute__((aligned(8)));
#define WINDOW (memory + GUARD)
#define LENGTH (4 * PIECE)

static void up(void)
{
	struct hk_error err = {""};

	self = (struct hk_near_name){(uint32_t)getpid(), 1, 5}; /* no other run's */
	other = (struct hk_near_name){self.key, 2, 6};
	CHECK_MSG(hk_near_open(&self, &err) == 0, "%s", err.text);
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (char)(i * 7 + i / 251);
	hk_near_add(REGION, WINDOW, LENGTH);
}

static void down(void)
{
	CHECK(!hk_near_busy());
	hk_near_del(REGION);
	hk_near_close();
}

/* ---- the test's side ------------------------------------------------------------------------- */

static socklen_t address(struct sockaddr_un *a, const struct hk_near_name *name)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "hikyaku-%08x-%08x-%08x",
			 name->key, name->endpoint, name->epoch);

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* A socket of @name; NULL: of any. What it waits for comes, or the test fails. */
static int rank_socket(const struct hk_near_name *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = name ? address(&a, name) : sizeof(sa_family_t);
	struct timeval limit = {.tv_sec = LIMIT_S};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), room = 4 << 20;

	CHECK(fd >= 0 && bind(fd, (void *)&a, len) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0);
	return fd;
}

static void say_bytes(int fd, const void *bytes, size_t len)
{
	struct sockaddr_un to;
	socklen_t to_len = address(&to, &self);

	CHECK_EQ(sendto(fd, bytes, len, 0, (void *)&to, to_len), len);
}

/* The message @w with @len bytes of @data, to the server. */
static void say(int fd, const struct hk_wire_atomic *w, const char *data, size_t len)
{
	char bytes[BUFFER];

	hk_wire_put_atomic(bytes, w);
	if (len)
		memcpy(bytes + HK_WIRE_ATOMIC_LEN, data, len);
	say_bytes(fd, bytes, HK_WIRE_ATOMIC_LEN + len);
}

/* The next message, its data in @data (NULL: it is not wanted). */
static struct hk_wire_atomic hear(int fd, char *data, struct sockaddr_un *from, socklen_t *from_len)
{
	char bytes[BUFFER];
	struct hk_wire_atomic w;

	if (from_len)
		*from_len = sizeof(*from);
	ssize_t got = recvfrom(fd, bytes, sizeof(bytes), 0, (void *)from, from_len);

	CHECK_MSG(got > 0, "nothing came in %d s", LIMIT_S);
	CHECK(hk_wire_parse_atomic(bytes, (size_t)got, &w));
	if (data)
		memcpy(data, bytes + HK_WIRE_ATOMIC_LEN, (size_t)got - HK_WIRE_ATOMIC_LEN);
	return w;
}

/* ---- our side -------------------------------------------------------------------------------- */

struct waited {
	struct hk_near_op op;
	unsigned done;
	int status;
};

static void on_done(void *arg, int status)
{
	struct waited *w = arg;

	w->done++;
	w->status = status;
}

static void start(struct waited *w, const struct hk_near_name *to, struct hk_wire_atomic ask,
		  void *base, uint64_t len)
{
	*w = (struct waited){
		.op = {.to = *to, .ask = ask, .base = base, .len = len, .done = on_done, .arg = w}};
	hk_near_start(&w->op);
}

static void finish(struct waited *w)
{
	time_t end = time(NULL) + LIMIT_S;

	while (!w->done) {
		CHECK_MSG(time(NULL) <= end, "the operation was not done in %d s", LIMIT_S);
		hk_near_progress();
		sched_yield();
	}
	CHECK_EQ(w->done, 1);
}

#define WRITE(off)                                                                                 \
	((struct hk_wire_atomic){.op = HK_ATOMIC_WRITE, .region = REGION, .offset = (off)})
#define READ(off) ((struct hk_wire_atomic){.op = HK_ATOMIC_READ, .region = REGION, .offset = (off)})
#define ADD(off, n)                                                                                \
	((struct hk_wire_atomic){.op = HK_ATOMIC_ADD,                                              \
				 .size = 8,                                                        \
				 .token = 1,                                                       \
				 .region = REGION,                                                 \
				 .offset = (off),                                                  \
				 .operand = (n)})

/* ---- tests ----------------------------------------------------------------------------------- */

/* Server and client of one process. */
static void whole_operations(void)
{
	static char from[LENGTH], to[LENGTH];
	struct waited w, x;
	uint64_t v = 40;

	up();
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char)(i * 13 + i / 509);
	start(&w, &self, WRITE(3), from, LENGTH - 3);
	start(&x, &self, READ(3), to, LENGTH - 3); /* behind it */
	finish(&w);
	finish(&x);
	CHECK(w.status == 0 && x.status == 0);
	CHECK(memcmp(WINDOW + 3, from, LENGTH - 3) == 0);
	CHECK(memcmp(to, from, LENGTH - 3) == 0);
	memcpy(WINDOW + 8, &v, 8);
	start(&w, &self, ADD(8, 2), NULL, 8);
	finish(&w);
	CHECK(w.status == 0 && w.op.old == 40);
	memcpy(&v, WINDOW + 8, 8);
	CHECK_EQ(v, 42);
	/* one byte too many: what fits may have been done, but it failed */
	start(&w, &self, READ(1), to, LENGTH);
	finish(&w);
	CHECK_EQ(w.status, -EACCES);
	down();
}

/* The server works off one after the other: a message got no answer if the next answer is the next message's. */
static void is_ignored(int fd, const char *what, const void *bytes, size_t len)
{
	static uint32_t token = 1000;
	struct hk_wire_atomic good = READ(0);

	good.len = 1;
	good.token = ++token;
	say_bytes(fd, bytes, len);
	say(fd, &good, NULL, 0);
	CHECK_MSG(hear(fd, NULL, NULL, NULL).token == good.token, "%s got an answer", what);
}

static void is_denied(int fd, const char *what, struct hk_wire_atomic w)
{
	static char data[BUFFER];

	w.token = 77;
	say(fd, &w, data, w.op == HK_ATOMIC_WRITE ? w.len : 0);
	w = hear(fd, NULL, NULL, NULL);
	CHECK_MSG(w.token == 77 && w.status == HK_WIRE_ATOMIC_DENIED, "%s has status %u", what,
		  w.status);
}

static void hostile_messages(void)
{
	static char before[sizeof(memory)], bytes[BUFFER];
	struct hk_wire_atomic w;

	up();
	memcpy(before, memory, sizeof(memory));
	int fd = rank_socket(NULL);

	is_ignored(fd, "nothing", "", 0);
	is_ignored(fd, "a byte", "x", 1);
	w = ADD(0, 1);
	hk_wire_put_atomic(bytes, &w);
	is_ignored(fd, "a header that is short", bytes, HK_WIRE_ATOMIC_LEN - 1);
	is_ignored(fd, "a header with a tail", bytes, HK_WIRE_ATOMIC_LEN + 1);
#define BAD(what, base, len, ...)                                                                  \
	w = base;                                                                                  \
	__VA_ARGS__;                                                                               \
	hk_wire_put_atomic(bytes, &w);                                                             \
	is_ignored(fd, what, bytes, HK_WIRE_ATOMIC_LEN + (len))
	BAD("an unknown operation", ADD(0, 1), 0, w.op = HK_ATOMIC_KINDS);
	BAD("operation 255", ADD(0, 1), 0, w.op = 255);
	BAD("an operand of 3", ADD(0, 1), 0, w.size = 3);
	BAD("token 0", ADD(0, 1), 0, w.token = 0);
	BAD("an answer", ADD(0, 1), 0, w.status = HK_WIRE_ATOMIC_DONE);
	BAD("a refusal", ADD(0, 1), 0, w.status = HK_WIRE_ATOMIC_DENIED);
	BAD("a short write", WRITE(0), 7, w.token = 1, w.len = 8);
	BAD("a long write", WRITE(0), 9, w.token = 1, w.len = 8);
	BAD("a write of nothing", WRITE(0), 0, w.token = 1);
	BAD("a write beyond a message", WRITE(0), PIECE + 1, w.token = 1, w.len = PIECE + 1);

#define DENIED(what, base, ...)                                                                    \
	w = base;                                                                                  \
	__VA_ARGS__;                                                                               \
	is_denied(fd, what, w)
	DENIED("an unknown region", ADD(0, 1), w.region = REGION + 1);
	DENIED("another region of the same slot", ADD(0, 1), w.region = REGION + 65536);
	DENIED("a fence of an unknown region", READ(0), w.op = HK_ATOMIC_FENCE, w.region = 1);
	DENIED("an add at the end", ADD(LENGTH, 1));
	DENIED("an add across the end", ADD(LENGTH - 4, 1));
	DENIED("an add behind the end", ADD(LENGTH + 8, 1));
	DENIED("an add whose end wraps", ADD(UINT64_MAX - 7, 1));
	DENIED("an add that is not aligned", ADD(4, 1));
	DENIED("a write across the end", WRITE(LENGTH - 8), w.len = 9);
	DENIED("a write whose end wraps", WRITE(UINT64_MAX - 7), w.len = 8);
	DENIED("a write before the start", WRITE((uint64_t)-8), w.len = 16);
	DENIED("a read across the end", READ(LENGTH - 8), w.len = 9);
	DENIED("a read of 4 GB", READ(0), w.len = UINT32_MAX);
	DENIED("a read longer than a message", READ(0), w.len = PIECE + 1);
	hk_near_del(REGION + 65536); /* not ours: ours stays */
	CHECK(memcmp(before, memory, sizeof(memory)) == 0);
	say(fd, &ADD(0, 1), NULL, 0);
	CHECK_EQ(hear(fd, NULL, NULL, NULL).status, HK_WIRE_ATOMIC_DONE);
	hk_near_del(REGION);
	DENIED("a region that is gone", ADD(0, 1));
	close(fd);
	down();
}

/* Requests of ours that the test has taken in, to answer them as it likes. */
struct request {
	struct hk_wire_atomic w;
	struct sockaddr_un from;
	socklen_t from_len;
};

static void take_in(int fd, struct request *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		r[i].w = hear(fd, NULL, &r[i].from, &r[i].from_len);
}

/* Answers @r; each byte of what a READ brings is @fill. */
static void reply(int fd, const struct request *r, struct hk_wire_atomic w, char fill)
{
	char bytes[BUFFER];
	size_t len = hk_wire_atomic_carries(&w) ? w.len : 0;

	hk_wire_put_atomic(bytes, &w);
	memset(bytes + HK_WIRE_ATOMIC_LEN, fill, len);
	CHECK_EQ(
		sendto(fd, bytes, HK_WIRE_ATOMIC_LEN + len, 0, (const void *)&r->from, r->from_len),
		HK_WIRE_ATOMIC_LEN + len);
	CHECK_EQ(hk_near_progress(), 1); /* it lies there */
}

static struct hk_wire_atomic done(const struct request *r)
{
	struct hk_wire_atomic w = r->w;

	w.status = HK_WIRE_ATOMIC_DONE;
	return w;
}

/* In another order than asked; between them what is no answer to any. */
static void answers_in_disorder(void)
{
	static char to[3 * PIECE];
	struct request r[3];
	struct waited w;
	struct hk_wire_atomic x;

	up();
	int fd = rank_socket(&other);

	memset(to, 'n', sizeof(to));
	start(&w, &other, READ(0), to, sizeof(to) - 1);
	take_in(fd, r, 3);
	CHECK(r[0].w.offset == 0 && r[1].w.offset == PIECE && r[2].w.offset == 2 * PIECE);
	CHECK_EQ(r[2].w.len, PIECE - 1);
#define NO_ANSWER(...)                                                                             \
	x = done(&r[2]);                                                                           \
	__VA_ARGS__;                                                                               \
	reply(fd, &r[2], x, 'x')
	NO_ANSWER(x.token += 1u << 16);    /* of a life to come */
	NO_ANSWER(x.token |= 0xffff);      /* no such piece */
	NO_ANSWER(x.token += 1);           /* nobody's */
	NO_ANSWER(x.len -= 1);             /* shorter */
	NO_ANSWER(x.len = PIECE);          /* longer: it would be written behind the end */
	NO_ANSWER(x.op = HK_ATOMIC_WRITE); /* another operation */
	NO_ANSWER(x.status = HK_WIRE_ATOMIC_REQUEST); /* a question */
	CHECK(w.done == 0 && to[2 * PIECE] == 'n' && to[sizeof(to) - 1] == 'n');
	reply(fd, &r[2], done(&r[2]), 'c');
	reply(fd, &r[2], done(&r[2]), 'x'); /* once more */
	reply(fd, &r[0], done(&r[0]), 'a');
	CHECK(w.done == 0);
	reply(fd, &r[1], done(&r[1]), 'b');
	CHECK(w.done == 1 && w.status == 0 && !hk_near_busy());
	for (size_t i = 0; i < sizeof(to) - 1; i++)
		CHECK_EQ(to[i], "abc"[i / PIECE]);
	CHECK_EQ(to[sizeof(to) - 1], 'n');
	close(fd);
	down();
}

/* An answer that comes when its operation is long done is not the next one's. */
static void an_answer_to_the_one_before(void)
{
	static char to[8];
	struct request first, second;
	struct waited w;

	up();
	int fd = rank_socket(&other);

	start(&w, &other, READ(0), to, sizeof(to));
	take_in(fd, &first, 1);
	reply(fd, &first, done(&first), '1');
	CHECK_EQ(w.done, 1);
	start(&w, &other, READ(0), to, sizeof(to));
	take_in(fd, &second, 1);
	CHECK_EQ(first.w.token & 0xffff, second.w.token & 0xffff);
	reply(fd, &first, done(&first), 'x');
	CHECK(w.done == 0 && to[0] == '1');
	reply(fd, &second, done(&second), '2');
	CHECK(w.done == 1 && w.status == 0 && to[0] == '2');
	close(fd);
	down();
}

/* Takes in some requests, and waits to be killed. */
static pid_t dying_rank(unsigned takes, int *ready)
{
	int p[2];

	CHECK(pipe(p) == 0);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		struct request r[PIECES];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int fd = rank_socket(&other);

		CHECK(write(p[1], "", 1) == 1);
		take_in(fd, r, takes);
		CHECK(write(p[1], "", 1) == 1);
		for (;;)
			pause();
	}
	close(p[1]);
	*ready = p[0];
	return pid;
}

static void wait_ready(int fd)
{
	char byte;

	CHECK_MSG(read(fd, &byte, 1) == 1, "the other rank has ended");
}

/* Of what is asked some pieces were taken in, some lie in its socket, and some have found no room. */
static void a_rank_that_dies_in_between(void)
{
	static char to[4 * PIECES * PIECE], own[8];
	struct waited w, behind, late;
	int ready;

	self = (struct hk_near_name){(uint32_t)getpid(), 1, 5};
	other = (struct hk_near_name){self.key, 2, 6};
	pid_t pid = dying_rank(3, &ready); /* before there are threads */

	up();
	wait_ready(ready);
	start(&w, &other, READ(0), to, sizeof(to));
	start(&behind, &self, READ(0), own, sizeof(own));
	wait_ready(ready);
	CHECK(w.done == 0 && w.op.sent == PIECES * PIECE);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	finish(&w);
	CHECK_EQ(w.status, -ENOTCONN);
	finish(&behind); /* which waited for its turn */
	CHECK(behind.status == 0 && memcmp(own, WINDOW, sizeof(own)) == 0);
	start(&late, &other, READ(0), to, 8);
	CHECK(late.done == 1 && late.status == -ENOTCONN);
	close(ready);
	down();
}

/* Whoever does not read its answers keeps nobody from being served, and gets them all. */
static void one_asker_does_not_read(void)
{
	enum { ASKED = 200 };
	static char data[BUFFER];
	bool got[ASKED] = {false};
	struct hk_wire_atomic w = READ(PIECE);

	up();
	int slow = rank_socket(NULL), quick = rank_socket(NULL);

	w.len = PIECE;
	for (w.token = 1; w.token <= ASKED; w.token++)
		say(slow, &w, NULL, 0);
	for (unsigned i = 0; i < 100; i++) {
		say(quick, &ADD(0, 1), NULL, 0);
		CHECK_EQ(hear(quick, NULL, NULL, NULL).status, HK_WIRE_ATOMIC_DONE);
	}
	for (unsigned i = 0; i < ASKED; i++) {
		w = hear(slow, data, NULL, NULL);
		CHECK(w.status == HK_WIRE_ATOMIC_DONE && w.token >= 1 && w.token <= ASKED);
		CHECK_MSG(!got[w.token - 1], "answer %u came twice", w.token);
		got[w.token - 1] = true;
		CHECK(memcmp(data, WINDOW + PIECE, PIECE) == 0);
	}
	close(slow);
	close(quick);
	down();
}

/* More answers than the server (64 * PIECES) and the kernel keep: it takes no more requests then, and loses none. */
static void more_answers_than_are_kept(void)
{
	enum { ASKED = 1500, TRIES = 200000 };
	static bool got[ASKED];
	struct hk_wire_atomic w = ADD(0, 1);
	struct sockaddr_un to;
	char bytes[HK_WIRE_ATOMIC_LEN];
	unsigned heard = 0;
	bool waits = false;

	up();
	int fd = rank_socket(NULL);
	socklen_t to_len = address(&to, &self);

	for (w.token = 1; w.token <= ASKED; w.token++) {
		unsigned tries = 0;

		hk_wire_put_atomic(bytes, &w);
		while (sendto(fd, bytes, sizeof(bytes), MSG_DONTWAIT, (void *)&to, to_len) < 0) {
			waits = waits || ++tries == TRIES;
			if (waits) /* for us to read */
				got[hear(fd, NULL, NULL, NULL).token - 1] = ++heard;
			sched_yield();
		}
	}
	while (heard < ASKED)
		got[hear(fd, NULL, NULL, NULL).token - 1] = ++heard;
	for (unsigned i = 0; i < ASKED; i++)
		CHECK_MSG(got[i], "there was no answer %u", i + 1);
	close(fd);
	down();
}

#define ADDS 2000u
static _Atomic uint8_t taken[3 * ADDS]; /* by what lay there */

static void *asker(void *arg)
{
	struct hk_wire_atomic w = ADD(0, 1);
	uint64_t last = 0;
	int fd = rank_socket(NULL);

	(void)arg;
	for (unsigned i = 0; i < ADDS; i++) {
		w.token = i + 1;
		say(fd, &w, NULL, 0);
		struct hk_wire_atomic a = hear(fd, NULL, NULL, NULL);
		CHECK_EQ(a.token, w.token);
		CHECK(a.operand < 3 * ADDS && (i == 0 || a.operand > last));
		last = a.operand;
		CHECK_EQ(taken[last]++, 0);
	}
	close(fd);
	return NULL;
}

/* … and the rank itself: each finds what one other has left, and gets its own answers. */
static void askers_at_once(void)
{
	pthread_t t[2];
	struct waited w;
	uint64_t sum;

	up();
	memset(WINDOW, 0, 8);
	for (unsigned i = 0; i < 3 * ADDS; i++)
		taken[i] = 0;
	for (unsigned i = 0; i < 2; i++)
		CHECK(pthread_create(&t[i], NULL, asker, NULL) == 0);
	for (unsigned i = 0; i < ADDS; i++) {
		start(&w, &self, ADD(0, 1), NULL, 8);
		finish(&w);
		CHECK(w.status == 0 && w.op.old < 3 * ADDS);
		CHECK_EQ(taken[w.op.old]++, 0);
	}
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	memcpy(&sum, WINDOW, 8);
	CHECK_EQ(sum, 3 * ADDS);
	down();
}

int main(int argc, char **argv)
{
	static const struct hk_test table[] = {
		{"whole_operations", whole_operations},
		{"hostile_messages", hostile_messages},
		{"answers_in_disorder", answers_in_disorder},
		{"an_answer_to_the_one_before", an_answer_to_the_one_before},
		{"a_rank_that_dies_in_between", a_rank_that_dies_in_between},
		{"one_asker_does_not_read", one_asker_does_not_read},
		{"more_answers_than_are_kept", more_answers_than_are_kept},
		{"askers_at_once", askers_at_once},
	};
	return hk_test_main(argc, argv, table, HK_ARRAY_LEN(table));
}
