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
 *   af_xdp:iface=hk0[,queue=N][,mode=auto|copy][,busy=N]
 *   af_packet:iface=hk0[,ring=N]
 *   pci:0000:3b:02.1             any NIC or VF that DPDK drives
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
 * open, nothing here allocates or locks. Faults copy frames, from the port's own pool.
 */
#ifndef HK_PORT_H
#define HK_PORT_H

#include "base/common.h"
#include "base/error.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

/* ---- DPDK itself --------------------------------------------------------------------------- */

struct hk_eal_config {
	unsigned memory_mb;     /* for buffers; 0: 256 */
	bool hugepages;         /* false: ordinary memory (no set-up by an administrator needed) */
	char pci_allow[208];    /* PCI devices to probe, separated by spaces; "": no PCI */
	const char *extra_args; /* appended, split at spaces; may be NULL */
	bool verbose;           /* let DPDK log to stderr */
};

/* Starts DPDK in this process, once; later calls return 0 and change nothing. The calling
 * thread's CPU affinity, which rte_eal_init() changes, is restored. Nothing is left in the file
 * system. Returns 0 or a negative errno with a sentence in @err. */
int hk_eal_init(const struct hk_eal_config *cfg, struct hk_error *err);

/* Puts into @cfg what the port @spec needs of DPDK: its PCI address and huge pages for pci:…,
 * nothing for the others. -EINVAL with a sentence if the spec does not parse. */
int hk_port_spec_eal(const char *spec, struct hk_eal_config *cfg, struct hk_error *err);

/* ---- ports --------------------------------------------------------------------------------- */

struct hk_faults; /* port/faults.h */

struct hk_port_info {
	char spec[256];  /* as it was opened */
	char driver[32]; /* DPDK's name of the driver: net_memif, net_af_xdp, net_ixgbe, … */
	uint8_t mac[6];
	uint16_t frame_max;  /* bytes of the largest frame, Ethernet header included, no FCS */
	uint16_t queues;     /* pairs */
	uint16_t rx_ring;    /* descriptors a queue: frames that wait while nobody polls */
	uint32_t link_mbps;  /* 0: unknown */
	int numa;            /* -1: unknown */
	bool tx_multi_seg;   /* offloads in use */
	bool point_to_point; /* a wire with one peer: what is sent arrives there whatever its MAC */
};

struct hk_port {
	uint16_t id; /* DPDK's */
	struct rte_mempool *pool;
	struct hk_faults *faults; /* NULL on a healthy port */
	struct hk_port_info info;
	/* counted here, since not every driver counts; tx_full: frames refused for want of room */
	uint64_t rx_frames, tx_frames, tx_full;
};

/* Opens, configures and starts the port that @spec names. @buffers packet buffers are for the
 * caller, on top of what the driver's rings hold, in a new pool if @pool is NULL; the pool of
 * another port may be given instead, whose frames are as large (not for af_xdp). `{local_rank}` and `{rank}` in the spec stand for the environment's
 * OMPI_COMM_WORLD_LOCAL_RANK and OMPI_COMM_WORLD_RANK. Waits at most @timeout_ms for what must
 * appear (the server end of a memif, the link). The error names the spec, what is wrong with it
 * (no such interface, in use by another process, no permission, driver absent, syntax) and the
 * fix. */
int hk_port_open(const char *spec, unsigned buffers, struct rte_mempool *pool, int timeout_ms,
		 struct hk_port **port, struct hk_error *err);

/* Stops and frees the port, its faults, and what it left in the system (XDP program, socket). The
 * pool is freed if the port made it: free its buffers, and close the ports that share it, first.
 * NULL is allowed. */
void hk_port_close(struct hk_port *port);

/* Is the link up (a memif: is the peer connected)? Slow path: it may make a system call. By the
 * thread that polls the port. */
bool hk_port_link(struct hk_port *port);

/* Waits at most @timeout_ms for the link. hk_port_open() has done so itself, except for the server
 * end of a memif, whose peer may come later (open all servers, then all clients, then wait):
 * that end must be waited for before its first rx or tx. */
int hk_port_wait_link(struct hk_port *port, int timeout_ms, struct hk_error *err);

/* The faulty halves of rx and tx, out of line (port/faults.c). */
uint16_t hk_faults_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);
uint16_t hk_faults_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t n);

/* Receives at most @n frames; they are single-segment mbufs. */
static inline uint16_t hk_port_rx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m,
				  uint16_t n)
{
	uint16_t got = HK_UNLIKELY(port->faults != NULL) ? hk_faults_rx(port, queue, m, n)
							 : rte_eth_rx_burst(port->id, queue, m, n);
	port->rx_frames += got;
	return got;
}

/* Sends; returns how many the driver took, from the front. The rest stay the caller's. */
static inline uint16_t hk_port_tx(struct hk_port *port, uint16_t queue, struct rte_mbuf **m,
				  uint16_t n)
{
	uint16_t sent = HK_UNLIKELY(port->faults != NULL) ? hk_faults_tx(port, queue, m, n)
							  : rte_eth_tx_burst(port->id, queue, m, n);
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

/* Writes the spec of the wire between endpoints @self and @peer to @out. The lower endpoint is the
 * server; the server ends must be opened before their clients (open all servers first). */
int hk_port_wire_spec(const char *set_spec, uint32_t key, uint32_t self, uint32_t peer, char *out,
		      size_t out_len, bool *is_server, struct hk_error *err);

#endif
