/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/hostd/fake_map.c: the fake shared memory, for daemon, poller and test.
 */
#include "tests/unit/hostd/fake_resources.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void fake_path(const char *shared, const char *file, char out[300])
{
	const char *base = getenv("XDG_RUNTIME_DIR");

	snprintf(out, 300, "%.120s/dpdk/%s%s", base ? base : "/tmp", shared, file);
}

struct fake_memory *fake_map(const char *shared, bool create)
{
	char path[300];

	if (create) {
		fake_path("", "", path);
		mkdir(path, 0700);
		fake_path(shared, "", path);
		mkdir(path, 0700);
	}
	fake_path(shared, "/fake_memory", path);
	int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
	if (fd < 0 || (create && ftruncate(fd, sizeof(struct fake_memory)) != 0))
		return NULL;
	void *p = mmap((void *)(uintptr_t)FAKE_ADDRESS, sizeof(struct fake_memory),
		       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}
