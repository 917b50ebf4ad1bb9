/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfabric/compat.h: what libfabric 1.17 and 2 both mean, and only one has: a macro that the
 * headers of 1 define, and names that those of 2 call deprecated. Programs still use both.
 */
#ifndef HK_FI_COMPAT_H
#define HK_FI_COMPAT_H

#include <rdma/fabric.h>
#include <stddef.h>

#ifndef container_of
#define container_of(ptr, type, field) ((type *)((char *)(ptr)-offsetof(type, field)))
#endif

#ifndef FI_PROV_SPECIFIC /* an address format and a protocol of our own */
#define FI_PROV_SPECIFIC (1u << 31)
#endif

/* Values of mr_mode: FI_MR_UNSPEC, FI_MR_BASIC, FI_MR_SCALABLE. */
enum {
	HK_FI_MR_UNSPEC = 0,
	HK_FI_MR_BASIC = 1 << 0,
	HK_FI_MR_SCALABLE = 1 << 1,
};

#endif
