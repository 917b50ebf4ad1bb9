/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/exchange.c: put, and wait.
 */
#include "halo/internal.h"

#include <errno.h>
#include <string.h>

#define NAMED_AFTER 60.0 /* seconds of waiting until the neighbour is named on stderr */
#define LOOK_CLOCK  4096 /* rounds in vain between two looks at the clock; a power of two */
#define LOOK_ALL    64   /* … and until all that MPI polls is polled */

/* Some of the exchange is lost, so it never becomes whole, whatever comes later. */
static int fail_for_good(struct hk_halo *h, int rc)
{
	h->failed = rc;
	h->said = hk_halo_said;
	return rc;
}

static int failed_before(const struct hk_halo *h)
{
	hk_halo_said = h->said;
	return h->failed;
}

int hk_halo_put(hk_halo h)
{
	int rc = 0;

	if (HK_UNLIKELY(h->failed))
		return failed_before(h);
	if (h->under_way)
		return hk_halo_fail(-EBUSY,
				    "an exchange is under way; fix: hk_halo_wait() before the next "
				    "hk_halo_put()");
	h->under_way = true;
	h->number++;
	memset(h->told, 0, (size_t)h->edges * sizeof(*h->told));
	if (HK_UNLIKELY(h->report))
		h->started = hk_halo_now();
	for (int k = 0; k < h->neighbours; k++)
		h->neighbour[k].arrived = h->neighbour[k].sent = false;
	for (int k = 0; rc == 0 && k < h->neighbours; k++)
		rc = h->neighbour[k].path->put(h, &h->neighbour[k]);
	return HK_UNLIKELY(rc) ? fail_for_good(h, rc) : 0;
}

static void note_arrival(struct hk_halo *h, struct hk_neighbour *nb)
{
	double took = hk_halo_now() - h->started;

	nb->exchanges++;
	nb->sum += took;
	nb->min = HK_MIN(nb->min, took);
	nb->max = HK_MAX(nb->max, took);
}

/* Polls all once. Returns how many neighbours are not done, or a negative errno. */
static int look(struct hk_halo *h, unsigned round)
{
	int left = 0;

	if (HK_UNLIKELY(h->failed))
		return failed_before(h);
	if (h->polls_fabric)
		hk_fabric_poll(round % LOOK_ALL == LOOK_ALL - 1);
	for (int k = 0; k < h->neighbours; k++) {
		struct hk_neighbour *nb = &h->neighbour[k];

		if (nb->arrived && nb->sent)
			continue;
		bool before = nb->arrived;
		int rc = nb->path->poll(h, nb);

		if (HK_UNLIKELY(rc))
			return fail_for_good(h, rc);
		if (HK_UNLIKELY(h->report) && nb->arrived && !before)
			note_arrival(h, nb);
		left += !(nb->arrived && nb->sent);
	}
	return left;
}

/* How long a wait has been, each LOOK_CLOCK rounds. */
struct patience {
	double since;
	bool named;
};

static int waited_for(const struct hk_halo *h)
{
	for (int k = 0; k < h->neighbours; k++)
		if (!h->neighbour[k].arrived || !h->neighbour[k].sent)
			return h->neighbour[k].rank;
	return -1;
}

static HK_NOINLINE int look_at_clock(const struct hk_halo *h, struct patience *p)
{
	double now = hk_halo_now();

	if (p->since == 0)
		p->since = now;
	if (h->timeout > 0 && now - p->since > h->timeout)
		return hk_halo_fail(
			-ETIMEDOUT,
			"rank %d has waited %g s for rank %d; fix: see what that rank does, or "
			"raise HK_HALO_TIMEOUT",
			h->rank, h->timeout, waited_for(h));
	if (!p->named && now - p->since > NAMED_AFTER) {
		p->named = true;
		fprintf(stderr, "hk_halo: rank %d has waited %.0f s for rank %d, and goes on\n",
			h->rank, NAMED_AFTER, waited_for(h));
	}
	return 0;
}

int hk_halo_wait(hk_halo h)
{
	struct patience p = {0};
	int rc;

	if (!h->under_way)
		return 0;
	for (unsigned round = 0; (rc = look(h, round)) > 0; round++) {
		if (HK_UNLIKELY(round % LOOK_CLOCK == LOOK_CLOCK - 1))
			rc = look_at_clock(h, &p);
		if (rc < 0)
			return rc;
	}
	if (rc == 0)
		h->under_way = false;
	return rc;
}

static bool edge_has_come(const struct hk_halo *h, int i)
{
	int k = h->neighbour_of[i];

	return k < 0 || h->neighbour[k].arrived;
}

int hk_halo_ready(hk_halo h, int i)
{
	if (i < 0 || i >= h->edges)
		return hk_halo_fail(-EINVAL, "edge %d of %d; fix: use its index at set-up", i,
				    h->edges);
	if (!h->under_way || edge_has_come(h, i))
		return 1;
	int rc = look(h, LOOK_ALL - 1);

	return rc < 0 ? rc : edge_has_come(h, i);
}

static int tell(struct hk_halo *h, int *which, int *left)
{
	int n = 0;

	*left = 0;
	for (int i = 0; i < h->edges; i++) {
		if (h->neighbour_of[i] < 0 || h->told[i])
			continue;
		if (edge_has_come(h, i)) {
			h->told[i] = true;
			which[n++] = i;
		} else {
			(*left)++;
		}
	}
	return n;
}

int hk_halo_wait_some(hk_halo h, int *which)
{
	struct patience p = {0};
	int left, n, rc = 0;

	if (!h->under_way)
		return 0;
	for (unsigned round = 0; (n = tell(h, which, &left)) == 0 && left > 0; round++) {
		rc = look(h, round);
		if (rc >= 0 && HK_UNLIKELY(round % LOOK_CLOCK == LOOK_CLOCK - 1))
			rc = look_at_clock(h, &p);
		if (rc < 0)
			return rc;
	}
	return n;
}
