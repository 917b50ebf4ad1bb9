/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/helper/test_policy.c: the operator's file of users and interfaces.
 */
#include "helper/policy.h"
#include "tests/support/hk_test.h"
#include "tests/support/tmpdir.h"

#include <errno.h>
#include <pwd.h>

#define NOBODY 65534

static char dir[TMP_PATH], file[TMP_PATH + 16];
static struct hk_error err;

static void write_policy(const char *text)
{
	FILE *f = fopen(file, "w");

	CHECK(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

static bool allows(const char *text, const char *iface)
{
	write_policy(text);
	int rc = hk_policy_check(file, NOBODY, iface, &err);

	CHECK(rc == 0 || rc == -EACCES);
	return rc == 0;
}

TEST(users_and_interfaces)
{
	CHECK(allows("eth1 nobody\n", "eth1"));
	CHECK(allows("eth1 alice nobody", "eth1")); /* without a newline */
	CHECK(allows("# comment\n\n  eth1\tnobody # and why\n", "eth1"));
	CHECK(allows("eth1 *\n", "eth1"));
	CHECK(allows("* nobody\n", "eth1"));
	CHECK(allows("eth1 alice\neth1 nobody\n", "eth1"));
	CHECK(allows("eth1 @nogroup\n", "eth1"));
	CHECK(!allows("", "eth1"));
	CHECK(!allows("eth1 nobody\n", "eth10"));
	CHECK(!allows("eth10 nobody\n", "eth1"));
	CHECK(!allows("# eth1 nobody\n", "eth1"));
	CHECK(!allows("eth1 alice #nobody\n", "eth1"));
	CHECK(!allows("eth1 nobod nobodyx\n", "eth1"));
	CHECK(!allows("eth1 @nobody-has-this @root\n", "eth1"));
	CHECK(!allows("nobody eth1\n", "eth1"));
}

TEST(a_refusal_names_the_line_to_add)
{
	CHECK(!allows("eth1 alice\n", "eth1"));
	CHECK_HAS(err.text, "does not let nobody use eth1; fix: ", "\"eth1 nobody\"");
	CHECK(!strstr(err.text, "udp:")); /* there is no eth1 with an IP address */
	CHECK(!allows("eth1 alice\n", "lo"));
	CHECK_HAS(err.text, "\"lo nobody\", or use udp:addr=lo");
}

TEST(a_wrong_line_lets_nobody_in)
{
	CHECK(!allows("eth1\n* *\n", "eth1"));
	CHECK_HAS(err.text, "line 1 of ", "names nobody; fix: ");
}

TEST(an_unreadable_file_lets_nobody_in)
{
	CHECK_EQ(remove(file), 0);
	CHECK_EQ(hk_policy_check(file, NOBODY, "eth1", &err), -EACCES);
	CHECK_HAS(err.text, "cannot be read", "\"eth1 nobody\"");
	CHECK_EQ(hk_policy_check(file, 4123456789u, "eth1", &err), -EACCES);
	CHECK_HAS(err.text, "user 4123456789 has no name");
}

BEFORE_ALL()
{
	tmp_dir(dir);
	snprintf(file, sizeof(file), "%s/interfaces", dir);
}

AFTER_ALL()
{
	(void)remove(file);
	tmp_gone(dir);
}
