/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/control.h: what a rank, or the command line, and hikyakud say to each other.
 *
 * Little messages of fixed layout over a SOCK_SEQPACKET socket in the daemon's run directory
 * (host/rundir.h), so native byte order. One request at a time; each is answered, in order:
 *
 *   HELLO    → WELCOME        a rank asks for a slot, and gets it for as long as the connection lives
 *   WIRES    → WIRES_READY    wires to these other nodes, please; answered when their links are up
 *   READY    → SERVED         the fabric lies at this address: the poller may serve it from now
 *   GOODBYE  → BYE            it must not any more; answered when the poller has let go
 *   STATUS, STATS → TEXT …    JSON in several messages
 *   STOP     → STOPPED        the daemon ends; the connection closes when everything is removed
 *   anything → ERROR          a negative errno and a sentence; after HELLO the connection closes
 *
 * An ERROR with sequence number 0 answers nothing: the daemon cuts this rank off, or ends.
 *
 * The connection is the lease: when it closes, the rank is gone; when the daemon dies, ranks see it
 * close. The daemon looks at the peer's user (SO_PEERCRED): ranks must be of its own user; root may
 * ask for status and stop it.
 *
 * The header and ERROR never change, so that two versions can tell each other that they differ.
 * Whatever comes from the socket passes hk_ctl_check(), which looks at every field.
 *
 * Threads: no state here; a socket is for one thread at a time.
 */
#ifndef HK_HOST_CONTROL_H
#define HK_HOST_CONTROL_H

#include "base/common.h"
#include "base/error.h"

#include <sys/types.h>

#define HK_CTL_MAGIC     UINT32_C(0x4c544b48) /* "HKTL" */
#define HK_CTL_VERSION   1
#define HK_CTL_MAX_SLOTS 64  /* ranks of one daemon */
#define HK_CTL_MAX_NODES 255 /* other nodes of one request */
#define HK_CTL_MAX_EAGER 64  /* queue pairs of a wire that hikyakud polls */
#define HK_CTL_TEXT_MAX  4072

enum hk_ctl_type {
	HK_CTL_HELLO = 1,
	HK_CTL_WELCOME,
	HK_CTL_ERROR,
	HK_CTL_WIRES,
	HK_CTL_WIRES_READY,
	HK_CTL_READY,
	HK_CTL_SERVED,
	HK_CTL_GOODBYE,
	HK_CTL_BYE,
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
	uint32_t len; /* of the whole message */
	uint32_t seq; /* of the request, and again of its answer; requests count from 1 */
};

struct hk_ctl_hello {
	struct hk_ctl_hdr hdr;
	uint32_t job_key;
	uint32_t endpoint;                /* of the rank in its job */
	uint32_t local_rank, local_ranks; /* which of how many of this job on this node */
	uint32_t pid;                     /* compared with SO_PEERCRED's */
	uint32_t zero;
	char release[32]; /* of Hikyaku; memory is shared, so the daemon's must be the same */
	char host[64];    /* host name */
};

enum hk_ctl_port { HK_CTL_PORT_WIRES = 1, HK_CTL_PORT_ONE };

/* Who polls, as docs/host.md has it: the modes with a daemon. */
enum hk_ctl_mode {
	HK_CTL_HYBRID = 1, /* ranks poll queues of their own */
	HK_CTL_DAEMON,     /* hikyakud polls for all, and ranks have pipes (port/pipe.h) */
	HK_CTL_SPLIT,      /* … but bulk, for which ranks poll queues of their own */
	HK_CTL_MODES
};

struct hk_ctl_welcome {
	struct hk_ctl_hdr hdr;
	uint64_t node_id; /* of this daemon: random, never 0, another after each start */
	uint32_t slot, slots;
	uint32_t generation; /* of the slot; starts at 1 and grows with each owner */
	uint32_t lcore;      /* logical core of DPDK that is this slot's alone */
	uint32_t frame_max;  /* bytes, Ethernet header included */
	uint8_t mac[6];
	uint8_t port_kind;     /* enum hk_ctl_port: a wire for each other node, or one port */
	uint8_t poller;        /* 1: a poller serves absent ranks */
	uint16_t mode;         /* enum hk_ctl_mode */
	uint16_t eager;        /* queue pairs of each wire that hikyakud polls: the first */
	char shared[64];       /* name of the shared memory: DPDK's file prefix */
	char huge_dir[128];    /* where hugetlbfs is mounted; "": DPDK finds it */
	char runtime_dir[128]; /* where DPDK keeps its files: hk_eal_runtime_dir() */
	char rx_pool[32], tx_pool[32]; /* names of this slot's packet pools */
	uint64_t memory, memory_len;   /* of this slot, in the shared memory: for its fabric */
	uint64_t pipes; /* of this slot (host/switch.h), by wire; 0: the mode has none */
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
	uint32_t slots, eager; /* of that node's daemon */
};

struct hk_ctl_wires {
	struct hk_ctl_hdr hdr;
	uint32_t count;
	uint32_t timeout_ms; /* how long the links may take */
	struct hk_ctl_node node[HK_CTL_MAX_NODES];
};

struct hk_ctl_wire {
	uint64_t node_id;
	uint32_t queues;  /* pairs: those of hikyakud, then slots of the one node times slots of
			   * the other where ranks have their own */
	uint16_t port_id; /* DPDK's */
	uint16_t pipe;    /* which of the slot's pipes leads there, if it has some */
};

struct hk_ctl_wires_ready {
	struct hk_ctl_hdr hdr;
	uint32_t count;
	uint32_t zero;
	struct hk_ctl_wire wire[HK_CTL_MAX_NODES];
};

struct hk_ctl_ready {
	struct hk_ctl_hdr hdr;
	uint64_t fabric; /* address in the shared memory, the same in every process */
};

struct hk_ctl_plain { /* SERVED, GOODBYE, BYE, STATUS, STATS, STOP, STOPPED */
	struct hk_ctl_hdr hdr;
};

struct hk_ctl_text {
	struct hk_ctl_hdr hdr;
	uint32_t bytes;
	uint32_t more; /* 1: another one follows */
	char data[HK_CTL_TEXT_MAX];
};

_Static_assert(sizeof(struct hk_ctl_hdr) == 16, "the header never changes");
_Static_assert(sizeof(struct hk_ctl_hello) == 136, "part of the protocol");
_Static_assert(sizeof(struct hk_ctl_welcome) == 528, "part of the protocol");
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

/* Zeroes @m and fills its header; @count entries for WIRES and WIRES_READY, else 0. */
void hk_ctl_init(union hk_ctl_msg *m, enum hk_ctl_type type, uint32_t seq, unsigned count);

/* Makes @m the ERROR that answers request @seq. */
void hk_ctl_init_error(union hk_ctl_msg *m, uint32_t seq, int code, const char *text);

/* Copies the @len received bytes to @m (the rest is zero) after a look at every field. Returns the
 * type, -EPROTONOSUPPORT if only the version differs (the header is in @m), or -EPROTO; then the
 * sentence in @err names the field. */
int hk_ctl_check(const void *bytes, size_t len, union hk_ctl_msg *m, struct hk_error *err);

const char *hk_ctl_type_name(unsigned type);

/* A mode's name, and the mode of that name; 0: there is none. */
const char *hk_ctl_mode_name(enum hk_ctl_mode mode);
enum hk_ctl_mode hk_ctl_mode_of(const char *name);

/* Do ranks have pipes in this mode? */
static inline bool hk_ctl_mode_pipes(enum hk_ctl_mode mode)
{
	return mode != HK_CTL_HYBRID;
}

/* Do they have queues of their own? */
static inline bool hk_ctl_mode_queues(enum hk_ctl_mode mode)
{
	return mode != HK_CTL_DAEMON;
}

/* Copies @text to a field of @size bytes; false if it is too long or not printable ASCII without
 * quotes and backslashes, which is what the fields of messages may hold. */
bool hk_ctl_put_text(char *field, size_t size, const char *text);

/* ---- sockets ------------------------------------------------------------------------------- */

/* Milliseconds of CLOCK_MONOTONIC; deadlines are in its time. */
int64_t hk_ctl_now_ms(void);

/* Makes and binds the socket @path, which must not exist. Returns the fd (not blocking, close on
 * exec) or a negative errno. */
int hk_ctl_listen(const char *path, struct hk_error *err);

/* Connects to @path until @deadline. Returns the fd (blocking, close on exec); -ENOENT or
 * -ECONNREFUSED if no daemon listens; another negative errno. */
int hk_ctl_connect(const char *path, int64_t deadline, struct hk_error *err);

/* Sends @m until @deadline. 0, -EPIPE if the other end has gone, -ETIMEDOUT, another errno. */
int hk_ctl_send(int fd, const union hk_ctl_msg *m, int64_t deadline);

/* Receives and checks one message until @deadline. The type; 0 at the end of the connection;
 * -ETIMEDOUT (no sentence: the caller knows whom it waited for), what hk_ctl_check() says, another
 * errno. File descriptors that come along are closed. */
int hk_ctl_recv(int fd, union hk_ctl_msg *m, int64_t deadline, struct hk_error *err);

/* Who is at the other end. 0 or a negative errno. */
int hk_ctl_peer(int fd, uid_t *uid, pid_t *pid);

#endif
