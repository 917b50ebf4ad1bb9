/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_ports.c: the ports that a user lists: which lists are refused, and
 * optional ports. The ports are sockets on this machine.
 */
#include "worker/ports.h"
#include "tests/support/hk_test.h"

#include <errno.h>

#define HERE "udp:addr=127.0.0.1"
#define GONE "udp:addr=nosuch0"

static struct hk_ports ports;

TEST(reads_a_list)
{
	char text[2 * HK_PORT_SPEC_MAX];

	CHECK_OK(hk_ports_read(&ports, HERE "+af_xdp:iface=a?+pci:0:1", "THE_PORT", ERR));
	CHECK_EQ(ports.count, 3);
	CHECK(!ports.wire_set);
	CHECK(!ports.optional[0] && ports.optional[1] && !ports.optional[2]);
	CHECK_STR(ports.spec[1], "af_xdp:iface=a");
	hk_ports_text(&ports, text, sizeof(text));
	CHECK_STR(text, HERE "+af_xdp:iface=a+pci:0:1");
	CHECK_OK(hk_ports_read(&ports, "memif:dir=/a+memif:dir=/b", "THE_PORT", ERR));
	CHECK(ports.count == 2 && ports.wire_set);
	/* each is a socket of its own */
	CHECK_OK(hk_ports_read(&ports, HERE "+" HERE, "THE_PORT", ERR));
}

static void protected_by(const char *list, const char *name, enum hk_protection is)
{
	uint8_t protection;

	CHECK_OK(hk_ports_read(&ports, list, "THE_PORT", ERR));
	CHECK_OK(hk_ports_protection(&ports, name, "THE_NAME", &protection, ERR));
	CHECK_EQ(protection, is);
}

/* Others can send to a port that is not a wire between two processes of this machine. */
TEST(chooses_a_protection)
{
	uint8_t none;

	protected_by("memif:dir=/a+memif:dir=/b", NULL, HK_PROTECTION_OFF);
	protected_by(HERE, "", HK_PROTECTION_AUTH);
	protected_by("memif:socket=/a,role=server+" HERE, "auto", HK_PROTECTION_AUTH);
	protected_by(HERE, "crc", HK_PROTECTION_CRC);
	protected_by("memif:dir=/a", "seal", HK_PROTECTION_SEAL);
	CHECK_REFUSED(hk_ports_protection(&ports, "lock", "THE_NAME", &none, ERR), -EINVAL,
		      "THE_NAME: there is no protection \"lock\"", "fix: ");
}

static void refused(const char *list, const char *says)
{
	CHECK_REFUSED(hk_ports_read(&ports, list, "THE_PORT", ERR), -EINVAL, says, "fix: ");
}

TEST(refuses_lists)
{
	refused("pci:1+memif:dir=/a", "THE_PORT: of pci:1 and memif:dir=/a one is a set of wires");
	refused("memif:dir=/a+" HERE, "THE_PORT: of memif:dir=/a and " HERE);
	refused("memif:dir=/a?", "THE_PORT: memif:dir=/a is a set of wires, which cannot be opt");
	refused("pci:1+pci:2+pci:1", "THE_PORT names pci:1 twice");
	refused("pci:1+pci:1?", "THE_PORT names pci:1 twice");
	refused("", "");
}

static unsigned notes;

static void note(const char *text)
{
	CHECK(text[0]);
	notes++;
}

/* Opens the ports of @list, and returns how many there are. */
static int open_all(const char *list, unsigned processes, bool *shared)
{
	const struct hk_ports_config cfg = {
		.buffers = 64, .processes = processes, .timeout_ms = 1000, .note = note};
	struct hk_eal_config eal = {.lazy_buffers = true};
	struct hk_worker_config worker;
	struct hk_port *port[HK_PATHS_MAX] = {NULL};

	CHECK_OK(hk_ports_read(&ports, list, "THE_PORT", ERR));
	CHECK_OK(hk_ports_start_dpdk(&ports, &eal, ERR));
	hk_worker_config_default(&worker);
	notes = 0;
	int rc = hk_ports_open(&ports, &cfg, &worker, port, shared, ERR);

	for (unsigned i = 0; i < HK_PATHS_MAX; i++) {
		CHECK(rc || (port[i] != NULL) == (i < ports.count));
		CHECK(!port[i] || worker.frame_max <= port[i]->info.frame_max);
		hk_port_close(port[i]);
	}
	return rc ? rc : (int)ports.count;
}

TEST(goes_without_an_optional_port)
{
	bool shared;

	CHECK_EQ(open_all(GONE "?+" HERE "+" GONE "?+" HERE, 1, &shared), 2);
	CHECK_EQ(notes, 4);
	CHECK_STR(ports.spec[1], HERE);
	CHECK(shared); /* by the process with itself */
	CHECK_EQ(open_all(HERE, 1, &shared), 1);
	CHECK(!shared);
	CHECK_EQ(open_all(HERE, 2, &shared), 1);
	CHECK(shared);
}

TEST(not_without_the_last_port)
{
	bool shared;

	CHECK_CMP(open_all(GONE "?", 1, &shared), <, 0);
	CHECK_HAS(hk_test_err.text, "nosuch0");
	CHECK_CMP(open_all(HERE "+" GONE, 1, &shared), <, 0);
	CHECK_HAS(hk_test_err.text, "nosuch0");
}

TEST(fits_the_smallest_frame)
{
	struct hk_worker_config cfg;

	hk_worker_config_default(&cfg);
	hk_ports_fit(&cfg, 9000, false, 100, false);
	hk_ports_fit(&cfg, 1500, false, 10, true);
	hk_ports_fit(&cfg, 4000, false, 0, false);
	CHECK_EQ(cfg.frame_max, 1500);
	CHECK_EQ(cfg.engine.link_mbps, 110);
	CHECK(cfg.engine.classes);
	hk_ports_fit(&cfg, 9000, true, 40, false);
	CHECK_EQ(cfg.engine.target_delay, HK_SEC);
	CHECK_EQ(cfg.engine.link_mbps, 110);
}
