/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/variables.h: the variables of the environment that the library and the promoter read.
 */
#ifndef HK_HALO_API_VARIABLES_H
#define HK_HALO_API_VARIABLES_H

#include "base/common.h"
#include "base/env.h"

/* -EINVAL if one is misspelt; the error names it. */
static inline int hk_halo_check_variables(struct hk_error *err)
{
	static const char *const known[] = {"TRANSPORT", "REPORT", "TIMEOUT"};

	return hk_env_check("HK_HALO_", known, HK_ARRAY_LEN(known), err);
}

#endif
