/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_shared.c: ports that processes share. Two "nodes" a and b, each a primary with two
 * secondaries, and between them one memif with two queues. What these processes do: shared_roles.h.
 */
#include "port/internal.h"
#include "tests/unit/port/shared_rig.h"
#include "tests/unit/port/shared_roles.h"

#include <errno.h>
#include <fcntl.h>
#include <rte_eal.h>
#include <rte_version.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGES 48 /* of two primaries, and some */

/* ---- the nodes -------------------------------------------------------------------------------- */

struct node {
	struct rig_proc primary, secondary[QUEUES];
	char name[32];
	unsigned port;
};

static struct node a, b;

static void say_all(const char *line)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_say(&a.secondary[q], line);
		rig_say(&b.secondary[q], line);
	}
}

static void hear_all(const char *want)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_hear(&a.secondary[q], want);
		rig_hear(&b.secondary[q], want);
	}
}

static void start_primary(struct node *n, char side, const char *role)
{
	char text[256];
	snprintf(n->name, sizeof(n->name), "hkt-%c", side);
	snprintf(text, sizeof(text), "primary %s %s memif:socket=%s/w.sock,role=%s,frame=%d",
		 n->name, rig_huge, rig_dir, role, FRAME);
	rig_spawn(&n->primary, n->name, text);
	rig_hear(&n->primary, "ready");
}

static void start_second(struct node *n, unsigned q)
{
	char text[64], name[48];
	snprintf(text, sizeof(text), "secondary %s %u", n->name, q);
	snprintf(name, sizeof(name), "%.16s/%u", n->name, q);
	rig_spawn(&n->secondary[q], name, text);
	rig_hear(&n->secondary[q], "started ");
}

static void attach(struct node *n, unsigned q)
{
	char text[64];
	snprintf(text, sizeof(text), "attach %u %d", n->port, RIG_WAIT_MS);
	rig_say(&n->secondary[q], text);
	rig_hear(&n->secondary[q], "attached 0 ");
}

/* Both nodes, all attached. Secondaries of a start before there is a port, those of b after. */
static void start_nodes(void)
{
	char text[64];
	start_primary(&a, 'a', "server");
	start_primary(&b, 'b', "client");
	for (unsigned q = 0; q < QUEUES; q++)
		start_second(&a, q);
	rig_say(&a.secondary[0], "attach 0 20");
	CHECK(strstr(rig_hear(&a.secondary[0], "attached -110 "), "has not opened it"));
	/* one that is stopped holds up nobody */
	CHECK_EQ(kill(a.secondary[1].pid, SIGSTOP), 0);
	rig_say(&a.primary, "open");
	a.port = (unsigned)atoi(rig_hear(&a.primary, "open "));
	snprintf(text, sizeof(text), "attach %u 20", a.port); /* open, but no link yet */
	rig_say(&a.secondary[0], text);
	CHECK(strstr(rig_hear(&a.secondary[0], "attached -110 "), "link"));
	rig_say(&b.primary, "open");
	b.port = (unsigned)atoi(rig_hear(&b.primary, "open "));
	rig_say(&a.primary, "wait");
	rig_hear(&a.primary, "up");
	CHECK_EQ(kill(a.secondary[1].pid, SIGCONT), 0);
	for (unsigned q = 0; q < QUEUES; q++) {
		start_second(&b, q);
		attach(&a, q);
		attach(&b, q);
	}
}

static void nothing_left(const struct node *n)
{
	char path[128];
	snprintf(path, sizeof(path), "%s/dpdk", rig_run);
	CHECK_EQ(rig_files(path, n->name), 0);
	CHECK_EQ(rig_files(rig_huge, n->name), 0);
}

static void end_node(struct node *n)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_say(&n->secondary[q], "end");
		rig_gone(&n->secondary[q]);
	}
	rig_say(&n->primary, "end");
	rig_gone(&n->primary);
	nothing_left(n);
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void each_its_own_queue(void)
{
	char text[64];
	start_nodes();
	say_all("exchange 1 5000");
	hear_all("done 5000");
	rig_say(&a.secondary[1], "faults");
	rig_hear(&a.secondary[1], "doubled");
	rig_say(&a.primary, "ring");
	snprintf(text, sizeof(text), "attach %.8s 0", rig_hear(&a.primary, "ring "));
	rig_say(&a.secondary[0], text);
	CHECK(strstr(rig_hear(&a.secondary[0], "attached -95 "), "nobody has tried"));
	rig_say(&a.secondary[1], "open"); /* a secondary opens nothing */
	CHECK_EQ(atoi(rig_hear(&a.secondary[1], "open ")), -EPERM);
	rig_say(&a.secondary[1], "detach");
	rig_hear(&a.secondary[1], "detached");
	attach(&a, 1);
	say_all("exchange 2 5000");
	hear_all("done 5000");
	say_all("link");
	hear_all("link 1");
	end_node(&a);
	end_node(&b);
}

static void secondary_is_killed(void)
{
	start_nodes();
	say_all("stream 1");
	hear_all("flows");
	rig_kill(&a.secondary[1]);
	rig_say(&b.secondary[1], "stop");
	rig_hear(&b.secondary[1], "done");
	/* the other pair flows all the time */
	rig_say(&a.primary, "reset 1");
	rig_hear(&a.primary, "reset");
	start_second(&a, 1);
	attach(&a, 1);
	rig_say(&a.secondary[1], "exchange 2 5000");
	rig_say(&b.secondary[1], "exchange 2 5000");
	rig_hear(&a.secondary[1], "done 5000");
	rig_hear(&b.secondary[1], "done 5000");
	rig_say(&a.secondary[0], "stop");
	rig_say(&b.secondary[0], "stop");
	CHECK(atoi(rig_hear(&a.secondary[0], "done ")) > STREAM_RUN);
	CHECK(atoi(rig_hear(&b.secondary[0], "done ")) > STREAM_RUN);
	end_node(&a);
	end_node(&b);
}

static void primary_is_killed(void)
{
	struct hk_error err = {""};
	char text[128];
	start_nodes();
	say_all("stream 1");
	hear_all("flows");
	CHECK_EQ(hk_eal_remove_stale(a.name, rig_huge, &err), -EBUSY);
	rig_kill(&a.primary);
	rig_say(&b.primary, "link");
	rig_hear(&b.primary, "link 0");
	say_all("stop");
	hear_all("done");
	say_all("link");
	hear_all("link 0");
	snprintf(text, sizeof(text), "attach %u 50", a.port);
	rig_say(&a.secondary[0], text); /* nobody to attach to */
	rig_hear(&a.secondary[0], "attached -");

	snprintf(text, sizeof(text), "%s/dpdk", rig_run);
	CHECK(rig_files(rig_huge, a.name) > 0 && rig_files(text, a.name) == 1);
	CHECK_MSG(hk_eal_remove_stale(a.name, NULL, &err) == 0, "%s", err.text);
	nothing_left(&a);
	for (unsigned q = 0; q < QUEUES; q++) { /* they still live, and end well */
		rig_say(&a.secondary[q], "end");
		rig_gone(&a.secondary[q]);
	}
	nothing_left(&a);
	end_node(&b);
}

static void wake(struct rig_proc *sleeper, const struct rig_proc *ringer, const char *ring,
		 const char *hears)
{
	rig_say(sleeper, "sleep");
	rig_hear(sleeper, "asleep");
	rig_say(ringer, ring);
	rig_hear(sleeper, hears);
}

/* Who sleeps is woken, from its own node and from the other; whatever comes on a wire's bell says nothing
 * else, and a bell is neither a sign of life nor of death. */
static void bells_wake(void)
{
	start_nodes();
	wake(&b.secondary[0], &b.secondary[1], "ring here", "rung here");
	wake(&b.secondary[0], &a.secondary[1], "ring wire", "rung on a wire");
	wake(&b.secondary[0], &a.secondary[0], "ring wire", "rung on a wire");
	wake(&a.secondary[1], &b.secondary[1], "ring wire", "rung on a wire");
	rig_say(&a.secondary[0], "ring badly");
	rig_hear(&a.secondary[0], "rang badly");
	rig_say(&b.primary, "link");
	rig_hear(&b.primary, "link 1");
	wake(&b.secondary[0], &b.secondary[1], "ring here", "rung here");
	wake(&b.secondary[0], &a.secondary[1], "ring wire", "rung on a wire");
	/* who attaches anew has it again */
	rig_say(&b.secondary[0], "detach");
	rig_hear(&b.secondary[0], "detached");
	attach(&b, 0);
	wake(&b.secondary[0], &a.secondary[1], "ring wire", "rung on a wire");
	/* where there is a switch, it alone is woken by a wire, and hands on */
	rig_say(&b.primary, "hear");
	rig_hear(&b.primary, "asleep");
	rig_say(&b.secondary[0], "detach");
	rig_hear(&b.secondary[0], "detached");
	attach(&b, 0);
	wake(&b.secondary[0], &a.secondary[1], "ring wire", "rung here");
	rig_hear(&b.primary, "handed on");
	/* … also what comes while the poller is awake */
	rig_say(&b.primary, "hear");
	rig_hear(&b.primary, "asleep");
	rig_say(&a.secondary[1], "ring wire");
	rig_hear(&b.primary, "handed on");
	rig_say(&b.secondary[0], "asked");
	rig_hear(&b.secondary[0], "asked 1, then 0");
	say_all("exchange 1 2000");
	hear_all("done 2000");
	end_node(&a);
	rig_say(&b.primary, "link");
	rig_hear(&b.primary, "link 0");
	/* the end of a wire does not keep anybody awake */
	wake(&b.secondary[0], &b.secondary[1], "ring here", "rung here");
	end_node(&b);
}

/* Killed all, and started anew under the same name without a clean-up between. */
static void name_is_used_again(void)
{
	start_primary(&a, 'a', "server");
	start_second(&a, 0);
	rig_kill(&a.primary);
	start_primary(&a, 'a', "server");
	rig_say(&a.secondary[0], "attach 0 50"); /* not to the new one */
	CHECK(strstr(rig_hear(&a.secondary[0], "attached -"), "ended"));
	rig_kill(&a.secondary[0]);
	start_second(&a, 0);
	rig_kill(&a.secondary[0]);
	rig_say(&a.primary, "end");
	rig_gone(&a.primary);
	nothing_left(&a);
}

/* The other node goes in good order while our secondaries poll. */
static void peer_leaves(void)
{
	start_nodes();
	say_all("stream 1");
	hear_all("flows");
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_say(&b.secondary[q], "stop");
		rig_hear(&b.secondary[q], "done");
	}
	end_node(&b);
	rig_say(&a.primary, "link");
	rig_hear(&a.primary, "link 0");
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_say(&a.secondary[q], "stop");
		rig_hear(&a.secondary[q], "done");
		rig_say(&a.secondary[q], "link");
		rig_hear(&a.secondary[q], "link 0");
	}
	end_node(&a);
}

/* ---- what is refused -------------------------------------------------------------------------- */

static void expect(const char *role, int code, const char *says)
{
	struct rig_proc p = {0};
	char text[256];
	int rc;
	snprintf(text, sizeof(text), "try %s", role);
	rig_spawn(&p, "try", text);
	const char *said = rig_hear(&p, "init ");
	CHECK(sscanf(said, "%d", &rc) == 1);
	CHECK_MSG(rc == code && strstr(said, says) && strstr(said, "fix: "),
		  "%s: \"%s\", and not %d with \"%s\"", role, said, code, says);
	rig_gone(&p);
}

/* The configuration of a primary that is not one of ours, and lives as long as this process. */
static int fake_primary(const char *name, uint32_t magic, uint32_t version)
{
	char path[160];
	uint32_t head[1024] = {magic, version};
	snprintf(path, sizeof(path), "%s/dpdk", rig_run);
	CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
	snprintf(path, sizeof(path), "%s/dpdk/%s", rig_run, name);
	CHECK_EQ(mkdir(path, 0700), 0);
	strcat(path, "/config");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	CHECK(fd >= 0 && write(fd, head, sizeof(head)) == sizeof(head));
	CHECK_EQ(fcntl(fd, F_SETLK, &lock), 0);
	return fd;
}

static void refused(void)
{
	char text[256];
	struct hk_error err = {""};
	snprintf(text, sizeof(text), "primary ../x %s 32 0", rig_huge);
	expect(text, -EINVAL, "no name");
	snprintf(text, sizeof(text), "primary hkt-a %s 32 0", rig_run);
	expect(text, -ENODEV, "not in a hugetlbfs; fix: name one in a hugetlbfs");
	expect("primary hkt-a /nowhere 32 0", -ENOENT, "/nowhere, does not exist; fix: name one");
	snprintf(text, sizeof(text), "primary hkt-a %s 60000 0", rig_huge);
	expect(text, -ENOMEM, "huge pages");
	CHECK_EQ(chmod(rig_dir, 0755), 0);
	snprintf(text, sizeof(text), "primary hkt-a %s 32 65534", rig_huge);
	expect(text, -EACCES, "no permission");
	expect("secondary hkt-a - 0 0", -ENOENT, "no primary");

	int fd = fake_primary("hkt-v", RTE_MAGIC, RTE_VERSION + 0x10000);
	expect("secondary hkt-v - 0 0", -EPROTONOSUPPORT, "runs DPDK");
	snprintf(text, sizeof(text), "primary hkt-v %s 32 0", rig_huge);
	expect(text, -EADDRINUSE, "another primary");
	close(fd);
	expect("secondary hkt-v - 0 0", -ENOENT, "no primary"); /* the file alone is no primary */
	CHECK_EQ(hk_eal_remove_stale("hkt-v", NULL, &err), 0);
	CHECK_EQ(hk_eal_remove_stale("hkt-v", NULL, &err), 0); /* nothing there */

	fd = fake_primary("hkt-s", 0, 0);
	expect("secondary hkt-s - 0 0", -ETIMEDOUT, "not finished");
	close(fd);
	snprintf(text, sizeof(text), "%s/dpdk/hkt-s/somebody's", rig_run);
	CHECK_EQ(mkdir(text, 0700), 0);
	CHECK_EQ(hk_eal_remove_stale("hkt-s", NULL, &err), -ENOTEMPTY);
	CHECK_MSG(strstr(err.text, "hkt-s"), "%s", err.text);
}

/* No root, a directory in the hugetlbfs that an administrator has made. */
static void ordinary_user(void)
{
	struct rig_proc p = {0};
	char path[128], text[256];
	snprintf(path, sizeof(path), "%s/user", rig_huge);
	CHECK(mkdir(path, 0700) == 0 && chown(path, 65534, 65534) == 0);
	snprintf(text, sizeof(text), "%s/dpdk", rig_run); /* root's */
	CHECK(mkdir(text, 0700) == 0 || errno == EEXIST);
	CHECK(chmod(rig_dir, 0755) == 0 && chmod(rig_huge, 0755) == 0 && chmod(rig_run, 0755) == 0);
	snprintf(text, sizeof(text), "primary hkt-u %s 32 65534", path);
	expect(text, -EACCES, "XDG_RUNTIME_DIR");

	char run[128];
	snprintf(run, sizeof(run), "%s/user-run", rig_dir);
	CHECK(mkdir(run, 0700) == 0 && chown(run, 65534, 65534) == 0);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", run, 1), 0);
	snprintf(text, sizeof(text), "try primary hkt-u %s 32 65534", path);
	rig_spawn(&p, "user", text);
	rig_hear(&p, "init 0");
	rig_gone(&p);
	CHECK_EQ(rig_files(path, ""), 0);
	strcat(run, "/dpdk");
	CHECK_EQ(rig_files(run, ""), 0);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", rig_run, 1), 0);
}

/* Tests and labs that reserve huge pages at once would lose some without it. */
static void pool_of_pages_is_locked(void)
{
	int lock = rig_pool_lock(3 * RIG_WAIT_MS);
	CHECK(lock >= 0);
	CHECK_EQ(rig_pool_lock(0), -1);
	close(lock);
	lock = rig_pool_lock(3 * RIG_WAIT_MS);
	CHECK(lock >= 0);
	close(lock);
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"each_its_own_queue", each_its_own_queue},
		{"secondary_is_killed", secondary_is_killed},
		{"primary_is_killed", primary_is_killed},
		{"bells_wake", bells_wake},
		{"name_is_used_again", name_is_used_again},
		{"peer_leaves", peer_leaves},
		{"ordinary_user", ordinary_user},
		{"refused", refused},
		{"pool_of_pages_is_locked", pool_of_pages_is_locked},
	};
	if (argc > 3 && strcmp(argv[1], "--role") == 0) {
		hk_test_now.test = argv[2];
		if (strcmp(argv[2], "primary") == 0)
			role_primary(argv + 3);
		else if (strcmp(argv[2], "secondary") == 0)
			role_secondary(argv + 3);
		else
			role_try(argv + 3);
		return 0;
	}
	rig_up(PAGES);
	int rc = hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
	rig_down();
	return rc;
}
