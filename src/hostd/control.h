/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/control.h: the protocol between hikyakud and its clients: ranks and the command line.
 *
 * Short messages of fixed layout over a SOCK_SEQPACKET socket in the daemon's run directory
 * (hostd/rundir.h). Both ends are on one machine, so the byte order is the machine's. A client has
 * one request outstanding at a time, and the daemon answers each:
 *
 *   request    answer           meaning
 *   HELLO      WELCOME          a rank asks for a slot; it keeps it until the connection closes
 *   WIRES      WIRES_READY      a rank asks for wires to other nodes; answered when their links
 *                               are up
 *   READY      PROXIED          a rank names the address of its worker; from now on the poller may
 *                               poll it
 *   LEAVE      LEFT             a rank leaves; answered when the poller has left its memory
 *   STATUS     TEXT, ...        JSON, in several messages
 *   STATS      TEXT, ...        JSON, in several messages
 *   STOP       STOPPED          the daemon ends; the connection closes when it has removed its
 *                               files
 *   any        ERROR            a negative errno and a sentence; the connection then closes, except
 *                               after a WIRES request whose links did not come up
 *
 * An ERROR with sequence number 0 answers no request: the daemon ends, or it disconnects this rank.
 *
 * The connection is the lease: when it closes, the daemon knows that the rank is gone, and the rank
 * knows that the daemon is. The daemon checks the user at the other end (SO_PEERCRED). A rank must
 * be the daemon's user; root may ask for status and stop the daemon.
 *
 * The header and ERROR never change, so that two versions can report that they differ. Every
 * received message passes hk_ctl_check(), which checks each field.
 *
 * Threads: no state here; a socket is used by one thread at a time.
 */
#ifndef HK_HOSTD_CONTROL_H
#define HK_HOSTD_CONTROL_H

#include "base/clock.h"
#include "hikyaku/error.h"
#include "hikyaku/protocol.h"

#include <sys/types.h>

#pragma GCC visibility push(default)

#define HK_CTL_MAGIC     UINT32_C(0x4c544b48) /* "HKTL" */
#define HK_CTL_VERSION   2
#define HK_CTL_MAX_SLOTS 64  /* ranks of one daemon */
#define HK_CTL_MAX_NODES 255 /* other nodes of one request */
#define HK_CTL_MAX_EAGER 64  /* queue pairs of a wire that hikyakud polls */
#define HK_CTL_DIR_LEN   128 /* of a directory, with the NUL */
#define HK_CTL_TEXT_MAX  4072

enum hk_ctl_type {
	HK_CTL_HELLO = 1,
	HK_CTL_WELCOME,
	HK_CTL_ERROR,
	HK_CTL_WIRES,
	HK_CTL_WIRES_READY,
	HK_CTL_READY,
	HK_CTL_PROXIED,
	HK_CTL_LEAVE,
	HK_CTL_LEFT,
	HK_CTL_STATUS,
	HK_CTL_STATS,
	HK_CTL_TEXT,
	HK_CTL_STOP,
	HK_CTL_STOPPED,
	HK_CTL_TYPES
};

struct hk_ctl_hdr {
	uint32_t magic;
	uint16_t version, type;
	uint32_t len; /* bytes of the whole message */
	uint32_t seq; /* number of the request, repeated in its answer; the first one is 1 */
};

struct hk_ctl_hello {
	struct hk_ctl_hdr hdr;
	uint32_t job_key;
	uint32_t endpoint;                /* of the rank, in its job */
	uint32_t local_rank, local_ranks; /* number of the rank among the job's on this node */
	uint32_t pid;                     /* must equal SO_PEERCRED's */
	uint32_t zero;
	char release[32]; /* Hikyaku's version; must equal the daemon's, since they share memory */
	char host[64];    /* host name */
};

enum hk_ctl_port { HK_CTL_PORT_WIRES = 1, HK_CTL_PORT_ONE };

/* The polling modes that use a daemon (docs/modes.md). */
enum hk_ctl_mode {
	HK_CTL_HYBRID = 1, /* each rank polls its own queue pairs */
	HK_CTL_DAEMON,     /* hikyakud's switch polls all ports; ranks have pipes (port/pipe.h) */
	HK_CTL_SPLIT,      /* both: pipes, and own queue pairs for bulk */
	HK_CTL_MODES
};

struct hk_ctl_welcome {
	struct hk_ctl_hdr hdr;
	uint64_t node_id; /* of this daemon: random at each start, never 0 */
	uint32_t slot, slots;
	uint32_t generation; /* number of the slot's owner; the first one is 1 */
	uint32_t lcore;      /* DPDK's logical core that only this slot uses */
	uint32_t frame_max;  /* bytes, Ethernet header included */
	uint8_t mac[6];
	uint8_t port_kind;  /* enum hk_ctl_port: one wire per other node, or one port */
	uint8_t poller;     /* 1: the daemon has a poller */
	uint16_t mode;      /* enum hk_ctl_mode */
	uint16_t eager;     /* number of eager queues of each wire */
	uint32_t link_mbps; /* rate of the port; 0: unknown, or wires */
	uint8_t classes;    /* 1: the port gives small frames a priority */
	uint8_t zero[3];
	char shared[64];                  /* DPDK's file prefix, which names the shared memory */
	char huge_dir[HK_CTL_DIR_LEN];    /* mount point of hugetlbfs; "": DPDK looks for it */
	char runtime_dir[HK_CTL_DIR_LEN]; /* directory of DPDK's files: hk_eal_runtime_dir() */
	char rx_pool[32], tx_pool[32];    /* names of this slot's mbuf pools */
	uint64_t memory, memory_len; /* address and bytes of the memory for this slot's worker */
	uint64_t pipes; /* address of this slot's pipes, one per wire; 0: the mode has none */
	char host[64];
};

struct hk_ctl_error {
	struct hk_ctl_hdr hdr;
	int32_t code; /* a negative errno */
	uint32_t zero;
	char text[512];
};

struct hk_ctl_node {
	uint64_t node_id;
	uint32_t slots, eager; /* slots and eager queues of that node's daemon */
};

struct hk_ctl_wires {
	struct hk_ctl_hdr hdr;
	uint32_t count;
	uint32_t timeout_ms; /* limit for all links together */
	struct hk_ctl_node node[HK_CTL_MAX_NODES];
};

struct hk_ctl_wire {
	uint64_t node_id;
	uint32_t queues;  /* queue pairs: the eager ones, then one for each pair of slots if
			   * ranks have their own */
	uint16_t port_id; /* DPDK's */
	uint16_t pipe;    /* index of the slot's pipe to this wire, if the mode has pipes */
};

struct hk_ctl_wires_ready {
	struct hk_ctl_hdr hdr;
	uint32_t count;
	uint32_t zero;
	struct hk_ctl_wire wire[HK_CTL_MAX_NODES];
};

struct hk_ctl_ready {
	struct hk_ctl_hdr hdr;
	uint64_t worker; /* address in the shared memory, equal in every process */
};

struct hk_ctl_plain { /* PROXIED, LEAVE, LEFT, STATUS, STATS, STOP, STOPPED */
	struct hk_ctl_hdr hdr;
};

struct hk_ctl_text {
	struct hk_ctl_hdr hdr;
	uint32_t bytes;
	uint32_t more; /* 1: another TEXT follows */
	char data[HK_CTL_TEXT_MAX];
};

_Static_assert(sizeof(struct hk_ctl_hdr) == 16, "the header never changes");
_Static_assert(sizeof(struct hk_ctl_hello) == 136, "part of the protocol");
_Static_assert(sizeof(struct hk_ctl_welcome) == 536, "part of the protocol");
_Static_assert(sizeof(struct hk_ctl_error) == 536, "ERROR never changes");
_Static_assert(sizeof(struct hk_ctl_node) == 16, "part of the protocol");
_Static_assert(sizeof(struct hk_ctl_wire) == 16, "part of the protocol");
_Static_assert(sizeof(struct hk_ctl_ready) == 24, "part of the protocol");
_Static_assert(sizeof(struct hk_ctl_text) == 4096, "part of the protocol");

union hk_ctl_msg {
	struct hk_ctl_hdr hdr;
	struct hk_ctl_hello hello;
	struct hk_ctl_welcome welcome;
	struct hk_ctl_error error;
	struct hk_ctl_wires wires;
	struct hk_ctl_wires_ready wires_ready;
	struct hk_ctl_ready ready;
	struct hk_ctl_plain plain;
	struct hk_ctl_text text;
};

/* ---- messages ------------------------------------------------------------------------------ */

/* Zeroes @m and fills its header. @count: entries of WIRES and WIRES_READY, else 0. */
void hk_ctl_init(union hk_ctl_msg *m, enum hk_ctl_type type, uint32_t seq, unsigned count);

/* Makes @m the ERROR that answers request @seq; @text is cut if it is too long. */
void hk_ctl_init_error(union hk_ctl_msg *m, uint32_t seq, int code, const char *text);

/* Checks every field of the @len received bytes and copies them to @m; the rest of @m is zero.
 * Returns the type; -EPROTONOSUPPORT if only the version differs, with the header in @m; -EPROTO
 * otherwise, with the name of the wrong field in @err. */
int hk_ctl_check(const void *bytes, size_t len, union hk_ctl_msg *m, struct hk_error *err);

const char *hk_ctl_type_name(unsigned type);

/* The name of a mode; the mode of a name, or 0 if no mode has that name. */
const char *hk_ctl_mode_name(enum hk_ctl_mode mode);
enum hk_ctl_mode hk_ctl_mode_by_name(const char *name);

/* True if ranks have pipes in this mode. */
static inline bool hk_ctl_mode_has_pipes(enum hk_ctl_mode mode)
{
	return mode != HK_CTL_HYBRID;
}

/* True if ranks have their own queue pairs in this mode. */
static inline bool hk_ctl_mode_has_queues(enum hk_ctl_mode mode)
{
	return mode != HK_CTL_DAEMON;
}

/* Copies @text to a field of @size bytes and pads it with zeroes. False, with an empty field, if
 * @text is too long or is not printable ASCII without quotes and backslashes. */
bool hk_ctl_set_text(char *field, size_t size, const char *text);

/* ---- sockets ------------------------------------------------------------------------------- */

/* All deadlines here are values of hk_clock_ms(). */

/* Creates and binds the socket @path, which must not exist, and listens. Returns the fd
 * (non-blocking, close-on-exec), which the caller closes, or a negative errno. */
int hk_ctl_listen(const char *path, struct hk_error *err);

/* Connects to @path until @deadline. Returns the fd (blocking, close-on-exec), which the caller
 * closes; -ENOENT or -ECONNREFUSED if no daemon listens; or another negative errno. */
int hk_ctl_connect(const char *path, int64_t deadline, struct hk_error *err);

/* Sends @m until @deadline. Returns 0; -EPIPE if the other end has closed; -ETIMEDOUT; or another
 * negative errno. */
int hk_ctl_send(int fd, const union hk_ctl_msg *m, int64_t deadline);

/* Receives and checks one message until @deadline. Returns its type; 0 at the end of the
 * connection; -ETIMEDOUT, with no text in @err; the error of hk_ctl_check(); or another negative
 * errno. It closes file descriptors that come with the message. */
int hk_ctl_recv(int fd, union hk_ctl_msg *m, int64_t deadline, struct hk_error *err);

/* The user and process at the other end. Returns 0 or a negative errno. */
int hk_ctl_peer(int fd, uid_t *uid, pid_t *pid);

#pragma GCC visibility pop

#endif
