/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/devmem/nic/test_nics.c: two NICs and the host in one thread. The tests show which
 * region holds which bytes in each variant. A peer or the host writes nonsense, or dies.
 */
#include "devmem/nic/nic.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

#define FRAMES 5000
#define ROUNDS 100000 /* far more than FRAMES need */

static char dir[TMP_PATH], routes[TMP_PATH + 16];
static struct hk_nic *nic[2];
static struct hk_nic_server_region host;
static struct hk_nic_options options[2];
static bool single; /* whether start() makes loads of single frames */

static void start(enum hk_nic_variant v)
{
	static const char text[] = "port 0 mac 02:00:00:00:00:01\nport 1 mac 02:00:00:00:00:02\n"
				   "neighbour 198.18.1.2 port 1 mac 02:00:00:00:01:99\n"
				   "route 10.0.0.0/16 via 198.18.1.2 port 1\n";

	tmp_dir(dir);
	snprintf(routes, sizeof(routes), "%s/routes", dir);
	FILE *f = fopen(routes, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
	for (unsigned i = 0; i < 2; i++) {
		options[i] = (struct hk_nic_options){.variant = v,
						     .id = i,
						     .nics = 2,
						     .dir = dir,
						     .routes = routes,
						     .wait_ms = 1000,
						     .wire.networks = 1};
		options[i].wire.single = single;
		options[i].wire.frames = i == 0 ? FRAMES : 0;
		options[i].wire.expect = i == 1 ? FRAMES : 0;
		CHECK_OK(hk_nic_open(&options[i], &nic[i], ERR));
	}
	if (v == HK_NIC_PKTPIT)
		CHECK_OK(hk_nic_server_open(&options[0], &host, ERR));
	for (unsigned i = 0; i < 2; i++)
		CHECK_OK(hk_nic_join(nic[i], ERR));
	if (v == HK_NIC_PKTPIT)
		CHECK_OK(hk_nic_server_join(&options[0], &host, ERR));
}

static void end(void)
{
	for (unsigned i = 0; i < 2; i++)
		hk_nic_close(nic[i]);
	if (host.fib)
		hk_nic_server_close(&host);
	tmp_remove(dir);
}

static void run(void)
{
	unsigned rounds = 0;

	while (!hk_nic_done(nic[0]) || !hk_nic_done(nic[1])) {
		CHECK_MSG(++rounds < ROUNDS, "%" PRIu64 " frames have come", nic[1]->wire.taken);
		for (unsigned i = 0; i < 2; i++)
			CHECK_CMP(hk_nic_round(nic[i], ERR), >=, 0);
		if (host.fib)
			CHECK_CMP(hk_nic_serve(&host.server), >=, 0);
	}
}

static uint64_t bytes(const struct hk_nic_transfers *t, unsigned region, enum hk_nic_what what,
		      enum hk_nic_way way)
{
	return t->of[region][what][way].bytes;
}

/* The frames' bytes are in this region, once, and in no other. */
static void check_payload(unsigned region)
{
	for (unsigned r = 0; r < HK_NIC_REGIONS; r++) {
		uint64_t want = r == region ? FRAMES * HK_LOAD_FRAME : 0;
		CHECK_EQ(bytes(&nic[0]->transfers, r, HK_NIC_PAYLOAD, HK_NIC_WRITE), want);
		CHECK_EQ(bytes(&nic[1]->transfers, r, HK_NIC_PAYLOAD, HK_NIC_READ), want);
		CHECK_EQ(bytes(&nic[1]->transfers, r, HK_NIC_PAYLOAD, HK_NIC_WRITE), 0);
		CHECK_EQ(bytes(&nic[0]->transfers, r, HK_NIC_PAYLOAD, HK_NIC_READ), 0);
	}
	CHECK_EQ(bytes(&nic[0]->transfers, 1, HK_NIC_DESCRIPTOR, HK_NIC_WRITE), FRAMES * 8);
	CHECK_EQ(bytes(&nic[1]->transfers, 1, HK_NIC_DESCRIPTOR, HK_NIC_READ), FRAMES * 8);
	CHECK_EQ(nic[0]->forward.port[0].count.result[HK_RESULT_FORWARD], FRAMES);
	CHECK_EQ(nic[1]->wire.taken, FRAMES);
}

/* The last frame as it left: next hop's and port's MAC address, TTL, checksum. */
static void check_last_frame(void)
{
	const uint8_t *f = nic[1]->wire.sink, *h = f + HK_ETHER_LEN;

	CHECK(memcmp(f, (uint8_t[]){2, 0, 0, 0, 1, 0x99, 2, 0, 0, 0, 0, 2}, 12) == 0);
	CHECK_EQ(h[8], 63);
	CHECK_EQ(hk_sum(h, HK_IP4_LEN, 0), 0xffff);
	CHECK_EQ(hk_be16(h + 18), (FRAMES - 1) % HK_LOAD_FRAMES * 13 & 0xffff);
}

TEST(wr_writes_frames_to_the_other_bar)
{
	start(HK_NIC_WR);
	run();
	check_payload(1);
	check_last_frame();
	end();
}

TEST(rd_keeps_frames_in_its_own_bar)
{
	start(HK_NIC_RD);
	run();
	check_payload(0);
	check_last_frame();
	end();
}

TEST(bn_writes_and_reads_main_memory)
{
	start(HK_NIC_BN);
	run();
	check_payload(HK_NIC_MAIN_OF(0));
	check_last_frame();
	end();
}

TEST(pktpit_sends_only_addresses_to_the_host)
{
	start(HK_NIC_PKTPIT);
	run();
	check_payload(1);
	check_last_frame();
	CHECK_EQ(bytes(&nic[0]->transfers, HK_NIC_HOST, HK_NIC_ADDRESS, HK_NIC_WRITE), FRAMES * 4);
	CHECK_EQ(bytes(&host.server.transfers, HK_NIC_HOST, HK_NIC_ADDRESS, HK_NIC_READ),
		 FRAMES * 4);
	CHECK_EQ(bytes(&host.server.transfers, 0, HK_NIC_HOP, HK_NIC_WRITE), FRAMES * 8);
	CHECK_EQ(host.server.lookups, FRAMES);
	end();
}

TEST(a_single_frame_leaves_before_the_next_one_comes)
{
	single = true;
	start(HK_NIC_PKTPIT);
	single = false;
	for (unsigned round = 0; !hk_nic_done(nic[0]); round++) {
		CHECK_CMP(round, <, ROUNDS);
		CHECK_CMP(hk_nic_round(nic[0], ERR), >=, 0);
		CHECK_CMP(nic[0]->wire.given - nic[1]->wire.taken, <=, 1);
		CHECK_CMP(hk_nic_serve(&host.server), >=, 0);
		CHECK_CMP(hk_nic_round(nic[1], ERR), >=, 0);
	}
	CHECK_EQ(nic[1]->wire.delays.count, FRAMES);
	end();
}

/* ---- nonsense -------------------------------------------------------------------------------- */

static struct hk_nic_bar *bar(unsigned i)
{
	return (struct hk_nic_bar *)nic[i]->bar.header;
}

TEST(a_wrong_descriptor_loses_its_frame_alone)
{
	start(HK_NIC_WR);
	CHECK_EQ(hk_nic_round(nic[0], ERR), HK_NIC_BURST);
	bar(1)->in[0].descriptor[5].length = UINT32_MAX;
	bar(1)->in[0].descriptor[9].offset = HK_NIC_WINDOW;
	CHECK_EQ(hk_nic_round(nic[1], ERR), HK_NIC_BURST);
	CHECK_EQ(nic[1]->link[0].bad_descriptors, 2);
	CHECK_EQ(nic[1]->wire.taken, HK_NIC_BURST - 2);
	CHECK_EQ(bar(0)->in[1].credit, HK_NIC_BURST);
	end();
}

TEST(an_impossible_doorbell_names_the_nic)
{
	start(HK_NIC_RD);
	bar(1)->in[0].doorbell = HK_NIC_RING + 1;
	CHECK_REFUSED(hk_nic_round(nic[1], ERR), -EPROTO, "NIC 0", "doorbell");
	bar(0)->in[1].credit = 1;
	CHECK_REFUSED(hk_nic_round(nic[0], ERR), -EPROTO, "NIC 1", "credit");
	end();
}

TEST(a_next_hop_without_a_port_is_no_route)
{
	start(HK_NIC_PKTPIT);
	CHECK_EQ(hk_nic_round(nic[0], ERR), HK_NIC_BURST);
	CHECK_EQ(hk_nic_serve(&host.server), HK_NIC_BURST);
	bar(0)->hops.cell[0][3] = hk_cell_make(HK_HOP_FORWARD, 2, NULL);
	bar(0)->hops.cell[0][7] = hk_cell_make(HK_HOP_KINDS, 1, NULL);
	bar(0)->hops.cell[0][8] = UINT64_MAX;
	CHECK_CMP(hk_nic_round(nic[0], ERR), >=, HK_NIC_BURST);
	CHECK_EQ(nic[0]->asker.bad_hops, 3);
	CHECK_EQ(nic[0]->forward.port[0].count.result[HK_RESULT_NO_ROUTE], 3);
	CHECK_EQ(nic[0]->forward.port[0].count.result[HK_RESULT_FORWARD], HK_NIC_BURST - 3);
	end();
}

TEST(impossible_doorbells_of_host_and_nic_end_the_other)
{
	start(HK_NIC_PKTPIT);
	CHECK_EQ(hk_nic_round(nic[0], ERR), HK_NIC_BURST);
	bar(0)->hops.doorbell[0] = HK_NIC_BURST + 1; /* more than it has asked for */
	CHECK_REFUSED(hk_nic_round(nic[0], ERR), -EPROTO, "the host");
	((struct hk_nic_host *)host.host.header)->from[1].doorbell[1] = HK_NIC_RING + 1;
	CHECK_EQ(hk_nic_serve(&host.server), -2);
	end();
}

/* ---- peers that end -------------------------------------------------------------------------- */

TEST(a_dead_peer_is_named)
{
	start(HK_NIC_WR);
	CHECK_OK(hk_nic_check_peers(nic[0], ERR));
	int fd = dup(nic[1]->bar.fd);
	CHECK(fd >= 0 && flock(fd, LOCK_UN) == 0); /* as when the process dies */
	CHECK_REFUSED(hk_nic_check_peers(nic[0], ERR), -EPIPE, "NIC 1 has died", "bar1");
	close(fd);
	end();
}

TEST(frames_to_a_peer_that_has_left_are_lost)
{
	start(HK_NIC_WR);
	CHECK_EQ(hk_nic_round(nic[0], ERR), HK_NIC_BURST);
	hk_nic_close(nic[1]);
	nic[1] = NULL;
	CHECK_OK(hk_nic_check_peers(nic[0], ERR));
	for (unsigned rounds = 0; !hk_nic_done(nic[0]); rounds++) {
		CHECK_CMP(rounds, <, ROUNDS);
		CHECK_CMP(hk_nic_round(nic[0], ERR), >=, 0);
	}
	CHECK_EQ(nic[0]->link[1].lost, FRAMES - HK_NIC_BURST);
	end();
}

TEST(a_host_that_ends_is_named)
{
	start(HK_NIC_PKTPIT);
	hk_nic_server_close(&host);
	CHECK_REFUSED(hk_nic_check_peers(nic[0], ERR), -EPIPE, "the host's process has ended");
	end();
}
