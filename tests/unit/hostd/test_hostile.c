/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_hostile.c: a process of the same user sends random messages to a running
 * hikyakud. The daemon must run on, and its slots must become free again.
 */
#include "tests/unit/hostd/rig.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNS  24
#define ROUNDS 6000

static size_t anything(struct hk_rng *r, uint8_t *out)
{
	union hk_ctl_msg m;
	unsigned type = (unsigned)hk_rng_range(r, 1, HK_CTL_TYPES - 1);

	if (type == HK_CTL_STOP)
		type = HK_CTL_LEAVE;
	if (type == HK_CTL_HELLO) {
		rig_hello(&m, 1 + (uint32_t)hk_rng_below(r, 3));
		m.hello.endpoint = (uint32_t)hk_rng_below(r, 6);
	} else {
		hk_ctl_init(&m, type, 1, type == HK_CTL_WIRES ? (unsigned)hk_rng_below(r, 3) : 0);
		if (type == HK_CTL_READY)
			m.ready.worker = FAKE_ADDRESS + 64 * hk_rng_below(r, 1 << 16);
		m.wires.timeout_ms = type == HK_CTL_WIRES ? 5 : m.wires.timeout_ms;
		for (unsigned i = 0; type == HK_CTL_WIRES && i < m.wires.count; i++)
			m.wires.node[i] = (struct hk_ctl_node){1 + hk_rng_below(r, 400), 1, 0};
	}
	size_t len = m.hdr.len;
	memcpy(out, &m, len);
	if (hk_rng_chance(r, 300000))
		for (uint64_t n = hk_rng_below(r, 4); n; n--)
			out[hk_rng_below(r, len)] = (uint8_t)hk_rng_next(r);
	/* but not STOP */
	if (len >= 8 && out[6] == HK_CTL_STOP && out[7] == 0)
		out[6] = HK_CTL_STATUS;
	return hk_rng_chance(r, 50000) ? hk_rng_below(r, len + 1) : len;
}

TEST(talks_nonsense)
{
	static uint8_t buf[sizeof(union hk_ctl_msg) + 16];
	static char sink[sizeof(union hk_ctl_msg)];
	int fd[CONNS];

	CHECK(rig_daemon("default", NULL, "--port", rig_port, "--slots", "3"));
	struct hk_hostd_client *good = rig_attach(0x99, 0, 1);
	struct fake_memory *mem = rig_memory(hk_hostd_client_lease(good));
	struct fake_worker *f = &mem->worker[hk_hostd_client_lease(good)->slot];
	CHECK_OK(hk_hostd_client_ready(good, f, RIG_WAIT_MS, ERR));
	pid_t pid = rig_daemon_pid("default");
	pid_t noise = child_fork();
	if (noise == 0) {
		memset(fd, -1, sizeof(fd));
		for (unsigned i = 0; i < ROUNDS; i++) {
			unsigned c = (unsigned)hk_rng_below(&hk_test_rng, CONNS);
			if (fd[c] < 0) {
				fd[c] = rig_connect("default");
				CHECK(fd[c] >= 0);
			}
			size_t len = anything(&hk_test_rng, buf);
			ssize_t n = send(fd[c], buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
			/* usually it reads its answers */
			while (n >= 0 && !hk_rng_chance(&hk_test_rng, 200000) &&
			       recv(fd[c], sink, sizeof(sink), MSG_DONTWAIT) > 0)
				;
			if (n < 0 || hk_rng_chance(&hk_test_rng, 100000)) {
				close(fd[c]);
				fd[c] = -1;
			}
		}
		_exit(0);
	}
	child_ends_well(noise);
	/* the same daemon runs, and all slots except ours are free */
	CHECK_EQ(rig_daemon_pid("default"), pid);
	for (unsigned i = 0; i < 3; i++)
		if (i != hk_hostd_client_lease(good)->slot)
			RIG_WAIT(atomic_load(&mem->given[i]) == 0);
	uint64_t before = atomic_load(&f->polls);
	RIG_WAIT(atomic_load(&f->polls) > before);
	rig_leave(good);
	rig_stop("default");
}

/* The number of silent connections is limited. A rank can attach when they are closed. */
TEST(says_nothing)
{
	int fd[400];
	unsigned n = 0;
	union hk_ctl_msg m;

	CHECK(rig_daemon("default", NULL, "--port", rig_port));
	for (; n < 400; n++) {
		fd[n] = rig_connect("default");
		CHECK(fd[n] >= 0);
		/* further ones get an error */
		if (n >= 144) {
			CHECK_EQ(hk_ctl_recv(fd[n], &m, hk_clock_ms() + RIG_WAIT_MS, NULL),
				 HK_CTL_ERROR);
			CHECK_EQ(m.error.code, -EUSERS);
			break;
		}
	}
	CHECK(n < 400);
	for (unsigned i = 0; i <= n; i++)
		close(fd[i]);
	RIG_WAIT(rig_status("default") != NULL);
	hk_hostd_client_close(rig_attach(0x98, 0, 1));
	rig_stop("default");
}
