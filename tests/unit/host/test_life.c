/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_life.c: ranks and daemons die; what becomes of the others, and what is left.
 */
#include "tests/unit/host/rig.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fake_memory *memory(const struct rig_rank *r)
{
	struct fake_memory *m = fake_map(r->lease.shared, false);

	CHECK(m != NULL);
	return m;
}

/* A killed rank's slot comes back, with its next generation; its neighbour goes on. */
static void killed_rank(void)
{
	struct rig_rank r[2];
	struct hk_host_request req[2] = {rig_request(0x10, 0, 2), rig_request(0x10, 1, 2)};

	rig_up();
	rig_ranks(r, 2, req);
	CHECK(r[0].rc == 0 && r[1].rc == 0);
	struct fake_memory *mem = memory(&r[0]);
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
	uint64_t served = atomic_load(&mem->fabric[other].served);
	RIG_WAIT(atomic_load(&mem->fabric[other].served) > served);
	rig_rank_leave(&r[1]);
	rig_rank_leave(&r[0]);
	rig_all_gone();
}

/* The slot of a rank that just closes its connection is not given away while its process lives; one
 * that has said goodbye is. */
static void closed_and_left(void)
{
	struct hk_error err = {""};

	rig_up();
	CHECK(rig_daemon("default", NULL, "--port", rig_port, "--slots", "1"));
	for (uint32_t g = 1; g < 4; g++) {
		struct hk_host *h = rig_attach(0x20, 0, 1);
		CHECK_EQ(hk_host_lease(h)->generation, g);
		CHECK_MSG(hk_host_goodbye(h, RIG_WAIT_MS, &err) == 0, "%s", err.text);
		CHECK(hk_host_goodbye(h, RIG_WAIT_MS, &err) < 0); /* once */
		hk_host_close(h);
		rig_status_has("default", "\"state\": \"free\"");
	}
	pid_t pid = fork();
	if (pid == 0) {
		hk_host_close(rig_attach(0x21, 0, 1));
		rig_status_has("default", "\"state\": \"gone\"");
		struct hk_host_request req = rig_request(0x22, 0, 1);
		struct hk_host *h;
		CHECK(hk_host_connect(&req, &h, &err) == -EUSERS);
		CHECK_MSG(strstr(err.text, "still run"), "%s", err.text);
		_exit(0);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	rig_status_has("default", "\"state\": \"free\"");
	rig_stop("default");
	rig_all_gone();
}

/* A child that the rank forked keeps the connection open; the rank is dead all the same. */
static void inherited_connection(void)
{
	rig_up();
	CHECK(rig_daemon("default", NULL, "--port", rig_port, "--slots", "1"));
	pid_t pid = fork();
	if (pid == 0) {
		rig_attach(0x30, 0, 1);
		if (fork() == 0)
			pause();
		_exit(0);
	}
	rig_reap(pid);
	rig_status_has("default", "\"state\": \"free\"");
	/* the orphan is ours now */
	char path[64], line[256] = "";
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	FILE *f = fopen(path, "r");
	CHECK(f && fgets(line, sizeof(line), f));
	fclose(f);
	pid_t daemon = rig_daemon_pid("default"), last = 0;
	for (char *p = line, *end; (pid = (pid_t)strtol(p, &end, 10)) > 0; p = end)
		if (pid != daemon && pid > last)
			last = pid;
	kill(last, SIGKILL);
	rig_stop("default");
	rig_all_gone();
}

/* GOODBYE is answered when the poller is out of the rank's memory, not before. */
static void goodbye_waits(void)
{
	struct hk_error err = {""};

	rig_up();
	struct hk_host *h = rig_attach(0x40, 0, 1);
	struct fake_memory *mem = fake_map(hk_host_lease(h)->shared, false);
	CHECK(mem != NULL);
	struct fake_fabric *f = &mem->fabric[0];
	atomic_store(&f->hold, 1);
	CHECK(hk_host_ready(h, (char *)f + 1, RIG_WAIT_MS, &err) == -EPROTO); /* not aligned */
	hk_host_close(h);
	rig_stop(rig_job(0x40));
	rig_all_gone();

	h = rig_attach(0x41, 0, 1);
	mem = fake_map(hk_host_lease(h)->shared, false);
	CHECK(mem != NULL);
	f = &mem->fabric[0];
	atomic_store(&f->hold, 1);
	CHECK_MSG(hk_host_ready(h, f, RIG_WAIT_MS, &err) == 0, "%s", err.text);
	RIG_WAIT(atomic_load(&f->inside));
	CHECK_EQ(hk_host_goodbye(h, 30, &err), -ETIMEDOUT);
	rig_status_has(rig_job(0x41), "\"state\": \"leaving\"");
	CHECK_EQ(atomic_load(&mem->reclaimed[0]), 0);
	atomic_store(&f->hold, 0);
	rig_status_has(rig_job(0x41), "\"state\": \"left\"");
	uint64_t served = atomic_load(&f->served);
	hk_host_close(h);
	RIG_WAIT(atomic_load(&mem->reclaimed[0]) == 1);
	CHECK_EQ(atomic_load(&f->served), served);
	rig_all_gone();
}

static void wrong_addresses(void)
{
	struct hk_error err = {""};
	/* the fifth is the memory of slot 3, and asked for by slot 4 */
	static const uint64_t address[] = {64,
					   FAKE_ADDRESS - 64,
					   FAKE_ADDRESS,
					   FAKE_ADDRESS + sizeof(struct fake_memory),
					   FAKE_ADDRESS + offsetof(struct fake_memory, fabric) +
						   3 * sizeof(struct fake_fabric),
					   UINT64_MAX - 63};

	rig_up();
	CHECK(rig_daemon("default", NULL, "--port", rig_port, "--slots", "8"));
	for (unsigned i = 0; i < HK_ARRAY_LEN(address); i++) {
		struct hk_host *h = rig_attach(0x50, i, 8);
		const void *at = (void *)(uintptr_t)address[i];
		CHECK_EQ(hk_host_ready(h, at, RIG_WAIT_MS, &err), -EFAULT);
		CHECK_MSG(strstr(err.text, "not in the memory of slot"), "%s", err.text);
		hk_host_close(h);
	}
	rig_stop("default");
	rig_all_gone();
}

/* Ends in many ways: ranks notice, nothing is left, and the next daemon is another one. */
static void ended_daemon(void)
{
	static const int how[] = {SIGKILL, SIGTERM, SIGINT, SIGSEGV, SIGKILL};
	struct rig_rank r[2], old[2] = {{.pid = 0}};
	struct hk_host_request req[2] = {rig_request(0x60, 0, 2), rig_request(0x60, 1, 2)};
	uint64_t before = 0;

	rig_up();
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
			CHECK_MSG(strstr(text, says) && strstr(text, "fix: "), "%s", text);
		}
		for (int j = 0; j < 2 && old[j].pid; j++)
			rig_rank_kill(&old[j]);
		memcpy(old, r, sizeof(old));
		/* half the time the next daemon comes while the ranks of the last one live */
		if (i % 2)
			continue;
		for (int j = 0; j < 2; j++)
			rig_rank_kill(&old[j]);
		old[0].pid = 0;
		rig_all_gone();
	}
}

/* Daemon and janitor both killed: the next daemon of this user, of whatever job, cleans up. */
static void killed_with_janitor(void)
{
	struct rig_rank r;
	struct hk_host_request req = rig_request(0x70, 0, 1);
	char path[64], line[256] = "";

	rig_up();
	rig_rank(&r, &req);
	CHECK_MSG(r.rc == 0, "%s", r.text);
	pid_t pid = rig_daemon_pid(rig_job(0x70)), child[8];
	unsigned n = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	FILE *f = fopen(path, "r");
	CHECK(f && fgets(line, sizeof(line), f));
	fclose(f);
	for (char *p = line, *end; n < 8 && (child[n] = (pid_t)strtol(p, &end, 10)) > 0; p = end)
		n++;
	CHECK_EQ(n, 2); /* janitor and poller */
	for (unsigned i = 0; i < n; i++)
		kill(child[i], SIGSTOP);
	kill(pid, SIGKILL);
	for (unsigned i = 0; i < n; i++)
		kill(child[i], SIGKILL);
	rig_rank_lost(&r);
	rig_rank_kill(&r);
	struct hk_host *h = rig_attach(0x71, 0, 1);
	rig_stop(rig_job(0x71));
	hk_host_close(h);
	rig_all_gone();
}

/* Ranks that never come do not keep a job's daemon for ever. */
static void lingers(void)
{
	rig_up();
	CHECK(rig_daemon("job-of-nobody", NULL, "--port", rig_port, "--job", "0x80", "--linger",
			 "50"));
	rig_all_gone();
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {
		{"killed_rank", killed_rank},
		{"closed_and_left", closed_and_left},
		{"inherited_connection", inherited_connection},
		{"goodbye_waits", goodbye_waits},
		{"wrong_addresses", wrong_addresses},
		{"ended_daemon", ended_daemon},
		{"killed_with_janitor", killed_with_janitor},
		{"lingers", lingers},
	};
	return hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
}
