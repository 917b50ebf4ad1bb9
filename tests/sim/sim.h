/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/sim/sim.h: engines on a simulated network in virtual time.
 *
 * DESIGN NOTES
 *
 * Problem: run many engines with every kind of fault, repeatably and fast.
 *
 * Approach: one heap of events, ordered by time and then by creation, drives everything. One seeded
 * generator makes all random decisions. So a run is a function of its configuration and seed, takes
 * no longer than its events, and repeats exactly.
 *
 *     node ---cable---> switch ---queue, cable---> rx ring ---> node polls
 *           serializes           serializes, may overflow  may overflow
 *
 * Between the two cables a frame may be lost, doubled, delayed behind later frames, or have bits
 * flipped. Each node does for its engine what src/worker does. It holds buffers by token and queues
 * messages while hk_engine_available() is 0. It rewrites headers for resends, and seals, places and
 * holds frames. A node may also not poll for a while ("compute"), hold delivered buffers, be cut
 * off, leave, or die and restart in a new incarnation.
 *
 * Invariants, which every run checks:
 *   - the content and the order of fragments of every message;
 *   - each message arrives exactly once, and each token is reaped once;
 *   - a peer is given up only for a reason;
 *   - the promises of the protocol: packets stay within the credit, whose edge never moves back;
 *     packet numbers have no gaps; resends equal the original. A monitor in sim_check.c, which does
 *     not know the engines, reads every frame for this.
 *
 *    sim_net.c    events, cables, faults
 *    sim_node.c   a node and its engine: start and end, received frames, polling
 *    sim_send.c   what a node sends
 *    sim_check.c  messages, delivery, the monitor
 */
#ifndef HK_SIM_SIM_H
#define HK_SIM_SIM_H

#include "engine/engine.h"
#include "tests/support/hk_test.h"

#define SIM_FRAME_MAX 2048
#define SIM_MIN_LEN   8 /* least bytes of a packet's payload, which identify it */

struct sim_config {
	unsigned nodes;
	struct hk_engine_config engine; /* endpoint and epoch are set for each node */
	uint64_t start;                 /* initial value of the clock, ns */
	uint64_t latency, jitter; /* one way, ns; jitter is a random addition up to its value */
	uint64_t path_delay;  /* ns; 0, or puts have a path of their own and other packets take so
			     much  longer */
	unsigned equal_paths; /* 0, or the number of equal paths that packets take in turn */
	uint32_t ps_per_byte; /* ps per byte of every cable, in each direction: 80 is 100 Gbit/s */
	uint32_t queue_bytes; /* bytes that the switch queues for each node; further frames are
				 dropped */
	uint32_t rx_ring;     /* frames that wait for a node to poll; further frames are dropped */
	uint32_t pool;     /* receive buffers of a node: frames in the ring, and those it holds; 0:
			      any number. Without a free one, frames are dropped */
	bool ordered;      /* nodes hand over messages in their order: the others wait in buffers */
	uint64_t poll_gap; /* time from an arrival to the node's poll, ns */
	unsigned poll_max; /* limit of outputs of one hk_engine_poll() */
	/* Faults, per million frames. */
	uint32_t loss, dup, reorder, corrupt;
	uint64_t reorder_delay; /* limit of the delay of a reordered or doubled frame, ns */
	/* The application. */
	uint32_t hold, compute; /* per million: deliveries that are held; wake-ups that compute */
	uint64_t hold_time, compute_time; /* limits, ns */
	bool lazy;           /* nodes learn about a peer by sending to it or by its frames */
	bool random_ids;     /* endpoint numbers and epochs are random */
	bool random_psn;     /* packet numbers start anywhere, often before the wrap */
	bool silent_allowed; /* SILENT and STUCK are allowed; messages between such a pair may be
				lost */
	bool verbose;
};

/* Sets a normal wire without faults. */
void sim_config_default(struct sim_config *c, unsigned nodes);

struct sim;

/* Decides about a frame from @from to @to; false loses it. For faults in single places. */
typedef bool (*sim_filter)(struct sim *s, unsigned from, unsigned to, const struct hk_frame *f,
			   void *ctx);

struct sim *sim_new(const struct sim_config *c, uint64_t seed);
void sim_free(struct sim *s);

/* A simulation with the seed of the test until the end of the block: a normal wire between @count
 * nodes. Further arguments change it; `c` is its configuration: SIM(s, 2, c.loss = 1000). */
#define SIM(s, count, ...)                                                                         \
	struct sim_config c;                                                                       \
	sim_config_default(&c, count);                                                             \
	(void)((void)0, ##__VA_ARGS__);                                                            \
	SIM_FREED struct sim *s = sim_new(&c, hk_test_now.seed)

#define SIM_FREED __attribute__((cleanup(sim_free_at)))
HK_TEST_UNUSED static void sim_free_at(struct sim **s)
{
	sim_free(*s);
}

struct hk_rng *sim_rng(struct sim *s);
uint64_t sim_now(const struct sim *s);
void sim_set_filter(struct sim *s, sim_filter f, void *ctx);

/* ---- what the application does ------------------------------------------------------------- */

/* Sends a message of @frags fragments with @len bytes of payload each, @after ns from now.
 * Returns its number. DATA: frags <= HK_WIRE_MAX_FRAGS; PUT: frags pieces, at most 64. */
unsigned sim_send(struct sim *s, unsigned from, unsigned to, uint8_t type, unsigned frags,
		  unsigned len, uint64_t after);

/* Runs @fn @after ns from now. */
void sim_at(struct sim *s, uint64_t after, void (*fn)(struct sim *, void *), void *ctx);

void sim_cut(struct sim *s, unsigned a, unsigned b, bool cut); /* in both directions */
void sim_compute(struct sim *s, unsigned node,
		 uint64_t ns);                              /* the node does not poll for so long */
void sim_hold_all(struct sim *s, unsigned node, bool hold); /* false: releases all */
void sim_restart(struct sim *s, unsigned node);
void sim_bye(struct sim *s, unsigned node);

/* Puts a frame into the rx ring of @node now. */
void sim_inject(struct sim *s, unsigned node, const void *frame, size_t len);

/* ---- running ------------------------------------------------------------------------------- */

/* Runs until every message is delivered, every token reaped and every packet acknowledged. Fails
 * when @limit has passed or no event is left, and reports which node waits for which. */
void sim_run_done(struct sim *s, uint64_t limit);

/* Runs for @ns of virtual time. */
void sim_run_for(struct sim *s, uint64_t ns);

/* Returns whether sim_run_done() would return at once. */
bool sim_done(const struct sim *s);

/* Returns whether nothing is left to do: no event waits, and every engine's deadline is "never". */
bool sim_quiet(const struct sim *s);

/* ---- looking ------------------------------------------------------------------------------- */

struct sim_stats {
	uint64_t frames, lost, doubled, reordered, corrupted, overflow_switch, overflow_ring, cut;
	uint64_t resends, controls;
	uint64_t delivered, delivered_bytes, reasons;
	uint64_t held_max; /* largest number of frames that one node held at once */
};

const struct sim_stats *sim_stats(const struct sim *s);
struct hk_engine *sim_engine(struct sim *s, unsigned node);
hk_peer sim_peer(struct sim *s, unsigned node, unsigned peer); /* HK_PEER_NONE if unknown */
uint32_t sim_endpoint(const struct sim *s, unsigned node);
uint32_t sim_epoch(const struct sim *s, unsigned node);
enum hk_disconnect_reason sim_reason(const struct sim *s, unsigned node,
				     unsigned peer); /* the latest disconnect reason */
uint64_t sim_reason_at(const struct sim *s, unsigned node, unsigned peer);
bool sim_delivered(const struct sim *s, unsigned msg);
uint64_t sim_delivered_at(const struct sim *s, unsigned msg); /* delivery time of its last part */
uint64_t sim_held(const struct sim *s, unsigned node);

#endif
