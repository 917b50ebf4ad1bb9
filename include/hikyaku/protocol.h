/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hikyaku/protocol.h: peers, the reasons for which a peer is given up, and the parameters of the
 * protocol. docs/protocol.md explains the protocol.
 */
#ifndef HIKYAKU_PROTOCOL_H
#define HIKYAKU_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* A peer of a worker: an index that the worker gave. It stays that endpoint's for the life of the
 * worker; the next incarnation of the endpoint gets the same index. */
typedef uint32_t hk_peer;

#define HK_PEER_NONE UINT32_MAX

/* Paths to one peer, at most. */
#define HK_PATHS 8

enum hk_disconnect_reason {
	HK_DISCONNECT_NONE = 0,
	HK_DISCONNECT_SILENT,    /* no frame for `peer_timeout` although packets were in flight */
	HK_DISCONNECT_RESTARTED, /* a later incarnation of the endpoint answers */
	HK_DISCONNECT_LEFT,      /* the peer closed while packets to it were unacknowledged */
	HK_DISCONNECT_STUCK,     /* the peer answers, but one packet never arrives: check the MTU */
};

/* How frames are protected (docs/wire.md). */
enum hk_protection {
	HK_PROTECTION_OFF = 0,
	HK_PROTECTION_CRC = 1,  /* a checksum, against damage by the hardware on the way */
	HK_PROTECTION_AUTH = 2, /* authenticated: nobody without the key can make or change one */
	HK_PROTECTION_SEAL = 3, /* encrypted as well */
};

/* Times are nanoseconds. */
struct hk_engine_config {
	uint32_t key;          /* job key: frames of other jobs are dropped */
	uint32_t endpoint;     /* number of this worker, unique in the job */
	uint32_t epoch;        /* incarnation, not 0; later starts have later ones (RFC 1982) */
	uint32_t max_peers;    /* size of the peer table */
	uint32_t tx_blocks;    /* peers with packets in flight, at most HK_TX_BLOCKS_MAX */
	uint32_t rx_budget;    /* frames that the worker can hold, of all peers; 16 or more */
	uint16_t window;       /* packets in flight to a peer: a power of two, 8 to 256 */
	uint32_t window_bytes; /* bytes in flight to a peer; fits a core's cache */
	uint16_t resend_cap;   /* resends and probes in one poll, at most */
	uint16_t ack_every;    /* small packets between two acks; 4 KiB of payload count as one */
	uint8_t protection;    /* enum hk_protection of every frame; others are dropped */
	uint64_t ack_delay;    /* longest time for which an ack waits for a frame to ride on */
	uint64_t min_rto;      /* lower bound of the retransmission timeout */
	uint64_t max_rto;      /* upper bound of its back-off */
	uint64_t initial_rto;  /* the timeout before the first round-trip sample */
	uint64_t peer_timeout; /* silence after which a peer with packets in flight is given up */
	uint64_t keepalive;    /* silence after which a quiet peer is probed; 0: never */
	uint64_t target_delay; /* queueing delay at which the congestion window settles */
	/* Rate of our port if a network with switches is behind it, Mbit/s: bulk waits for grants
	 * of its receiver. 0: a wire with two ends. */
	uint32_t link_mbps;
	bool classes; /* small packets may overtake bulk on their way: it has a class of its own */
#define HK_TX_BLOCKS_MAX (1u << 20)
#define HK_LINK_MBPS_MAX 10000000u
};

/* Fills in the defaults of every field except key, endpoint and epoch. */
void hk_engine_config_default(struct hk_engine_config *cfg);

#pragma GCC visibility pop

#endif
