/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_switch_sleep.c: when the switch sleeps, for how long, and whom it rings for.
 *
 * The switch is turned by hand, a round at a time; what it sleeps in and yields by is the test's, and its times are as
 * long as the test says. So nothing here depends on how fast the machine is. The port is a net_ring that
 * leads back to itself; the test plays the ranks and the switch at the other end.
 */
#include "host/prompt.h"
#include "host/switch_parts.h"
#include "port/bell.h"
#include "port/internal.h"
#include "tests/unit/hk_test.h"
#include "wire/wire.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_pause.h>

#define KEY     0x53574954u
#define SHARE   16
#define BUFFERS 256
#define NEVER   (UINT64_MAX / 2)

/* ---- what it sleeps in ------------------------------------------------------------------------ */

static struct {
	unsigned briefly, beats,
		yields;    /* how often it slept for a moment, for a beat, and yielded */
	unsigned deaf;     /* … without listening */
	unsigned ordinary; /* how often it became so */
	long longest;      /* ns that it would have slept at the most */
	bool rung;         /* it is woken by the bell */
	uint64_t takes;    /* ticks of the TSC that each of them takes */
} slept;

static void pass(void)
{
	for (uint64_t end = rte_rdtsc() + slept.takes; rte_rdtsc() < end;)
		rte_pause();
}

int ppoll(struct pollfd *p, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
	(void)p, (void)mask;
	slept.deaf += n == 0;
	slept.briefly += limit->tv_nsec < HK_SWITCH_BEAT_NS;
	slept.beats += limit->tv_nsec == HK_SWITCH_BEAT_NS;
	slept.longest = HK_MAX(slept.longest, limit->tv_nsec);
	pass();
	return slept.rung;
}

/* In place of host/prompt.c's: the machine lets it have the priority. */
bool hk_prompt(bool prompt)
{
	slept.ordinary += !prompt;
	return prompt;
}

int sched_yield(void)
{
	slept.yields++;
	pass();
	return 0;
}

/* ---- a switch, two ranks and a wire ------------------------------------------------------------ */

static int other_end; /* of the wire's bell */

static void say(void *arg, const char *text)
{
	(void)arg;
	CHECK(write(other_end, text, strlen(text)) > 0);
}

static const struct hk_last_words words = {say, NULL};
static struct hk_switch *sw;
static struct hk_port *port;
static struct rte_mempool *rx_pool;

struct rank {
	struct hk_pipe *pipes;
	struct rte_mempool *tx_pool;
	struct hk_port port;
} rank[2];

static void rank_add(unsigned slot)
{
	struct rank *r = &rank[slot];
	struct hk_error err = {""};
	static unsigned pools;
	char name[20];

	r->pipes = aligned_alloc(64, HK_SWITCH_WIRES * sizeof(*r->pipes));
	CHECK(r->pipes != NULL);
	snprintf(name, sizeof(name), "tx%u", pools++);
	CHECK_MSG(hk_pool_create_room(name, 128, 0, 2048, &r->tx_pool, &err) == 0, "%s", err.text);
	struct hk_switch_slot s = {.job_key = KEY,
				   .endpoint = slot,
				   .pipes = r->pipes,
				   .tx_pool = r->tx_pool,
				   .share = SHARE};

	CHECK_MSG(hk_switch_do_add(sw, slot, &s, &err) == 0, "%s", err.text);
	hk_pipe_port(r->pipes, &port->info, &r->port);
}

/* Its core is crowded for ever, or never. It watches nobody, and its other times are endless until a test says. */
static void start(bool crowded)
{
	struct hk_eal_config eal = {.memory_mb = 64};
	struct hk_error err = {""};
	static unsigned rings;
	char spec[64];
	int pair[2];

	CHECK_MSG(hk_eal_init(&eal, &err) == 0, "%s", err.text);
	snprintf(spec, sizeof(spec), "vdev:net_ring%u", rings++);
	CHECK_MSG(hk_pool_create(spec + 5, BUFFERS, 9216, &rx_pool, &err) == 0, "%s", err.text);
	struct hk_port_queues q = {.count = 1, .pool = &rx_pool};

	CHECK_MSG(hk_port_open_queues(spec, &q, 0, &port, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_switch_make(&words, &sw, &err) == 0, "%s", err.text);
	struct hk_switch_wire wire = {.port = port, .queues = 1, .copies = rx_pool};

	CHECK_EQ(hk_switch_do_wire(sw, 0, &wire, &err), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	hk_bell_set_wire(port->id, pair[0]);
	other_end = pair[1];
	sw->wakes[0] = true;
	rank_add(0);
	rank_add(1);
	sw->pace.until = crowded ? UINT64_MAX : 0;
	sw->pace.slow = NEVER;
	sw->spin = sw->watch = sw->watch_crowded = NEVER;
	sw->fresh = rte_rdtsc() / 2; /* the first frame is not */
	sw->settle = 0;
	memset(&slept, 0, sizeof(slept));
}

static void stop(void)
{
	struct hk_error err = {""};

	for (unsigned i = 0; i < 2; i++) {
		hk_switch_do_remove(sw, i);
		hk_pool_free(rank[i].tx_pool);
		free(rank[i].pipes);
	}
	close(hk_bell_take_wire(port->id));
	close(other_end);
	CHECK_EQ(hk_switch_do_wire(sw, 0, NULL, &err), 0);
	hk_switch_unmake(sw);
	hk_port_close(port);
	hk_pool_free(rx_pool);
}

/* One frame of rank 0 for @endpoint. */
static void send_to(uint32_t endpoint)
{
	struct hk_wire_hdr h = {.version = HK_WIRE_VERSION,
				.type = HK_WIRE_DATA,
				.frags = 1,
				.key = KEY,
				.dst = endpoint};
	struct rte_mbuf *m = rte_pktmbuf_alloc(rank[0].tx_pool);
	uint8_t mac[6] = {2};

	CHECK(m != NULL);
	char *at = rte_pktmbuf_append(m, HK_ETH_HLEN + HK_WIRE_HLEN);

	hk_wire_put_eth(at, mac, mac);
	hk_wire_put_hdr(at + HK_ETH_HLEN, &h);
	CHECK_EQ(hk_port_tx(&rank[0].port, 0, &m, 1), 1);
}

static unsigned receive(unsigned slot)
{
	struct rte_mbuf *m[32];
	uint16_t n = hk_port_rx(&rank[slot].port, 0, m, 32);

	for (unsigned i = 0; i < n; i++)
		rte_pktmbuf_free_seg(m[i]);
	return n;
}

static void turns(unsigned n)
{
	while (n--)
		hk_switch_turn(sw);
}

/* Rings that reached the other end since the last call. */
static unsigned rings(void)
{
	unsigned n = 0;
	char c;

	while (recv(other_end, &c, 1, MSG_DONTWAIT) == 1)
		n++;
	return n;
}

/* ---- the sleeper ------------------------------------------------------------------------------ */

/* Who has just sent to us sends more without a ring, for a moment: on a crowded core, too, it is not to sleep so long,
 * though its ranks have taken everything. */
static void looks_by_itself_after_a_frame(bool crowded)
{
	start(crowded);
	for (unsigned i = 0; i < 10; i++) {
		send_to(1);
		turns(2); /* to the port, and back */
		CHECK_EQ(receive(1), 1);
		turns(5);
	}
	CHECK_EQ(slept.beats, 0);
	CHECK_CMP(crowded ? slept.briefly : slept.yields, >, 10);
	sw->spin = 0; /* the moment is over */
	turns(3);
	CHECK_CMP(slept.beats, >, 0);
	stop();
}

static void looks_by_itself(void)
{
	looks_by_itself_after_a_frame(false);
	looks_by_itself_after_a_frame(true);
}

/* A rank that takes nothing has left MPI, and the poller, awake just then, looks before it counts as away: so it is
 * asked to look again. */
static void asks_for_who_takes_nothing(void)
{
	start(false);
	sw->watch = 0;
	send_to(1);
	turns(2); /* to the port, and back */
	CHECK_EQ(receive(1), 1);
	turns(3);
	CHECK(!hk_bell_asked(HK_BELL_POLLER));
	send_to(1);
	turns(5);
	CHECK(hk_bell_asked(HK_BELL_POLLER));
	CHECK_EQ(receive(1), 1);
	(void)hk_bell_get_up(HK_BELL_POLLER);
	stop();
}

/* Bytes of the wire's bell that the switch has not taken in. */
static int unheard(void)
{
	int n = 0;

	CHECK_EQ(ioctl(other_end, SIOCOUTQ, &n), 0);
	return n;
}

/* What it hears awake it takes in seldom, unless somebody else may be meant: the poller, if the wire has pairs that are
 * not the switch's. */
static void hears_for_others_awake(void)
{
	struct hk_error err = {""};

	for (unsigned bulk = 0; bulk < 2; bulk++) {
		start(false);
		struct hk_switch_wire wire = {.port = port, .queues = 1 - bulk, .copies = rx_pool};

		CHECK_EQ(hk_switch_do_wire(sw, 0, &wire, &err), 0); /* now it has a bell */
		CHECK_EQ(send(other_end, "", 1, 0), 1);             /* for the poller */
		sw->watch = 0;
		turns(10);
		CHECK_EQ(unheard() == 0, bulk);
		CHECK_EQ(hk_bell_asked(HK_BELL_POLLER), bulk);
		turns(HK_SWITCH_DRAIN_EACH);
		CHECK_EQ(unheard(), 0);
		(void)hk_bell_get_up(HK_BELL_POLLER);
		stop();
	}
}

/* What was stored just before it lay down may not be in memory yet, and nobody rings for it: so it does not sleep long
 * before it has looked once more. */
static void settles_before_it_sleeps_long(void)
{
	start(false);
	sw->settle = NEVER;
	sw->spin = 0;
	turns(5);
	CHECK(slept.beats == 0 && slept.briefly);
	CHECK_EQ(slept.longest, (long)HK_BELL_SETTLE);
	sw->settle = 0; /* that time is over */
	turns(2);
	CHECK_EQ(slept.beats, 2);
	stop();
	/* however long it was kept off its core before the first sleep: what it looked for since may have come late */
	start(false);
	sw->spin = 0;
	slept.takes = rte_get_tsc_hz() / 100000;
	sw->settle = slept.takes / 2;
	turns(1); /* it lies down */
	CHECK(sw->lies && slept.briefly + slept.beats == 0);
	pass();
	turns(1);
	CHECK(slept.briefly == 1 && slept.beats == 0);
	turns(1);
	CHECK_EQ(slept.beats, 1);
	stop();
}

/* Where it shares its core it tells since when it has it, so that the poller takes nobody for away because of that; for a
 * while after it sleeps, too. What others write there excuses nobody for longer than the poller says. */
static void tells_since_when_it_has_the_core(void)
{
	for (int crowded = 0; crowded < 2; crowded++) {
		start(crowded);
		sw->spin = 0;
		hk_bell_works(HK_BELL_SWITCH, 0, 0);
		turns(3); /* lies down, sleeps, and is awake again */
		CHECK_CMP(slept.beats, >, 0);
		uint64_t woke = sw->woke, most = 1000000;

		CHECK_EQ(hk_bell_core_lost(HK_BELL_SWITCH, woke + 100, most),
			 crowded ? woke : woke + 100);
		CHECK_EQ(hk_bell_core_lost(HK_BELL_SWITCH, woke + sw->awake_most, most),
			 woke + sw->awake_most);
		CHECK_EQ(hk_bell_core_lost(HK_BELL_SWITCH, woke + 100, 10),
			 crowded ? woke + 90 : woke + 100);
		CHECK_EQ(hk_bell_core_lost(HK_BELL_SWITCH, woke - 1, most), woke - 1);
		stop();
	}
}

/* Prompt it has the core before all others: so not for as long as frames come. */
static void is_prompt_for_a_moment(void)
{
	start(true);
	CHECK(!sw->prompt);
	turns(1);
	CHECK(!sw->prompt); /* it only lies down */
	turns(1);
	CHECK(sw->prompt && slept.briefly + slept.beats);
	sw->pace.ration = NEVER;
	send_to(1);
	turns(2);
	CHECK_EQ(receive(1), 1);
	CHECK(sw->prompt);
	sw->pace.ration = 0;
	send_to(1);
	turns(1);
	CHECK(!sw->prompt);
	stop();
	start(false);
	turns(5);
	CHECK(!sw->prompt && slept.yields); /* who yields is not */
	stop();
}

/* Whatever wakes it, as a thread with the core before all others it works no longer than it sleeps: when its ration is used up
 * it sleeps without listening, until it may work again for a while. */
static void is_prompt_no_longer_than_it_sleeps(void)
{
	start(true);
	sw->spin = 0;
	turns(2);
	CHECK(sw->prompt && slept.deaf == 0);
	sw->pace.ration = -sw->pace.whole;
	turns(1);
	CHECK(sw->prompt && slept.deaf == 1);
	/* debt, and half a ration */
	CHECK_CMP(slept.longest, >=, (long)(HK_PACE_RATION + HK_PACE_RATION / 2));
	CHECK_CMP(slept.longest, <, (long)(2 * HK_PACE_RATION));
	slept.takes = (uint64_t)sw->pace.whole * 2;
	turns(1);
	unsigned deaf = slept.deaf;

	turns(3);
	CHECK_EQ(slept.deaf, deaf);
	/* rung for without end: it does not sleep where it listens, and each turn is work */
	slept.takes = 0;
	slept.rung = true;
	for (unsigned i = 0; slept.deaf == deaf && i < 1000000; i++)
		turns(1);
	CHECK_CMP(slept.deaf, >, deaf);
	stop();
}

/* ---- the ringer ------------------------------------------------------------------------------- */

static void rings_for_the_first_frame_alone(void)
{
	start(false);
	for (unsigned i = 0; i < 10; i++) {
		send_to(99);
		turns(3);
	}
	CHECK_EQ(rings(), 1);
	stop();
}

/* Whatever kept it from its core between two frames, a yield or a sleep, the other end has had that time as well. */
static void rings_after_it_was_kept_off_its_core(void)
{
	for (int crowded = 0; crowded < 2; crowded++) {
		start(crowded);
		sw->fresh = rte_get_tsc_hz() / 1000 * 5; /* 5 ms: long beside a round */
		slept.takes = 2 * sw->fresh;
		for (unsigned i = 1; i <= 5; i++) {
			send_to(99);
			turns(4);
			CHECK_MSG(rings() == 1, "frame %u was not rung for", i);
		}
		stop();
	}
}

/* ---- commands --------------------------------------------------------------------------------- */

static void *remove_a_slot(void *done)
{
	struct hk_error err = {""};

	CHECK_MSG(hk_switch_slot_remove(sw, 0, &err) == 0, "%s", err.text);
	atomic_store((_Atomic bool *)done, true);
	return NULL;
}

/* What it is told to do takes locks of DPDK's, which spin: whoever has one may wait for this core. */
static void is_ordinary_while_it_obeys(void)
{
	_Atomic bool done = false;
	pthread_t t;

	start(true);
	sw->spin = 0;
	turns(3);
	CHECK(sw->prompt && slept.ordinary == 0);
	CHECK_EQ(pthread_create(&t, NULL, remove_a_slot, &done), 0);
	while (!atomic_load(&done)) {
		sw->pace.ration = sw->pace.whole; /* nothing else makes it ordinary */
		turns(1);
	}
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(slept.ordinary, 1);
	struct hk_error err = {""};
	struct hk_switch_slot s = {.job_key = KEY,
				   .endpoint = 0,
				   .pipes = rank[0].pipes,
				   .tx_pool = rank[0].tx_pool,
				   .share = SHARE};

	CHECK_EQ(hk_switch_do_add(sw, 0, &s, &err), 0); /* stop() takes it away */
	stop();
}

/* It does not move at all: hikyakud ends, and says why where somebody reads it. */
static void says_why_it_aborts(void)
{
	struct hk_error err = {""};
	char text[200] = "";
	int status = 0;

	start(false);
	sw->patience.wall_ms = 0;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		other_end = hk_bell_take_wire(port->id);
		CHECK(setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}) == 0);
		CHECK(freopen("/dev/null", "w", stderr) != NULL); /* as in the background */
		(void)hk_switch_slot_remove(sw, 0, &err);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	CHECK(recv(other_end, text, sizeof(text) - 1, MSG_DONTWAIT) > 0);
	CHECK_MSG(strstr(text, "its switch did not move") && strstr(text, "fix: "), "%s", text);
	stop();
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"looks_by_itself", looks_by_itself},
		{"asks_for_who_takes_nothing", asks_for_who_takes_nothing},
		{"hears_for_others_awake", hears_for_others_awake},
		{"is_prompt_for_a_moment", is_prompt_for_a_moment},
		{"is_prompt_no_longer_than_it_sleeps", is_prompt_no_longer_than_it_sleeps},
		{"settles_before_it_sleeps_long", settles_before_it_sleeps_long},
		{"tells_since_when_it_has_the_core", tells_since_when_it_has_the_core},
		{"is_ordinary_while_it_obeys", is_ordinary_while_it_obeys},
		{"says_why_it_aborts", says_why_it_aborts},
		{"rings_for_the_first_frame_alone", rings_for_the_first_frame_alone},
		{"rings_after_it_was_kept_off_its_core", rings_after_it_was_kept_off_its_core},
	};

	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
