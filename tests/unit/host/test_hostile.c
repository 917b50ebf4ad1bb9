/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_hostile.c: a process of our own user that says anything at all to a running
 * hikyakud. It must go on serving, and give back all that was taken.
 */
#include "tests/unit/host/rig.h"

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
		type = HK_CTL_GOODBYE;
	if (type == HK_CTL_HELLO) {
		rig_hello(&m, 1 + (uint32_t)hk_rng_below(r, 3));
		m.hello.endpoint = (uint32_t)hk_rng_below(r, 6);
	} else {
		hk_ctl_init(&m, type, 1, type == HK_CTL_WIRES ? (unsigned)hk_rng_below(r, 3) : 0);
		if (type == HK_CTL_READY)
			m.ready.fabric = FAKE_ADDRESS + 64 * hk_rng_below(r, 1 << 16);
		m.wires.timeout_ms = type == HK_CTL_WIRES ? 5 : m.wires.timeout_ms;
		for (unsigned i = 0; type == HK_CTL_WIRES && i < m.wires.count; i++)
			m.wires.node[i] = (struct hk_ctl_node){1 + hk_rng_below(r, 400), 1, 0};
	}
	size_t len = m.hdr.len;
	memcpy(out, &m, len);
	if (hk_rng_chance(r, 300000))
		for (uint64_t n = hk_rng_below(r, 4); n; n--)
			out[hk_rng_below(r, len)] = (uint8_t)hk_rng_next(r);
	/* but do not ask it to stop */
	if (len >= 8 && out[6] == HK_CTL_STOP && out[7] == 0)
		out[6] = HK_CTL_STATUS;
	return hk_rng_chance(r, 50000) ? hk_rng_below(r, len + 1) : len;
}

static void talks_nonsense(void)
{
	static uint8_t buf[sizeof(union hk_ctl_msg) + 16];
	static char sink[sizeof(union hk_ctl_msg)];
	int fd[CONNS];
	struct hk_error err = {""};

	rig_up();
	CHECK(rig_daemon("default", NULL, "--port", rig_port, "--slots", "3"));
	struct hk_host *good = rig_attach(0x99, 0, 1);
	struct fake_memory *mem = fake_map(hk_host_lease(good)->shared, false);
	struct fake_fabric *f = &mem->fabric[hk_host_lease(good)->slot];
	CHECK_MSG(hk_host_ready(good, f, RIG_WAIT_MS, &err) == 0, "%s", err.text);
	pid_t pid = rig_daemon_pid("default");
	pid_t noise = fork();
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
			/* mostly it reads its answers */
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
	rig_reap(noise);
	/* the same daemon, and the slots are back but ours */
	CHECK_EQ(rig_daemon_pid("default"), pid);
	for (unsigned i = 0; i < 3; i++)
		if (i != hk_host_lease(good)->slot)
			RIG_WAIT(atomic_load(&mem->given[i]) == 0);
	uint64_t before = atomic_load(&f->served);
	RIG_WAIT(atomic_load(&f->served) > before);
	CHECK_MSG(hk_host_goodbye(good, RIG_WAIT_MS, &err) == 0, "%s", err.text);
	hk_host_close(good);
	rig_stop("default");
	rig_all_gone();
}

/* Connections that say nothing are bounded, and a rank gets in when they are gone. */
static void says_nothing(void)
{
	int fd[400];
	unsigned n = 0;
	union hk_ctl_msg m;

	rig_up();
	CHECK(rig_daemon("default", NULL, "--port", rig_port));
	for (; n < 400; n++) {
		fd[n] = rig_connect("default");
		CHECK(fd[n] >= 0);
		/* those that are too many are told so */
		if (n >= 144) {
			CHECK_EQ(hk_ctl_recv(fd[n], &m, hk_ctl_now_ms() + RIG_WAIT_MS, NULL),
				 HK_CTL_ERROR);
			CHECK_EQ(m.error.code, -EUSERS);
			break;
		}
	}
	CHECK(n < 400);
	for (unsigned i = 0; i <= n; i++)
		close(fd[i]);
	RIG_WAIT(rig_status("default") != NULL);
	hk_host_close(rig_attach(0x98, 0, 1));
	rig_stop("default");
	rig_all_gone();
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"talks_nonsense", talks_nonsense},
		{"says_nothing", says_nothing},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
