/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/members.c: see members.h.
 */
#include "rtc/members.h"

#include <stdlib.h>

bool hk_rtc_members_init(struct hk_rtc_members *m, uint16_t self, uint16_t nodes, uint16_t epoch,
			 uint64_t interval_ns, uint64_t now)
{
	*m = (struct hk_rtc_members){.self = self,
				     .nodes = nodes,
				     .count = 1,
				     .interval = interval_ns,
				     .due = now,
				     .tick = now,
				     .cursor = nodes};
	m->epoch = calloc(nodes, sizeof(*m->epoch));
	m->left_epoch = calloc(nodes, sizeof(*m->left_epoch));
	m->last_epoch = calloc(nodes, sizeof(*m->last_epoch));
	m->last_rx = calloc(nodes, sizeof(*m->last_rx));
	if (!m->epoch || !m->left_epoch || !m->last_epoch || !m->last_rx) {
		hk_rtc_members_free(m);
		return false;
	}
	m->epoch[self] = epoch;
	return true;
}

void hk_rtc_members_free(struct hk_rtc_members *m)
{
	free(m->epoch);
	free(m->left_epoch);
	free(m->last_epoch);
	free(m->last_rx);
	m->epoch = m->left_epoch = m->last_epoch = NULL;
	m->last_rx = NULL;
}

enum hk_rtc_members_event hk_rtc_members_input(struct hk_rtc_members *m, uint16_t src,
					       uint16_t epoch, uint64_t now)
{
	uint16_t was = m->epoch[src];

	if (was == epoch) {
		m->last_rx[src] = now;
		return HK_RTC_MEMBERS_KNOWN;
	}
	bool fresh = was || (m->last_epoch[src] &&
			     now - m->last_rx[src] < HK_RTC_MEMBERS_SILENT * m->interval);
	if ((fresh && (int16_t)(epoch - m->last_epoch[src]) < 0) ||
	    (!was && m->left_epoch[src] == epoch))
		return HK_RTC_MEMBERS_STALE;
	m->epoch[src] = epoch;
	m->left_epoch[src] = 0;
	m->last_rx[src] = now;
	m->count += !was;
	bool back = m->last_epoch[src] == epoch;
	m->last_epoch[src] = epoch;
	return was ? HK_RTC_MEMBERS_RESTARTED : back ? HK_RTC_MEMBERS_BACK : HK_RTC_MEMBERS_JOINED;
}

static void remove_member(struct hk_rtc_members *m, uint16_t node)
{
	m->epoch[node] = 0;
	m->count--;
}

enum hk_rtc_members_event hk_rtc_members_leave(struct hk_rtc_members *m, uint16_t src,
					       uint16_t epoch)
{
	if (m->epoch[src] != epoch) {
		/* it was not a member yet: its messages that are still on their way must not make
		 * it join */
		if (m->epoch[src] == 0)
			m->left_epoch[src] = epoch;
		return HK_RTC_MEMBERS_STALE;
	}
	remove_member(m, src);
	m->left_epoch[src] = epoch;
	return HK_RTC_MEMBERS_LEFT;
}

/* This node did not poll for @gap longer than usual. That time does not count as silence. */
static void skip_gap(struct hk_rtc_members *m, uint64_t gap, uint64_t now)
{
	for (unsigned i = 0; i < m->nodes; i++)
		m->last_rx[i] = HK_MIN(m->last_rx[i] + gap, now);
}

enum hk_rtc_members_task hk_rtc_members_poll(struct hk_rtc_members *m, uint64_t now, uint16_t *node)
{
	if (m->cursor >= m->nodes) { /* the last interval is done */
		if (now < m->due)
			return HK_RTC_MEMBERS_NOTHING;
		if (now - m->tick > 2 * m->interval)
			skip_gap(m, now - m->tick - m->interval, now);
		m->tick = now;
		m->due = now + m->interval;
		m->cursor = 0;
	}
	while (m->cursor < m->nodes) {
		uint16_t i = (uint16_t)m->cursor;
		if (i == m->self) {
			m->cursor++;
			continue;
		}
		*node = i;
		if (m->epoch[i] && m->last_rx[i] + HK_RTC_MEMBERS_SILENT * m->interval < now) {
			remove_member(m, i);
			/* the next call sends it an alive message all the same */
			return HK_RTC_MEMBERS_LOST;
		}
		m->cursor++;
		return HK_RTC_MEMBERS_SEND;
	}
	return HK_RTC_MEMBERS_NOTHING;
}
