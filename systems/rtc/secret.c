/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/secret.c: reads the secret of a job from its file.
 */
#include "rtc/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIGITS (2 * HK_AGREE_LEN)
#define MAKE   "(umask 077; openssl rand -hex 32 >%s)"

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads @len characters with at most a line end behind them. */
static bool parse(const char *text, size_t len, uint8_t secret[HK_AGREE_LEN])
{
	if (len == DIGITS + 1 && text[DIGITS] == '\n')
		len--;
	if (len != DIGITS)
		return false;
	for (unsigned i = 0; i < HK_AGREE_LEN; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		secret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static int check(int fd, const char *path, struct hk_error *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return hk_error_set(err, -errno, "the secret %s cannot be read: %s", path,
				    strerror(errno));
	if (!S_ISREG(st.st_mode))
		return hk_error_set(err, -EINVAL,
				    "the secret %s is not a file; fix: name the file that " MAKE
				    " made",
				    path, "FILE");
	if (st.st_mode & 077)
		return hk_error_set(err, -EACCES,
				    "others can use the secret %s (mode %04o); fix: chmod 600 %s",
				    path, st.st_mode & 07777, path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return hk_error_set(err, -EACCES,
				    "the secret %s belongs to user %u; fix: use a file of your own",
				    path, st.st_uid);
	return 0;
}

int hk_rtc_secret_read(const char *path, uint8_t secret[HK_AGREE_LEN], struct hk_error *err)
{
	char text[DIGITS + 2];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return hk_error_set(err, -errno,
				    "the secret %s cannot be read: %s; fix: make it once, "
				    "by " MAKE ", and copy it to all nodes",
				    path, strerror(errno), path);
	int rc = check(fd, path, err);
	size_t len = 0;
	ssize_t r = 1;

	while (rc == 0 && len < sizeof(text) && r > 0) {
		r = read(fd, text + len, sizeof(text) - len);
		len += r > 0 ? (size_t)r : 0;
	}
	close(fd);
	if (rc == 0 && !parse(text, len, secret))
		rc = hk_error_set(err, -EINVAL,
				  "the secret %s is not 64 hexadecimal digits; fix: " MAKE
				  ", and copy it to all nodes",
				  path, path);
	explicit_bzero(text, sizeof(text));
	return rc;
}
