/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/pop/spec.c: parses a pop spec, such as "pop:bar:0000:00:05.0,bar=2".
 *
 * The kind is followed by a name (an address or a number), which may contain colons. Options follow
 * after commas.
 */
#include "devmem/pop/internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[HK_POP_KINDS] = {
	[HK_POP_HUGE] = "huge", [HK_POP_BAR] = "bar", [HK_POP_IVSHMEM] = "ivshmem",
	[HK_POP_CMB] = "cmb",   [HK_POP_GPU] = "gpu", [HK_POP_PHYSICAL] = "physical",
};

const char *hk_pop_kind_name(enum hk_pop_kind kind)
{
	return kind < HK_POP_KINDS ? kinds[kind] : "?";
}

/* A number, decimal or 0x…, with an optional K, M or G. It must be all of @text. */
static bool number(const char *text, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 0);
	unsigned shift = 0;
	if (*end == 'K' || *end == 'M' || *end == 'G') {
		shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 30;
		end++;
	}
	if (*end || errno || n > UINT64_MAX >> shift)
		return false;
	*out = (uint64_t)n << shift;
	return true;
}

/* The options, as bits. */
enum { BAR = 1, OFFSET = 2, SIZE = 4, WC = 8, ACCEPT = 16 };

static const unsigned takes[HK_POP_KINDS] = {
	[HK_POP_HUGE] = SIZE,
	[HK_POP_BAR] = BAR | OFFSET | SIZE | WC,
	[HK_POP_IVSHMEM] = OFFSET | SIZE | WC,
	[HK_POP_CMB] = OFFSET | SIZE,
	[HK_POP_GPU] = SIZE,
	[HK_POP_PHYSICAL] = SIZE | ACCEPT,
};

static int option(const char *text, char *word, struct hk_pop_spec *s, unsigned *seen,
		  struct hk_error *err)
{
	char *value = strchr(word, '=');
	uint64_t n = 0;
	unsigned bit = 0;

	if (value)
		*value++ = '\0';
	if (strcmp(word, "bar") == 0)
		bit = BAR;
	else if (strcmp(word, "offset") == 0)
		bit = OFFSET;
	else if (strcmp(word, "size") == 0)
		bit = SIZE;
	else if (strcmp(word, "wc") == 0)
		bit = WC;
	else if (strcmp(word, "accept") == 0)
		bit = ACCEPT;
	if (!(bit & takes[s->kind]))
		return hk_error_set(err, -EINVAL,
				    "pop '%s': %s takes no option '%s'; fix: see docs/devmem.md",
				    text, kinds[s->kind], word);
	if (*seen & bit)
		return hk_error_set(err, -EINVAL, "pop '%s': %s= is given twice; fix: give it once",
				    text, word);
	*seen |= bit;
	if (bit == ACCEPT) {
		if (!value || strcmp(value, "corruption") != 0)
			return hk_error_set(err, -EINVAL,
					    "pop '%s': accept= takes only the word 'corruption'; "
					    "fix: write accept=corruption, if you accept it",
					    text);
		s->accept_corruption = true;
		return 0;
	}
	if (!value || !number(value, &n) || (bit == BAR && n >= HK_PCI_BARS) ||
	    (bit == WC && n > 1) || (bit == SIZE && n == 0))
		return hk_error_set(err, -EINVAL,
				    "pop '%s': %s=%s is not a number in range; fix: give bar=0 to "
				    "5, wc=0 or 1, sizes in bytes or with K, M, G",
				    text, word, value ? value : "");
	if (bit == BAR)
		s->bar = (unsigned)n;
	else if (bit == OFFSET)
		s->offset = n;
	else if (bit == SIZE)
		s->size = n;
	else
		s->wc = n != 0;
	return 0;
}

/* Parses the name between the kind and the options. */
static int name_of(const char *text, const char *name, struct hk_pop_spec *s, struct hk_error *err)
{
	uint64_t n;

	switch (s->kind) {
	case HK_POP_HUGE:
		return 0;
	case HK_POP_GPU:
		if (!number(name, &n) || n > INT16_MAX)
			return hk_error_set(
				err, -EINVAL,
				"pop '%s': '%s' is not the number of a GPU; fix: write pop:gpu:0",
				text, name);
		s->gpu = (unsigned)n;
		return 0;
	case HK_POP_PHYSICAL:
		if (!number(name, &s->physical) || s->physical % 4096)
			return hk_error_set(err, -EINVAL,
					    "pop '%s': '%s' is not the address of a page; fix: "
					    "write pop:physical:0x100000000,size=…",
					    text, name);
		return 0;
	default:
		if (!hk_pci_is_addr(name))
			return hk_error_set(
				err, -EINVAL,
				"pop '%s': '%s' is not a PCI address; fix: write it in full, as "
				"0000:00:05.0 (`hikyaku devmem list` shows them)",
				text, name);
		memcpy(s->device, name, strlen(name) + 1);
		return 0;
	}
}

int hk_pop_spec_parse(const char *text, struct hk_pop_spec *s, struct hk_error *err)
{
	char copy[HK_POP_SPEC_MAX];
	size_t len = strlen(text);

	*s = (struct hk_pop_spec){0};
	if (len >= sizeof(copy))
		return hk_error_set(err, -EINVAL,
				    "the pop spec has %zu characters; fix: use at most %zu", len,
				    sizeof(copy) - 1);
	memcpy(copy, text, len + 1);
	char *kind = strncmp(copy, "pop:", 4) == 0 ? copy + 4 : copy;
	char *rest = strchr(kind, ':');
	if (rest)
		*rest++ = '\0';
	unsigned k = 0;
	while (k < HK_POP_KINDS && strcmp(kinds[k], kind) != 0)
		k++;
	if (k == HK_POP_KINDS || kind == copy || !rest || !*rest)
		return hk_error_set(
			err, -EINVAL,
			"'%s' is not a pop; fix: use pop:huge:size=N, pop:bar:ADDRESS,bar=N, "
			"pop:ivshmem:ADDRESS, pop:cmb:ADDRESS, pop:gpu:N or pop:physical:ADDRESS",
			text);
	s->kind = (enum hk_pop_kind)k;

	char *name = rest, *save = NULL;
	if (s->kind != HK_POP_HUGE) {
		rest = strchr(name, ',');
		if (rest)
			*rest++ = '\0';
		int rc = name_of(text, name, s, err);
		if (rc)
			return rc;
	}
	unsigned seen = 0;
	for (char *w = rest ? strtok_r(rest, ",", &save) : NULL; w;
	     w = strtok_r(NULL, ",", &save)) {
		int rc = option(text, w, s, &seen, err);
		if (rc)
			return rc;
	}
	unsigned must = s->kind == HK_POP_BAR ? BAR
			: s->kind == HK_POP_HUGE || s->kind == HK_POP_GPU ||
					s->kind == HK_POP_PHYSICAL
				? SIZE
				: 0;
	if ((seen & must) != must)
		return hk_error_set(err, -EINVAL, "pop '%s': %s= is missing; fix: append it", text,
				    must == BAR ? "bar" : "size");
	if (s->kind == HK_POP_IVSHMEM)
		s->bar = 2;
	if (s->kind == HK_POP_PHYSICAL && !s->accept_corruption)
		return hk_error_set(err, -EPERM,
				    "pop '%s': devices and this process would write to any memory "
				    "at that address, even the kernel's; fix: use pop:bar:… for a "
				    "device, or append accept=corruption if you are sure",
				    text);
	return 0;
}
