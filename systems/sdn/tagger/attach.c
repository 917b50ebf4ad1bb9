/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/attach.c: tcx links and clsact filters, by libbpf, and the claims of holders.
 */
#include "sdn/tagger/attach.h"

#include "base/unix_socket.h"
#include "wire/tag.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* Attach types of Linux 6.6, which older headers do not name. */
#define TCX_INGRESS 46
#define TCX_EGRESS  47

/* Priority and handle of our filters. The kernel assigns priorities from 49152 down to filters that
 * request none. A filter that its owner wants to run first mostly has priority 1. */
#define PRIORITY 72
#define HANDLE   0x484b5400u /* "HKT" and the job */

static const char *const names[HK_TAGGER_ATTACH_WAYS] = {"auto", "tcx", "clsact"};

const char *hk_tagger_attach_name(enum hk_tagger_attach way)
{
	return names[way];
}

const char *hk_tagger_attach_privilege(void)
{
	static char text[256];
	char path[128] = "";

	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		return "; fix: run as root";
	snprintf(text, sizeof(text),
		 "; fix: run as root, or: setcap cap_bpf,cap_perfmon,cap_net_admin+ep %s", path);
	return text;
}

enum hk_tagger_attach hk_tagger_attach_parse(const char *name)
{
	unsigned way = 0;

	while (way < HK_TAGGER_ATTACH_WAYS && strcmp(name, names[way]) != 0)
		way++;
	return (enum hk_tagger_attach)way;
}

enum hk_tagger_attach hk_tagger_attach_probe(unsigned ifindex)
{
	unsigned major, minor;
	struct utsname kernel;
	uint32_t programs = 0;
	int rc = bpf_prog_query((int)ifindex, (enum bpf_attach_type)TCX_EGRESS, 0, NULL, NULL,
				&programs);

	if (rc == -EPERM && uname(&kernel) == 0 &&
	    sscanf(kernel.release, "%u.%u", &major, &minor) == 2)
		return major > 6 || (major == 6 && minor >= 6) ? HK_TAGGER_ATTACH_TCX
							       : HK_TAGGER_ATTACH_CLSACT;
	return rc == -EINVAL || rc == -EOPNOTSUPP ? HK_TAGGER_ATTACH_CLSACT : HK_TAGGER_ATTACH_TCX;
}

/* ---- claims of holders ----------------------------------------------------------------------- */

static socklen_t address_of(unsigned job, struct sockaddr_un *addr)
{
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	int len = snprintf(addr->sun_path + 1, sizeof(addr->sun_path) - 1, "hikyaku-tag-%u", job);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int try_claim(unsigned job)
{
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr;
	socklen_t len = address_of(job, &addr);

	if (sock >= 0 && bind(sock, (struct sockaddr *)&addr, len) == 0)
		return sock;
	int rc = errno == EADDRINUSE ? -EBUSY : -errno;
	if (sock >= 0)
		close(sock);
	return rc;
}

/* Returns the inode of the socket that claims @job; 0 if it has been closed. */
static unsigned long claims_inode(unsigned job)
{
	char name[32], line[512], path[256];
	unsigned long inode = 0, found = 0;
	FILE *f = fopen("/proc/net/unix", "re");

	snprintf(name, sizeof(name), "@hikyaku-tag-%u", job);
	while (f && !found && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %lu %255s", &inode, path) == 2 &&
		    strcmp(path, name) == 0)
			found = inode;
	if (f)
		fclose(f);
	return found;
}

/* Whether process @pid has the socket. Only root can see another user's sockets. */
static bool has_socket(const char *pid, unsigned long inode)
{
	char path[300], socket[64], link[64];
	bool found = false;

	snprintf(socket, sizeof(socket), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	DIR *dir = opendir(path);
	for (const struct dirent *e; dir && !found && (e = readdir(dir));) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, link, sizeof(link) - 1);
		if (n > 0) {
			link[n] = '\0';
			found = strcmp(link, socket) == 0;
		}
	}
	if (dir)
		closedir(dir);
	return found;
}

/* Reports the process that has claimed @job, as far as this user may see it: any local user can
 * bind these names. */
static int claim_error(unsigned job, struct hk_error *err)
{
	static const char fix[] = "; fix: use another number, or omit --job";
	unsigned long inode = claims_inode(job);
	char path[300], name[32] = "?";
	DIR *proc = opendir("/proc");
	struct stat st;

	for (const struct dirent *e; proc && (e = readdir(proc));) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9' || !has_socket(e->d_name, inode))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		FILE *f = fopen(path, "re");
		if (f && fgets(name, sizeof(name), f))
			name[strcspn(name, "\n")] = '\0';
		if (f)
			fclose(f);
		if (fstatat(dirfd(proc), e->d_name, &st, 0) != 0)
			break; /* the process has ended */
		hk_error_set(err, -EBUSY,
			     "job %u is in use on this node, by process %s (%s) of user %u%s", job,
			     e->d_name, name, (unsigned)st.st_uid, fix);
		closedir(proc);
		return -EBUSY;
	}
	if (proc)
		closedir(proc);
	return hk_error_set(err, -EBUSY,
			    "job %u is in use on this node, by another user ('ss -xap' as root "
			    "shows the owner of @hikyaku-tag-%u)%s",
			    job, job, fix);
}

int hk_tagger_attach_claim(unsigned job, struct hk_error *err)
{
	const struct timespec moment = {.tv_nsec = 5000000};
	int sock = try_claim(job);

	/* a process that removes stale filters holds an ended job's claim for a moment */
	for (int i = 0; i < 10 && sock == -EBUSY; i++) {
		nanosleep(&moment, NULL);
		sock = try_claim(job);
	}
	if (sock == -EBUSY)
		return claim_error(job, err);
	return sock >= 0 ? sock
			 : hk_error_set(
				   err, sock,
				   "cannot claim job %u on this node: %s; fix: raise `ulimit -n`",
				   job, strerror(-sock));
}

/* Whether @job is claimed. Nobody reads the socket of a claim, but connecting to it succeeds. */
static bool claimed(unsigned job)
{
	struct sockaddr_un addr;
	socklen_t len = address_of(job, &addr);

	return !hk_unix_socket_is_dead(&addr, len);
}

/* ---- tcx ------------------------------------------------------------------------------------- */

int hk_tagger_attach_tcx(int fd, unsigned ifindex, bool ingress, const char *name,
			 struct hk_error *err)
{
	enum bpf_attach_type type = (enum bpf_attach_type)(ingress ? TCX_INGRESS : TCX_EGRESS);
	int link = bpf_link_create(fd, (int)ifindex, type, NULL);

	if (link == -EINVAL || link == -EOPNOTSUPP)
		return hk_error_set(err, link,
				    "cannot attach the tagger to %s by tcx: %s; fix: use Linux 6.6 "
				    "or newer, or --attach clsact",
				    name, strerror(-link));
	if (link < 0)
		return hk_error_set(err, link, "cannot attach the tagger to %s: %s%s", name,
				    strerror(-link), hk_tagger_attach_privilege());
	return link;
}

/* ---- clsact ---------------------------------------------------------------------------------- */

static struct bpf_tc_hook hook_of(unsigned ifindex, bool ingress)
{
	return (struct bpf_tc_hook){.sz = sizeof(struct bpf_tc_hook),
				    .ifindex = (int)ifindex,
				    .attach_point = ingress ? BPF_TC_INGRESS : BPF_TC_EGRESS};
}

static struct bpf_tc_opts filter_of(unsigned job)
{
	return (struct bpf_tc_opts){
		.sz = sizeof(struct bpf_tc_opts), .handle = HANDLE | job, .priority = PRIORITY};
}

/* Whether the interface has the older discipline "ingress". It has one list of filters, and also
 * accepts filters for packets that leave into that list. */
static bool is_ingress_alone(unsigned ifindex, unsigned job)
{
	libbpf_print_fn_t previous = libbpf_set_print(NULL);
	struct bpf_tc_hook hook = hook_of(ifindex, true);
	struct bpf_tc_opts filter = filter_of(job);
	bool there = bpf_tc_query(&hook, &filter) == 0;

	libbpf_set_print(previous);
	return there;
}

int hk_tagger_attach_clsact(int fd, unsigned ifindex, unsigned job, bool ingress, const char *name,
			    struct hk_error *err)
{
	struct bpf_tc_hook hook = hook_of(ifindex, ingress);
	struct bpf_tc_opts filter = filter_of(job);
	int rc = bpf_tc_hook_create(&hook); /* one discipline serves both directions */

	if (rc == 0 || rc == -EEXIST) {
		filter.prog_fd = fd;
		rc = bpf_tc_attach(&hook, &filter);
	}
	if (rc == 0 && !ingress && is_ingress_alone(ifindex, job)) {
		hk_tagger_attach_remove(ifindex, job, false);
		return hk_error_set(err, -EEXIST,
				    "%s has the queueing discipline 'ingress', which excludes "
				    "'clsact' and sees no packets that leave; fix: have its owner "
				    "use clsact, or tag other interfaces: --iface NAME",
				    name);
	}
	if (rc == -EPERM || rc == -EACCES)
		return hk_error_set(err, rc, "this user may not add filters to %s%s", name,
				    hk_tagger_attach_privilege());
	if (rc)
		return hk_error_set(
			err, rc,
			"cannot add a filter (priority %d, handle 0x%x) to %s of %s: %s; fix: find "
			"the filter that has it: tc filter show dev %s %s",
			PRIORITY, HANDLE | job, ingress ? "what comes in" : "what leaves", name,
			strerror(-rc), name, ingress ? "ingress" : "egress");
	return 0;
}

void hk_tagger_attach_remove(unsigned ifindex, unsigned job, bool ingress)
{
	struct bpf_tc_hook hook = hook_of(ifindex, ingress);
	struct bpf_tc_opts filter = filter_of(job);

	bpf_tc_detach(&hook, &filter);
}

/* Calls @each for the filters of jobs that no process has claimed, and for those of @own. */
static void find(unsigned own, hk_tagger_attach_each *each, void *arg)
{
	libbpf_print_fn_t previous = libbpf_set_print(
		NULL); /* a missing filter is not an error here */
	struct if_nameindex *links = if_nameindex();

	for (const struct if_nameindex *l = links; l && l->if_index; l++)
		for (unsigned both = 0; both < 2; both++)
			for (unsigned job = 1; job < HK_TAG_JOBS; job++) {
				struct bpf_tc_hook hook = hook_of(l->if_index, both);
				struct bpf_tc_opts filter = filter_of(job);
				int rc = bpf_tc_query(&hook, &filter);
				if (rc == 0 && (job == own || !claimed(job)))
					each(arg, l->if_name, l->if_index, job, both);
				if (rc && rc != -ENOENT)
					break; /* no clsact on this interface, so no filters */
			}
	if_freenameindex(links);
	libbpf_set_print(previous);
}

void hk_tagger_attach_stale(hk_tagger_attach_each *each, void *arg)
{
	find(0, each, arg);
}

static void remove_filter(void *own, const char *name, unsigned ifindex, unsigned job, bool ingress)
{
	/* if the job has been claimed meanwhile, its new holder may attach a filter there */
	int claim = job == *(unsigned *)own ? -1 : try_claim(job);

	(void)name;
	if (claim >= 0 || job == *(unsigned *)own)
		hk_tagger_attach_remove(ifindex, job, ingress);
	if (claim >= 0)
		close(claim);
}

void hk_tagger_attach_sweep(unsigned job)
{
	find(job, remove_filter, &job);
}
