/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scenario exchange, and the files of its messages.
 */
#include "sim/messages.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/sim/command.h"

#include <unistd.h>

static char path[256];

static void remove_file(void)
{
	if (*path)
		CHECK_EQ(unlink(path), 0);
	path[0] = 0;
}

/* The file of messages has @text from now on. */
static void write_file(const char *text)
{
	remove_file();
	snprintf(path, sizeof(path), "%s", tmp_file(text));
}

static char *with_file(const char *options)
{
	static char line[400];

	snprintf(line, sizeof(line), "exchange --messages %s %s", path, options);
	return line;
}

/* Runs exchanges, which must end, and returns the mean time of one, µs. */
static double exchange(const char *options, uint64_t *controls, uint64_t *data)
{
	struct run r;

	begin(&r, with_file(options));
	run_go(&r);
	CHECK_MSG(r.left == 0, "%s: %lu exchanges are missing", options, (unsigned long)r.left);
	double us = (double)(r.net.events.now - r.measured_from) / 1e6 / r.o.count;

	*data = *controls = 0;
	for (uint32_t i = 0; i < r.hosts.count; i++) {
		*data += r.hosts.host[i].n.data;
		*controls += r.hosts.host[i].n.controls;
	}
	run_on(&r, HK_SEC * SIM_NS);
	CHECK_EQ(r.net.frames.in_use, 0);
	run_free(&r);
	return us;
}

#define RING                                                                                       \
	"ranks 4\n0 1 9000\n1 2 9000\n2 3 9000\n3 0 9000\n1 0 9000\n2 1 9000\n3 2 9000\n0 3 "      \
	"9000\n"

TEST(exchanges_end_by_puts_and_by_messages)
{
	uint64_t controls, data, eager_data, asked_data;

	write_file(RING);
	double put = exchange("--frame 9000 --count 10", &controls, &data);
	double eager = exchange("--frame 9000 --count 10 --eager 9000", &controls, &eager_data);
	double asked = exchange("--frame 9000 --count 10 --eager 8999", &controls, &asked_data);

	/* 15 exchanges of 8 messages, of two frames; with the announcement, request and end */
	CHECK_EQ(data, 15 * 8 * 2);
	CHECK_EQ(eager_data, 15 * 8 * 2);
	CHECK_EQ(asked_data, 15 * 8 * 5);
	/* two messages of 9000 bytes over a link of 10 Gb/s */
	CHECK_CMP(put, >, 14.4);
	CHECK_CMP(put, <, 40);
	CHECK_CMP(eager, <, 40);
	CHECK_CMP(asked, >, put + 2); /* two more crossings of the network */
	remove_file();
}

TEST(exchanges_end_whatever_the_pattern)
{
	uint64_t controls, data;

	/* a rank without messages, one that only sends, and one that only receives */
	write_file("ranks 4\n0 1 100000\n0 2 5\n1 2 70000\n");
	(void)exchange("--count 30", &controls, &data);
	(void)exchange("--count 30 --eager 1000", &controls, &data);
	(void)exchange("--count 30 --ports 4", &controls, &data);
	(void)exchange("--count 30 --eager 1000 --loss-ppm 20000", &controls, &data);
	(void)exchange("--count 30 --loss-ppm 20000", &controls, &data);
	remove_file();
}

static void refused(const char *text, const char *why)
{
	struct hk_error err = {0};

	write_file(text);
	CHECK(messages_read(path, &err) == NULL);
	CHECK_MSG(strstr(err.text, why), "%s: %s", text, err.text);
	CHECK_MSG(strstr(err.text, "; fix: "), "%s", err.text);
}

TEST(wrong_files_are_refused)
{
	refused("", "line 1");
	refused("4\n0 1 8\n", "line 1");
	refused("ranks 1\n", "line 1");
	refused("ranks 4097\n0 1 8\n", "line 1");
	refused("ranks 18446744073709551620\n0 1 8\n", "line 1");
	refused("ranks 4", "line 1");
	refused("ranks 4\n", "line 2");
	refused("ranks 4\n0 1\n", "line 2");
	refused("ranks 4\n0 1 8 9\n", "line 2");
	refused("ranks 4\n0 1 8", "line 2");
	refused("ranks 4\n0  1 8\n", "line 2");
	refused("ranks 4\n0 1 8\n0 4 8\n", "line 3");
	refused("ranks 4\n0 1 8\n-1 2 8\n", "line 3");
	refused("ranks 4\n2 2 8\n", "line 2");
	refused("ranks 4\n0 1 0\n", "line 2");
	refused("ranks 4\n0 1 1073741825\n", "line 2");
	refused("ranks 4\n0 1 8x\n", "line 2");
	refused("ranks 4\n0 1 8\n1 0 8\n0 1 9\n", "same ranks");
	refused("ranks 4\n0 1 1073741824\n0 2 1\n", "more than 1073741824");
	refused("ranks 4\n0 "
		"000000000000000000000000000000000000000000000000000000000000000000000000000"
		"00000000001 8\n",
		"line 2");
	remove_file();
}

TEST(options_that_do_not_fit_are_refused)
{
	struct sim_options o;
	struct hk_error err;

	write_file(RING);
	CHECK(command(&o, "exchange", &err) < 0 && strstr(err.text, "add --messages"));
	CHECK(command(&o, "exchange --messages /no/file", &err) < 0 &&
	      strstr(err.text, "/no/file"));
	CHECK(command(&o, with_file("--hosts 4"), &err) < 0 &&
	      strstr(err.text, "leave out --hosts"));
	CHECK(command(&o, "incast --eager 5", &err) < 0 && strstr(err.text, "scenario exchange"));
	CHECK(command(&o, "incast --messages /dev/null", &err) < 0 &&
	      strstr(err.text, "scenario exchange"));
	remove_file();
}
