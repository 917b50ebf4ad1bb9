/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/xdp.c: preparation of an interface for DPDK's AF_XDP driver.
 *
 * DESIGN NOTES
 *
 * Problem: the driver, through libxdp, attaches a small program to the interface, which passes
 * frames to the socket, and removes it at close. A killed process leaves its program attached. TCP
 * on that interface then becomes slower, its MTU cannot be changed, and frames for the dead socket
 * are lost.
 *
 * Approach: before it opens an interface, hk_xdp_prepare() removes a program with libxdp's name if
 * no queue of the interface has an AF_XDP socket. To find such sockets it binds a temporary socket
 * to each queue. On a queue in use the kernel refuses a second socket with another umem (EBUSY).
 * The temporary socket uses copy mode, which does not reconfigure the device.
 *
 * Only one process may use an interface, because the driver removes the program at close even if
 * other processes need it. So an interface is busy as soon as one of its queues is. Two processes
 * that open it at the same moment find all queues free. So each first claims the interface, by a
 * socket name that the kernel gives only once in a network namespace.
 *
 * Rejected: the kernel's socket diagnosis for AF_XDP, which many kernels do not contain.
 */
#include "port/internal.h"
#include "port/netlink.h"

#include <dlfcn.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <linux/rtnetlink.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

#define MAX_QUEUES_TRIED 256
#define PROBE_RING       8u
#define PROBE_UMEM       (PROBE_RING * 4096u)

/* ---- the link ------------------------------------------------------------------------------- */

struct link_state {
	unsigned queues;
	uint32_t prog; /* id of an XDP program in any mode; 0: none */
};

static int get_link(unsigned ifindex, struct link_state *st)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} req = {{sizeof(req), RTM_GETLINK, NLM_F_REQUEST, 1, 0},
		 {.ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex}};
	char *reply = malloc(HK_NETLINK_REPLY);
	ssize_t n = reply ? hk_netlink_request(&req.h, reply, HK_NETLINK_REPLY) : -ENOMEM;

	*st = (struct link_state){.queues = 1};
	if (n >= (ssize_t)NLMSG_LENGTH(sizeof(struct ifinfomsg))) {
		const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)reply;
		const struct ifinfomsg *i = NLMSG_DATA(h);
		const struct rtattr *a = IFLA_RTA(i);
		int len = (int)IFLA_PAYLOAD(h);
		st->queues = HK_MAX(1u,
				    hk_netlink_u32(hk_netlink_attr(a, len, IFLA_NUM_RX_QUEUES)));
		const struct rtattr *xdp = hk_netlink_attr(a, len, IFLA_XDP);
		static const unsigned short ids[] = {IFLA_XDP_PROG_ID, IFLA_XDP_DRV_PROG_ID,
						     IFLA_XDP_SKB_PROG_ID, IFLA_XDP_HW_PROG_ID};
		for (size_t k = 0; xdp && k < HK_ARRAY_LEN(ids) && !st->prog; k++)
			st->prog = hk_netlink_u32(
				hk_netlink_attr(RTA_DATA(xdp), (int)RTA_PAYLOAD(xdp), ids[k]));
	}
	free(reply);
	return n < 0 ? (int)n : 0;
}

static int detach(unsigned ifindex)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
		struct rtattr nest, fd;
		int32_t fd_value;
	} req = {{sizeof(req), RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0},
		 {.ifi_family = AF_UNSPEC, .ifi_index = (int)ifindex},
		 {RTA_LENGTH(RTA_LENGTH(4)), IFLA_XDP | NLA_F_NESTED},
		 {RTA_LENGTH(4), IFLA_XDP_FD},
		 -1};
	char reply[512];
	ssize_t rc = hk_netlink_request(&req.h, reply, sizeof(reply));
	return rc < 0 ? (int)rc : 0;
}

/* ---- programs and sockets -------------------------------------------------------------------- */

static int sys_bpf(enum bpf_cmd cmd, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

static void prog_name(uint32_t id, char name[BPF_OBJ_NAME_LEN])
{
	struct bpf_prog_info info;
	union bpf_attr attr;
	memset(&attr, 0, sizeof(attr));
	memset(&info, 0, sizeof(info));
	attr.prog_id = id;
	int fd = sys_bpf(BPF_PROG_GET_FD_BY_ID, &attr);
	if (fd >= 0) {
		memset(&attr, 0, sizeof(attr));
		attr.info.bpf_fd = (uint32_t)fd;
		attr.info.info_len = sizeof(info);
		attr.info.info = (uint64_t)(uintptr_t)&info;
		(void)sys_bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
		close(fd);
	}
	memcpy(name, info.name, BPF_OBJ_NAME_LEN);
	name[BPF_OBJ_NAME_LEN - 1] = '\0';
}

/* Tests whether an AF_XDP socket can be bound to this queue. Returns 0 or a negative errno; -EBUSY
 * means that a socket of another process is bound. */
static int try_queue(unsigned ifindex, unsigned queue)
{
	void *mem = mmap(NULL, PROBE_UMEM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	if (mem == MAP_FAILED)
		return -errno;
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0), size = PROBE_RING;
	struct xdp_umem_reg umem = {
		.addr = (uint64_t)(uintptr_t)mem, .len = PROBE_UMEM, .chunk_size = 4096};
	struct sockaddr_xdp sxdp = {.sxdp_family = AF_XDP,
				    .sxdp_flags = XDP_COPY,
				    .sxdp_ifindex = ifindex,
				    .sxdp_queue_id = queue};
	bool ok = fd >= 0 && setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof(umem)) == 0 &&
		  setsockopt(fd, SOL_XDP, XDP_UMEM_FILL_RING, &size, sizeof(size)) == 0 &&
		  setsockopt(fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &size, sizeof(size)) == 0 &&
		  setsockopt(fd, SOL_XDP, XDP_RX_RING, &size, sizeof(size)) == 0 &&
		  bind(fd, (struct sockaddr *)&sxdp, sizeof(sxdp)) == 0;
	int rc = ok ? 0 : -errno;
	if (fd >= 0)
		close(fd);
	munmap(mem, PROBE_UMEM);
	return rc;
}

static bool is_libxdp_prog(const char *name)
{
	return strcmp(name, "xsk_def_prog") == 0 || strcmp(name, "xdp_dispatcher") == 0;
}

/* ---- the claim ------------------------------------------------------------------------------- */

int hk_xdp_claim(const char *spec, const char *name, int *claim, struct hk_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "hikyaku-xdp-%u",
			 if_nametoindex(name));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return hk_error_set(err, -errno, "port %s: no socket: %s", spec, strerror(errno));
	if (bind(fd, (struct sockaddr *)&a,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) != 0) {
		close(fd);
		return hk_error_set(err, -EBUSY,
				    "port %s: another process opens or has an AF_XDP port on %s; "
				    "fix: end it, or give each process an interface of its own",
				    spec, name);
	}
	*claim = fd;
	return 0;
}

/* ---- before and after the driver ------------------------------------------------------------- */

int hk_xdp_prepare(const char *spec, const char *name, bool *tested, struct hk_error *err)
{
	unsigned ifindex = if_nametoindex(name);
	struct link_state st;
	int rc = get_link(ifindex, &st);
	if (rc)
		return hk_error_set(err, rc, "port %s: the kernel does not describe %s: %s", spec,
				    name, strerror(-rc));
	unsigned queues = *tested ? 0 : HK_MIN(st.queues, (unsigned)MAX_QUEUES_TRIED);
	for (unsigned q = 0; q < queues; q++) {
		rc = try_queue(ifindex, q);
		if (rc == -EBUSY)
			return hk_error_set(err, rc,
					    "port %s: another process has an AF_XDP socket on "
					    "queue %u of %s; fix: end it, or give each process an "
					    "interface of its own",
					    spec, q, name);
		if (rc == -EAFNOSUPPORT)
			return hk_error_set(err, rc,
					    "port %s: this kernel has no AF_XDP; fix: use "
					    "af_packet:iface=%s",
					    spec, name);
		if (rc == -EPERM || rc == -EACCES)
			return hk_error_set(err, rc,
					    "port %s: no permission for AF_XDP: %s; fix: run as "
					    "root, or give the program cap_net_raw, cap_net_admin, "
					    "cap_ipc_lock and cap_sys_admin",
					    spec, strerror(-rc));
	}
	*tested = true;
	if (!st.prog)
		return 0;

	char prog[BPF_OBJ_NAME_LEN];
	prog_name(st.prog, prog);
	if (is_libxdp_prog(prog))
		rc = detach(ifindex);
	if (!is_libxdp_prog(prog) || rc)
		return hk_error_set(err, -EBUSY,
				    "port %s: the XDP program \"%s\" (id %u) is on %s%s%s; fix: if "
				    "nobody needs it, ip link set %s xdp off",
				    spec, prog, st.prog, name, rc ? " and cannot be removed: " : "",
				    rc ? strerror(-rc) : "", name);
	return 0;
}

void hk_xdp_cleanup(const char *name)
{
	unsigned ifindex = if_nametoindex(name);
	struct link_state st;
	char prog[BPF_OBJ_NAME_LEN];
	if (!ifindex || get_link(ifindex, &st) || !st.prog)
		return;
	prog_name(st.prog, prog);
	if (is_libxdp_prog(prog))
		(void)detach(ifindex);
}

/* ---- the libraries under the driver ---------------------------------------------------------- */

static int print_nothing(int level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

/* Silences one library. The driver loads libbpf and libxdp, and this code does not link them, so it
 * gets their functions from the loader. */
static void silence_library(const char *library, const char *function)
{
	typedef int (*print_fn)(int, const char *, va_list);
	void *lib = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
	if (!lib)
		return;
	void *sym = dlsym(lib, function);
	print_fn (*set_print)(print_fn);
	memcpy(&set_print, &sym, sizeof(set_print));
	if (set_print)
		(void)set_print(print_nothing);
	dlclose(lib);
}

static bool set_by_us;

void hk_xdp_driver_enter(bool verbose)
{
	if (!verbose) {
		silence_library("libbpf.so.1", "libbpf_set_print");
		silence_library("libbpf.so.0", "libbpf_set_print");
		silence_library("libxdp.so.1", "libxdp_set_print");
	}
	/* The dispatcher would leave pinned files in bpffs, even after an orderly end. */
	set_by_us = !getenv("LIBXDP_SKIP_DISPATCHER") &&
		    setenv("LIBXDP_SKIP_DISPATCHER", "1", 0) == 0;
}

void hk_xdp_driver_leave(void)
{
	if (set_by_us)
		unsetenv("LIBXDP_SKIP_DISPATCHER");
}
