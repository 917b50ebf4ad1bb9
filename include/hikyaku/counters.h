/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/counters.h: the one definition of each counter of a worker. The structs, the statistics
 * of hikyakud, the MPI_T variables, the Prometheus metrics and the manual are made from these
 * lists.
 *
 * An entry is X(name, help): the name of the field, and one sentence without a full stop.
 */
#ifndef HIKYAKU_COUNTERS_H
#define HIKYAKU_COUNTERS_H

#include <stdint.h>

/* Counted by the engine: packets of all peers. */
#define HK_ENGINE_COUNTERS(X)                                                                      \
	X(tx_packets, "Packets sent for the first time")                                           \
	X(tx_bytes, "Bytes of extension headers and payload in packets sent for the first time")   \
	X(tx_acks, "Frames sent that only acknowledge")                                            \
	X(tx_probes, "Frames sent that ask a silent peer to answer")                               \
	X(tx_resends, "Packets sent again")                                                        \
	X(rx_packets, "Packets that arrived for the first time")                                   \
	X(rx_bytes, "Bytes of extension headers and payload in packets that arrived first")        \
	X(rx_acks, "Frames that arrived and only acknowledge")                                     \
	X(rx_duplicates, "Packets that arrived again")                                             \
	X(loss_time, "Packets declared lost by time (RACK, RFC 8985)")                             \
	X(loss_rto, "Packets declared lost by the retransmission timer")                           \
	X(no_credit, "Sends that waited for the receiver's credit")                                \
	X(no_cwnd, "Sends that waited for the congestion window")                                  \
	X(no_block, "Sends that waited for memory for a peer's window")                            \
	X(no_grant, "Sends of bulk that waited for a grant of the receiver")                       \
	X(grants_unused, "Grants to peers that did not use them in time")                          \
	X(refused, "Packets dropped because no memory was left to store them")                     \
	X(drop_ethertype, "Frames of other protocols, dropped")                                    \
	X(drop_short, "Frames shorter than their headers say, dropped")                            \
	X(drop_version, "Frames of another version of the wire format, dropped")                   \
	X(drop_protection, "Frames without the protection that this job demands, dropped")         \
	X(drop_type, "Frames of an unknown type, dropped")                                         \
	X(drop_field, "Frames with a header field out of range, dropped")                          \
	X(drop_crc, "Frames with a wrong or missing checksum, dropped")                            \
	X(drop_key, "Frames of other jobs, dropped")                                               \
	X(drop_endpoint, "Frames for another endpoint, dropped")                                   \
	X(drop_epoch, "Frames of or to another incarnation, dropped")                              \
	X(drop_window, "Packets with a number outside of the window, dropped")                     \
	X(drop_replay, "Acknowledgements that are not newer than those before, dropped")           \
	X(drop_peers, "Frames of new peers dropped because the peer table is full")                \
	X(drop_fragment, "Fragments that contradict their message, dropped")                       \
	X(resets, "Frames sent that tell a peer its epoch is wrong")                               \
	X(dead_peers, "Peers that were given up")

/* Counted by the worker. */
#define HK_WORKER_COUNTERS(X)                                                                      \
	X(messages_sent, "Messages sent")                                                          \
	X(messages_delivered, "Messages delivered to a handler")                                   \
	X(queued, "Messages and puts that waited in the send queue")                               \
	X(bundled, "Messages that joined another one in its frame while it waited")                \
	X(reordered, "Messages that arrived before an earlier one and waited for it")              \
	X(unknown_am, "Messages without a handler, dropped")                                       \
	X(bad_bundles, "Bundles with a record that breaks a rule; the rest is dropped")            \
	X(drop_seal, "Frames with a wrong tag, or of a sender without a key, dropped")             \
	X(rx_too_long, "Frames in more than one buffer, dropped")                                  \
	X(tx_dropped, "Frames that the port did not accept")                                       \
	X(tx_bulk, "Packets sent by a queue for bulk")                                             \
	X(no_buffer, "Times that no frame buffer was free")                                        \
	X(proxy_polls, "Polls by the progress proxy")                                              \
	X(proxy_backlogged, "Messages that the progress proxy stored")                             \
	X(wakeups_sent, "Signals sent to the poller of a silent peer")                             \
	X(puts, "Puts to peers")                                                                   \
	X(gets, "Gets from peers")                                                                 \
	X(gets_served, "Gets of peers that were answered")                                         \
	X(put_bytes, "Bytes put to peers, resends not counted")                                    \
	X(put_bytes_in, "Bytes that peers put here")                                               \
	X(put_refused, "Frames of puts that failed a check of their region")                       \
	X(get_refused, "Get requests that failed a check of their region")                         \
	X(get_excess, "Get requests above a peer's limit of 64, dropped")                          \
	X(atomics, "Atomic operations, fences and short puts on peers")                            \
	X(atomics_served, "Atomic operations of peers that were carried out")                      \
	X(atomic_refused, "Atomic operations that failed a check of their region")                 \
	X(atomic_excess, "Atomic operations above a peer's limit of 64, dropped")                  \
	X(mcasts, "Multicast frames sent")                                                         \
	X(mcasts_in, "Multicast frames that arrived for a listener")                               \
	X(mcast_no_listener, "Multicast frames without a listener, dropped")

/* Counted for each port, where peers are reached by several paths. */
#define HK_PATH_COUNTERS(X)                                                                        \
	X(frames, "Frames sent for the first time")                                                \
	X(bytes, "Bytes of payload in frames sent for the first time")                             \
	X(lost, "Frames that another path retransmitted")                                          \
	X(pauses, "Times that the path was paused")

#define HK_COUNTER_FIELD(name, ...) uint64_t name;

struct hk_engine_counters {
	HK_ENGINE_COUNTERS(HK_COUNTER_FIELD)
};

struct hk_path_counters {
	HK_PATH_COUNTERS(HK_COUNTER_FIELD)
};

#endif
