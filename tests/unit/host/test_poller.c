/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_poller.c: the poller's rounds alone, against the other side of host/shared.h.
 */
#include "host/poller.h"
#include "tests/unit/hk_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLOTS 4

static struct hk_host_shared s;

/* What lies "in the rank's memory". */
static struct spot {
	_Atomic int allowed;
	_Atomic uint64_t served;
	enum hk_served says;
} spot[SLOTS];

static enum hk_served serve(void *fabric)
{
	struct spot *p = fabric;

	CHECK_MSG(atomic_load(&p->allowed), "served after the daemon was told that it has let go");
	CHECK_EQ(atomic_load(&s.serving), p - spot + 1);
	atomic_fetch_add(&p->served, 1);
	CHECK(atomic_load(&p->allowed));
	return p->says;
}

static void up(void)
{
	memset(&s, 0, sizeof(s));
	memset(spot, 0, sizeof(spot));
	s.slots = SLOTS;
	for (unsigned i = 0; i < SLOTS; i++)
		atomic_store(&s.slot[i].fabric, (uintptr_t)&spot[i]);
}

static void on(unsigned i)
{
	atomic_store(&spot[i].allowed, 1);
	atomic_store(&s.slot[i].state, HK_SHARED_SERVE);
}

static void rounds(void)
{
	bool any = true;

	up();
	CHECK_EQ(hk_poller_round(&s, serve, &any), HK_SERVED_PRESENT);
	CHECK(!any && atomic_load(&s.rounds) == 1);
	on(1);
	on(3);
	CHECK_EQ(hk_poller_round(&s, serve, &any), HK_SERVED_PRESENT);
	CHECK(any && atomic_load(&s.serving) == 0);
	CHECK(spot[1].served == 1 && spot[3].served == 1 && spot[0].served == 0);
	spot[1].says = HK_SERVED_BUSY;
	spot[3].says = HK_SERVED_IDLE;
	CHECK_EQ(hk_poller_round(&s, serve, &any), HK_SERVED_BUSY);
	spot[1].says = HK_SERVED_PRESENT;
	CHECK_EQ(hk_poller_round(&s, serve, &any), HK_SERVED_IDLE);
	CHECK(s.slot[1].looks == 3 && s.slot[1].away == 1 && s.slot[3].away == 2);
	/* another state than those that we know is none */
	atomic_store(&s.slot[1].state, 7);
	hk_poller_round(&s, serve, &any);
	CHECK(spot[1].served == 3);
}

static _Atomic bool stop;
static void *poll_all(void *arg)
{
	while (!atomic_load(&stop))
		hk_poller_round(&s, serve, NULL);
	return arg;
}

/* The daemon's side: off, then wait until it has let go; after that no look may be inside. */
static void let_go(void)
{
	pthread_t t;
	unsigned while_inside = 0;

	up();
	on(0);
	on(2);
	CHECK(pthread_create(&t, NULL, poll_all, NULL) == 0);
	while (!atomic_load(&spot[0].served) || !atomic_load(&spot[2].served))
		sched_yield();
	/* until the two have met often: how long that takes depends on the machine's other work */
	for (unsigned i = 0; i < 50000000 && (i < 200000 || while_inside < 20000); i++) {
		if (i % 4096 == 0)
			sched_yield();
		unsigned slot = i % 2 * 2;
		atomic_store(&s.slot[slot].state, HK_SHARED_OFF);
		for (unsigned spins = 0; atomic_load(&s.serving) == slot + 1; spins++) {
			while_inside += spins == 0;
			if (spins > 100)
				sched_yield();
		}
		atomic_store(&spot[slot].allowed, 0);
		/* whatever it serves now is the other one */
		on(slot);
	}
	atomic_store(&stop, true);
	pthread_join(t, NULL);
}

static void *loop(void *arg)
{
	struct hk_error err = {""};
	int rc = hk_poller_loop(&s, *(int *)arg, serve, &err);

	return rc == 0 ? NULL : (void *)1;
}

/* With nothing to serve it sleeps until it is woken; the end of the channel ends it. */
static void wakes_and_ends(void)
{
	int sv[2];
	pthread_t t;
	void *failed;

	up();
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) == 0);
	CHECK(pthread_create(&t, NULL, loop, &sv[1]) == 0);
	while (atomic_load(&s.rounds) == 0)
		sched_yield();
	on(2);
	CHECK(send(sv[0], "", 1, 0) == 1);
	while (atomic_load(&spot[2].served) < 100)
		sched_yield();
	close(sv[0]);
	pthread_join(t, &failed);
	CHECK(failed == NULL);
	close(sv[1]);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"rounds", rounds},
		{"let_go", let_go},
		{"wakes_and_ends", wakes_and_ends},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
