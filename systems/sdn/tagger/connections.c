/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/connections.c: one dump for each family of addresses.
 */
#include "sdn/tagger/connections.h"

#include "base/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/inet_diag.h>
#include <linux/sock_diag.h>

struct dump {
	void (*each)(void *arg, const struct hk_tagger_connection *connection);
	void *arg;
};

/* Finds the attribute @type inside of @nest. */
static const struct rtattr *inside(const struct rtattr *nest, unsigned short type)
{
	return nest ? hk_netlink_attr(RTA_DATA(nest), (int)RTA_PAYLOAD(nest), type) : NULL;
}

static void on_socket(const struct nlmsghdr *h, void *ctx)
{
	const struct inet_diag_msg *m = NLMSG_DATA(h);
	const struct dump *d = ctx;

	if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return;
	const char *behind = (const char *)m + NLMSG_ALIGN(sizeof(*m));
	const struct rtattr *storages = hk_netlink_attr(
		(const void *)behind, (int)NLMSG_PAYLOAD(h, sizeof(*m)), INET_DIAG_SK_BPF_STORAGES);
	/* @map_fd is the only map that was asked for */
	const struct rtattr *value = inside(inside(storages, SK_DIAG_BPF_STORAGE),
					    SK_DIAG_BPF_STORAGE_MAP_VALUE);
	struct hk_tagger_connection c = {.family = m->idiag_family,
					 .local_port = ntohs(m->id.idiag_sport),
					 .remote_port = ntohs(m->id.idiag_dport)};

	if (!value || RTA_PAYLOAD(value) < sizeof(c.conn))
		return; /* not a socket of a rank */
	memcpy(&c.conn, RTA_DATA(value), sizeof(c.conn));
	memcpy(c.local, m->id.idiag_src, sizeof(c.local));
	memcpy(c.remote, m->id.idiag_dst, sizeof(c.remote));
	d->each(d->arg, &c);
}

int hk_tagger_connections(int map_fd,
			  void (*each)(void *arg, const struct hk_tagger_connection *connection),
			  void *arg, struct hk_error *err)
{
	const struct {
		struct rtattr a;
		int fd;
	} map = {{RTA_LENGTH(sizeof(int)), SK_DIAG_BPF_STORAGE_REQ_MAP_FD}, map_fd};
	struct dump d = {.each = each, .arg = arg};
	int rc = 0;

	for (unsigned i = 0; i < 2 && rc == 0; i++) {
		struct {
			struct nlmsghdr h;
			struct inet_diag_req_v2 r;
			char attributes[64];
		} req = {.h = {NLMSG_LENGTH(sizeof(req.r)), SOCK_DIAG_BY_FAMILY,
			       NLM_F_REQUEST | NLM_F_DUMP, 1, 0},
			 .r = {.sdiag_family = i ? AF_INET6 : AF_INET,
			       .sdiag_protocol = IPPROTO_TCP,
			       .idiag_states = ~0u}};
		hk_netlink_add(&req.h, INET_DIAG_REQ_SK_BPF_STORAGES, &map, sizeof(map));
		rc = hk_netlink_dump_from(NETLINK_SOCK_DIAG, &req.h, on_socket, &d);
	}
	if (rc == -ENOENT)
		return hk_error_set(
			err, rc, "this kernel cannot list TCP connections; fix: modprobe tcp_diag");
	return rc ? hk_error_set(err, rc, "cannot list the connections: %s", strerror(-rc)) : 0;
}
