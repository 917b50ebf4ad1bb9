/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/lines.c: see lines.h.
 */
#include "rtc/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int hk_rtc_lines_node(const char *text, uint16_t nodes)
{
	unsigned v = 0;
	if (!*text)
		return -1;
	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '9')
			return -1;
		v = v * 10 + (unsigned)(*p - '0');
		if (v >= nodes)
			return -1;
	}
	return (int)v;
}

/* Removes the comment, and reduces each run of blanks to one space. Returns the length. */
static size_t tidy(char *line)
{
	size_t n = 0;
	for (const char *p = line; *p && *p != '#'; p++) {
		bool blank = *p == ' ' || *p == '\t' || *p == '\r' || *p == '\n';
		if (!blank)
			line[n++] = *p;
		else if (n && line[n - 1] != ' ')
			line[n++] = ' ';
	}
	if (n && line[n - 1] == ' ')
		n--;
	line[n] = '\0';
	return n;
}

static int one_line(char *text, const char *path, const char *what, unsigned line, uint16_t nodes,
		    hk_rtc_line_fn fn, void *arg, struct hk_error *err)
{
	char *words = strchr(text, ' ');
	if (words)
		*words++ = '\0';
	int node = hk_rtc_lines_node(text, nodes);
	if (node < 0)
		return hk_error_set(err, -EINVAL,
				    "%s %s, line %u: '%.40s' is not the number of a node; "
				    "fix: begin each line with a number from 0 to %u",
				    what, path, line, text, nodes - 1u);
	return fn(arg, path, line, (uint16_t)node, words ? words : text + strlen(text), err);
}

int hk_rtc_lines_read(const char *path, const char *what, uint16_t nodes, hk_rtc_line_fn fn,
		      void *arg, struct hk_error *err)
{
	FILE *f = fopen(path, "re");
	char *text = malloc(HK_RTC_LINE_MAX);
	int rc = 0;

	if (!f || !text) {
		rc = hk_error_set(err, f ? -ENOMEM : -errno, "%s %s: %s; fix: %s", what, path,
				  f ? "no memory" : strerror(errno), "name a readable file");
		goto out;
	}
	for (unsigned line = 1; rc == 0 && fgets(text, HK_RTC_LINE_MAX, f); line++) {
		if (strlen(text) == HK_RTC_LINE_MAX - 1)
			rc = hk_error_set(err, -EINVAL,
					  "%s %s, line %u: longer than %d characters; fix: check "
					  "that this is the right file",
					  what, path, line, HK_RTC_LINE_MAX - 2);
		else if (tidy(text))
			rc = one_line(text, path, what, line, nodes, fn, arg, err);
	}
	if (rc == 0 && ferror(f))
		rc = hk_error_set(err, -EIO, "%s %s: %s; fix: name a readable file", what, path,
				  strerror(errno));
out:
	free(text);
	if (f)
		fclose(f);
	return rc;
}
