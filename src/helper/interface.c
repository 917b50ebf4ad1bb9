/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/interface.c: loads and attaches xdp.bpf.c, by libbpf. See helper/interface.h.
 */
#include "helper/interface.h"

#include "base/common.h"
#include "base/ethtool.h"
#include "helper/fix.h"
#include "helper/xdp.skel.h"
#include "wire/wire.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/if_link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

_Static_assert(HK_XDP_JOB_AT == offsetof(struct hk_wire_hdr, job), "the program reads the job");
_Static_assert(HK_XDP_ENDPOINT_AT == offsetof(struct hk_wire_hdr, dst), "and the destination");

struct hk_xdp {
	struct xdp_bpf *skel;
	int link; /* detaches the program when it is closed; negative: none */
};

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_WARN && getenv("HIKYAKU_HELPER_DEBUG")
		       ? vfprintf(stderr, format, args)
		       : 0;
}

static int read_interface(struct hk_interface *i, const char *name, struct hk_error *err)
{
	struct ifreq mac = {0}, mtu = {0};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(i->name, sizeof(i->name), "%s", name);
	snprintf(mac.ifr_name, sizeof(mac.ifr_name), "%s", name);
	snprintf(mtu.ifr_name, sizeof(mtu.ifr_name), "%s", name);
	i->index = if_nametoindex(name);
	bool found = fd >= 0 && i->index && ioctl(fd, SIOCGIFHWADDR, &mac) == 0 &&
		     ioctl(fd, SIOCGIFMTU, &mtu) == 0;

	if (fd >= 0)
		close(fd);
	if (!found)
		return hk_error_set(err, -ENODEV, "there is no interface %s", name);
	memcpy(i->mac, mac.ifr_hwaddr.sa_data, sizeof(i->mac));
	i->mtu = (unsigned)mtu.ifr_mtu;
	return 0;
}

/* @frags: the program accepts packets that take several pages, which a large MTU needs. */
static int load(struct hk_xdp *x, bool frags)
{
	x->skel = xdp_bpf__open();
	if (!x->skel)
		return -errno;
	if (frags)
		(void)bpf_program__set_flags(x->skel->progs.hikyaku_take, BPF_F_XDP_HAS_FRAGS);
	return xdp_bpf__load(x->skel);
}

/* Returns 0 to attach the program where the driver offers that.
 *
 * A veth offers it. But then its other end has to cut what the kernel sends into frames of the MTU,
 * for all who use it. So UDP and TCP lose half of their speed, and our frames gain nothing: no
 * device has them before the kernel. */
static uint32_t attach_flags(const struct hk_interface *i)
{
	return hk_ethtool_is_veth(i->name) ? XDP_FLAGS_SKB_MODE : 0;
}

static int attach(struct hk_interface *i, bool frags)
{
	const struct bpf_link_create_opts options = {.sz = sizeof(options),
						     .flags = attach_flags(i)};
	struct hk_xdp *x = i->program;
	int rc = load(x, frags);

	if (rc == 0) {
		x->link = bpf_link_create(bpf_program__fd(x->skel->progs.hikyaku_take),
					  (int)i->index, BPF_XDP, &options);
		rc = HK_MIN(x->link, 0);
	}
	if (rc) {
		xdp_bpf__destroy(x->skel);
		x->skel = NULL;
	}
	return rc;
}

/* Finds the program that is attached to the interface now. */
static void query(const struct hk_interface *i, struct bpf_xdp_query_opts *at, char *name,
		  size_t len)
{
	struct bpf_prog_info info = {0};
	uint32_t size = sizeof(info);

	*at = (struct bpf_xdp_query_opts){.sz = sizeof(*at)};
	name[0] = '\0';
	if (bpf_xdp_query((int)i->index, 0, at) != 0 || !at->prog_id)
		return;
	int fd = bpf_prog_get_fd_by_id(at->prog_id);

	if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &size) == 0)
		snprintf(name, len, "%s", info.name);
	if (fd >= 0)
		close(fd);
}

static int attach_error(const struct hk_interface *i, int rc, struct hk_error *err)
{
	struct bpf_xdp_query_opts at;
	char name[BPF_OBJ_NAME_LEN + 1];

	query(i, &at, name, sizeof(name));
	if (rc == -EBUSY || rc == -EEXIST)
		return hk_error_set(err, -EBUSY,
				    "the XDP program \"%s\" (id %u) is on %s; fix: if nobody needs "
				    "it, ip link set %s xdp off%s",
				    name, at.prog_id, i->name, i->name, hk_fix_or_udp(i->name));
	if (rc == -EPERM || rc == -EACCES)
		return hk_error_set(
			err, -EPERM,
			"no permission for AF_XDP on %s; fix: have the administrator start "
			"hikyaku-helper or give it rights (docs/ports.md)%s",
			i->name, hk_fix_or_udp(i->name));
	return hk_error_set(err, rc,
			    "the kernel does not attach an XDP program to %s: %s; fix: use "
			    "af_packet:iface=%s",
			    i->name, strerror(-rc), i->name);
}

int hk_interface_open(struct hk_interface *i, const char *name, struct hk_error *err)
{
	struct bpf_xdp_query_opts at;
	char program[BPF_OBJ_NAME_LEN + 1];

	memset(i, 0, sizeof(*i));
	libbpf_set_print(quiet);
	int rc = read_interface(i, name, err);

	if (rc)
		return rc;
	i->program = calloc(1, sizeof(*i->program));
	if (!i->program)
		return hk_error_set(err, -ENOMEM, "no memory for %s", name);
	i->program->link = -1;
	rc = attach(i, false);
	if (rc == -ERANGE || rc == -EINVAL || rc == -EOPNOTSUPP) /* by driver; perhaps the MTU */
		rc = attach(i, true);
	if (rc) {
		hk_interface_close(i);
		return attach_error(i, rc, err);
	}
	query(i, &at, program, sizeof(program));
	i->native = at.attach_mode == XDP_ATTACHED_DRV || at.attach_mode == XDP_ATTACHED_HW;
	return 0;
}

void hk_interface_close(struct hk_interface *i)
{
	if (!i->program)
		return;
	if (i->program->link >= 0)
		close(i->program->link);
	xdp_bpf__destroy(i->program->skel);
	free(i->program);
	i->program = NULL;
}

int hk_interface_set_socket(struct hk_interface *i, uint32_t slot, int fd)
{
	int map = bpf_map__fd(i->program->skel->maps.sockets);

	if (fd < 0)
		return bpf_map_delete_elem(map, &slot);
	return bpf_map_update_elem(map, &slot, &fd, BPF_ANY) == 0 ? 0 : -errno;
}

int hk_interface_set_queue(struct hk_interface *i, uint32_t queue, const struct hk_xdp_queue *to)
{
	int map = bpf_map__fd(i->program->skel->maps.queues);

	return bpf_map_update_elem(map, &queue, to, BPF_ANY) == 0 ? 0 : -errno;
}

static int give(const struct bpf_map *map, const void *key, uint32_t slot)
{
	if (bpf_map_update_elem(bpf_map__fd(map), key, &slot, BPF_NOEXIST) == 0)
		return 0;
	return errno == EEXIST ? -EBUSY : errno == E2BIG ? -ENOSPC : -errno;
}

int hk_interface_claim(struct hk_interface *i, const struct hk_xdp_claim *claim, uint32_t slot)
{
	return give(i->program->skel->maps.claims, claim, slot);
}

int hk_interface_claim_datagrams(struct hk_interface *i, const struct hk_xdp_datagrams *what,
				 uint32_t slot)
{
	return give(i->program->skel->maps.datagrams, what, slot);
}

void hk_interface_leave_datagrams(struct hk_interface *i, const struct hk_xdp_datagrams *what)
{
	(void)bpf_map_delete_elem(bpf_map__fd(i->program->skel->maps.datagrams), what);
}

unsigned hk_interface_unclaim(struct hk_interface *i, uint32_t slot)
{
	struct hk_xdp_claim mine[HK_XDP_CLAIMS], key, *last = NULL;
	int map = bpf_map__fd(i->program->skel->maps.claims);
	unsigned n = 0;

	while (bpf_map_get_next_key(map, last, &key) == 0) {
		uint32_t owner;

		if (bpf_map_lookup_elem(map, &key, &owner) == 0 && owner == slot &&
		    n < HK_XDP_CLAIMS)
			mine[n++] = key;
		last = &key;
	}
	for (unsigned k = 0; k < n; k++)
		(void)bpf_map_delete_elem(map, &mine[k]);
	return n;
}
