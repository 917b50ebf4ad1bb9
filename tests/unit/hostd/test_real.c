/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/test_real.c: the real hikyakud, in huge pages, for two nodes on this machine
 * with a memif between them; ranks attach as DPDK secondaries.
 */
#include "hostd/hosted.h"
#include "hostd/rundir.h"
#include "port/port.h"
#include "tests/support/await.h"
#include "tests/support/child.h"
#include "tests/support/shared.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 160 /* two daemons of 2 slots */

/* ---- a rank ---------------------------------------------------------------------------------- */

static struct hk_hostd_client *host;
static struct hk_port *port;
static struct rte_mempool *rx_pool, *tx_pool;

static void wires(const char *line)
{
	struct hk_ctl_node node = {0};
	struct hk_ctl_wire wire;
	unsigned long long id;

	CHECK(sscanf(line, "wires %llx %u", &id, &node.slots) == 2);
	node.node_id = id;
	CHECK_OK(hk_hostd_client_wires(host, &node, 1, &wire, RIG_WAIT_MS, ERR));
	CHECK_EQ(wire.queues, 4);
	CHECK_OK(hk_port_attach(wire.port_id, RIG_WAIT_MS, &port, ERR));
	role_reply("wired");
}

static void send_one(uint16_t queue)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(tx_pool);

	CHECK(m != NULL);
	m->pkt_len = m->data_len = 64;
	memset(rte_pktmbuf_mtod(m, void *), 'x', 64);
	/* a memif's client adds buffers to the ring when it polls; the other end does that now */
	AWAIT(RIG_WAIT_MS, hk_port_tx(port, queue, &m, 1) == 1);
	role_reply("sent");
}

static void take_one(uint16_t queue)
{
	struct rte_mbuf *m;

	AWAIT(RIG_WAIT_MS, hk_port_rx(port, queue, &m, 1) == 1);
	CHECK(m->pool == rx_pool && m->data_len == 64);
	rte_pktmbuf_free(m);
	role_reply("took");
}

ROLE(rank)
{
	struct hk_hostd_request req = {.job_key = 7,
				       .name = argv[0],
				       .endpoint = (uint32_t)atoi(argv[1]),
				       .local_ranks = 1,
				       .timeout_ms = RIG_WAIT_MS};
	char line[128];

	CHECK_OK(hk_hostd_client_connect(&req, &host, ERR));
	const struct hk_ctl_welcome *l = hk_hostd_client_lease(host);
	struct hk_eal_config eal = {.role = HK_EAL_SECONDARY,
				    .shared = l->shared,
				    .huge_dir = l->huge_dir,
				    .runtime_dir = l->runtime_dir,
				    .lcore = l->lcore};
	/* the lease decides, not this process's environment */
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", "/nowhere", 1), 0);
	CHECK_OK(hk_eal_init(&eal, ERR));
	CHECK(strcmp(getenv("RUNTIME_DIRECTORY"), "/nowhere") ==
	      0); /* the program's own value stays */
	CHECK_OK(hk_pool_find(l->rx_pool, &rx_pool, ERR));
	CHECK_OK(hk_pool_find(l->tx_pool, &tx_pool, ERR));
	memset((void *)(uintptr_t)l->memory, 0xa5,
	       l->memory_len); /* all of it belongs to this slot */
	role_reply("at %llx %u %u", (unsigned long long)l->node_id, l->slot, l->generation);
	while (role_receive(line, -1)) {
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
			role_reply("hogged %u", n);
		} else {
			CHECK_OK(hk_hostd_client_leave(host, RIG_WAIT_MS, ERR));
			hk_port_detach(port);
			hk_eal_end();
			hk_hostd_client_close(host);
			return;
		}
	}
}

/* ---- a rank whose daemon is killed while DPDK starts ----------------------------------------- */

static bool waits_at_map;

/* DPDK's calls come here, too: this program is before libc in the order of look-up. */
__attribute__((visibility("default"))) int open(const char *path, int flags, ...)
{
	char line[16];
	va_list ap;

	va_start(ap, flags);
	unsigned mode = flags & O_CREAT ? va_arg(ap, unsigned) : 0;
	va_end(ap);
	if (waits_at_map && strstr(path, "map_0")) {
		waits_at_map = false;
		role_reply("opens");
		CHECK(role_receive(line, RIG_WAIT_MS));
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ROLE(late)
{
	const struct hk_hosted_config cfg = {.mode = "hybrid",
					     .ports = 1,
					     .mode_parameter = "mode",
					     .port_parameter = "port",
					     .request = {.job_key = 7,
							 .name = argv[0],
							 .local_ranks = 1,
							 .timeout_ms = RIG_WAIT_MS}};
	struct hk_hosted *h;

	CHECK_OK(hk_hosted_open(&cfg, &h, ERR));
	waits_at_map = true;
	int rc = hk_hosted_start_dpdk(h, NULL, false, ERR);

	role_reply("started %d %s", rc, hk_test_err.text);
	hk_hosted_close(h);
}

/* ---- daemons --------------------------------------------------------------------------------- */

static pid_t start_daemon(const char *name)
{
	char spec[128], path[128];
	struct hk_rundir rd;

	snprintf(spec, sizeof(spec), "memif:dir=%s,frame=2048", rig_dir);
	pid_t pid = child_fork();
	if (pid == 0) {
		execl(REAL_DAEMON, "hikyakud", "--name", name, "--port", spec, "--slots", "2",
		      "--rx-buffers", "1024", "--tx-buffers", "512", "--huge-dir", rig_huge, NULL);
		_exit(127);
	}
	/* it listens before it has memory; clients that connect then wait */
	CHECK(hk_rundir_find(name, &rd, NULL) == 0);
	hk_rundir_path(&rd, "control", path);
	int fd;
	int64_t end = hk_clock_ms() + RIG_WAIT_MS;
	AWAIT(RIG_WAIT_MS, (fd = hk_ctl_connect(path, end, NULL)) >= 0, {
		CHECK_MSG(process_state(pid) != 'Z', "%s ended at once", name);
		pause_1ms();
	});
	close(fd);
	return pid;
}

static unsigned long long at(const struct rig_proc *p, unsigned *slot, unsigned *generation)
{
	unsigned long long id;

	CHECK(sscanf(rig_expect(p, "at "), "%llx %u %u", &id, slot, generation) == 3);
	return id;
}

/* Wires need no privileges once they are open. A real-time priority does, without RLIMIT_RTPRIO. */
static void has_no_privileges(pid_t pid)
{
	unsigned long long mask = ~0ULL;
	unsigned forever = 0, filtered = 0;
	char path[64], line[128];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *f = fopen(path, "re");

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		(void)sscanf(line, "CapPrm: %llx", &mask);
		(void)sscanf(line, "NoNewPrivs: %u", &forever);
		(void)sscanf(line, "Seccomp: %u", &filtered);
	}
	fclose(f);
	CHECK_EQ(filtered, 2); /* by a filter: hostd/syscalls.h */
	mask &= ~(1ULL << CAP_SYS_NICE);
	CHECK_MSG(mask == 0 && forever == 1, "process %d has the capabilities %llx", pid, mask);
}

/* Nor do poller and janitor. */
static void have_no_privileges(pid_t daemon)
{
	pid_t child[4];

	has_no_privileges(daemon);
	CHECK_EQ(process_children(daemon, child, 4), 2);
	has_no_privileges(child[0]);
	has_no_privileges(child[1]);
}

static void nothing_is_left(void)
{
	AWAIT(RIG_WAIT_MS, tmp_files(rig_huge, "") + tmp_files(getenv("HIKYAKU_RUNDIR"), "") == 0,
	      pause_1ms());
}

TEST(two_nodes)
{
	struct rig_proc a, b;
	unsigned sa, sb, generation;

	pid_t da = start_daemon("a"), db = start_daemon("b");
	rig_spawn(&a, "a0", "rank a 0");
	rig_spawn(&b, "b0", "rank b 1");
	unsigned long long ia = at(&a, &sa, &generation), ib = at(&b, &sb, &generation);
	rig_command(&a, "wires %llx 2", ib);
	rig_command(&b, "wires %llx 2", ia);
	rig_expect(&a, "wired");
	rig_expect(&b, "wired");
	have_no_privileges(da);
	have_no_privileges(db);

	unsigned queue = ia < ib ? sa * 2 + sb : sb * 2 + sa;
	for (int i = 0; i < 2; i++) {
		struct rig_proc *to = i ? &a : &b, *from = i ? &b : &a;

		rig_command(to, "take %u", queue);
		rig_command(from, "send %u", queue);
		rig_expect(from, "sent");
		rig_expect(to, "took");
	}

	/* a rank allocates all buffers and is killed: the next one finds all of them */
	unsigned had = 0;
	for (unsigned g = 1; g <= 3; g++) {
		unsigned n = (unsigned)atoi(rig_call(&a, "hog", "hogged "));
		CHECK_MSG(g == 1 || n >= had, "%u buffers of %u", n, had);
		had = n;
		rig_kill(&a);
		rig_spawn(&a, "a1", "rank a 0");
		CHECK(at(&a, &sa, &generation) == ia);
	}

	/* one daemon ends in order, one is killed */
	rig_command(&b, "leave");
	rig_gone(&b);
	kill(db, SIGTERM);
	child_ends_well(db);
	child_kill(da);
	rig_kill(&a);
	nothing_is_left();
}

TEST(killed_while_a_rank_starts)
{
	struct rig_proc p;
	pid_t daemon = start_daemon("a");

	rig_spawn(&p, "late", "late a");
	rig_expect(&p, "opens");
	child_kill(daemon);
	nothing_is_left();
	rig_command(&p, "go on");
	rig_expect(&p, "started -32 "); /* -EPIPE */
	rig_gone(&p);
	nothing_is_left();
}

BEFORE_ALL()
{
	char link[100];

	rig_up(PAGES);
	snprintf(link, sizeof(link), "%s/hikyaku", rig_dir);
	CHECK_EQ(setenv("HIKYAKU_RUNDIR", link, 1), 0);
	/* as /var/run is one to /run */
	snprintf(link, sizeof(link), "%s/link", rig_dir);
	CHECK_EQ(symlink(rig_run, link), 0);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", link, 1), 0);
}

AFTER_ALL()
{
	rig_down();
}
