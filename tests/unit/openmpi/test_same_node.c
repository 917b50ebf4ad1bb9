/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/openmpi/test_same_node.c: one-sided operations between ranks of one node. The test
 * plays the other rank: its socket sends any request, sends any answer at any time, or dies.
 */
#include "openmpi/btl/same_node.h"
#include "tests/support/await.h"
#include "tests/support/child.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PIECE   32768u /* as same_node.c cuts */
#define PIECES  8u     /* … and has in flight */
#define BUFFER  (HK_WIRE_ATOMIC_LEN + 2 * PIECE)
#define LIMIT_S 20 /* of a wait that fails */

#define REGION 7u
#define GUARD  64u

static struct hk_same_node_name self, other;
static char memory[GUARD + 4 * PIECE + GUARD] __attribute__((aligned(8)));
#define WINDOW (memory + GUARD)
#define LENGTH (4 * PIECE)

static void up(void)
{
	self = (struct hk_same_node_name){(uint32_t)getpid(), 1, 5}; /* differs from other runs */
	other = (struct hk_same_node_name){self.key, 2, 6};
	CHECK_OK(hk_same_node_open(&self, ERR));
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (char)(i * 7 + i / 251);
	hk_same_node_add(REGION, WINDOW, LENGTH);
}

static void down(void)
{
	CHECK(!hk_same_node_busy());
	hk_same_node_del(REGION);
	hk_same_node_close();
}

/* ---- the test's side ------------------------------------------------------------------------- */

static socklen_t address(struct sockaddr_un *a, const struct hk_same_node_name *name)
{
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "hikyaku-%08x-%08x-%08x",
			 name->key, name->endpoint, name->epoch);

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* A socket of @name; NULL: of any. The test fails if an awaited message does not arrive. */
static int rank_socket(const struct hk_same_node_name *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	socklen_t len = name ? address(&a, name) : sizeof(sa_family_t);
	struct timeval limit = {.tv_sec = LIMIT_S};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), buffer_size = 4 << 20;

	CHECK(fd >= 0 && bind(fd, (void *)&a, len) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0);
	CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_size, sizeof(buffer_size)) == 0);
	return fd;
}

static void send_bytes(int fd, const void *bytes, size_t len)
{
	struct sockaddr_un to;
	socklen_t to_len = address(&to, &self);

	CHECK_EQ(sendto(fd, bytes, len, 0, (void *)&to, to_len), len);
}

/* The message @w with @len bytes of @data, to the server. */
static void send_message(int fd, const struct hk_wire_atomic *w, const char *data, size_t len)
{
	char bytes[BUFFER];

	hk_wire_atomic_encode(bytes, w);
	if (len)
		memcpy(bytes + HK_WIRE_ATOMIC_LEN, data, len);
	send_bytes(fd, bytes, HK_WIRE_ATOMIC_LEN + len);
}

/* Receives the next message, and its data in @data unless that is NULL. */
static struct hk_wire_atomic receive_message(int fd, char *data, struct sockaddr_un *from,
					     socklen_t *from_len)
{
	char bytes[BUFFER];
	struct hk_wire_atomic w;

	if (from_len)
		*from_len = sizeof(*from);
	ssize_t got = recvfrom(fd, bytes, sizeof(bytes), 0, (void *)from, from_len);

	CHECK_MSG(got > 0, "nothing came in %d s", LIMIT_S);
	CHECK(hk_wire_atomic_parse(bytes, (size_t)got, &w));
	if (data)
		memcpy(data, bytes + HK_WIRE_ATOMIC_LEN, (size_t)got - HK_WIRE_ATOMIC_LEN);
	return w;
}

/* ---- our side -------------------------------------------------------------------------------- */

struct waited {
	struct hk_same_node_op op;
	unsigned done;
	int status;
};

static void on_done(void *arg, int status)
{
	struct waited *w = arg;

	w->done++;
	w->status = status;
}

static void start(struct waited *w, const struct hk_same_node_name *to,
		  struct hk_wire_atomic request, void *base, uint64_t len)
{
	*w = (struct waited){.op = {.to = *to,
				    .request = request,
				    .base = base,
				    .len = len,
				    .done = on_done,
				    .arg = w}};
	hk_same_node_start(&w->op);
}

static void finish(struct waited *w)
{
	AWAIT(1000 * LIMIT_S, w->done, {
		hk_same_node_progress();
		sched_yield();
	});
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
TEST(whole_operations)
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
	/* one byte too many: some pieces may be done, but the operation fails */
	start(&w, &self, READ(1), to, LENGTH);
	finish(&w);
	CHECK_EQ(w.status, -EACCES);
	down();
}

/* ---- procedures ------------------------------------------------------------------------------ */

#define PROCEDURE 9u

static struct hk_same_node_caller callers[4];
static _Atomic unsigned waiting;

/* Operand 0: gives the arguments back, and their number. Others wait. */
static enum hk_rpc_end echo(void *arg, struct hk_same_node_caller *caller, const void *args,
			    void *result)
{
	CHECK(arg == memory);
	if (caller->call.operand) {
		callers[waiting] = *caller;
		waiting++;
		return HK_RPC_LATER;
	}
	memcpy(result, args, caller->call.len);
	caller->call.operand = caller->call.len;
	return caller->call.offset == 13 ? HK_RPC_DENIED : HK_RPC_DONE;
}

static void call(struct waited *w, uint64_t operand, uint64_t offset, char *bytes, uint32_t len)
{
	const struct hk_wire_atomic ask = {.op = HK_ATOMIC_RPC,
					   .region = PROCEDURE,
					   .len = len,
					   .offset = offset,
					   .operand = operand,
					   .compare = 99};

	*w = (struct waited){.op = {.to = self,
				    .request = ask,
				    .base = bytes,
				    .len = len,
				    .room = bytes ? PIECE : 0,
				    .done = on_done,
				    .arg = w}};
	hk_same_node_start(&w->op);
}

TEST(procedures_that_answer_at_once)
{
	static char bytes[PIECE], sent[PIECE];
	struct waited w;

	up();
	hk_same_node_procedure_add(PROCEDURE, echo, memory);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = sent[i] = (char)(i * 3);
	call(&w, 0, 0, bytes, PIECE);
	finish(&w);
	CHECK(w.status == 0 && w.op.old == PIECE && w.op.result == PIECE);
	CHECK(memcmp(bytes, sent, PIECE) == 0);
	call(&w, 0, 0, NULL, 0);
	finish(&w);
	CHECK(w.status == 0 && w.op.old == 0 && w.op.result == 0);
	call(&w, 0, 13, bytes, 5);
	finish(&w);
	CHECK_EQ(w.status, -EACCES);
	start(&w, &self, (struct hk_wire_atomic){.op = HK_ATOMIC_READ, .region = PROCEDURE}, bytes,
	      8);
	finish(&w);
	CHECK_EQ(w.status, -EACCES); /* it has no memory */
	hk_same_node_del(PROCEDURE);
	call(&w, 0, 0, bytes, 5);
	finish(&w);
	CHECK_EQ(w.status, -EACCES);
	down();
}

/* The last one is answered first. */
TEST(procedures_that_answer_later)
{
	static char bytes[4][PIECE];
	struct waited w[4];

	up();
	waiting = 0;
	hk_same_node_procedure_add(PROCEDURE, echo, memory);
	for (unsigned i = 0; i < 4; i++)
		call(&w[i], i + 1, 0, bytes[i], 10);
	AWAIT(1000 * LIMIT_S, waiting == 4, sched_yield());
	for (unsigned i = 4; i-- > 0;) {
		CHECK_EQ(w[i].done, 0);
		callers[i].call.operand *= 10;
		callers[i].call.len = i;
		CHECK_EQ(hk_same_node_reply(&callers[i], "abc"), 0);
		finish(&w[i]);
		CHECK(w[i].status == 0 && w[i].op.old == 10 * (i + 1) && w[i].op.result == i);
		CHECK(memcmp(bytes[i], "abc", i) == 0);
	}
	hk_same_node_del(PROCEDURE);
	down();
}

/* ---- hostile messages ------------------------------------------------------------------------ */

/* The server handles messages in order. So a message has no answer if the next answer is that of
 * the next message. */
static void is_ignored(int fd, const char *what, const void *bytes, size_t len)
{
	static uint32_t token = 1000;
	struct hk_wire_atomic good = READ(0);

	good.len = 1;
	good.token = ++token;
	send_bytes(fd, bytes, len);
	send_message(fd, &good, NULL, 0);
	CHECK_MSG(receive_message(fd, NULL, NULL, NULL).token == good.token, "%s got an answer",
		  what);
}

static void is_denied(int fd, const char *what, struct hk_wire_atomic w)
{
	static char data[BUFFER];

	w.token = 77;
	send_message(fd, &w, data, w.op == HK_ATOMIC_WRITE ? w.len : 0);
	w = receive_message(fd, NULL, NULL, NULL);
	CHECK_MSG(w.token == 77 && w.status == HK_WIRE_ATOMIC_DENIED, "%s has status %u", what,
		  w.status);
}

TEST(hostile_messages)
{
	static char before[sizeof(memory)], bytes[BUFFER];
	struct hk_wire_atomic w;

	up();
	memcpy(before, memory, sizeof(memory));
	int fd = rank_socket(NULL);

	is_ignored(fd, "nothing", "", 0);
	is_ignored(fd, "a byte", "x", 1);
	w = ADD(0, 1);
	hk_wire_atomic_encode(bytes, &w);
	is_ignored(fd, "a header that is short", bytes, HK_WIRE_ATOMIC_LEN - 1);
	is_ignored(fd, "a header with a tail", bytes, HK_WIRE_ATOMIC_LEN + 1);
#define BAD(what, base, len, ...)                                                                  \
	w = base;                                                                                  \
	__VA_ARGS__;                                                                               \
	hk_wire_atomic_encode(bytes, &w);                                                          \
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
	hk_same_node_del(REGION + 65536); /* not ours: ours stays */
	CHECK(memcmp(before, memory, sizeof(memory)) == 0);
	send_message(fd, &ADD(0, 1), NULL, 0);
	CHECK_EQ(receive_message(fd, NULL, NULL, NULL).status, HK_WIRE_ATOMIC_DONE);
	hk_same_node_del(REGION);
	DENIED("a region that is gone", ADD(0, 1));
	close(fd);
	down();
}

/* Our requests, which the test has received to answer them in its own way. */
struct request {
	struct hk_wire_atomic w;
	struct sockaddr_un from;
	socklen_t from_len;
};

static void take_in(int fd, struct request *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		r[i].w = receive_message(fd, NULL, &r[i].from, &r[i].from_len);
}

/* Answers @r; each byte that a READ returns is @fill. */
static void reply(int fd, const struct request *r, struct hk_wire_atomic w, char fill)
{
	char bytes[BUFFER];
	size_t len = hk_wire_atomic_has_data(&w) ? w.len : 0;

	hk_wire_atomic_encode(bytes, &w);
	memset(bytes + HK_WIRE_ATOMIC_LEN, fill, len);
	CHECK_EQ(
		sendto(fd, bytes, HK_WIRE_ATOMIC_LEN + len, 0, (const void *)&r->from, r->from_len),
		HK_WIRE_ATOMIC_LEN + len);
	CHECK_EQ(hk_same_node_progress(), 1); /* it has arrived */
}

static struct hk_wire_atomic done(const struct request *r)
{
	struct hk_wire_atomic w = r->w;

	w.status = HK_WIRE_ATOMIC_DONE;
	return w;
}

/* Answers arrive in another order than the requests, mixed with messages that answer none. */
TEST(answers_in_disorder)
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
	NO_ANSWER(x.token += 1u << 16);    /* a later token */
	NO_ANSWER(x.token |= 0xffff);      /* no such piece */
	NO_ANSWER(x.token += 1);           /* not in use */
	NO_ANSWER(x.len -= 1);             /* shorter */
	NO_ANSWER(x.len = PIECE);          /* longer: it would be written behind the end */
	NO_ANSWER(x.op = HK_ATOMIC_WRITE); /* another operation */
	NO_ANSWER(x.status = HK_WIRE_ATOMIC_REQUEST); /* a request */
	CHECK(w.done == 0 && to[2 * PIECE] == 'n' && to[sizeof(to) - 1] == 'n');
	reply(fd, &r[2], done(&r[2]), 'c');
	reply(fd, &r[2], done(&r[2]), 'x'); /* once more */
	reply(fd, &r[0], done(&r[0]), 'a');
	CHECK(w.done == 0);
	reply(fd, &r[1], done(&r[1]), 'b');
	CHECK(w.done == 1 && w.status == 0 && !hk_same_node_busy());
	for (size_t i = 0; i < sizeof(to) - 1; i++)
		CHECK_EQ(to[i], "abc"[i / PIECE]);
	CHECK_EQ(to[sizeof(to) - 1], 'n');
	close(fd);
	down();
}

/* A late second answer to one operation does not complete the next one. */
TEST(an_answer_to_the_one_before)
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

/* Receives some requests, and waits to be killed. */
static pid_t dying_rank(unsigned takes, int *ready)
{
	int p[2];

	CHECK(pipe(p) == 0);
	pid_t pid = child_fork();

	if (pid == 0) {
		struct request r[PIECES];
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

/* The dead rank has received some pieces; others wait in its socket or have not been sent. */
TEST(a_rank_that_dies_in_between)
{
	static char to[4 * PIECES * PIECE], own[8];
	struct waited w, behind, late;
	int ready;

	self = (struct hk_same_node_name){(uint32_t)getpid(), 1, 5};
	other = (struct hk_same_node_name){self.key, 2, 6};
	pid_t pid = dying_rank(3, &ready); /* before there are threads */

	up();
	wait_ready(ready);
	start(&w, &other, READ(0), to, sizeof(to));
	start(&behind, &self, READ(0), own, sizeof(own));
	wait_ready(ready);
	CHECK(w.done == 0 && w.op.sent == PIECES * PIECE);
	child_kill(pid);
	finish(&w);
	CHECK_EQ(w.status, -ENOTCONN);
	finish(&behind); /* it waited for its turn */
	CHECK(behind.status == 0 && memcmp(own, WINDOW, sizeof(own)) == 0);
	start(&late, &other, READ(0), to, 8);
	CHECK(late.done == 1 && late.status == -ENOTCONN);
	close(ready);
	down();
}

/* A client that does not read its answers does not delay others, and gets them all. */
TEST(one_client_does_not_read)
{
	enum { REQUESTS = 200 };
	static char data[BUFFER];
	bool got[REQUESTS] = {false};
	struct hk_wire_atomic w = READ(PIECE);

	up();
	int slow = rank_socket(NULL), quick = rank_socket(NULL);

	w.len = PIECE;
	for (w.token = 1; w.token <= REQUESTS; w.token++)
		send_message(slow, &w, NULL, 0);
	for (unsigned i = 0; i < 100; i++) {
		send_message(quick, &ADD(0, 1), NULL, 0);
		CHECK_EQ(receive_message(quick, NULL, NULL, NULL).status, HK_WIRE_ATOMIC_DONE);
	}
	for (unsigned i = 0; i < REQUESTS; i++) {
		w = receive_message(slow, data, NULL, NULL);
		CHECK(w.status == HK_WIRE_ATOMIC_DONE && w.token >= 1 && w.token <= REQUESTS);
		CHECK_MSG(!got[w.token - 1], "answer %u came twice", w.token);
		got[w.token - 1] = true;
		CHECK(memcmp(data, WINDOW + PIECE, PIECE) == 0);
	}
	close(slow);
	close(quick);
	down();
}

/* More answers than the server (64 * PIECES) and the kernel keep. The server then receives no
 * further requests, and loses no answer. */
TEST(more_answers_than_are_kept)
{
	enum { REQUESTS = 1500, TRIES = 200000 };
	static bool got[REQUESTS];
	struct hk_wire_atomic w = ADD(0, 1);
	struct sockaddr_un to;
	char bytes[HK_WIRE_ATOMIC_LEN];
	unsigned received = 0;
	bool waits = false;

	up();
	int fd = rank_socket(NULL);
	socklen_t to_len = address(&to, &self);

	for (w.token = 1; w.token <= REQUESTS; w.token++) {
		unsigned tries = 0;

		hk_wire_atomic_encode(bytes, &w);
		while (sendto(fd, bytes, sizeof(bytes), MSG_DONTWAIT, (void *)&to, to_len) < 0) {
			waits = waits || ++tries == TRIES;
			if (waits) /* until the test reads */
				got[receive_message(fd, NULL, NULL, NULL).token - 1] = ++received;
			sched_yield();
		}
	}
	while (received < REQUESTS)
		got[receive_message(fd, NULL, NULL, NULL).token - 1] = ++received;
	for (unsigned i = 0; i < REQUESTS; i++)
		CHECK_MSG(got[i], "there was no answer %u", i + 1);
	close(fd);
	down();
}

#define ADDS 2000u
static _Atomic uint8_t taken[3 * ADDS]; /* by the old value */

static void *client(void *arg)
{
	struct hk_wire_atomic w = ADD(0, 1);
	uint64_t last = 0;
	int fd = rank_socket(NULL);

	for (unsigned i = 0; i < ADDS; i++) {
		w.token = i + 1;
		send_message(fd, &w, NULL, 0);
		struct hk_wire_atomic a = receive_message(fd, NULL, NULL, NULL);
		CHECK_EQ(a.token, w.token);
		CHECK(a.operand < 3 * ADDS && (i == 0 || a.operand > last));
		last = a.operand;
		CHECK_EQ(taken[last]++, 0);
	}
	close(fd);
	return NULL;
}

/* Two clients and the rank itself: each finds what another has written, and gets its own answers.
 */
TEST(clients_at_once)
{
	pthread_t t[2];
	struct waited w;
	uint64_t sum;

	up();
	memset(WINDOW, 0, 8);
	for (unsigned i = 0; i < 3 * ADDS; i++)
		taken[i] = 0;
	for (unsigned i = 0; i < 2; i++)
		CHECK(pthread_create(&t[i], NULL, client, NULL) == 0);
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
