/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/shared.c: see shared.h. */
#include "tests/support/child.h"
#include "tests/support/shared.h"

#include "base/huge.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGES_FILE "/proc/sys/vm/nr_hugepages"
#define LOCK_FILE  "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

char rig_dir[TMP_PATH], rig_huge[80], rig_run[80];
static unsigned reserved;

/* ---- huge pages and directories -------------------------------------------------------------- */

int rig_pool_lock(int wait_ms)
{
	int fd = open(LOCK_FILE, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		if (wait_ms <= 0) {
			close(fd);
			return -1;
		}
		(void)poll(NULL, 0, 10); /* its owner sends no message */
		wait_ms -= 10;
	}
	return fd;
}

/* Adds to the present number, because other processes reserve pages too. */
static bool add_pages(long more)
{
	int lock = rig_pool_lock(3 * RIG_WAIT_MS);
	long before = lock < 0 ? -1 : hk_huge_number(2048, "nr");
	FILE *f = before < 0 ? NULL : fopen(PAGES_FILE, "we");
	if (f)
		fprintf(f, "%ld", HK_MAX(0, before + more));
	bool ok = f && fclose(f) == 0 && hk_huge_number(2048, "nr") == before + more;
	close(lock);
	return ok;
}

static void tidy(void)
{
	(void)add_pages(-(long)reserved);
	tmp_remove(rig_dir);
}

void rig_up(unsigned pages)
{
	tmp_dir(rig_dir);
	snprintf(rig_huge, sizeof(rig_huge), "%s/huge", rig_dir);
	snprintf(rig_run, sizeof(rig_run), "%s/run", rig_dir);
	reserved = pages;
	keeper_start(tidy);
	CHECK_MSG(add_pages(pages), "cannot reserve %u huge pages (this test needs root)", pages);
	CHECK_EQ(unshare(CLONE_NEWNS), 0);
	CHECK_EQ(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQ(mkdir(rig_huge, 0700), 0);
	CHECK_EQ(mkdir(rig_run, 0700), 0);
	CHECK_MSG(mount("none", rig_huge, "hugetlbfs", 0, "pagesize=2M") == 0, "hugetlbfs: %s",
		  strerror(errno));
	CHECK_EQ(setenv("RUNTIME_DIRECTORY", rig_run, 1), 0);
}

void rig_down(void)
{
	keeper_end();
}

/* ---- processes ------------------------------------------------------------------------------- */

void rig_spawn(struct rig_proc *p, const char *name, const char *role, ...)
{
	char words[512], *argv[24] = {(char *)(uintptr_t) "shared", (char *)(uintptr_t) "--role"};
	int pair[2], n = 2;
	va_list ap;

	va_start(ap, role);
	vsnprintf(words, sizeof(words), role, ap);
	va_end(ap);
	snprintf(p->name, sizeof(p->name), "%s", name);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	p->pid = child_fork();
	if (p->pid == 0) {
		if (pair[1] == ROLE_FD)
			fcntl(ROLE_FD, F_SETFD, 0);
		else
			dup2(pair[1], ROLE_FD);
		for (char *w = strtok(words, " "); w && n < 23; w = strtok(NULL, " "))
			argv[n++] = w;
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(pair[1]);
	p->fd = pair[0];
}

static void forget(struct rig_proc *p)
{
	close(p->fd);
	p->pid = 0;
}

void rig_kill(struct rig_proc *p)
{
	child_kill(p->pid);
	forget(p);
}

void rig_gone(struct rig_proc *p)
{
	struct pollfd fd = {.fd = p->fd, .events = POLLIN};
	char c;

	CHECK_MSG(poll(&fd, 1, RIG_WAIT_MS) == 1 && recv(p->fd, &c, 1, 0) == 0, "%s does not end",
		  p->name);
	child_ends_well(p->pid);
	forget(p);
}
