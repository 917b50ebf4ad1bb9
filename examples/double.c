/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * examples/double.c: the complete program of docs/rtc.md. Node 0 doubles numbers; the others ask.
 *
 *   hikyaku lab mpirun -np 2 build/examples/double
 */
#include "hikyaku/error.h"
#include "hikyaku/rtc.h"

#include <stdio.h>
#include <string.h>

static void on_message(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	(void)rtc;
	(void)arg;
	for (unsigned i = 0; i < n; i++) {
		uint32_t v;
		if (msg[i].len != sizeof(v))
			continue; /* the default: a reply without a payload */
		memcpy(&v, msg[i].data, sizeof(v));
		v *= 2;
		memcpy(msg[i].data, &v, sizeof(v)); /* the reply replaces the request */
		msg[i].action = HK_RTC_REPLY;
	}
}

static uint32_t left = 3; /* open requests of this node */

static void on_reply(struct hk_rtc *rtc, void *arg, struct hk_msg *msg, unsigned n)
{
	uint32_t v;

	(void)arg;
	for (unsigned i = 0; i < n; i++) {
		if (msg[i].len == sizeof(v)) {
			memcpy(&v, msg[i].data, sizeof(v));
			printf("node %u says %u\n", msg[i].src, v);
		}
	}
	left -= n;
	if (left == 0)
		hk_rtc_stop(rtc);
}

static void on_given_up(struct hk_rtc *rtc, void *arg, uint16_t dst, uint32_t number)
{
	(void)arg;
	fprintf(stderr, "node %u did not answer request %u\n", dst, number);
	hk_rtc_stop(rtc);
}

#define DOUBLE 7 /* its number, 0 to 239 */

static const struct hk_rtc_type type = {
	.name = "double",
	.class = HK_RTC_RETRY,
	.on_message = on_message,
	.on_reply = on_reply,
	.on_given_up = on_given_up,
};

/* Node 0 ends after the last client. */
static void on_member(struct hk_rtc *rtc, void *arg, uint16_t node, bool joined)
{
	(void)arg;
	(void)node;
	(void)joined;
	if (hk_rtc_node(rtc) == 0 && hk_rtc_members(rtc) == 1)
		hk_rtc_stop(rtc);
}

int main(void)
{
	struct hk_rtc_config cfg;
	struct hk_error err;
	struct hk_rtc *rtc;

	hk_rtc_defaults(&cfg);
	cfg.on_member = on_member;
	if (hk_rtc_open(&cfg, &rtc, &err) != 0 || hk_rtc_register(rtc, DOUBLE, &type, &err) != 0) {
		fprintf(stderr, "%s\n", err.text); /* the reason and the fix */
		return 1;
	}
	if (hk_rtc_nodes(rtc) < 2)
		hk_rtc_stop(rtc); /* there is no client */
	for (uint32_t v = 20; v < 23 && hk_rtc_node(rtc) != 0; v++) {
		int rc = hk_rtc_send(rtc, 0, DOUBLE, &v, sizeof(v), NULL);
		if (rc != 0) {
			fprintf(stderr, "not sent: %s\n", strerror(-rc));
			hk_rtc_stop(rtc);
		}
	}
	hk_rtc_run(rtc); /* until hk_rtc_stop() */
	hk_rtc_close(rtc);
	return left == 0 || left == 3 ? 0 : 1;
}
