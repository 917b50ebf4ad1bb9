/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_open.c: ports that cannot be opened. Each problem gets a sentence that names
 * it and a fix, nothing is left behind, and the next open works.
 */
#include "port/internal.h"
#include "tests/support/child.h"
#include "tests/support/hk_test.h"
#include "tests/support/net.h"
#include "tests/support/tmpdir.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char dir[TMP_PATH];

/* Returns "memif:socket=", the directory of this test, and @rest. */
static const char *wire(const char *rest)
{
	static char text[256];
	snprintf(text, sizeof(text), "memif:socket=%s%s", dir, rest);
	return text;
}

static void expect(const char *spec, int timeout_ms, int code, const char *says)
{
	struct hk_port *port;
	int rc = hk_port_open(spec, 64, NULL, timeout_ms, &port, ERR);
	CHECK_MSG(rc < 0 && !port, "%s is opened", spec);
	CHECK_MSG(rc == code, "%s: %d, not %d: %s", spec, rc, code, hk_test_err.text);
	CHECK_HAS(hk_test_err.text, says, "fix: ", "port ");
	CHECK_EQ(rte_eth_dev_count_avail(), 0);
}

TEST(wrong_specs)
{
	expect("memif:socket=/tmp/x,role=server,colour=red", 0, -EINVAL, "colour");
	expect("memif:dir=/tmp", 0, -EINVAL, "one port");
}

TEST(memif_directories)
{
	expect("memif:socket=/no/such/dir/a.sock,role=server", 0, -ENOENT, "/no/such/dir");
	expect("memif:socket=a.sock,role=server", 0, -EINVAL, "absolute path");
	char path[200] = "memif:role=server,socket=/tmp/";
	memset(path + strlen(path), 'x', 101);
	expect(path, 0, -ENAMETOOLONG, "longer than");
}

/* Others could put a socket of theirs in the place of ours. */
TEST(memif_directories_of_others)
{
	if (geteuid() != 0)
		return;
	CHECK_EQ(chmod(dir, 0777), 0);
	expect(wire("/a.sock,role=client"), 0, -EPERM, "others may write to the directory");
	CHECK_EQ(chmod(dir, 01777), 0); /* as /tmp */
	expect(wire("/a.sock,role=client"), 30, -ETIMEDOUT, "a.sock");
	CHECK_EQ(chmod(dir, 0700), 0);
	CHECK_EQ(chown(dir, 65534, 65534), 0);
	expect(wire("/a.sock,role=client"), 0, -EPERM, "belongs to user 65534");
	CHECK_EQ(chown(dir, 0, 0), 0);
}

TEST(memif_without_server)
{
	expect(wire("/none.sock,role=client"), 30, -ETIMEDOUT, "none.sock");
}

static int bound_socket(struct sockaddr_un *un, const char *name)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	*un = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(un->sun_path, sizeof(un->sun_path), "%s/%s", dir, name);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)un, sizeof(*un)) == 0);
	return fd;
}

/* A process of another user has connected to our server's socket. */
TEST(memif_with_a_stranger)
{
	struct hk_memif_guard *guard = NULL;
	struct sockaddr_un un;
	char byte;
	int to[2];

	if (geteuid() != 0)
		return;
	CHECK_EQ(chmod(dir, 0711), 0);
	int server = bound_socket(&un, "stranger.sock");
	CHECK(listen(server, 1) == 0 && chmod(un.sun_path, 0777) == 0 && pipe(to) == 0);
	pid_t child = child_fork();
	if (child == 0) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		bool ok = setuid(65534) == 0 &&
			  connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0;
		close(to[1]);
		_exit(!ok || read(to[0], &byte, 1) != 0);
	}
	int end = accept(server, NULL, NULL);
	CHECK(end >= 0);
	CHECK_EQ(hk_memif_guard_arm(un.sun_path, true, &guard, ERR), -EPERM);
	CHECK_HAS(hk_test_err.text, "a process of user 65534", "fix: ");
	CHECK(!guard);
	close(to[1]);
	child_ends_well(child);
	close(to[0]);
	close(end);
	close(server);
	CHECK_EQ(unlink(un.sun_path), 0);
	CHECK_EQ(chmod(dir, 0700), 0);
}

/* A killed server has left its socket. Clients get a sentence, and a new server takes it over. */
TEST(memif_stale_socket)
{
	struct sockaddr_un un;
	close(bound_socket(&un, "stale.sock"));
	expect(wire("/stale.sock,role=client"), 30, -ECONNREFUSED, "remove");

	struct hk_port *port;
	CHECK_OK(hk_port_open(wire("/stale.sock,role=server"), 64, NULL, 0, &port, ERR));
	CHECK(!hk_port_link(port));
	CHECK_REFUSED(hk_port_wait_link(port, 10, ERR), -ETIMEDOUT, "other end");
	struct hk_port *second;
	CHECK_REFUSED(hk_port_open(wire("/stale.sock,role=server"), 64, NULL, 0, &second, ERR),
		      -EADDRINUSE, "another process");
	hk_port_close(port);
	CHECK(access(un.sun_path, F_OK) != 0);
}

/* A server accepts the connection and then sends nothing. The error names the caller's timeout,
 * whatever part of it the creation of the device took. */
TEST(memif_silent_server)
{
	struct sockaddr_un un;
	int fd = bound_socket(&un, "silent.sock");
	CHECK_EQ(listen(fd, 8), 0);
	expect(wire("/silent.sock,role=client"), 40, -ETIMEDOUT, "has not connected within 40 ms");
	close(fd);
	CHECK_EQ(unlink(un.sun_path), 0);
}

TEST(devices)
{
	expect("pci:ff:1f.7,rx_vec=1", 0, -ENODEV, "has no PCI device 0000:ff:1f.7; fix: ");
	expect("pci:nic0", 0, -EINVAL, "not a PCI address");
	expect("vdev:net_nosuchdriver0", 0, -ENODEV, "driver");
	expect("vdev:net_null0,nonsense=1", 0, -ENODEV, "arguments");
}

/* A device that is there has a name in this directory. */
TEST(pci_device_that_dpdk_has_not_taken)
{
	DIR *d = opendir("/sys/bus/pci/devices");
	struct dirent *e = NULL;
	char spec[300], fix[300];

	while (d && (e = readdir(d)) && e->d_name[0] == '.')
		;
	if (e) {
		snprintf(spec, sizeof(spec), "pci:%s,rx_vec=1", e->d_name);
		snprintf(fix, sizeof(fix), "dpdk-devbind.py -b vfio-pci %s;", e->d_name);
		expect(spec, 0, -ENODEV, "which is bound to ");
		CHECK_HAS(hk_test_err.text, fix);
	}
	if (d)
		closedir(d);
}

TEST(too_many_buffers)
{
	struct hk_port *port;
	CHECK_REFUSED(hk_port_open("vdev:net_ring0", 10000000, NULL, 0, &port, ERR), -ENOMEM,
		      "more memory");
	CHECK_OK(hk_port_open("vdev:net_ring0", 64, NULL, 0, &port, ERR));
	struct hk_port *second;
	CHECK_EQ(hk_port_open("vdev:net_ring0", 64, NULL, 0, &second, ERR), -EBUSY);
	hk_port_close(port);
}

TEST(more_ports_than_dpdk_has)
{
	struct hk_port *port[RTE_MAX_ETHPORTS], *further;
	char spec[32];

	for (unsigned i = 0; i <= RTE_MAX_ETHPORTS; i++) {
		struct rte_mempool *pool = i ? port[0]->pool : NULL;
		snprintf(spec, sizeof(spec), "vdev:net_ring%u", i);
		if (i < RTE_MAX_ETHPORTS)
			CHECK_OK(hk_port_open(spec, i ? 0 : 64, pool, 0, &port[i], ERR));
		else
			CHECK_REFUSED(hk_port_open(spec, 0, pool, 0, &further, ERR), -ENFILE,
				      "fix: start fewer ranks");
	}
	for (unsigned i = RTE_MAX_ETHPORTS; i-- > 0;)
		hk_port_close(port[i]);
}

TEST(stopped_before_closed)
{
	struct hk_port *port;

	hk_port_stop(NULL);
	for (unsigned round = 0; round < 2; round++) { /* it works again afterwards */
		CHECK_OK(hk_port_open("vdev:net_ring0", 64, NULL, 0, &port, ERR));
		CHECK(hk_port_link(port));
		hk_port_stop(port);
		CHECK(!hk_port_link(port));
		hk_port_stop(port);
		hk_port_close(port);
		CHECK_EQ(rte_eth_dev_count_avail(), 0);
	}
}

/* Buffers of one port can serve another if they are large enough. */
TEST(shared_pool)
{
	struct hk_port *small, *large;
	CHECK_OK(
		hk_port_open(wire("/small.sock,role=server,frame=2048"), 64, NULL, 0, &small, ERR));
	CHECK_EQ(hk_port_open(wire("/large.sock,role=server"), 0, small->pool, 0, &large, ERR),
		 -EMSGSIZE);
	CHECK_OK(hk_port_open(wire("/large.sock,role=server"), 64, NULL, 0, &large, ERR));
	hk_port_close(small);
	CHECK_OK(hk_port_open(wire("/small.sock,role=server,frame=2048"), 0, large->pool, 0, &small,
			      ERR));
	CHECK(small->pool == large->pool);
	CHECK_EQ(small->info.frame_max, 2048);
	CHECK_EQ(large->info.frame_max, 9216);
	CHECK(large->info.point_to_point);
	hk_port_close(small);
	hk_port_close(large);
}

/* A server that is opened and closed repeatedly leaves no listening socket. */
TEST(memif_stops_listening)
{
	for (int i = 0; i < 20; i++) {
		struct hk_port *port;
		CHECK_OK(hk_port_open(wire("/again.sock,role=server"), 64, NULL, 0, &port, ERR));
		hk_port_close(port);
	}
	char line[256];
	FILE *f = fopen("/proc/net/unix", "r");
	CHECK(f != NULL);
	while (fgets(line, sizeof(line), f))
		CHECK_MSG(!strstr(line, dir), "still open: %s", line);
	fclose(f);
}

/* Whether secondaries may poll a port's queues is known before it is opened, with the reason. */
TEST(whose_queues_are_shared)
{
	static const struct {
		const char *spec;
		bool shares;
		const char *says;
	} port[] = {
		{"memif:dir=/x", true, "(tried)"},
		{"memif:socket=/x,role=server", false, "memif:dir=DIR"},
		{"af_xdp:iface=a", false, "sockets and rings belong to the process"},
		{"af_packet:iface=a", false, "a secondary crashes"},
		{"vdev:net_ring0", false, "nobody has tried"},
		{"nonsense", false, "does not parse"},
	};

	for (unsigned i = 0; i < HK_ARRAY_LEN(port); i++) {
		const char *why = "";

		CHECK_EQ(hk_port_spec_shares_queues(port[i].spec, &why), port[i].shares);
		CHECK_HAS(why, port[i].says);
	}
}

/* ---- what EAL leaves ------------------------------------------------------------------------- */

static char run[TMP_PATH]; /* where EAL creates its directory */
static char stays[3][40];  /* names in run/dpdk that are not a dead process's, or not ours */

/* The path of @name below run/dpdk. */
static const char *in_run(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/dpdk/%s", run, name);
	return path;
}

/* Makes directories as if other processes had been killed while they started. */
static void before_eal(void)
{
	char name[24];
	pid_t dead = child_fork();

	if (dead == 0)
		_exit(0);
	child_ends_well(dead);
	tmp_dir(run);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", run, 1), 0);
	CHECK_EQ(mkdir(in_run(""), 0700), 0);
	snprintf(name, sizeof(name), "hk-%d", (int)dead);
	CHECK_EQ(mkdir(in_run(name), 0700), 0);
	snprintf(stays[0], sizeof(stays[0]), "hk-%d.more", (int)dead);
	snprintf(stays[1], sizeof(stays[1]), "other-%d", (int)dead);
	snprintf(stays[2], sizeof(stays[2]), "hk-%d", (int)getppid());
	for (unsigned i = 0; i < HK_ARRAY_LEN(stays); i++)
		CHECK_EQ(mkdir(in_run(stays[i]), 0700), 0);
}

static void after_eal(void)
{
	for (unsigned i = 0; i < HK_ARRAY_LEN(stays); i++)
		tmp_gone(in_run(stays[i]));
	tmp_gone(in_run(""));
	tmp_gone(run);
}

/* hk_eal_init() leaves no file, and removes those of processes killed in it. */
TEST(eal_leaves_no_trace)
{
	struct hk_eal_config cfg = {.memory_mb = 1};

	CHECK_OK(hk_eal_init(&cfg, ERR)); /* a second call changes nothing */
	DIR *d = opendir(in_run(""));
	CHECK(d != NULL);
	for (struct dirent *e; (e = readdir(d));) {
		bool expected = e->d_name[0] == '.';

		for (unsigned i = 0; !expected && i < HK_ARRAY_LEN(stays); i++)
			expected = strcmp(e->d_name, stays[i]) == 0;
		CHECK_MSG(expected, "%s", e->d_name);
	}
	closedir(d);
}

/* ---- tests that change this process ---------------------------------------------------------- */

TEST(no_permission)
{
	if (geteuid() != 0)
		return expect("af_packet:iface=lo", 0, -EPERM, "run as root");
	CHECK_EQ(chmod(dir, 0700), 0);
	CHECK_EQ(seteuid(65534), 0);
	expect("af_packet:iface=lo", 0, -EPERM, "run as root");
	CHECK_EQ(seteuid(0), 0);
}

TEST(kernel_interfaces)
{
	expect("af_packet:iface=no-such-if", 0, -ENODEV, "no-such-if");
	expect("af_xdp:iface=no-such-if", 0, -ENODEV, "no interface no-such-if here");
	if (net_own()) { /* of this thread only, with an interface that is down */
		expect("af_packet:iface=lo", 0, -ENETDOWN, "ip link set lo up");
		expect("af_xdp:iface=lo", 0, -ENETDOWN, "ip link set lo up");
	}
}

static size_t shared_memory_kb(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[128];
	size_t kb = 0;

	CHECK(f != NULL);
	while (fgets(line, sizeof(line), f))
		(void)sscanf(line, "RssShmem: %zu", &kb);
	fclose(f);
	return kb;
}

/* A pool that is left costs no page that was not used. A pool that is freed costs all of them. */
TEST(pools_that_are_left)
{
	enum { COUNT = 5000, FRAME = 9216, KB = COUNT * FRAME / 1024 };
	struct rte_mempool *pool;
	size_t before = shared_memory_kb();

	CHECK_OK(hk_pool_create("left", COUNT, FRAME, &pool, ERR));
	hk_pools_leave();
	hk_pool_free(pool);
	CHECK(rte_mempool_lookup("left") == pool);
	CHECK_MSG(shared_memory_kb() - before < KB * 3 / 4, "%zu kB", shared_memory_kb() - before);
}

BEFORE_ALL()
{
	cpu_set_t before, after;

	CHECK_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
	before_eal();
	CHECK_OK(hk_eal_init(&(struct hk_eal_config){.memory_mb = 128}, ERR));
	CHECK_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
	CHECK(CPU_EQUAL(&before, &after));
	tmp_dir(dir);
}

AFTER_ALL()
{
	after_eal();
	tmp_gone(dir);
}
