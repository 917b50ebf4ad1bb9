/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric/rails.c: several ports that reach one peer: which frame goes by which.
 *
 * All rails of a peer share its one window and row of packet numbers (engine.h: paths). So a message, a put or
 * the number of an exchange is whole when all its frames have come, by whatever rails, each counted once, and
 * nothing here knows of messages.
 *
 * Bulk goes frame by frame by the rail that has the fewest frames under way: equal rails get equal shares, and a
 * slow one as much as it drains. All else goes by the first. A frame that is lost is sent again by another
 * rail; a rail by which nothing is acknowledged any more, while others bring theirs, is set to rest, and
 * tried again now and then. One whose port takes nothing is passed over at once, and rests if that goes on: of
 * what never left, no loss would tell.
 */
#include "fabric/internal.h"

#include <errno.h>
#include <stdlib.h>

#define SILENT  (20 * HK_MSEC) /* a rail rests if it has brought nothing for so long … */
#define STRIKES 3              /* … and so many of its frames are lost … */
#define OTHERS  8              /* … while so many arrived by others */
#define REST    HK_SEC

static bool rests(const struct hk_rails *r, unsigned i)
{
	return r->rail[i].rest_until != 0;
}

static bool stuck(const struct hk_fabric *f, const struct hk_rails *r, unsigned i)
{
	return HK_UNLIKELY(hk_tx_stuck(f, r->rail[i].lane));
}

/* Tells the engine what can be sent again by which. */
static void tell_engine(struct hk_fabric *f, hk_peer p)
{
	const struct hk_rails *r = f->peer[p].rails;
	unsigned mask = 0;

	for (unsigned i = 0; i < r->count; i++)
		if (!rests(r, i))
			mask |= 1u << i;
	hk_engine_peer_paths(f->engine, p, (uint8_t)mask);
}

int hk_rails_set(struct hk_fabric *f, hk_peer p, const struct hk_peer_addr *a)
{
	struct hk_peer_tx *t = &f->peer[p];

	hk_rails_drop(f, p);
	if (a->more == 0)
		return 0;
	struct hk_rails *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->count = a->more + 1u;
	r->rail[0].lane = a->port;
	memcpy(r->rail[0].eth, t->eth, sizeof(t->eth));
	for (unsigned i = 1; i < r->count; i++) {
		const struct hk_rail_addr *at = &a->rail[i - 1];

		r->rail[i].lane = at->port;
		hk_wire_put_eth(r->rail[i].eth, at->mac, f->lane[at->port]->port->info.mac);
	}
	r->wake_at = UINT64_MAX;
	t->rails = r;
	f->railed = true;
	tell_engine(f, p);
	return 0;
}

unsigned hk_fabric_peer_rails(const struct hk_fabric *f, hk_peer p)
{
	return f->peer[p].rails ? f->peer[p].rails->count : 1;
}

void hk_rails_drop(struct hk_fabric *f, hk_peer p)
{
	if (HK_LIKELY(!f->peer[p].rails))
		return;
	free(f->peer[p].rails);
	f->peer[p].rails = NULL;
	hk_engine_peer_paths(f->engine, p, 0);
}

/* Tries again what has rested. One more loss is enough then to send it back. */
static void wake(struct hk_fabric *f, hk_peer p, uint64_t now)
{
	struct hk_rails *r = f->peer[p].rails;
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < r->count; i++) {
		struct hk_rail *rail = &r->rail[i];

		if (!rests(r, i))
			continue;
		if (rail->rest_until <= now && stuck(f, r, i))
			rail->rest_until = now + REST;
		if (rail->rest_until > now) {
			next = HK_MIN(next, rail->rest_until);
			continue;
		}
		rail->rest_until = 0;
		rail->flying = 0;
		rail->strikes = STRIKES - 1;
		rail->silent_since = now - SILENT;
		rail->others = r->acked;
	}
	r->wake_at = next;
	tell_engine(f, p);
}

/* The rail brings nothing any more. The last one goes on: it is the engine's to say that the peer is silent. */
static void set_to_rest(struct hk_fabric *f, hk_peer p, unsigned i, uint64_t now)
{
	struct hk_rails *r = f->peer[p].rails;
	unsigned others = 0;

	for (unsigned k = 0; k < r->count; k++)
		others += k != i && !rests(r, k) && !stuck(f, r, k);
	if (others == 0)
		return;
	r->rail[i].rest_until = now + REST;
	r->wake_at = HK_MIN(r->wake_at, now + REST);
	f->n.rail[i].rests++;
	if (!r->rail[i].told)
		hk_list_add(f, HK_LIST_RAILS, p);
	tell_engine(f, p);
}

/* One that is stuck only if all are that do not rest: then what is to be sent waits. */
unsigned hk_rail_pick(struct hk_fabric *f, hk_peer p, bool bulk, uint64_t now)
{
	struct hk_rails *r = f->peer[p].rails;
	unsigned best = HK_RAILS_MAX, waits = 0;

	if (HK_UNLIKELY(now >= r->wake_at))
		wake(f, p, now);
	for (unsigned k = 0; k < r->count; k++) {
		unsigned i = bulk ? (r->next + k) % r->count : k;

		if (rests(r, i))
			continue;
		if (stuck(f, r, i)) {
			waits = i;
			if (f->lane[r->rail[i].lane]->stuck_for >= SILENT)
				set_to_rest(f, p, i, now);
			continue;
		}
		if (!bulk)
			return i;
		if (best == HK_RAILS_MAX || r->rail[i].flying < r->rail[best].flying)
			best = i;
	}
	return HK_LIKELY(best != HK_RAILS_MAX) ? best : waits;
}

void hk_rail_sent(struct hk_fabric *f, struct hk_rails *r, unsigned i, size_t bytes)
{
	r->rail[i].flying++;
	r->next = (i + 1) % r->count;
	f->n.rail[i].frames++;
	f->n.rail[i].bytes += bytes;
}

void hk_rail_acked(struct hk_fabric *f, const struct hk_buf_note *note)
{
	struct hk_rails *r = f->peer[note->peer].rails;

	if (!r || note->path >= r->count)
		return; /* sent before it was added anew */
	struct hk_rail *rail = &r->rail[note->path];

	rail->flying -= rail->flying > 0;
	r->acked++;
	if (note->again)
		return; /* the rail before may have brought it, merely late */
	rail->silent_since = 0;
	rail->strikes = 0;
}

void hk_rail_lost(struct hk_fabric *f, hk_peer p, struct hk_buf_note *note, unsigned path)
{
	struct hk_rails *r = f->peer[p].rails;
	unsigned was = note->path;
	uint64_t now = hk_now(f);

	note->path = (uint8_t)path;
	note->again |= path != was;
	if (was >= r->count || path >= r->count)
		return;
	struct hk_rail *rail = &r->rail[was];

	rail->flying -= rail->flying > 0;
	r->rail[path].flying++;
	f->n.rail[was].lost++;
	if (!rail->silent_since) {
		rail->silent_since = now;
		rail->others = r->acked;
	}
	if (++rail->strikes >= STRIKES && now - rail->silent_since >= SILENT &&
	    r->acked - rail->others >= OTHERS && !rests(r, was))
		set_to_rest(f, p, was, now);
}

const struct hk_rail *hk_rail_answer(const struct hk_fabric *f, const struct hk_peer_tx *t)
{
	const struct hk_rails *r = t->rails;
	const struct hk_rail *first = NULL, *waits = NULL;

	for (unsigned i = 0; i < r->count; i++) {
		if (rests(r, i))
			continue;
		if (stuck(f, r, i)) {
			waits = &r->rail[i];
			continue;
		}
		if (r->rail[i].lane == t->answer)
			return &r->rail[i];
		if (!first)
			first = &r->rail[i];
	}
	return first ? first : waits;
}

/* Says which rails of @p rest that were not said before. */
static void tell_of(struct hk_fabric *f, hk_peer p)
{
	struct hk_rails *r = f->peer[p].rails;

	for (unsigned i = 0; r && i < r->count; i++) {
		char text[512];

		if (!rests(r, i) || r->rail[i].told)
			continue;
		r->rail[i].told = true;
		snprintf(text, sizeof(text),
			 "port %u (%s) brings nothing to %s any more, and its other ports carry "
			 "all; "
			 "fix: look at its link and cable",
			 i, f->lane[r->rail[i].lane]->port->info.spec, hk_fabric_peer_name(f, p));
		if (f->cfg.rail_down)
			f->cfg.rail_down(f->cfg.lost_arg, p, text);
	}
}

void hk_rails_tell(struct hk_fabric *f)
{
	for (hk_peer p; (p = hk_list_pop(f, HK_LIST_RAILS)) != HK_PEER_NONE;)
		tell_of(f, p);
}
