/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_calls.c: calls of workers that want a wire, in a directory.
 */
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"
#include "worker/calls.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define KEY 7u

static char dir[TMP_PATH], set[TMP_PATH + 16];

static void begin(void)
{
	tmp_dir(dir);
	snprintf(set, sizeof(set), "memif:dir=%s", dir);
}

static struct hk_calls *calls(uint32_t endpoint, size_t len)
{
	struct hk_calls *c;

	CHECK_OK(hk_calls_open(set, KEY, endpoint, len, &c, ERR));
	return c;
}

static const char *path_of(uint32_t endpoint)
{
	static char path[TMP_PATH + 32];

	snprintf(path, sizeof(path), "%s/%08x-%u.call", dir, KEY, endpoint);
	return path;
}

TEST(a_call_arrives_whole)
{
	char said[16] = "come to the wire", got[16];

	begin();
	struct hk_calls *a = calls(1, sizeof(said));
	CHECK_EQ(hk_calls_send(a, 2, said), -EAGAIN); /* it is not there yet */
	CHECK(!hk_calls_reaches(a, 2));
	struct hk_calls *b = calls(2, sizeof(said));
	CHECK(!hk_calls_next(b, got));
	CHECK(hk_calls_reaches(a, 2));
	CHECK_EQ(hk_calls_send(a, 2, said), 0);
	CHECK(hk_calls_next(b, got) && memcmp(got, said, sizeof(said)) == 0);
	CHECK(!hk_calls_next(b, got));
	hk_calls_close(b);
	CHECK_EQ(hk_calls_send(a, 2, said), -EAGAIN); /* it has gone */
	hk_calls_close(a);
	CHECK(access(path_of(1), F_OK) != 0 && access(path_of(2), F_OK) != 0);
	tmp_gone(dir);
}

TEST(calls_of_another_length_are_dropped)
{
	char got[64];

	begin();
	struct hk_calls *shorter = calls(1, 10), *longer = calls(2, 70), *c = calls(3, 64);
	static const char said[70] = "x";

	CHECK_EQ(hk_calls_send(shorter, 3, said), 0);
	CHECK_EQ(hk_calls_send(longer, 3, said), 0);
	CHECK(!hk_calls_next(c, got));
	hk_calls_close(shorter);
	hk_calls_close(longer);
	hk_calls_close(c);
	tmp_gone(dir);
}

TEST(one_that_does_not_look_is_called_again)
{
	char said[16] = "", got[16];
	unsigned sent = 0, heard = 0;

	begin();
	struct hk_calls *a = calls(1, sizeof(said)), *b = calls(2, sizeof(said));
	while (sent < 100000 && hk_calls_send(a, 2, said) == 0)
		sent++;
	CHECK_CMP(sent, <, 100000);
	CHECK_EQ(hk_calls_send(a, 2, said), -EAGAIN);
	while (hk_calls_next(b, got))
		heard++;
	CHECK_EQ(heard, sent);
	CHECK_EQ(hk_calls_send(a, 2, said), 0);
	hk_calls_close(a);
	hk_calls_close(b);
	tmp_gone(dir);
}

TEST(the_socket_belongs_to_the_user)
{
	struct stat st;

	begin();
	mode_t before = umask(0);
	struct hk_calls *c = calls(1, 64);
	umask(before);
	CHECK(stat(path_of(1), &st) == 0);
	CHECK_EQ(st.st_mode & 0777, 0600);
	hk_calls_close(c);
	tmp_gone(dir);
}

TEST(what_cannot_be_opened)
{
	struct hk_calls *c;

	begin();
	struct hk_calls *first = calls(1, 64);
	CHECK_REFUSED(hk_calls_open(set, KEY, 1, 64, &c, ERR), -EADDRINUSE, path_of(1),
		      "Address already in use");
	hk_calls_close(first);
	CHECK_REFUSED(hk_calls_open("af_packet:iface=lo", KEY, 1, 64, &c, ERR), -EINVAL,
		      "is not a set of wires; fix: ");
	CHECK_REFUSED(hk_calls_open("memif:dir=/nonexistent", KEY, 1, 64, &c, ERR), -ENOENT,
		      "/nonexistent/");
	tmp_gone(dir);
}
