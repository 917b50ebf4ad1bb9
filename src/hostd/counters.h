/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/counters.h: the one definition of each counter of hikyakud, and of what it shows of a rank
 * beside the rank's own counters (hikyaku/counters.h). The structs, the JSON of `hikyaku stats`,
 * the Prometheus metrics and the manual are made from these lists.
 *
 * An entry is X(name, help). Counters only grow; gauges are values of the moment.
 */
#ifndef HK_HOSTD_COUNTERS_H
#define HK_HOSTD_COUNTERS_H

#include "hikyaku/counters.h"

#define HK_COUNTER_ATOMIC(name, ...) _Atomic uint64_t name;

/* Of a rank's queues and pipes, whichever process polled them. */
#define HK_QUEUE_COUNTERS(X)                                                                       \
	X(rx_frames, "Frames received by the rank's queues or pipes")                              \
	X(tx_frames, "Frames sent by the rank's queues or pipes")                                  \
	X(tx_full, "Frames that had to wait because queue or pipe was full")

#define HK_RANK_GAUGES(X)                                                                          \
	X(rx_backlog_frames, "Frames in the receive backlog")                                      \
	X(unpolled_ns, "Nanoseconds since the rank polled")

struct hk_rank_levels {
	HK_QUEUE_COUNTERS(HK_COUNTER_FIELD)
	HK_RANK_GAUGES(HK_COUNTER_FIELD)
};

/* Of a slot, by the poller. A reader that keeps this order never finds more in `not_polling`. */
#define HK_SLOT_COUNTERS(X)                                                                        \
	X(not_polling, "Polls by the poller that found the rank not polling")                      \
	X(poller_polls, "Polls of the rank's queues by the poller")

/* Of the pipes between the switch and one rank. The rank can write what the gauges come from. */
#define HK_PIPE_COUNTERS(X)                                                                        \
	X(rx_dropped_full, "Frames for the rank dropped because its pipe was full")                \
	X(rx_dropped_quota, "Frames for the rank dropped because it exceeded its buffer quota")    \
	X(tx_full, "Frames of the rank that waited in the pipe because the port was full")

#define HK_PIPE_GAUGES(X)                                                                          \
	X(to_rank_frames, "Frames waiting in the pipes to the rank")                               \
	X(from_rank_frames, "Frames waiting in the pipes from the rank")

struct hk_pipe_levels {
	HK_PIPE_COUNTERS(HK_COUNTER_FIELD)
	HK_PIPE_GAUGES(HK_COUNTER_FIELD)
};

#define HK_SWITCH_COUNTERS(X)                                                                      \
	X(rx_frames, "Frames received by the switch")                                              \
	X(tx_frames, "Frames sent by the switch")                                                  \
	X(rx_steered, "Frames that arrived on the queue of the rank that they name")               \
	X(rx_missteered, "Frames that arrived on the queue of another rank")                       \
	X(rx_no_rank, "Frames for no rank of this node, dropped")                                  \
	X(tx_full, "Frames that waited in a pipe because the port was full")                       \
	X(rx_dropped, "Frames that a rank's pipe did not accept")                                  \
	X(sleeps, "Times that the switch slept")                                                   \
	X(wakeups_received, "Sleeps of the switch that a signal or a frame ended")                 \
	X(wakeups_sent, "Signals sent to the poller")

struct hk_switch_counters {
	HK_SWITCH_COUNTERS(HK_COUNTER_FIELD)
};

/* Of hikyakud's one port, or of a wire, by its driver. The third value is the field of struct
 * rte_eth_stats. */
#define HK_PORT_COUNTERS(X)                                                                        \
	X(rx_frames, "Frames received", ipackets)                                                  \
	X(tx_frames, "Frames sent", opackets)                                                      \
	X(rx_bytes, "Bytes received", ibytes)                                                      \
	X(tx_bytes, "Bytes sent", obytes)                                                          \
	X(rx_missed, "Frames lost because the receive ring was full", imissed)                     \
	X(rx_no_buffer, "Frames lost because no receive buffer was free", rx_nombuf)               \
	X(rx_errors, "Damaged frames received", ierrors)                                           \
	X(tx_errors, "Frames that could not be sent", oerrors)

struct hk_port_counters {
	HK_PORT_COUNTERS(HK_COUNTER_FIELD)
};

/* Of a port's steering (port/steer.h). */
#define HK_STEERING_GAUGES(X)                                                                      \
	X(queues, "Receive queues in use")                                                         \
	X(rules, "Ranks with a steering rule in the NIC")

#define HK_STEERING_COUNTERS(X) X(rules_refused, "Steering rules that the NIC refused")

/* By the poller, in the memory that it shares with hikyakud. */
#define HK_POLLER_COUNTERS(X)                                                                      \
	X(rounds, "Rounds over all slots")                                                         \
	X(sleeps, "Times that the poller slept until a signal")                                    \
	X(wakeups_received, "Sleeps of the poller that a signal ended")                            \
	X(wakeups_useless, "Wakeups of the poller after one without work")

/* By hikyakud, of its poller. */
#define HK_POLLER_LIFE_COUNTERS(X) X(starts, "Starts of a poller")

#define HK_DAEMON_COUNTERS(X) X(ranks_seen, "Ranks that attached")

#define HK_DAEMON_GAUGES(X) X(uptime_seconds, "Seconds since hikyakud started")

struct hk_daemon_gauges {
	HK_DAEMON_GAUGES(HK_COUNTER_FIELD)
};

/* Of the processes hikyakud and poller; not an integer, and null if it is unknown. */
#define HK_CPU_COUNTER(X) X(cpu_seconds, "Seconds of CPU time of the running process")

#endif
