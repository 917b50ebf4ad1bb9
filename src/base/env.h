/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/env.h: variables of the environment that are misspelt.
 *
 * A library reads its variables by name, so it would not notice a wrong name. The run would then
 * be another one than its user thinks.
 */
#ifndef HK_BASE_ENV_H
#define HK_BASE_ENV_H

#include "hikyaku/error.h"

#include <stddef.h>

/* -EINVAL if the environment has a variable that begins with @prefix and is none of the @n @known.
 * The error names it, and the known one that resembles it most. @known: without @prefix. */
int hk_env_check(const char *prefix, const char *const known[], size_t n, struct hk_error *err);

#endif
