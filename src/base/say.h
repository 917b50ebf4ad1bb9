/* SPDX-License-Identifier: BSD-3-Clause */
/* base/say.h: a formatted text for a caller's callback. */
#ifndef HK_BASE_SAY_H
#define HK_BASE_SAY_H

#include <stdarg.h>
#include <stdio.h>

/* Hands the text, which may be cut at 700 bytes, to @to; NULL: does nothing. */
__attribute__((format(printf, 2, 3))) static inline void hk_say(void (*to)(const char *text),
								const char *format, ...)
{
	char text[700];
	va_list ap;

	if (!to)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	to(text);
}

#endif
