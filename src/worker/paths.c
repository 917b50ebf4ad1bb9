/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker/paths.c: several ports that reach one peer: by which of them each frame goes.
 *
 * DESIGN NOTES
 *
 * Problem. Several ports shall carry one peer's traffic, and a failed one shall not be fatal.
 *
 * Approach. All paths of a peer share its window and its packet numbers (engine.h: paths). A
 * message, a put or an exchange is complete when all its frames have arrived, by whatever paths,
 * each counted once. So nothing here knows of messages.
 *
 * Bulk frames go one by one by the path with the fewest frames in flight. Equal paths get equal
 * shares, and a slow one gets as much as it drains. All other frames go by the first path. A lost
 * frame is retransmitted on another path.
 *
 * If the paths are of several kinds, they may lead over the same cable, and each is best at
 * something. Then bulk has one path of its own, and the others take over if it fails.
 *
 * Pausing. A path is paused if none of its frames is acknowledged while other paths deliver
 * theirs. After PAUSE it is tried again. A try costs the time until a loss is noticed. So while the
 * path delivers nothing, each pause is twice as long as the last one. A path whose port takes no
 * frames is skipped at once, and paused if that lasts. No loss would ever show for frames that
 * never left.
 *
 * Invariant. The last path is never paused: the engine decides whether the peer is silent.
 */
#include "worker/paths.h"

#include "worker/tx.h"

#include <errno.h>
#include <stdlib.h>

/* A path is paused after SILENT without an acknowledgement, at least LOSSES losses, and at least
 * OTHERS_ACKED frames that other paths delivered meanwhile. */
#define SILENT       (20 * HK_MSEC)
#define LOSSES       3
#define OTHERS_ACKED 8
#define PAUSE        HK_SEC
#define DOUBLINGS    6

static bool paused(const struct hk_tx_paths *r, unsigned i)
{
	return r->path[i].paused_until != 0;
}

static bool stuck(const struct hk_worker *w, const struct hk_tx_paths *r, unsigned i)
{
	return HK_UNLIKELY(hk_txq_stuck(w, r->path[i].txq));
}

/* Gives the engine the paths on which it may retransmit. */
static void update_engine(struct hk_worker *w, hk_peer p)
{
	const struct hk_tx_paths *r = w->peer[p].tx.paths;
	unsigned mask = 0;

	for (unsigned i = 0; i < r->count; i++)
		if (!paused(r, i))
			mask |= 1u << i;
	hk_engine_peer_paths(w->engine, p, (uint8_t)mask);
}

int hk_paths_set(struct hk_worker *w, hk_peer p, const struct hk_peer_addr *a)
{
	struct hk_worker_peer *peer = &w->peer[p];

	hk_paths_drop(w, p);
	if (a->more == 0)
		return 0;
	struct hk_tx_paths *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->count = a->more + 1u;
	r->path[0].txq = a->port;
	memcpy(r->path[0].eth, peer->tx.eth, sizeof(peer->tx.eth));
	for (unsigned i = 1; i < r->count; i++) {
		const struct hk_path_addr *at = &a->path[i - 1];

		r->path[i].txq = at->port;
		hk_wire_eth_encode(r->path[i].eth, at->mac, w->txq[at->port]->port->info.mac);
	}
	for (unsigned i = 0; i < r->count; i++)
		if (a->bulk && r->path[i].txq == a->bulk - 1u)
			r->bulk = i + 1;
	r->resume_at = UINT64_MAX;
	peer->tx.paths = r;
	w->has_paths = true;
	update_engine(w, p);
	return 0;
}

unsigned hk_worker_peer_paths(const struct hk_worker *w, hk_peer p)
{
	return w->peer[p].tx.paths ? w->peer[p].tx.paths->count : 1;
}

void hk_paths_drop(struct hk_worker *w, hk_peer p)
{
	if (HK_LIKELY(!w->peer[p].tx.paths))
		return;
	free(w->peer[p].tx.paths);
	w->peer[p].tx.paths = NULL;
	hk_engine_peer_paths(w->engine, p, 0);
}

/* Tries paused paths again. One more loss then pauses such a path again. */
static void resume(struct hk_worker *w, hk_peer p, uint64_t now)
{
	struct hk_tx_paths *r = w->peer[p].tx.paths;
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < r->count; i++) {
		struct hk_tx_path *path = &r->path[i];

		if (!paused(r, i))
			continue;
		if (path->paused_until <= now && stuck(w, r, i))
			path->paused_until = now + PAUSE;
		if (path->paused_until > now) {
			next = HK_MIN(next, path->paused_until);
			continue;
		}
		path->paused_until = 0;
		path->in_flight = 0;
		path->consecutive_losses = LOSSES - 1;
		path->silent_since = now - SILENT;
		path->others_acked = r->acked;
	}
	r->resume_at = next;
	update_engine(w, p);
}

static void pause_path(struct hk_worker *w, hk_peer p, unsigned i, uint64_t now)
{
	struct hk_tx_paths *r = w->peer[p].tx.paths;
	unsigned others = 0;

	for (unsigned k = 0; k < r->count; k++)
		others += k != i && !paused(r, k) && !stuck(w, r, k);
	if (others == 0)
		return;
	uint64_t until = now + (PAUSE << r->path[i].pauses_in_vain);

	r->path[i].paused_until = until;
	r->path[i].pauses_in_vain += r->path[i].pauses_in_vain < DOUBLINGS;
	r->resume_at = HK_MIN(r->resume_at, until);
	w->n.path[i].pauses++;
	if (!r->path[i].reported)
		hk_peer_list_add(w, HK_LIST_PATHS, p);
	update_engine(w, p);
}

unsigned hk_path_pick(struct hk_worker *w, hk_peer p, bool bulk, uint64_t now)
{
	struct hk_tx_paths *r = w->peer[p].tx.paths;
	unsigned start = !bulk ? 0 : r->bulk ? r->bulk - 1 : r->next;
	unsigned best = HK_PATHS_MAX, stuck_one = 0;

	if (HK_UNLIKELY(now >= r->resume_at))
		resume(w, p, now);
	for (unsigned k = 0; k < r->count; k++) {
		unsigned i = (start + k) % r->count;

		if (paused(r, i))
			continue;
		if (stuck(w, r, i)) {
			stuck_one = i;
			if (w->txq[r->path[i].txq]->stuck_for >= SILENT)
				pause_path(w, p, i, now);
			continue;
		}
		if (!bulk || r->bulk)
			return i;
		if (best == HK_PATHS_MAX || r->path[i].in_flight < r->path[best].in_flight)
			best = i;
	}
	return HK_LIKELY(best != HK_PATHS_MAX) ? best : stuck_one;
}

void hk_path_sent(struct hk_worker *w, struct hk_tx_paths *r, unsigned i, size_t bytes)
{
	r->path[i].in_flight++;
	r->next = (i + 1) % r->count;
	w->n.path[i].frames++;
	w->n.path[i].bytes += bytes;
}

void hk_path_acked(struct hk_worker *w, const struct hk_buf_note *note)
{
	struct hk_tx_paths *r = w->peer[note->peer].tx.paths;

	if (!r || note->path >= r->count)
		return; /* sent before the peer was added again */
	struct hk_tx_path *path = &r->path[note->path];

	path->in_flight -= path->in_flight > 0;
	r->acked++;
	if (note->by_several_paths)
		return; /* the path before may have delivered it late */
	path->silent_since = 0;
	path->consecutive_losses = path->pauses_in_vain = 0;
}

void hk_path_lost(struct hk_worker *w, hk_peer p, struct hk_buf_note *note, unsigned path)
{
	struct hk_tx_paths *r = w->peer[p].tx.paths;
	unsigned was = note->path;
	uint64_t now = hk_now(w);

	note->path = (uint8_t)path;
	note->by_several_paths |= path != was;
	if (was >= r->count || path >= r->count)
		return;
	struct hk_tx_path *before = &r->path[was];

	before->in_flight -= before->in_flight > 0;
	r->path[path].in_flight++;
	w->n.path[was].lost++;
	if (!before->silent_since) {
		before->silent_since = now;
		before->others_acked = r->acked;
	}
	if (++before->consecutive_losses >= LOSSES && now - before->silent_since >= SILENT &&
	    r->acked - before->others_acked >= OTHERS_ACKED && !paused(r, was))
		pause_path(w, p, was, now);
}

const struct hk_tx_path *hk_path_for_reply(const struct hk_worker *w, const struct hk_peer_tx *tx)
{
	const struct hk_tx_paths *r = tx->paths;
	const struct hk_tx_path *first = NULL, *stuck_one = NULL;

	for (unsigned i = 0; i < r->count; i++) {
		if (paused(r, i))
			continue;
		if (stuck(w, r, i)) {
			stuck_one = &r->path[i];
			continue;
		}
		if (r->path[i].txq == tx->reply_txq)
			return &r->path[i];
		if (!first)
			first = &r->path[i];
	}
	return first ? first : stuck_one;
}

/* Reports each path of @p that is paused for the first time. */
static void report(struct hk_worker *w, hk_peer p)
{
	struct hk_tx_paths *r = w->peer[p].tx.paths;

	for (unsigned i = 0; r && i < r->count; i++) {
		char text[512];

		if (!paused(r, i) || r->path[i].reported)
			continue;
		r->path[i].reported = true;
		snprintf(text, sizeof(text),
			 "port %u (%s) delivers nothing to %s any more, so other ports carry its "
			 "traffic; fix: check its link and cable",
			 i, w->txq[r->path[i].txq]->port->info.spec, hk_worker_peer_name(w, p));
		if (w->cfg.path_down)
			w->cfg.path_down(w->cfg.lost_arg, p, r->path[i].txq, text);
	}
}

void hk_paths_report(struct hk_worker *w)
{
	for (hk_peer p; (p = hk_peer_list_pop(w, HK_LIST_PATHS)) != HK_PEER_NONE;)
		report(w, p);
}
