/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_rundir.c: run directories in places where others can write: links, foreign
 * owners, and notes of files that are not ours to remove. Needs root, to make another user's.
 */
#include "hostd/rundir.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define STRANGER 65534

static char place[TMP_PATH];
static struct hk_error err;

static const char *in_place(const char *file)
{
	static char path[2][160];
	static unsigned i;

	i = !i;
	snprintf(path[i], sizeof(path[i]), "%s/%s", place, file);
	return path[i];
}

static struct hk_rundir rundir(const char *base)
{
	struct hk_rundir rd;

	CHECK_EQ(setenv("HIKYAKU_RUNDIR", in_place(base), 1), 0);
	CHECK_OK(hk_rundir_find("default", &rd, &err));
	return rd;
}

static void refused(const struct hk_rundir *rd, int code, const char *why)
{
	CHECK_EQ(hk_rundir_claim(rd, 0, &err), code);
	CHECK_MSG(strstr(err.text, why), "%s", err.text);
	CHECK_EQ(hk_rundir_lock(rd, "default.start", 0, &err), code);
	CHECK_EQ(hk_rundir_check_base(rd, &err), code);
}

/* A directory that somebody offers as ours, with a file that a claim would remove. */
static void bait(const char *dir)
{
	char path[200];

	CHECK_EQ(mkdir(dir, 0700), 0);
	snprintf(path, sizeof(path), "%s/default", dir);
	CHECK_EQ(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/default/log", dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	CHECK_EQ(access(path, F_OK), 0);
}

TEST(a_link_is_no_run_directory)
{
	tmp_dir(place);
	bait(in_place("elsewhere"));
	CHECK_EQ(symlink(in_place("elsewhere"), in_place("base")), 0);
	struct hk_rundir rd = rundir("base");

	refused(&rd, -ENOTDIR, "base is not a directory");
	CHECK_EQ(hk_rundir_sweep(), 0);
	CHECK_EQ(access(in_place("elsewhere/default/log"), F_OK), 0);

	CHECK_EQ(unlink(in_place("base")), 0); /* the daemon's own directory is the link */
	CHECK_EQ(mkdir(in_place("base"), 0700), 0);
	CHECK_EQ(symlink(in_place("elsewhere/default"), in_place("base/default")), 0);
	CHECK_EQ(hk_rundir_claim(&rd, 0, &err), -ENOTDIR);
	CHECK_EQ(access(in_place("elsewhere/default/log"), F_OK), 0);
	tmp_remove(place);
}

TEST(directories_of_others_are_refused)
{
	tmp_dir(place);
	bait(in_place("base"));
	struct hk_rundir rd = rundir("base");

	CHECK_EQ(chmod(in_place("base"), 0722), 0);
	refused(&rd, -EPERM, "others may write");
	CHECK_EQ(chmod(in_place("base"), 0700), 0);
	CHECK_EQ(chown(in_place("base"), STRANGER, STRANGER), 0);
	refused(&rd, -EPERM, "belongs to user 65534");
	CHECK_EQ(access(in_place("base/default/log"), F_OK), 0);
	CHECK_EQ(chown(in_place("base"), 0, 0), 0);

	int lock = hk_rundir_claim(&rd, 0, &err); /* ours: what a dead daemon left goes */
	CHECK(lock >= 0);
	CHECK_EQ(access(in_place("base/default/log"), F_OK), -1);
	close(lock);
	tmp_remove(place);
}

static void make_socket(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	CHECK_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	close(fd);
}

TEST(only_sockets_and_empty_directories_are_left_over)
{
	tmp_dir(place);
	struct hk_rundir rd = rundir("base");
	int lock = hk_rundir_claim(&rd, 0, &err);

	CHECK(lock >= 0);
	make_socket(in_place("socket"));
	make_socket(in_place("theirs"));
	CHECK_EQ(chown(in_place("theirs"), STRANGER, STRANGER), 0);
	CHECK_EQ(mkdir(in_place("empty"), 0700), 0);
	CHECK_EQ(mkdir(in_place("full"), 0700), 0);
	close(open(in_place("full/file"), O_CREAT | O_WRONLY, 0600));
	CHECK_EQ(symlink(in_place("full/file"), in_place("link")), 0);
	static const char *const noted[] = {"socket",    "theirs", "empty",  "full",
					    "full/file", "link",   "absent", ""};
	for (unsigned i = 0; i < HK_ARRAY_LEN(noted); i++)
		CHECK_OK(hk_rundir_note(&rd, in_place(noted[i]), &err));
	CHECK_EQ(chdir(place), 0);
	make_socket("relative");
	CHECK_OK(hk_rundir_note(&rd, "./relative", &err));
	hk_rundir_remove(&rd);
	close(lock);
	CHECK_EQ(access("relative", F_OK), 0);
	CHECK_EQ(chdir("/"), 0);
	CHECK_EQ(access(in_place("socket"), F_OK), -1);
	CHECK_EQ(access(in_place("empty"), F_OK), -1);
	CHECK_EQ(access(in_place("theirs"), F_OK), 0);
	CHECK_EQ(access(in_place("full/file"), F_OK), 0);
	CHECK_EQ(access(in_place("link"), F_OK), 0);
	CHECK_EQ(access(rd.dir, F_OK), -1);
	tmp_remove(place);
}
