/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/tmpdir.h: directories and files of a test, below /tmp. */
#ifndef HK_TEST_TMPDIR_H
#define HK_TEST_TMPDIR_H

#define TMP_PATH 64 /* bytes of the path of a directory */

/* Makes a directory that nobody else can read. */
void tmp_dir(char path[TMP_PATH]);

/* Removes a directory. Fails if something is left in it. */
void tmp_gone(const char *path);

/* Removes a directory with all that is in it; one that is not there is no error. */
void tmp_remove(const char *path);

/* Counts the files in @path whose names start with @prefix, except hidden ones. */
unsigned tmp_files(const char *path, const char *prefix);

/* Makes a file with @text. Its path is valid until the next call. The caller removes it. */
const char *tmp_file(const char *text);

#endif
