/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/port/shared_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES_FILE "/proc/sys/vm/nr_hugepages"
#define LOCK_FILE  "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
#define ROLE_FD    3

char rig_dir[64], rig_huge[80], rig_run[80];
static pid_t keeper;
static int keeper_fd; /* open as long as this process lives */

/* ---- huge pages and directories --------------------------------------------------------------- */

static long read_pages(void)
{
	FILE *f = fopen(PAGES_FILE, "re");
	long n = -1;
	if (f && fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

int rig_pool_lock(int wait_ms)
{
	int fd = open(LOCK_FILE, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (wait_ms <= 0) {
			close(fd);
			return -1;
		}
		(void)poll(NULL, 0, 10); /* whoever has it sends no word */
		wait_ms -= 10;
	}
	return fd;
}

/* Adds to what is there: others reserve pages too. */
static bool add_pages(long more)
{
	int lock = rig_pool_lock(3 * RIG_WAIT_MS);
	long before = lock < 0 ? -1 : read_pages();
	FILE *f = before < 0 ? NULL : fopen(PAGES_FILE, "we");
	if (f)
		fprintf(f, "%ld", HK_MAX(0, before + more));
	bool ok = f && fclose(f) == 0 && read_pages() == before + more;
	close(lock);
	return ok;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void keep(int until, unsigned pages)
{
	char c;
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	while (read(until, &c, 1) < 0 && errno == EINTR)
		;
	(void)add_pages(-(long)pages);
	(void)nftw(rig_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	_exit(0);
}

void rig_up(unsigned pages)
{
	char text[64];
	int until[2];
	snprintf(rig_dir, sizeof(rig_dir), "/tmp/hk-shared-XXXXXX");
	CHECK(mkdtemp(rig_dir));
	snprintf(rig_huge, sizeof(rig_huge), "%s/huge", rig_dir);
	snprintf(rig_run, sizeof(rig_run), "%s/run", rig_dir);
	CHECK_EQ(pipe2(until, O_CLOEXEC), 0);
	keeper = fork();
	CHECK(keeper >= 0);
	if (keeper == 0) {
		close(until[1]);
		keep(until[0], pages);
	}
	close(until[0]);
	keeper_fd = until[1];
	CHECK_MSG(add_pages(pages), "cannot reserve %u huge pages (this test needs root)", pages);
	CHECK_EQ(unshare(CLONE_NEWNS), 0);
	CHECK_EQ(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(mkdir(rig_huge, 0700), 0);
	CHECK_EQ(mkdir(rig_run, 0700), 0);
	snprintf(text, sizeof(text), "pagesize=2M");
	CHECK_MSG(mount("none", rig_huge, "hugetlbfs", 0, text) == 0, "hugetlbfs: %s",
		  strerror(errno));
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", rig_run, 1), 0);
}

void rig_down(void)
{
	int status;
	close(keeper_fd);
	CHECK(waitpid(keeper, &status, 0) == keeper && status == 0);
}

unsigned rig_files(const char *dir, const char *name)
{
	DIR *d = opendir(dir);
	unsigned n = 0;
	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.' && strncmp(e->d_name, name, strlen(name)) == 0;
	if (d)
		closedir(d);
	return n;
}

/* ---- processes -------------------------------------------------------------------------------- */

void rig_spawn(struct rig_proc *p, const char *name, const char *role)
{
	int pair[2];
	pid_t test = getpid();
	snprintf(p->name, sizeof(p->name), "%s", name);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	p->pid = fork();
	CHECK(p->pid >= 0);
	if (p->pid == 0) {
		char copy[512],
			*argv[24] = {(char *)(uintptr_t) "shared", (char *)(uintptr_t) "--role"};
		int n = 2;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != test)
			_exit(1);
		if (pair[1] == ROLE_FD)
			fcntl(ROLE_FD, F_SETFD, 0);
		else
			dup2(pair[1], ROLE_FD);
		snprintf(copy, sizeof(copy), "%s", role);
		for (char *w = strtok(copy, " "); w && n < 23; w = strtok(NULL, " "))
			argv[n++] = w;
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(pair[1]);
	p->fd = pair[0];
}

void rig_say(const struct rig_proc *p, const char *line)
{
	CHECK_MSG(send(p->fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line),
		  "%s hears nothing of '%s'", p->name, line);
}

const char *rig_hear(const struct rig_proc *p, const char *want)
{
	static char line[1024];
	struct pollfd fd = {.fd = p->fd, .events = POLLIN};
	CHECK_MSG(poll(&fd, 1, RIG_WAIT_MS) == 1, "%s did not say '%s'", p->name, want);
	ssize_t n = recv(p->fd, line, sizeof(line) - 1, 0);
	CHECK_MSG(n > 0, "%s ended, and did not say '%s'", p->name, want);
	line[n] = '\0';
	CHECK_MSG(strncmp(line, want, strlen(want)) == 0, "%s said '%s', not '%s'", p->name, line,
		  want);
	return line + strlen(want);
}

void rig_kill(struct rig_proc *p)
{
	int status;
	kill(p->pid, SIGKILL);
	CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
	CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		  "%s had ended before it was killed: status %#x", p->name, (unsigned)status);
	close(p->fd);
	p->pid = 0;
}

void rig_gone(struct rig_proc *p)
{
	struct pollfd fd = {.fd = p->fd, .events = POLLIN};
	char c;
	int status;
	CHECK_MSG(poll(&fd, 1, RIG_WAIT_MS) == 1 && recv(p->fd, &c, 1, 0) == 0, "%s does not end",
		  p->name);
	CHECK_EQ(waitpid(p->pid, &status, 0), p->pid);
	CHECK_MSG(status == 0, "%s ended with status %#x", p->name, (unsigned)status);
	close(p->fd);
	p->pid = 0;
}

/* ---- in a role -------------------------------------------------------------------------------- */

void role_tell(const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	CHECK(send(ROLE_FD, line, HK_MIN((size_t)n, sizeof(line) - 1), MSG_NOSIGNAL) > 0);
}

bool role_asked(char *line, size_t len, int wait_ms)
{
	struct pollfd fd = {.fd = ROLE_FD, .events = POLLIN};
	if (poll(&fd, 1, wait_ms) != 1)
		return false;
	ssize_t n = recv(ROLE_FD, line, len - 1, 0);
	CHECK_MSG(n > 0, "the test has gone");
	line[n] = '\0';
	return true;
}
