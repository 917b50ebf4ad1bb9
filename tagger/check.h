/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tagger/check.h: what `tag status` and `doctor` ask of a node without a job of its own.
 */
#ifndef HK_TAGGER_CHECK_H
#define HK_TAGGER_CHECK_H

/* Writes JSON to standard output: how programs would be attached here ("attach"), and the filters that
 * killed holders have left ("stale"). Changes nothing. Returns an exit status. */
int hk_check_run(void);

#endif
