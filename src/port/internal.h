/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/internal.h: declarations for the files of src/port alone.
 */
#ifndef HK_PORT_INTERNAL_H
#define HK_PORT_INTERNAL_H

#include "base/clock.h"
#include "port/port.h"
#include "port/spec.h"
#include "port/steer.h"

#include <net/if.h>
#include <sys/types.h>

#include <rte_flow.h>

/* Returns the first error that DPDK logged since hk_dpdk_log_clear(), without prefix and newline.
 * "" if there was none, or if DPDK logs to stderr. Error texts quote it, because often only the
 * driver knows the reason. */
const char *hk_dpdk_log(void);
void hk_dpdk_log_clear(void);

/* Sleeps for about a millisecond, between two checks of a condition. */
void hk_pause_1ms(void);

/* ---- shared memory (port/eal_shared.c) ------------------------------------------------------ */

enum hk_eal_role hk_eal_role(void);
bool hk_eal_bare(void);         /* DPDK is not started, since no port needs it */
bool hk_eal_lazy_buffers(void); /* as asked for, and where it works */

/* In a primary, before rte_eal_init(): checks the name and the huge pages, and removes files of
 * earlier primaries. Writes the directory for DPDK's files in the hugetlbfs to @huge_dir. */
int hk_eal_prepare_primary(const struct hk_eal_config *cfg, unsigned memory_mb, char *huge_dir,
			   size_t len, struct hk_error *err);

/* Finds the directory for huge pages: @given, or the mounted hugetlbfs with the smallest pages that
 * we may use. Writes it to @out and the size of its pages to @page (port/eal_huge.c). */
int hk_eal_find_huge_dir(const char *given, char *out, size_t len, unsigned long *page,
			 struct hk_error *err);

/* Checks that enough huge pages of @page bytes are free for @memory_mb MB, on the machine and
 * within the limit of the hugetlbfs of @dir. */
int hk_eal_check_free_pages(const char *dir, unsigned long page, unsigned memory_mb,
			    struct hk_error *err);

/* Checks that enough huge pages are free for @memory_mb MB, of any size and without a hugetlbfs.
 * @pci: it is a port of PCI that needs them. */
int hk_eal_check_any_pages(unsigned memory_mb, bool pci, struct hk_error *err);

/* In a secondary, before rte_eal_init(): checks that the primary is alive, is ready and has our
 * DPDK version. */
int hk_eal_prepare_secondary(const struct hk_eal_config *cfg, struct hk_error *err);

/* Opens the primary's `config`, and sets *@alive if another process has locked it. Returns -1 with
 * errno if it cannot be opened. */
int hk_eal_open_config(const char *shared, bool *alive);

/* In a secondary, around rte_eal_init(): see port/eal_turns.c. @shared is the same in both. */
int hk_eal_turn_begin(const char *shared, struct hk_error *err);
void hk_eal_turn_end(const char *shared);

/* An environment variable before hk_eal_runtime_dir_set(). */
struct hk_saved_env {
	bool set;  /* the variable was changed */
	char *old; /* former value; NULL: it was not set */
};

/* Sets EAL's runtime directory to @dir until hk_eal_runtime_dir_restore(); NULL: no change. It sets
 * an environment variable, since EAL has no other setting for it. */
int hk_eal_runtime_dir_set(const char *dir, struct hk_saved_env *before, struct hk_error *err);
void hk_eal_runtime_dir_restore(struct hk_saved_env *before);

/* In a secondary: returns whether the primary that hk_eal_prepare_secondary() found is alive. */
bool hk_eal_same_primary_lives(const char *shared);

/* In a primary, after rte_eal_init(): see port/eal_shared.c. */
int hk_eal_hide_devices(struct hk_error *err);

/* Name of the directory that EAL creates when a process that is alone starts, with its process id.
 * The process removes it at once. */
#define HK_EAL_ALONE_NAME "hk-%d"

/* Creates @name in EAL's runtime directory, which EAL then uses, and checks that nobody else can
 * write there. EAL creates `dpdk` and then `dpdk/NAME`, and fails if another process, which ends,
 * removes the empty `dpdk` in between. */
int hk_eal_make_runtime_dir(const char *name, struct hk_error *err);

/* Removes such empty directories of processes that were killed before they could. */
void hk_eal_remove_empty(void);

/* Removes this process's files; with @memory, the files of the whole memory. The directory goes
 * with the last file: rte_eal_init() in a secondary makes it again if the primary has just died. */
void hk_eal_remove_own(const char *shared, const char *huge_dir, bool memory);

/* ---- kernel interfaces (port/netdev.c) ------------------------------------------------------ */

struct hk_port_impl;

struct hk_netdev {
	unsigned ifindex;
	unsigned mtu;
	bool up;
};

/* Finds @name in this network namespace; the error lists the interfaces that exist. */
int hk_netdev_get(const char *spec, const char *name, struct hk_netdev *dev, struct hk_error *err);

/* Returns the rate of the interface @name, Mbit/s. 0: it is unknown, or no device is behind it. */
uint32_t hk_netdev_link_mbps(const char *name);

/* See hk_port_network(). */
uint64_t hk_netdev_network(const char *name);

/* Fails with a sentence if this process may not open packet sockets. */
int hk_netdev_may_open(const char *spec, struct hk_error *err);

/* Refuses an interface that the default route or TCP connections use, with -EPERM and a sentence.
 * A port that takes all frames would cut off logins and mpirun's daemons. @s may override that by
 * force=1. */
int hk_device_check_uplink(const struct hk_spec *s, struct hk_error *err);

/* Returns whether a default route of this network namespace uses @name, or a bridge, bond or VLAN
 * on top of it (port/uplink.c). 1: it does, and @by is the interface that the route names. 0: it
 * does not. Otherwise a negative errno with a sentence. */
int hk_netdev_uplink(const char *spec, const char *name, char by[IF_NAMESIZE],
		     struct hk_error *err);

/* Returns whether a TCP connection of this network namespace uses an address of @name. Then @at
 * names that address and port. */
#define HK_CONNECTION_LEN 64
bool hk_netdev_has_connection(const char *name, char at[HK_CONNECTION_LEN]);

/* Returns this process's packet socket that is bound to @ifindex, which the driver does not reveal.
 * -1: there is none, or there are several. */
int hk_netdev_socket(unsigned ifindex);

/* Whether the interface @name has a link, as its driver says; true if it does not say. */
bool hk_netdev_carrier(const char *name);

/* Finds the interface of @p's spec, which must be up, and sets the size of its frames, at most
 * @limit. */
int hk_device_check_netdev(struct hk_port_impl *p, unsigned limit, struct hk_error *err);

/* Returns whether DPDK logs to stderr (hk_eal_config.verbose). */
bool hk_eal_verbose(void);

/* ---- wakeups (port/wakeup.c) ---------------------------------------------------------------- */

/* Call one of them after rte_eal_init(): a primary creates the wakeups, a secondary gets them. */
int hk_wakeups_create(struct hk_error *err);
int hk_wakeups_attach(struct hk_error *err);

/* A signal on a wire, as a message of memif's protocol. The driver of the other end may still read
 * the socket. Then it ignores a message of this type, but a message of another length would end the
 * wire. Acknowledgements of the driver itself have a 0 as @sleeper. */
#define HK_WIRE_SIGNAL_TYPE 1 /* memif's ACK */
struct hk_wire_signal {
	uint16_t type;
	uint8_t sleeper; /* enum hk_wakeup plus 1 */
	uint8_t zero[125];
};
_Static_assert(sizeof(struct hk_wire_signal) == 128, "memif's messages have one length");

/* The wakeup of the wire that is port @id. hk_wakeup_set_wire() registers @fd, which still belongs
 * to the caller; hk_wakeup_take_wire() unregisters and returns it (-1: none). A secondary fetches a
 * descriptor of its own from the primary, which it closes after taking it. */
void hk_wakeup_set_wire(uint16_t id, int fd);
int hk_wakeup_take_wire(uint16_t id);
int hk_wakeup_fetch_wire(uint16_t id, int64_t deadline, struct hk_error *err);
void hk_wakeup_unlisten_wire(const struct hk_port *port);

/* ---- the memif control channel (port/memif_guard.c) ----------------------------------------- */

struct hk_memif_guard;

/* Suffix of a server socket's name until the device has started. */
#define HK_MEMIF_NEW ".new"

/* Takes the connected control socket of the memif at @path away from DPDK's interrupt thread; the
 * notes in the file say why. Call it once, when the link is up. */
int hk_memif_guard_arm(const char *path, bool server, struct hk_memif_guard **guard,
		       struct hk_error *err);

/* Returns whether the process at the other end is alive. */
bool hk_memif_guard_alive(const struct hk_memif_guard *g);

/* Returns the control socket. A byte that arrives there is only a signal (port/wakeup.h). */
int hk_memif_guard_socket(const struct hk_memif_guard *g);

void hk_memif_guard_free(struct hk_memif_guard *g);

/* In a secondary, before its driver uses the memif @device: fetches the memory of the rings from
 * the primary. It also makes sure that polling never uses a descriptor number of the primary. Notes
 * in port/memif_shared.c say why. @mem identifies the memory for the next two functions. */
struct hk_memif_memory {
	dev_t dev;
	ino_t ino;
};
int hk_memif_shared_prepare(const char *spec, const char *device, unsigned queues, int64_t deadline,
			    struct hk_memif_memory *mem, struct hk_error *err);

/* Returns whether the driver has mapped the memory. */
bool hk_memif_shared_mapped(const struct hk_memif_memory *mem);

/* Unmaps the memory, because the driver does not. */
void hk_memif_shared_unmap(const struct hk_memif_memory *mem);

/* The rings of a memif, in this process's mapping of their memory (port/memif_rings.c). They lie in
 * a row: those from the client to the server, one for each queue, and then those back. */
struct hk_memif_rings {
	uint8_t *at;
	size_t ring_len; /* bytes from one ring to the next */
	unsigned count;
};

/* Finds @count rings in @size bytes at @at. -EPROTO: they differ from those of DPDK's driver. */
int hk_memif_rings_find(void *at, size_t size, unsigned count, struct hk_memif_rings *rings);

/* The same, in what the driver has mapped. -EPIPE: nothing. */
int hk_memif_shared_rings(const struct hk_memif_memory *mem, unsigned queues,
			  struct hk_memif_rings *rings);

/* Sets the flag "no interrupts" in all rings. */
void hk_memif_rings_mask_interrupts(const struct hk_memif_rings *rings);

/* At a server: where the driver goes on to read the ring of @queue. NULL: unknown. */
uint16_t *hk_memif_rx_position(const struct hk_memif_rings *rings, uint16_t port, uint16_t queue);

/* At a server, whose buffers have @frame_max bytes: hk_port_take_queue(). */
int hk_memif_rings_take(const struct hk_memif_rings *rings, uint16_t port, uint16_t queue,
			uint16_t frame_max);

/* Ends the listening socket of the server at @path, which the driver leaves open at close. */
void hk_memif_unlisten(const char *path);

/* The buffers of a pool that this process created, by number. */
struct hk_pool_table {
	void *const *buffer;
	unsigned count;        /* buffers */
	unsigned data_room_at; /* offset of the frame's bytes in a buffer */
	unsigned data_room;    /* bytes for the frame, headroom included */
};
bool hk_pool_table(const struct rte_mempool *pool, struct hk_pool_table *table);

/* Bytes of the number of a buffer, which lies behind the private bytes. */
#define HK_POOL_NUMBER 8u
static inline uint32_t *hk_pool_number(struct rte_mbuf *m)
{
	return (uint32_t *)((char *)(m + 1) + m->priv_size - HK_POOL_NUMBER);
}

/* rx and tx with fault injection (port/faults.c). */
uint16_t hk_faults_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_faults_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);

/* Returns the base-2 logarithm of @n, rounded down. */
static inline unsigned hk_log2(unsigned n)
{
	unsigned l = 0;
	while ((2u << l) <= n)
		l++;
	return l;
}

/* ---- a port with its private part ----------------------------------------------------------- */

/* The primary's description of a port, in shared memory: a memzone for each id, created once and
 * never freed. */
enum hk_share_state { HK_SHARE_CLOSED, HK_SHARE_UP, HK_SHARE_DOWN };

struct hk_port_share {
	uint32_t state;      /* enum hk_share_state; atomic */
	uint32_t generation; /* number of ports that have had this id; atomic */
	char dev_name[64];
	struct hk_port_info info;
};

struct hk_port_impl {
	struct hk_port port; /* the handle of callers; must be first */
	struct hk_spec spec;
	char dev_name[64]; /* DPDK's name of the device */
	bool own_pool, configured, started, stopped, is_vdev;
	unsigned ring_socket; /* DPDK's socket for descriptor rings; 0: any */
	struct hk_udp *udp;   /* udp:… (port/udp.h) */
	struct hk_xsk *xsk;   /* af_xdp:… (port/xsk.h) */
	struct hk_memif_guard *guard;
	struct hk_port_share *share; /* NULL: not shared */
	bool attached;               /* a secondary's */
	bool has_wakeup;             /* a secondary's, with the wakeup of its wire */
	uint32_t generation;
	struct hk_memif_memory memory;
	struct hk_steer *steer; /* NULL: hardware rules were not requested, or do not work */
	struct hk_steer_report steering;
};

/* Tell secondaries about the port, or about a change of its link (port/shared.c). */
int hk_share_publish(struct hk_port_impl *p, struct hk_error *err);
void hk_share_state(struct hk_port_impl *p, enum hk_share_state state);
bool hk_share_link(const struct hk_port_impl *p);

/* ---- steering (port/steer.c) ---------------------------------------------------------------- */

/* A pattern and everything that it points to. */
struct hk_steer_pattern {
	struct rte_flow_item item[4]; /* ends with type END */
	unsigned items, raws;
	struct rte_flow_item_eth eth_spec, eth_mask;
	struct rte_flow_item_raw raw_spec[2], raw_mask[2];
	struct rte_flow_item_udp udp_spec, udp_mask;
	uint8_t value[HK_STEER_FIELD_MAX], mask[HK_STEER_FIELD_MAX], type[2], type_mask[2];
};

/* Writes @m as a pattern of @method in form @form, counted from 0 (port/steer_pattern.c). False if
 * @m lacks the fields or there is no such form. The caller must not move @p, which points into
 * itself. */
bool hk_steer_pattern(struct hk_steer_pattern *p, enum hk_steer_method method, unsigned form,
		      const struct hk_steer_match *m);

/* Finds the best method for the started port, which has several queues, and fills p->steering. */
void hk_steer_begin(struct hk_port_impl *p, const struct hk_steer_match *sample);

/* Removes all rules, before the device stops. */
void hk_steer_end(struct hk_port_impl *p);

/* Selects software, and records @why as the reason against all hardware methods. */
void hk_steer_set_software(struct hk_port_impl *p, const char *why);

/* ---- steps of hk_port_open() ----------------------------------------------------------------- */

#define HK_NIC_RING 1024 /* default number of descriptors */

/* Has DPDK create the device of the spec. Sets its id, and its frame size if the system knows it
 * (port/device.c). */
int hk_device_make(struct hk_port_impl *p, struct hk_error *err);

/* Read the driver's information about the device, before and after its start. */
int hk_device_query(struct hk_port_impl *p, struct rte_eth_dev_info *dev, struct hk_error *err);
void hk_device_describe(struct hk_port_impl *p);

/* Starts the device. The client of a memif waits for its server's socket until @deadline. */
int hk_device_start(struct hk_port_impl *p, int64_t deadline, struct hk_error *err);

/* Stops and removes the device. */
void hk_device_remove(struct hk_port_impl *p);

/* The first @bytes of a frame go to buffers of @first. */
struct hk_split {
	struct rte_mempool *first;
	unsigned bytes;
};

/* Checks whether the device can have these queues (port/queues.c). */
int hk_queues_check(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
		    const struct hk_port_queues *q, struct hk_error *err);

/* Chooses the number of queues for steering, before the port creates buffers for their rings. */
void hk_queues_choose(struct hk_port_impl *p, const struct rte_eth_dev_info *dev, unsigned wanted);

/* Configures the queues; with @split if it is not NULL and the driver accepts it. With @q NULL
 * there is one queue, with the port's pool. */
int hk_queues_configure(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
			const struct hk_port_queues *q, const struct hk_split *split,
			struct hk_error *err);

/* Sets up steering. If no hardware rule works, it configures a NIC again with one queue. A virtual
 * device keeps its queues: it may spread frames over all of them (net_af_packet), and may fail when
 * it is configured again. */
int hk_queues_steer(struct hk_port_impl *p, const struct rte_eth_dev_info *dev,
		    const struct hk_steer_match *sample, int64_t deadline, struct hk_error *err);

/* Checks the socket's directory and writes the device's arguments (port/memif.c). */
int hk_memif_prepare(struct hk_port_impl *p, char *args, size_t len, struct hk_error *err);

/* Checks whether the driver can handle so many queues with the port's rings and frames. */
int hk_memif_check_queues(const struct hk_port_impl *p, unsigned queues, struct hk_error *err);

/* Renames a started server's socket to the name that clients look for. */
int hk_memif_publish(const struct hk_spec *s, struct hk_error *err);

/* Creates the port's pool, or uses @given (port/pool.c). */
int hk_pool_make(struct hk_port_impl *p, unsigned buffers, struct rte_mempool *given,
		 struct hk_error *err);

/* Makes a pool with memory for @n objects of @element bytes, which the caller initializes as mbufs.
 * @flags: RTE_MEMPOOL_F_*. NULL without memory. */
struct rte_mempool *hk_pool_populated(const char *name, unsigned n, unsigned cache, size_t element,
				      struct rte_pktmbuf_pool_private *priv, const char *ops,
				      unsigned flags);

#define HK_PORT_FRAME_LIMIT 9216u /* larger frames gain nothing, but need larger buffers */
#define HK_NIC_FRAME_EXTRA  32u   /* bytes of a NIC's buffer that no frame fills: pool.c */
#define HK_NIC_FRAME        (8192u - HK_NIC_FRAME_EXTRA) /* without `frame` */

/* The same in a process without DPDK (port/pool_bare.c). hk_pool_bare_free() frees such a pool;
 * false: it is one of DPDK's. */
struct rte_mempool *hk_pool_bare(const char *name, unsigned n, size_t element,
				 struct rte_pktmbuf_pool_private *priv);
bool hk_pool_bare_free(struct rte_mempool *mp);

/* Makes a pool of @n packet buffers, as rte_pktmbuf_pool_create_by_ops() does, or a lazy one
 * (port/pool_lazy.c). @ops: NULL for the best. NULL without memory. */
struct rte_mempool *hk_pool_new(const char *name, unsigned n, unsigned cache, uint16_t private,
				uint16_t data_room, const char *ops);
void hk_pool_delete(struct rte_mempool *mp);

/* Whether hk_pools_leave() was called. */
bool hk_pools_left(void);

/* Checks whether the port can receive into buffers of @given. */
int hk_pool_suits(const struct hk_port_impl *p, struct rte_mempool *given, struct hk_error *err);

#endif
