/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/libfabric/test_wait.c: completion queues and counters on which threads sleep. The
 * tests run over a network that loses nothing, over one that does, and with two ports of which the
 * first is dead. A port that cannot wake has a test of its own.
 */
#include "ends.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define LIMIT_MS 20000

/* Sleeps on the descriptor of @e until it has a completion. */
static struct fi_cq_tagged_entry sleep_for_one(struct end *e, int fd)
{
	struct fi_cq_tagged_entry got;
	struct fid *fid = &e->cq->fid;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n;

	while ((n = fi_cq_read(e->cq, &got, 1)) == -FI_EAGAIN) {
		int rc = fi_trywait(e->fabric, &fid, 1);

		CHECK(rc == 0 || rc == -FI_EAGAIN);
		if (rc == 0)
			CHECK_EQ(poll(&p, 1, LIMIT_MS), 1);
	}
	CHECK_EQ(n, 1);
	return got;
}

/* Both ends sleep in turn, in one thread: nobody polls for them. */
TEST(a_message_wakes_its_receiver)
{
	static char from[100000], to[100000];
	static const size_t sizes[] = {8, 2000, 60000, sizeof(from)};
	struct ends e;
	int fd[2];

	ends_open(&e);
	fd[0] = end_sleeps(&e.a, FI_WAIT_FD);
	fd[1] = end_sleeps(&e.b, FI_WAIT_UNSPEC);
	for (unsigned i = 0; i < 200; i++) {
		size_t len = sizes[i % HK_ARRAY_LEN(sizes)];

		memset(from, (int)i, len);
		FI_OK(fi_trecv(e.b.ep, to, len, NULL, FI_ADDR_UNSPEC, i, 0, &e.b));
		FI_OK(fi_tsend(e.a.ep, from, len, NULL, e.a.peer, i, &e.a));
		CHECK(sleep_for_one(&e.b, fd[1]).op_context == &e.b);
		CHECK(memcmp(from, to, len) == 0);
		CHECK(sleep_for_one(&e.a, fd[0]).op_context == &e.a);
	}
	ends_close(&e);
}

/* The progress thread polls every half millisecond while the application does not. It must leave
 * the frames that wake the sleeper. */
TEST(the_progress_thread_takes_no_wakeup)
{
	const struct timespec several_polls = {.tv_nsec = 8000000};
	struct ends e;
	struct fid *fid;
	char to[8];

	ends_open(&e);
	struct pollfd p = {.fd = end_sleeps(&e.b, FI_WAIT_FD), .events = POLLIN};

	fid = &e.b.cq->fid;
	FI_OK(fi_trecv(e.b.ep, to, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL));
	while (fi_trywait(e.b.fabric, &fid, 1) == -FI_EAGAIN)
		(void)fi_cq_read(e.b.cq, NULL, 0);
	CHECK_EQ(poll(&p, 1, 0), 0);
	nanosleep(&several_polls, NULL);
	FI_OK(fi_tinject(e.a.ep, "message", 8, e.a.peer, 1));
	CHECK_EQ(poll(&p, 1, LIMIT_MS), 1);
	nanosleep(&several_polls, NULL);
	CHECK_EQ(poll(&p, 1, 0), 1); /* still */
	ends_wait(&e, &e.b);
	CHECK(strcmp(to, "message") == 0);
	ends_close(&e);
}

/* One thread sleeps, and another one polls a queue of the same domain: it adds the event. */
struct sleeper {
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fi_cq_tagged_entry got;
	ssize_t rc;
};

static void *sleep_in_queue(void *arg)
{
	struct sleeper *s = arg;

	s->rc = fi_cq_sread(s->cq, &s->got, 1, NULL, -1);
	return NULL;
}

static void *sleep_in_counter(void *arg)
{
	struct sleeper *s = arg;

	s->rc = fi_cntr_wait(s->cntr, 3, -1);
	return NULL;
}

TEST(another_thread_adds_the_event)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct ends e;
	struct sleeper s;
	struct fid_cq *other;
	pthread_t thread;
	char to[8];

	ends_open(&e);
	(void)end_sleeps(&e.b, FI_WAIT_FD);
	s = (struct sleeper){.cq = e.b.cq};
	FI_OK(fi_cq_open(e.b.domain, &attr, &other, NULL));
	for (unsigned i = 0; i < 100; i++) {
		FI_OK(fi_trecv(e.b.ep, to, 8, NULL, FI_ADDR_UNSPEC, i, 0, &e));
		CHECK_EQ(pthread_create(&thread, NULL, sleep_in_queue, &s), 0);
		FI_OK(fi_tinject(e.a.ep, "message", 8, e.a.peer, i));
		for (unsigned k = 0; k < 100; k++) {
			(void)fi_cq_read(other, NULL, 0);
			(void)fi_cq_read(e.a.cq, NULL, 0);
		}
		CHECK_EQ(pthread_join(thread, NULL), 0);
		CHECK_EQ(s.rc, 1);
		CHECK(s.got.op_context == &e);
	}
	FI_OK(fi_close(&other->fid));
	ends_close(&e);
}

TEST(a_signal_wakes)
{
	struct ends e;
	struct sleeper s;
	pthread_t thread;

	ends_open(&e);
	(void)end_sleeps(&e.a, FI_WAIT_FD);
	s = (struct sleeper){.cq = e.a.cq};
	for (unsigned i = 0; i < 100; i++) {
		CHECK_EQ(pthread_create(&thread, NULL, sleep_in_queue, &s), 0);
		FI_OK(fi_cq_signal(e.a.cq));
		CHECK_EQ(pthread_join(thread, NULL), 0);
		CHECK_EQ(s.rc, -FI_EAGAIN);
	}
	ends_close(&e);
}

TEST(counters)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_FD};
	struct ends e;
	struct sleeper s = {0};
	struct fid *fid;
	struct pollfd p = {.events = POLLIN};
	pthread_t thread;
	char to[8];

	ends_open(&e);
	FI_OK(fi_close(&e.b.ep->fid));
	FI_OK(fi_cntr_open(e.b.domain, &attr, &s.cntr, NULL));
	FI_OK(fi_endpoint(e.b.domain, e.b.info, &e.b.ep, NULL));
	FI_OK(fi_ep_bind(e.b.ep, &s.cntr->fid, FI_RECV));
	FI_OK(fi_ep_bind(e.b.ep, &e.b.av->fid, 0));
	FI_OK(fi_enable(e.b.ep));
	CHECK_EQ(fi_cntr_wait(s.cntr, 1, 5), -FI_ETIMEDOUT);
	CHECK_EQ(pthread_create(&thread, NULL, sleep_in_counter, &s), 0);
	for (unsigned i = 0; i < 3; i++) {
		FI_OK(fi_trecv(e.b.ep, to, 8, NULL, FI_ADDR_UNSPEC, i, 0, NULL));
		FI_OK(fi_tinject(e.a.ep, "message", 8, e.a.peer, i));
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	FI_OK(s.rc);
	FI_OK(fi_control(&s.cntr->fid, FI_GETWAIT, &p.fd));
	fid = &s.cntr->fid;
	CHECK_EQ(fi_cntr_read(s.cntr), 3);
	while (fi_trywait(e.b.fabric, &fid, 1) != 0)
		(void)fi_cntr_read(s.cntr);
	FI_OK(fi_cntr_add(s.cntr, 1));
	CHECK_EQ(poll(&p, 1, LIMIT_MS), 1);
	CHECK_EQ(fi_trywait(e.b.fabric, &fid, 1), -FI_EAGAIN);
	CHECK_EQ(fi_cntr_read(s.cntr), 4);
	FI_OK(fi_close(&e.b.ep->fid));
	FI_OK(fi_close(&s.cntr->fid));
	FI_OK(fi_endpoint(e.b.domain, e.b.info, &e.b.ep, NULL)); /* for ends_close() */
	FI_OK(fi_ep_bind(e.b.ep, &e.b.av->fid, 0));
	ends_close(&e);
}

/* A thread that sleeps takes no processor time. */
TEST(sleeping_costs_nothing)
{
	struct timespec before, after;
	struct fi_cq_tagged_entry none;
	struct ends e;

	ends_open(&e);
	(void)end_sleeps(&e.a, FI_WAIT_FD);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
	CHECK_EQ(fi_cq_sread(e.a.cq, &none, 1, NULL, 1000), -FI_EAGAIN);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
	CHECK((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 <
	      500);
	ends_close(&e);
}

TEST(what_is_no_wait_object)
{
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_MUTEX_COND};
	struct ends e;
	struct fid_cq *cq;
	struct fid *fid;
	int fd;

	ends_open(&e);
	CHECK_EQ(fi_cq_open(e.a.domain, &attr, &cq, NULL), -FI_ENOSYS);
	fid = &e.a.cq->fid; /* FI_WAIT_NONE */
	CHECK_EQ(fi_control(fid, FI_GETWAIT, &fd), -FI_ENOSYS);
	CHECK_EQ(fi_trywait(e.a.fabric, &fid, 1), -FI_ENOSYS);
	fid = &e.a.av->fid;
	CHECK_EQ(fi_trywait(e.a.fabric, &fid, 1), -FI_EINVAL);
	ends_close(&e);
}
