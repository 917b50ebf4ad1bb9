/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_life.c: ranks and daemons die: the effect on the others, and that no files
 * are left.
 */
#include "tests/unit/hostd/rig.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The slot of a killed rank becomes free and gets the next generation; its neighbour runs on. */
TEST(killed_rank)
{
	struct rig_rank r[2];
	struct hk_hostd_request req[2] = {rig_request(0x10, 0, 2), rig_request(0x10, 1, 2)};

	rig_ranks(r, 2, req);
	CHECK(r[0].rc == 0 && r[1].rc == 0);
	struct fake_memory *mem = rig_memory(&r[0].lease);
	unsigned slot = r[0].lease.slot, other = r[1].lease.slot;
	for (uint32_t g = 2; g < 12; g++) {
		rig_rank_kill(&r[0]);
		RIG_WAIT(atomic_load(&mem->reclaimed[slot]) == g - 1);
		rig_rank(&r[0], &req[0]);
		CHECK_MSG(r[0].rc == 0, "%s", r[0].text);
		CHECK_EQ(r[0].lease.slot, slot);
		CHECK_EQ(r[0].lease.generation, g);
		CHECK(r[0].lease.node_id == r[1].lease.node_id);
	}
	CHECK_EQ(atomic_load(&mem->reclaimed[other]), 0);
	uint64_t served = atomic_load(&mem->worker[other].polls);
	RIG_WAIT(atomic_load(&mem->worker[other].polls) > served);
	rig_rank_leave(&r[1]);
	rig_rank_leave(&r[0]);
}

/* A rank closes its connection: another rank gets the slot only when the process has ended, or if
 * the rank has sent LEAVE. */
TEST(closed_and_left)
{
	CHECK(rig_daemon("default", NULL, "--port", rig_port, "--slots", "1"));
	for (uint32_t g = 1; g < 4; g++) {
		struct hk_hostd_client *h = rig_attach(0x20, 0, 1);
		CHECK_EQ(hk_hostd_client_lease(h)->generation, g);
		CHECK_OK(hk_hostd_client_leave(h, RIG_WAIT_MS, ERR));
		CHECK(hk_hostd_client_leave(h, RIG_WAIT_MS, ERR) < 0); /* once */
		hk_hostd_client_close(h);
		rig_status_has("default", "\"state\": \"free\"");
	}
	pid_t pid = child_fork();
	if (pid == 0) {
		hk_hostd_client_close(rig_attach(0x21, 0, 1));
		rig_status_has("default", "\"state\": \"gone\"");
		struct hk_hostd_request req = rig_request(0x22, 0, 1);
		struct hk_hostd_client *h;
		CHECK_REFUSED(hk_hostd_client_connect(&req, &h, ERR), -EUSERS, "still run");
		_exit(0);
	}
	child_ends_well(pid);
	rig_status_has("default", "\"state\": \"free\"");
	rig_stop("default");
}

/* A child of the rank keeps the connection open when the rank has died. */
TEST(inherited_connection)
{
	CHECK(rig_daemon("default", NULL, "--port", rig_port, "--slots", "1"));
	pid_t *orphan = mmap(NULL, sizeof(*orphan), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(orphan != MAP_FAILED);
	pid_t pid = child_fork();
	if (pid == 0) {
		rig_attach(0x30, 0, 1);
		pid_t own = fork();
		if (own == 0)
			pause();
		*orphan = own;
		_exit(0);
	}
	child_ends_well(pid);
	rig_status_has("default", "\"state\": \"free\"");
	CHECK_CMP(*orphan, >, 0);
	kill(*orphan, SIGKILL); /* a child of this process now */
	munmap(orphan, sizeof(*orphan));
	rig_stop("default");
}

/* The daemon answers LEAVE only when the poller has left the rank's memory. */
TEST(leave_waits)
{
	struct hk_hostd_client *h = rig_attach(0x40, 0, 1);
	struct fake_memory *mem = rig_memory(hk_hostd_client_lease(h));
	struct fake_worker *f = &mem->worker[0];
	atomic_store(&f->stay, 1);
	int rc = hk_hostd_client_ready(h, (char *)f + 1, RIG_WAIT_MS, ERR); /* not aligned */

	CHECK_MSG(rc == -EPROTO, "%d: %s", rc, hk_test_err.text);
	hk_hostd_client_close(h);
	rig_stop(rig_job(0x40));
	rig_all_gone();

	h = rig_attach(0x41, 0, 1);
	mem = rig_memory(hk_hostd_client_lease(h));
	f = &mem->worker[0];
	atomic_store(&f->stay, 1);
	CHECK_OK(hk_hostd_client_ready(h, f, RIG_WAIT_MS, ERR));
	RIG_WAIT(atomic_load(&f->inside));
	CHECK_EQ(hk_hostd_client_leave(h, 30, ERR), -ETIMEDOUT);
	rig_status_has(rig_job(0x41), "\"state\": \"leaving\"");
	CHECK_EQ(atomic_load(&mem->reclaimed[0]), 0);
	atomic_store(&f->stay, 0);
	rig_status_has(rig_job(0x41), "\"state\": \"left\"");
	uint64_t served = atomic_load(&f->polls);
	hk_hostd_client_close(h);
	RIG_WAIT(atomic_load(&mem->reclaimed[0]) == 1);
	CHECK_EQ(atomic_load(&f->polls), served);
}

TEST(wrong_addresses)
{
	/* slot 4 names the fifth, which is in the memory of slot 3 */
	static const uint64_t address[] = {64,
					   FAKE_ADDRESS - 64,
					   FAKE_ADDRESS,
					   FAKE_ADDRESS + sizeof(struct fake_memory),
					   FAKE_ADDRESS + offsetof(struct fake_memory, worker) +
						   3 * sizeof(struct fake_worker),
					   UINT64_MAX - 63};

	CHECK(rig_daemon("default", NULL, "--port", rig_port, "--slots", "8"));
	for (unsigned i = 0; i < HK_ARRAY_LEN(address); i++) {
		struct hk_hostd_client *h = rig_attach(0x50, i, 8);
		const void *at = (void *)(uintptr_t)address[i];
		CHECK_REFUSED(hk_hostd_client_ready(h, at, RIG_WAIT_MS, ERR), -EFAULT,
			      "not in the memory of slot");
		hk_hostd_client_close(h);
	}
	rig_stop("default");
}

/* The daemon ends in several ways: ranks notice, no files are left, and the next daemon has another
 * id. */
TEST(ended_daemon)
{
	static const int how[] = {SIGKILL, SIGTERM, SIGINT, SIGSEGV, SIGKILL};
	struct rig_rank r[2], old[2] = {{.pid = 0}};
	struct hk_hostd_request req[2] = {rig_request(0x60, 0, 2), rig_request(0x60, 1, 2)};
	uint64_t before = 0;

	for (unsigned i = 0; i < HK_ARRAY_LEN(how); i++) {
		rig_ranks(r, 2, req);
		CHECK_MSG(r[0].rc == 0 && r[1].rc == 0, "%s%s", r[0].text, r[1].text);
		CHECK(r[0].lease.node_id != before);
		before = r[0].lease.node_id;
		pid_t pid = rig_daemon_pid(rig_job(0x60));
		CHECK(pid > 0 && kill(pid, how[i]) == 0);
		for (int j = 0; j < 2; j++) {
			const char *text = rig_rank_lost(&r[j]);
			const char *says = how[i] == SIGTERM  ? "SIGTERM"
					   : how[i] == SIGINT ? "interrupted"
							      : "has died";
			CHECK_HAS(text, says, "fix: ");
		}
		for (int j = 0; j < 2 && old[j].pid; j++)
			rig_rank_kill(&old[j]);
		memcpy(old, r, sizeof(old));
		/* in every other round the next daemon starts while ranks of the last one live */
		if (i % 2)
			continue;
		for (int j = 0; j < 2; j++)
			rig_rank_kill(&old[j]);
		old[0].pid = 0;
		rig_all_gone();
	}
}

/* Daemon and janitor are both killed: the next daemon of this user, of any job, removes the files.
 */
TEST(killed_with_janitor)
{
	struct rig_rank r;
	struct hk_hostd_request req = rig_request(0x70, 0, 1);

	rig_rank(&r, &req);
	CHECK_MSG(r.rc == 0, "%s", r.text);
	pid_t pid = rig_daemon_pid(rig_job(0x70)), child[8];
	unsigned n = process_children(pid, child, HK_ARRAY_LEN(child));
	CHECK_EQ(n, 2); /* janitor and poller */
	for (unsigned i = 0; i < n; i++)
		kill(child[i], SIGSTOP);
	kill(pid, SIGKILL);
	for (unsigned i = 0; i < n; i++)
		kill(child[i], SIGKILL);
	rig_rank_lost(&r);
	rig_rank_kill(&r);
	struct hk_hostd_client *h = rig_attach(0x71, 0, 1);
	rig_stop(rig_job(0x71));
	hk_hostd_client_close(h);
}

/* A job's daemon ends even if its ranks never attach. */
TEST(lingers)
{
	CHECK(rig_daemon("job-of-nobody", NULL, "--port", rig_port, "--job", "0x80", "--linger",
			 "50"));
}

/* It ends at once if the rank that started it dies first. */
TEST(starter_dies)
{
	char pid[16];
	pid_t starter = fork();

	if (starter == 0) {
		pause();
		_exit(0);
	}
	snprintf(pid, sizeof(pid), "%d", starter);
	CHECK(rig_daemon("job-of-nobody", NULL, "--port", rig_port, "--job", "0x80", "--linger",
			 "3600000", "--starter", pid));
	CHECK(rig_daemon_pid("job-of-nobody") > 0);
	kill(starter, SIGKILL);
	CHECK_EQ(waitpid(starter, NULL, 0), starter);
	rig_all_gone();
}
