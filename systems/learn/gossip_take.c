/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * learn/gossip_take.c: checks and merges received messages (learn/gossip.h).
 */
#include "learn/gossip_peer.h"

#include <math.h>
#include <string.h>

/* Stale parameters have less than half of our rows behind them, and are this many of our epochs
 * behind. */
#define STALE_EPOCHS 4

static bool far_behind(const struct hk_learn_gossip *g, uint64_t mine, uint64_t yours)
{
	return yours < mine / 2 && mine - yours > STALE_EPOCHS * (uint64_t)g->data.rows;
}

/* Returns the age by which the slices of @p are stale: ours, or the highest of other neighbours if
 * that is lower. If we trained several times as fast as all others, they would only be slow. To
 * refuse all of them would be to train alone, on our own rows. */
static uint64_t usual_age(const struct hk_learn_gossip *g, const struct hk_learn_gossip_peer *p,
			  unsigned i)
{
	uint64_t others = 0;

	for (unsigned o = 0; o < g->nodes; o++)
		if (g->peer[o] && g->peer[o] != p)
			others = HK_MAX(others, g->peer[o]->claim[i]);
	return others ? HK_MIN(others, g->slice[i].age) : g->slice[i].age;
}

/* Returns whether slice @i of @p, with @age rows behind it, is stale. */
static bool stale(const struct hk_learn_gossip *g, const struct hk_learn_gossip_peer *p, unsigned i,
		  uint64_t age)
{
	return far_behind(g, g->slice[i].age, age) && far_behind(g, usual_age(g, p, i), age);
}

/* Returns whether most of the live neighbours are too far from us. One that has sent nothing is
 * not: a faulty node may be the first that sends. */
static bool most_far(const struct hk_learn_gossip *g)
{
	const uint16_t *list;
	unsigned live = g->net.neighbours(g->net.arg, &list), far = 0;

	for (unsigned i = 0; i < live; i++)
		far += g->peer[list[i]] && g->peer[list[i]]->far;
	return 2 * far > live;
}

static double length(const double *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i] * v[i];
	return sqrt(sum);
}

static void merge_one(struct hk_learn_gossip *g, struct hk_learn_gossip_slice *s,
		      const struct hk_learn_slice_hdr *h)
{
	double share = g->set->merge == HK_LEARN_AGE ? hk_learn_merge_age_share(s->age, h->age)
						     : 0.5;

	hk_learn_merge_weighted(g->train.w + s->first, g->values, share, s->count);
	g->stats.merged++;
}

static void note_copy(struct hk_learn_gossip *g, struct hk_learn_gossip_slice *s)
{
	/* the momentum belongs to the old parameters */
	if (g->train.velocity)
		memset(g->train.velocity + s->first, 0, s->count * sizeof(double));
	s->copied_at = g->round;
	g->stats.copied++;
}

static void copy(struct hk_learn_gossip *g, struct hk_learn_gossip_slice *s, const double *from)
{
	memcpy(g->train.w + s->first, from, s->count * sizeof(double));
	note_copy(g, s);
}

static double median(double *v, size_t n)
{
	hk_learn_sort(v, n);
	return v[(n - 1) / 2];
}

/* Returns the median distance of the other nodes' last slices @i from ours. Stale slices do not
 * count: they are far as well, so beside one of them a faulty node would seem usual. NaN: fewer
 * than two have been heard, or not more than half as many as there are live neighbours. So nobody
 * can tell who is right, and a faulty node may be the only one that is heard. Where messages go one
 * way, those who send are not our neighbours, but as many. */
static double usual_distance(const struct hk_learn_gossip *g, unsigned i)
{
	const uint16_t *list;
	unsigned live = HK_MIN(g->net.neighbours(g->net.arg, &list), g->neighbours), n = 0;

	for (unsigned o = 0; o < g->nodes; o++) {
		const struct hk_learn_gossip_peer *p = g->peer[o];
		if (p && !isnan(p->heard[i]) && !stale(g, p, i, p->claim[i]) &&
		    g->net.alive(g->net.arg, (uint16_t)o))
			g->sorted[n++] = p->heard[i];
	}
	if (n < 2 || 2 * n <= live)
		return NAN;
	return median(g->sorted, n);
}

static void record(struct hk_learn_gossip *g, struct hk_learn_gossip_slice *s, const double *values)
{
	memcpy(g->received + s->first, values, s->count * sizeof(double));
	s->received = true;
}

static bool same_model(const struct hk_learn_gossip *g, const struct hk_learn_slice_hdr *h,
		       unsigned i)
{
	return h->fingerprint == g->fingerprint && h->merge == g->set->merge &&
	       h->slices == g->slices && h->slice == i && i < g->slices &&
	       h->count == g->slice[i].count;
}

/* The reason to refuse a slice that is too far. The age of a late one explains its distance, so the
 * sender must not count as one that lies. */
static enum hk_learn_reason too_far(bool late)
{
	return late ? HK_LEARN_R_STALE : HK_LEARN_R_FAR;
}

/* Decides on a slice by the distances of all neighbours. */
static enum hk_learn_reason compare(struct hk_learn_gossip *g, struct hk_learn_gossip_peer *p,
				    unsigned i, double distance, bool late)
{
	double usual = usual_distance(g, i);
	bool accepted;

	if (isnan(usual))
		return HK_LEARN_R_FEW;
	accepted = hk_learn_guard_compares(&g->slice[i].guard, g->set->norm_limit, distance, usual);
	p->active = true;
	if (!accepted)
		return too_far(late);
	p->distance[i] = distance;
	return HK_LEARN_TAKEN;
}

static enum hk_learn_reason check_slice(struct hk_learn_gossip *g, struct hk_learn_gossip_peer *p,
					const struct hk_learn_slice_hdr *h, const double *values)
{
	struct hk_learn_gossip_slice *s = &g->slice[h->slice];
	const double *own = g->train.w + s->first;
	double distance = hk_learn_guard_distance(own, values, s->count);
	bool finite = hk_learn_guard_finite(values, s->count);
	bool late = far_behind(g, s->age, h->age);

	p->heard[h->slice] = isfinite(distance) ? distance : INFINITY;
	if (!finite)
		return HK_LEARN_R_NOT_FINITE;
	if (stale(g, p, h->slice, h->age))
		return HK_LEARN_R_STALE;
	if (hk_learn_gossip_compares(g))
		return compare(g, p, h->slice, distance, late);
	bool accepted = hk_learn_guard_accepts(&s->guard, g->set->norm_limit, distance,
					       length(own, s->count), s->count, most_far(g));
	p->active = true;
	p->far = !accepted && !late;
	if (!accepted)
		return too_far(late);
	p->distance[h->slice] = distance;
	record(g, s, values);
	return HK_LEARN_TAKEN;
}

/* ---- push-sum -------------------------------------------------------------------------------- */

/* Returns whether the parts that came since the last message include some that the sender gave
 * before it copied a neighbour's parameters. */
static bool given_before_copy(const struct hk_learn_gossip_peer *p,
			      const struct hk_learn_slice_hdr *h)
{
	return h->since_copy != 0 && p->number[h->slice] < h->number - h->since_copy;
}

static enum hk_learn_reason take_push(struct hk_learn_gossip *g, struct hk_learn_gossip_peer *p,
				      const struct hk_learn_slice_hdr *h)
{
	struct hk_learn_gossip_slice *s = &g->slice[h->slice];
	struct hk_learn_push *seen = &p->taken[h->slice];
	double *own = g->train.w + s->first;

	if (!isfinite(h->weight))
		return HK_LEARN_R_NOT_FINITE;
	double news = hk_learn_push_difference(seen, h->weight, g->values, g->difference, s->count);
	if (news <= 0) /* nothing was given since */
		return hk_learn_guard_finite(g->values, s->count) ? HK_LEARN_TAKEN
								  : HK_LEARN_R_NOT_FINITE;
	enum hk_learn_reason why = given_before_copy(p, h) ? HK_LEARN_R_STALE
							   : check_slice(g, p, h, g->difference);
	if (why == HK_LEARN_TAKEN && far_behind(g, h->age, s->age))
		copy(g, s, g->difference);
	/* of refused parts only the weight is taken, with our own parameters (learn/merge.h) */
	hk_learn_push_take(own, &s->weight, why == HK_LEARN_TAKEN ? g->difference : own, news, seen,
			   h->weight, g->values, s->count);
	if (why != HK_LEARN_TAKEN)
		return why;
	s->age = HK_MAX(s->age, h->age);
	g->stats.merged++;
	return HK_LEARN_TAKEN;
}

/* ---- received messages ----------------------------------------------------------------------- */

static enum hk_learn_reason take(struct hk_learn_gossip *g, struct hk_learn_gossip_peer *p,
				 const struct hk_learn_slice_hdr *h)
{
	struct hk_learn_gossip_slice *s = &g->slice[h->slice];
	enum hk_learn_reason why;

	if (g->set->merge == HK_LEARN_PUSH_SUM)
		return take_push(g, p, h);
	why = check_slice(g, p, h, g->values);
	if (g->set->merge == HK_LEARN_TRIMMED)
		p->came[h->slice] = true;
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

/* A number so far from the last one is not believed by itself. */
#define JUMP 4096u

static bool follows(uint64_t number, uint64_t last)
{
	return number > last && number - last <= JUMP;
}

/* Returns whether @number is new. One forged message with a very high number must not make all
 * later ones old. So a number far from the last one counts only if the next message follows it. */
static bool is_new(struct hk_learn_gossip_peer *p, unsigned i, uint64_t number)
{
	bool near = number > p->number[i] ? number - p->number[i] <= JUMP
					  : p->number[i] - number < JUMP;
	bool fresh = near ? number > p->number[i] : p->jump[i] && follows(number, p->jump[i]);

	if (!near && !fresh)
		p->jump[i] = number;
	else if (fresh)
		p->jump[i] = 0;
	return fresh;
}

/* Returns the part of the age @claim of slice @i that another neighbour or we ourselves support.
 * Nodes copy and keep the highest age, so one false age would spread to all. A node with one
 * neighbour must believe it. */
static uint64_t supported_age(const struct hk_learn_gossip *g, unsigned i, uint64_t claim)
{
	const uint16_t *list;
	uint64_t most = g->slice[i].age, second = most;

	if (claim <= most || g->net.neighbours(g->net.arg, &list) <= 1)
		return claim;
	for (unsigned o = 0; o < g->nodes && second < claim; o++) {
		uint64_t age = g->peer[o] ? g->peer[o]->claim[i] : 0;
		second = HK_MAX(second, HK_MIN(age, most));
		most = HK_MAX(most, age);
	}
	return HK_MIN(claim, second);
}

static enum hk_learn_reason take_parameters(struct hk_learn_gossip *g, uint16_t src, uint8_t type,
					    const void *data, size_t len)
{
	struct hk_learn_gossip_peer *p;
	struct hk_learn_slice_hdr h;
	enum hk_learn_reason why;
	const void *values;

	if (!hk_learn_slice_parse(data, len, &h, &values))
		return HK_LEARN_R_BYTES;
	if (!same_model(g, &h, (unsigned)type - HK_LEARN_T_SLICE))
		return HK_LEARN_R_MODEL;
	p = hk_learn_gossip_peer(g, src);
	if (!p)
		return HK_LEARN_R_BYTES;
	if (!hk_learn_gossip_peer_run(g, p, h.run))
		return HK_LEARN_R_OLD;
	if (g->set->merge == HK_LEARN_PUSH_SUM && h.to_run != g->run) {
		/* tell it our run, at most once a round */
		if (p->greeted_at != g->round + 1) {
			p->greeted_at = g->round + 1;
			hk_learn_gossip_send_status(g, src, 0);
		}
		return HK_LEARN_R_RUN;
	}
	if (!is_new(p, h.slice, h.number))
		return HK_LEARN_R_OLD;
	p->claim[h.slice] = h.age;
	if (g->set->merge != HK_LEARN_TRIMMED) /* which uses the median */
		h.age = supported_age(g, h.slice, h.age);
	memcpy(g->values, values, h.count * sizeof(double));
	why = take(g, p, &h);
	p->number[h.slice] = h.number;
	return why;
}

/* The trimmed mean waits until so many neighbours have sent parameters, or all if there are fewer.
 * Those that are refused count, or a faulty node could keep the others from merging. */
#define TRIMMED_MIN 3

/* A trimmed mean of so many neighbours' parameters and ours leaves out a value at either end. With
 * fewer it would be the plain mean, to which a faulty node contributes a half. */
#define TRIMMED_LEAST 2

/* Returns the median age of the slices to merge: a faulty node may report any age. */
static uint64_t median_age(const struct hk_learn_gossip *g, unsigned i, unsigned n)
{
	unsigned at = 0;

	for (unsigned o = 0; o < g->nodes; o++) {
		const struct hk_learn_gossip_peer *p = g->peer[o];
		if (p && p->fresh[i])
			g->sorted[at++] = (double)p->age[i];
	}
	return (uint64_t)median(g->sorted, n);
}

static void forget_came(struct hk_learn_gossip *g, unsigned i)
{
	for (unsigned o = 0; o < g->nodes; o++)
		if (g->peer[o])
			g->peer[o]->came[i] = false;
}

static void merge_slice(struct hk_learn_gossip *g, unsigned i, unsigned enough)
{
	struct hk_learn_gossip_slice *s = &g->slice[i];
	unsigned least = hk_learn_gossip_compares(g) ? TRIMMED_LEAST : 1;
	uint64_t age;
	unsigned n = 0, came = 0;

	for (unsigned o = 0; o < g->nodes; o++) {
		const struct hk_learn_gossip_peer *p = g->peer[o];
		came += p && p->came[i];
		if (!p || !p->fresh[i])
			continue;
		g->others[n++] = p->latest + s->first;
	}
	if (came == 0 || came < enough)
		return;
	if (n < least) {
		/* all have sent, and too little is right: waiting would not help */
		g->contacts++;
		forget_came(g, i);
		return;
	}
	g->stats.merged += n;
	age = median_age(g, i, n);
	if (far_behind(g, age, s->age)) {
		/* most neighbours are far ahead, so that ours would only be an extreme value:
		 * replace it by one of theirs. Not with two of them: one may be false, and the mean
		 * of two leaves out none. The median of ours and two is one of theirs here. */
		if (n == TRIMMED_LEAST)
			note_copy(g, s);
		else
			copy(g, s, g->others[--n]);
	}
	hk_learn_merge_trimmed(g->train.w + s->first, g->others, n, g->set->trim, g->sorted,
			       s->count);
	for (unsigned o = 0; o < g->nodes; o++) {
		struct hk_learn_gossip_peer *p = g->peer[o];
		if (p)
			p->fresh[i] = false;
	}
	forget_came(g, i);
	if (hk_learn_gossip_compares(g))
		record(g, s, g->train.w + s->first);
	s->age = HK_MAX(s->age, age);
}

void hk_learn_gossip_merge_trimmed(struct hk_learn_gossip *g)
{
	const uint16_t *list;
	unsigned enough;

	if (g->set->merge != HK_LEARN_TRIMMED)
		return;
	enough = HK_MIN(g->net.neighbours(g->net.arg, &list), TRIMMED_MIN);
	for (unsigned i = 0; i < g->slices; i++)
		merge_slice(g, i, enough);
}

static enum hk_learn_reason take_status(struct hk_learn_gossip *g, uint16_t src, const void *data,
					size_t len)
{
	struct hk_learn_gossip_peer *p;
	struct hk_learn_status_hdr h;
	const void *entries;

	if (!hk_learn_status_parse(data, len, &h, &entries))
		return HK_LEARN_R_BYTES;
	if (h.fingerprint != g->fingerprint)
		return HK_LEARN_R_MODEL;
	p = hk_learn_gossip_peer(g, src);
	if (!p)
		return HK_LEARN_R_BYTES;
	if (!hk_learn_gossip_peer_run(g, p, h.run))
		return HK_LEARN_R_OLD;
	p->stopped |= (h.flags & HK_LEARN_STATUS_F_STOP) != 0;
	hk_learn_agree_read(&g->agree, &h, entries);
	hk_learn_gossip_follow(g);
	if (h.flags & HK_LEARN_STATUS_F_HELLO)
		hk_learn_gossip_send_status(g, src, 0);
	return HK_LEARN_TAKEN;
}

enum hk_learn_reason hk_learn_gossip_message(struct hk_learn_gossip *g, uint16_t src, uint8_t type,
					     const void *data, size_t len)
{
	enum hk_learn_reason why;

	g->stats.bytes_received += len;
	if (type == HK_LEARN_T_STATUS) {
		g->stats.statuses_received++;
		why = take_status(g, src, data, len);
	} else {
		g->stats.slices_received++;
		why = take_parameters(g, src, type, data, len);
		g->contacts += !hk_learn_gossip_compares(g) || why == HK_LEARN_TAKEN ||
			       why == HK_LEARN_R_STALE;
	}
	if (why != HK_LEARN_TAKEN)
		g->stats.refused[why]++;
	return why;
}
