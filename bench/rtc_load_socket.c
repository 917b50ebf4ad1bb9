/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench/rtc_load_socket.c: a receiver as programs without rtc are: a UDP socket of the kernel. It
 * sleeps in recvmmsg(2) until a message comes, takes up to 32, and answers them by one
 * sendmmsg(2).
 */
#include "rtc_load.h"

#include "base/clock.h"
#include "base/inet.h"
#include "rtc/inet.h"
#include "wire/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKET_BYTES (4 << 20)     /* as backend udp asks for */
#define SILENCE      (10 * HK_SEC) /* after which the sender is dead */
#define WAIT_US      100000        /* longest sleep, to notice that */
#define EPOCH        1
#define FRAME        (HK_MSG_HLEN + 128) /* longer than any message of the sender */

static struct {
	int fd;
	uint32_t key;
	bool over;
	uint64_t refused;
	struct mmsghdr msg[HK_RTC_BURST], out[HK_RTC_BURST];
	struct iovec iov[HK_RTC_BURST];
	struct sockaddr_in from[HK_RTC_BURST];
	uint8_t frame[HK_RTC_BURST][FRAME] __attribute__((aligned(64)));
} here;

/* Opens the socket, in which a call may sleep. Returns 0 or an error. */
static int open_socket(const struct hk_rtc_config *cfg, struct hk_error *err)
{
	const struct timeval wait = {.tv_usec = WAIT_US};
	struct hk_rtc_inet at;

	if (!cfg->address)
		return hk_error_set(err, -EINVAL,
				    "the socket has no address; fix: --address IP:PORT, as in the "
				    "sender's --peers");
	int rc = hk_rtc_inet_local(cfg->address, &at, err);
	if (rc == 0)
		rc = here.fd = hk_rtc_inet_bind(&at, SOCK_DGRAM, err);
	if (rc < 0)
		return rc;
	hk_inet_buffers(here.fd, SOCKET_BYTES);
	if (fcntl(here.fd, F_SETFL, 0) != 0 ||
	    setsockopt(here.fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) != 0)
		return hk_error_set(err, -errno, "the socket at %s: %s", cfg->address,
				    strerror(errno));
	return 0;
}

static void prepare(void)
{
	for (unsigned i = 0; i < HK_RTC_BURST; i++) {
		here.iov[i] = (struct iovec){here.frame[i], FRAME};
		here.msg[i].msg_hdr = (struct msghdr){.msg_name = &here.from[i],
						      .msg_namelen = sizeof(here.from[i]),
						      .msg_iov = &here.iov[i],
						      .msg_iovlen = 1};
	}
}

/* Message @i becomes its answer, with @len bytes of payload, and is queued as the @n-th. */
static void answer(unsigned i, unsigned n, struct hk_msg_hdr h, uint16_t len)
{
	h.ver_flags = HK_MSG_VERSION | HK_MSG_F_REPLY;
	h.dst = h.src;
	h.src = 0;
	h.len = len;
	h.epoch = EPOCH;
	if (h.type >= HK_MSG_T_OWN)
		h.ver_flags = HK_MSG_VERSION; /* an alive message is not a reply */
	hk_msg_encode(here.frame[i], &h);
	here.iov[i].iov_len = HK_MSG_HLEN + len;
	here.out[n].msg_hdr = here.msg[i].msg_hdr;
}

/* Handles @n received messages. Returns how many answers are queued. */
static unsigned handle(unsigned n)
{
	struct hk_msg_hdr h[HK_RTC_BURST];
	unsigned at[HK_RTC_BURST], loads = 0, queued = 0;
	void *payload[HK_RTC_BURST];
	uint16_t len[HK_RTC_BURST];

	for (unsigned i = 0; i < n; i++) {
		struct hk_msg_hdr *m = &h[loads];
		size_t bytes = HK_MIN(here.msg[i].msg_len, (unsigned)FRAME);
		if (hk_msg_parse(here.frame[i], bytes, m) != HK_MSG_OK || m->key != here.key ||
		    m->src != 1 || m->dst != 0)
			continue;
		if (m->type == LOAD) {
			at[loads] = i;
			payload[loads] = here.frame[i] + HK_MSG_HLEN;
			len[loads++] = m->len;
			continue;
		}
		here.over |= m->type == HK_MSG_T_LEAVE;
		load_mark(m->type);
		if (m->type == HK_MSG_T_ALIVE || m->type == MARK_BEGIN || m->type == MARK_END)
			answer(i, queued++, *m, 0);
	}
	if (!loads)
		return queued;
	load_answer(payload, len, loads);
	for (unsigned k = 0; k < loads; k++)
		if (len[k])
			answer(at[k], queued++, h[k], len[k]);
	return queued;
}

static void send_all(unsigned n)
{
	unsigned at = 0;

	while (at < n) {
		int sent = sendmmsg(here.fd, here.out + at, n - at, MSG_DONTWAIT);
		if (sent <= 0 && errno == EINTR)
			continue;
		here.refused += sent <= 0;
		at += sent > 0 ? (unsigned)sent : 1;
	}
}

int load_by_socket(const struct hk_rtc_config *cfg)
{
	struct hk_error err = {""};
	uint64_t heard = hk_clock_ns();

	here.key = cfg->key;
	here.fd = -1;
	if (open_socket(cfg, &err) != 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	while (!here.over) {
		prepare();
		int n = recvmmsg(here.fd, here.msg, HK_RTC_BURST, MSG_WAITFORONE, NULL);
		if (n > 0) {
			send_all(handle((unsigned)n));
			heard = hk_clock_ns();
		} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
			fprintf(stderr, "the socket receives nothing: %s\n", strerror(errno));
			break;
		} else if (hk_clock_ns() - heard > SILENCE) {
			fprintf(stderr, "node 1 is silent; fix: start it\n");
			break;
		}
	}
	close(here.fd);
	load_print(here.refused);
	return here.over ? 0 : 1;
}
