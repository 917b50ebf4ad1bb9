/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/internal.h: what the files of this directory share and nobody else sees.
 */
#ifndef HK_PORT_INTERNAL_H
#define HK_PORT_INTERNAL_H

#include "port/port.h"
#include "port/spec.h"
#include "port/steer.h"

#include <net/if.h>
#include <sys/types.h>

#include <rte_flow.h>

/* The first error that DPDK logged since hk_dpdk_said_clear(), without its prefix and newline;
 * "" if there was none or if DPDK logs to stderr by itself. Errors quote it, since the reason is
 * often known only to the driver. */
const char *hk_dpdk_said(void);
void hk_dpdk_said_clear(void);

/* Milliseconds of the monotonic clock, for bounded waits. */
int64_t hk_now_ms(void);

/* Lets other threads run for about a millisecond, between two looks at a condition. */
void hk_pause_1ms(void);

/* ---- memory that processes share (port/eal_shared.c) --------------------------------------------- */

enum hk_eal_role hk_eal_role(void);

/* Before rte_eal_init() of a primary: the name, the huge pages and what is left of earlier ones.
 * Writes the directory for DPDK's files in the hugetlbfs to @huge_dir. */
int hk_eal_prepare_primary(const struct hk_eal_config *cfg, unsigned memory_mb, char *huge_dir,
			   size_t len, struct hk_error *err);

/* Before rte_eal_init() of a secondary: the primary lives, is ready and of our version. */
int hk_eal_prepare_secondary(const struct hk_eal_config *cfg, struct hk_error *err);

/* A variable of the environment before hk_eal_enter_dir(). */
struct hk_env {
	bool set; /* it was changed */
	char *old;
};

/* EAL learns its runtime directory from the environment alone: says @dir (NULL: nothing) until hk_eal_leave_dir(). */
int hk_eal_enter_dir(const char *dir, struct hk_env *before, struct hk_error *err);
void hk_eal_leave_dir(struct hk_env *before);

/* In a secondary: does the primary that it found then still live? */
bool hk_eal_locked(const char *shared);

/* After it, in a primary. */
int hk_eal_hide_devices(struct hk_error *err);

/* A process that shares nothing has EAL make a directory of this name (its pid) while it starts, and removes it then. */
#define HK_EAL_ALONE_NAME "hk-%d"

/* Removes the directories of those that were killed in between. Nothing is ever in them. */
void hk_eal_remove_empty(void);

/* Removes this process's files; @memory: those of the whole memory. */
void hk_eal_remove_own(const char *shared, const char *huge_dir, bool memory);

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

/* Does a default route of this network namespace leave by @name, or by a bridge, bond or VLAN on top of it? 1 and in
 * @by the interface that the route names, 0, or a negative errno with a sentence (port/uplink.c). */
int hk_netdev_uplink(const char *spec, const char *name, char by[IF_NAMESIZE],
		     struct hk_error *err);

/* This process's socket of family @family (AF_PACKET: bound to @ifindex), which the driver keeps to itself. -1:
 * none, or several that cannot be told apart. */
int hk_netdev_socket(int family, unsigned ifindex);

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

/* ---- bells (port/bell.c) --------------------------------------------------------------------- */

/* After rte_eal_init() of a primary, and of a secondary. */
int hk_bells_make(struct hk_error *err);
int hk_bells_find(struct hk_error *err);

/* The bell of the wire that is port @id: @fd stays the caller's until it is taken again (-1: there was
 * none). A secondary fetches it from the primary, and closes what it takes. */
void hk_bell_set_wire(uint16_t id, int fd);
int hk_bell_take_wire(uint16_t id);
int hk_bell_fetch_wire(uint16_t id, int64_t deadline, struct hk_error *err);
void hk_bell_unlisten_wire(const struct hk_port *port);

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

/* The control socket. Nothing that comes there is understood: a byte is a ring (bell.h). */
int hk_memif_guard_socket(const struct hk_memif_guard *g);

void hk_memif_guard_free(struct hk_memif_guard *g);

/* In a secondary, before its driver uses the memif @device: fetches the rings' memory from the primary
 * and makes sure that polling never touches a descriptor number of the primary's (see the page on
 * top of port/memif_shared.c). @ino identifies the memory for the next two. */
struct hk_memif_memory {
	dev_t dev;
	ino_t ino;
};
int hk_memif_shared_prepare(const char *spec, const char *device, unsigned queues, int64_t deadline,
			    struct hk_memif_memory *mem, struct hk_error *err);

/* Has the driver mapped it? */
bool hk_memif_shared_mapped(const struct hk_memif_memory *mem);

/* Unmaps it: the driver does not. */
void hk_memif_shared_unmap(const struct hk_memif_memory *mem);

/* Ends the listening socket of the server at @path, which the driver leaves open at close. */
void hk_memif_unlisten(const char *path);

/* The buffers of a pool that this process made, by their numbers: @room bytes at @room_at of each. */
struct hk_pool_table {
	void *const *buffer;
	unsigned count, room_at, room;
};
bool hk_pool_table(const struct rte_mempool *pool, struct hk_pool_table *table);

/* Where a buffer of such a pool has its number: behind the private bytes. */
#define HK_POOL_NUMBER 8u
static inline uint32_t *hk_pool_number(struct rte_mbuf *m)
{
	return (uint32_t *)((char *)(m + 1) + m->priv_size - HK_POOL_NUMBER);
}

/* The faulty halves of rx and tx (port/faults.c). */
uint16_t hk_faults_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_faults_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);

/* Of the largest power of two not above @n. */
static inline unsigned hk_log2(unsigned n)
{
	unsigned l = 0;
	while ((2u << l) <= n)
		l++;
	return l;
}

/* ---- a port with its private part ----------------------------------------------------------- */

/* What the primary tells of a port, in shared memory: a memzone for each id, made once, never freed. */
enum hk_share_state { HK_SHARE_CLOSED, HK_SHARE_UP, HK_SHARE_DOWN };

struct hk_port_share {
	uint32_t state;      /* enum hk_share_state; atomic */
	uint32_t generation; /* which port of that id; atomic */
	char dev_name[64];
	struct hk_port_info info;
};

struct hk_port_impl {
	struct hk_port port; /* first: the handle that callers hold */
	struct hk_spec spec;
	char dev_name[64]; /* DPDK's name, for removal */
	bool own_pool, configured, started, stopped, is_vdev;
	bool queues_tested; /* AF_XDP: nobody else has a socket on them */
	struct hk_memif_guard *guard;
	struct hk_port_share *share; /* NULL: not shared */
	bool attached;               /* of a secondary */
	bool bell;                   /* … which has the wire's (bell.h) */
	uint32_t generation;
	struct hk_memif_memory memory;
	struct hk_steer *steer; /* NULL: no hardware rule was asked for, or none works */
	struct hk_steer_report steering;
};

/* Tells secondaries of the port, or of a change of its link (port/shared.c). */
int hk_share_publish(struct hk_port_impl *p, struct hk_error *err);
void hk_share_state(struct hk_port_impl *p, enum hk_share_state state);
bool hk_share_link(const struct hk_port_impl *p);

/* ---- steering (port/steer.c) ------------------------------------------------------------------ */

/* A pattern and all that it points to. */
struct hk_steer_pattern {
	struct rte_flow_item item[4]; /* the last one is END */
	unsigned items, raws;
	struct rte_flow_item_eth eth_spec, eth_mask;
	struct rte_flow_item_raw raw_spec[2], raw_mask[2];
	struct rte_flow_item_udp udp_spec, udp_mask;
	uint8_t value[HK_STEER_FIELD_MAX], mask[HK_STEER_FIELD_MAX], type[2], type_mask[2];
};

/* Writes @m as rung @rung wants it (port/steer_pattern.c). False: @m does not have what that takes, or there
 * is no such form: they count from 0. @p must stay where it is. */
bool hk_steer_pattern(struct hk_steer_pattern *p, enum hk_steer_rung rung, unsigned form,
		      const struct hk_steer_match *m);

/* Asks the started port, which has several queues, for its best rung, and fills p->steering. */
void hk_steer_begin(struct hk_port_impl *p, const struct hk_steer_match *sample);

/* Before the device stops: no rule stays. */
void hk_steer_end(struct hk_port_impl *p);

/* Notes why all hardware rungs are out of the question. */
void hk_steer_out(struct hk_port_impl *p, const char *why);

/* ---- steps of hk_port_open() ----------------------------------------------------------------- */

#define HK_NIC_RING 1024 /* descriptors, where nobody says */

/* Has DPDK make the device that the spec names: its id, and the frame size if the system knows it (port/device.c). */
int hk_device_make(struct hk_port_impl *p, struct hk_error *err);

/* What the driver says of it, before and after its start. */
int hk_device_learn(struct hk_port_impl *p, struct rte_eth_dev_info *dev, struct hk_error *err);
void hk_device_describe(struct hk_port_impl *p);

/* Starts it; a memif's client waits for its server's socket, until @deadline. */
int hk_device_start(struct hk_port_impl *p, int64_t deadline, struct hk_error *err);

/* Stops and removes it. */
void hk_device_remove(struct hk_port_impl *p);

/* The first @bytes of a frame go to buffers of @first. */
struct hk_split {
	struct rte_mempool *first;
	unsigned bytes;
};

/* Can it have these queues? (port/queues.c) */
int hk_queues_check(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
		    const struct hk_port_queues *q, struct hk_error *err);

/* Takes as many queues as can be steered to, before buffers are made for their rings. */
void hk_queues_take(struct hk_port_impl *p, const struct rte_eth_dev_info *dev, unsigned wanted);

/* Configures; with @split, if it is not NULL and the driver takes it. @q: NULL: one queue, with the port's pool. */
int hk_queues_configure(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
			const struct hk_port_queues *q, const struct hk_split *split,
			struct hk_error *err);

/* Asks for rules. Without any, frames of a NIC shall come by one queue; a virtual device may spread them over
 * all that it has (net_af_packet), and may not survive to be configured anew. */
int hk_queues_steer(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
		    const struct hk_steer_match *sample, int64_t deadline, struct hk_error *err);

/* Checks the socket's place and writes the device's arguments (port/memif.c). */
int hk_memif_prepare(struct hk_port_impl *p, char *args, size_t len, struct hk_error *err);

/* Are so many queues safe with these rings and frames? */
int hk_memif_check_queues(const struct hk_port_impl *p, unsigned queues, struct hk_error *err);

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

/* Can the port receive into buffers of @given? */
int hk_pool_suits(const struct hk_port_impl *p, struct rte_mempool *given, struct hk_error *err);

#endif
