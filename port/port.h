/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port/port.h: Ethernet ports, whatever they are made of.
 *
 * A port is one DPDK ethdev with its queues and its pool of packet buffers. It is opened from a
 * text, the *port spec*, which is what users write in `--mca btl_hikyaku_port` and what
 * docs/ports.md lists:
 *
 *   memif:dir=/run/hk[,frame=N][,ring=N]    user-space wires, one for each pair of peers
 *   memif:socket=/run/a.sock,role=server|client[,id=N][,frame=N][,ring=N]     one such wire
 *   af_xdp:iface=hk0[,queue=N][,mode=auto|copy][,busy=N][,force=1]
 *   af_packet:iface=hk0[,ring=N]
 *   pci:0000:3b:02.1[,frame=N][,ring=N]    any NIC or VF that DPDK drives
 *   vdev:net_xyz0,key=value      any other DPDK virtual device, as it is
 *
 * A spec may be wrapped for tests: append `;faults=drop=0.001,dup=0.01,reorder=0.01,
 * corrupt=0.001,delay=0.01,seed=7` (port/faults.h).
 *
 * Memory: received mbufs are the caller's until freed; transmitted mbufs are the driver's, as
 * rte_eth_tx_burst() has it. A sender that keeps a reference of its own (to send again) may read
 * the bytes at any time, and may change them once its reference is the only one
 * (rte_mbuf_refcnt_read() == 1); until then the device may still read them, and a NIC gives back
 * what it has sent only when it needs room. docs/ports.md says what each driver does.
 *
 * Threads: a queue belongs to one thread at a time; opening and closing are for one thread. After
 * open, nothing here allocates or locks. Faults copy frames, from the port's own pool or, on a port
 * with a pool for each queue, from the frame's.
 *
 * Processes: a port can be shared. One process, DPDK's *primary*, opens it with many queues
 * (hk_port_open_queues()); others, the *secondaries*, attach to it (hk_port_attach()) and use queues
 * that the primary leaves to them. All of one memory trust each other: it is mapped by all of them,
 * and DPDK's own structures and locks lie in it. What each may rely on when another dies stands at
 * the functions.
 */
#ifndef HK_PORT_H
#define HK_PORT_H

#include "base/common.h"
#include "base/error.h"
#include "port/tap.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

/* ---- DPDK itself --------------------------------------------------------------------------- */

enum hk_eal_role {
	HK_EAL_ALONE,    /* nothing shared, nothing left in the file system */
	HK_EAL_PRIMARY,  /* makes memory, in huge pages, that others may share; owns the ports */
	HK_EAL_SECONDARY /* uses a primary's memory, and queues of its ports */
};

struct hk_eal_config {
	enum hk_eal_role role;
	const char *shared;   /* of both who share: the memory's name, [A-Za-z0-9_.-], at most 63 */
	const char *huge_dir; /* primary: a directory in a hugetlbfs; NULL: find one */
	/* secondary: the primary's hk_eal_runtime_dir(); NULL: the environment says where it is */
	const char *runtime_dir;
	unsigned lcore;      /* DPDK's logical core, one for each process of a memory: below
				 * RTE_MAX_LCORE (128). Pools keep a cache for each. */
	unsigned worker;     /* primary: another of these, for rte_eal_remote_launch(); 0: none */
	unsigned memory_mb;  /* for buffers, rings and pools; 0: 256. Of a primary: all there is */
	bool hugepages;      /* alone: false: ordinary memory (no set-up by an administrator) */
	char pci_allow[208]; /* PCI devices to probe, separated by spaces; "": no PCI */
	const char *extra_args; /* appended, split at spaces; may be NULL */
	bool verbose;           /* let DPDK log to stderr */
};

/* Where DPDK keeps its files, in dpdk/NAME: $RUNTIME_DIRECTORY, else (root) /var/run, else $XDG_RUNTIME_DIR, else /tmp;
 * of a secondary that was given another, that. The text is the environment's or this process's: not to be freed. */
const char *hk_eal_runtime_dir(void);

/* Starts DPDK in this process, once; later calls return 0 and change nothing. The calling
 * thread's CPU affinity, which rte_eal_init() changes, is restored. Alone, nothing is left in the file
 * system. Returns 0 or a negative errno with a sentence in @err.
 *
 * A primary first removes what a dead one of its name left (hk_eal_remove_stale()); what it makes
 * itself lies in DPDK's runtime directory and in the hugetlbfs until hk_eal_end(). Codes: -EADDRINUSE
 * another primary of that name lives; -ENODEV no hugetlbfs; -EACCES no permission there; -ENOMEM
 * too few free huge pages. Let one process start at a time under one name.
 *
 * A secondary waits at most 5 s for a primary that is just starting. Codes: -ENOENT no primary lives;
 * -EACCES another user's; -EPROTONOSUPPORT one of another DPDK version; -ETIMEDOUT one that does
 * not finish its start. It must not be killed meanwhile if that can be avoided: DPDK takes
 * locks in the shared memory, and one that dies with its holder stops all processes that want it. */
int hk_eal_init(const struct hk_eal_config *cfg, struct hk_error *err);

/* Before the end of a primary or secondary, after its ports are closed or detached: removes this
 * process's files (a primary's are all files of the memory; living secondaries keep what they have
 * mapped). No other call of this header may follow. Does nothing in a process that is alone or has not
 * started DPDK. */
void hk_eal_end(void);

/* Removes what a dead primary named @shared, and its secondaries, left in DPDK's runtime directory
 * and in the hugetlbfs at @huge_dir (NULL: in each that is mounted). Secondaries that still live are
 * not harmed: files vanish, memory stays until they end. Needs no hk_eal_init(). Returns 0, also if
 * there is nothing; -EBUSY if the primary lives; else a negative errno, with the file in @err. */
int hk_eal_remove_stale(const char *shared, const char *huge_dir, struct hk_error *err);

/* Does the primary of this process's memory live? True in the primary and in a process that is
 * alone. Makes system calls. */
bool hk_eal_primary_alive(void);

#define HK_PORT_SPEC_MAX 256

/* Takes a list of specs apart, between which stands '+': af_xdp:iface=eth0+af_xdp:iface=eth1. (A '+' that no kind of
 * port follows belongs to its spec.) Returns how many, or -EINVAL if it is none, more than @max, or one that
 * is too long. What they mean is not looked at. */
int hk_port_list_split(const char *list, char spec[][HK_PORT_SPEC_MAX], unsigned max,
		       struct hk_error *err);

/* Puts into @cfg what the port @spec needs of DPDK: its PCI address and huge pages for pci:…,
 * nothing for the others. -EINVAL with a sentence if the spec does not parse. */
int hk_port_spec_eal(const char *spec, struct hk_eal_config *cfg, struct hk_error *err);

/* ---- ports --------------------------------------------------------------------------------- */

struct hk_faults; /* port/faults.h */

struct hk_port_info {
	char spec[HK_PORT_SPEC_MAX]; /* as it was opened */
	char driver[32]; /* DPDK's name of the driver: net_memif, net_af_xdp, net_ixgbe, … */
	uint8_t mac[6];
	uint16_t frame_max;  /* bytes of the largest frame, Ethernet header included, no FCS */
	uint16_t queues;     /* pairs */
	uint16_t rx_ring;    /* descriptors a queue: frames that wait while nobody polls */
	uint32_t link_mbps;  /* 0: unknown */
	int numa;            /* -1: unknown */
	bool tx_multi_seg;   /* offloads in use */
	bool copies_at_tx;   /* what is given to tx has been read when the call returns */
	bool point_to_point; /* a wire with one peer: what is sent arrives there whatever its MAC */
	uint16_t
		more_queues; /* opened to be steered (port/steer.h): frames come by queues 1 to this, too … */
	bool steered;         /* … as rules say */
	bool split;           /* the NIC puts frames' first bytes elsewhere (port/split.h) */
	const char *no_split; /* why not, if that was asked for; else NULL. Of this process alone */
};

/* Made by hk_port_open() and its likes, and theirs; callers read it. */
struct hk_port {
	uint16_t id;              /* DPDK's */
	struct rte_mempool *pool; /* NULL where each queue has its own */
	struct hk_faults *faults; /* NULL on a healthy port */
	struct hk_pipe *pipe;     /* NULL but where another process polls the port: port/pipe.h */
	bool detour;              /* one of the two is there */
	struct hk_port_info info;
	/* counted here, since not every driver counts; tx_full: frames refused for want of room */
	uint64_t rx_frames, tx_frames, tx_full;
};

/* Opens, configures and starts the port that @spec names. @buffers packet buffers are for the
 * caller, on top of what the driver's rings hold, in a new pool if @pool is NULL; the pool of
 * another port may be given instead, whose frames are as large (not for af_xdp). `{local_rank}` and `{rank}` in the
 * spec stand for mpirun's OMPI_COMM_WORLD_LOCAL_RANK and OMPI_COMM_WORLD_RANK, else srun's SLURM_LOCALID and SLURM_PROCID. Waits at most @timeout_ms
 * for what must appear (the server end of a memif, the link). Returns 0, or a negative errno, and then *port is
 * NULL. The error names the spec, what is wrong with it (no such interface, in use by another process, no
 * permission, driver absent, syntax) and the fix. */
int hk_port_open(const char *spec, unsigned buffers, struct rte_mempool *pool, int timeout_ms,
		 struct hk_port **port, struct hk_error *err);

/* Buffers that the rings of one queue pair hold, with @ring descriptors each way: a given pool must have as many for each
 * port that it serves, and some for the caller. Of a PCI device ("0000:00:03.0") that the EAL has probed; others are
 * counted as most are, a receive and a transmit ring. */
unsigned hk_port_ring_buffers(const char *device, unsigned ring);

/* Stops and frees the port, its faults, and what it left in the system (XDP program, socket). The
 * pool is freed if the port made it: free its buffers, and close the ports that share it, first.
 * NULL is allowed. */
void hk_port_close(struct hk_port *port);

/* Stops its traffic, so that what lies in its rings goes back to the pools that it came from: before the first of some
 * ports is closed that hold each other's buffers. Nobody may poll it any more. NULL is allowed. */
void hk_port_stop(struct hk_port *port);

/* Is the link up (a memif: is the peer connected)? Slow path: it may make a system call. By the
 * thread that polls the port. Of an attached port: what the primary saw when it last asked (so a primary
 * asks now and then), and false once the primary is dead or has closed the port. */
bool hk_port_link(struct hk_port *port);

/* Waits at most @timeout_ms for the link. hk_port_open() has done so itself, except for the server
 * end of a memif, whose peer may come later (open all servers, then all clients, then wait):
 * that end must be waited for before its first rx or tx. Returns 0 or a negative errno: -ETIMEDOUT, or what is wrong
 * with the port. */
int hk_port_wait_link(struct hk_port *port, int timeout_ms, struct hk_error *err);

/* A descriptor that is readable when frames have come, for who sleeps instead of polling: of ports that are
 * sockets of the kernel's. It stays the port's. -1: there is none. */
int hk_port_wait_fd(const struct hk_port *port);

/* ---- ports that processes share ------------------------------------------------------------- */

struct hk_port_queues {
	unsigned count;            /* pairs */
	struct rte_mempool **pool; /* [count]: from where each receive queue takes its buffers */
};

/* Opens the port as hk_port_open() does, with several queue pairs. The pools stay the caller's, and
 * may serve several queues. Rings are as long as the spec says, or as the kind's default. More
 * queues than the driver has is -ERANGE, and the error names the limit; of memif, that is 255, and less
 * with long rings or large frames. In a primary the port can be attached to from the time when its
 * link is up: when this returns, or for the server end of a memif when hk_port_wait_link() does.
 * On a memif, what is sent on queue i arrives on queue i of the other end.
 *
 * Before hk_port_close(), each secondary must have detached or be dead: the driver frees queues that
 * they poll. That secondaries live does not slow opening and closing, nor do they need to answer. */
int hk_port_open_queues(const char *spec, const struct hk_port_queues *q, int timeout_ms,
			struct hk_port **port, struct hk_error *err);

/* Do the queues of this port's driver work in secondaries? *@why, a text for people that lasts, says
 * on what the answer rests. Known by driver, not tried: trying can crash. */
bool hk_port_shares_queues(const struct hk_port *port, const char **why);

/* The same of a port that is not open yet, or of a set of wires, as far as its spec tells. */
bool hk_port_spec_shares_queues(const char *spec, const char **why);

/* In a secondary: uses the port that the primary opened as DPDK's @id. Waits at most @timeout_ms until
 * its link is up and its queues can be used here. If the spec has faults, frames sent here meet them:
 * each process wraps what it sends, with the queue's own generator, and hk_faults_attach() and _detach()
 * on an attached port concern this process alone. Codes: -ENOTSUP the driver's queues do not work in
 * secondaries (the reason is in the text); -ETIMEDOUT no such port, or it is not up; -EPIPE the
 * primary has died; -EPERM this process is no secondary.
 *
 * The caller may rely on this, on a memif:
 *  - Everything that polling needs is mapped and checked when this returns; rx and tx make no system
 *    call and talk to nobody.
 *  - The peer leaves, the primary dies: nothing is unmapped in this process, rx brings no more, tx
 *    soon takes no more, hk_port_link() turns false. (Two secondaries whose primaries are both
 *    dead can still exchange frames.)
 *  - This process is killed: its queues can be used by another that attaches later. Frames that were
 *    being sent are lost; of those that were being received the next user may see a burst again,
 *    or torn: it should discard what is there when it starts.
 * After the primary's death only rx, tx, hk_port_link() and hk_port_detach() are allowed. */
int hk_port_attach(uint16_t id, int timeout_ms, struct hk_port **port, struct hk_error *err);

/* Gives the queues back: polls nothing any more, and forgets the port. NULL is allowed. */
void hk_port_detach(struct hk_port *port);

/* ---- pools that processes share ------------------------------------------------------------- */

/* Makes a pool of @count buffers for frames of at most @frame_max bytes, whose name (at most 20
 * characters) is unique in the memory; its maker alone may reset and free it. Beside the buffers it
 * takes about 1 MB for the caches of all logical cores. Codes: -EINVAL a name or size that cannot be; -EEXIST;
 * -ENOMEM. */
int hk_pool_create(const char *name, unsigned count, unsigned frame_max, struct rte_mempool **pool,
		   struct hk_error *err);

/* The same with the buffers' own room given, headroom included, and @private bytes beside each, after which
 * each has its number in the pool. */
int hk_pool_create_room(const char *name, unsigned count, unsigned private, unsigned room,
			struct rte_mempool **pool, struct hk_error *err);

/* Bytes of memory that a pool of hk_pool_create_room(), or of hk_pool_create(), takes at the most. Needs no EAL. */
size_t hk_pool_room_bytes(unsigned count, unsigned private, unsigned room);
size_t hk_pool_bytes(unsigned count, unsigned frame_max);

/* In a secondary: the pool that the primary made under @name, and owns. -ENOENT: none; -EPROTO: it does not work here. */
int hk_pool_find(const char *name, struct rte_mempool **pool, struct hk_error *err);

/* By its maker: every buffer is free again and as new, whoever had it, and the caches of all
 * logical cores are empty. For pools whose user has died: nobody may use the pool meanwhile, nor a
 * buffer of it afterwards, and no device may hold one (memif holds none; a NIC's rings do). What
 * the dead user wrote over the pool's own structures is mended: the truth lies in this process. -EPERM: not its
 * maker; -EPROTO: somebody uses it still. */
int hk_pool_reset(struct rte_mempool *pool, struct hk_error *err);

/* By its maker (of others' pools nothing happens), with all buffers back and no port that uses it. NULL is allowed. */
void hk_pool_free(struct rte_mempool *pool);

/* What rx and tx do on ports that are not plain, out of line. */
uint16_t hk_port_rx_detour(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_port_tx_detour(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);

/* What rx and tx do where nobody captures. */
static inline uint16_t hk_port_rx_driver(struct hk_port *port, uint16_t queue, struct rte_mbuf **m,
					 uint16_t n)
{
	return HK_UNLIKELY(port->detour) ? hk_port_rx_detour(port, queue, m, n)
					 : rte_eth_rx_burst(port->id, queue, m, n);
}

static inline uint16_t hk_port_tx_driver(struct hk_port *port, uint16_t queue, struct rte_mbuf **m,
					 uint16_t n)
{
	return HK_UNLIKELY(port->detour) ? hk_port_tx_detour(port, queue, m, n)
					 : rte_eth_tx_burst(port->id, queue, m, n);
}

static inline bool hk_port_tapped(void)
{
	return HK_UNLIKELY(atomic_load_explicit(&hk_tap_on, memory_order_relaxed));
}

/* Receives at most @n frames, by the thread that polls @queue; they are single-segment mbufs, and the caller's. Returns
 * how many. */
static inline uint16_t hk_port_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m,
				  uint16_t n)
{
	uint16_t got = hk_port_tapped() ? hk_tap_rx(port, queue, m, n)
					: hk_port_rx_driver(port, queue, m, n);
	port->rx_frames += got;
	return got;
}

/* Sends, by the thread that polls @queue; returns how many the driver took, from the front. The rest stay the
 * caller's. */
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

#define HK_WIRE_SET_FRAME_MAX 9216 /* frame_max of each of its wires, if the set names none */

/* frame_max of the wires of @set_spec; 0 if that is not a wire set. */
uint16_t hk_port_wire_frame_max(const char *set_spec);

/* `memif:dir=…` names not a port but a place where wires between pairs of endpoints meet. */
bool hk_port_spec_is_wire_set(const char *spec);

/* Writes the spec of the wire between endpoints @self and @peer of job @key to @out. The lower endpoint is the
 * server; the server ends must be opened before their clients (open all servers first). Returns 0; -EINVAL if @set_spec
 * is no wire set or both are one; -ENAMETOOLONG if socket or spec would be too long. */
int hk_port_wire_spec(const char *set_spec, uint32_t key, uint32_t self, uint32_t peer, char *out,
		      size_t out_len, bool *is_server, struct hk_error *err);

#endif
