/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/helper/test_sharing.c: several processes on one queue of an interface, beside the
 * kernel, with sockets of hikyaku-helper.
 *
 * The test has a network namespace of its own with a veth pair. Frames leave far0 by a packet
 * socket and arrive at nic0, where children have ports.
 */
#include "port/internal.h"
#include "port/xsk.h"
#include "tests/support/await.h"
#include "tests/support/child.h"
#include "tests/support/net.h"
#include "tests/support/tmpdir.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPEC     "af_xdp:iface=nic0"
#define WAIT_MS  20000
#define JOB      0x77u
#define CHILDREN 3
#define FRAME    128
#define WAITING  256 /* frames that may wait in rings: fewer than each ring holds */
#define NOBODY   65534

/* Of each child, in shared memory. */
static struct child_state {
	_Atomic unsigned ready, received, wrong, sent, stop;
	_Atomic unsigned send; /* so many frames, once */
	_Atomic unsigned slot; /* by which it holds locks of the queue */
	_Atomic bool freed;    /* the last child's slot holds none, as this child sees it */
} * state;
static pid_t pid[CHILDREN];
static int far_end = -1;

/* ---- frames ---------------------------------------------------------------------------------- */

static void make_frame(uint8_t *f, uint16_t type, uint32_t endpoint)
{
	const uint32_t job = JOB;

	memset(f, 0, FRAME);
	memset(f, 0xff, 6);
	f[6] = 2;
	f[12] = (uint8_t)(type >> 8);
	f[13] = (uint8_t)type;
	memcpy(f + 14 + 4, &job, sizeof(job));
	memcpy(f + 14 + 12, &endpoint, sizeof(endpoint));
}

static void send_frame(uint16_t type, uint32_t endpoint)
{
	uint8_t f[FRAME];

	make_frame(f, type, endpoint);
	CHECK_EQ(send(far_end, f, sizeof(f), 0), FRAME);
}

/* ---- children -------------------------------------------------------------------------------- */

static void count_frames(struct hk_port *port, struct child_state *me, uint32_t endpoint)
{
	struct rte_mbuf *m[32];
	unsigned n = hk_port_rx(port, 0, m, 32);

	for (unsigned i = 0; i < n; i++) {
		uint32_t to;

		memcpy(&to, rte_pktmbuf_mtod_offset(m[i], char *, 14 + 12), sizeof(to));
		if (m[i]->data_len != FRAME || to != endpoint)
			me->wrong++;
	}
	rte_pktmbuf_free_bulk(m, n);
	me->received += n;
	if (n == 0 && me->sent == me->send) /* idle: let the others run */
		sched_yield();
}

static void send_frames(struct hk_port *port, struct child_state *me)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);

	uint8_t *f = m ? (uint8_t *)rte_pktmbuf_append(m, FRAME) : NULL;

	CHECK(f != NULL);
	make_frame(f, 0x88b5, 0);
	if (hk_port_tx(port, 0, &m, 1) == 0)
		rte_pktmbuf_free(m);
	else
		me->sent++;
}

static struct hk_port *open_shared(unsigned sharers)
{
	struct hk_eal_config eal = {.role = HK_EAL_ALONE};
	struct hk_port *port;

	CHECK_OK(hk_port_spec_eal(SPEC, &eal, ERR));
	CHECK_OK(hk_eal_init(&eal, ERR));
	CHECK_OK(hk_port_open_shared(SPEC, 512, NULL, sharers, WAIT_MS, &port, ERR));
	return port;
}

/* Receives frames for endpoint @i + 1. @holds: takes the queue's locks, as if it were at work. */
static void child(unsigned i, bool holds)
{
	struct child_state *me = &state[i];
	struct hk_port *port = open_shared(CHILDREN);

	CHECK_OK(hk_port_claim(port, JOB, i + 1, ERR));
	struct hk_xsk *x = ((struct hk_port_impl *)port)->xsk;
	const struct child_state *last = &state[CHILDREN - 1];

	me->slot = x->slot;
	if (holds)
		x->shared->fill_lock = x->shared->completion_lock = x->slot;
	me->ready = 1;
	while (!me->stop) {
		me->freed = x->shared->fill_lock != last->slot &&
			    x->shared->completion_lock != last->slot;
		count_frames(port, me, i + 1);
		if (me->sent < me->send)
			send_frames(port, me);
	}
	hk_port_close(port);
	_exit(0);
}

static void start(unsigned n, bool last_holds)
{
	memset(state, 0, CHILDREN * sizeof(*state));
	for (unsigned i = 0; i < n; i++) {
		pid[i] = child_fork();
		if (pid[i] == 0)
			child(i, last_holds && i == n - 1);
	}
	for (unsigned i = 0; i < n; i++)
		AWAIT(WAIT_MS, state[i].ready, pause_1ms());
}

static void stop(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		state[i].stop = 1;
	for (unsigned i = 0; i < n; i++)
		child_ends_well(pid[i]);
}

/* Sends @count frames to each of the first @n children, and waits until they have them. */
static void feed(unsigned n, unsigned count)
{
	unsigned before[CHILDREN];

	for (unsigned i = 0; i < n; i++)
		before[i] = state[i].received;
	for (unsigned k = 1; k <= count; k++)
		for (unsigned i = 0; i < n; i++) {
			send_frame(0x88b5, i + 1);
			AWAIT(WAIT_MS, before[i] + k - state[i].received < WAITING, sched_yield());
		}
	for (unsigned i = 0; i < n; i++) {
		AWAIT(WAIT_MS, state[i].received == before[i] + count, sched_yield());
		CHECK_EQ(state[i].wrong, 0);
	}
}

static bool program_is_there(void)
{
	return system("ip -d link show nic0 | grep -q 'prog/xdp'") == 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(each_process_gets_the_frames_for_it)
{
	start(CHILDREN, false);
	feed(CHILDREN, 5000);
	send_frame(0x88b5, CHILDREN + 1); /* nobody's */
	feed(CHILDREN, 1);
	for (unsigned i = 0; i < CHILDREN; i++)
		state[i].send = 5000; /* more than all chunks of the queue: they come back */
	for (unsigned i = 0; i < CHILDREN; i++)
		AWAIT(WAIT_MS, state[i].sent == 5000, pause_1ms());
	stop(CHILDREN);
	AWAIT(WAIT_MS, !program_is_there(), pause_1ms());
}

/* Without the helper, which breaks the locks of a client that is gone, nobody could fill the ring
 * of free chunks again. */
TEST(a_killed_process_holds_nobody_up)
{
	start(CHILDREN, true);
	AWAIT(WAIT_MS, !state[0].freed, pause_1ms());
	child_kill(pid[CHILDREN - 1]);
	/* until then, frames that come while the fill ring is empty are lost */
	AWAIT(WAIT_MS, state[0].freed, pause_1ms());
	feed(CHILDREN - 1, 3 * HK_XSK_FILL);
	for (unsigned i = 0; i < CHILDREN - 1; i++)
		state[i].send = 2 * HK_XSK_FILL;
	for (unsigned i = 0; i < CHILDREN - 1; i++)
		AWAIT(WAIT_MS, state[i].sent == 2 * HK_XSK_FILL, pause_1ms());
	stop(CHILDREN - 1);
}

/* Frames of a process that does not poll wait in its ring; the others get theirs. */
TEST(a_process_that_does_not_poll_holds_nobody_up)
{
	start(2, false);
	CHECK_EQ(kill(pid[1], SIGSTOP), 0);
	for (unsigned k = 0; k < 2 * HK_XSK_FILL; k++)
		send_frame(0x88b5, 2);
	feed(1, 2 * HK_XSK_FILL);
	CHECK_EQ(kill(pid[1], SIGCONT), 0);
	AWAIT(WAIT_MS, state[1].received >= HK_XSK_RX_SHARED, pause_1ms());
	stop(2);
}

/* A UDP socket of the kernel on nic0 receives what is sent to it, while a port is open. */
TEST(the_kernel_keeps_its_own_frames)
{
	struct sockaddr_in at = {.sin_family = AF_INET,
				 .sin_port = htons(4444),
				 .sin_addr = {inet_addr("10.9.9.1")}};
	static const uint8_t ip[] = {0x45, 0,    0, 32, 0, 0,  0,   0,   64,  17,   0x54,
				     0xb9, 10,   9, 9,  2, 10, 9,   9,   1,   0x11, 0x5c,
				     0x11, 0x5c, 0, 12, 0, 0,  'k', 'e', 'e', 'p'};
	uint8_t f[FRAME];
	char got[16];
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	CHECK_EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	make_frame(f, 0x0800, 0);
	memcpy(f + 14, ip, sizeof(ip));
	start(1, false);
	feed(1, 100);
	CHECK_EQ(send(far_end, f, 14 + sizeof(ip), 0), (ssize_t)(14 + sizeof(ip)));
	CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
	CHECK_EQ(recv(fd, got, sizeof(got), 0), 4);
	CHECK_EQ(memcmp(got, "keep", 4), 0);
	CHECK_EQ(state[0].wrong, 0);
	stop(1);
	close(fd);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(const char *spec, unsigned sharers, int rc, const char *says)
{
	struct hk_error err = {""};
	struct hk_port *port;
	int got = hk_port_open_shared(spec, 64, NULL, sharers, 200, &port, &err);

	CHECK_MSG(got == rc, "%s: %d: %s", spec, got, err.text);
	CHECK_HAS(err.text, says, "fix: ");
}

/* A UDP socket would need an IP address, and would not receive all frames. */
static void udp_is_no_fix(const char *spec, unsigned sharers)
{
	struct hk_error err = {""};
	struct hk_port *port;

	CHECK_EQ(hk_port_open_shared(spec, 64, NULL, sharers, 200, &port, &err), -EBUSY);
	CHECK_MSG(strstr(err.text, "udp:") == NULL, "%s", err.text);
}

static void eal(void)
{
	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.role = HK_EAL_ALONE, .sockets = 1}, ERR));
}

TEST(who_cannot_join)
{
	eal();
	start(CHILDREN, false); /* as many as the memory suffices for */
	refused(SPEC, CHILDREN, -EBUSY, "another process (");
	refused(SPEC, CHILDREN, -EBUSY, "of its own, or use udp:addr=nic0");
	refused(SPEC ",take=all", 1, -EBUSY, "uses queue 0 of nic0");
	udp_is_no_fix(SPEC ",take=all", 1);
	shell("ip address flush dev nic0");
	udp_is_no_fix(SPEC, CHILDREN);
	refused(SPEC ",queue=63", 1, -EINVAL, "no queue 63");
	stop(CHILDREN);
}

static void as_nobody(void (*fn)(void))
{
	pid_t p = child_fork();

	if (p == 0) {
		CHECK_EQ(setresuid(NOBODY, NOBODY, NOBODY), 0);
		fn();
		_exit(0);
	}
	child_ends_well(p);
}

static void is_refused(void)
{
	eal();
	refused(SPEC, 1, -EACCES, "cannot be read");
}

static void has_no_rights(void)
{
	eal();
	refused(SPEC, 1, -EPERM, "no permission");
}

static void works(void)
{
	hk_port_close(open_shared(1));
	refused(SPEC ",take=all", 1, -EPERM, "only root may take all frames of nic0");
}

/* Connects to the helper that is there, and starts none. */
static bool helper_is_there(int *fd)
{
	struct sockaddr_un at;
	socklen_t len = hk_helper_address(&at);

	*fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(*fd, (struct sockaddr *)&at, len) == 0)
		return true;
	close(*fd);
	return false;
}

/* Starts one that has the policy @policy, and stays. Returns with @fd connected to it. */
static pid_t start_helper(const char *policy, int *fd)
{
	AWAIT(WAIT_MS, !helper_is_there(fd), close(*fd); pause_1ms());
	pid_t p = child_fork();

	if (p == 0) {
		execl(HELPER_PROGRAM, "hikyaku-helper", "--policy", policy, NULL);
		_exit(1);
	}
	AWAIT(WAIT_MS, helper_is_there(fd), pause_1ms());
	return p;
}

static int connect_or_start(void)
{
	struct hk_error err;

	return hk_helper_connect("test", hk_clock_ms() + WAIT_MS, &err);
}

/* The helper of root lets another user in if the operator's file does. Such a user has no rights.
 */
TEST(another_user)
{
	char dir[TMP_PATH], file[TMP_PATH + 16];

	tmp_dir(dir);
	CHECK_EQ(chmod(dir, 0755), 0);
	snprintf(file, sizeof(file), "%s/interfaces", dir);
	int fd;

	AWAIT(WAIT_MS, !helper_is_there(&fd), close(fd); pause_1ms());
	as_nobody(has_no_rights);
	pid_t helper = start_helper(file, &fd);

	as_nobody(is_refused);
	FILE *f = fopen(file, "w");

	CHECK(f != NULL && fputs("nic0 nobody\n", f) >= 0 && fclose(f) == 0);
	as_nobody(works);
	CHECK_EQ(kill(helper, SIGTERM), 0);
	child_ends_well(helper);
	close(fd);
	(void)remove(file);
	tmp_gone(dir);
}

/* ---- hostile clients ------------------------------------------------------------------------- */

static int answer_to(int fd, const void *request, size_t len)
{
	struct hk_helper_reply reply;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	CHECK_EQ(send(fd, request, len, MSG_NOSIGNAL), (ssize_t)len);
	CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
	CHECK_EQ(recv(fd, &reply, sizeof(reply), 0), (ssize_t)sizeof(reply));
	return reply.rc;
}

TEST(wrong_requests)
{
	struct hk_helper_request good = {
		.version = HK_HELPER_VERSION, .op = HK_HELPER_OPEN, .iface = "nic0", .sharers = 1};
	struct hk_helper_request r;
	char bytes[4096];
	int fd = connect_or_start();

	CHECK(fd >= 0);
	memset(bytes, 0x5a, sizeof(bytes));
	CHECK_EQ(answer_to(fd, bytes, 1), -EPROTO);
	CHECK_EQ(answer_to(fd, bytes, sizeof(bytes)), -EPROTO);
	CHECK_EQ(answer_to(fd, bytes, sizeof(r)), -EPROTO);
#define WRONG(...)                                                                                 \
	do {                                                                                       \
		r = good;                                                                          \
		__VA_ARGS__;                                                                       \
		CHECK(answer_to(fd, &r, sizeof(r)) < 0);                                           \
	} while (0)
	WRONG(r.version++);
	WRONG(r.op = 77);
	WRONG(r.op = HK_HELPER_CLAIM);
	WRONG(r.iface[0] = '\0');
	WRONG(memset(r.iface, 'x', sizeof(r.iface)));
	WRONG(r.queue = 64);
	WRONG(r.queue = UINT32_MAX);
	WRONG(r.sharers = 0);
	WRONG(r.sharers = UINT32_MAX);
	WRONG(r.take = 3);
	for (unsigned i = 0; i < 2000; i++) { /* anything else */
		for (size_t k = 0; k < sizeof(r); k++)
			((uint8_t *)&r)[k] = (uint8_t)hk_rng_next(&hk_test_rng);
		r.version = HK_HELPER_VERSION;
		r.op = 1 + (uint32_t)hk_rng_range(&hk_test_rng, 0, 2);
		CHECK(answer_to(fd, &r, sizeof(r)) < 0);
	}
	/* the same helper still serves */
	CHECK_EQ(answer_to(fd, &good, sizeof(good)), 0);
	CHECK(answer_to(fd, &good, sizeof(good)) < 0); /* one socket a connection */
	close(fd);
}

BEFORE_ALL()
{
	net_wire();
	state = mmap(NULL, CHILDREN * sizeof(*state), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(state != MAP_FAILED);
	far_end = net_packet_socket("far0");
}
