/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_shared.c: ports that processes share. There are two "nodes" a and b, each a
 * primary with two secondaries, and one memif with two queues between them. shared_roles.h
 * describes the processes.
 */
#include "port/internal.h"
#include "tests/support/shared.h"
#include "tests/unit/port/shared_roles.h"

#include <errno.h>
#include <fcntl.h>
#include <rte_eal.h>
#include <rte_version.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGES 48 /* for two primaries, and some more */

/* ---- the nodes ------------------------------------------------------------------------------- */

struct node {
	struct rig_proc primary, secondary[QUEUES];
	char name[32];
	unsigned port;
};

static struct node a, b;

#define STARTERS     12
#define START_ROUNDS 12

static void command_all(const char *line)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_command(&a.secondary[q], "%s", line);
		rig_command(&b.secondary[q], "%s", line);
	}
}

static void expect_all(const char *want)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_expect(&a.secondary[q], want);
		rig_expect(&b.secondary[q], want);
	}
}

static void start_primary(struct node *n, char side, const char *role)
{
	snprintf(n->name, sizeof(n->name), "hkt-%c", side);
	rig_spawn(&n->primary, n->name, "primary %s %s memif:socket=%s/w.sock,role=%s,frame=%d",
		  n->name, rig_huge, rig_dir, role, FRAME);
	rig_expect(&n->primary, "ready");
}

static void start_second(struct node *n, unsigned q)
{
	char name[48];
	snprintf(name, sizeof(name), "%.16s/%u", n->name, q);
	rig_spawn(&n->secondary[q], name, "secondary %s %u", n->name, q);
	rig_expect(&n->secondary[q], "started ");
}

static void attach(struct node *n, unsigned q)
{
	rig_command(&n->secondary[q], "attach %u %d", n->port, RIG_WAIT_MS);
	rig_expect(&n->secondary[q], "attached 0 ");
}

/* Starts both nodes and attaches all secondaries: those of a start before there is a port, those
 * of b after. */
static void start_nodes(void)
{
	start_primary(&a, 'a', "server");
	start_primary(&b, 'b', "client");
	for (unsigned q = 0; q < QUEUES; q++)
		start_second(&a, q);
	CHECK_HAS(rig_call(&a.secondary[0], "attach 0 20", "attached -110 "), "has not opened it");
	/* a stopped secondary delays nobody */
	CHECK_EQ(kill(a.secondary[1].pid, SIGSTOP), 0);
	a.port = (unsigned)atoi(rig_call(&a.primary, "open", "open "));
	/* the port is open, but its link is not up yet */
	rig_command(&a.secondary[0], "attach %u 20", a.port);
	CHECK_HAS(rig_expect(&a.secondary[0], "attached -110 "), "link");
	b.port = (unsigned)atoi(rig_call(&b.primary, "open", "open "));
	rig_call(&a.primary, "wait", "up");
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
	CHECK_EQ(tmp_files(path, n->name), 0);
	CHECK_EQ(tmp_files(rig_huge, n->name), 0);
}

static void end_node(struct node *n)
{
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_command(&n->secondary[q], "end");
		rig_gone(&n->secondary[q]);
	}
	rig_command(&n->primary, "end");
	rig_gone(&n->primary);
	nothing_left(n);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(each_its_own_queue)
{
	start_nodes();
	command_all("exchange 1 5000");
	expect_all("done 5000");
	rig_call(&a.secondary[1], "faults", "doubled");
	rig_call(&a.secondary[0], "take others", "refused");
	rig_command(&a.secondary[0], "attach %d 0", atoi(rig_call(&a.primary, "ring", "ring ")));
	CHECK_HAS(rig_expect(&a.secondary[0], "attached -95 "), "nobody has tried");
	/* a secondary may not open ports */
	CHECK_EQ(atoi(rig_call(&a.secondary[1], "open", "open ")), -EPERM);
	rig_call(&a.secondary[1], "detach", "detached");
	attach(&a, 1);
	command_all("exchange 2 5000");
	expect_all("done 5000");
	command_all("link");
	expect_all("link 1");
	end_node(&a);
	end_node(&b);
}

TEST(secondary_is_killed)
{
	start_nodes();
	command_all("stream 1");
	expect_all("flows");
	rig_kill(&a.secondary[1]);
	rig_call(&b.secondary[1], "stop", "done");
	/* the other pair exchanges frames all the time */
	rig_call(&a.primary, "reset 1", "reset");
	start_second(&a, 1);
	attach(&a, 1);
	rig_command(&a.secondary[1], "exchange 2 5000");
	rig_command(&b.secondary[1], "exchange 2 5000");
	rig_expect(&a.secondary[1], "done 5000");
	rig_expect(&b.secondary[1], "done 5000");
	rig_command(&a.secondary[0], "stop");
	rig_command(&b.secondary[0], "stop");
	CHECK(atoi(rig_expect(&a.secondary[0], "done ")) > STREAM_RUN);
	CHECK(atoi(rig_expect(&b.secondary[0], "done ")) > STREAM_RUN);
	end_node(&a);
	end_node(&b);
}

static void replace(struct node *n, unsigned q)
{
	rig_kill(&n->secondary[q]);
	rig_call(&n->primary, q ? "reset 1" : "reset 0", "reset");
	start_second(n, q);
	attach(n, q);
}

/* Nobody sees a damaged frame, at either end of the memif, and the successor uses the queue. */
TEST(secondary_is_killed_inside_the_driver)
{
	struct node *const node[] = {&a, &b};

	start_nodes();
	for (unsigned i = 0; i < 2; i++) {
		struct node *n = node[i], *peer = node[1 - i];

		command_all("exchange 1 1000"); /* the rings have gone round */
		expect_all("done 1000");
		rig_call(&n->secondary[1], "stay in tx", "in tx");
		replace(n, 1);
		rig_command(&n->secondary[1], "exchange 2 5000");
		rig_command(&peer->secondary[1], "exchange 2 5000");
		rig_expect(&n->secondary[1], "done 5000");
		rig_expect(&peer->secondary[1], "done 5000");
	}
	rig_call(&a.secondary[1], "stay in rx", "in rx");
	int full = atoi(rig_call(&b.secondary[1], "fill 3", "full "));
	replace(&a, 1);
	CHECK_EQ(atoi(rig_call(&a.secondary[1], "drain", "drained ")), full);
	command_all("exchange 4 1000");
	expect_all("done 1000");
	end_node(&a);
	end_node(&b);
}

TEST(primary_is_killed)
{
	char text[128];
	start_nodes();
	command_all("stream 1");
	expect_all("flows");
	CHECK_EQ(hk_eal_remove_stale(a.name, rig_huge, ERR), -EBUSY);
	rig_kill(&a.primary);
	rig_call(&b.primary, "link", "link 0");
	command_all("stop");
	expect_all("done");
	command_all("link");
	expect_all("link 0");
	rig_command(&a.secondary[0], "attach %u 50", a.port); /* there is no primary to attach to */
	rig_expect(&a.secondary[0], "attached -");

	snprintf(text, sizeof(text), "%s/dpdk", rig_run);
	CHECK(tmp_files(rig_huge, a.name) > 0 && tmp_files(text, a.name) == 1);
	CHECK_OK(hk_eal_remove_stale(a.name, NULL, ERR));
	nothing_left(&a);
	for (unsigned q = 0; q < QUEUES; q++) { /* they are still alive, and end in good order */
		rig_command(&a.secondary[q], "end");
		rig_gone(&a.secondary[q]);
	}
	nothing_left(&a);
	end_node(&b);
}

static void wake(struct rig_proc *sleeper, const struct rig_proc *signaller, const char *command,
		 const char *answer)
{
	rig_command(sleeper, "sleep");
	rig_expect(sleeper, "asleep");
	rig_command(signaller, "%s", command);
	rig_expect(sleeper, answer);
}

/* A sleeper is woken from its own node and from the other. Other bytes on a wire have no effect,
 * and a signal is not a sign of life or death. */
TEST(wakeups_wake)
{
	start_nodes();
	wake(&b.secondary[0], &b.secondary[1], "signal here", "woken here");
	wake(&b.secondary[0], &a.secondary[1], "signal wire", "woken by a wire");
	wake(&b.secondary[0], &a.secondary[0], "signal wire", "woken by a wire");
	wake(&a.secondary[1], &b.secondary[1], "signal wire", "woken by a wire");
	rig_call(&a.secondary[0], "signal badly", "signalled badly");
	rig_call(&b.primary, "link", "link 1");
	wake(&b.secondary[0], &b.secondary[1], "signal here", "woken here");
	wake(&b.secondary[0], &a.secondary[1], "signal wire", "woken by a wire");
	/* a secondary that attaches again gets the wakeup again */
	rig_call(&b.secondary[0], "detach", "detached");
	attach(&b, 0);
	wake(&b.secondary[0], &a.secondary[1], "signal wire", "woken by a wire");
	/* with a switch, a wire wakes only the switch, which passes the signal on */
	rig_call(&b.primary, "listen", "asleep");
	rig_call(&b.secondary[0], "detach", "detached");
	attach(&b, 0);
	wake(&b.secondary[0], &a.secondary[1], "signal wire", "woken here");
	rig_expect(&b.primary, "passed on");
	/* also a signal that comes while the poller is awake */
	rig_call(&b.primary, "listen", "asleep");
	rig_command(&a.secondary[1], "signal wire");
	rig_expect(&b.primary, "passed on");
	rig_call(&b.secondary[0], "requested", "requested 1, then 0");
	command_all("exchange 1 2000");
	expect_all("done 2000");
	end_node(&a);
	rig_call(&b.primary, "link", "link 0");
	/* the end of a wire keeps nobody awake */
	wake(&b.secondary[0], &b.secondary[1], "signal here", "woken here");
	end_node(&b);
}

/* The client's link is up, and the server's driver still reads the control socket. A signal that
 * comes so early has no effect on the wire. */
TEST(early_signal_breaks_no_wire)
{
	start_primary(&a, 'a', "server");
	start_primary(&b, 'b', "client");
	a.port = (unsigned)atoi(rig_call(&a.primary, "open", "open "));
	b.port = (unsigned)atoi(rig_call(&b.primary, "open", "open "));
	start_second(&b, 0);
	attach(&b, 0);
	rig_call(&b.secondary[0], "signal until read", "read");
	rig_call(&a.primary, "wait", "up");
	rig_command(&b.secondary[0], "end");
	rig_gone(&b.secondary[0]);
	for (struct node *n = &a; n; n = n == &a ? &b : NULL) {
		rig_command(&n->primary, "end");
		rig_gone(&n->primary);
		nothing_left(n);
	}
}

/* The guard of the server takes the control socket over while signals arrive. */
TEST(signals_during_the_exchange_break_no_wire)
{
	start_primary(&a, 'a', "server");
	start_primary(&b, 'b', "client");
	a.port = (unsigned)atoi(rig_call(&a.primary, "open", "open "));
	b.port = (unsigned)atoi(rig_call(&b.primary, "open", "open "));
	for (unsigned q = 0; q < QUEUES; q++) {
		start_second(&a, q);
		start_second(&b, q);
	}
	attach(&b, 0);
	rig_call(&b.secondary[0], "signal on", "signals");
	rig_call(&a.primary, "wait", "up");
	rig_call(&b.secondary[0], "stop", "stopped");
	attach(&b, 1);
	for (unsigned q = 0; q < QUEUES; q++)
		attach(&a, q);
	command_all("exchange 1 500");
	expect_all("done 500");
	end_node(&a);
	end_node(&b);
}

/* All are killed, and started again under the same name without a clean-up. */
TEST(name_is_used_again)
{
	start_primary(&a, 'a', "server");
	start_second(&a, 0);
	rig_kill(&a.primary);
	start_primary(&a, 'a', "server");
	/* the secondary does not attach to the new one */
	CHECK_HAS(rig_call(&a.secondary[0], "attach 0 50", "attached -"), "ended");
	rig_kill(&a.secondary[0]);
	start_second(&a, 0);
	rig_kill(&a.secondary[0]);
	rig_command(&a.primary, "end");
	rig_gone(&a.primary);
	nothing_left(&a);
}

/* The other node ends in good order while our secondaries poll. */
TEST(peer_leaves)
{
	start_nodes();
	command_all("stream 1");
	expect_all("flows");
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_call(&b.secondary[q], "stop", "done");
	}
	end_node(&b);
	rig_call(&a.primary, "link", "link 0");
	for (unsigned q = 0; q < QUEUES; q++) {
		rig_call(&a.secondary[q], "stop", "done");
		rig_call(&a.secondary[q], "link", "link 0");
	}
	end_node(&a);
}

/* A start failed if another one, at its end, held the lock of a new file for a moment. And each
 * start took memory that its end did not give back, so one of a hundred found none. */
TEST(many_start_at_once)
{
	struct rig_proc p[STARTERS] = {0};
	struct node m = {0};

	start_primary(&m, 'm', "server");
	for (unsigned round = 0; round < START_ROUNDS; round++) {
		for (unsigned i = 0; i < STARTERS; i++)
			rig_spawn(&p[i], "a starter", "try secondary %s - 0 0", m.name);
		for (unsigned i = 0; i < STARTERS; i++) {
			rig_expect(&p[i], "init 0");
			rig_gone(&p[i]);
		}
		rig_command(&m.primary, "go on");
		rig_expect(&m.primary, "going on");
	}
	rig_command(&m.primary, "end");
	rig_gone(&m.primary);
	nothing_left(&m);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Starts DPDK in a process in vain. @role: role_try()'s arguments. */
static void expect(int code, const char *says, const char *role, ...)
{
	struct rig_proc p = {0};
	char text[256];
	va_list ap;

	va_start(ap, role);
	vsnprintf(text, sizeof(text), role, ap);
	va_end(ap);
	rig_spawn(&p, text, "try %s", text);
	const char *said = rig_expect(&p, "init ");
	CHECK_EQ(atoi(said), code);
	CHECK_HAS(said, says, "fix: ");
	rig_gone(&p);
}

/* Creates the configuration of a foreign primary, which is alive as long as this process. */
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

TEST(refused)
{
	expect(-EINVAL, "not a name", "primary ../x %s 32 0", rig_huge);
	expect(-ENODEV, "not in a hugetlbfs; fix: name one in a hugetlbfs", "primary hkt-a %s 32 0",
	       rig_run);
	expect(-ENOENT, "/nowhere, does not exist; fix: name one", "primary hkt-a /nowhere 32 0");
	expect(-ENOMEM, "huge pages", "primary hkt-a %s 60000 0", rig_huge);
	char limited[96];
	snprintf(limited, sizeof(limited), "%s/limited", rig_dir);
	CHECK_EQ(mkdir(limited, 0700), 0);
	CHECK_EQ(mount("none", limited, "hugetlbfs", 0, "pagesize=2M,size=16M"), 0);
	expect(-ENOMEM, "is limited to 16 MB, of which 16 MB are free, and 32 MB are needed",
	       "primary hkt-a %s 32 0", limited);
	CHECK_EQ(umount(limited), 0);
	CHECK_EQ(chmod(rig_dir, 0755), 0);
	expect(-EACCES, "no permission", "primary hkt-a %s 32 65534", rig_huge);
	expect(-ENOENT, "no primary", "secondary hkt-a - 0 0");

	int fd = fake_primary("hkt-v", RTE_MAGIC, RTE_VERSION + 0x10000);
	expect(-EPROTONOSUPPORT, "runs DPDK", "secondary hkt-v - 0 0");
	expect(-EADDRINUSE, "another primary", "primary hkt-v %s 32 0", rig_huge);
	close(fd);
	/* the file alone does not make a primary */
	expect(-ENOENT, "no primary", "secondary hkt-v - 0 0");
	CHECK_OK(hk_eal_remove_stale("hkt-v", NULL, ERR));
	CHECK_OK(hk_eal_remove_stale("hkt-v", NULL, ERR)); /* there are no files */

	fd = fake_primary("hkt-s", 0, 0);
	expect(-ETIMEDOUT, "not finished", "secondary hkt-s - 0 0");
	close(fd);
	char text[128];

	snprintf(text, sizeof(text), "%s/dpdk/hkt-s/somebody's", rig_run);
	CHECK_EQ(mkdir(text, 0700), 0);
	CHECK_REFUSED(hk_eal_remove_stale("hkt-s", NULL, ERR), -ENOTEMPTY, "hkt-s");
}

/* An ordinary user, with a directory in the hugetlbfs that an administrator created. */
TEST(ordinary_user)
{
	struct rig_proc p = {0};
	char path[128], text[256];
	snprintf(path, sizeof(path), "%s/user", rig_huge);
	CHECK(mkdir(path, 0700) == 0 && chown(path, 65534, 65534) == 0);
	snprintf(text, sizeof(text), "%s/dpdk", rig_run); /* owned by root */
	CHECK(mkdir(text, 0700) == 0 || errno == EEXIST);
	CHECK(chmod(rig_dir, 0755) == 0 && chmod(rig_huge, 0755) == 0 && chmod(rig_run, 0755) == 0);
	expect(-EACCES, "XDG_RUNTIME_DIR", "primary hkt-u %s 32 65534", path);

	char run[128];
	snprintf(run, sizeof(run), "%s/user-run", rig_dir);
	CHECK(mkdir(run, 0700) == 0 && chown(run, 65534, 65534) == 0);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", run, 1), 0);
	rig_spawn(&p, "user", "try primary hkt-u %s 32 65534", path);
	rig_expect(&p, "init 0");
	rig_gone(&p);
	CHECK_EQ(tmp_files(path, ""), 0);
	strcat(run, "/dpdk");
	CHECK_EQ(tmp_files(run, ""), 0);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", rig_run, 1), 0);
}

/* Without this lock, tests and labs that reserve huge pages at the same time would lose some. */
TEST(pool_of_pages_is_locked)
{
	int lock = rig_pool_lock(3 * RIG_WAIT_MS);
	CHECK(lock >= 0);
	CHECK_EQ(rig_pool_lock(0), -1);
	close(lock);
	lock = rig_pool_lock(3 * RIG_WAIT_MS);
	CHECK(lock >= 0);
	close(lock);
}

BEFORE_ALL()
{
	rig_up(PAGES);
}

AFTER_ALL()
{
	rig_down();
}
