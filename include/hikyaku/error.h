/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/error.h: how set-up code reports a failure.
 *
 * A call that can fail for a reason that a user can fix takes a `struct hk_error *`. On failure it
 * leaves one line there, which names the thing and the fix. The data path counts its failures
 * instead.
 *
 * Threads: none of this is shared; the caller owns the struct.
 */
#ifndef HIKYAKU_ERROR_H
#define HIKYAKU_ERROR_H

#include <stdarg.h>
#include <stdio.h>

struct hk_error {
	char text[512]; /* "what happened; fix: what to do", in one line; always terminated */
};

/* Formats the sentence into @e (which may be NULL; what does not fit is cut) and returns @rc, so
 * that a failing function can `return hk_error_set(e, -ENODEV, "…")`. An argument must not lie in
 * @e itself. */
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
