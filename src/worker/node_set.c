/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/node_set.c: see node_set.h.
 */
#include "worker/node_set.h"

#include "base/private_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define NAME_LEN 32

/* The name of the directory in the user's base. The number of a network namespace is its own until
 * the machine restarts, and then the base is empty. */
static int name_of_node(char name[NAME_LEN])
{
	struct stat net;

	if (stat("/proc/self/ns/net", &net) != 0)
		return -errno;
	snprintf(name, NAME_LEN, "wires-%lu", (unsigned long)net.st_ino);
	return 0;
}

/* Does no process have the socket at @path? */
static bool is_dead(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	bool dead = false;

	if (strlen(path) >= sizeof(to.sun_path))
		return false;
	strcpy(to.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* a live socket of another kind answers EPROTOTYPE */
	if (fd >= 0)
		dead = connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 &&
		       errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return dead;
}

/* @fd is the directory at @path, and passes to the call. */
static void remove_dead(int fd, const char *path)
{
	DIR *dir = fdopendir(fd);
	const struct dirent *e;
	char each[512];

	if (!dir) {
		close(fd);
		return;
	}
	while ((e = readdir(dir))) {
		snprintf(each, sizeof(each), "%s/%s", path, e->d_name);
		if (e->d_type == DT_SOCK && is_dead(each))
			(void)unlinkat(dirfd(dir), e->d_name, 0); /* another process may be first */
	}
	closedir(dir);
}

int hk_node_set_open(const char *base, const char *setting, unsigned frame_max,
		     struct hk_node_set *out, struct hk_error *err)
{
	char own[HK_PRIVATE_BASE_LEN], name[NAME_LEN];
	int rc = name_of_node(name);

	if (rc)
		return hk_error_set(err, rc, "/proc/self/ns/net cannot be read: %s", strerror(-rc));
	hk_private_base(own);
	base = base ? base : own;
	int n = snprintf(out->path, sizeof(out->path), "%s/%s", base, name);

	if (n < 0 || (size_t)n >= sizeof(out->path))
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
	remove_dead(fd, out->path);
	snprintf(out->spec, sizeof(out->spec), "memif:dir=%s,frame=%u", out->path, frame_max);
	return 0;
}

void hk_node_set_close(const struct hk_node_set *set)
{
	(void)rmdir(set->path); /* others may be in it */
}
