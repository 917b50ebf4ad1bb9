/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/gossip_take.c: what comes in: checked, then merged (learn/gossip.h).
 */
#include "learn/gossip_peer.h"

#include <math.h>
#include <string.h>

/* Trained with less than half of our rows, and at least this many epochs of ours behind. */
#define STALE_EPOCHS 4

static bool far_behind(const struct hk_gossip *g, uint64_t mine, uint64_t yours)
{
	return yours < mine / 2 && mine - yours > STALE_EPOCHS * (uint64_t)g->data.rows;
}

/* Of the neighbours heard of, are most too far from us? */
static bool most_far(const struct hk_gossip *g)
{
	unsigned heard = 0, far = 0;

	for (unsigned i = 0; i < g->nodes; i++) {
		if (!g->peer[i] || !g->peer[i]->heard)
			continue;
		heard++;
		far += g->peer[i]->far;
	}
	return 2 * far > heard;
}

static double length(const double *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i] * v[i];
	return sqrt(sum);
}

static void merge_one(struct hk_gossip *g, struct hk_gossip_slice *s, const struct hk_slice_hdr *h)
{
	double share = g->set->merge == HK_LEARN_AGE ? hk_merge_age_share(s->age, h->age) : 0.5;

	hk_merge_weighted(g->train.w + s->first, g->values, share, s->count);
	g->stats.merged++;
}

static void copy(struct hk_gossip *g, struct hk_gossip_slice *s, const double *from)
{
	memcpy(g->train.w + s->first, from, s->count * sizeof(double));
	/* what carried us on from elsewhere says nothing here */
	if (g->train.speed)
		memset(g->train.speed + s->first, 0, s->count * sizeof(double));
	g->stats.copied++;
}

static void note(struct hk_gossip *g, struct hk_gossip_slice *s, const double *values)
{
	memcpy(g->heard + s->first, values, s->count * sizeof(double));
	s->heard = true;
}

static bool same_model(const struct hk_gossip *g, const struct hk_slice_hdr *h, unsigned i)
{
	return h->fingerprint == g->fingerprint && h->merge == g->set->merge &&
	       h->slices == g->slices && h->slice == i && i < g->slices &&
	       h->count == g->slice[i].count;
}

static enum hk_learn_reason judge(struct hk_gossip *g, struct hk_gossip_peer *p,
				  const struct hk_slice_hdr *h, const double *values)
{
	struct hk_gossip_slice *s = &g->slice[h->slice];
	const double *own = g->train.w + s->first;
	double distance;

	if (!hk_guard_finite(values, s->count))
		return HK_LEARN_R_NOT_FINITE;
	if (far_behind(g, s->age, h->age))
		return HK_LEARN_R_STALE;
	distance = hk_guard_distance(own, values, s->count);
	bool near = hk_guard_near(&s->guard, g->set->norm_limit, distance, length(own, s->count),
				  s->count, most_far(g));
	p->heard = true;
	p->far = !near;
	if (!near)
		return HK_LEARN_R_FAR;
	p->off[h->slice] = distance;
	note(g, s, values);
	return HK_LEARN_TAKEN;
}

/* ---- push-sum ------------------------------------------------------------------------------------ */

static enum hk_learn_reason take_push(struct hk_gossip *g, struct hk_gossip_peer *p,
				      const struct hk_slice_hdr *h)
{
	struct hk_gossip_slice *s = &g->slice[h->slice];
	struct hk_push *seen = &p->taken[h->slice];
	double *own = g->train.w + s->first;

	/* the sums are finite if and only if what they bring is: checked first, since NaN is no news */
	if (!isfinite(h->weight) || !hk_guard_finite(g->values, s->count))
		return HK_LEARN_R_NOT_FINITE;
	double news = hk_push_news(seen, h->weight, g->values, g->news, s->count);
	if (news <= 0)
		return HK_LEARN_TAKEN; /* nothing given since */
	enum hk_learn_reason why = judge(g, p, h, g->news);
	if (why != HK_LEARN_TAKEN)
		return why;
	if (far_behind(g, h->age, s->age))
		copy(g, s, g->news);
	hk_push_take(own, &s->weight, g->news, news, seen, h->weight, g->values, s->count);
	s->age = HK_MAX(s->age, h->age);
	g->stats.merged++;
	return HK_LEARN_TAKEN;
}

/* ---- all merges ---------------------------------------------------------------------------------- */

static enum hk_learn_reason take(struct hk_gossip *g, struct hk_gossip_peer *p,
				 const struct hk_slice_hdr *h)
{
	struct hk_gossip_slice *s = &g->slice[h->slice];
	enum hk_learn_reason why;

	if (g->set->merge == HK_LEARN_PUSH_SUM)
		return take_push(g, p, h);
	why = judge(g, p, h, g->values);
	if (why != HK_LEARN_TAKEN)
		return why;
	if (g->set->merge == HK_LEARN_TRIMMED) {
		memcpy(p->latest + s->first, g->values, s->count * sizeof(double));
		p->age[h->slice] = h->age;
		p->fresh[h->slice] = true;
		return HK_LEARN_TAKEN;
	}
	if (far_behind(g, h->age, s->age))
		copy(g, s, g->values);
	else
		merge_one(g, s, h);
	s->age = HK_MAX(s->age, h->age);
	return HK_LEARN_TAKEN;
}

static enum hk_learn_reason take_parameters(struct hk_gossip *g, uint16_t src, uint8_t type,
					    const void *data, size_t len)
{
	struct hk_gossip_peer *p;
	struct hk_slice_hdr h;
	const void *values;

	if (!hk_slice_parse(data, len, &h, &values))
		return HK_LEARN_R_BYTES;
	if (!same_model(g, &h, (unsigned)type - HK_LEARN_T_SLICE))
		return HK_LEARN_R_MODEL;
	p = hk_gossip_peer(g, src);
	if (!p)
		return HK_LEARN_R_BYTES;
	if (!hk_gossip_peer_run(g, p, h.run))
		return HK_LEARN_R_OLD;
	if (g->set->merge == HK_LEARN_PUSH_SUM && h.to_run != g->run) {
		/* It must learn who we are, once a round is enough. */
		if (p->greeted != g->round + 1) {
			p->greeted = g->round + 1;
			hk_gossip_send_status(g, src, 0);
		}
		return HK_LEARN_R_RUN;
	}
	if (h.number <= p->number[h.slice])
		return HK_LEARN_R_OLD;
	p->number[h.slice] = h.number;
	memcpy(g->values, values, h.count * sizeof(double));
	return take(g, p, &h);
}

/* What the trimmed mean waits for: parameters of three neighbours, or of all if there are fewer. */
#define ENOUGH 3

/* Of the ages of what is merged the middle one counts: an age is a claim like any other. */
static uint64_t middle_age(const struct hk_gossip *g, unsigned i, unsigned n)
{
	double *age = g->sorted;
	unsigned at = 0;

	for (unsigned o = 0; o < g->nodes; o++) {
		const struct hk_gossip_peer *p = g->peer[o];
		if (!p || !p->fresh[i])
			continue;
		double x = (double)p->age[i];
		unsigned j = at++;
		for (; j > 0 && age[j - 1] > x; j--)
			age[j] = age[j - 1];
		age[j] = x;
	}
	return (uint64_t)age[(n - 1) / 2];
}

static void merge_slice(struct hk_gossip *g, unsigned i, unsigned enough)
{
	struct hk_gossip_slice *s = &g->slice[i];
	uint64_t age;
	unsigned n = 0;

	for (unsigned o = 0; o < g->nodes; o++) {
		const struct hk_gossip_peer *p = g->peer[o];
		if (!p || !p->fresh[i])
			continue;
		g->several[n++] = p->latest + s->first;
	}
	if (n == 0 || n < enough)
		return;
	g->stats.merged += n;
	age = middle_age(g, i, n);
	if (far_behind(g, age, s->age)) {
		/* Most are far ahead: ours would only be one of the extremes. One of them takes its place. */
		copy(g, s, g->several[--n]);
	}
	hk_merge_trimmed(g->train.w + s->first, g->several, n, g->set->trim, g->sorted, s->count);
	for (unsigned o = 0; o < g->nodes; o++) {
		struct hk_gossip_peer *p = g->peer[o];
		if (p)
			p->fresh[i] = false;
	}
	s->age = HK_MAX(s->age, age);
}

void hk_gossip_merge_several(struct hk_gossip *g)
{
	const uint16_t *list;
	unsigned enough;

	if (g->set->merge != HK_LEARN_TRIMMED)
		return;
	enough = HK_MIN(g->net.neighbours(g->net.arg, &list), ENOUGH);
	for (unsigned i = 0; i < g->slices; i++)
		merge_slice(g, i, enough);
}

static enum hk_learn_reason take_status(struct hk_gossip *g, uint16_t src, const void *data,
					size_t len)
{
	struct hk_gossip_peer *p;
	struct hk_status_hdr h;
	const void *entries;

	if (!hk_status_parse(data, len, &h, &entries))
		return HK_LEARN_R_BYTES;
	if (h.fingerprint != g->fingerprint)
		return HK_LEARN_R_MODEL;
	p = hk_gossip_peer(g, src);
	if (!p)
		return HK_LEARN_R_BYTES;
	if (!hk_gossip_peer_run(g, p, h.run))
		return HK_LEARN_R_OLD;
	hk_agree_read(&g->agree, &h, entries);
	hk_gossip_follow(g);
	if (h.flags & HK_STATUS_F_HELLO)
		hk_gossip_send_status(g, src, 0);
	return HK_LEARN_TAKEN;
}

enum hk_learn_reason hk_gossip_message(struct hk_gossip *g, uint16_t src, uint8_t type,
				       const void *data, size_t len)
{
	enum hk_learn_reason why;

	g->stats.bytes_heard += len;
	if (type == HK_LEARN_T_STATUS) {
		g->stats.statuses_heard++;
		why = take_status(g, src, data, len);
	} else {
		g->stats.slices_heard++;
		why = take_parameters(g, src, type, data, len);
	}
	if (why != HK_LEARN_TAKEN)
		g->stats.refused[why]++;
	return why;
}
