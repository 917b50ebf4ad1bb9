/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/lines.h: reads files of lines "NODE WORD …", such as topologies. Internal to rtc/.
 *
 * Empty lines, and text after a '#', are comments.
 */
#ifndef HK_RTC_LINES_H
#define HK_RTC_LINES_H

#include "base/common.h"
#include "hikyaku/error.h"

#define HK_RTC_LINE_MAX 16384

/* Handles one line. @words: the text after the node's number, with single spaces; the callback may
 * change it. A negative errno ends the reading; then the callback must have set @err. */
typedef int (*hk_rtc_line_fn)(void *arg, const char *path, unsigned line, uint16_t node,
			      char *words, struct hk_error *err);

/* Calls @fn for each line, whose node must be below @nodes. Errors name file, line and fix. */
int hk_rtc_lines_read(const char *path, const char *what, uint16_t nodes, hk_rtc_line_fn fn,
		      void *arg, struct hk_error *err);

/* Parses @text as a node's number below @nodes; -1: invalid. */
int hk_rtc_lines_node(const char *text, uint16_t nodes);

#endif
