/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/eal_shared.c: DPDK memory that several processes share: checks before the start, and removal
 * of files at the end.
 *
 * Each shared memory has files in two places, under its name:
 *  - The runtime directory (/var/run/dpdk/NAME for root) contains `config`, the tables of memory
 *    (fbarray_*) and a socket for each process (mp_socket*). The primary locks `config` for life,
 *    so the lock shows whether it is alive.
 *  - The hugetlbfs contains the memory itself (NAMEmap_N).
 * A killed process leaves its files.
 *
 * EAL gives poor reasons when its start fails, cannot be started twice, and waits for ever for a
 * primary that never becomes ready. So this file checks all that it can beforehand.
 */
#include "base/private_dir.h"
#include "port/internal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_version.h>

#define NAME_MAX_LEN      63
#define MAKE_DIR_ATTEMPTS 100  /* each fails only if a process removes the parent just then */
#define PRIMARY_WAIT_MS   5000 /* limit of the wait for a primary that is starting */

/* ---- names ----------------------------------------------------------------------------------- */

static int check_name(const char *shared, struct hk_error *err)
{
	size_t n = shared ? strlen(shared) : 0;
	bool ok = n > 0 && n <= NAME_MAX_LEN && shared[0] != '.';
	for (size_t i = 0; ok && i < n; i++)
		ok = isalnum((unsigned char)shared[i]) || strchr("_.-", shared[i]);
	if (ok)
		return 0;
	return hk_error_set(err, -EINVAL,
			    "'%.80s' is not a name for shared memory; fix: give 1 to %d of the "
			    "characters A-Z a-z 0-9 _ . -, and no dot first",
			    shared ? shared : "", NAME_MAX_LEN);
}

#define RUNTIME_ENV "RUNTIME_DIRECTORY" /* set by systemd */

static char primary_dir[256]; /* the primary's directory, in a secondary that was given it */

/* EAL itself would use /tmp at the end, in which others may have made `dpdk` first. */
const char *hk_eal_runtime_dir(void)
{
	static char own[HK_PRIVATE_BASE_LEN];
	const char *dir = primary_dir[0] ? primary_dir : getenv(RUNTIME_ENV);
	if (!dir && getuid() == 0)
		dir = "/var/run";
	if (!dir)
		dir = getenv("XDG_RUNTIME_DIR");
	if (dir)
		return dir;
	hk_private_base(own);
	return own;
}

static void runtime_dir(const char *shared, char *out, size_t len)
{
	snprintf(out, len, "%s/dpdk/%s", hk_eal_runtime_dir(), shared);
}

int hk_eal_make_runtime_base(struct hk_error *err)
{
	char own[HK_PRIVATE_BASE_LEN];

	hk_private_base(own);
	if (strcmp(hk_eal_runtime_dir(), own) != 0)
		return 0;
	int fd = hk_private_dir_open(AT_FDCWD, own, true, "XDG_RUNTIME_DIR", err);
	if (fd >= 0)
		close(fd);
	return HK_MIN(fd, 0);
}

/* Opens dpdk/@shared. Nobody else can write there, so its files are ours. */
static int open_runtime_dir(const char *shared, bool make, struct hk_error *err)
{
	char path[PATH_MAX];
	int rc = make ? hk_eal_make_runtime_base(err) : 0;

	if (rc)
		return rc;
	runtime_dir("", path, sizeof(path));
	path[strlen(path) - 1] = '\0';
	int dpdk = hk_private_dir_open(AT_FDCWD, path, make, "XDG_RUNTIME_DIR", err);
	if (dpdk < 0)
		return dpdk;
	rc = hk_private_dir_open(dpdk, shared, make, "XDG_RUNTIME_DIR", err);
	close(dpdk);
	return rc;
}

int hk_eal_make_runtime_dir(const char *name, struct hk_error *err)
{
	int fd = -ENOENT;

	for (int i = 0; i < MAKE_DIR_ATTEMPTS && fd == -ENOENT; i++)
		fd = open_runtime_dir(name, true, err);
	if (fd >= 0)
		close(fd);
	return HK_MIN(fd, 0);
}

int hk_eal_runtime_dir_set(const char *dir, struct hk_saved_env *before, struct hk_error *err)
{
	const char *old = getenv(RUNTIME_ENV);
	*before = (struct hk_saved_env){.set = dir != NULL};
	if (!dir && !old && getuid() != 0 && !getenv("XDG_RUNTIME_DIR")) {
		dir = hk_eal_runtime_dir();
		before->set = true;
	}
	if (!dir)
		return 0;
	if (strlen(dir) >= sizeof(primary_dir))
		return hk_error_set(err, -ENAMETOOLONG,
				    "the primary's runtime directory has too long a name: "
				    "%.100s…; fix: start it with a shorter RUNTIME_DIRECTORY",
				    dir);
	before->old = old ? strdup(old) : NULL;
	if ((old && !before->old) || setenv(RUNTIME_ENV, dir, 1) != 0) {
		free(before->old);
		return hk_error_set(err, -ENOMEM, "no memory for DPDK's environment");
	}
	if (dir != primary_dir)
		snprintf(primary_dir, sizeof(primary_dir), "%s", dir);
	return 0;
}

void hk_eal_runtime_dir_restore(struct hk_saved_env *before)
{
	if (before->set && before->old)
		(void)setenv(RUNTIME_ENV, before->old, 1);
	else if (before->set)
		(void)unsetenv(RUNTIME_ENV);
	free(before->old);
}

/* ---- the primary ---------------------------------------------------------------------------- */

static ino_t primary_ino; /* in a secondary: inode of its primary's `config` */

int hk_eal_open_config(const char *shared, bool *alive)
{
	int dir = open_runtime_dir(shared, false, NULL);
	*alive = false;
	if (dir < 0) {
		errno = -dir;
		return -1;
	}
	int fd = openat(dir, "config", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	close(dir);
	if (fd < 0)
		return -1;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	*alive = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	return fd;
}

/* The first two words of DPDK's shared configuration. The primary sets `magic` when its start has
 * finished. */
struct config_head {
	uint32_t magic, version;
};

int hk_eal_prepare_secondary(const struct hk_eal_config *cfg, struct hk_error *err)
{
	int64_t deadline = hk_clock_ms() + PRIMARY_WAIT_MS;
	int rc = check_name(cfg->shared, err);
	while (rc == 0) {
		struct config_head head = {0};
		bool alive;
		int fd = hk_eal_open_config(cfg->shared, &alive);
		if (fd < 0 && (errno == EACCES || errno == EPERM))
			return hk_error_set(err, -EACCES,
					    "the shared memory '%s' belongs to another user; "
					    "fix: run as the user who runs its primary process",
					    cfg->shared);
		struct stat st;
		if (fd >= 0 &&
		    (pread(fd, &head, sizeof(head), 0) != sizeof(head) || fstat(fd, &st) != 0))
			head.magic = 0;
		if (fd >= 0)
			close(fd);
		if (!alive)
			return hk_error_set(
				err, -ENOENT,
				"no primary process of the shared memory '%s' is running; "
				"fix: start it first, or see why it ended",
				cfg->shared);
		if (head.magic == RTE_MAGIC && head.version != RTE_VERSION)
			return hk_error_set(err, -EPROTONOSUPPORT,
					    "the primary process of '%s' runs DPDK %u.%02u.%u, and "
					    "this one %u.%02u.%u; fix: use the same DPDK in both, "
					    "and restart the primary after an update",
					    cfg->shared, head.version >> 24,
					    head.version >> 16 & 0xff, head.version >> 8 & 0xff,
					    RTE_VERSION >> 24, RTE_VERSION >> 16 & 0xff,
					    RTE_VERSION >> 8 & 0xff);
		if (head.magic == RTE_MAGIC) {
			primary_ino = st.st_ino;
			return 0;
		}
		if (hk_clock_ms() >= deadline)
			rc = hk_error_set(err, -ETIMEDOUT,
					  "the primary process of '%s' has not finished its start "
					  "within %d ms; fix: see what it is doing, or end it",
					  cfg->shared, PRIMARY_WAIT_MS);
		else
			hk_pause_1ms();
	}
	return rc;
}

bool hk_eal_same_primary_lives(const char *shared)
{
	struct stat st;
	bool alive;
	int fd = hk_eal_open_config(shared, &alive);
	/* another primary may have started under the name: then it has another file */
	alive = alive && fstat(fd, &st) == 0 && st.st_ino == primary_ino;
	if (fd >= 0)
		close(fd);
	return alive;
}

/* ---- removal -------------------------------------------------------------------------------- */

typedef bool file_filter(const char *file, const char *arg);

/* Unlinks the files in the directory @fd, called @dir, that @mine selects, and closes @fd. Returns
 * 0, or the errno of the first file that it could not unlink, with the path in @path. @fd may be a
 * negative errno. */
static int unlink_files(int fd, const char *dir, file_filter *mine, const char *arg, char *path,
			size_t len)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int rc = 0;
	if (!d && fd != -ENOENT) {
		rc = fd < 0 ? -fd : errno;
		snprintf(path, len, "%s", dir);
		if (fd >= 0)
			close(fd);
	}
	for (struct dirent *e; d && (e = readdir(d));) {
		if (!mine(e->d_name, arg) || unlinkat(dirfd(d), e->d_name, 0) == 0 ||
		    errno == ENOENT || rc)
			continue;
		rc = errno;
		snprintf(path, len, "%.3000s/%s", dir, e->d_name);
	}
	if (d)
		closedir(d);
	return rc;
}

static bool is_runtime_file(const char *file, const char *arg)
{
	(void)arg;
	return strcmp(file, "config") == 0 || strcmp(file, "hugepage_info") == 0 ||
	       strcmp(file, "hugepage_data") == 0 || strncmp(file, "fbarray_", 8) == 0 ||
	       strncmp(file, "mp_socket", 9) == 0;
}

/* Returns whether @file is of the form NAMEmap_12. */
static bool is_map_file(const char *file, const char *shared)
{
	size_t n = strlen(shared);
	if (strncmp(file, shared, n) != 0 || strncmp(file + n, "map_", 4) != 0)
		return false;
	file += n + 4;
	return *file && file[strspn(file, "0123456789")] == '\0';
}

/* Returns whether @file is a secondary's: mp_socket_PID_… or fbarray_…_PID_…. */
static bool is_own_file(const char *file, const char *pid)
{
	return (strncmp(file, "mp_socket_", 10) == 0 || strncmp(file, "fbarray_", 8) == 0) &&
	       strstr(file, pid);
}

/* Unlinks the memory's files in one hugetlbfs. */
static int unlink_maps_in(const char *shared, const char *dir, char *path, size_t len)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return unlink_files(fd < 0 ? -errno : fd, dir, is_map_file, shared, path, len);
}

/* Unlinks the memory's files in @huge_dir, or in each hugetlbfs if that is NULL. */
static int unlink_maps(const char *shared, const char *huge_dir, char *path, size_t len)
{
	if (huge_dir)
		return unlink_maps_in(shared, huge_dir, path, len);
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	int rc = 0;
	for (struct mntent *m; mounts && (m = getmntent(mounts));) {
		/* a directory that we cannot read contains no files of ours */
		if (strcmp(m->mnt_type, "hugetlbfs") == 0 && access(m->mnt_dir, R_OK | X_OK) == 0 &&
		    rc == 0)
			rc = unlink_maps_in(shared, m->mnt_dir, path, len);
	}
	if (mounts)
		endmntent(mounts);
	return rc;
}

int hk_eal_remove_stale(const char *shared, const char *huge_dir, struct hk_error *err)
{
	char dir[PATH_MAX], path[PATH_MAX] = "";
	bool alive;
	int rc = check_name(shared, err);
	if (rc)
		return rc;
	int fd = hk_eal_open_config(shared, &alive);
	if (fd >= 0)
		close(fd);
	if (alive)
		return hk_error_set(err, -EBUSY,
				    "the primary process of '%s' is alive: its files stay; "
				    "fix: end it first",
				    shared);
	runtime_dir(shared, dir, sizeof(dir));
	rc = unlink_files(open_runtime_dir(shared, false, NULL), dir, is_runtime_file, NULL, path,
			  sizeof(path));
	if (rc == 0 && rmdir(dir) != 0 && errno != ENOENT) {
		rc = errno;
		snprintf(path, sizeof(path), "%s", dir);
	}
	if (rc == 0)
		rc = unlink_maps(shared, huge_dir, path, sizeof(path));
	if (rc == 0)
		return 0;
	if ((rc == EACCES || rc == EPERM) && strcmp(path, dir) == 0)
		return hk_error_set(err, -EACCES,
				    "no permission for DPDK's runtime directory %.200s; fix: set "
				    "XDG_RUNTIME_DIR to a directory of yours, the same for all "
				    "processes",
				    path);
	return hk_error_set(
		err, -rc,
		"cannot remove %.200s, which a former primary process of '%s' left: %s; "
		"fix: remove it as the user whom it belongs to, or use another name",
		path, shared, strerror(rc));
}

void hk_eal_remove_own(const char *shared, const char *huge_dir, bool memory)
{
	char dir[PATH_MAX], path[PATH_MAX], pid[24];
	runtime_dir(shared, dir, sizeof(dir));
	snprintf(pid, sizeof(pid), "_%d_", (int)getpid());
	(void)unlink_files(open_runtime_dir(shared, false, NULL), dir,
			   memory ? is_runtime_file : is_own_file, pid, path, sizeof(path));
	(void)rmdir(dir);
	if (memory)
		(void)unlink_maps(shared, huge_dir, path, sizeof(path));
}

void hk_eal_remove_empty(void)
{
	char dir[PATH_MAX];
	int pid, end;

	runtime_dir("", dir, sizeof(dir));
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));)
		if (sscanf(e->d_name, HK_EAL_ALONE_NAME "%n", &pid, &end) == 1 &&
		    e->d_name[end] == '\0' && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH)
			(void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	if (d)
		closedir(d);
}

/* ---- start of a primary ---------------------------------------------------------------------- */

int hk_eal_prepare_primary(const struct hk_eal_config *cfg, unsigned memory_mb, char *huge_dir,
			   size_t len, struct hk_error *err)
{
	unsigned long page;
	int rc = check_name(cfg->shared, err);
	if (rc == 0)
		rc = hk_eal_find_huge_dir(cfg->huge_dir, huge_dir, len, &page, err);
	if (rc == 0)
		rc = hk_eal_remove_stale(cfg->shared, huge_dir, err);
	if (rc == -EBUSY)
		return hk_error_set(err, -EADDRINUSE,
				    "another primary process uses the shared memory '%s'; "
				    "fix: end it, or use another name",
				    cfg->shared);
	return rc ? rc : hk_eal_check_free_pages(huge_dir, page, memory_mb, err);
}

/* ---- virtual devices ------------------------------------------------------------------------ */

/* Answers a starting secondary that the primary has no virtual devices; hk_port_attach() probes
 * them by name.
 *
 * DPDK's own answer lists the devices, and the secondary then probes all of them. For one that is
 * just being opened the queues would be missing, and the first poll would crash. That answer also
 * goes to all other secondaries, which can then no longer probe the device themselves. */
static int no_devices(const struct rte_mp_msg *msg, const void *peer)
{
	struct rte_mp_msg reply;
	memset(&reply, 0, sizeof(reply));
	memcpy(reply.name, msg->name, sizeof(reply.name));
	reply.len_param = msg->len_param;
	return rte_mp_reply(&reply, peer);
}

int hk_eal_hide_devices(struct hk_error *err)
{
	static const char action[] = "bus_vdev_mp"; /* drivers/bus/vdev */
	rte_mp_action_unregister(action);
	if (rte_mp_action_register(action, no_devices) == 0)
		return 0;
	return hk_error_set(err, -ENOMEM,
			    "DPDK cannot answer secondary processes; "
			    "fix: free some memory");
}
