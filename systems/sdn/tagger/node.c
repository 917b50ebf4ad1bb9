/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/node.c: finds and checks interfaces; makes and removes cgroups.
 */
#include "sdn/tagger/node.h"

#include "base/clock.h"
#include "wire/tag.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/magic.h>
#include <mntent.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* ---- interfaces ------------------------------------------------------------------------------ */

static bool wanted(const struct ifaddrs *i, char *const names[], unsigned count)
{
	for (unsigned n = 0; n < count; n++)
		if (strcmp(names[n], i->ifa_name) == 0)
			return true;
	return count == 0 && (i->ifa_flags & IFF_UP);
}

/* Returns whether @i is an Ethernet interface. */
static bool is_ethernet(const struct ifaddrs *i)
{
	const struct sockaddr_ll *ll = (const struct sockaddr_ll *)(const void *)i->ifa_addr;

	return ll && ll->sll_family == AF_PACKET && ll->sll_hatype == ARPHRD_ETHER &&
	       ll->sll_halen == 6;
}

/* Reports that no interface of @all is up. Only the user knows which one MPI uses. */
static int none_is_up(const struct ifaddrs *all, struct hk_error *err)
{
	const struct ifaddrs *i = all;

	while (i && !is_ethernet(i))
		i = i->ifa_next;
	if (!i)
		return hk_error_set(err, -ENODEV, "there is no Ethernet interface here");
	return hk_error_set(err, -ENODEV,
			    "no Ethernet interface is up here; fix: bring up the one that MPI "
			    "uses, such as: ip link set dev %s up",
			    i->ifa_name);
}

static int add_link(const struct ifaddrs *i, char *const names[], unsigned count,
		    struct hk_tagger_link *out, unsigned *n, struct hk_error *err)
{
	const struct sockaddr_ll *ll = (const struct sockaddr_ll *)(const void *)i->ifa_addr;
	uint64_t mac;

	if (!is_ethernet(i))
		return 0;
	mac = hk_tag_from_mac(ll->sll_addr);
	if (hk_tag_is(mac))
		return hk_error_set(err, -EADDRINUSE,
				    "%s has the address %02x:%02x:%02x:%02x:%02x:%02x, which looks "
				    "like a tag (66:48:… is reserved for tags); fix: ip link set "
				    "dev %s address 02:%02x:%02x:%02x:%02x:%02x",
				    i->ifa_name, ll->sll_addr[0], ll->sll_addr[1], ll->sll_addr[2],
				    ll->sll_addr[3], ll->sll_addr[4], ll->sll_addr[5], i->ifa_name,
				    ll->sll_addr[1], ll->sll_addr[2], ll->sll_addr[3],
				    ll->sll_addr[4], ll->sll_addr[5]);
	if (!wanted(i, names, count))
		return 0;
	if (*n == HK_TAGGER_LINKS)
		return hk_error_set(
			err, -ENOSPC,
			"more than %d interfaces; fix: name those that carry MPI: --iface "
			"NAME",
			HK_TAGGER_LINKS);
	snprintf(out[*n].name, sizeof(out[*n].name), "%s", i->ifa_name);
	out[*n].ifindex = (unsigned)ll->sll_ifindex;
	out[*n].mac = mac;
	(*n)++;
	return 0;
}

int hk_tagger_links_find(char *const names[], unsigned count,
			 struct hk_tagger_link out[HK_TAGGER_LINKS], struct hk_error *err)
{
	struct ifaddrs *all;
	unsigned n = 0;
	int rc = 0;

	if (getifaddrs(&all) != 0)
		return hk_error_set(err, -errno, "cannot list the interfaces: %s", strerror(errno));
	for (const struct ifaddrs *i = all; i && rc == 0; i = i->ifa_next)
		rc = add_link(i, names, count, out, &n, err);
	if (rc == 0 && n == 0 && count == 0)
		rc = none_is_up(all, err);
	freeifaddrs(all);
	if (rc)
		return rc;
	for (unsigned w = 0; w < count; w++) {
		bool found = false;
		for (unsigned i = 0; i < n; i++)
			found |= strcmp(names[w], out[i].name) == 0;
		if (!found)
			return hk_error_set(
				err, -ENODEV,
				"there is no Ethernet interface '%s' here; fix: 'ip link' "
				"lists them",
				names[w]);
	}
	return (int)n;
}

/* ---- cgroups --------------------------------------------------------------------------------- */

static int cgroup_mount(char *out, size_t len, struct hk_error *err)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	struct mntent *m;
	bool found = false;

	while (mounts && !found && (m = getmntent(mounts)) != NULL)
		if (strcmp(m->mnt_type, "cgroup2") == 0 && strlen(m->mnt_dir) < len) {
			snprintf(out, len, "%s", m->mnt_dir);
			found = true;
		}
	if (mounts)
		endmntent(mounts);
	if (found)
		return 0;
	/* sysfs has this directory and no other; else file systems of version 1 are below it */
	struct statfs fs;
	bool alone = statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == SYSFS_MAGIC;
	const char *where = alone ? "/sys/fs/cgroup" : "/sys/fs/cgroup/unified";
	return hk_error_set(err, -ENOENT,
			    "no cgroup2 file system is mounted, and the tagger needs a cgroup for "
			    "each job; fix: mkdir -p %s && mount -t cgroup2 none %s",
			    where, where);
}

/* Reads the cgroup of version 2 from /proc/@pid/cgroup: "0::/a/b", without the newline. */
static int cgroup_of(const char *pid, char *out, size_t len)
{
	char path[64], line[HK_TAGGER_PATH];
	int rc = -ENOENT;

	snprintf(path, sizeof(path), "/proc/%s/cgroup", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return -errno;
	while (rc && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::", 3) == 0 && strlen(line + 3) < len) {
			snprintf(out, len, "%s", line + 3);
			rc = 0;
		}
	}
	fclose(f);
	return rc;
}

int hk_tagger_cgroup_make(const char *name, struct hk_tagger_cgroup *out, struct hk_error *err)
{
	char mount[128], own[512];
	int rc = cgroup_mount(mount, sizeof(mount), err);

	if (rc)
		return rc;
	rc = cgroup_of("self", own, sizeof(own));
	if (rc)
		return hk_error_set(err, rc,
				    "this process is not in a cgroup of version 2: %s; fix: start "
				    "it in one, for example by systemd-run --user --scope",
				    strerror(-rc));
	const char *sep = strcmp(own, "/") == 0 ? "" : own;
	snprintf(out->name, sizeof(out->name), "%s/%.40s", sep, name);
	snprintf(out->path, sizeof(out->path), "%s%s/%.40s", mount, sep, name);
	if (mkdir(out->path, 0755) != 0)
		return hk_error_set(
			err, -errno,
			"cannot make the cgroup %s: %s; fix: run as root, or have the "
			"cgroup %s delegated (systemd-run --user --scope -p Delegate=yes)",
			out->path, strerror(errno), own);
	char events[HK_TAGGER_PATH + 32];
	snprintf(events, sizeof(events), "%s/cgroup.events", out->path);
	out->fd = open(out->path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	out->events = open(events, O_RDONLY | O_CLOEXEC);
	if (out->fd < 0 || out->events < 0) {
		rc = hk_error_set(err, -errno, "cannot open %s: %s", out->path, strerror(errno));
		(void)hk_tagger_cgroup_remove(out);
		return rc;
	}
	return 0;
}

static int move(const char *path, const char *pid)
{
	char procs[HK_TAGGER_PATH + 32];

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	int fd = open(procs, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int rc = write(fd, pid, strlen(pid)) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

int hk_tagger_cgroup_enter(const char *path, struct hk_error *err)
{
	int rc = move(path, "0");

	return rc == 0 ? 0
		       : hk_error_set(err, rc,
				      "cannot enter the job's cgroup %s: %s; fix: run as root, or "
				      "in a cgroup that is delegated to you",
				      path, strerror(-rc));
}

bool hk_tagger_cgroup_populated(const struct hk_tagger_cgroup *c)
{
	char text[256];
	ssize_t n = pread(c->events, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return strstr(text, "populated 1") != NULL;
}

bool hk_tagger_cgroup_has(const struct hk_tagger_cgroup *c, pid_t pid)
{
	char text[16], name[HK_TAGGER_PATH];
	size_t len = strlen(c->name);

	snprintf(text, sizeof(text), "%d", (int)pid);
	return cgroup_of(text, name, sizeof(name)) == 0 && strncmp(name, c->name, len) == 0 &&
	       (name[len] == '\0' || name[len] == '/'); /* this cgroup, or one below it */
}

/* Moves all processes of the cgroup to its parent. */
static void empty_into_parent(const char *path)
{
	char procs[HK_TAGGER_PATH + 32], parent[256], pid[16];

	snprintf(parent, sizeof(parent), "%s", path);
	*strrchr(parent, '/') = '\0';
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	FILE *f = fopen(procs, "re");
	if (!f)
		return;
	while (fgets(pid, sizeof(pid), f)) {
		pid[strcspn(pid, "\n")] = '\0';
		move(parent, pid);
	}
	fclose(f);
}

bool hk_tagger_cgroup_remove(struct hk_tagger_cgroup *c)
{
	int64_t end = hk_clock_ms() + HK_TAGGER_CGROUP_REMOVE_MS;
	bool gone;

	/* The next round moves processes that fork meanwhile. A process that ends leaves the cgroup
	 * when it next gets a core, which takes seconds on a busy machine. */
	while (!(gone = rmdir(c->path) == 0 || errno != EBUSY) && hk_clock_ms() < end) {
		struct timespec t = {.tv_nsec = 1000000};
		empty_into_parent(c->path);
		nanosleep(&t, NULL);
	}
	if (c->fd >= 0)
		close(c->fd);
	if (c->events >= 0)
		close(c->events);
	c->fd = c->events = -1;
	return gone;
}
