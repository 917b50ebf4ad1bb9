/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/private.h: the worker's functions for hikyakud and Hikyaku's own plug-ins, beyond its
 * public contract (hikyaku/worker.h). They cover a worker in memory that the poller shares, and the
 * engine's state.
 */
#ifndef HK_WORKER_PRIVATE_H
#define HK_WORKER_PRIVATE_H

#include "base/common.h"
#include "engine/engine.h"
#include "hikyaku/rma.h"
#include "hikyaku/worker.h"

#pragma GCC visibility push(default)

/* The worker's engine: read only. */
const struct hk_engine *hk_worker_engine(const struct hk_worker *w);

/* The key that peers need of this worker, HK_KEY_LEN bytes; NULL: its frames have no keys. */
const uint8_t *hk_worker_public_key(const struct hk_worker *w);

/* A protection by its name: off, crc, auth or seal. -EINVAL: there is no such name. */
int hk_protection_by_name(const char *name, uint8_t *protection);
const char *hk_protection_name(uint8_t protection);

/* Has some peer been silent for @ns, although packets to it are not acknowledged? */
bool hk_worker_peer_silent(struct hk_worker *w, uint64_t ns);

/* Does something wait to be sent, and is all of it held back by receivers that are not polling? */
bool hk_worker_peers_not_polling(struct hk_worker *w);

/* The memory of @len bytes at @offset of our region @r, or NULL if @p may not access them by
 * @access. HK_PEER_NONE: as anybody, also ourselves. */
char *hk_worker_region_at(const struct hk_worker *w, hk_peer p, hk_region r, unsigned access,
			  uint64_t offset, uint64_t len);

/* ---- sleeping -------------------------------------------------------------------------------- */

/* A descriptor that is readable when frames have arrived at port @port; -1: it has none. */
int hk_worker_wait_fd(const struct hk_worker *w, unsigned port);

/* Keeps progress proxies out until hk_worker_release(), so that frames wake a sleeper. The caller
 * may still poll. As often as hk_worker_release(). */
void hk_worker_hold(struct hk_worker *w);
void hk_worker_release(struct hk_worker *w);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes of memory for a worker with @txqs ports or queues; 0 if @cfg is out of range. */
size_t hk_worker_size(const struct hk_worker_config *cfg, unsigned txqs);

/* Buffers of a transmit pool that hk_worker_alloc() does not give out. They are for acks, for a
 * port's queue, and for frames that a NIC has sent and not yet returned. */
#define HK_WORKER_TX_SLACK 2048u

/* Makes a pool of @tx_buffers frame buffers for frames of @frame_max bytes (hk_pool_create() in
 * port.h explains names and resets). */
int hk_worker_tx_pool(const char *name, unsigned tx_buffers, unsigned frame_max,
		      struct rte_mempool **pool, struct hk_error *err);

/* Bytes of memory that such a pool takes, at most. */
size_t hk_worker_tx_pool_bytes(unsigned tx_buffers, unsigned frame_max);

/* Gives the worker one queue pair of a port that stays the caller's and open until the worker is
 * closed. Both directions of @pair belong to this worker alone. Frames that wait in the queue are
 * discarded, because a killed predecessor may have read them partly. Returns as
 * hk_worker_add_port(); -EINVAL also for a port with fault injection or without such a pair. */
int hk_worker_add_queue(struct hk_worker *w, const struct hk_port *port, uint16_t pair,
			struct hk_error *err);

/* ---- the owner's side of a shared worker ----------------------------------------------------- */

/* Allows the poller to drive this worker, before the poller learns of it. -ENOSYS: the kernel lacks
 * membarrier(2). */
int hk_worker_share(struct hk_worker *w, struct hk_error *err);

/* Starts the RMA proxy, before the poller learns of the worker. The poller wakes that thread
 * when a one-sided operation needs this process's memory while its application does not poll. It
 * ends with the worker. */
int hk_worker_rma_proxy_start(struct hk_worker *w, struct hk_error *err);

/* Time without a poll after which a rank counts as not polling. A polling one polls far more often.
 */
#define HK_WORKER_NOT_POLLING (50 * HK_USEC)

/* Announces that the application's thread polls again at @then (of hk_worker_now()) at the latest,
 * so that no progress proxy steps in. For a thread that yields or sleeps while it waits. */
void hk_worker_next_poll_at(struct hk_worker *w, uint64_t then);

/* Other tasks need this core, and hk_worker_progress() has found nothing. Returns how many ns to
 * sleep (idle.h), or 0 for a yield, and announces the next poll. */
struct hk_idle;
uint64_t hk_worker_idle(struct hk_worker *w, struct hk_idle *idle);

/* Marks the worker as broken: its poller died inside it, or hikyakud cut it off. The next progress
 * calls `lost` with HK_PEER_NONE, HK_DISCONNECT_NONE and @text, which must outlive the worker. Any
 * thread. */
void hk_worker_break(struct hk_worker *w, const char *text);

/* ---- the poller's side ----------------------------------------------------------------------- */

enum hk_proxy_state {
	HK_PROXY_POLLING, /* the application polls: nothing to do */
	HK_PROXY_IDLE,    /* it does not poll, and nothing arrived */
	HK_PROXY_UNACKED, /* it does not poll, nothing arrived, but packets are in flight */
	HK_PROXY_BUSY,    /* it does not poll, and frames arrived */
};

/* Polls @w for its application if that has not polled for HK_WORKER_NOT_POLLING before @tsc. Takes
 * in, acknowledges and stores what arrived, and resends what is lost. The caller has attached
 * the worker's ports. @tsc is now, or the time since which another thread of ours may have kept
 * the application from its core. Never waits. */
enum hk_proxy_state hk_worker_proxy_poll(struct hk_worker *w, uint64_t tsc);

/* Prepares this process for hk_worker_proxy_poll(), once. -1: the kernel lacks membarrier(2). */
int hk_worker_proxy_init(void);

#pragma GCC visibility pop

#endif
