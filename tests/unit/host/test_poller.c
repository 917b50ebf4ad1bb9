/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_poller.c: the poller's rounds alone, against the other side of host/shared.h.
 */
#include "host/poller.h"
#include "host/prompt.h"
#include "host/resources.h"
#include "tests/unit/hk_test.h"
#include "tests/unit/host/fake_resources.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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

/* ---- wires ----------------------------------------------------------------------------------- */

static _Atomic uint32_t attached;

/* While the poller attaches the daemon wants it no more: it is to see that the poller has not let go. */
static int attach_slowly(uint16_t id, void **port)
{
	CHECK_EQ(id, 6);
	atomic_store(&s.wire[3].want, 0);
	CHECK_MSG(atomic_load(&s.wire[3].have) == 7, "the daemon closes it under its hands");
	atomic_store(&attached, 1);
	*port = &attached;
	return 0;
}

static void nothing_is_closed_that_is_being_attached(void)
{
	static void *port[HK_CTL_MAX_NODES];
	struct hk_error err = {""};

	up();
	fake_attach = attach_slowly;
	atomic_store(&s.wire[3].want, 7);
	CHECK_EQ(hk_poller_wires(&s, port, &err), 0);
	CHECK(port[3] == &attached && atomic_load(&s.wire[3].have) == 7);
	CHECK_EQ(hk_poller_wires(&s, port, &err), 0);
	CHECK(port[3] == NULL && atomic_load(&s.wire[3].have) == 0 && atomic_load(&attached) == 0);
	fake_attach = NULL;
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

/* ---- what the loop sleeps in ----------------------------------------------------------------- */

/* Instead of the kernel's, while a test says so: each sleep of a beat is noted, and each that listens is rung. */
static struct script {
	bool on;
	/* after how many sleeps there is something to do; somebody asks for it; the channel ends */
	unsigned busy_at, ask_at, quiet_at, end_at; /* quiet: nobody rings in that one */
	enum hk_served says;                        /* what its looks find else */
	bool naps;                                  /* are noted, too */
	bool settled; /* it has waited for a moment since it lay down, for the last stores to reach memory */
	char seen[64];
} scripted;

static int scripted_sleep(struct pollfd *p, nfds_t n, const struct timespec *limit)
{
	size_t len = strlen(scripted.seen);

	spot[1].says = scripted.says;
	if (n == 2 && limit->tv_nsec == HK_RES_SETTLE_NS) {
		CHECK(!scripted.settled);
		scripted.settled = true;
		return 0;
	}
	if (limit->tv_nsec != hk_poller_pace.beat_ns) {
		CHECK_EQ(n, 1); /* a nap: it is awake */
		if (scripted.naps)
			scripted.seen[len++] = limit->tv_nsec == hk_poller_pace.soon_ns ? 's' : 'n';
		if (len == scripted.ask_at)
			atomic_store(&fake_bell.asked, 1);
		if (len == scripted.end_at)
			p[0].revents = POLLIN;
		return 0;
	}
	CHECK(n == 1 || (n == 2 && scripted.settled));
	scripted.seen[len++] = n == 2 ? 'R' : '-';
	if (len == scripted.busy_at)
		spot[1].says = HK_SERVED_BUSY;
	if (len == scripted.end_at)
		p[0].revents = POLLIN;
	if (n == 2 && len != scripted.quiet_at) {
		CHECK(eventfd_write(fake_bell.fd, 1) == 0);
		p[1].revents = POLLIN;
		scripted.settled = false;
	}
	return 1;
}

/* The C library's, for this program. */
int ppoll(struct pollfd *p, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
	struct timespec left;

	if (scripted.on)
		return scripted_sleep(p, n, limit);
	if (limit)
		left = *limit; /* the kernel writes there */
	return (int)syscall(SYS_ppoll, p, n, limit ? &left : NULL, mask, (size_t)8);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static struct {
	pthread_t thread;
	int channel[2];
	struct hk_poller_pace pace;
} l;

static void *loop(void *arg)
{
	struct hk_error err = {""};
	int rc = hk_poller_loop(&s, l.channel[1], fake_bell.fd, serve, &l.pace, &err);

	(void)arg;
	return rc == 0 ? NULL : (void *)1;
}

static void loop_start(void)
{
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, l.channel) == 0);
	fake_bell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	atomic_store(&fake_bell.lies, 0);
	CHECK(fake_bell.fd >= 0);
	CHECK(pthread_create(&l.thread, NULL, loop, NULL) == 0);
}

/* The end of the channel ends it. */
static void loop_end(void)
{
	void *failed;

	close(l.channel[0]);
	pthread_join(l.thread, &failed);
	CHECK(failed == NULL);
	close(l.channel[1]);
	close(fake_bell.fd);
}

#define UNTIL(cond)                                                                                \
	while (!(cond))                                                                            \
	sched_yield()

/* How it runs while it attaches, and while it serves. */
static struct {
	_Atomic bool attached, served, realtime;
	_Atomic int policy[2];
} runs;

static void note_run(unsigned serving)
{
	atomic_store(&runs.policy[serving], sched_getscheduler(0) & ~SCHED_RESET_ON_FORK);
}

static int attach_and_note(uint16_t id, void **port)
{
	(void)id;
	note_run(0);
	*port = &attached;
	atomic_store(&runs.attached, true);
	return 0;
}

static enum hk_served serve_and_note(void *fabric)
{
	(void)fabric;
	if (atomic_load(&runs.attached)) {
		note_run(1);
		atomic_store(&runs.served, true);
	}
	return HK_SERVED_IDLE;
}

static void *loop_and_note(void *arg)
{
	struct hk_error err = {""};

	atomic_store(&runs.realtime, hk_prompt_realtime(&err) == 0);
	(void)hk_poller_loop(&s, l.channel[1], fake_bell.fd, serve_and_note, &hk_poller_pace, &err);
	return arg;
}

/* Attaching takes DPDK's locks, which spin: whoever has one may wait for this core. Serving takes none. */
static void is_prompt_but_for_attaching(void)
{
	up();
	on(1);
	fake_attach = attach_and_note;
	atomic_store(&s.wire[0].want, 1);
	atomic_store(&s.changes, 1);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, l.channel) == 0);
	fake_bell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	CHECK(fake_bell.fd >= 0);
	CHECK(pthread_create(&l.thread, NULL, loop_and_note, NULL) == 0);
	UNTIL(atomic_load(&runs.served));
	close(l.channel[0]);
	pthread_join(l.thread, NULL);
	close(l.channel[1]);
	close(fake_bell.fd);
	fake_attach = NULL;
	CHECK_EQ(atomic_load(&runs.policy[0]), SCHED_OTHER);
	CHECK_EQ(atomic_load(&runs.policy[1]),
		 atomic_load(&runs.realtime) ? SCHED_FIFO : SCHED_OTHER);
}

/* With nothing to serve it sleeps until it is woken; the end of the channel ends it. */
static void wakes_and_ends(void)
{
	up();
	l.pace = hk_poller_pace;
	loop_start();
	UNTIL(atomic_load(&s.rounds) > 0);
	on(2);
	CHECK(send(l.channel[0], "", 1, 0) == 1);
	UNTIL(atomic_load(&spot[2].served) >= 20);
	loop_end();
}

/* A beat that never comes in the time of a test: what wakes it is what is rung. */
static void asleep_without_a_beat(void)
{
	up();
	on(1);
	spot[1].says = HK_SERVED_IDLE;
	l.pace = hk_poller_pace;
	l.pace.beat_ns = 999999999;
	loop_start();
	UNTIL(hk_res_lies() && atomic_load(&s.sleeps) == 1);
}

static void is_rung(void)
{
	CHECK(eventfd_write(fake_bell.fd, 1) == 0);
}

static void sleeps_until_it_is_rung(void)
{
	asleep_without_a_beat();
	for (unsigned i = 2; i < 2 + l.pace.vain; i++) {
		uint64_t served = atomic_load(&spot[1].served);

		is_rung();
		UNTIL(atomic_load(&s.sleeps) == i);
		/* it has looked for a while, and once more after it lay down */
		CHECK_CMP(atomic_load(&spot[1].served), >=, served + l.pace.rest);
		CHECK_EQ(atomic_load(&s.rung), i - 1);
		CHECK_EQ(atomic_load(&s.in_vain), i - 2);
	}
	loop_end();
}

/* Who is present polls: one more look, when it would count as away, says so, and each takes it off its core. */
static void looks_once_more_at_who_is_present(void)
{
	asleep_without_a_beat();
	spot[1].says = HK_SERVED_PRESENT;
	uint64_t served = atomic_load(&spot[1].served);

	is_rung();
	UNTIL(atomic_load(&s.sleeps) == 2 && hk_res_lies());
	/* woken, after a nap, and perhaps that before it sleeps */
	CHECK_CMP(atomic_load(&spot[1].served) - served, >=, 2);
	CHECK_CMP(atomic_load(&spot[1].served) - served, <=, 3);
	loop_end();
}

/* A ringer may be killed between taking the sign away and ringing: then the beat finds that nobody rings
 * any more, and it lies down anew. */
static void hears_again_after_a_ringer_was_killed(void)
{
	up();
	on(1);
	l.pace = hk_poller_pace;
	loop_start();
	UNTIL(hk_res_lies());
	atomic_store(&fake_bell.lies, 0);
	UNTIL(hk_res_lies());
	loop_end();
}

/* The loop sleeps as @script says, and has to have slept so: @want. */
static void sleeps_so(struct script script, const char *want)
{
	struct hk_error err = {""};

	up();
	on(1);
	spot[1].says = script.says;
	scripted = script;
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, l.channel) == 0);
	fake_bell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	CHECK(fake_bell.fd >= 0);
	atomic_store(&fake_bell.lies, 0);
	atomic_store(&fake_bell.asked, 0);
	close(l.channel
		      [0]); /* its end is read when the script says that there is something to read */
	scripted.on = true;
	CHECK_EQ(hk_poller_loop(&s, l.channel[1], fake_bell.fd, serve, &hk_poller_pace, &err), 0);
	scripted.on = false;
	CHECK_MSG(strcmp(scripted.seen, want) == 0, "it slept, ringable (R) or not (-), %s",
		  scripted.seen);
	close(l.channel[1]);
	close(fake_bell.fd);
}

/* Who rings in a loop, and there is nothing to do, is not listened to for a beat at a time; when it has led to
 * something, it is heard well again. */
static void does_not_hear_who_rings_in_vain(void)
{
	/* vain + 1 rings are heard, then those of each second beat; in the 20th it found something: anew */
	sleeps_so((struct script){.busy_at = 20, .end_at = 40, .says = HK_SERVED_IDLE},
		  "RRRRR-R-R-R-R-R-R-R-"
		  "RRRRR-R-R-R-R-R-R-R-");
}

/* In a row means with no beat of silence between. */
static void forgives_after_a_silence(void)
{
	sleeps_so((struct script){.quiet_at = 5, .end_at = 12, .says = HK_SERVED_IDLE}, "RRRR"
											"R"
											"RRRRR-R");
}

/* Rings for ranks that come by themselves do not make it deaf for others, unless they are very many. */
static void hears_well_if_ranks_come_by_themselves(void)
{
	sleeps_so((struct script){.end_at = 21, .says = HK_SERVED_PRESENT}, "RRRRRRRRRRRRRRRRR"
									    "-R-R");
}

/* A rank that left MPI just now still counts as present, and the poller was awake when it was asked to look: so it looks
 * once more before it sleeps, a moment later. */
static void remembers_what_it_was_asked_awake(void)
{
	struct script script = {.naps = true, .end_at = 7, .says = HK_SERVED_PRESENT};

	sleeps_so(script, "RsRsRsR");
	script.ask_at = 2; /* in the first nap */
	sleeps_so(script, "RssRsRs");
}

/* Packets of an absent rank that nobody acknowledges keep it awake, but not for ever. */
static void what_is_owed_keeps_it_awake_for_a_while(void)
{
	up();
	on(3);
	spot[3].says = HK_SERVED_OWED;
	l.pace = hk_poller_pace;
	l.pace.beat_ns = 999999999;
	l.pace.watch_ns = 1000;
	loop_start();
	UNTIL(atomic_load(&s.sleeps) == 1);
	CHECK_CMP(atomic_load(&spot[3].served), >=, l.pace.owed);
	CHECK_CMP(atomic_load(&spot[3].served), <=, l.pace.owed + 3);
	loop_end();
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"rounds", rounds},
		{"nothing_is_closed_that_is_being_attached",
		 nothing_is_closed_that_is_being_attached},
		{"let_go", let_go},
		{"is_prompt_but_for_attaching", is_prompt_but_for_attaching},
		{"wakes_and_ends", wakes_and_ends},
		{"sleeps_until_it_is_rung", sleeps_until_it_is_rung},
		{"looks_once_more_at_who_is_present", looks_once_more_at_who_is_present},
		{"hears_again_after_a_ringer_was_killed", hears_again_after_a_ringer_was_killed},
		{"does_not_hear_who_rings_in_vain", does_not_hear_who_rings_in_vain},
		{"forgives_after_a_silence", forgives_after_a_silence},
		{"hears_well_if_ranks_come_by_themselves", hears_well_if_ranks_come_by_themselves},
		{"remembers_what_it_was_asked_awake", remembers_what_it_was_asked_awake},
		{"what_is_owed_keeps_it_awake_for_a_while",
		 what_is_owed_keeps_it_awake_for_a_while},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
