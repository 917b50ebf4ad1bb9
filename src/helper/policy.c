/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/policy.c: reads the operator's file. See helper/policy.h.
 */
#include "helper/policy.h"
#include "base/common.h"
#include "helper/fix.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 1024
#define BLANK      " \t\r\n"

struct person {
	const char *name;
	gid_t group[GROUPS_MAX];
	int groups;
};

static bool in_group(const struct person *p, const char *name)
{
	const struct group *g = getgrnam(name);

	for (int i = 0; g && i < p->groups; i++)
		if (p->group[i] == g->gr_gid)
			return true;
	return false;
}

static bool is_meant(const struct person *p, const char *word)
{
	if (strcmp(word, "*") == 0)
		return true;
	return word[0] == '@' ? in_group(p, word + 1) : strcmp(word, p->name) == 0;
}

/* Whether this line, which it changes, lets @p use @iface. -EINVAL: it names nobody. */
static int line_allows(char *line, const struct person *p, const char *iface)
{
	char *save, *first, *word;
	bool allows = false;

	line[strcspn(line, "#")] = '\0';
	first = strtok_r(line, BLANK, &save);
	if (!first)
		return 0;
	word = strtok_r(NULL, BLANK, &save);
	if (!word)
		return -EINVAL;
	for (; word; word = strtok_r(NULL, BLANK, &save))
		allows |= is_meant(p, word);
	return allows && (strcmp(first, "*") == 0 || strcmp(first, iface) == 0);
}

static int read_lines(FILE *f, const char *file, const struct person *p, const char *iface,
		      struct hk_error *err)
{
	char *line = NULL;
	size_t size = 0;
	int found = 0;

	for (unsigned n = 1; found == 0 && getline(&line, &size, f) >= 0; n++) {
		found = line_allows(line, p, iface);
		if (found < 0)
			hk_error_set(err, -EACCES,
				     "line %u of %s names nobody; fix: write INTERFACE USER or "
				     "INTERFACE @GROUP",
				     n, file);
	}
	free(line);
	if (found == 0)
		hk_error_set(err, -EACCES,
			     "%s does not let %s use %s; fix: have the administrator add the line "
			     "\"%s %s\"%s",
			     file, p->name, iface, iface, p->name, hk_fix_or_udp(iface));
	return found > 0 ? 0 : -EACCES;
}

int hk_policy_check(const char *file, uid_t uid, const char *iface, struct hk_error *err)
{
	static struct person p; /* large; the helper has one thread */
	const struct passwd *pw = getpwuid(uid);

	if (!pw)
		return hk_error_set(err, -EACCES, "user %u has no name here; fix: add one",
				    (unsigned)uid);
	p.name = pw->pw_name;
	p.groups = GROUPS_MAX;
	if (getgrouplist(pw->pw_name, pw->pw_gid, p.group, &p.groups) < 0)
		p.groups = GROUPS_MAX;
	FILE *f = fopen(file, "re");

	if (!f)
		return hk_error_set(err, -EACCES,
				    "%s, which says who may use %s, cannot be read: %s; fix: have "
				    "the administrator write the line \"%s %s\" there, or use "
				    "udp:addr=%s",
				    file, iface, strerror(errno), iface, p.name, iface);
	int rc = read_lines(f, file, &p, iface, err);

	fclose(f);
	return rc;
}
