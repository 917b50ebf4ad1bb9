/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/daemon.h: the inside of hikyakud, and which file does what.
 *
 *   hikyakud.c        main: options, background, user, readiness
 *   daemon_loop.c     start and end in order; the epoll loop; when to end
 *   daemon_conn.c     connections: who may, and what each message does
 *   daemon_slots.c    the slot table: who owns which, and how it comes back
 *   daemon_wires.c    wires to other nodes' daemons
 *   daemon_poller.c   the poller: started, watched, started again
 *   daemon_status.c   JSON for the command line
 *   daemon_janitor.c  a child that cleans up if this process is killed
 *   options.c, rundir.c, control.c, poller.c, resources.c, rank_counters.c, rank_stats.c, switch*.c,
 *   pace.c, prompt.c
 *
 * One thread. What is true lies in this process's own memory; ranks and poller are not believed.
 */
#ifndef HK_HOST_DAEMON_H
#define HK_HOST_DAEMON_H

#include "host/control.h"
#include "host/options.h"
#include "host/resources.h"
#include "host/rundir.h"
#include "host/shared.h"

#include <sys/types.h>

#define HK_MAX_CONNS         (2 * HK_CTL_MAX_SLOTS + 16)
#define HK_MAX_WIRES         HK_CTL_MAX_NODES
#define HK_HELLO_MS          5000  /* a connection that says nothing for so long is closed */
#define HK_WIRE_PERIOD_MS    5     /* how often a wire that is not up yet is looked at */
#define HK_WIRE_LOOK_MS      500   /* how often one that is up is */
#define HK_LET_GO_PERIOD_MS  1     /* how often it is asked whether the poller has let go */
#define HK_POLLER_PERIOD_MS  250   /* how often it is asked whether the poller moves */
#define HK_POLLER_STALL_CPU  1000  /* ms of CPU in one round: it is stuck */
#define HK_POLLER_STALL_MS   10000 /* ms without a round: it hangs */
#define HK_POLLER_START_MS   10000
#define HK_POLLER_MAX_DEATHS 5    /* in a row, without a slot to blame: given up */
#define HK_END_MS            2000 /* for the poller to end when told */

struct hk_conn {
	int fd; /* -1: free */
	uid_t uid;
	pid_t pid;
	int slot; /* -1: none */
	bool spoke;
	int64_t since;
	/* a WIRES request that waits for links */
	uint32_t wires_seq; /* 0: none */
	int64_t wires_deadline;
	unsigned wires;
	uint64_t wire[HK_CTL_MAX_NODES];
	/* a GOODBYE that waits for the poller */
	uint32_t bye_seq;
};

enum hk_slot_state {
	HK_SLOT_FREE,
	HK_SLOT_HELD,    /* a rank has it */
	HK_SLOT_SERVED,  /* … and its fabric is served when it is away */
	HK_SLOT_LEAVING, /* … has said goodbye; the poller is letting go */
	HK_SLOT_LEFT,    /* … and has been told so */
	HK_SLOT_GONE,    /* connection closed; until process and poller are off its memory */
};

struct hk_slot {
	enum hk_slot_state state;
	uint32_t generation;
	int conn; /* -1: none */
	pid_t pid;
	int pidfd;
	bool orderly;    /* said goodbye: its process may live on */
	bool dead;       /* its process has ended */
	bool letting_go; /* the poller may still be in its memory */
	bool broken;     /* could not be reclaimed: not given away again */
	bool stopped;    /* its process is stopped, and nobody answers for it */
	uint32_t job_key, endpoint, local_rank;
	uint64_t fabric;
	int64_t since;
};

enum hk_wire_state { HK_WIRE_NONE, HK_WIRE_CLOSED, HK_WIRE_OPEN, HK_WIRE_UP, HK_WIRE_CLOSING };

struct hk_wire {
	enum hk_wire_state state;
	struct hk_res_wire w;
	uint64_t users; /* a bit for each slot whose owner asked for it */
};

struct hk_poller {
	pid_t pid; /* 0: not running */
	int pidfd, channel;
	bool ready, failed;
	unsigned starts, deaths; /* deaths: in a row */
	int64_t since;
	/* does it move? */
	uint64_t rounds;
	int64_t moved_at, next_look;
	uint64_t moved_cpu_ms;
	char said[512];
};

struct hk_daemon {
	struct hk_options o;
	struct hk_rundir rd;
	struct hk_res *res;
	char host[64];
	uint64_t node_id;
	int lock_fd, listen_fd, epoll_fd, signal_fd;
	FILE *log;
	size_t log_bytes;
	int64_t started;
	struct hk_conn conn[HK_MAX_CONNS];
	struct hk_slot slot[HK_CTL_MAX_SLOTS];
	struct hk_wire wire[HK_MAX_WIRES];
	int64_t wires_look;
	struct hk_poller poller;
	bool realtime;            /* poller and switch have such a priority; else */
	struct hk_error ordinary; /* … why not */
	struct hk_host_shared *shared;
	int shared_fd;
	int janitor_fd;
	pid_t janitor;
	/* a job's daemon ends with it */
	unsigned ranks_seen, ranks_expected;
	int64_t empty_since;
	bool stop;
	char why[128]; /* it stops: for the log and the ranks */
};

/* What an epoll event belongs to. */
enum hk_event { HK_EV_LISTEN, HK_EV_SIGNAL, HK_EV_CONN, HK_EV_OWNER, HK_EV_POLLER, HK_EV_CHANNEL };

/* ---- daemon_loop.c */
int hk_daemon_open(struct hk_daemon *d, struct hk_error *err);
void hk_daemon_run(struct hk_daemon *d);
void hk_daemon_close(struct hk_daemon *d);
void hk_daemon_stop(struct hk_daemon *d, const char *why);
int hk_daemon_watch(struct hk_daemon *d, int fd, enum hk_event what, unsigned index);
__attribute__((format(printf, 2, 3))) void hk_daemon_log(struct hk_daemon *d, const char *fmt, ...);

/* ---- daemon_conn.c */
void hk_conn_accept(struct hk_daemon *d);
void hk_conn_event(struct hk_daemon *d, unsigned c);
/* Sends without waiting; one that does not take its answers is closed. */
void hk_conn_send(struct hk_daemon *d, unsigned c, const union hk_ctl_msg *m);
void hk_conn_error(struct hk_daemon *d, unsigned c, uint32_t seq, int code, const char *text);
void hk_conn_close(struct hk_daemon *d, unsigned c);
void hk_conn_tick(struct hk_daemon *d, int64_t now);

/* ---- daemon_slots.c */
int hk_slot_take(struct hk_daemon *d, unsigned conn, const struct hk_ctl_hello *hello,
		 struct hk_error *err);
int hk_slot_serve(struct hk_daemon *d, unsigned slot, uint64_t fabric, struct hk_error *err);
void hk_slot_goodbye(struct hk_daemon *d, unsigned slot);
/* Its connection has closed. */
void hk_slot_lose(struct hk_daemon *d, unsigned slot);
/* Its process has ended. */
void hk_slot_owner_died(struct hk_daemon *d, unsigned slot);
/* The rank has to go: told why, then closed. */
/* Looks at the ranks' processes: to be called every HK_SLOT_LOOK_MS while there are any. */
#define HK_SLOT_LOOK_MS 500
void hk_slots_look(struct hk_daemon *d);

void hk_slot_cut(struct hk_daemon *d, unsigned slot, const char *why);
/* Looks whether the poller has let go of those that wait for it. */
void hk_slots_tick(struct hk_daemon *d);
bool hk_slots_wait(const struct hk_daemon *d);
unsigned hk_slots_used(const struct hk_daemon *d);
const char *hk_slot_state_name(enum hk_slot_state s);

/* ---- daemon_wires.c */
int hk_wires_want(struct hk_daemon *d, unsigned conn, const struct hk_ctl_wires *m,
		  struct hk_error *err);
void hk_wires_tick(struct hk_daemon *d, int64_t now);
bool hk_wires_wait(const struct hk_daemon *d);
void hk_wires_look(struct hk_daemon *d, int64_t now);
bool hk_wires_any(const struct hk_daemon *d);
void hk_wires_drop_user(struct hk_daemon *d, unsigned slot);
void hk_wires_close(struct hk_daemon *d);

/* ---- daemon_poller.c */
int hk_poller_start(struct hk_daemon *d, struct hk_error *err);
void hk_poller_wake(struct hk_daemon *d);
void hk_poller_channel(struct hk_daemon *d);
void hk_poller_event(struct hk_daemon *d);
void hk_poller_died(struct hk_daemon *d);
void hk_poller_tick(struct hk_daemon *d, int64_t now);
void hk_poller_end(struct hk_daemon *d);

/* ---- daemon_status.c: JSON text, to be freed; NULL without memory */
char *hk_daemon_status(struct hk_daemon *d, size_t *len);
char *hk_daemon_stats(struct hk_daemon *d, size_t *len);
/* A port and how it tells its ranks apart, as an object. */
void hk_daemon_steering(FILE *f, const char *spec, const struct hk_res_steering *s);

/* ---- daemon_janitor.c */
int hk_janitor_start(struct hk_daemon *d, struct hk_error *err);
void hk_janitor_dismiss(struct hk_daemon *d);

#endif
