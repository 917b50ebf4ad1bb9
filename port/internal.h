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
 * it. With *@tested the queues are taken to be free; it is set when they were found so. */
int hk_xdp_prepare(const char *spec, const char *name, bool *tested, struct hk_error *err);

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

/* Of the largest power of two not above @n. */
static inline unsigned hk_log2(unsigned n)
{
	unsigned l = 0;
	while ((2u << l) <= n)
		l++;
	return l;
}

/* ---- a port with its private part ----------------------------------------------------------- */

struct hk_port_impl {
	struct hk_port port; /* first: the handle that callers hold */
	struct hk_spec spec;
	char dev_name[64]; /* DPDK's name, for removal */
	bool own_pool, configured, started, is_vdev;
	bool queues_tested; /* AF_XDP: nobody else has a socket on them */
	struct hk_memif_guard *guard;
};

/* ---- steps of hk_port_open() ----------------------------------------------------------------- */

/* Checks the socket's place and writes the device's arguments (port/memif.c). */
int hk_memif_prepare(struct hk_port_impl *p, char *args, size_t len, struct hk_error *err);

/* Gives a started server's socket the name that clients look for. */
int hk_memif_publish(const struct hk_spec *s, struct hk_error *err);

/* AF_XDP wants a buffer, its mbuf and its pool header (64 bytes) in one page of the umem, and fill
 * the page exactly: see page_pool() in port/pool.c. The kernel takes 256 bytes of headroom beside
 * ours. */
#define HK_AF_XDP_ROOM  (4096 - 64 - (unsigned)sizeof(struct rte_mbuf))
#define HK_AF_XDP_FRAME (HK_AF_XDP_ROOM - RTE_PKTMBUF_HEADROOM - 256)

/* Makes the port's buffers, or takes @given (port/pool.c). */
int hk_pool_make(struct hk_port_impl *p, unsigned buffers, struct rte_mempool *given,
		 struct hk_error *err);

#endif
