/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/private_dir.h: directories that belong to this user alone.
 *
 * In /tmp others may create a name first, as a link or as a directory of theirs. A check by name
 * is of no use if the name is opened again later, since it may lead elsewhere by then. So the
 * functions check what they have opened, and files are used relative to that descriptor.
 */
#ifndef HK_BASE_PRIVATE_DIR_H
#define HK_BASE_PRIVATE_DIR_H

#include "hikyaku/error.h"

#include <stdbool.h>

#define HK_PRIVATE_BASE_LEN 64

/* The directory of this user's run-time files: /run/hikyaku of root, /tmp/hikyaku-UID of others. */
void hk_private_base(char out[HK_PRIVATE_BASE_LEN]);

/* Opens the directory @path, relative to the directory @at (or AT_FDCWD). @make: creates it with
 * mode 0700 if it does not exist. @setting: the environment variable with which a user chooses it,
 * for the error. Returns the descriptor, which the caller closes, or a negative errno. -ENOTDIR:
 * also for a link. -EPERM: it belongs to another user, or others may write to it. */
int hk_private_dir_open(int at, const char *path, bool make, const char *setting,
			struct hk_error *err);

/* Removes @path, which is absolute, if it is a socket or an empty directory of this user, in any
 * directory. Returns 0, or a negative errno; -EPERM: it is something else. */
int hk_private_remove(const char *path);

#endif
