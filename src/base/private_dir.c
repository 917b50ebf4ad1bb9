/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/private_dir.c: see base/private_dir.h.
 */
#include "base/private_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void hk_private_base(char out[HK_PRIVATE_BASE_LEN])
{
	unsigned uid = geteuid();

	if (uid == 0)
		snprintf(out, HK_PRIVATE_BASE_LEN, "/run/hikyaku");
	else
		snprintf(out, HK_PRIVATE_BASE_LEN, "/tmp/hikyaku-%u", uid);
}

/* Checks what has been opened, not its name. */
static int check(int fd, const char *path, const char *setting, struct hk_error *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return hk_error_set(err, -errno, "cannot read the owner of %s: %s", path,
				    strerror(errno));
	if (st.st_uid != geteuid())
		return hk_error_set(err, -EPERM,
				    "the directory %s belongs to user %u, but this process to user "
				    "%u; fix: set %s to a directory of your own",
				    path, st.st_uid, geteuid(), setting);
	if (st.st_mode & 022)
		return hk_error_set(err, -EPERM,
				    "others may write to the directory %s; fix: chmod 700 %s", path,
				    path);
	return 0;
}

int hk_private_dir_open(int at, const char *path, bool make, const char *setting,
			struct hk_error *err)
{
	if (make && mkdirat(at, path, 0700) != 0 && errno != EEXIST)
		return hk_error_set(err, -errno,
				    "cannot create the directory %s: %s; fix: set %s to a "
				    "directory that user %u may create",
				    path, strerror(errno), setting, geteuid());
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return hk_error_set(
			err, -ENOTDIR,
			"%s is not a directory; fix: remove it, or set %s to a directory "
			"of your own",
			path, setting);
	if (fd < 0)
		return hk_error_set(err, -errno, "cannot open the directory %s: %s", path,
				    strerror(errno));
	int rc = check(fd, path, setting, err);
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

int hk_private_remove(const char *path)
{
	const char *slash = strrchr(path, '/');
	char parent[512];
	struct stat st;
	int rc = -EPERM;

	if (path[0] != '/' || slash == path || (size_t)(slash - path) >= sizeof(parent))
		return -EINVAL;
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = '\0';
	int fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstatat(fd, slash + 1, &st, AT_SYMLINK_NOFOLLOW) != 0)
		rc = -errno;
	else if (st.st_uid == geteuid() && S_ISSOCK(st.st_mode))
		rc = unlinkat(fd, slash + 1, 0) ? -errno : 0;
	else if (st.st_uid == geteuid() && S_ISDIR(st.st_mode))
		rc = unlinkat(fd, slash + 1, AT_REMOVEDIR) ? -errno : 0;
	close(fd);
	return rc;
}
