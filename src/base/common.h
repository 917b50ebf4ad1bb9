/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/common.h: small macros for all layers.
 */
#ifndef HK_BASE_COMMON_H
#define HK_BASE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HK_LIKELY(x)   __builtin_expect(!!(x), 1)
#define HK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HK_NOINLINE    __attribute__((noinline))

/* Both evaluate the one that they give twice. */
#define HK_MIN(a, b)    ((a) < (b) ? (a) : (b))
#define HK_MAX(a, b)    ((a) > (b) ? (a) : (b))
#define HK_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#define HK_USEC UINT64_C(1000)       /* nanoseconds in a microsecond */
#define HK_MSEC UINT64_C(1000000)    /* … in a millisecond */
#define HK_SEC  UINT64_C(1000000000) /* … in a second */

#endif
