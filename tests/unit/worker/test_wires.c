/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_wires.c: two workers that open several wires to each other, step by step.
 */
#include "worker/wires.h"

#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <stdio.h>

#define AM     7
#define SETS   2
#define ROUNDS 1000

struct end {
	struct hk_worker *w;
	struct hk_wires wires;
	struct hk_wires_peer other;
	hk_peer peer, from;
	unsigned messages;
};

static char dir[SETS][TMP_PATH];
static struct end server, client;

static void on_message(void *arg, hk_peer peer, uint8_t am, const struct hk_iov *iov, unsigned n)
{
	struct end *e = arg;

	e->messages++;
	e->from = peer;
}

static void open_end(struct end *e, uint32_t self, uint32_t other)
{
	struct hk_worker_config cfg;

	hk_worker_config_default(&cfg);
	cfg.engine.endpoint = self;
	cfg.engine.epoch = 1;
	cfg.engine.max_peers = 4;
	cfg.frame_max = HK_WIRE_SET_FRAME_MAX;
	CHECK_OK(hk_worker_open(&cfg, &e->w, ERR));
	hk_worker_set_am(e->w, AM, on_message, e);
	e->wires = (struct hk_wires){.worker = e->w,
				     .count = SETS,
				     .endpoint = self,
				     .buffers = 512,
				     .timeout_ms = 10000};
	for (unsigned i = 0; i < SETS; i++)
		snprintf(e->wires.spec[i], sizeof(e->wires.spec[i]), "memif:dir=%s", dir[i]);
	e->other = (struct hk_wires_peer){.endpoint = other, .count = SETS};
	CHECK_OK(hk_wires_begin(&e->wires, &e->other, ERR));
}

static void meet(struct end *e)
{
	struct hk_peer_addr addr = {.endpoint = e->other.endpoint,
				    .epoch = 1,
				    .port = (uint16_t)e->other.txq[0],
				    .frame_max = HK_WIRE_SET_FRAME_MAX,
				    .name = "the other end",
				    .more = 1};

	addr.path[0].port = (uint16_t)e->other.txq[1];
	addr.path[0].frame_max = HK_WIRE_SET_FRAME_MAX;
	CHECK_OK(hk_worker_peer_add(e->w, &addr, &e->peer, ERR));
}

static void progress(unsigned rounds)
{
	while (rounds--) {
		hk_worker_progress(server.w);
		hk_worker_progress(client.w);
	}
}

/* The client finds the second wire after the server has looked at the first one, and sends. The
 * server's caller adds the peer after the last step. Until then it gets no message, which would be
 * one of a stranger. */
TEST(a_peer_with_some_of_its_wires_sends_nothing)
{
	char away[TMP_PATH + 8];

	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = 256}, ERR));
	for (unsigned i = 0; i < SETS; i++)
		tmp_dir(dir[i]);
	snprintf(away, sizeof(away), "%s-away", dir[1]);
	open_end(&server, 1, 2);
	open_end(&client, 2, 1);
	CHECK_EQ(rename(dir[1], away), 0);
	CHECK_EQ(hk_wires_step(&client.wires, &client.other, ERR), 0);
	CHECK_EQ(hk_wires_step(&server.wires, &server.other, ERR), 0);
	CHECK_EQ(rename(away, dir[1]), 0);
	CHECK_EQ(hk_wires_step(&client.wires, &client.other, ERR), 1);
	meet(&client);
	hk_buf *b = hk_worker_alloc(client.w);

	CHECK(b && hk_worker_send(client.w, client.peer, AM, b, 0) >= 0);
	progress(ROUNDS);
	CHECK_EQ(server.messages, 0);
	CHECK_EQ(hk_wires_step(&server.wires, &server.other, ERR), 1);
	meet(&server);
	for (unsigned i = 0; i < ROUNDS * ROUNDS && !server.messages; i++)
		progress(1);
	CHECK_EQ(server.messages, 1);
	CHECK_EQ(server.from, server.peer);
	hk_worker_close(client.w, 0);
	hk_worker_close(server.w, 0);
	hk_wires_end(&client.wires);
	hk_wires_end(&server.wires);
	for (unsigned i = 0; i < SETS; i++)
		tmp_gone(dir[i]);
}
