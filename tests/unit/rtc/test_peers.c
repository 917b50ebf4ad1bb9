/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/test_peers.c: the file of addresses, its errors, and the choice of the backend.
 */
#include "rtc/peers.h"
#include "rtc/backend_choice.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <unistd.h>

static struct hk_rtc_peers peers;

static int parse(const char *text, unsigned node, unsigned nodes)
{
	hk_rtc_peers_free(&peers);
	return hk_rtc_peers_parse("peers.txt", text, strlen(text), (uint16_t)node, (uint16_t)nodes,
				  &peers, ERR);
}

static void refused(const char *text, unsigned node, unsigned nodes, int rc, const char *sentence)
{
	int got = parse(text, node, nodes);

	CHECK_MSG(got == rc, "'%s' gave %d, not %d: %s", text, got, rc, hk_test_err.text);
	CHECK_HAS(hk_test_err.text, sentence, "fix: ");
	CHECK(peers.address == NULL);
}

TEST(good_files)
{
	CHECK_EQ(parse("0 10.0.0.1:1\n1 10.0.0.2:2\n", 1, 2), 0);
	CHECK_EQ(peers.nodes, 2);
	CHECK_STR(peers.address[0], "10.0.0.1:1");
	CHECK_STR(peers.address[1], "10.0.0.2:2");

	/* any order, comments, empty lines, tabs, a DOS line end, no end of the last line */
	CHECK_EQ(parse("# who\n\n2\tc # third\r\n  0 a\n \n1 b", 0, 0), 0);
	CHECK_EQ(peers.nodes, 3);
	CHECK(strcmp(peers.address[0], "a") == 0 && strcmp(peers.address[1], "b") == 0);
	CHECK_STR(peers.address[2], "c");
}

TEST(bad_lines)
{
	char text[256], address[HK_RTC_ADDRESS_MAX + 1];

	refused("0 a\none b\n", 0, 2, -EINVAL, "peers.txt:2: 'one' is not the number of a node");
	refused("-1 a\n", 0, 2, -EINVAL, "peers.txt:1: '-1'");
	refused("0x1 a\n", 0, 2, -EINVAL, "'0x1'");
	refused("99999 a\n", 0, 2, -EINVAL, "'99999'");
	refused("123456 a\n", 0, 2, -EINVAL, "'123456'");
	refused("0 a\n1\n", 0, 2, -EINVAL, "peers.txt:2: node 1 has no address");
	refused("0 a b\n", 0, 1, -EINVAL, "peers.txt:1: 'b' after the address of node 0");
	refused("0 a\n\n2 c\n", 0, 2, -ERANGE, "peers.txt:3: node 2, but the last of 2 is 1");
	refused("1024 a\n", 0, 0, -ERANGE, "peers.txt:1: node 1024");
	refused("0 a\n1 b\n0 c\n", 0, 2, -EEXIST, "peers.txt:3: node 0 has its address in line 1");
	refused("0 a\x01\n", 0, 1, -EINVAL, "peers.txt:1: a byte 0x01");
	memset(address, 'x', sizeof(address));
	address[HK_RTC_ADDRESS_MAX] = '\0';
	snprintf(text, sizeof(text), "0 %s\n", address);
	refused(text, 0, 1, -EINVAL, "peers.txt:1: the address of node 0 has 96 characters");
	address[HK_RTC_ADDRESS_MAX - 1] = '\0';
	snprintf(text, sizeof(text), "0 %s\n", address);
	CHECK_EQ(parse(text, 0, 1), 0);
}

TEST(missing_nodes)
{
	refused("", 0, 0, -ENOENT, "peers.txt names no node");
	refused("# 0 a\n", 0, 2, -ENOENT, "names no node");
	refused("0 a\n1 b\n", 2, 3, -ENOENT, "no line for this node, 2");
	refused("0 a\n1 b\n", 2, 0, -ENOENT, "no line for this node, 2");
	refused("0 a\n2 b\n", 2, 0, -ENOENT, "no line for node 1 of 3");
	refused("0 a\n1 b\n", 0, 3, -ENOENT, "no line for node 2 of 3");
	refused("0 a\n", 0, HK_RTC_MAX_NODES + 1, -ERANGE, "at most 1024");
}

TEST(files)
{
	struct hk_rtc_config cfg = {.peers_file = "/nonexistent/peers", .nodes = 1};
	char path[] = "/tmp/hk-peers-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	CHECK_REFUSED(hk_rtc_peers_read(&cfg, &peers, ERR), -ENOENT, "/nonexistent/peers");
	cfg.peers_file = "/tmp";
	CHECK_EQ(hk_rtc_peers_read(&cfg, &peers, ERR), -EIO);

	cfg.peers_file = path;
	CHECK_EQ(write(fd, "0 here\n", 7), 7);
	CHECK_OK(hk_rtc_peers_read(&cfg, &peers, ERR));
	CHECK(peers.nodes == 1 && strcmp(peers.address[0], "here") == 0);
	hk_rtc_peers_free(&peers);

	CHECK_EQ(ftruncate(fd, (1 << 20) + 1), 0);
	CHECK_EQ(hk_rtc_peers_read(&cfg, &peers, ERR), -EFBIG);
	CHECK(peers.address == NULL);
	close(fd);
	unlink(path);
}

/* Any bytes give an error or a complete table. The text has memory of its own size, so that a
 * sanitizer detects reads beyond it. */
TEST(any_bytes)
{
	static const char seedling[] = "# c\n0 10.0.0.1:1\n1 b # x\r\n2 memif:dir=/x,y=3\n10 z\n";
	static const char likely[] = "0123456789 \n\t\r#:.x\0";
	unsigned good = 0;

	for (unsigned run = 0; run < 20000; run++) {
		char text[sizeof(seedling)];
		size_t len = hk_rng_range(&hk_test_rng, 0, sizeof(seedling) - 1);
		memcpy(text, seedling, sizeof(text));
		for (uint64_t n = hk_rng_below(&hk_test_rng, 8); n; n--) {
			uint64_t r = hk_rng_next(&hk_test_rng);
			char c = r & 1 ? likely[(r >> 8) % sizeof(likely)] : (char)(r >> 8);
			text[(r >> 32) % sizeof(text)] = c;
		}
		char *copy = malloc(len ? len : 1);
		CHECK(copy != NULL);
		memcpy(copy, text, len);
		hk_rtc_peers_free(&peers);
		uint16_t nodes = (uint16_t)hk_rng_below(&hk_test_rng, 5);
		int rc = hk_rtc_peers_parse("f", copy, len, (uint16_t)(nodes > 1), nodes, &peers,
					    ERR);
		free(copy);
		if (rc != 0) {
			CHECK(rc < 0 && hk_test_err.text[0] && !peers.address);
			continue;
		}
		good++;
		CHECK(peers.nodes >= 1 && (nodes == 0 || peers.nodes == nodes));
		for (unsigned i = 0; i < peers.nodes; i++)
			CHECK(peers.address[i][0] &&
			      memchr(peers.address[i], 0, sizeof(peers.address[i])));
	}
	CHECK_CMP(good, >, 100);
	hk_rtc_peers_free(&peers);
}

/* ---- the choice of the backend --------------------------------------------------------------- */

static int choose(struct hk_rtc_config *cfg, const char *own, struct hk_rtc_backend_choice *p)
{
	return hk_rtc_backend_choose(cfg, 3, own, p, ERR);
}

TEST(places)
{
	struct hk_rtc_config cfg = {.node = 17, .backend = "raw", .address = "hk{local_rank}"};
	struct hk_rtc_backend_choice p;
	char longer[300];

	unsetenv("HIKYAKU_RTC_BACKEND");
	CHECK_EQ(choose(&cfg, NULL, &p), 0);
	CHECK(strcmp(cfg.address, "hk3") == 0 && strcmp(p.name, "raw") == 0 && !*p.option);

	cfg = (struct hk_rtc_config){
		.node = 17, .backend = "tcp:batch=1", .address = "{rank}:{rank}"};
	CHECK_EQ(choose(&cfg, "file", &p), 0);
	CHECK_STR(cfg.address, "17:17");
	CHECK(strcmp(p.name, "tcp") == 0 && strcmp(p.option, "batch=1") == 0);

	/* the file's line precedes the environment for backends that open at that address */
	setenv("HIKYAKU_RTC_BACKEND", "udp", 1);
	setenv("HIKYAKU_RTC_ADDRESS_UDP", "lo", 1);
	setenv("HIKYAKU_RTC_ADDRESS_AF_XDP", "hk{rank}", 1);
	cfg = (struct hk_rtc_config){.node = 17};
	CHECK_EQ(choose(&cfg, NULL, &p), 0);
	CHECK(strcmp(cfg.backend, "udp") == 0 && strcmp(cfg.address, "lo") == 0);
	cfg = (struct hk_rtc_config){.node = 17};
	CHECK_EQ(choose(&cfg, "10.0.0.1:7", &p), 0);
	CHECK_STR(cfg.address, "10.0.0.1:7");
	cfg = (struct hk_rtc_config){.node = 17, .backend = "af_xdp"};
	CHECK_EQ(choose(&cfg, "02:00:00:00:00:01", &p), 0);
	CHECK_STR(cfg.address, "hk17");

	cfg = (struct hk_rtc_config){.backend = "raw"};
	CHECK_REFUSED(choose(&cfg, NULL, &p), -EINVAL, "set HIKYAKU_RTC_ADDRESS_RAW");
	cfg = (struct hk_rtc_config){.backend = "rwa"};
	CHECK_REFUSED(choose(&cfg, NULL, &p), -EINVAL,
		      "there is no backend 'rwa'; fix: use one of dpdk, af_xdp");
	cfg = (struct hk_rtc_config){.backend = "raw", .address = "hk{node}"};
	CHECK_EQ(choose(&cfg, NULL, &p), -EINVAL);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	cfg = (struct hk_rtc_config){.backend = "raw", .address = longer};
	CHECK_EQ(choose(&cfg, NULL, &p), -ENAMETOOLONG);
	cfg = (struct hk_rtc_config){.backend = longer, .address = "x"};
	CHECK_EQ(choose(&cfg, NULL, &p), -EINVAL);
	unsetenv("HIKYAKU_RTC_BACKEND");
	cfg = (struct hk_rtc_config){.address = "x"};
	CHECK_REFUSED(choose(&cfg, NULL, &p), -EINVAL, "dpdk, af_xdp, raw, udp, tcp");
}

TEST(misspelt_variables)
{
	static const char *const pairs[][2] = {
		{"HIKYAKU_RTC_BACKNED", "HIKYAKU_RTC_BACKEND"},
		{"HIKYAKU_RTC_BACKENDS", "HIKYAKU_RTC_BACKEND"},
		{"HIKYAKU_RTC_ADRESS_RAW", "HIKYAKU_RTC_ADDRESS_RAW"},
		{"HIKYAKU_RTC_PROTECT", "HIKYAKU_RTC_PROTECTION"},
		{"HIKYAKU_RTC_ADDRESS_AFXDP", "HIKYAKU_RTC_ADDRESS_AF_XDP"},
		{"HIKYAKU_RTC_", "HIKYAKU_RTC_SECRET"},
	};
	struct hk_rtc_config cfg;
	struct hk_rtc_backend_choice p;

	for (size_t i = 0; i < HK_ARRAY_LEN(pairs); i++) {
		char fix[100];
		snprintf(fix, sizeof(fix), "use %s", pairs[i][1]);
		setenv(pairs[i][0], "x", 1);
		cfg = (struct hk_rtc_config){.backend = "raw", .address = "x"};
		CHECK_REFUSED(choose(&cfg, NULL, &p), -EINVAL, "there is no variable", pairs[i][0],
			      fix);
		unsetenv(pairs[i][0]);
		cfg = (struct hk_rtc_config){.backend = "raw", .address = "x"};
		CHECK_OK(choose(&cfg, NULL, &p));
	}
}
