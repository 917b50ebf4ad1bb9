/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/exchange.c: put, wait, ready and wait_some.
 */
#include "halo/api/internal.h"

#include <errno.h>
#include <string.h>

#define NAME_AFTER   60.0 /* seconds of waiting until stderr names the neighbour */
#define CLOCK_ROUNDS 4096 /* polls between two reads of the clock; a power of two */
#define ALL_ROUNDS   64   /* polls of the worker for one of everything that MPI polls */

/* A part of the exchange is lost, so it never completes. */
static int fail_permanently(struct hk_halo *h, int rc)
{
	h->failed = rc;
	h->error = hk_halo_last_error;
	return rc;
}

static int failed_before(const struct hk_halo *h)
{
	hk_halo_last_error = h->error;
	return h->failed;
}

/* A program that did not check its set-up. */
static HK_NOINLINE int no_handle(void)
{
	return hk_halo_fail(-EINVAL, "the handle is NULL, since its set-up failed or it was freed; "
				     "fix: check hk_halo_setup(), and print hk_halo_error()");
}

int hk_halo_put(hk_halo h)
{
	int rc = 0;

	if (HK_UNLIKELY(!h))
		return no_handle();
	if (HK_UNLIKELY(h->failed))
		return failed_before(h);
	if (h->under_way)
		return hk_halo_fail(-EBUSY,
				    "an exchange is under way; fix: hk_halo_wait() before the next "
				    "hk_halo_put()");
	h->under_way = true;
	h->number++;
	memset(h->reported, 0, (size_t)h->edges * sizeof(*h->reported));
	if (HK_UNLIKELY(h->report))
		h->started = hk_clock_s();
	for (int k = 0; k < h->neighbours; k++)
		h->neighbour[k].arrived = h->neighbour[k].sent = false;
	for (int k = 0; rc == 0 && k < h->neighbours; k++)
		rc = h->neighbour[k].transport->put(h, &h->neighbour[k]);
	return HK_UNLIKELY(rc) ? fail_permanently(h, rc) : 0;
}

static void note_arrival(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	double took = hk_clock_s() - h->started;

	nb->exchanges++;
	nb->sum += took;
	nb->min = HK_MIN(nb->min, took);
	nb->max = HK_MAX(nb->max, took);
}

/* Polls all neighbours once. Returns how many are not complete, or a negative errno. */
static int poll_all(struct hk_halo *h, unsigned round)
{
	int left = 0;

	if (HK_UNLIKELY(h->failed))
		return failed_before(h);
	if (h->polls_worker)
		hk_halo_poll_worker(round % ALL_ROUNDS == ALL_ROUNDS - 1);
	for (int k = 0; k < h->neighbours; k++) {
		struct hk_halo_neighbour *nb = &h->neighbour[k];

		if (nb->arrived && nb->sent)
			continue;
		bool before = nb->arrived;
		int rc = nb->transport->poll(h, nb);

		if (HK_UNLIKELY(rc))
			return fail_permanently(h, rc);
		if (HK_UNLIKELY(h->report) && nb->arrived && !before)
			note_arrival(h, nb);
		left += !(nb->arrived && nb->sent);
	}
	return left;
}

/* The duration of a wait; read every CLOCK_ROUNDS polls. */
struct waiting {
	double since; /* seconds; 0: the clock was not read yet */
	bool named;   /* stderr has named the neighbour */
};

static int first_missing(const struct hk_halo *h)
{
	for (int k = 0; k < h->neighbours; k++)
		if (!h->neighbour[k].arrived || !h->neighbour[k].sent)
			return h->neighbour[k].rank;
	return -1;
}

static HK_NOINLINE int check_clock(const struct hk_halo *h, struct waiting *p)
{
	double now = hk_clock_s();

	if (p->since == 0)
		p->since = now;
	if (h->timeout > 0 && now - p->since > h->timeout)
		return hk_halo_fail(
			-ETIMEDOUT,
			"rank %d has waited %g s for rank %d; fix: check what that rank does, or "
			"raise HK_HALO_TIMEOUT",
			h->rank, h->timeout, first_missing(h));
	if (!p->named && now - p->since > NAME_AFTER) {
		p->named = true;
		fprintf(stderr,
			"hk_halo: rank %d has waited %.0f s for rank %d and continues to wait\n",
			h->rank, NAME_AFTER, first_missing(h));
	}
	return 0;
}

int hk_halo_wait(hk_halo h)
{
	struct waiting p = {0};
	int rc;

	if (HK_UNLIKELY(!h))
		return no_handle();
	if (!h->under_way)
		return 0;
	for (unsigned round = 0; (rc = poll_all(h, round)) > 0; round++) {
		if (HK_UNLIKELY(round % CLOCK_ROUNDS == CLOCK_ROUNDS - 1))
			rc = check_clock(h, &p);
		if (rc < 0)
			return rc;
	}
	if (rc == 0)
		h->under_way = false;
	return rc;
}

static bool edge_arrived(const struct hk_halo *h, int i)
{
	int k = h->neighbour_of[i];

	return k < 0 || h->neighbour[k].arrived;
}

int hk_halo_ready(hk_halo h, int i)
{
	if (HK_UNLIKELY(!h))
		return no_handle();
	if (i < 0 || i >= h->edges)
		return hk_halo_fail(-EINVAL,
				    "edge %d of %d does not exist; fix: use its index at set-up", i,
				    h->edges);
	if (!h->under_way || edge_arrived(h, i))
		return 1;
	int rc = poll_all(h, ALL_ROUNDS - 1);

	return rc < 0 ? rc : edge_arrived(h, i);
}

static int report_arrivals(struct hk_halo *h, int *which, int *left)
{
	int n = 0;

	*left = 0;
	for (int i = 0; i < h->edges; i++) {
		if (h->neighbour_of[i] < 0 || h->reported[i])
			continue;
		if (edge_arrived(h, i)) {
			h->reported[i] = true;
			which[n++] = i;
		} else {
			(*left)++;
		}
	}
	return n;
}

int hk_halo_wait_some(hk_halo h, int *which)
{
	struct waiting p = {0};
	int left, n, rc = 0;

	if (HK_UNLIKELY(!h))
		return no_handle();
	if (!h->under_way)
		return 0;
	for (unsigned round = 0; (n = report_arrivals(h, which, &left)) == 0 && left > 0; round++) {
		rc = poll_all(h, round);
		if (rc >= 0 && HK_UNLIKELY(round % CLOCK_ROUNDS == CLOCK_ROUNDS - 1))
			rc = check_clock(h, &p);
		if (rc < 0)
			return rc;
	}
	return n;
}
