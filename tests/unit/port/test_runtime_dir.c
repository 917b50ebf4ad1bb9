/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_runtime_dir.c: processes that start and end at the same time, and their
 * directories in one runtime directory.
 */
#include "port/internal.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS 300
#define ENDING 8 /* processes that end while one starts */

static char parent[80];
static atomic_int ending; /* of this round; -1: the test is over */

/* As processes that end: each removes the parent if it is empty. */
static void *remove_parent(void *unused)
{
	int left;

	while ((left = atomic_load(&ending)) >= 0)
		if (left > 0 && rmdir(parent) == 0)
			(void)atomic_compare_exchange_strong(&ending, &left, left - 1);
	return NULL;
}

TEST(made_while_others_remove_the_parent)
{
	char base[TMP_PATH], dir[96];
	pthread_t remover;
	unsigned missing = 0;

	tmp_dir(base);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", base, 1), 0);
	snprintf(parent, sizeof(parent), "%s/dpdk", base);
	snprintf(dir, sizeof(dir), "%s/one", parent);
	CHECK_EQ(pthread_create(&remover, NULL, remove_parent, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		atomic_store(&ending, ENDING);
		(void)hk_eal_make_runtime_dir("one", NULL);
		missing += rmdir(dir) != 0;
	}
	atomic_store(&ending, -1);
	pthread_join(remover, NULL);
	(void)rmdir(parent);
	tmp_gone(base);
	CHECK_EQ(missing, 0);
}

/* Somebody has made `dpdk` before us, as a link to files of ours. */
TEST(a_link_is_refused_and_nothing_behind_it_goes)
{
	char base[TMP_PATH], link[96], precious[96];
	struct hk_error err = {""};

	tmp_dir(base);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", base, 1), 0);
	snprintf(precious, sizeof(precious), "%s/precious", base);
	CHECK_EQ(mkdir(precious, 0700), 0);
	snprintf(precious, sizeof(precious), "%s/precious/one", base);
	CHECK_EQ(mkdir(precious, 0700), 0);
	snprintf(precious, sizeof(precious), "%s/precious/one/config", base);
	close(open(precious, O_CREAT | O_WRONLY, 0600));
	snprintf(link, sizeof(link), "%s/dpdk", base);
	CHECK_EQ(symlink("precious", link), 0);

	CHECK_EQ(hk_eal_make_runtime_dir("one", &err), -ENOTDIR);
	CHECK_MSG(strstr(err.text, "/dpdk is not a directory; fix: "), "%s", err.text);
	CHECK(hk_eal_remove_stale("one", base, &err) < 0);
	CHECK_EQ(access(precious, F_OK), 0);

	CHECK_EQ(unlink(link), 0); /* and as a directory that they may write to */
	CHECK_EQ(mkdir(link, 0700), 0);
	CHECK_EQ(chmod(link, 0777), 0);
	CHECK_EQ(hk_eal_make_runtime_dir("one", &err), -EPERM);
	CHECK_EQ(chmod(link, 0700), 0);
	CHECK_OK(hk_eal_make_runtime_dir("one", &err));
	tmp_remove(base);
}
