/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/internal.h: what the files of this directory share and nobody else sees.
 */
#ifndef HK_PORT_INTERNAL_H
#define HK_PORT_INTERNAL_H

#include "port/port.h"
#include "port/spec.h"

/* The first error that DPDK logged since hk_dpdk_said_clear(), without its prefix and newline;
 * "" if there was none or if DPDK logs to stderr by itself. Errors quote it, since the reason is
 * often known only to the driver. */
const char *hk_dpdk_said(void);
void hk_dpdk_said_clear(void);

/* Milliseconds of the monotonic clock, for bounded waits. */
int64_t hk_now_ms(void);

/* Lets other threads run for about a millisecond, between two looks at a condition. */
void hk_pause_1ms(void);

/* ---- kernel interfaces (port/netdev.c) ------------------------------------------------------ */

struct hk_netdev {
	unsigned ifindex;
	unsigned mtu;
	bool up;
};

/* Looks @name up in this network namespace; the error names the interfaces that exist. */
int hk_netdev_get(const char *spec, const char *name, struct hk_netdev *dev, struct hk_error *err);

/* Fails with a sentence if this process may not open packet sockets (and, for @admin, may not
 * load XDP programs). */
int hk_netdev_may_open(const char *spec, bool admin, struct hk_error *err);

/* ---- AF_XDP beside the driver (port/xdp.c) ---------------------------------------------------- */

/* Makes @name ready for an AF_XDP socket: takes off the XDP program that a killed process left there.
 * Fails with a sentence if a living process uses the interface, or if somebody else's program is on
 * it. */
int hk_xdp_prepare(const char *spec, const char *name, struct hk_error *err);

/* Takes our own program off again, if the driver has left it. */
void hk_xdp_cleanup(const char *name);

/* Call before and after the driver makes its socket: stills the messages that libbpf and libxdp
 * print, and has libxdp load its program without pinning files in bpffs. */
void hk_xdp_driver_enter(bool verbose);
void hk_xdp_driver_leave(void);

/* Does DPDK log to stderr (hk_eal_config.verbose)? */
bool hk_eal_verbose(void);

/* ---- the memif control channel (port/memif_guard.c) ----------------------------------------- */

struct hk_memif_guard;

/* What a server's socket has at the end of its name until the device has started. */
#define HK_MEMIF_NEW ".new"

/* Takes the connected control socket of the memif at @path away from DPDK's interrupt thread (see
 * the page on top of the file for why). Call once, when the link is up. */
int hk_memif_guard_arm(const char *path, bool server, struct hk_memif_guard **guard,
		       struct hk_error *err);

/* Is the process at the other end still there? */
bool hk_memif_guard_alive(const struct hk_memif_guard *g);

void hk_memif_guard_free(struct hk_memif_guard *g);

/* Ends the listening socket of the server at @path, which the driver leaves open at close. */
void hk_memif_unlisten(const char *path);

/* ---- a port with its private part ----------------------------------------------------------- */

struct hk_port_impl {
	struct hk_port port; /* first: the handle that callers hold */
	struct hk_spec spec;
	char dev_name[64]; /* DPDK's name, for removal */
	bool own_pool, configured, started, is_vdev;
	struct hk_memif_guard *guard;
};

#endif
