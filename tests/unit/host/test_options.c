/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_options.c: the command line and the configuration file of hikyakud.
 */
#include "host/options.h"
#include "tests/unit/hk_test.h"

#include <errno.h>
#include <unistd.h>

static char path[64];

static void write_file(const char *text)
{
	snprintf(path, sizeof(path), "/tmp/hk-options-XXXXXX");
	int fd = mkstemp(path);
	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static int with_file(const char *text, const char *arg, struct hk_options *o, struct hk_error *err)
{
	char config[80];

	write_file(text);
	snprintf(config, sizeof(config), "--config=%s", path);
	const char *argv[] = {"hikyakud", config, arg, NULL};
	int rc = hk_options_read(arg ? 3 : 2, (char **)(uintptr_t)argv, o, err);
	unlink(path);
	return rc;
}

static void both_ways(void)
{
	struct hk_options o;
	struct hk_error err = {""};

	int rc = with_file("# a comment\n\n  port = memif:dir=/x  \nslots=7\npoller = off\n"
			   "rx-buffers = 0x100\nmode = daemon",
			   "--slots=9", &o, &err);
	CHECK_MSG(rc == 0, "%s", err.text);
	CHECK(strcmp(o.port, "memif:dir=/x") == 0 && strcmp(o.config, path) == 0);
	CHECK_EQ(o.slots, 9); /* the command line wins */
	CHECK_EQ(o.mode, HK_CTL_DAEMON);
	CHECK(!o.poller && o.rx_buffers == 256 && o.tx_buffers == 4096);

	const char *argv[] = {"hikyakud", "--name", "n", "--job", "0xdeadbeef", "--background"};
	CHECK_EQ(hk_options_read(6, (char **)(uintptr_t)argv, &o, &err), 0);
	CHECK(strcmp(o.name, "n") == 0 && o.job == 0xdeadbeef && o.background);
	CHECK_EQ(o.mode, HK_CTL_HYBRID);
}

static void wrong_lines(void)
{
	static const struct {
		const char *text, *arg, *says;
		int code;
	} bad[] = {
		{"slots 4\n", NULL, ":1: there is no '='", -EINVAL},
		{"\n\ncolour = red\n", NULL, ":3: there is no option 'colour'", -EINVAL},
		{"job = 5\n", NULL, "no option 'job' for the file", -EINVAL},
		{"slots = many\n", NULL, "'many' is no number from 1 to 64", -EINVAL},
		{"slots = 65\n", NULL, "from 1 to 64", -EINVAL},
		{"slots = -1\n", NULL, "from 1 to 64", -EINVAL},
		{"slots = 99999999999999999999\n", NULL, "from 1 to 64", -EINVAL},
		{"poller = maybe\n", NULL, "say 'on' or 'off'", -EINVAL},
		{"mode = telepathy\n", NULL,
		 ":1: mode: 'telepathy'; fix: say 'hybrid', 'daemon' or 'split'", -EINVAL},
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
		{"", "--max-slots=5", "is the administrator's", -EPERM},
		{"", "slots", "'slots' is no option", -EINVAL},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(bad); i++) {
		struct hk_options o;
		struct hk_error err = {""};
		int rc = with_file(bad[i].text, bad[i].arg, &o, &err);
		CHECK_MSG(rc == bad[i].code, "%u: %d: %s", i, rc, err.text);
		CHECK_MSG(strstr(err.text, bad[i].says), "%u: '%s' does not say '%s'", i, err.text,
			  bad[i].says);
	}
	/* a line that is longer than any may be */
	static char long_line[4000];
	memset(long_line, 'x', sizeof(long_line) - 1);
	struct hk_options o;
	struct hk_error err = {""};
	CHECK_EQ(with_file(long_line, NULL, &o, &err), -EINVAL);
	CHECK(strstr(err.text, "too long"));
	const char *argv[] = {"hikyakud", "--config", "/no/such/file"};
	CHECK_EQ(hk_options_read(3, (char **)(uintptr_t)argv, &o, &err), -ENOENT);
	CHECK(strstr(err.text, "/no/such/file"));
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"both_ways", both_ways},
		{"wrong_lines", wrong_lines},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
