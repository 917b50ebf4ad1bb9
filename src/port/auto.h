/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/auto.h: chooses the port of a process for which nobody has named one.
 *
 * It is a UDP socket, which needs no rights and which any network of IP carries. If a
 * hikyaku-helper runs, AF_XDP carries the datagrams that are short (xdp=1), on a NIC. The
 * administrator has started the helper. Nobody who only runs a program shall attach an XDP program:
 * many drivers take the link down for that. The port is optional (a `?` ends its spec), since the
 * helper may refuse it.
 */
#ifndef HK_PORT_AUTO_H
#define HK_PORT_AUTO_H

#include "base/common.h"
#include "base/inet.h"

#pragma GCC visibility push(default)

/* Interfaces by names and networks, such as "eth0,10.1.0.0/16", as in Open MPI's btl_tcp_if_include
 * and btl_tcp_if_exclude; NULL or "": none. Only one of the two may be given. */
struct hk_auto_config {
	const char *include, *exclude;
};

/* An interface of this machine. */
struct hk_auto_interface {
	char name[16];
	union hk_inet_addr at; /* its address */
	bool nic;              /* it has a device: it is not virtual */
	uint32_t mbps;         /* of its link; 0: unknown */
};

/* Chooses one of @list: of those that @cfg permits a NIC before a virtual interface, then the
 * fastest, then the first. Errors: -EINVAL, @cfg is malformed; -ENODEV, there is none, with the
 * names of those that there are. */
int hk_auto_pick(const struct hk_auto_config *cfg, const struct hk_auto_interface *list, unsigned n,
		 const struct hk_auto_interface **out, struct hk_error *err);

/* Writes the list of ports (hk_port_list_split()) for this machine. Errors: as hk_auto_pick(). */
int hk_port_auto(const struct hk_auto_config *cfg, char *list, size_t len, struct hk_error *err);

#pragma GCC visibility pop

#endif
