/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/node_set.c: see node_set.h.
 */
#include "worker/node_set.h"

#include "base/hash.h"
#include "base/private_dir.h"
#include "base/unix_socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_LEN 16
/* Before Linux 5.14 a socket that is being opened looks dead for a moment. */
#define YOUNG_S 5

/* The name of the directory in @base, which machines may share. So it has the network namespace and
 * this start of the machine. */
static int name_of_node(char name[NAME_LEN])
{
	char boot[64];
	struct stat net;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof(boot));
	int rc = n <= 0 || stat("/proc/self/ns/net", &net) != 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	if (rc)
		return rc;
	snprintf(name, NAME_LEN, "wires-%08x",
		 hk_hash(hk_hash(HK_HASH_START, boot, (size_t)n), &net.st_ino, sizeof(net.st_ino)));
	return 0;
}

/* Does no process have the socket at @path? */
static bool is_dead(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(to.sun_path))
		return false;
	strcpy(to.sun_path, path);
	return hk_unix_socket_is_dead(&to, sizeof(to));
}

/* @fd is the directory at @path, and passes to the call. */
static void remove_dead(int fd, const char *path)
{
	DIR *dir = fdopendir(fd);
	const struct dirent *e;
	struct stat st;
	char each[512];

	if (!dir) {
		close(fd);
		return;
	}
	while ((e = readdir(dir))) {
		snprintf(each, sizeof(each), "%s/%s", path, e->d_name);
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISSOCK(st.st_mode) && time(NULL) - st.st_mtime >= YOUNG_S && is_dead(each))
			(void)unlinkat(dirfd(dir), e->d_name, 0); /* another process may be first */
	}
	closedir(dir);
}

int hk_node_set_open(const char *base, const char *setting, unsigned frame_max,
		     struct hk_node_set *out, struct hk_error *err)
{
	char own[HK_PRIVATE_BASE_LEN], name[NAME_LEN];
	int rc = name_of_node(name);

	out->path[0] = '\0';
	if (rc)
		return hk_error_set(err, rc, "/proc has no boot_id or no ns/net: %s",
				    strerror(-rc));
	hk_private_base(own);
	base = base ? base : own;
	char path[HK_NODE_SET_PATH];
	int n = snprintf(path, sizeof(path), "%s/%s", base, name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return hk_error_set(
			err, -ENAMETOOLONG,
			"the directory %s has too long a name; fix: set %s to another one", base,
			setting);
	int at = hk_private_dir_open(AT_FDCWD, base, true, setting, err);

	if (at < 0)
		return at;
	int fd = hk_private_dir_open(at, name, true, setting, err);

	close(at);
	if (fd < 0)
		return fd;
	remove_dead(fd, path);
	strcpy(out->path, path);
	snprintf(out->spec, sizeof(out->spec), "memif:dir=%s,frame=%u", path, frame_max);
	return 0;
}

void hk_node_set_close(const struct hk_node_set *set)
{
	(void)rmdir(set->path); /* others may be in it */
}
