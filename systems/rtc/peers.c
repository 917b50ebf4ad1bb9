/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/peers.c: reads the file of addresses, with exact errors.
 */
#include "rtc/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (1u << 20) /* in bytes: far more than 1024 lines need */

/* Most characters of the text that errors quote. */
#define QUOTE 40

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Parses a number without a sign, at most 65535; -1: invalid. */
static int number(const char *text, size_t len)
{
	int n = 0;

	if (len == 0 || len > 5)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		n = n * 10 + (text[i] - '0');
	}
	return n <= UINT16_MAX ? n : -1;
}

/* Takes the next word from the front of @text; returns its length, which may be 0. */
static size_t cut(const char **text, const char *end, const char **word)
{
	while (*text < end && is_space(**text))
		(*text)++;
	*word = *text;
	while (*text < end && !is_space(**text))
		(*text)++;
	return (size_t)(*text - *word);
}

struct reader {
	const char *file;
	unsigned line;
	unsigned highest;              /* highest node so far, plus 1 */
	unsigned at[HK_RTC_MAX_NODES]; /* line number of each node; 0: none yet */
	uint16_t nodes;                /* most nodes that the file may have */
	char (*address)[HK_RTC_ADDRESS_MAX];
};

/* Handles one line, without its line end. */
static int take_line(struct reader *r, const char *text, const char *end, struct hk_error *err)
{
	const char *word, *address;

	for (const char *p = text; p < end; p++)
		if ((unsigned char)*p < ' ' && !is_space(*p))
			return hk_error_set(
				err, -EINVAL,
				"%s:%u: a byte 0x%02x is not text; fix: write lines 'NODE ADDRESS'",
				r->file, r->line, (unsigned char)*p);

	size_t len = cut(&text, end, &word);
	if (len == 0 || *word == '#')
		return 0;
	int node = number(word, len);
	if (node < 0)
		return hk_error_set(err, -EINVAL,
				    "%s:%u: '%.*s' is not the number of a node; fix: write "
				    "'NODE ADDRESS', with NODE from 0 to %u",
				    r->file, r->line, (int)HK_MIN(len, (size_t)QUOTE), word,
				    r->nodes - 1u);
	if (node >= r->nodes)
		return hk_error_set(err, -ERANGE,
				    "%s:%u: node %d, but the last of %u is %u; fix: number the "
				    "nodes from 0, or configure more nodes",
				    r->file, r->line, node, r->nodes, r->nodes - 1u);
	if (r->at[node])
		return hk_error_set(err, -EEXIST,
				    "%s:%u: node %d has its address in line %u already; fix: "
				    "remove one of the two lines",
				    r->file, r->line, node, r->at[node]);

	len = cut(&text, end, &address);
	if (len == 0)
		return hk_error_set(err, -EINVAL,
				    "%s:%u: node %d has no address; fix: write 'NODE ADDRESS'",
				    r->file, r->line, node);
	if (len >= HK_RTC_ADDRESS_MAX)
		return hk_error_set(err, -EINVAL,
				    "%s:%u: the address of node %d has %zu characters, more than "
				    "%d; fix: write it as the node prints it",
				    r->file, r->line, node, len, HK_RTC_ADDRESS_MAX - 1);
	memcpy(r->address[node], address, len);
	r->address[node][len] = '\0';

	len = cut(&text, end, &word);
	if (len > 0 && *word != '#')
		return hk_error_set(err, -EINVAL,
				    "%s:%u: '%.*s' after the address of node %d; fix: write one "
				    "'NODE ADDRESS' a line",
				    r->file, r->line, (int)HK_MIN(len, (size_t)QUOTE), word, node);
	r->at[node] = r->line;
	r->highest = HK_MAX(r->highest, (unsigned)node + 1);
	return 0;
}

/* Checks that every node has a line. */
static int check_whole(struct reader *r, uint16_t node, struct hk_error *err)
{
	if (r->highest == 0)
		return hk_error_set(
			err, -ENOENT,
			"%s names no node; fix: write a line 'NODE ADDRESS' for each node",
			r->file);
	if (node >= r->nodes || !r->at[node])
		return hk_error_set(err, -ENOENT,
				    "%s has no line for this node, %u; fix: add '%u ADDRESS', or "
				    "give this node another number",
				    r->file, node, node);
	for (unsigned i = 0; i < r->nodes; i++)
		if (!r->at[i])
			return hk_error_set(err, -ENOENT,
					    "%s has no line for node %u of %u; fix: add "
					    "'%u ADDRESS'",
					    r->file, i, r->nodes, i);
	return 0;
}

int hk_rtc_peers_parse(const char *file, const char *text, size_t len, uint16_t node,
		       uint16_t nodes, struct hk_rtc_peers *out, struct hk_error *err)
{
	const char *end = text + len;
	int rc = 0;

	*out = (struct hk_rtc_peers){0};
	if (nodes > HK_RTC_MAX_NODES)
		return hk_error_set(err, -ERANGE, "a job cannot have %u nodes; fix: use at most %d",
				    nodes, HK_RTC_MAX_NODES);
	struct reader *r = calloc(1, sizeof(*r));
	if (r)
		r->address = calloc(nodes ? nodes : HK_RTC_MAX_NODES, sizeof(*r->address));
	if (!r || !r->address) {
		free(r);
		return hk_error_set(err, -ENOMEM, "no memory for the addresses of %s", file);
	}
	r->file = file;
	r->nodes = nodes ? nodes : HK_RTC_MAX_NODES;
	while (text < end && rc == 0) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		if (!stop)
			stop = end;
		r->line++;
		rc = take_line(r, text, stop, err);
		text = stop + 1;
	}
	if (rc == 0 && nodes == 0)
		r->nodes = (uint16_t)r->highest;
	if (rc == 0)
		rc = check_whole(r, node, err);
	if (rc == 0) {
		out->nodes = r->nodes;
		out->address = r->address;
	} else {
		free(r->address);
	}
	free(r);
	return rc;
}

int hk_rtc_peers_read(const struct hk_rtc_config *cfg, struct hk_rtc_peers *out,
		      struct hk_error *err)
{
	const char *path = cfg->peers_file;
	FILE *f = fopen(path, "re");
	char *text = malloc(FILE_MAX + 1);
	int rc;

	*out = (struct hk_rtc_peers){0};
	if (!f)
		rc = hk_error_set(
			err, -errno,
			"the file of addresses %s cannot be opened: %s; fix: write lines 'NODE "
			"ADDRESS' into it, or start the nodes with mpirun and without it",
			path, strerror(errno));
	else if (!text)
		rc = hk_error_set(err, -ENOMEM, "no memory to read %s", path);
	else {
		size_t len = fread(text, 1, FILE_MAX + 1, f);
		if (ferror(f))
			rc = hk_error_set(err, -EIO,
					  "%s cannot be read: %s; fix: name a regular file", path,
					  strerror(errno));
		else if (len > FILE_MAX)
			rc = hk_error_set(err, -EFBIG,
					  "%s is longer than %u bytes; fix: write one line 'NODE "
					  "ADDRESS' for each node",
					  path, FILE_MAX);
		else
			rc = hk_rtc_peers_parse(path, text, len, cfg->node, cfg->nodes, out, err);
	}
	free(text);
	if (f)
		fclose(f);
	return rc;
}

void hk_rtc_peers_free(struct hk_rtc_peers *peers)
{
	free(peers->address);
	*peers = (struct hk_rtc_peers){0};
}
