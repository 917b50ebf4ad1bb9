/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_options.c: the command line and the configuration file of hikyakud.
 */
#include "hostd/options.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <errno.h>
#include <unistd.h>

static const char *path;

static int with_file(const char *text, const char *arg, struct hk_options *o, struct hk_error *err)
{
	char config[80];

	path = tmp_file(text);
	snprintf(config, sizeof(config), "--config=%s", path);
	const char *argv[] = {"hikyakud", config, arg, NULL};
	int rc = hk_options_read(arg ? 3 : 2, (char **)(uintptr_t)argv, o, err);
	unlink(path);
	return rc;
}

TEST(both_ways)
{
	struct hk_options o;

	CHECK_OK(with_file("# a comment\n\n  port = memif:dir=/x  \nslots=7\npoller = off\n"
			   "rx-buffers = 0x100\nmode = daemon",
			   "--slots=9", &o, ERR));
	CHECK(strcmp(o.port, "memif:dir=/x") == 0 && strcmp(o.config, path) == 0);
	CHECK_EQ(o.slots, 9); /* the command line wins */
	CHECK_EQ(o.mode, HK_CTL_DAEMON);
	CHECK(!o.poller && o.rx_buffers == 256 && o.tx_buffers == 4096);

	const char *argv[] = {"hikyakud", "--name", "n", "--job", "0xdeadbeef", "--background"};
	CHECK_OK(hk_options_read(6, (char **)(uintptr_t)argv, &o, ERR));
	CHECK(strcmp(o.name, "n") == 0 && o.job == 0xdeadbeef && o.background);
	CHECK_EQ(o.mode, 0); /* the port decides */
}

TEST(wrong_lines)
{
	static const struct {
		const char *text, *arg, *says;
		int code;
	} bad[] = {
		{"slots 4\n", NULL, ":1: there is no '='", -EINVAL},
		{"\n\ncolour = red\n", NULL, ":3: there is no option 'colour'", -EINVAL},
		{"job = 5\n", NULL, "no option 'job' for the file", -EINVAL},
		{"slots = many\n", NULL, "'many' is not a number from 1 to 64", -EINVAL},
		{"slots = 65\n", NULL, "from 1 to 64", -EINVAL},
		{"slots = -1\n", NULL, "from 1 to 64", -EINVAL},
		{"slots = 99999999999999999999\n", NULL, "from 1 to 64", -EINVAL},
		{"poller = maybe\n", NULL, "is neither 'on' nor 'off'", -EINVAL},
		{"mode = telepathy\n", NULL,
		 ":1: mode: 'telepathy' is not a mode; fix: use 'hybrid', 'daemon' or 'split'",
		 -EINVAL},
		{"port = a\"b\n", NULL, "unusual characters", -EINVAL},
		{"name = "
		 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
		 NULL, "too long", -EINVAL},
		{"max-slots = 2\nslots = 3\n", NULL, "slots 3 is more than the 2", -EDQUOT},
		{"max-slots = 2\nslots = 1\n", "--slots=3", "slots 3 is more than the 2", -EDQUOT},
		{"max-buffers = 100\n", NULL, "rx-buffers 4096 is more", -EDQUOT},
		{"", "--colour", "no option --colour", -EINVAL},
		{"", "--slots", "--slots needs a value", -EINVAL},
		{"", "--background=yes", "takes no value", -EINVAL},
		{"", "--max-slots=5", "is for the administrator", -EPERM},
		{"", "slots", "'slots' is not an option", -EINVAL},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++) {
		struct hk_options o;
		int rc = with_file(bad[i].text, bad[i].arg, &o, ERR);
		CHECK_MSG(rc == bad[i].code, "%u: %d: %s", i, rc, hk_test_err.text);
		CHECK_HAS(hk_test_err.text, bad[i].says);
	}
	/* a line of more than the longest length */
	static char long_line[4000];
	memset(long_line, 'x', sizeof(long_line) - 1);
	struct hk_options o;
	CHECK_REFUSED(with_file(long_line, NULL, &o, ERR), -EINVAL, "too long");
	const char *argv[] = {"hikyakud", "--config", "/no/such/file"};
	CHECK_REFUSED(hk_options_read(3, (char **)(uintptr_t)argv, &o, ERR), -ENOENT,
		      "/no/such/file");
}
