/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/resources.h: all that the daemon and its poller need of port and fabric, and nothing else of
 * DPDK: memory, packet pools, wires. host/resources.c is the real thing; tests have another
 * (tests/unit/host/fake_resources.c), so that the daemon's life is tested without huge pages.
 *
 * Threads: the daemon's main thread only. None of these calls waits long: what takes time
 * (hk_res_wire_open, hk_res_wire_up) is asked again.
 */
#ifndef HK_HOST_RESOURCES_H
#define HK_HOST_RESOURCES_H

#include "base/common.h"
#include "base/error.h"
#include "host/control.h"
#include "host/patience.h"
#include "host/poller.h"
#include "host/rundir.h"

/* Queue pairs of a wire, if nobody says how many, that the switch polls. */
#define HK_EAGER_QUEUES 4

#define HK_LCORE_DAEMON     0
#define HK_LCORE_POLLER     1
#define HK_LCORE_SWITCH     (2 + HK_CTL_MAX_SLOTS)
#define HK_LCORE_SLOT(slot) (2 + (slot))

struct hk_res_config {
	const struct hk_rundir *rundir; /* for the names, and for hk_rundir_note() */
	const char *port;               /* the spec */
	const char *huge_dir;           /* NULL: DPDK finds it */
	uint32_t job_key;               /* 0: an administrator's daemon */
	uint64_t node_id;
	unsigned slots, rx_buffers, tx_buffers; /* buffers: of each slot */
	unsigned eager_queues;                  /* of the switch on each wire; 0: HK_EAGER_QUEUES */
	enum hk_ctl_mode mode;    /* who polls: ranks, or the switch (switch.h), or each a part */
	unsigned slot_memory_mb;  /* of each slot: for its fabric */
	unsigned memory_mb;       /* 0: what all that needs */
	struct hk_last_words log; /* where it says why it aborts */
};

/* How the port tells its ranks apart, and why not better (port/steer.h). */
#define HK_RES_BETTER 4
struct hk_res_steering {
	char driver[32];
	const char *rung, *text; /* for programs, for people */
	unsigned queues, rules, refused;
	struct {
		const char *rung, *text; /* NULL: no more */
		char why[120];
	} better[HK_RES_BETTER];
	char refusal[120]; /* of the last rule that was refused */
};

/* What a rank is told (a part of WELCOME). */
struct hk_res_info {
	enum hk_ctl_port port_kind;
	uint16_t frame_max;
	uint8_t mac[6];
	uint16_t eager; /* queue pairs of each wire that are the switch's: the first */
	char huge_dir[128];
	char runtime_dir[128];
};

/* A wire to the daemon of another node. */
struct hk_res_wire {
	uint64_t node_id;
	unsigned slots;         /* of that daemon */
	bool server;            /* this end listens */
	uint16_t port_id, pipe; /* DPDK's, and the switch's */
	unsigned queues, eager; /* pairs, and how many of them are the switch's */
	void *port;             /* NULL: not open */
	bool up;                /* hk_res_wire_up()'s note: it has been */
};

struct hk_res; /* one a process */

/* ---- daemon --------------------------------------------------------------------------------- */

/* Starts DPDK as primary and makes the pools of all slots. The error names the cause (no huge
 * pages, no permission, …) and the fix. */
int hk_res_open(const struct hk_res_config *cfg, struct hk_res **res, struct hk_error *err);

/* Closes everything; nothing of it is left in the system. If ranks still poll, their memory stays
 * theirs until they end. */
void hk_res_close(struct hk_res *res);

const struct hk_res_info *hk_res_info(const struct hk_res *res);

void hk_res_pool_names(const struct hk_res *res, unsigned slot, char rx[32], char tx[32]);

/* The piece of the shared memory that is @slot's, for its fabric: no rank allocates there itself, since one
 * that is killed while it does would leave the allocator locked. */
void hk_res_memory(const struct hk_res *res, unsigned slot, uint64_t *address, uint64_t *len);

/* Address of the slot's pipes; 0 if there are none. */
uint64_t hk_res_pipes(const struct hk_res *res, unsigned slot);

/* A rank takes @slot: whatever its predecessor left there is gone already. */
int hk_res_slot_give(struct hk_res *res, unsigned slot, uint32_t generation, uint32_t job_key,
		     uint32_t endpoint, struct hk_error *err);

/* The MAC address at which the rank in @slot is reached. */
void hk_res_slot_mac(const struct hk_res *res, unsigned slot, uint8_t mac[6]);

/* Has the rank written garbage where it may write? Then it must be cut off. */
bool hk_res_slot_bad(const struct hk_res *res, unsigned slot);

/* The owner of @slot has left or died and neither it nor the poller touches it any more: its
 * buffers go back to its pools. An error means that the slot cannot be used again. */
int hk_res_slot_reclaim(struct hk_res *res, unsigned slot, uint32_t generation,
			struct hk_error *err);

/* Fills @w (node_id and slots are given) with what is known before it is opened. */
int hk_res_wire_plan(struct hk_res *res, struct hk_res_wire *w, struct hk_error *err);

/* Opens this end. 0; -EAGAIN if the other end does not listen yet; another negative errno. */
int hk_res_wire_open(struct hk_res *res, struct hk_res_wire *w, struct hk_error *err);

/* Is the link of an open wire up? To be asked now and then of those that are, too: ranks see what was
 * seen here. */
bool hk_res_wire_up(struct hk_res *res, struct hk_res_wire *w);

/* No rank may use it any more, nor the poller. */
void hk_res_wire_close(struct hk_res *res, struct hk_res_wire *w);

/* Of the daemon's port, whether one or a set of wires. */
void hk_res_steering(const struct hk_res *res, struct hk_res_steering *out);

/* In a process that is nothing else: opens the port @spec for a moment, if what it can is not known
 * beforehand, and asks it. -EINVAL: @spec names no port. */
int hk_res_ask_port(const char *spec, struct hk_res_steering *out, struct hk_error *err);

/* Appends the wire's counters as the members of a JSON object: `"rx_frames": 1, …`. */
void hk_res_wire_stats(struct hk_res *res, const struct hk_res_wire *w, FILE *out);

/* ---- counters: of the daemon's main thread too, and nothing waits -------------------------------- */

/* What a rank counts. It lies in memory that the rank writes: its word, good for display alone. */
struct hk_res_rank {
	uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes;
	uint64_t tx_acks, rx_acks, resends, duplicates;
	uint64_t loss_time, loss_rto; /* packets called lost by time, by the resend timer */
	uint64_t no_credit, no_cwnd, no_block; /* sends that had to wait, by reason */
	uint64_t refused, dead_peers;          /* packets for which there was no room; peers lost */
	uint64_t messages_sent, messages_delivered, queued, early;
	uint64_t tx_dropped, tx_bulk, no_buffer; /* frames the port did not take; packets by a
						  * queue for bulk; out of buffers */
	uint64_t async_polls, kept, kept_now;    /* by whoever took the rank's place */
	uint64_t rings;                          /* peers' pollers woken */
	/* at its own queues or pipes, whoever polled them; tx_full: frames for which there was no room just then */
	uint64_t rx_frames, tx_frames, tx_full;
	uint64_t puts, gets, gets_served, put_bytes, put_bytes_in;
	uint64_t unpolled_ns; /* since the rank looked at its ports last */
};

/* Unpolled for so long, a rank is away: HK_FABRIC_ABSENT. */
#define HK_RES_ABSENT_NS 50000

/* Copies what the fabric at @fabric counts, which a rank has named, if everything that is read lies in
 * the @len bytes at @memory (hk_res_memory()); whatever the rank writes there meanwhile. -EFAULT: not so. */
int hk_res_rank_counters(uint64_t memory, uint64_t len, uint64_t fabric, struct hk_res_rank *n);

/* What the driver of the daemon's one port counts. rx_missed: no room in the ring when they came; rx_no_buffer: the
 * pool was empty. */
struct hk_res_port {
	uint64_t rx_frames, rx_bytes, tx_frames, tx_bytes;
	uint64_t rx_missed, rx_no_buffer, rx_errors, tx_errors;
};

/* False where the port is a set of wires, which are counted one by one (hk_res_wire_stats()). */
bool hk_res_port_counters(const struct hk_res *res, struct hk_res_port *n);

/* What the switch counts (switch.h). */
struct hk_res_switch {
	uint64_t rx_frames, tx_frames, steered, misled, stray, tx_lost, rx_lost, sleeps, rung,
		rings;
};

/* False without a switch. */
bool hk_res_switch_counters(const struct hk_res *res, struct hk_res_switch *n);

/* A rank's pipes together: frames that wait just now (a rank can write there, too), and those that were dropped:
 * its pipe was full, its share of buffers exceeded, the port did not take what it sent. */
struct hk_res_pipe {
	uint64_t to_rank, from_rank;
	uint64_t rx_full, rx_share, tx_lost;
};

/* False without pipes. */
bool hk_res_pipe_levels(const struct hk_res *res, unsigned slot, struct hk_res_pipe *n);

/* ---- poller --------------------------------------------------------------------------------- */

/* Joins the memory of the daemon as DPDK secondary. @bell, a descriptor, is readable when somebody rings
 * for the poller: here, or at the other end of a port that is attached. */
int hk_res_join(const char *shared, const char *huge_dir, int *bell, struct hk_error *err);

/* port/bell.h's for the poller: it is to be rung for from now on (look once more, sleep for HK_RES_SETTLE_NS at the
 * most, look again, then sleep for as long as you like); still is; was
 * asked for while it was awake; is not to be rung for any more, and whether it was. */
#define HK_RES_SETTLE_NS 50000
void hk_res_lie_down(void);
bool hk_res_lies(void);
bool hk_res_asked(void);
bool hk_res_get_up(void);

/* Uses the daemon's port @id, so that fabrics which use it can be served; waits at most a few
 * seconds. hk_res_detach() gives it back. */
int hk_res_attach(uint16_t id, void **port, struct hk_error *err);
void hk_res_detach(void *port);

/* Leaves it, before the process ends. */
void hk_res_leave(void);

/* hk_fabric_serve() on the fabric at @fabric: takes in, acknowledges and keeps what came if its
 * owner is away. */
enum hk_served hk_res_serve(void *fabric);

#endif
