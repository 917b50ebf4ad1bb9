/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/daemon.h: the inside of hikyakud.
 *
 *   hikyakud.c        main: options, background, user, readiness
 *   daemon_loop.c     start and end in order; the epoll loop; when to end
 *   daemon_conn.c     connections: access checks, and what each message does
 *   daemon_slots.c    the slot table: owners, and how a slot becomes free again
 *   daemon_wires.c    wires to other nodes' daemons
 *   daemon_poller.c   the poller process: start, supervision, restart
 *   daemon_stats.c    counters as JSON
 *   daemon_status.c   state as JSON
 *   daemon_janitor.c  the child that removes this process's files if it is killed
 *
 * Threads: one. The tables below are the truth, since they are in this process's own memory; the
 * daemon does not trust what ranks or the poller write.
 */
#ifndef HK_HOSTD_DAEMON_H
#define HK_HOSTD_DAEMON_H

#include "hostd/control.h"
#include "hostd/options.h"
#include "hostd/poller_shared.h"
#include "hostd/resources.h"
#include "hostd/rundir.h"

#include <sys/types.h>

#define HK_MAX_CONNS            (2 * HK_CTL_MAX_SLOTS + 16)
#define HK_MAX_WIRES            HK_CTL_MAX_NODES
#define HK_HELLO_MS             5000  /* limit until a connection sends its first message */
#define HK_WIRE_PERIOD_MS       5     /* between checks of a wire that is not up yet */
#define HK_WIRE_CHECK_MS        500   /* between checks of a wire that is up */
#define HK_SLOT_LEAVE_PERIOD_MS 1     /* between checks whether the poller has left a slot */
#define HK_POLLER_PERIOD_MS     250   /* between checks whether the poller makes progress */
#define HK_POLLER_STALL_CPU     1000  /* CPU time in ms of one round: the poller is stuck */
#define HK_POLLER_STALL_MS      10000 /* without a round: the poller hangs */
#define HK_POLLER_START_MS      10000 /* limit until the poller is ready */
#define HK_POLLER_MAX_DEATHS    5     /* in a row and without a slot to blame: no more restarts */
#define HK_END_MS               2000  /* limit until the poller ends after the request */

struct hk_conn {
	int fd; /* -1: free */
	uid_t uid;
	pid_t pid;
	int slot;             /* -1: none */
	bool has_sent;        /* the first message has arrived */
	int64_t connected_at; /* ms */
	/* a WIRES request whose links are not up yet */
	uint32_t wires_seq;                   /* its sequence number; 0: none */
	int64_t wires_deadline;               /* ms */
	unsigned wires;                       /* entries of wire_node */
	uint64_t wire_node[HK_CTL_MAX_NODES]; /* node ids of the requested wires */
	/* a LEAVE whose slot the poller has not left yet */
	uint32_t leave_seq; /* its sequence number; 0: none */
};

enum hk_slot_state {
	HK_SLOT_FREE,
	HK_SLOT_ATTACHED, /* a rank owns it */
	HK_SLOT_READY,    /* a rank owns it, and the poller may poll its worker */
	HK_SLOT_LEAVING,  /* LEAVE has come; the poller may still be in its memory */
	HK_SLOT_LEFT,     /* LEAVE is answered; the connection is open */
	HK_SLOT_GONE,     /* the connection is closed; the process or the poller may still be in its
			   * memory */
};

struct hk_slot {
	enum hk_slot_state state;
	uint32_t generation;
	int conn;           /* -1: none */
	pid_t pid;          /* the owner */
	int pidfd;          /* of the owner; -1: closed */
	bool left_in_order; /* it left in order: its process may live on */
	bool ended;         /* its process has ended */
	bool poller_inside; /* the poller may still be in its memory */
	bool unusable;      /* it could not be reclaimed: no rank gets it again */
	bool stopped;       /* its process is stopped, so the poller ignores it */
	uint32_t job_key, endpoint, local_rank;
	uint64_t worker;     /* address in the slot's memory; valid from READY on */
	int64_t attached_at; /* ms */
};

enum hk_wire_state { HK_WIRE_NONE, HK_WIRE_CLOSED, HK_WIRE_OPEN, HK_WIRE_UP, HK_WIRE_CLOSING };

struct hk_wire {
	enum hk_wire_state state;
	struct hk_res_wire link;
	uint64_t users; /* a bit for each slot whose owner asked for it */
};

struct hk_poller {
	pid_t pid;          /* 0: not running */
	int pidfd, channel; /* valid while it runs */
	bool ready;         /* it polls */
	bool failed;        /* it is not restarted any more */
	HK_POLLER_LIFE_COUNTERS(HK_COUNTER_FIELD)
	unsigned deaths;    /* in a row, without a slot to blame */
	int64_t started_at; /* ms */
	/* the last round that hk_poller_tick() saw */
	uint64_t rounds;
	int64_t progress_at, next_check; /* ms */
	uint64_t progress_cpu_ms;        /* CPU time at that moment */
	char message[512];               /* the last text on its channel */
};

struct hk_daemon {
	struct hk_options o;
	struct hk_rundir rd;
	struct hk_res *res;
	char host[64]; /* host name */
	uint64_t node_id;
	int lock_fd, listen_fd, epoll_fd, signal_fd;
	FILE *log;        /* NULL: closed */
	size_t log_bytes; /* written so far */
	int64_t started;  /* ms */
	struct hk_conn conn[HK_MAX_CONNS];
	struct hk_slot slot[HK_CTL_MAX_SLOTS];
	struct hk_wire wire[HK_MAX_WIRES];
	int64_t next_wire_check; /* ms */
	struct hk_poller poller;
	bool realtime; /* poller and switch have a real-time priority */
	struct hk_error why_not_realtime;
	struct hk_poller_shared *shared;
	int shared_fd;
	int janitor_fd; /* the write end of the janitor's pipe */
	pid_t janitor;  /* 0: not running */
	/* when a job's daemon ends */
	unsigned ranks_expected;
	HK_DAEMON_COUNTERS(HK_COUNTER_FIELD)
	int64_t empty_since; /* ms; the last time that a slot was in use */
	int starter_fd;      /* pidfd of the rank that started it; -1: none, or it has died */
	bool starter_died;
	bool stop; /* it ends */
	char stop_reason[128];
};

/* The source of an epoll event. */
enum hk_event {
	HK_EV_LISTEN,
	HK_EV_SIGNAL,
	HK_EV_CONN,
	HK_EV_OWNER,
	HK_EV_POLLER,
	HK_EV_CHANNEL,
	HK_EV_STARTER,
};

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
/* Sends without waiting, and closes a connection whose client does not read its answers. */
void hk_conn_send(struct hk_daemon *d, unsigned c, const union hk_ctl_msg *m);
void hk_conn_error(struct hk_daemon *d, unsigned c, uint32_t seq, int code, const char *text);
void hk_conn_close(struct hk_daemon *d, unsigned c);
/* Closes connections that have not sent anything for HK_HELLO_MS. */
void hk_conn_tick(struct hk_daemon *d, int64_t now);

/* ---- daemon_slots.c */
/* Gives a free slot to the rank that sent @hello. Returns its number or a negative errno. */
int hk_slot_attach(struct hk_daemon *d, unsigned conn, const struct hk_ctl_hello *hello,
		   struct hk_error *err);
/* The rank's worker is at @worker: lets the poller poll it. */
int hk_slot_ready(struct hk_daemon *d, unsigned slot, uint64_t worker, struct hk_error *err);
/* The rank has sent LEAVE. */
void hk_slot_leave(struct hk_daemon *d, unsigned slot);
/* The rank's connection has closed. */
void hk_slot_disconnected(struct hk_daemon *d, unsigned slot);
/* The rank's process may have ended. */
void hk_slot_owner_died(struct hk_daemon *d, unsigned slot);
/* Tells the rank why and closes its connection. */
void hk_slot_cut_off(struct hk_daemon *d, unsigned slot, const char *why);
/* Checks for stopped processes and corrupt pipes; call it every HK_SLOT_CHECK_MS while a slot is in
 * use. */
#define HK_SLOT_CHECK_MS 500
void hk_slots_check(struct hk_daemon *d);
/* Checks which slots the poller has left, and what follows from that. */
void hk_slots_tick(struct hk_daemon *d);
/* True if the poller has to leave a slot. */
bool hk_slots_pending(const struct hk_daemon *d);
unsigned hk_slots_used(const struct hk_daemon *d);
const char *hk_slot_state_name(enum hk_slot_state s);

/* ---- daemon_wires.c */
int hk_wires_request(struct hk_daemon *d, unsigned conn, const struct hk_ctl_wires *m,
		     struct hk_error *err);
/* Opens wires and answers the requests whose links are up. */
void hk_wires_tick(struct hk_daemon *d, int64_t now);
/* True if a request is not answered yet. */
bool hk_wires_pending(const struct hk_daemon *d);
/* Updates the link state of wires that are up. */
void hk_wires_check(struct hk_daemon *d, int64_t now);
/* True if a wire is up or closing. */
bool hk_wires_any(const struct hk_daemon *d);
void hk_wires_drop_user(struct hk_daemon *d, unsigned slot);
void hk_wires_close(struct hk_daemon *d);

/* ---- daemon_poller.c */
int hk_poller_start(struct hk_daemon *d, struct hk_error *err);
void hk_poller_wake(struct hk_daemon *d);
void hk_poller_receive(struct hk_daemon *d);
void hk_poller_event(struct hk_daemon *d);
void hk_poller_died(struct hk_daemon *d);
void hk_poller_tick(struct hk_daemon *d, int64_t now);
void hk_poller_end(struct hk_daemon *d);

/* ---- daemon_status.c, daemon_stats.c: JSON text that the caller frees; NULL: no memory */
char *hk_daemon_status(struct hk_daemon *d, size_t *len);
char *hk_daemon_stats(struct hk_daemon *d, size_t *len);
/* The member "poller", as both texts have it. */
void hk_daemon_poller(FILE *f, struct hk_daemon *d);
/* A port and its steering, as an object. */
void hk_daemon_steering(FILE *f, const char *spec, const struct hk_res_steering *s);

/* ---- daemon_janitor.c */
int hk_janitor_start(struct hk_daemon *d, struct hk_error *err);
void hk_janitor_stop(struct hk_daemon *d);

#endif
