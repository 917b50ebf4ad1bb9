/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/unit/halo/test_exchange.c: put and wait, with transports that do as each test says. */
#include "halo/api/internal.h"
#include "tests/support/hk_test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int put_rc[2], poll_rc[2]; /* by neighbour */
static bool arrives[2];

void hk_halo_poll_worker(bool all)
{
}

static int put(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	return put_rc[nb - h->neighbour]
		       ? hk_halo_fail(put_rc[nb - h->neighbour], "put of rank %d", nb->rank)
		       : 0;
}

static int poll(struct hk_halo *h, struct hk_halo_neighbour *nb)
{
	ptrdiff_t k = nb - h->neighbour;

	nb->arrived = nb->sent = arrives[k];
	return poll_rc[k] ? hk_halo_fail(poll_rc[k], "poll of rank %d", nb->rank) : 0;
}

static const struct hk_transport transport = {.name = "test", .put = put, .poll = poll};
static struct hk_halo_neighbour neighbour[2];
static int neighbour_of[2] = {0, 1}, which[2];
static bool reported[2];

static struct hk_halo two_neighbours(void)
{
	for (int k = 0; k < 2; k++) {
		neighbour[k] = (struct hk_halo_neighbour){.rank = 10 + k, .transport = &transport};
		put_rc[k] = poll_rc[k] = 0;
		arrives[k] = true;
	}
	return (struct hk_halo){.edges = 2,
				.neighbour_of = neighbour_of,
				.reported = reported,
				.neighbour = neighbour,
				.neighbours = 2};
}

static void fails(int rc, int want, const char *text)
{
	CHECK_EQ(rc, want);
	CHECK_MSG(strcmp(hk_halo_error(), text) == 0, "'%s' instead of '%s'", hk_halo_error(),
		  text);
	hk_halo_fail(0, "something else");
}

TEST(a_good_exchange)
{
	struct hk_halo h = two_neighbours();

	for (int k = 0; k < 3; k++) {
		CHECK_EQ(hk_halo_put(&h), 0);
		CHECK_EQ(hk_halo_put(&h), -EBUSY);
		CHECK_EQ(hk_halo_wait(&h), 0);
	}
}

/* A put that failed leaves the ghosts of the last exchange in place. */
TEST(a_put_that_failed)
{
	struct hk_halo h = two_neighbours();

	CHECK_EQ(hk_halo_put(&h), 0);
	CHECK_EQ(hk_halo_wait(&h), 0);
	put_rc[0] = -ENOTCONN;
	fails(hk_halo_put(&h), -ENOTCONN, "put of rank 10");
	put_rc[0] = 0;
	for (int k = 0; k < 2; k++) {
		fails(hk_halo_wait(&h), -ENOTCONN, "put of rank 10");
		fails(hk_halo_wait_some(&h, which), -ENOTCONN, "put of rank 10");
		fails(hk_halo_ready(&h, 1), -ENOTCONN, "put of rank 10");
		fails(hk_halo_put(&h), -ENOTCONN, "put of rank 10");
	}
}

TEST(a_wait_that_failed)
{
	struct hk_halo h = two_neighbours();

	arrives[0] = false;
	poll_rc[1] = -EIO;
	CHECK_EQ(hk_halo_put(&h), 0);
	fails(hk_halo_wait(&h), -EIO, "poll of rank 11");
	poll_rc[1] = 0;
	arrives[0] = true;
	fails(hk_halo_wait(&h), -EIO, "poll of rank 11");
	fails(hk_halo_put(&h), -EIO, "poll of rank 11");
}

TEST(a_wait_that_was_too_long)
{
	struct hk_halo h = two_neighbours();

	h.timeout = 1e-9;
	arrives[1] = false;
	CHECK_EQ(hk_halo_put(&h), 0);
	CHECK_EQ(hk_halo_wait(&h), -ETIMEDOUT);
	CHECK(strstr(hk_halo_error(), "for rank 11;"));
	CHECK_EQ(hk_halo_wait(&h), -ETIMEDOUT);
	arrives[1] = true;
	CHECK_EQ(hk_halo_wait(&h), 0);
	CHECK_EQ(hk_halo_put(&h), 0);
}

/* Without an exchange, all times are 0. */
TEST(a_report_of_nothing)
{
	struct hk_halo h = two_neighbours();
	FILE *saved = stderr;
	char *text;
	size_t len;

	neighbour[0].min = neighbour[1].min = 1e9; /* as at set-up */
	stderr = open_memstream(&text, &len);
	hk_halo_print(&h);
	fclose(stderr);
	stderr = saved;
	CHECK_MSG(strstr(text, " 0 exchanges, from put to arrival 0.00 us (0.00 to 0.00)"), "%s",
		  text);
	free(text);
}
