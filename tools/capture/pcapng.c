/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture/pcapng.c: implements pcapng.h. Block and option codes are the draft's.
 */
#include "capture/pcapng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define TEXT_MAX  4096
#define GATHER    (1u << 20)
#define BLOCK_MAX (1u << 17) /* longest block of this file */

enum { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_STATISTICS = 5, BLOCK_PACKET = 6 };
enum { OPT_END = 0, OPT_COMMENT = 1 };
enum { SHB_OS = 3, SHB_APPLICATION = 4 };
enum {
	IF_NAME = 2,
	IF_DESCRIPTION = 3,
	IF_MAC = 6,
	IF_SPEED = 8,
	IF_TSRESOL = 9,
	IF_FILTER = 11,
	IF_HARDWARE = 15
};
enum { EPB_FLAGS = 2, EPB_QUEUE = 6 };
enum { ISB_START = 2, ISB_END = 3, ISB_RECEIVED = 4, ISB_DROPPED = 5, ISB_DELIVERED = 8 };
#define LINKTYPE_ETHERNET 1
#define RESOLUTION_NS     9 /* ten to the minus ninth */

struct hk_pcapng {
	int fd, error;
	uint32_t interfaces;
	size_t fill, block; /* bytes gathered; offset of the block in progress */
	char bytes[GATHER + BLOCK_MAX];
};

struct hk_pcapng *hk_pcapng_open(int fd)
{
	struct hk_pcapng *p = malloc(sizeof(*p));

	if (!p)
		return NULL;
	p->fd = fd;
	p->error = 0;
	p->interfaces = 0;
	p->fill = p->block = 0;
	return p;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Only @done bytes could be written: truncates the file after the last whole block of them. */
static void cut(struct hk_pcapng *p, size_t done)
{
	off_t now = lseek(p->fd, 0, SEEK_CUR);
	size_t whole = 0;
	uint32_t len;
	struct stat st;

	while (whole < done) {
		memcpy(&len, p->bytes + whole + 4, sizeof(len));
		if (whole + len > done)
			break;
		whole += len;
	}
	if (now >= 0 && fstat(p->fd, &st) == 0 && S_ISREG(st.st_mode) && whole < done &&
	    ftruncate(p->fd, now - (off_t)(done - whole)) != 0)
		p->error = -errno;
}

int hk_pcapng_flush(struct hk_pcapng *p)
{
	size_t done = 0;

	while (p->error == 0 && done < p->fill) {
		ssize_t n = write(p->fd, p->bytes + done, p->fill - done);

		if (n >= 0) {
			done += (size_t)n;
		} else if (errno != EINTR) {
			p->error = -errno;
			cut(p, done);
		}
	}
	p->fill = 0;
	return p->error;
}

int hk_pcapng_close(struct hk_pcapng *p)
{
	int rc = hk_pcapng_flush(p);

	if (close(p->fd) != 0 && rc == 0)
		rc = -errno;
	free(p);
	return rc;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void append(struct hk_pcapng *p, const void *bytes, size_t n)
{
	memcpy(p->bytes + p->fill, bytes, n);
	p->fill += n;
}

static void append16(struct hk_pcapng *p, uint16_t v)
{
	append(p, &v, sizeof(v));
}

static void append32(struct hk_pcapng *p, uint32_t v)
{
	append(p, &v, sizeof(v));
}

/* Fills up to a multiple of four bytes. */
static void append_padding(struct hk_pcapng *p)
{
	static const char zero[4];

	append(p, zero, -p->fill & 3);
}

static void block_begin(struct hk_pcapng *p, uint32_t type)
{
	p->block = p->fill;
	append32(p, type);
	append32(p, 0);
}

static void block_end(struct hk_pcapng *p)
{
	uint32_t len = (uint32_t)(p->fill - p->block) + 4;

	append32(p, len);
	memcpy(p->bytes + p->block + 4, &len, sizeof(len));
	if (p->fill >= GATHER)
		(void)hk_pcapng_flush(p); /* the next flush reports the error */
}

static void option(struct hk_pcapng *p, uint16_t code, const void *bytes, size_t n)
{
	append16(p, code);
	append16(p, (uint16_t)n);
	append(p, bytes, n);
	append_padding(p);
}

static void option_text(struct hk_pcapng *p, uint16_t code, const char *text)
{
	if (text && *text)
		option(p, code, text, HK_MIN(strlen(text), (size_t)TEXT_MAX));
}

static void option_u64(struct hk_pcapng *p, uint16_t code, uint64_t v)
{
	option(p, code, &v, sizeof(v));
}

/* A time has two words, the upper one first. */
static void option_time(struct hk_pcapng *p, uint16_t code, uint64_t ns)
{
	const uint32_t words[2] = {(uint32_t)(ns >> 32), (uint32_t)ns};

	option(p, code, words, sizeof(words));
}

static void options_end(struct hk_pcapng *p)
{
	append32(p, OPT_END);
}

void hk_pcapng_section(struct hk_pcapng *p, const char *comment)
{
	const uint64_t unknown = UINT64_MAX;
	struct utsname u;
	char os[2 * sizeof(u.sysname) + 2] = "";

	if (uname(&u) == 0) {
		strcpy(os, u.sysname);
		strcat(os, " ");
		strcat(os, u.release);
	}
	block_begin(p, BLOCK_SECTION);
	append32(p, 0x1a2b3c4d); /* shows the byte order */
	append16(p, 1);
	append16(p, 0);
	append(p, &unknown, sizeof(unknown));
	option_text(p, OPT_COMMENT, comment);
	option_text(p, SHB_OS, os);
	option_text(p, SHB_APPLICATION, "hikyaku capture " HK_RELEASE);
	options_end(p);
	block_end(p);
}

uint32_t hk_pcapng_interface(struct hk_pcapng *p, const struct hk_pcapng_interface *i)
{
	const uint8_t resolution = RESOLUTION_NS;

	block_begin(p, BLOCK_INTERFACE);
	append16(p, LINKTYPE_ETHERNET);
	append16(p, 0);
	append32(p, i->snaplen);
	option_text(p, IF_NAME, i->name);
	option_text(p, IF_DESCRIPTION, i->description);
	option(p, IF_MAC, i->mac, sizeof(i->mac));
	if (i->bits_per_s)
		option_u64(p, IF_SPEED, i->bits_per_s);
	option(p, IF_TSRESOL, &resolution, 1);
	if (i->filter && *i->filter) {
		char text[257] = {0}; /* 0: a readable text follows */

		memcpy(text + 1, i->filter, strnlen(i->filter, sizeof(text) - 2));
		option(p, IF_FILTER, text, 1 + strlen(text + 1));
	}
	option_text(p, IF_HARDWARE, i->hardware);
	options_end(p);
	block_end(p);
	return p->interfaces++;
}

void hk_pcapng_packet(struct hk_pcapng *p, uint32_t interface, uint64_t ns, unsigned direction,
		      uint32_t queue, const void *bytes, uint32_t cap, uint32_t len)
{
	const uint32_t flags = direction;

	block_begin(p, BLOCK_PACKET);
	append32(p, interface);
	append32(p, (uint32_t)(ns >> 32));
	append32(p, (uint32_t)ns);
	append32(p, cap);
	append32(p, len);
	append(p, bytes, cap);
	append_padding(p);
	option(p, EPB_FLAGS, &flags, sizeof(flags));
	option(p, EPB_QUEUE, &queue, sizeof(queue));
	options_end(p);
	block_end(p);
}

void hk_pcapng_statistics(struct hk_pcapng *p, uint32_t interface,
			  const struct hk_pcapng_statistics *s)
{
	block_begin(p, BLOCK_STATISTICS);
	append32(p, interface);
	append32(p, (uint32_t)(s->end_ns >> 32));
	append32(p, (uint32_t)s->end_ns);
	option_time(p, ISB_START, s->start_ns);
	option_time(p, ISB_END, s->end_ns);
	option_u64(p, ISB_RECEIVED, s->seen);
	option_u64(p, ISB_DROPPED, s->dropped);
	option_u64(p, ISB_DELIVERED, s->written);
	options_end(p);
	block_end(p);
}
