/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/port.h: Ethernet ports of every kind.
 *
 * A port is one DPDK ethdev with its queues and its pool of frame buffers. A text names it, the
 * *port spec*, which users write in `--mca btl_hikyaku_port` and which docs/ports.md explains:
 *
 *   memif:dir=/run/hk[,frame=N][,ring=N]    wires in shared memory, one for each pair of peers
 *   memif:socket=/run/a.sock,role=server|client[,id=N][,frame=N][,ring=N]     one such wire
 *   af_xdp:iface=hk0[,queue=N][,mode=auto|copy][,busy=N][,take=ours|all][,force=1]
 *   af_packet:iface=hk0[,ring=N]
 *   udp:addr=ADDRESS|INTERFACE[,port=N][,mtu=N][,ip=4|6][,xdp=1][,queue=N]
 *   pci:0000:3b:02.1[,frame=N][,ring=N]    any NIC or virtual function that DPDK drives
 *   vdev:net_xyz0,key=value      any other DPDK virtual device
 *
 * Tests may append fault injection to a spec: `;faults=drop=0.001,dup=0.01,reorder=0.01,
 * corrupt=0.001,delay=0.01,seed=7` (port/faults.h).
 *
 * Memory. Received mbufs belong to the caller until it frees them. Transmitted mbufs belong to the
 * driver, as with rte_eth_tx_burst(). A sender may keep a reference of its own in order to resend.
 * It may read the bytes at any time, but change them only when its reference is the last one
 * (rte_mbuf_refcnt_read() == 1). Until then the device may still read them, and a NIC releases sent
 * buffers only when it needs space in its ring. docs/ports.md says what each driver does.
 *
 * Threads. A queue belongs to one thread at a time; one thread opens and closes ports. After open,
 * no function here allocates or locks. Fault injection copies frames into buffers of the port's own
 * pool or, on a port with a pool for each queue, of the frame's pool.
 *
 * Processes. Several processes can share a port. DPDK's *primary* opens it with many queues
 * (hk_port_open_queues()). The *secondaries* attach to it (hk_port_attach()) and use queues that
 * the primary leaves to them. All processes of one shared memory trust each other: each maps it,
 * and DPDK's own structures and locks lie in it. The functions' comments say what a process can
 * rely on when another one dies.
 */
#ifndef HK_PORT_PORT_H
#define HK_PORT_PORT_H

#include "base/common.h"
#include "hikyaku/error.h"
#include "port/tap.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#pragma GCC visibility push(default)

/* ---- DPDK itself --------------------------------------------------------------------------- */

enum hk_eal_role {
	HK_EAL_ALONE,    /* shares no memory and leaves nothing in the file system */
	HK_EAL_PRIMARY,  /* creates the shared memory, in huge pages, and owns the ports */
	HK_EAL_SECONDARY /* uses a primary's memory and queues of its ports */
};

struct hk_eal_config {
	enum hk_eal_role role;
	/* primary, secondary: name of the shared memory, [A-Za-z0-9_.-], at most 63 characters */
	const char *shared;
	const char *huge_dir; /* primary: a directory in a hugetlbfs; NULL: find one */
	/* secondary: the primary's hk_eal_runtime_dir(); NULL: the one of the environment */
	const char *runtime_dir;
	unsigned lcore;  /* DPDK's logical core, below RTE_MAX_LCORE (128): a different one for
			  * each process of a memory. Pools have a cache for each. */
	unsigned worker; /* primary: second lcore, for rte_eal_remote_launch(); 0: none */
	/* MB for buffers, rings and pools; 0: 256, or 64 with lazy buffers. Of a primary: the limit
	 */
	unsigned memory_mb;
	bool hugepages; /* alone: use huge pages; otherwise ordinary memory, without set-up */
	/* alone, without PCI devices, huge pages and more arguments: a buffer takes memory only
	 * once it is used. The process calls no function of DPDK that attaches one mbuf to another,
	 * such as rte_pktmbuf_attach(). */
	bool lazy_buffers;
	/* alone: ports that need no DPDK, and others (hk_port_spec_eal()). If all are such ones,
	 * and there are no more arguments, DPDK is not started. */
	unsigned sockets, devices;
	unsigned frame_max;     /* the largest that a spec names; 0: none does */
	char pci_allow[208];    /* PCI devices to probe, separated by spaces; "": no PCI */
	const char *extra_args; /* more arguments for DPDK, split at spaces; may be NULL */
	bool verbose;           /* DPDK logs to stderr */
};

/* Returns the directory in which DPDK keeps its files, under dpdk/NAME. It is the first of:
 * $RUNTIME_DIRECTORY, /var/run for root, $XDG_RUNTIME_DIR, /tmp/hikyaku-UID. A secondary may have
 * been given another. The caller must not free the string. */
const char *hk_eal_runtime_dir(void);

/* Creates that directory if it is /tmp/hikyaku-UID. */
int hk_eal_make_runtime_base(struct hk_error *err);

/* Returns the rate of rte_rdtsc() in Hz, with or without DPDK. */
uint64_t hk_eal_tsc_hz(void);

/* Starts DPDK in this process. Only the first call has an effect; later ones return 0. The function
 * restores the calling thread's CPU affinity, which rte_eal_init() changes. A process that is alone
 * leaves nothing in the file system. Returns 0, or a negative errno with a sentence in @err. If
 * @cfg says that no port needs DPDK, the call only notes that, and a later one may start it.
 *
 * A primary first removes the files of a dead primary of its name (hk_eal_remove_stale()). Its own
 * files lie in DPDK's runtime directory and in the hugetlbfs until hk_eal_end(). Codes: -EADDRINUSE
 * another primary of that name is alive; -ENODEV no hugetlbfs; -EACCES no permission there; -ENOMEM
 * too few free huge pages. Only one process at a time may start under one name.
 *
 * A secondary waits at most 5 s for a primary that is just starting. Codes: -ENOENT no primary is
 * alive; -EACCES it is another user's; -EPROTONOSUPPORT it has another DPDK version; -ETIMEDOUT it
 * does not finish its start. Avoid killing the secondary meanwhile: DPDK takes locks in the shared
 * memory. If their owner dies, all processes that want them wait for ever. */
int hk_eal_init(const struct hk_eal_config *cfg, struct hk_error *err);

/* Removes this process's files. A primary or secondary calls it last, after it has closed or
 * detached its ports; no other call of this header may follow. A primary's files are those of the
 * whole memory; secondaries that are alive keep their mappings. It has no effect in a process that
 * is alone or has not started DPDK. */
void hk_eal_end(void);

/* Removes the files that a dead primary named @shared and its secondaries left. They lie in DPDK's
 * runtime directory and in the hugetlbfs at @huge_dir (NULL: each mounted one). Secondaries that
 * are still alive are not harmed: the memory stays until they end. It does not need hk_eal_init().
 * Returns 0, also if there are no files; -EBUSY if the primary is alive; otherwise a negative
 * errno, with the file in @err. */
int hk_eal_remove_stale(const char *shared, const char *huge_dir, struct hk_error *err);

/* Returns whether the primary of this process's memory is alive. True in the primary and in a
 * process that is alone. Makes system calls. */
bool hk_eal_primary_alive(void);

#define HK_PORT_SPEC_MAX 256

/* Splits a list of specs at '+': af_xdp:iface=eth0+af_xdp:iface=eth1. A '+' that no kind of port
 * follows is part of its spec. Returns the number of specs, or -EINVAL if there are none, more than
 * @max, or one is too long. It does not check the specs themselves. */
int hk_port_list_split(const char *list, char spec[][HK_PORT_SPEC_MAX], unsigned max,
		       struct hk_error *err);

/* Adds to @cfg what the port @spec needs from DPDK. For pci that is its address and huge pages, for
 * vdev buffers in DPDK's own memory, for other kinds nothing. Returns 0, or -EINVAL with a sentence
 * if the spec does not parse. */
int hk_port_spec_eal(const char *spec, struct hk_eal_config *cfg, struct hk_error *err);

/* ---- ports --------------------------------------------------------------------------------- */

struct hk_faults; /* port/faults.h */

struct hk_port_info {
	char spec[HK_PORT_SPEC_MAX]; /* port spec with {rank} and {local_rank} replaced */
	char driver[32];             /* DPDK's name of the driver, such as net_memif */
	uint8_t mac[6];
	uint16_t frame_max;  /* bytes of the largest frame with Ethernet header, without FCS */
	uint16_t queues;     /* queue pairs */
	uint16_t rx_ring;    /* descriptors per queue: frames that wait while nobody polls */
	uint32_t link_mbps;  /* 0: unknown */
	int numa;            /* NUMA node; -1: unknown */
	bool tx_multi_seg;   /* the port sends frames of several mbufs */
	bool bulk;           /* many frames in one call cost little more than one */
	bool copies_at_tx;   /* tx has read the bytes of a frame when the call returns */
	bool point_to_point; /* a wire: each sent frame arrives at its one peer, whatever the MAC */
	bool system_calls;   /* rx and tx enter the kernel: a round trip costs more than a copy */
	bool datagrams;      /* frames travel as datagrams of UDP, and reach only such ports */
	bool ip6;            /* these are of IPv6: peers have an hk_port_address() */
	uint16_t extra_queues; /* of a port opened for steering (port/steer.h): number of queues
				  besides queue 0 on which frames may arrive */
	bool steered;          /* rules choose the queue of a frame */
	uint8_t priority;      /* of small frames, by their tags; 0: no tags (port/priority.h) */
	bool split;            /* the NIC splits off the first bytes of frames (port/split.h) */
	/* Reason why a requested split is off; NULL otherwise. Valid in this process only. */
	const char *split_refusal;
};

/* hk_port_open() and its variants create it and write to it; callers read it. */
struct hk_port {
	uint16_t id;                /* DPDK's number of the port */
	struct rte_mempool *pool;   /* NULL if each queue has its own */
	struct hk_faults *faults;   /* NULL without fault injection */
	struct rte_mempool *copies; /* of frames with a priority tag; NULL without a priority */
	struct hk_pipe *pipe;       /* set if another process polls the port: port/pipe.h */
	bool wrapped;               /* faults, pipe or info.priority is set */
	struct hk_port_info info;
	/* Frames counted here because not every driver counts; tx_full: frames that the driver
	 * refused because its ring was full. */
	uint64_t rx_frames, tx_frames, tx_full;
};

/* Opens, configures and starts the port that @spec names.
 *
 * If @pool is NULL, the port creates a pool with @buffers frame buffers for the caller, besides
 * those that the driver's rings take. Otherwise it uses @pool, the pool of another port with frames
 * at least as large.
 *
 * `{local_rank}` and `{rank}` in the spec stand for the numbers that the launcher has given
 * (base/launcher.h).
 *
 * Waits at most @timeout_ms for the server end of a memif and for the link. Returns 0, or a
 * negative errno with *port NULL. The error names the spec, its problem (for example: no such
 * interface, in use by another process, no permission, syntax) and the fix. */
int hk_port_open(const char *spec, unsigned buffers, struct rte_mempool *pool, int timeout_ms,
		 struct hk_port **port, struct hk_error *err);

/* Opens the port as hk_port_open() does, with its descriptor rings in the heap that has DPDK's
 * @socket (rte_malloc_heap_get_socket()); 0: in any memory. The driver gets the socket, and not
 * every driver heeds it: the caller checks where the rings are. */
int hk_port_open_rings(const char *spec, struct rte_mempool *pool, unsigned socket, int timeout_ms,
		       struct hk_port **port, struct hk_error *err);

/* Opens the port as hk_port_open() does, for one of @sharers processes of this node that open the
 * same spec. On af_xdp each gets only frames for the endpoints that it claims, and no multicast. On
 * ports of other kinds there is no difference: each process sees all frames that the port sees. */
int hk_port_open_shared(const char *spec, unsigned buffers, struct rte_mempool *pool,
			unsigned sharers, int timeout_ms, struct hk_port **port,
			struct hk_error *err);

/* Has frames for @endpoint of job @job arrive here, on a port of hk_port_open_shared(). Returns 0,
 * or a negative errno with a sentence. */
int hk_port_claim(struct hk_port *port, uint32_t job, uint32_t endpoint, struct hk_error *err);

/* Returns how many buffers the rings of one queue pair take, with @ring descriptors per direction.
 * A given pool must have as many for each of its ports, besides those for the caller. @device is a
 * PCI device ("0000:00:03.0") that the EAL has probed; for other texts the result assumes one
 * receive and one transmit ring. */
unsigned hk_port_ring_buffers(const char *device, unsigned ring);

/* Stops and frees the port, its fault injection, and what it left in the system (XDP program,
 * socket). It also frees a pool that the port created: the caller must have freed its buffers, and
 * closed other ports that use it, before. @port may be NULL. */
void hk_port_close(struct hk_port *port);

/* Stops the port's traffic and returns the buffers in its rings to their pools. Ports that hold
 * each other's buffers must all be stopped before the first of them is closed. Nobody may poll the
 * port afterwards. @port may be NULL. */
void hk_port_stop(struct hk_port *port);

/* Returns whether the link is up; of a memif, whether the peer is connected. Only the thread that
 * polls the port may call it. It is expensive: it may make a system call. Of an attached port it
 * returns what the primary saw when it last called this, so a primary calls it now and then. It is
 * false once the primary is dead or has closed the port. */
bool hk_port_link(struct hk_port *port);

/* Returns whether the port can carry no frames now, and writes why into @text. It may have no link,
 * or the hikyaku-helper that serves it has ended. The rules of hk_port_link() apply. */
bool hk_port_fault(struct hk_port *port, char *text, size_t len);

/* Waits at most @timeout_ms for the link. hk_port_open() waits itself, except for the server end
 * of a memif, whose peer may come later: open all servers, then all clients, then wait. Call this
 * before the first rx or tx of a server end. Returns 0, -ETIMEDOUT, or another negative errno with
 * the port's problem. */
int hk_port_wait_link(struct hk_port *port, int timeout_ms, struct hk_error *err);

/* Returns a descriptor that is readable when frames have arrived, or -1 unless the port is a socket
 * of the kernel. Threads sleep on it instead of polling. The descriptor belongs to the port. */
int hk_port_wait_fd(const struct hk_port *port);

#define HK_PORT_ADDRESS 18

/* Writes the bytes by which peers find the port, where those of info.mac do not suffice. False:
 * they do (all but udp with IPv6). */
bool hk_port_address(const struct hk_port *port, uint8_t address[HK_PORT_ADDRESS]);

/* The IPv4 network of the interface that an Ethernet port uses, as a number. Two ports with the
 * same number are in one L2 segment, as a rule. 0: the interface has no address, or the port uses
 * no interface. */
uint64_t hk_port_network(const struct hk_port *port);

/* Checks that the port is of the same kind as one of a peer that has an hk_port_address(), or none.
 * -EAFNOSUPPORT: one is of IPv6, and the other is not. */
int hk_port_meets(const struct hk_port *port, bool has_address, struct hk_error *err);

/* A peer has @address by hk_port_address(); NULL: it has none. Call it before the first frame to
 * the peer. -EAFNOSUPPORT: as hk_port_meets(). */
int hk_port_know(struct hk_port *port, const uint8_t *address, struct hk_error *err);

/* Writes what has slowed the port, with the fix, as one sentence for its user. False: nothing. Not
 * for the hot path. */
bool hk_port_advice(const struct hk_port *port, char *text, size_t len);

/* ---- ports that processes share ------------------------------------------------------------- */

struct hk_port_queues {
	unsigned count;            /* queue pairs */
	struct rte_mempool **pool; /* [count]: pool of each receive queue */
};

/* Opens the port as hk_port_open() does, with several queue pairs. The pools belong to the caller;
 * queues may share one. Rings have the length of the spec, or the default of its kind. Returns
 * -ERANGE for more queues than the driver has, and the error names the limit: 255 for memif, less
 * with long rings or large frames. On a memif, a frame sent on queue i arrives on queue i of the
 * other end.
 *
 * In a primary, secondaries can attach once the link is up: when this returns, or for the server
 * end of a memif when hk_port_wait_link() returns. Before hk_port_close(), each secondary must have
 * detached or be dead, because the driver frees the queues that they poll. Opening and closing do
 * not wait for secondaries. */
int hk_port_open_queues(const char *spec, const struct hk_port_queues *q, int timeout_ms,
			struct hk_port **port, struct hk_error *err);

/* Returns whether the queues of this port's driver work in secondaries. *@why, a constant string
 * for people, gives the reason. The answer comes from a list of drivers, because a trial can crash.
 */
bool hk_port_shares_queues(const struct hk_port *port, const char **why);

/* Returns the same for a port that is not open yet, or for a wire set, from its spec. */
bool hk_port_spec_shares_queues(const char *spec, const char **why);

/* In a secondary: uses the port that the primary opened as DPDK's @id. Waits at most @timeout_ms
 * until the link is up and the queues work here. If the spec has faults, this process injects them
 * into the frames that it sends, with a generator for each queue. hk_faults_attach() and
 * hk_faults_detach() then affect only this process, and others that use its struct hk_port.
 *
 * Codes:
 *  -ENOTSUP   the driver's queues do not work in secondaries
 *  -ETIMEDOUT no such port, or its link is down
 *  -EPIPE     the primary has died
 *  -EPERM     this process is not a secondary
 *
 * On a memif the caller may rely on the following:
 *  - When this returns, everything that polling needs is mapped and checked. rx and tx make no
 *    system call and exchange no messages with other processes.
 *  - If the peer leaves or the primary dies, nothing is unmapped in this process. rx returns
 * nothing then, tx soon refuses all frames, and hk_port_link() becomes false. Two secondaries whose
 *    primaries are both dead can still exchange frames.
 *  - If this process is killed, another that attaches later can use its queues after
 *    hk_port_take_queue(). Frames that it was sending are lost. The next user may receive a burst
 *    again.
 * After the primary's death only rx, tx, hk_port_link() and hk_port_detach() are allowed. */
int hk_port_attach(uint16_t id, int timeout_ms, struct hk_port **port, struct hk_error *err);

/* In a secondary: prepares @queue for this process. Another process may have been killed while it
 * used the queue, and what it left would damage our frames. Call this before the first rx and tx,
 * while nobody else uses the queue. -EPROTO: the rings are not those that DPDK's driver makes. */
int hk_port_take_queue(struct hk_port *port, uint16_t queue, struct hk_error *err);

/* Gives the queues back and frees the port; nobody may poll it afterwards. @port may be NULL. */
void hk_port_detach(struct hk_port *port);

/* ---- pools that processes share ------------------------------------------------------------- */

/* Creates a pool of @count buffers for frames of at most @frame_max bytes. @name (at most 20
 * characters) is unique in the memory. Only the process that created the pool may reset or free it.
 * Besides the buffers it takes about 1 MB for the caches of all logical cores. Codes: -EINVAL an
 * invalid name or size; -EEXIST; -ENOMEM. */
int hk_pool_create(const char *name, unsigned count, unsigned frame_max, struct rte_mempool **pool,
		   struct hk_error *err);

/* Creates a pool whose buffers have @data_room bytes, headroom included, and @private bytes for the
 * caller. After these each buffer has its number in the pool. */
int hk_pool_create_sized(const char *name, unsigned count, unsigned private, unsigned data_room,
			 struct rte_mempool **pool, struct hk_error *err);

/* Return the bytes of memory that a pool of hk_pool_create_sized(), or of hk_pool_create(), takes
 * at most. They work without EAL. */
size_t hk_pool_sized_bytes(unsigned count, unsigned private, unsigned data_room);
size_t hk_pool_bytes(unsigned count, unsigned frame_max);

/* In a secondary: finds the pool that the primary created under @name. -ENOENT: there is none;
 * -EPROTO: it does not work in this process. */
int hk_pool_find(const char *name, struct rte_mempool **pool, struct hk_error *err);

/* Frees every buffer of a pool whose user has died, and empties the caches of all logical cores.
 * Only the process that created the pool may call it. During the call nobody may use the pool;
 * afterwards nobody may use a buffer from before. No device may hold a buffer: memif holds none,
 * but a NIC's rings do. The function restores the pool's own structures from a copy in this
 * process, so damage by the dead user does not matter. -EPERM: another process created the pool;
 * -EPROTO: somebody still uses it. */
int hk_pool_reset(struct rte_mempool *pool, struct hk_error *err);

/* Frees a pool of this process, and ignores other processes' pools. All buffers must be back, and
 * no port may use it. @pool may be NULL. */
void hk_pool_free(struct rte_mempool *pool);

/* For a process that is about to end: it frees no pool from now on, and the kernel takes all memory
 * back at once. DPDK writes zeros to memory that is freed, and so the kernel has to supply every
 * page of a pool that was never used. The process opens no port afterwards. */
void hk_pools_leave(void);

/* rx and tx of ports with fault injection, a priority or a pipe. */
uint16_t hk_port_rx_wrapped(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_port_tx_wrapped(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);

/* rx and tx without capture. */
static inline uint16_t hk_port_rx_driver(struct hk_port *port, uint16_t queue, struct rte_mbuf **m,
					 uint16_t n)
{
	return HK_UNLIKELY(port->wrapped) ? hk_port_rx_wrapped(port, queue, m, n)
					  : rte_eth_rx_burst(port->id, queue, m, n);
}

static inline uint16_t hk_port_tx_driver(struct hk_port *port, uint16_t queue, struct rte_mbuf **m,
					 uint16_t n)
{
	return HK_UNLIKELY(port->wrapped) ? hk_port_tx_wrapped(port, queue, m, n)
					  : rte_eth_tx_burst(port->id, queue, m, n);
}

static inline bool hk_port_tapped(void)
{
	return HK_UNLIKELY(atomic_load_explicit(&hk_tap_on, memory_order_relaxed));
}

/* Receives at most @n frames and returns their number. Only the thread that polls @queue may call
 * it. Each frame is one mbuf and belongs to the caller. */
static inline uint16_t hk_port_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m,
				  uint16_t n)
{
	uint16_t got = hk_port_tapped() ? hk_tap_rx(port, queue, m, n)
					: hk_port_rx_driver(port, queue, m, n);
	port->rx_frames += got;
	return got;
}

/* Sends frames and returns how many the driver accepted, from the front of @m. Only the thread that
 * polls @queue may call it. The others stay with the caller. @n is 1 or more: the memif driver of
 * DPDK 24.11 looks at the first frame before it looks at their number. Only a wrapped port takes 0:
 * frames that faults have delayed may leave, and buffers come back from a pipe. */
static inline uint16_t hk_port_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m,
				  uint16_t n)
{
	uint16_t sent = hk_port_tapped() ? hk_tap_tx(port, queue, m, n)
					 : hk_port_tx_driver(port, queue, m, n);
	port->tx_frames += sent;
	port->tx_full += (uint64_t)n - sent;
	return sent;
}

/* ---- sets of point-to-point wires ---------------------------------------------------------- */

#define HK_WIRE_SET_FRAME_MAX 9216 /* frame_max of the wires of a set without `frame` */

/* Returns the frame_max of the wires of @set_spec; 0 if that is not a wire set. */
uint16_t hk_port_wire_frame_max(const char *set_spec);

/* Returns whether the spec is a wire set, `memif:dir=…`: a directory in which the wires between
 * pairs of endpoints have their sockets. */
bool hk_port_spec_is_wire_set(const char *spec);

/* Returns whether only the two ends of the port's wires can send on them: memif, whose wires are
 * memory that two processes share. */
bool hk_port_spec_is_private(const char *spec);

/* Returns whether a process may have several ports of this spec: UDP sockets whose port number is
 * free. Each is a flow of its own, which a network may send another way. */
bool hk_port_spec_repeats(const char *spec);

/* Checks that the directory of the wire set @set_spec exists, and that this process may create
 * files in it. Returns 0, or a negative errno with a sentence. */
int hk_port_wire_set_check(const char *set_spec, struct hk_error *err);

/* Writes the spec of the wire between endpoints @self and @peer of job @key to @out. The lower
 * endpoint is the server. Servers must be opened before their clients, so open all servers first.
 * Returns 0; -EINVAL if @set_spec is not a wire set or the endpoints are equal; -ENAMETOOLONG if
 * socket or spec would be too long. */
int hk_port_wire_spec(const char *set_spec, uint32_t key, uint32_t self, uint32_t peer, char *out,
		      size_t out_len, bool *is_server, struct hk_error *err);

/* Writes the path of the socket where the endpoint @self of job @key is called (worker/calls.h).
 * Errors as above. */
int hk_port_wire_call_path(const char *set_spec, uint32_t key, uint32_t self, char *out, size_t len,
			   struct hk_error *err);

/* Returns whether the server end of the wire @spec (hk_port_wire_spec()) is there. A client then
 * connects without waiting for the application at the other end. */
bool hk_port_wire_is_served(const char *spec);

#pragma GCC visibility pop

#endif
