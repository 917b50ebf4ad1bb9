/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/sdn/tagger/test_cgroup.c: the removal of a job's cgroup while it is busy. A child
 * cgroup keeps it busy here, as a process does that is just ending.
 */
#include "hostd/rundir.h"
#include "sdn/tagger/node.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char child[HK_TAGGER_PATH + 32];

static void make_busy(struct hk_tagger_cgroup *c)
{
	char name[40]; /* of this process, so that one that failed and left it is in nobody's way */

	snprintf(name, sizeof(name), "hikyaku-test-%d", (int)getpid());
	CHECK_OK(hk_tagger_cgroup_make(name, c, ERR));
	snprintf(child, sizeof(child), "%s/child", c->path);
	CHECK_EQ(mkdir(child, 0755), 0);
}

static void *end_later(void *arg)
{
	struct timespec half_a_second = {.tv_nsec = 500000000};

	(void)arg;
	nanosleep(&half_a_second, NULL);
	rmdir(child);
	return NULL;
}

/* Before, it gave up after 0.2 s, and nothing knew of the cgroup any more. */
TEST(a_cgroup_that_is_busy_for_a_while_is_removed)
{
	struct hk_tagger_cgroup c;
	pthread_t thread;

	make_busy(&c);
	CHECK_EQ(pthread_create(&thread, NULL, end_later, NULL), 0);
	CHECK(hk_tagger_cgroup_remove(&c));
	CHECK(access(c.path, F_OK) != 0);
	pthread_join(thread, NULL);
}

TEST(a_sweep_comes_again_for_a_cgroup_that_is_busy)
{
	char base[TMP_PATH];
	struct hk_tagger_cgroup c;
	struct hk_rundir rd;

	tmp_dir(base);
	setenv("HIKYAKU_RUNDIR", base, 1);
	CHECK_OK(hk_rundir_find("tag-1-test", &rd, ERR));
	int lock = hk_rundir_claim(&rd, 0, ERR);
	CHECK(lock >= 0);
	make_busy(&c);
	CHECK_OK(hk_rundir_note(&rd, c.path, ERR));
	close(c.fd);
	close(c.events);
	close(lock); /* its holder is killed */

	hk_rundir_sweep();
	CHECK_EQ(access(c.path, F_OK), 0);
	rmdir(child);
	hk_rundir_sweep();
	CHECK(access(c.path, F_OK) != 0);
	CHECK(access(rd.dir, F_OK) != 0);
	tmp_gone(base);
}
