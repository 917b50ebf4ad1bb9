/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/members.c: see members.h.
 */
#include "rtc/members.h"

#include <stdlib.h>

bool hk_members_init(struct hk_members *m, uint16_t self, uint16_t nodes, uint16_t epoch,
		     uint64_t alive_ns, uint64_t now)
{
	*m = (struct hk_members){.self = self,
				 .nodes = nodes,
				 .count = 1,
				 .alive = alive_ns,
				 .due = now,
				 .tick = now,
				 .cursor = nodes};
	m->epoch = calloc(nodes, sizeof(*m->epoch));
	m->left = calloc(nodes, sizeof(*m->left));
	m->last = calloc(nodes, sizeof(*m->last));
	m->heard = calloc(nodes, sizeof(*m->heard));
	if (!m->epoch || !m->left || !m->last || !m->heard) {
		hk_members_free(m);
		return false;
	}
	m->epoch[self] = epoch;
	return true;
}

void hk_members_free(struct hk_members *m)
{
	free(m->epoch);
	free(m->left);
	free(m->last);
	free(m->heard);
	m->epoch = m->left = m->last = NULL;
	m->heard = NULL;
}

enum hk_members_news hk_members_input(struct hk_members *m, uint16_t src, uint16_t epoch,
				      uint64_t now)
{
	uint16_t was = m->epoch[src];

	if (was == epoch) {
		m->heard[src] = now;
		return HK_MEMBERS_KNOWN;
	}
	bool fresh = was || (m->last[src] && now - m->heard[src] < HK_MEMBERS_SILENT * m->alive);
	if ((fresh && (int16_t)(epoch - m->last[src]) < 0) || (!was && m->left[src] == epoch))
		return HK_MEMBERS_STALE;
	m->epoch[src] = epoch;
	m->left[src] = 0;
	m->heard[src] = now;
	m->count += !was;
	bool back = m->last[src] == epoch;
	m->last[src] = epoch;
	return was ? HK_MEMBERS_ANEW : back ? HK_MEMBERS_BACK : HK_MEMBERS_JOINED;
}

static void remove_member(struct hk_members *m, uint16_t node)
{
	m->epoch[node] = 0;
	m->count--;
}

enum hk_members_news hk_members_leave(struct hk_members *m, uint16_t src, uint16_t epoch)
{
	if (m->epoch[src] != epoch) {
		/* one whom we had not met yet: what of it is still on the way must not make it join */
		if (m->epoch[src] == 0)
			m->left[src] = epoch;
		return HK_MEMBERS_STALE;
	}
	remove_member(m, src);
	m->left[src] = epoch;
	return HK_MEMBERS_LEFT;
}

/* We were away for so long beyond what is usual: nobody was silent meanwhile. */
static void was_away(struct hk_members *m, uint64_t gap, uint64_t now)
{
	for (unsigned i = 0; i < m->nodes; i++)
		m->heard[i] = HK_MIN(m->heard[i] + gap, now);
}

enum hk_members_task hk_members_poll(struct hk_members *m, uint64_t now, uint16_t *node)
{
	if (m->cursor >= m->nodes) { /* the last round of signs of life has ended */
		if (now < m->due)
			return HK_MEMBERS_NOTHING;
		if (now - m->tick > 2 * m->alive)
			was_away(m, now - m->tick - m->alive, now);
		m->tick = now;
		m->due = now + m->alive;
		m->cursor = 0;
	}
	while (m->cursor < m->nodes) {
		uint16_t i = (uint16_t)m->cursor;
		if (i == m->self) {
			m->cursor++;
			continue;
		}
		*node = i;
		if (m->epoch[i] && m->heard[i] + HK_MEMBERS_SILENT * m->alive < now) {
			remove_member(m, i);
			return HK_MEMBERS_LOST; /* and next, a sign of life to it all the same */
		}
		m->cursor++;
		return HK_MEMBERS_SEND;
	}
	return HK_MEMBERS_NOTHING;
}
