/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_ip6.c: workers on UDP sockets of IPv6, which are known to each other by
 * struct hk_peer_addr alone.
 */
#include "hikyaku/worker.h"
#include "base/clock.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <string.h>

#define LIMIT_MS 20000

static char heard[16];

static void on_message(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov,
		       unsigned count)
{
	(void)arg, (void)peer, (void)am, (void)count;
	snprintf(heard, sizeof(heard), "%.*s", (int)iov[0].len, (const char *)iov[0].base);
}

static struct hk_worker *open_worker(uint32_t endpoint, const char *spec)
{
	struct hk_worker_config cfg;
	struct hk_worker *w;

	hk_worker_config_default(&cfg);
	cfg.engine.key = 1;
	cfg.engine.endpoint = endpoint;
	cfg.engine.epoch = 1;
	cfg.tx_buffers = cfg.rx_backlog = 64;
	cfg.frame_max = 1500;
	CHECK_OK(hk_worker_open_port_spec(&cfg, spec, 0, &w, ERR));
	hk_worker_set_am(w, 0, on_message, NULL);
	return w;
}

/* The address of @w, as it would tell it to others. */
static struct hk_peer_addr address_of(const struct hk_worker *w, const char *name)
{
	struct hk_peer_addr addr;

	CHECK_EQ(hk_worker_address(w, 0, &addr), 0);
	addr.name = name;
	return addr;
}

static void say(struct hk_worker *from, hk_peer to, struct hk_worker *receiver, const char *text)
{
	int64_t end = hk_clock_ms() + LIMIT_MS;

	heard[0] = '\0';
	CHECK(hk_worker_send_short(from, to, 0, NULL, 0, text, strlen(text)) >= 0);
	while (strcmp(heard, text) != 0) {
		hk_worker_progress(from);
		hk_worker_progress(receiver);
		CHECK(hk_clock_ms() < end);
	}
}

TEST(two_workers_exchange_messages)
{
	struct hk_worker *a = open_worker(1, "udp:addr=::1,ip=6"),
			 *b = open_worker(2, "udp:addr=::1,ip=6");
	struct hk_peer_addr to_b = address_of(b, "b"), to_a = address_of(a, "a");
	hk_peer at_a, at_b;

	CHECK_OK(hk_worker_peer_add(a, &to_b, &at_a, ERR));
	CHECK_OK(hk_worker_peer_add(b, &to_a, &at_b, ERR));
	say(a, at_a, b, "there");
	say(b, at_b, a, "and back");
	CHECK_EQ(hk_worker_close(a, 1000), 0);
	CHECK_EQ(hk_worker_close(b, 1000), 0);
}

TEST(ports_of_two_kinds_do_not_reach_each_other)
{
	struct hk_worker *six = open_worker(1, "udp:addr=::1,ip=6"),
			 *four = open_worker(2, "udp:addr=127.0.0.1");
	struct hk_peer_addr to_four = address_of(four, "four"), to_six = address_of(six, "six");
	hk_peer peer;

	CHECK_REFUSED(hk_worker_peer_add(six, &to_four, &peer, ERR), -EAFNOSUPPORT, "is of IPv6",
		      "fix: add ip=4 or ip=6");
	CHECK_REFUSED(hk_worker_peer_add(four, &to_six, &peer, ERR), -EAFNOSUPPORT, "is of IPv4");
	hk_worker_close(six, 0);
	hk_worker_close(four, 0);
}
