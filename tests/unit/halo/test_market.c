/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of Matrix Market files.
 */
#include "examples/spmv/market.h"

#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <unistd.h>

#define HEAD "%%MatrixMarket matrix coordinate "

static struct market m;
static char why[256];

static int reads(const char *text)
{
	const char *path = tmp_file(text);
	int rc = market_read(path, &m, why, sizeof(why));

	CHECK_EQ(unlink(path), 0);
	return rc;
}

static void check_row(int row, int count, const int *column, const double *value)
{
	CHECK_EQ(m.start[row + 1] - m.start[row], count);
	for (int k = 0; k < count; k++) {
		CHECK_EQ(m.column[m.start[row] + k], column[k]);
		CHECK(m.value[m.start[row] + k] == value[k]);
	}
}

TEST(a_general_matrix)
{
	CHECK_EQ(reads(HEAD "real general\n% a comment\n\n3 3 4\n3 1 -1e3\n1 3 2\n1 1 .5\n3 3 7\n"),
		 0);
	CHECK_EQ(m.rows, 3);
	check_row(0, 2, (int[]){0, 2}, (double[]){.5, 2});
	check_row(1, 0, NULL, NULL);
	check_row(2, 2, (int[]){0, 2}, (double[]){-1000, 7});
	market_free(&m);
}

TEST(a_symmetric_matrix_has_both_halves)
{
	CHECK_EQ(reads(HEAD "integer symmetric\n3 3 3\n2 1 5\n3 3 7\n3 2 -6\n"), 0);
	check_row(0, 1, (int[]){1}, (double[]){5});
	check_row(1, 2, (int[]){0, 2}, (double[]){5, -6});
	check_row(2, 2, (int[]){1, 2}, (double[]){-6, 7});
	market_free(&m);
}

TEST(a_pattern_has_ones_and_words_of_any_case)
{
	CHECK_EQ(reads("%%matrixmarket MATRIX Coordinate Pattern General\n2 2 1\n 2  1 \n"), 0);
	check_row(1, 1, (int[]){0}, (double[]){1});
	market_free(&m);
}

TEST(its_graph_has_each_edge_once_from_both_ends)
{
	int *start, *to;

	/* 1-2 in both directions, 2-3 in one, a diagonal, and row 4 alone */
	CHECK_EQ(reads(HEAD "pattern general\n4 4 4\n1 2\n2 1\n2 3\n4 4\n"), 0);
	CHECK_EQ(market_graph(&m, &start, &to), 0);
	CHECK(memcmp(start, (int[]){0, 1, 3, 4, 4}, 5 * sizeof(int)) == 0);
	CHECK(memcmp(to, (int[]){1, 0, 2, 1}, 4 * sizeof(int)) == 0);
	free(start);
	free(to);
	market_free(&m);
}

#define REFUSED(text, reason)                                                                      \
	do {                                                                                       \
		CHECK_EQ(reads(text), -1);                                                         \
		CHECK_MSG(strstr(why, reason), "'%s' lacks '%s'", why, reason);                    \
		CHECK(!m.start && !m.column && !m.value);                                          \
	} while (0)

TEST(wrong_files_are_refused)
{
	REFUSED("", "does not begin");
	REFUSED("%%MatrixMarket matrix coordinate real\n2 2 0\n", "does not begin");
	REFUSED("%%MatrixMarket matrix array real general\n2 2\n1\n1\n1\n1\n", "is not a matrix");
	REFUSED(HEAD "complex general\n2 2 1\n1 1 1 1\n", "is not a matrix");
	REFUSED(HEAD "real skew-symmetric\n2 2 1\n2 1 1\n", "is not a matrix");
	REFUSED(HEAD "real general\n", "sizes");
	REFUSED(HEAD "real general\n2 2\n", "sizes");
	REFUSED(HEAD "real general\n2 2 1 1\n", "sizes");
	REFUSED(HEAD "real general\n0 0 0\n", "sizes");
	REFUSED(HEAD "real general\n80000001 80000001 0\n", "sizes");
	REFUSED(HEAD "real general\n2 2 99999999999999999999\n", "sizes");
	REFUSED(HEAD "real general\n2 3 1\n1 1 1\n", "not square");
	REFUSED(HEAD "real general\n2 2 2\n1 1 1\n", "fewer entries");
	REFUSED(HEAD "real general\n2 2 2000000\n1 1 1\n", "fewer entries");
	REFUSED(HEAD "real general\n2 2 1\n1 1 1\n2 2 1\n", "more entries");
	REFUSED(HEAD "real general\n2 2 1\n0 1 1\n", "outside");
	REFUSED(HEAD "real general\n2 2 1\n1 3 1\n", "outside");
	REFUSED(HEAD "real general\n2 2 1\n1 1x 1\n", "outside");
	REFUSED(HEAD "real general\n2 2 1\n1 1\n", "finite value");
	REFUSED(HEAD "real general\n2 2 1\n1 1 nan\n", "finite value");
	REFUSED(HEAD "real general\n2 2 1\n1 1 1e999\n", "finite value");
	REFUSED(HEAD "real general\n2 2 1\n1 1 1 1\n", "more than an entry");
	REFUSED(HEAD "pattern general\n2 2 1\n1 1 1\n", "more than an entry");
	REFUSED(HEAD "real symmetric\n2 2 1\n1 2 1\n", "above the diagonal");
	REFUSED(HEAD "real general\n2 2 2\n1 1 1\n1 1 1\n", "two entries at one place");
	CHECK_EQ(market_read("/no/such/file", &m, why, sizeof(why)), -1);
	CHECK(strstr(why, "/no/such/file cannot be read"));
}
