/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/spmv/market.h: a sparse matrix from a Matrix Market file (math.nist.gov/MatrixMarket).
 *
 * The file has coordinates; its values are real, integer or pattern, and it is general or
 * symmetric.
 */
#ifndef SPMV_MARKET_H
#define SPMV_MARKET_H

/* A square matrix in CSR. The columns of a row ascend. */
struct market {
	int rows;
	int *start;    /* [rows + 1]: index of the first entry of each row */
	int *column;   /* of each entry */
	double *value; /* of each entry; 1 for a pattern */
};

#define MARKET_ROWS_MAX 80000000

/* Reads @path. 0, or -1: it cannot, or the file is wrong; @why, of @len bytes, says where. */
int market_read(const char *path, struct market *m, char *why, unsigned long len);
void market_free(struct market *m);

/* The graph of the entries off the diagonal, in both directions: the neighbours of row r are
 * *@to[*@start[r]] and the following ones, ascending. The caller frees both. -1: no memory. */
int market_graph(const struct market *m, int **start, int **to);

#endif
