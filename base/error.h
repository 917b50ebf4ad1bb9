/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/error.h: how set-up code reports a failure.
 *
 * Every call that can fail for a reason a user can mend takes a `struct hk_error *` and, on
 * failure, leaves one sentence there that names the thing and one that names the fix. The data
 * path never uses it: there, failures are counted.
 *
 * Threads: none of this is shared; the caller owns the struct.
 */
#ifndef HK_BASE_ERROR_H
#define HK_BASE_ERROR_H

#include <stdarg.h>
#include <stdio.h>

struct hk_error {
	char text[512]; /* "what happened; fix: what to do", in one line; always terminated */
};

/* Formats the sentence into @e (which may be NULL; what does not fit is cut) and returns @rc, so that a failing
 * function can `return hk_error_set(e, -ENODEV, "…")`. An argument must not lie in @e itself. */
__attribute__((format(printf, 3, 4))) static inline int hk_error_set(struct hk_error *e, int rc,
								     const char *fmt, ...)
{
	if (e) {
		va_list ap;
		va_start(ap, fmt);
		vsnprintf(e->text, sizeof(e->text), fmt, ap);
		va_end(ap);
	}
	return rc;
}

#endif
