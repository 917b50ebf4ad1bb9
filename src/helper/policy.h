/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/policy.h: which users may use which interface.
 *
 * A file of the operator has a line for each interface, with the users and groups that may take our
 * frames from it. `*` stands for all interfaces, or for all users:
 *
 *     # interface  who
 *     eth1         alice @mpi
 *     *            bob
 *
 * Root may use all. So may the user with whose own rights the helper runs. Others get our frames
 * alone. Each of them can send any frame: AF_XDP does not look into them.
 */
#ifndef HK_HELPER_POLICY_H
#define HK_HELPER_POLICY_H

#include "hikyaku/error.h"

#include <sys/types.h>

#define HK_POLICY_FILE "/etc/hikyaku/interfaces"

/* Returns 0 if the file @file lets the user @uid use @iface. -EACCES: it does not, or it cannot be
 * read, or a line of it is wrong, and then @err has a sentence. */
int hk_policy_check(const char *file, uid_t uid, const char *iface, struct hk_error *err);

#endif
