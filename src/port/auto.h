/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/auto.h: chooses the port of a process for which nobody has named one.
 *
 * It is a UDP socket, which needs no rights and which any network of IP carries. If a
 * hikyaku-helper runs, AF_XDP carries the datagrams that are short (xdp=1), on a NIC and on a veth.
 * The administrator has started the helper. Nobody who only runs a program shall attach an XDP
 * program: many drivers take the link down for that. The port is optional (a `?` ends its spec),
 * since the helper may refuse it.
 *
 * A NIC may have virtual functions that vfio-pci drives: the administrator has bound them for
 * programs such as this one. Then each rank of the node takes one of them before the UDP socket.
 */
#ifndef HK_PORT_AUTO_H
#define HK_PORT_AUTO_H

#include "base/common.h"
#include "base/inet.h"

#pragma GCC visibility push(default)

struct hk_auto_config {
	/* Interfaces by names and networks, such as "eth0,10.1.0.0/16", as in Open MPI's
	 * btl_tcp_if_include and btl_tcp_if_exclude; NULL or "": none. Only one may be given. */
	const char *include, *exclude;
	unsigned local_rank; /* number of this process among those of its job on this node */
};

#define HK_AUTO_PCI_LEN 16 /* bytes of a PCI address such as 0000:3b:02.1, with its end */

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

/* Finds the virtual function of the NIC @name for the process @local_rank: of those that vfio-pci
 * drives, the one with this number. @sys: where sysfs is. False: there is none. */
bool hk_auto_function(const char *sys, const char *name, unsigned local_rank,
		      char pci[HK_AUTO_PCI_LEN]);

/* Writes the list of ports (hk_port_list_split()) for this machine. Errors: as hk_auto_pick(). */
int hk_port_auto(const struct hk_auto_config *cfg, char *list, size_t len, struct hk_error *err);

#pragma GCC visibility pop

#endif
