/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/check.h: `hk-tagger --check`, for `tag status` and `doctor` on a node without a job of
 * its own.
 */
#ifndef HK_TAGGER_CHECK_H
#define HK_TAGGER_CHECK_H

/* Writes JSON to standard output: the way to attach programs on this node ("attach"), and the
 * filters that killed holders have left ("stale"). Changes nothing. Returns an exit status. */
int hk_tagger_check_run(void);

#endif
