/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_start.c: ranks find or start the daemon; refusals and their reasons.
 */
#include "hostd/rundir.h"
#include "tests/unit/hostd/rig.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define RACERS 16

/* Many ranks start at once: one of them starts the daemon, and each gets its own slot. */
TEST(many_start_one)
{
	struct hk_hostd_request req[RACERS];
	struct rig_rank r[RACERS];

	for (unsigned round = 0; round < 3; round++) {
		uint64_t slots = 0;
		for (unsigned i = 0; i < RACERS; i++)
			req[i] = rig_request(0x100 + round, i, RACERS);
		rig_ranks(r, RACERS, req);
		for (unsigned i = 0; i < RACERS; i++) {
			CHECK_MSG(r[i].rc == 0, "%s", r[i].text);
			/* the id is random for each daemon: all ranks have the same one */
			CHECK(r[i].lease.node_id == r[0].lease.node_id);
			CHECK_EQ(r[i].lease.slots, RACERS);
			CHECK_EQ(r[i].lease.generation, 1);
			CHECK_EQ(r[i].lease.lcore, 2 + r[i].lease.slot);
			slots |= UINT64_C(1) << r[i].lease.slot;
		}
		CHECK_EQ(slots, (UINT64_C(1) << RACERS) - 1);
		/* in one session, the kernel gives ranks and daemon the core in turn */
		CHECK_EQ(getsid(rig_daemon_pid(rig_job(0x100 + round))), getsid(0));
		for (unsigned i = 0; i < RACERS; i++)
			rig_rank_leave(&r[i]);
		rig_all_gone(); /* the daemon has ended with its last rank */
	}
}

/* The CPUs that process @pid may use, of those that this thread may: bits 0 to 63. */
static uint64_t cpus_of(pid_t pid)
{
	cpu_set_t set;
	uint64_t bits = 0;

	CHECK_EQ(sched_getaffinity(pid, sizeof(set), &set), 0);
	for (int i = 0; i < 64; i++)
		bits |= (uint64_t)CPU_ISSET(i, &set) << i;
	return bits;
}

static void use(cpu_set_t *set, uint64_t bits)
{
	CPU_ZERO(set);
	for (int i = 0; i < 64; i++)
		if (bits >> i & 1)
			CPU_SET(i, set);
}

/* mpirun binds a rank to a core. A daemon there would take turns with it. */
TEST(runs_where_it_is_told)
{
	uint64_t all = cpus_of(0), first = all & -all;
	cpu_set_t wide, narrow;

	use(&wide, all);
	use(&narrow, first);
	CHECK_EQ(sched_setaffinity(0, sizeof(narrow), &narrow), 0);
	struct hk_hostd_request req = rig_request(0x150, 0, 1);
	req.cpus = &wide;
	struct hk_hostd_client *h = rig_connect_as(&req);
	CHECK_EQ(cpus_of(0), first);
	CHECK_EQ(cpus_of(rig_daemon_pid(rig_job(0x150))), all);
	rig_leave(h);
	rig_all_gone();
	h = rig_attach(0x151, 0, 1);
	CHECK_EQ(cpus_of(rig_daemon_pid(rig_job(0x151))), first);
	rig_leave(h);
	CHECK_EQ(sched_setaffinity(0, sizeof(wide), &wide), 0);
	rig_all_gone();
}

static void refused(struct hk_hostd_request req, int code, const char *says)
{
	struct hk_hostd_client *h;

	CHECK_REFUSED(hk_hostd_client_connect(&req, &h, ERR), code, says, "fix: ");
	CHECK(h == NULL);
}

/* If the daemon does not start, the rank gets the daemon's own error. */
TEST(failures_are_told)
{
	struct hk_hostd_request req = rig_request(0x200, 0, 1);
	req.port = "fake:broken";
	refused(req, -ECHILD, "there are no huge pages");
	req.port = NULL;
	refused(req, -ECHILD, "no port is given");
	req = rig_request(0x200, 0, 1);
	req.program = "/no/such/hikyakud";
	refused(req, -ENOENT, "/no/such/hikyakud");
	req.program = "/bin/true";
	refused(req, -ECHILD, "without an error text");
	req = rig_request(0x200, 0, 65);
	refused(req, -ECHILD, "--slots");
	setenv("FAKE_JOIN_FAILS", "1", 1);
	refused(rig_request(0x200, 0, 1), -ECHILD, "the fake secondary may not start");
	unsetenv("FAKE_JOIN_FAILS");
	req = rig_request(0x200, 0, 1);
	req.name = "absent";
	refused(req, -ENOENT, "hikyaku daemon start --name absent");
	req.name = "../evil";
	refused(req, -EINVAL, "not a valid name");
	rig_all_gone();
	/* the next daemon starts */
	hk_hostd_client_close(rig_attach(0x200, 0, 1));
	struct hk_hostd_client *h = rig_attach(0x201, 0, 1);
	rig_leave(h);
	/* the first rank left without LEAVE: its slot and the daemon stay until this process ends
	 */
	rig_stop(rig_job(0x200));
}

TEST(too_many_and_wrong)
{
	struct hk_hostd_request req;

	struct hk_hostd_client *a = rig_attach(0x300, 0, 2), *b = rig_attach(0x300, 1, 2);
	req = rig_request(0x300, 2, 3);
	refused(req, -EUSERS, "has 3 ranks on this node");
	req = rig_request(0x300, 1, 2);
	refused(req, -EEXIST, "endpoint 1");
	req.endpoint = 7;
	refused(req, -EUSERS, "all 2 slots");
	req.name = rig_job(0x300);
	req.job_key = 0x301;
	refused(req, -EACCES, "00000301");
	rig_stop(rig_job(0x300));
	hk_hostd_client_close(a);
	hk_hostd_client_close(b);
}

/* Messages that the client never sends. */
TEST(versions_and_nodes)
{
	union hk_ctl_msg m;
	static const struct {
		int code;
		const char *says;
	} want[] = {{-EPROTONOSUPPORT, "version 2"},
		    {-EPROTONOSUPPORT, "Hikyaku 9.9"},
		    {-EXDEV, "elsewhere"},
		    {-EPERM, "PID namespace"},
		    {-EPROTO, "WIRES"},
		    {-EPROTO, "before HELLO"},
		    {-EPROTO, "is not a request"}};

	CHECK(rig_daemon("hand", NULL, "--port", rig_port));
	for (unsigned i = 0; i < HK_ARRAY_LEN(want); i++) {
		int fd = rig_connect("hand");
		CHECK(fd >= 0);
		rig_hello(&m, 0x400);
		if (i == 0)
			m.hdr.version = HK_CTL_VERSION + 1;
		if (i == 1)
			hk_ctl_set_text(m.hello.release, sizeof(m.hello.release), "9.9");
		if (i == 2)
			hk_ctl_set_text(m.hello.host, sizeof(m.hello.host), "elsewhere");
		if (i == 3)
			m.hello.pid++;
		if (i == 4)
			hk_ctl_init(&m, HK_CTL_WIRES, 1, 1);
		if (i == 5)
			hk_ctl_init(&m, HK_CTL_LEAVE, 1, 0);
		if (i == 6)
			hk_ctl_init(&m, HK_CTL_LEFT, 1, 0);
		rig_error(fd, &m, want[i].code, want[i].says);
		CHECK_EQ(hk_ctl_recv(fd, &m, hk_clock_ms() + RIG_WAIT_MS, NULL), 0);
		close(fd);
	}
	rig_stop("hand");
}

/* The administrator's daemon accepts ranks of any job of the user. Then jobs do not start their
 * own. */
TEST(administrators_first)
{
	const char *said;

	CHECK(rig_daemon("default", NULL, "--port", rig_port, "--slots", "2"));
	CHECK(!rig_daemon("default", &said, "--port", rig_port));
	CHECK_HAS(said, "another hikyakud 'default' runs");
	struct hk_hostd_client *a = rig_attach(0x500, 0, 1), *b = rig_attach(0x501, 0, 4);
	CHECK(hk_hostd_client_lease(a)->node_id == hk_hostd_client_lease(b)->node_id);
	CHECK_EQ(rig_connect(rig_job(0x500)), -ENOENT);
	hk_hostd_client_close(a);
	hk_hostd_client_close(b);
	CHECK(rig_status("default") != NULL); /* it stays when it has no ranks */
	rig_stop("default");
}

static void touch(const char *dir, const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s/%s", rig_dir, dir, name);
	int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
	CHECK_MSG(fd >= 0, "%s: %s", path, strerror(errno));
	close(fd);
}

static void make(const char *dir, const char *name)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s/%s", rig_dir, dir, name);
	CHECK_MSG(mkdir(path, 0700) == 0 || errno == EEXIST, "%s: %s", path, strerror(errno));
}

/* Files of a daemon and janitor that were both killed: of our name, and of another name. */
TEST(stale_things)
{
	struct hk_rundir rd;
	char other[80];

	make("run", "");
	make("dpdk", "");
	for (int i = 0; i < 2; i++) {
		const char *name = i ? "job-00000bad-elsewhere" : rig_job(0x600);
		snprintf(other, sizeof(other), "%s/lock", name);
		make("run", name);
		touch("run", other);
		snprintf(other, sizeof(other), "%s/control", name);
		touch("run", other);
		snprintf(other, sizeof(other), "%s.start", name);
		touch("run", other);
		CHECK(hk_rundir_find(name, &rd, NULL) == 0);
		make("dpdk", rd.shared);
		snprintf(other, sizeof(other), "%s/fake_memory", rd.shared);
		touch("dpdk", other);
	}
	struct hk_hostd_client *h = rig_attach(0x600, 0, 1);
	rig_stop(rig_job(0x600));
	hk_hostd_client_close(h);
}

static void as_stranger(void)
{
	union hk_ctl_msg m;
	struct hk_hostd_client *h;
	struct hk_hostd_request req = rig_request(0x700, 0, 1);

	/* the directory is private */
	CHECK_REFUSED(hk_hostd_client_connect(&req, &h, ERR), -EPERM, "belongs to user 0");
	/* the daemon refuses other users even if the directory is open */
	int fd = rig_connect("mine");
	CHECK(fd >= 0);
	rig_hello(&m, 0x700);
	rig_error(fd, &m, -EPERM, "is for ranks of user 0");
	close(fd);
	static const enum hk_ctl_type ask[] = {HK_CTL_STATUS, HK_CTL_STATS, HK_CTL_STOP};
	for (unsigned i = 0; i < HK_ARRAY_LEN(ask); i++) {
		fd = rig_connect("mine");
		hk_ctl_init(&m, ask[i], 1, 0);
		rig_error(fd, &m, -EPERM, "");
		close(fd);
	}
}

/* Another user has its own daemon. Root may read its status and stop it, but not attach. */
static char other_run[96];
static void own_daemon(void)
{
	setenv("HIKYAKU_RUNDIR", other_run, 1);
	CHECK(rig_daemon("theirs", NULL, "--port", rig_port));
	struct hk_hostd_request req = rig_request(0x701, 0, 1);
	req.name = "theirs";
	rig_connect_as(&req);
}

TEST(two_users)
{
	union hk_ctl_msg m;
	char path[128];

	CHECK_MSG(geteuid() == 0, "this test needs root");
	CHECK(rig_daemon("mine", NULL, "--port", rig_port));
	CHECK(chmod(rig_dir, 0777) == 0);
	static const char *const open_up[] = {"", "/mine", "/mine/control"};
	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/run%s", rig_dir, open_up[i]);
		CHECK(chmod(path, i == 2 ? 0777 : 0755) == 0);
	}
	rig_as_user(65534, as_stranger);
	rig_stop("mine");

	snprintf(other_run, sizeof(other_run), "%s/other", rig_dir);
	rig_as_user(65534, own_daemon);
	struct hk_hostd_request req = rig_request(0x702, 0, 1);
	req.name = "theirs";
	char run[96];
	snprintf(run, sizeof(run), "%s", getenv("HIKYAKU_RUNDIR"));
	setenv("HIKYAKU_RUNDIR", other_run, 1);
	refused(req, -EPERM, "belongs to user 65534");
	CHECK(rig_status("theirs") != NULL);
	int fd = rig_connect("theirs");
	rig_hello(&m, 0x702);
	rig_error(fd, &m, -EPERM, "");
	close(fd);
	rig_stop("theirs");
	setenv("HIKYAKU_RUNDIR", run, 1);
	CHECK(rmdir(other_run) == 0);
	CHECK(chmod(rig_dir, 0700) == 0);
	/* a run directory that others may write to is refused */
	snprintf(path, sizeof(path), "%s/run", rig_dir);
	CHECK(chmod(path, 0777) == 0);
	refused(rig_request(0x703, 0, 1), -EPERM, "others may write");
	CHECK(chmod(path, 0700) == 0);
}
