/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/resources.h: all that the daemon and its poller need of ports, workers and DPDK: memory,
 * mbuf pools, wires.
 *
 * hostd/resources.c implements it. Tests have another implementation, without huge pages, to test
 * the daemon's life (tests/unit/hostd/fake_resources.c).
 *
 * Threads: the daemon's main thread, and the poller's one thread for the last part. No call waits
 * long: the daemon repeats those that take time (hk_res_wire_open, hk_res_wire_up).
 */
#ifndef HK_HOSTD_RESOURCES_H
#define HK_HOSTD_RESOURCES_H

#include "worker/private.h"
#include "base/common.h"
#include "hikyaku/error.h"
#include "hostd/control.h"
#include "hostd/counters.h"
#include "hikyaku/worker.h"
#include "hostd/watchdog.h"
#include "hostd/poller.h"
#include "hostd/rundir.h"

/* Eager queues of a wire by default. */
#define HK_EAGER_QUEUES 4

#define HK_LCORE_DAEMON     0
#define HK_LCORE_POLLER     1
#define HK_LCORE_SWITCH     (2 + HK_CTL_MAX_SLOTS)
#define HK_LCORE_SLOT(slot) (2 + (slot))

struct hk_res_config {
	const struct hk_rundir *rundir; /* for names, and for hk_rundir_note() */
	const char *port;               /* port spec */
	const char *huge_dir;           /* mount point of hugetlbfs; NULL: DPDK looks for it */
	uint32_t job_key;               /* 0: an administrator's daemon */
	uint64_t node_id;
	unsigned slots;
	unsigned rx_buffers, tx_buffers; /* of each slot */
	unsigned eager_queues;           /* of each wire; 0: HK_EAGER_QUEUES */
	enum hk_ctl_mode mode;
	unsigned slot_memory_mb; /* of each slot, for its worker */
	unsigned memory_mb;      /* huge pages; 0: as much as all that needs */
	struct hk_abort_log log;
};

/* The steering of a port, and why no better steering is possible (port/steer.h). */
#define HK_RES_BETTER 4
struct hk_res_steering {
	char driver[32];
	const char *method, *text; /* name for programs; name for people */
	HK_STEERING_GAUGES(HK_COUNTER_FIELD)
	HK_STEERING_COUNTERS(HK_COUNTER_FIELD)
	struct {
		const char *method, *text; /* NULL: end of the list */
		char why[120];
	} better[HK_RES_BETTER];
	char refusal[120]; /* the driver's answer to the last rule that it refused */
};

/* The description of the port in WELCOME. */
struct hk_res_info {
	enum hk_ctl_port port_kind;
	uint16_t frame_max; /* bytes, Ethernet header included */
	uint8_t mac[6];
	uint16_t eager;     /* eager queues of each wire */
	uint32_t link_mbps; /* 0: unknown, or wires */
	bool classes;       /* the port gives small frames a priority */
	char huge_dir[HK_CTL_DIR_LEN];
	char runtime_dir[HK_CTL_DIR_LEN];
};

/* A wire to the daemon of another node. */
struct hk_res_wire {
	uint64_t node_id;
	unsigned slots;   /* of that daemon */
	bool server;      /* this end listens */
	uint16_t port_id; /* DPDK's */
	uint16_t pipe;    /* index among the switch's wires */
	unsigned queues;  /* queue pairs */
	unsigned eager;   /* eager queues, which are the first of them */
	void *port;       /* NULL: not open */
	bool up;          /* its link has been up (hk_res_wire_up()) */
};

struct hk_res; /* one for each process */

/* ---- daemon --------------------------------------------------------------------------------- */

/* Starts DPDK as primary and creates the pools of all slots. The error names the cause (such as no
 * huge pages or no permission) and the fix. */
int hk_res_open(const struct hk_res_config *cfg, struct hk_res **res, struct hk_error *err);

/* Closes everything and removes its files. Ranks that still poll keep their mappings until they
 * end. */
void hk_res_close(struct hk_res *res);

const struct hk_res_info *hk_res_info(const struct hk_res *res);

void hk_res_pool_names(const struct hk_res *res, unsigned slot, char rx[32], char tx[32]);

/* The memory for the worker of @slot. Ranks do not allocate shared memory themselves: a rank that
 * is killed during that would leave the allocator locked. */
void hk_res_memory(const struct hk_res *res, unsigned slot, uint64_t *address, uint64_t *len);

/* Address of the slot's pipes; 0 if the mode has none. */
uint64_t hk_res_pipes(const struct hk_res *res, unsigned slot);

/* A rank gets @slot. hk_res_slot_reclaim() has removed what the owner before left. */
int hk_res_slot_assign(struct hk_res *res, unsigned slot, uint32_t generation, uint32_t job_key,
		       uint32_t endpoint, struct hk_error *err);

/* The MAC address of the rank in @slot. */
void hk_res_slot_mac(const struct hk_res *res, unsigned slot, uint8_t mac[6]);

/* True if the rank has written garbage into its pipes: then the daemon must cut it off. */
bool hk_res_slot_is_corrupt(const struct hk_res *res, unsigned slot);

/* Returns the buffers of @slot to its pools. The owner has left or died, and neither it nor the
 * poller accesses the slot any more. After an error the slot cannot be used again. */
int hk_res_slot_reclaim(struct hk_res *res, unsigned slot, uint32_t generation,
			struct hk_error *err);

/* Fills @w, whose node_id and slots are set, with what is known before it is opened. */
int hk_res_wire_plan(struct hk_res *res, struct hk_res_wire *w, struct hk_error *err);

/* Opens this end. Returns 0; -EAGAIN if the other end does not listen yet; or another negative
 * errno. */
int hk_res_wire_open(struct hk_res *res, struct hk_res_wire *w, struct hk_error *err);

/* True if the link of an open wire is up. Call it regularly for wires that are up, too: ranks read
 * the link state that it stores. */
bool hk_res_wire_up(struct hk_res *res, struct hk_res_wire *w);

/* Closes @w, which neither ranks nor the poller use any more. */
void hk_res_wire_close(struct hk_res *res, struct hk_res_wire *w);

/* The steering of the daemon's port, be it one port or a wire set. */
void hk_res_steering(const struct hk_res *res, struct hk_res_steering *out);

/* The capabilities (bits of CAP_*) that the port needs after it is open. */
uint64_t hk_res_capabilities(const struct hk_res *res);

/* The mode for the port @spec if the user asks for none: hybrid where ranks can poll its queues. */
enum hk_ctl_mode hk_res_default_mode(const char *spec);

/* Finds out the steering of the port @spec; opens the port for that if its abilities are not known
 * beforehand. Only for a process without other resources. -EINVAL: @spec does not name a port, or
 * one that hikyakud refuses. */
int hk_res_ask_port(const char *spec, struct hk_res_steering *out, struct hk_error *err);

/* ---- counters ------------------------------------------------------------------------------- */

/* The counters of a rank. The rank can write the memory that they come from, so they are only for
 * display. */
struct hk_res_rank {
	struct hk_engine_counters engine;
	struct hk_worker_counters worker;
	struct hk_rank_levels levels;
};

/* A rank that has not polled for this time counts as not polling: HK_WORKER_NOT_POLLING. */
#define HK_RES_NOT_POLLING_NS 50000

/* Copies the counters of the worker at @worker, an address that a rank has named, while the rank
 * may write there. -EFAULT: the worker is not entirely in the @len bytes at @memory
 * (hk_res_memory()). */
int hk_res_rank_counters(uint64_t memory, uint64_t len, uint64_t worker, struct hk_res_rank *n);

/* The counters of the daemon's one port. False if the port is a wire set. */
bool hk_res_port_counters(const struct hk_res *res, struct hk_port_counters *n);

/* The counters of an open wire; 0 if its driver does not report them. */
void hk_res_wire_counters(const struct hk_res_wire *w, struct hk_port_counters *n);

/* False if the mode has no switch. */
bool hk_res_switch_counters(const struct hk_res *res, struct hk_switch_counters *n);

/* The counters of all pipes of a rank together. False if the mode has no pipes. */
bool hk_res_pipe_levels(const struct hk_res *res, unsigned slot, struct hk_pipe_levels *n);

/* ---- poller --------------------------------------------------------------------------------- */

/* Joins the daemon's memory as DPDK secondary. @wakeup_fd becomes readable when somebody signals
 * the poller, here or at the other end of an attached port; the caller does not close it. */
int hk_res_join(const char *shared, const char *huge_dir, int *wakeup_fd, struct hk_error *err);

/* The calls of port/wakeup.h for the poller:
 *
 *   prepare_wait  asks for signals. Then poll once more, sleep at most HK_RES_SETTLE_NS, and poll
 *                 again; after that, sleep as long as you like
 *   waiting       true while signals are asked for
 *   requested     true if somebody requested a wakeup while the poller was awake
 *   finish_wait   ends asking; true if there was a signal or a request
 */
#define HK_RES_SETTLE_NS 50000
void hk_res_prepare_wait(void);
bool hk_res_waiting(void);
bool hk_res_requested(void);
bool hk_res_finish_wait(void);

/* Attaches the daemon's port @id, so that workers which use it can be polled. Waits at most a few
 * seconds. hk_res_detach() releases it. */
int hk_res_attach(uint16_t id, void **port, struct hk_error *err);
void hk_res_detach(void *port);

/* Leaves the daemon's memory, before the process ends. */
void hk_res_leave(void);

/* hk_worker_proxy_poll() on the worker at @worker: if its rank is not polling, it receives and
 * acknowledges frames and keeps them in the rx backlog. */
enum hk_proxied hk_res_proxy_poll(void *worker);

#endif
