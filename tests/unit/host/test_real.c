/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/host/test_real.c: hikyakud itself, in huge pages, for two nodes (both here) with a memif
 * between them, and ranks that attach as DPDK secondaries.
 */
#include "host/client.h"
#include "host/rundir.h"
#include "port/port.h"
#include "tests/unit/port/shared_rig.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 160 /* two daemons of 2 slots */

/* ---- a rank ----------------------------------------------------------------------------------- */

static struct hk_host *host;
static struct hk_port *port;
static struct rte_mempool *rx_pool, *tx_pool;

static void wires(const char *line)
{
	struct hk_ctl_node node = {0};
	struct hk_ctl_wire wire;
	struct hk_error err = {""};
	unsigned long long id;

	CHECK(sscanf(line, "wires %llx %u", &id, &node.slots) == 2);
	node.node_id = id;
	CHECK_MSG(hk_host_wires(host, &node, 1, &wire, RIG_WAIT_MS, &err) == 0, "%s", err.text);
	CHECK_EQ(wire.queues, 4);
	CHECK_MSG(hk_port_attach(wire.port_id, RIG_WAIT_MS, &port, &err) == 0, "%s", err.text);
	role_tell("wired");
}

static void send_one(uint16_t queue)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(tx_pool);

	CHECK(m != NULL);
	m->pkt_len = m->data_len = 64;
	memset(rte_pktmbuf_mtod(m, void *), 'x', 64);
	/* a memif's client gives buffers to the ring when it polls: the other end takes meanwhile */
	int64_t end = hk_ctl_now_ms() + RIG_WAIT_MS;
	while (hk_port_tx(port, queue, &m, 1) == 0)
		CHECK_MSG(hk_ctl_now_ms() < end, "queue %u takes no frame", queue);
	role_tell("sent");
}

static void take_one(uint16_t queue)
{
	struct rte_mbuf *m;
	int64_t end = hk_ctl_now_ms() + RIG_WAIT_MS;

	while (hk_port_rx(port, queue, &m, 1) == 0)
		CHECK_MSG(hk_ctl_now_ms() < end, "no frame on queue %u", queue);
	CHECK(m->pool == rx_pool && m->data_len == 64);
	rte_pktmbuf_free(m);
	role_tell("took");
}

static void rank(char **argv)
{
	struct hk_host_request req = {.job_key = 7,
				      .name = argv[0],
				      .endpoint = (uint32_t)atoi(argv[1]),
				      .local_ranks = 1,
				      .timeout_ms = RIG_WAIT_MS};
	struct hk_error err = {""};
	char line[128];

	CHECK_MSG(hk_host_connect(&req, &host, &err) == 0, "%s", err.text);
	const struct hk_ctl_welcome *l = hk_host_lease(host);
	struct hk_eal_config eal = {.role = HK_EAL_SECONDARY,
				    .shared = l->shared,
				    .huge_dir = l->huge_dir,
				    .runtime_dir = l->runtime_dir,
				    .lcore = l->lcore};
	/* the daemon's counts, not what this process was told */
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", "/nowhere", 1), 0);
	CHECK_MSG(hk_eal_init(&eal, &err) == 0, "%s", err.text);
	CHECK(strcmp(getenv("RUNTIME_DIRECTORY"), "/nowhere") == 0); /* it is the program's */
	CHECK_MSG(hk_pool_find(l->rx_pool, &rx_pool, &err) == 0, "%s", err.text);
	CHECK_MSG(hk_pool_find(l->tx_pool, &tx_pool, &err) == 0, "%s", err.text);
	memset((void *)(uintptr_t)l->memory, 0xa5, l->memory_len); /* all of it is ours */
	role_tell("at %llx %u %u", (unsigned long long)l->node_id, l->slot, l->generation);
	while (role_asked(line, sizeof(line), -1)) {
		if (strncmp(line, "wires", 5) == 0) {
			wires(line);
		} else if (strncmp(line, "send", 4) == 0) {
			send_one((uint16_t)atoi(line + 5));
		} else if (strncmp(line, "take", 4) == 0) {
			take_one((uint16_t)atoi(line + 5));
		} else if (strcmp(line, "hog") == 0) {
			unsigned n = 0;
			while (rte_pktmbuf_alloc(tx_pool))
				n++;
			role_tell("hogged %u", n);
		} else {
			CHECK_MSG(hk_host_goodbye(host, RIG_WAIT_MS, &err) == 0, "%s", err.text);
			hk_port_detach(port);
			hk_eal_end();
			hk_host_close(host);
			return;
		}
	}
}

/* ---- daemons ---------------------------------------------------------------------------------- */

static pid_t start_daemon(const char *name)
{
	char spec[128], path[128];
	struct hk_rundir rd;
	pid_t test = getpid();

	snprintf(spec, sizeof(spec), "memif:dir=%s,frame=2048", rig_dir);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != test)
			_exit(1);
		execl(REAL_DAEMON, "hikyakud", "--name", name, "--port", spec, "--slots", "2",
		      "--rx-buffers", "1024", "--tx-buffers", "512", "--huge-dir", rig_huge, NULL);
		_exit(127);
	}
	/* it listens before its memory is made; who connects then waits */
	CHECK(hk_rundir_find(name, &rd, NULL) == 0);
	hk_rundir_path(&rd, "control", path);
	int fd, status;
	int64_t end = hk_ctl_now_ms() + RIG_WAIT_MS;
	while ((fd = hk_ctl_connect(path, end, NULL)) < 0) {
		CHECK_MSG(waitpid(pid, &status, WNOHANG) == 0, "%s ended at once", name);
		CHECK(hk_ctl_now_ms() < end);
		usleep(1000);
	}
	close(fd);
	return pid;
}

static unsigned long long at(const struct rig_proc *p, unsigned *slot, unsigned *generation)
{
	unsigned long long id;

	CHECK(sscanf(rig_hear(p, "at "), "%llx %u %u", &id, slot, generation) == 3);
	return id;
}

static void two_nodes(void)
{
	struct rig_proc a, b;
	unsigned sa, sb, generation;
	char line[128];

	snprintf(line, sizeof(line), "%s/hikyaku", rig_dir);
	setenv("HIKYAKU_RUNDIR", line, 1);
	pid_t da = start_daemon("a"), db = start_daemon("b");
	rig_spawn(&a, "a0", "rank a 0");
	rig_spawn(&b, "b0", "rank b 1");
	unsigned long long ia = at(&a, &sa, &generation), ib = at(&b, &sb, &generation);
	snprintf(line, sizeof(line), "wires %llx 2", ib);
	rig_say(&a, line);
	snprintf(line, sizeof(line), "wires %llx 2", ia);
	rig_say(&b, line);
	rig_hear(&a, "wired");
	rig_hear(&b, "wired");

	unsigned queue = ia < ib ? sa * 2 + sb : sb * 2 + sa;
	for (int i = 0; i < 2; i++) {
		snprintf(line, sizeof(line), "take %u", queue);
		rig_say(i ? &a : &b, line);
		snprintf(line, sizeof(line), "send %u", queue);
		rig_say(i ? &b : &a, line);
		rig_hear(i ? &b : &a, "sent");
		rig_hear(i ? &a : &b, "took");
	}

	/* a rank takes all buffers and is killed: the next one finds them all */
	unsigned had = 0;
	for (unsigned g = 1; g <= 3; g++) {
		rig_say(&a, "hog");
		unsigned n = (unsigned)atoi(rig_hear(&a, "hogged "));
		CHECK_MSG(g == 1 || n >= had, "%u buffers of %u", n, had);
		had = n;
		rig_kill(&a);
		rig_spawn(&a, "a1", "rank a 0");
		CHECK(at(&a, &sa, &generation) == ia);
	}

	/* orderly, and by force */
	rig_say(&b, "leave");
	rig_gone(&b);
	int status;
	kill(db, SIGTERM);
	CHECK(waitpid(db, &status, 0) == db && status == 0);
	kill(da, SIGKILL);
	CHECK(waitpid(da, &status, 0) == da);
	rig_kill(&a);
	int64_t end = hk_ctl_now_ms() + RIG_WAIT_MS;
	while (rig_files(rig_huge, "") + rig_files(getenv("HIKYAKU_RUNDIR"), "") > 0) {
		CHECK_MSG(hk_ctl_now_ms() < end, "%u files are left in huge pages",
			  rig_files(rig_huge, ""));
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	static const struct hk_test tests[] = {{"two_nodes", two_nodes}};

	if (argc > 4 && strcmp(argv[1], "--role") == 0) {
		hk_test_now.test = argv[2];
		rank(argv + 3);
		return 0;
	}
	rig_up(PAGES);
	int rc = hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
	rig_down();
	return rc;
}
