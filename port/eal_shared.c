/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/eal_shared.c: DPDK's memory as several processes share it: what must hold before it starts, and
 * what must go when it ends.
 *
 * Under one name there are files in two places. The runtime directory (/var/run/dpdk/NAME for root)
 * holds `config`, which the primary keeps locked for life (so a lock tells whether it lives), the
 * tables of memory (fbarray_*) and a socket for each process (mp_socket*). The hugetlbfs holds the
 * memory itself (NAMEmap_N). A killed process leaves all of its own.
 *
 * EAL says little when it does not start, may not be started a second time, and waits without end
 * for a primary that never becomes ready. So everything that can be known is looked at before.
 */
#include "port/internal.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_version.h>

#define NAME_MAX_LEN    63
#define PRIMARY_WAIT_MS 5000 /* for one that is starting */

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
			    "'%.80s' is no name for shared memory; fix: give 1 to %d of the "
			    "characters A-Z a-z 0-9 _ . -, and no dot first",
			    shared ? shared : "", NAME_MAX_LEN);
}

#define RUNTIME_ENV "RUNTIME_DIRECTORY" /* systemd's */

static char given_dir[256]; /* by the primary */

/* As EAL chooses it, which tells only after it has started. */
const char *hk_eal_runtime_dir(void)
{
	const char *dir = given_dir[0] ? given_dir : getenv(RUNTIME_ENV);
	if (!dir && getuid() == 0)
		dir = "/var/run";
	if (!dir)
		dir = getenv("XDG_RUNTIME_DIR");
	return dir ? dir : "/tmp";
}

static void runtime_dir(const char *shared, char *out, size_t len)
{
	snprintf(out, len, "%s/dpdk/%s", hk_eal_runtime_dir(), shared);
}

int hk_eal_enter_dir(const char *dir, struct hk_env *before, struct hk_error *err)
{
	const char *old = getenv(RUNTIME_ENV);
	*before = (struct hk_env){.set = dir != NULL};
	if (!dir)
		return 0;
	if (strlen(dir) >= sizeof(given_dir))
		return hk_error_set(err, -ENAMETOOLONG,
				    "the primary's runtime directory has too long a name: "
				    "%.100s…; fix: start it with a shorter RUNTIME_DIRECTORY",
				    dir);
	before->old = old ? strdup(old) : NULL;
	if ((old && !before->old) || setenv(RUNTIME_ENV, dir, 1) != 0) {
		free(before->old);
		return hk_error_set(err, -ENOMEM, "no memory for DPDK's environment");
	}
	snprintf(given_dir, sizeof(given_dir), "%s", dir);
	return 0;
}

void hk_eal_leave_dir(struct hk_env *before)
{
	if (before->set && before->old)
		(void)setenv(RUNTIME_ENV, before->old, 1);
	else if (before->set)
		(void)unsetenv(RUNTIME_ENV);
	free(before->old);
}

/* ---- the primary ------------------------------------------------------------------------------ */

static ino_t primary_ino; /* a secondary's: of its primary's `config` */

/* Opens the primary's `config`; *@alive: it is locked by another process. -1 with errno if it
 * cannot be opened. */
static int open_config(const char *shared, bool *alive)
{
	char path[PATH_MAX];
	runtime_dir(shared, path, sizeof(path) - sizeof("/config"));
	strcat(path, "/config");
	*alive = false;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	*alive = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	return fd;
}

/* The first two words of DPDK's shared configuration: set when the primary has started, and its
 * version. */
struct config_head {
	uint32_t magic, version;
};

int hk_eal_prepare_secondary(const struct hk_eal_config *cfg, struct hk_error *err)
{
	int64_t deadline = hk_now_ms() + PRIMARY_WAIT_MS;
	int rc = check_name(cfg->shared, err);
	while (rc == 0) {
		struct config_head head = {0};
		bool alive;
		int fd = open_config(cfg->shared, &alive);
		if (fd < 0 && errno == EACCES)
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
			return hk_error_set(err, -ENOENT,
					    "no primary process serves the shared memory '%s'; "
					    "fix: start it first, or see why it ended",
					    cfg->shared);
		if (head.magic == RTE_MAGIC && head.version != RTE_VERSION)
			return hk_error_set(err, -EPROTONOSUPPORT,
					    "the primary process of '%s' runs DPDK %u.%02u.%u, and "
					    "this one %u.%02u.%u; fix: use the same DPDK in both, "
					    "and start the primary anew after an update",
					    cfg->shared, head.version >> 24,
					    head.version >> 16 & 0xff, head.version >> 8 & 0xff,
					    RTE_VERSION >> 24, RTE_VERSION >> 16 & 0xff,
					    RTE_VERSION >> 8 & 0xff);
		if (head.magic == RTE_MAGIC) {
			primary_ino = st.st_ino;
			return 0;
		}
		if (hk_now_ms() >= deadline)
			rc = hk_error_set(err, -ETIMEDOUT,
					  "the primary process of '%s' has not finished its start "
					  "within %d ms; fix: see what it is doing, or end it",
					  cfg->shared, PRIMARY_WAIT_MS);
		else
			hk_pause_1ms();
	}
	return rc;
}

bool hk_eal_locked(const char *shared)
{
	struct stat st;
	bool alive;
	int fd = open_config(shared, &alive);
	/* another primary may have taken the name: then it has another file */
	alive = alive && fstat(fd, &st) == 0 && st.st_ino == primary_ino;
	if (fd >= 0)
		close(fd);
	return alive;
}

/* ---- removal ---------------------------------------------------------------------------------- */

typedef bool file_filter(const char *file, const char *arg);

/* Unlinks the files in @dir that @mine picks. Returns 0 or the errno of the first that stayed, with
 * its path in @path. */
static int unlink_files(const char *dir, file_filter *mine, const char *arg, char *path, size_t len)
{
	DIR *d = opendir(dir);
	int rc = 0;
	if (!d && errno != ENOENT) {
		rc = errno;
		snprintf(path, len, "%s", dir);
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

/* "NAMEmap_12" */
static bool is_map_file(const char *file, const char *shared)
{
	size_t n = strlen(shared);
	if (strncmp(file, shared, n) != 0 || strncmp(file + n, "map_", 4) != 0)
		return false;
	file += n + 4;
	return *file && file[strspn(file, "0123456789")] == '\0';
}

/* A secondary's: "mp_socket_PID_…", "fbarray_…_PID_…". */
static bool is_own_file(const char *file, const char *pid)
{
	return (strncmp(file, "mp_socket_", 10) == 0 || strncmp(file, "fbarray_", 8) == 0) &&
	       strstr(file, pid);
}

/* In @huge_dir, or in each hugetlbfs. */
static int unlink_maps(const char *shared, const char *huge_dir, char *path, size_t len)
{
	if (huge_dir)
		return unlink_files(huge_dir, is_map_file, shared, path, len);
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	int rc = 0;
	for (struct mntent *m; mounts && (m = getmntent(mounts));) {
		/* not ours to read: nothing of ours lies there */
		if (strcmp(m->mnt_type, "hugetlbfs") == 0 && access(m->mnt_dir, R_OK | X_OK) == 0 &&
		    rc == 0)
			rc = unlink_files(m->mnt_dir, is_map_file, shared, path, len);
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
	int fd = open_config(shared, &alive);
	if (fd >= 0)
		close(fd);
	if (alive)
		return hk_error_set(err, -EBUSY,
				    "the primary process of '%s' lives: its files stay; "
				    "fix: end it first",
				    shared);
	runtime_dir(shared, dir, sizeof(dir));
	rc = unlink_files(dir, is_runtime_file, NULL, path, sizeof(path));
	if (rc == 0 && rmdir(dir) != 0 && errno != ENOENT) {
		rc = errno;
		snprintf(path, sizeof(path), "%s", dir);
	}
	if (rc == 0)
		rc = unlink_maps(shared, huge_dir, path, sizeof(path));
	if (rc == 0)
		return 0;
	if (rc == EACCES && strcmp(path, dir) == 0) /* the first user makes .../dpdk for itself */
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
	(void)unlink_files(dir, memory ? is_runtime_file : is_own_file, pid, path, sizeof(path));
	if (!memory)
		return;
	(void)rmdir(dir);
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

/* ---- huge pages ------------------------------------------------------------------------------- */

static long read_number(const char *path)
{
	FILE *f = fopen(path, "re");
	long n = -1;
	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

/* Is @dir in a hugetlbfs where we may make files? 0, or an errno. */
static int check_huge_dir(const char *dir, unsigned long *page)
{
	struct statfs fs;
	if (statfs(dir, &fs) != 0)
		return errno;
	if (fs.f_type != HUGETLBFS_MAGIC)
		return ENODEV;
	*page = (unsigned long)fs.f_bsize;
	return access(dir, R_OK | W_OK | X_OK) == 0 ? 0 : errno;
}

/* The given directory, or the first mounted hugetlbfs that we may use; of several, that with the
 * smallest pages. */
static int find_huge_dir(const char *given, char *out, size_t len, unsigned long *page,
			 struct hk_error *err)
{
	char real[PATH_MAX];
	int rc = ENODEV;
	*page = ULONG_MAX;
	if (given) { /* EAL compares it with what is mounted */
		rc = realpath(given, real) ? check_huge_dir(real, page) : errno;
		if (rc == 0 && strlen(real) >= len)
			rc = ENAMETOOLONG;
		if (rc == 0)
			snprintf(out, len, "%s", real);
	}
	FILE *mounts = given ? NULL : setmntent("/proc/self/mounts", "re");
	for (struct mntent *m; mounts && (m = getmntent(mounts));) {
		unsigned long size = 0;
		if (strcmp(m->mnt_type, "hugetlbfs") != 0 || strlen(m->mnt_dir) >= len)
			continue;
		int code = check_huge_dir(m->mnt_dir, &size);
		if (code == 0 && size < *page) {
			*page = size;
			snprintf(out, len, "%s", m->mnt_dir);
		}
		if (rc != 0)
			rc = code; /* one that fits is enough */
	}
	if (mounts)
		endmntent(mounts);
	if (rc == 0)
		return 0;
	if (rc == EACCES || rc == EROFS)
		return hk_error_set(
			err, -EACCES,
			"no permission to make files in the hugetlbfs%s%.200s: %s; "
			"fix: an administrator mounts one for you: mount -t hugetlbfs -o "
			"uid=%u,mode=0700,pagesize=2M none DIRECTORY",
			given ? " " : "", given ? given : "", strerror(rc), (unsigned)getuid());
	if (!given)
		return hk_error_set(err, -ENODEV,
				    "no hugetlbfs is mounted; fix: as root: mkdir -p "
				    "/dev/hugepages && mount -t hugetlbfs -o pagesize=2M none "
				    "/dev/hugepages");
	return hk_error_set(err, -rc,
			    "the directory for huge pages, %.150s, %s%s; fix: name one in a "
			    "hugetlbfs (findmnt -t hugetlbfs shows them), or none, so that it is "
			    "found (btl_hikyaku_huge_dir, HIKYAKU_HUGE_DIR, hikyakud's --huge-dir)",
			    given,
			    rc == ENODEV   ? "is not in a hugetlbfs"
			    : rc == ENOENT ? "does not exist"
					   : "cannot be used: ",
			    rc == ENODEV || rc == ENOENT ? "" : strerror(rc));
}

static int check_free_pages(unsigned long page, unsigned memory_mb, struct hk_error *err)
{
	char path[128];
	unsigned long kb = page / 1024, need = (memory_mb * 1024ul + kb - 1) / kb;
	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%lukB/free_hugepages", kb);
	long nfree = read_number(path);
	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%lukB/resv_hugepages", kb);
	long reserved = read_number(path);
	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%lukB/nr_hugepages", kb);
	long all = read_number(path);
	if (nfree < 0 || reserved < 0 || all < 0)
		return hk_error_set(err, -ENOSYS,
				    "this kernel does not tell of huge pages of %lu kB (%s); fix: "
				    "mount a hugetlbfs with another pagesize",
				    kb, path);
	nfree = HK_MAX(0, nfree - reserved);
	if ((unsigned long)nfree >= need)
		return 0;
	return hk_error_set(err, -ENOMEM,
			    "%s of %lu kB: %lu are needed for %u MB, and %ld are free; "
			    "fix: as root: echo %lu > %s",
			    all ? "too few huge pages" : "no huge pages are reserved", kb, need,
			    memory_mb, nfree, (unsigned long)all + need - (unsigned long)nfree,
			    path);
}

int hk_eal_prepare_primary(const struct hk_eal_config *cfg, unsigned memory_mb, char *huge_dir,
			   size_t len, struct hk_error *err)
{
	unsigned long page;
	int rc = check_name(cfg->shared, err);
	if (rc == 0)
		rc = find_huge_dir(cfg->huge_dir, huge_dir, len, &page, err);
	if (rc == 0)
		rc = hk_eal_remove_stale(cfg->shared, huge_dir, err);
	if (rc == -EBUSY)
		return hk_error_set(err, -EADDRINUSE,
				    "another primary process serves the shared memory '%s'; "
				    "fix: end it, or use another name",
				    cfg->shared);
	return rc ? rc : check_free_pages(page, memory_mb, err);
}

/* ---- virtual devices -------------------------------------------------------------------------- */

/* A secondary that starts asks the primary for its virtual devices, and probes all of them, also those
 * that are just being opened: their queues are missing then, and the first poll would crash. The
 * answer also goes to all other secondaries, which from then on can no longer probe the device
 * themselves. So the primary says that it has none; hk_port_attach() probes by name. */
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
			    "DPDK cannot answer to secondary processes; "
			    "fix: free some memory");
}
