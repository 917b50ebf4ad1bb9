/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim/messages.c: see messages.h.
 */
#include "sim/messages.h"

#include "sim/events.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 3

/* Reads @count numbers, and nothing else, from @line. */
static bool numbers(const char *line, unsigned count, uint64_t *value)
{
	for (unsigned i = 0; i < count; i++) {
		char *end;

		if (*line < '0' || *line > '9')
			return false;
		errno = 0;
		value[i] = strtoull(line, &end, 10);
		if (errno || *end != (i + 1 < count ? ' ' : '\n'))
			return false;
		line = end + 1;
	}
	return *line == 0;
}

static int by_sender(const void *a, const void *b)
{
	const struct message *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return (x->to > y->to) - (x->to < y->to);
}

/* Sorts the messages, and finds the first of each rank. False: two are from one rank to one, or a
 * rank sends too much. */
static bool sort(struct messages *m)
{
	uint64_t bytes = 0;

	qsort(m->message, m->count, sizeof(*m->message), by_sender);
	for (uint32_t i = 0; i < m->count; i++) {
		if (i && by_sender(&m->message[i - 1], &m->message[i]) == 0)
			return false;
		if (i == 0 || m->message[i - 1].from != m->message[i].from)
			bytes = 0;
		bytes += m->message[i].bytes;
		if (bytes > MESSAGES_BYTES)
			return false;
		m->first[m->message[i].from + 1]++;
	}
	for (uint32_t r = 0; r < m->ranks; r++)
		m->first[r + 1] += m->first[r];
	return true;
}

/* Reads the lines of @in. Returns the number of the wrong one, or 0. */
static unsigned long read_lines(FILE *in, struct messages *m)
{
	static const char head[] = "ranks ";
	uint64_t v[NUMBERS];
	uint32_t capacity = 0;
	char line[80];
	unsigned long n = 1;

	if (!fgets(line, sizeof(line), in) || strncmp(line, head, sizeof(head) - 1) != 0 ||
	    !numbers(line + sizeof(head) - 1, 1, v) || v[0] < 2 || v[0] > MESSAGES_RANKS)
		return n;
	m->ranks = (uint32_t)v[0];
	m->first = sim_alloc((m->ranks + 1) * sizeof(*m->first));
	while (n++, fgets(line, sizeof(line), in)) {
		if (!numbers(line, NUMBERS, v) || v[0] >= m->ranks || v[1] >= m->ranks ||
		    v[0] == v[1] || v[2] < 1 || v[2] > MESSAGES_BYTES)
			return n;
		m->message = sim_grow(m->message, m->count, &capacity, sizeof(*m->message));
		m->message[m->count++] = (struct message){(uint32_t)v[0], (uint32_t)v[1],
							  (uint32_t)v[2]};
	}
	return m->count ? 0 : n;
}

struct messages *messages_read(const char *path, struct hk_error *err)
{
	FILE *in = fopen(path, "r");
	struct messages *m;

	if (!in) {
		(void)hk_error_set(err, -errno, "%s cannot be read: %s; fix: check --messages",
				   path, strerror(errno));
		return NULL;
	}
	m = sim_alloc(sizeof(*m));
	unsigned long wrong = read_lines(in, m);

	fclose(in);
	if (wrong) {
		(void)hk_error_set(
			err, -EINVAL,
			"%s, line %lu: wrong or missing; fix: write 'ranks N' with 2 to %d "
			"ranks, then lines 'FROM TO BYTES' of two ranks and 1 to %d bytes",
			path, wrong, MESSAGES_RANKS, MESSAGES_BYTES);
	} else if (!sort(m)) {
		wrong = 1;
		(void)hk_error_set(
			err, -EINVAL,
			"%s: two messages have the same ranks, or a rank sends more than %d "
			"bytes; fix: write one message from a rank to another, with fewer",
			path, MESSAGES_BYTES);
	}
	if (wrong) {
		messages_free(m);
		return NULL;
	}
	return m;
}

void messages_free(struct messages *m)
{
	if (!m)
		return;
	free(m->message);
	free(m->first);
	free(m);
}
