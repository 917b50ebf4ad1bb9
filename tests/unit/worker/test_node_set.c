/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/worker/test_node_set.c: the directory of the wires between processes of one node.
 */
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"
#include "worker/node_set.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SETTING "TEST_DIRECTORY"

static char dir[TMP_PATH];

/* Opens a socket of @type in the directory of @set. */
static int open_socket(const struct hk_node_set *set, const char *name, int type)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%.80s/%s", set->path, name);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
	return fd;
}

static bool has(const struct hk_node_set *set, const char *name)
{
	char path[sizeof(set->path) + 16];

	snprintf(path, sizeof(path), "%s/%s", set->path, name);
	return access(path, F_OK) == 0;
}

/* The socket was opened a minute ago. */
static void age(const struct hk_node_set *set, const char *name)
{
	const struct timespec times[2] = {{.tv_sec = time(NULL) - 60}, {.tv_sec = time(NULL) - 60}};
	char path[sizeof(set->path) + 16];

	snprintf(path, sizeof(path), "%s/%s", set->path, name);
	CHECK(utimensat(AT_FDCWD, path, times, 0) == 0);
}

TEST(a_directory_for_this_network)
{
	struct hk_node_set set, same;
	char begin[TMP_PATH + 32];
	struct stat st;

	tmp_dir(dir);
	CHECK_OK(hk_node_set_open(dir, SETTING, 1500, &set, ERR));
	CHECK(stat(set.path, &st) == 0 && (st.st_mode & 0777) == 0700);
	snprintf(begin, sizeof(begin), "memif:dir=%s/wires-", dir);
	CHECK_MSG(strncmp(set.spec, begin, strlen(begin)) == 0, "%s", set.spec);
	CHECK_EQ(hk_port_wire_frame_max(set.spec), 1500);
	CHECK_OK(hk_port_wire_set_check(set.spec, ERR));
	CHECK_OK(hk_node_set_open(dir, SETTING, 1500, &same, ERR));
	CHECK(strcmp(set.spec, same.spec) == 0);
	hk_node_set_close(&set);
	CHECK(access(set.path, F_OK) != 0);
	hk_node_set_close(&same); /* it has gone */
	tmp_gone(dir);
}

/* The next process removes them. */
TEST(sockets_of_the_dead_are_removed)
{
	struct hk_node_set set;

	tmp_dir(dir);
	CHECK_OK(hk_node_set_open(dir, SETTING, 1500, &set, ERR));
	int calls = open_socket(&set, "a.call", SOCK_DGRAM);
	int wire = open_socket(&set, "a.sock", SOCK_SEQPACKET);

	CHECK(listen(wire, 1) == 0);
	close(open_socket(&set, "b.call", SOCK_DGRAM));
	close(open_socket(&set, "b.sock", SOCK_SEQPACKET));
	close(open_socket(&set, "young", SOCK_DGRAM)); /* it may just be opening */
	age(&set, "a.call");
	age(&set, "a.sock");
	age(&set, "b.call");
	age(&set, "b.sock");
	CHECK_OK(hk_node_set_open(dir, SETTING, 1500, &set, ERR));
	CHECK(has(&set, "young"));
	age(&set, "young");
	CHECK(has(&set, "a.call") && has(&set, "a.sock"));
	CHECK(!has(&set, "b.call") && !has(&set, "b.sock"));
	hk_node_set_close(&set); /* others are in it */
	CHECK(has(&set, "a.call"));
	close(calls);
	close(wire);
	CHECK_OK(hk_node_set_open(dir, SETTING, 1500, &set, ERR));
	hk_node_set_close(&set);
	tmp_gone(dir);
}

TEST(a_directory_that_others_may_write)
{
	struct hk_node_set set;
	char text[TMP_PATH + 64];

	tmp_dir(dir);
	CHECK(chmod(dir, 0777) == 0);
	snprintf(text, sizeof(text), "others may write to the directory %s", dir);
	CHECK_REFUSED(hk_node_set_open(dir, SETTING, 1500, &set, ERR), -EPERM, text);
	CHECK(chmod(dir, 0700) == 0);
	char longer[256] = "/tmp/";

	memset(longer + 5, 'x', 45); /* with it 50 characters */
	CHECK_REFUSED(hk_node_set_open(longer, SETTING, 1500, &set, ERR), -ENAMETOOLONG,
		      "fix: set " SETTING);
	tmp_gone(dir);
}
