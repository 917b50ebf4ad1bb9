/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/fix.h: parts of error texts that several files use.
 */
#ifndef HIKYAKU_HELPER_FIX_H
#define HIKYAKU_HELPER_FIX_H

/* ", or use udp:addr=IFACE" if @iface has an IP address; otherwise an empty text, since a UDP
 * socket needs one. The text is valid until the next call. */
const char *hk_fix_or_udp(const char *iface);

#endif
