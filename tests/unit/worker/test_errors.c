/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_errors.c: mistakes in the configuration of a worker. The errors name the
 * fields of the configuration, and no parameter of Open MPI.
 */
#include "tests/support/pair.h"

static int add(uint32_t endpoint, uint32_t epoch)
{
	struct hk_peer_addr addr = {
		.endpoint = endpoint, .epoch = epoch, .frame_max = 9216, .name = "a third"};
	hk_peer p;

	return hk_worker_peer_add(end[A].w, &addr, &p, ERR);
}

TEST(addresses)
{
	open_both();
	CHECK_REFUSED(add(1, 100), -EINVAL, "a third", "endpoint 0x1 is this worker's own",
		      "fix: give each worker of the job its own cfg.engine.endpoint");
	CHECK_REFUSED(add(9, 0), -EINVAL, "a third", "epoch is 0", "fix: set its cfg.engine.epoch");
	for (uint32_t other = 3; other < 6; other++)
		CHECK_OK(add(other, 1));
	CHECK_REFUSED(add(7, 1), -ENOSPC, "the table of 4 peers is full",
		      "fix: raise cfg.engine.max_peers");
	close_both();
}

/* One field of the engine is wrong. */
static int open_engine(void (*change)(struct hk_engine_config *))
{
	struct hk_worker_config cfg;
	struct hk_worker *w;

	hk_worker_config_default(&cfg);
	cfg.engine.endpoint = cfg.engine.epoch = 1;
	change(&cfg.engine);
	return hk_worker_open(&cfg, &w, ERR);
}

static void no_epoch(struct hk_engine_config *c)
{
	c->epoch = 0;
}

static void odd_window(struct hk_engine_config *c)
{
	c->window = 9;
}

static void no_peers(struct hk_engine_config *c)
{
	c->max_peers = 0;
}

static void no_timeout(struct hk_engine_config *c)
{
	c->peer_timeout = 0;
}

TEST(fields_of_the_engine)
{
	CHECK_REFUSED(open_engine(no_epoch), -EINVAL, "cfg.engine.epoch is 0", "fix: set it");
	CHECK_REFUSED(open_engine(odd_window), -EINVAL, "window 9", "cfg.engine.window must be");
	CHECK_REFUSED(open_engine(no_peers), -EINVAL, "max_peers 0", "cfg.engine.max_peers must");
	CHECK_REFUSED(open_engine(no_timeout), -EINVAL, "a field of cfg.engine",
		      "fix: start from hk_worker_config_default()");
}

static int open_with(unsigned frame_max)
{
	struct hk_worker_config cfg;
	struct hk_worker *w;

	hk_worker_config_default(&cfg);
	cfg.engine.key = cfg.engine.endpoint = cfg.engine.epoch = 1;
	cfg.engine.max_peers = 4;
	cfg.frame_max = frame_max;
	return hk_worker_open(&cfg, &w, ERR);
}

TEST(sizes)
{
	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = 256}, ERR));
	CHECK_REFUSED(open_with(100), -EMSGSIZE, "frames of 100 bytes are too small",
		      "fix: cfg.frame_max of 0 or at least ");
}

static void send_from(struct end *e)
{
	hk_buf *b = hk_worker_alloc(e->w);

	CHECK(b != NULL);
	CHECK(hk_worker_send(e->w, e->peer, AM, b, 1) >= 0);
}

/* Each end drops the other's frames, so both are silent for each other. */
static void both_drop(const char *cause)
{
	peer_timeout = 300 * HK_MSEC;
	open_both();
	send_from(&end[A]);
	send_from(&end[B]);
	UNTIL(end[A].lost == 1 && end[B].lost == 1);
	CHECK_HAS(lost_text, "the other end has not answered for 0.3 s, and ", cause);
	close_both();
	peer_timeout = 0;
}

TEST(different_keys_are_told)
{
	key_of_b = 2;
	both_drop(" frames with another key came: those of one job need the same cfg.engine.key");
	key_of_b = 1;
}

/* The process that hears of it first ends. The other one then has no link either. */
TEST(a_different_key_is_told_also_by_the_second)
{
	int rounds = 0;

	key_of_b = 2;
	peer_timeout = 300 * HK_MSEC;
	open_both();
	send_from(&end[A]);
	send_from(&end[B]);
	for (int i = 0; i < 1000; i++)
		progress(); /* each end gets the other's frame */
	while (end[B].lost == 0 && rounds++ < ROUNDS)
		hk_worker_progress(end[B].w);
	hk_worker_close(end[B].w, 0);
	while (end[A].lost == 0 && rounds++ < ROUNDS)
		hk_worker_progress(end[A].w);
	CHECK_HAS(lost_text, "has no link, and ", " frames with another key came");
	hk_worker_close(end[A].w, 0);
	tmp_gone(dir);
	peer_timeout = 0;
	key_of_b = 1;
}

TEST(different_protections_are_told)
{
	with_protection = HK_PROTECTION_AUTH;
	b_seals = true;
	both_drop(" frames with another protection came: those of one job need the same "
		  "cfg.engine.protection");
	with_protection = HK_PROTECTION_OFF;
	b_seals = false;
}

TEST(different_job_keys_are_told)
{
	static const uint8_t key[2][HK_KEY_LEN] = {{1}, {2}};

	with_protection = HK_PROTECTION_AUTH;
	job_key[A] = key[A];
	job_key[B] = key[B];
	both_drop(" frames with a wrong tag came: those of one job need the same cfg.engine.key "
		  "and cfg.job_key");
	job_key[A] = job_key[B] = NULL;
	with_protection = HK_PROTECTION_OFF;
}
