/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/port/test_open.c: ports that cannot be opened. Each wrong thing gets a sentence that
 * names it and a fix, nothing is left behind, and the next open works.
 */
#include "port/port.h"
#include "tests/unit/hk_test.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

/* "memif:socket=" and @rest, with the directory of this test between. */
static const char *wire(const char *rest)
{
	static char text[256];
	snprintf(text, sizeof(text), "memif:socket=%s%s", dir, rest);
	return text;
}

static void expect(const char *spec, int timeout_ms, int code, const char *says)
{
	struct hk_error err = {""};
	struct hk_port *port;
	int rc = hk_port_open(spec, 64, NULL, timeout_ms, &port, &err);
	CHECK_MSG(rc < 0 && !port, "%s is opened", spec);
	CHECK_MSG(rc == code, "%s: %d, not %d: %s", spec, rc, code, err.text);
	CHECK_MSG(strstr(err.text, says), "%s: \"%s\" does not say \"%s\"", spec, err.text, says);
	CHECK_MSG(strstr(err.text, "fix: "), "%s: \"%s\" names no fix", spec, err.text);
	CHECK_MSG(strstr(err.text, "port "), "%s: \"%s\" does not name the port", spec, err.text);
	CHECK_EQ(rte_eth_dev_count_avail(), 0);
}

static void wrong_specs(void)
{
	expect("memif:socket=/tmp/x,role=server,colour=red", 0, -EINVAL, "colour");
	expect("memif:dir=/tmp", 0, -EINVAL, "one port");
}

static void memif_directories(void)
{
	expect("memif:socket=/no/such/dir/a.sock,role=server", 0, -ENOENT, "/no/such/dir");
	expect("memif:socket=a.sock,role=server", 0, -EINVAL, "no directory");
	char path[200] = "memif:role=server,socket=/tmp/";
	memset(path + strlen(path), 'x', 101);
	expect(path, 0, -ENAMETOOLONG, "longer than");
}

static void memif_without_server(void)
{
	expect(wire("/none.sock,role=client"), 30, -ETIMEDOUT, "none.sock");
}

/* A socket that a killed server has left: clients get a sentence, a new server takes over. */
static void memif_stale_socket(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/stale.sock", dir);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0);
	close(fd);
	expect(wire("/stale.sock,role=client"), 30, -ECONNREFUSED, "remove");

	struct hk_error err = {""};
	struct hk_port *port;
	CHECK_MSG(hk_port_open(wire("/stale.sock,role=server"), 64, NULL, 0, &port, &err) == 0,
		  "%s", err.text);
	CHECK(!hk_port_link(port));
	CHECK_EQ(hk_port_wait_link(port, 10, &err), -ETIMEDOUT);
	CHECK(strstr(err.text, "other end"));
	struct hk_port *second;
	CHECK_EQ(hk_port_open(wire("/stale.sock,role=server"), 64, NULL, 0, &second, &err),
		 -EADDRINUSE);
	CHECK(strstr(err.text, "another process"));
	hk_port_close(port);
	CHECK(access(un.sun_path, F_OK) != 0);
}

/* A server that takes the connection and then says nothing. How long was waited is what the caller asked for, whatever
 * of it making the device took. */
static void memif_silent_server(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/silent.sock", dir);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0 && listen(fd, 8) == 0);
	expect(wire("/silent.sock,role=client"), 40, -ETIMEDOUT, "has not connected within 40 ms");
	close(fd);
	CHECK_EQ(unlink(un.sun_path), 0);
}

static void kernel_interfaces(void)
{
	expect("af_packet:iface=no-such-if", 0, -ENODEV, "no-such-if");
	expect("af_xdp:iface=no-such-if", 0, -ENODEV, "lo");
	if (unshare(CLONE_NEWNET) == 0) { /* of this thread only: an interface that is down */
		expect("af_packet:iface=lo", 0, -ENETDOWN, "ip link set lo up");
		expect("af_xdp:iface=lo", 0, -ENETDOWN, "ip link set lo up");
	}
}

static void no_permission(void)
{
	if (geteuid() != 0)
		return expect("af_packet:iface=lo", 0, -EPERM, "run as root");
	CHECK_EQ(chmod(dir, 0700), 0);
	CHECK_EQ(seteuid(65534), 0);
	expect("af_packet:iface=lo", 0, -EPERM, "run as root");
	expect("af_xdp:iface=lo", 0, -EPERM, "cap_sys_admin");
	CHECK_EQ(seteuid(0), 0);
}

static void devices(void)
{
	expect("pci:0000:ff:1f.7", 0, -ENODEV, "dpdk-devbind.py");
	expect("pci:nic0", 0, -EINVAL, "no PCI address");
	expect("vdev:net_nosuchdriver0", 0, -ENODEV, "driver");
	expect("vdev:net_null0,nonsense=1", 0, -ENODEV, "arguments");
}

static void too_many_buffers(void)
{
	struct hk_error err = {""};
	struct hk_port *port;
	CHECK_EQ(hk_port_open("vdev:net_ring0", 10000000, NULL, 0, &port, &err), -ENOMEM);
	CHECK(strstr(err.text, "more memory"));
	CHECK_EQ(hk_port_open("vdev:net_ring0", 64, NULL, 0, &port, &err), 0);
	struct hk_port *second;
	CHECK_EQ(hk_port_open("vdev:net_ring0", 64, NULL, 0, &second, &err), -EBUSY);
	hk_port_close(port);
}

static void stopped_before_closed(void)
{
	struct hk_error err = {""};
	struct hk_port *port;

	hk_port_stop(NULL);
	for (unsigned round = 0; round < 2; round++) { /* it serves again afterwards */
		CHECK_EQ(hk_port_open("vdev:net_ring0", 64, NULL, 0, &port, &err), 0);
		CHECK(hk_port_link(port));
		hk_port_stop(port);
		CHECK(!hk_port_link(port));
		hk_port_stop(port);
		hk_port_close(port);
		CHECK_EQ(rte_eth_dev_count_avail(), 0);
	}
}

/* Buffers of one port can serve another, if they are large enough. */
static void shared_pool(void)
{
	struct hk_error err = {""};
	struct hk_port *small, *large;
	CHECK_EQ(
		hk_port_open(wire("/small.sock,role=server,frame=2048"), 64, NULL, 0, &small, &err),
		0);
	CHECK_EQ(hk_port_open(wire("/large.sock,role=server"), 0, small->pool, 0, &large, &err),
		 -EMSGSIZE);
	CHECK_EQ(hk_port_open(wire("/large.sock,role=server"), 64, NULL, 0, &large, &err), 0);
	hk_port_close(small);
	CHECK_EQ(hk_port_open(wire("/small.sock,role=server,frame=2048"), 0, large->pool, 0, &small,
			      &err),
		 0);
	CHECK(small->pool == large->pool);
	CHECK_EQ(small->info.frame_max, 2048);
	CHECK_EQ(large->info.frame_max, 9216);
	CHECK(large->info.point_to_point && large->info.tx_multi_seg);
	hk_port_close(small);
	hk_port_close(large);
}

/* A server that is opened and closed again and again keeps nothing: no socket that listens. */
static void memif_stops_listening(void)
{
	struct hk_error err = {""};
	for (int i = 0; i < 20; i++) {
		struct hk_port *port;
		CHECK_MSG(hk_port_open(wire("/again.sock,role=server"), 64, NULL, 0, &port, &err) ==
				  0,
			  "%s", err.text);
		hk_port_close(port);
	}
	char line[256];
	FILE *f = fopen("/proc/net/unix", "r");
	CHECK(f != NULL);
	while (fgets(line, sizeof(line), f))
		CHECK_MSG(!strstr(line, dir), "still open: %s", line);
	fclose(f);
}

/* Who may poll queues of a port is known before it is opened, with the reason. */
static void whose_queues_are_shared(void)
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
		CHECK_MSG(strstr(why, port[i].says), "%s: \"%s\"", port[i].spec, why);
	}
}

/* ---- what EAL leaves ------------------------------------------------------------------------- */

static char run[32]; /* where EAL makes its directory */
static char stays[3]
		 [40]; /* what is not a dead process's in run/dpdk, or not one that we would make */

static void make_in_run(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/dpdk/%s", run, name);
	CHECK_EQ(mkdir(path, 0700), 0);
}

/* As if others had been killed while they started. */
static void before_eal(void)
{
	char path[256], name[24];
	pid_t dead = fork();

	if (dead == 0)
		_exit(0);
	CHECK_EQ(waitpid(dead, NULL, 0), dead);
	snprintf(run, sizeof(run), "/tmp/hk-run-XXXXXX");
	CHECK(mkdtemp(run) != NULL);
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", run, 1), 0);
	snprintf(path, sizeof(path), "%s/dpdk", run);
	CHECK_EQ(mkdir(path, 0700), 0);
	snprintf(name, sizeof(name), "hk-%d", (int)dead);
	make_in_run(name);
	snprintf(stays[0], sizeof(stays[0]), "hk-%d.more", (int)dead);
	snprintf(stays[1], sizeof(stays[1]), "other-%d", (int)dead);
	snprintf(stays[2], sizeof(stays[2]), "hk-%d", (int)getppid());
	for (unsigned i = 0; i < HK_ARRAY_LEN(stays); i++)
		make_in_run(stays[i]);
}

static void after_eal(void)
{
	char path[256];

	for (unsigned i = 0; i < HK_ARRAY_LEN(stays); i++) {
		snprintf(path, sizeof(path), "%s/dpdk/%s", run, stays[i]);
		CHECK_EQ(rmdir(path), 0);
	}
	snprintf(path, sizeof(path), "%s/dpdk", run);
	CHECK_EQ(rmdir(path), 0);
	CHECK_EQ(rmdir(run), 0);
}

/* hk_eal_init() leaves no file, and nothing of those that were killed in it. */
static void eal_leaves_no_trace(void)
{
	struct hk_error err;
	struct hk_eal_config cfg = {.memory_mb = 1};
	char path[256];

	CHECK_EQ(hk_eal_init(&cfg, &err), 0); /* again: changes nothing */
	snprintf(path, sizeof(path), "%s/dpdk", run);
	DIR *d = opendir(path);
	CHECK(d != NULL);
	for (struct dirent *e; (e = readdir(d));) {
		bool expected = e->d_name[0] == '.';

		for (unsigned i = 0; !expected && i < HK_ARRAY_LEN(stays); i++)
			expected = strcmp(e->d_name, stays[i]) == 0;
		CHECK_MSG(expected, "%s", e->d_name);
	}
	closedir(d);
}

static const struct hk_test tests[] = {
	{"wrong_specs", wrong_specs},
	{"memif_directories", memif_directories},
	{"memif_without_server", memif_without_server},
	{"memif_stale_socket", memif_stale_socket},
	{"memif_silent_server", memif_silent_server},
	{"memif_stops_listening", memif_stops_listening},
	{"devices", devices},
	{"too_many_buffers", too_many_buffers},
	{"stopped_before_closed", stopped_before_closed},
	{"shared_pool", shared_pool},
	{"whose_queues_are_shared", whose_queues_are_shared},
	{"eal_leaves_no_trace", eal_leaves_no_trace},
	{"no_permission", no_permission},
	{"kernel_interfaces", kernel_interfaces},
};

int main(int argc, char **argv)
{
	struct hk_error err;
	struct hk_eal_config eal = {.memory_mb = 128};
	cpu_set_t before, after;
	CHECK_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
	before_eal();
	if (hk_eal_init(&eal, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	CHECK_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
	CHECK(CPU_EQUAL(&before, &after));
	snprintf(dir, sizeof(dir), "/tmp/hk-test-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	int rc = hk_test_main(argc, argv, tests, HK_ARRAY_LEN(tests));
	after_eal();
	if (rmdir(dir) != 0) {
		fprintf(stderr, "FAIL: something is left in %s\n", dir);
		rc = 1;
	}
	return rc;
}
