/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/lines.h: files of lines "NODE WORD …", for peers and topologies. Internal to rtc/.
 *
 * Empty lines, and what follows a '#', do not count.
 */
#ifndef HK_RTC_LINES_H
#define HK_RTC_LINES_H

#include "base/common.h"
#include "base/error.h"

#define HK_LINE_MAX 16384

/* @words: of the line, after the node's number, separated by single spaces; may be changed. A negative errno
 * ends the reading; `err` is to be filled in. */
typedef int (*hk_line_fn)(void *arg, const char *path, unsigned line, uint16_t node, char *words,
			  struct hk_error *err);

/* Calls @fn for each line. @nodes: numbers are below it. Errors name file, line and fix. */
int hk_lines_read(const char *path, const char *what, uint16_t nodes, hk_line_fn fn, void *arg,
		  struct hk_error *err);

/* A node's number, the whole of @text, below @nodes; -1: it is none. */
int hk_lines_node(const char *text, uint16_t nodes);

#endif
