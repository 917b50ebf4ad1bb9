/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/tmpdir.c: see tmpdir.h. */
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <unistd.h>

#define TEMPLATE "/tmp/hk-test-XXXXXX"

void tmp_dir(char path[TMP_PATH])
{
	snprintf(path, TMP_PATH, TEMPLATE);
	CHECK(mkdtemp(path) != NULL);
}

void tmp_gone(const char *path)
{
	CHECK_MSG(rmdir(path) == 0, "%s: %s", path, strerror(errno));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

void tmp_remove(const char *path)
{
	(void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

unsigned tmp_files(const char *path, const char *prefix)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0;
	if (d)
		closedir(d);
	return n;
}

const char *tmp_file(const char *text)
{
	static char path[TMP_PATH];

	snprintf(path, sizeof(path), TEMPLATE);
	int fd = mkstemp(path);

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	return path;
}
