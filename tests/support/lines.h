/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/lines.h: lines between the processes of a test.
 *
 * They go over the two ends of a socket pair (SOCK_SEQPACKET), a line a message. With them a test
 * waits for what others have done, and not for a time.
 */
#ifndef HK_TEST_LINES_H
#define HK_TEST_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Sends a line. Fails if @who, at the other end, cannot read it. */
void line_send_to(const char *who, int fd, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define line_send(fd, ...) line_send_to("the other process", fd, __VA_ARGS__)

/* Waits for a line that starts with @want, and returns the rest of it, until the next call. Fails
 * after @ms, and if another line comes. */
const char *line_expect_from(const char *who, int fd, int ms, const char *want);
#define line_expect(fd, ms, want) line_expect_from("the other process", fd, ms, want)

/* Reads a line if one comes within @ms. */
bool line_receive(int fd, int ms, char *line, size_t len);

/* True if a line has arrived, or the other end is closed. */
bool line_arrived(int fd);

/* Sends @len bytes, and the descriptor @passed with them (-1: none). Returns as sendmsg(2). */
long send_with(int fd, const void *bytes, size_t len, int passed, int flags);

#endif
