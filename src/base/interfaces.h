/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base/interfaces.h: the names of interfaces, for errors that list them.
 */
#ifndef HK_BASE_INTERFACES_H
#define HK_BASE_INTERFACES_H

#include <stddef.h>

/* Writes the names of the interfaces here that are up and carry Ethernet to other machines, with
 * commas between them; nothing if there are none. Loopback is not one. */
void hk_interfaces_ethernet(char *out, size_t len);

#endif
