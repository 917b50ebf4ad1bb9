/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/tcp_open.c: opens and closes the tcp backend, and allocates its memory.
 */
#include "rtc/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BATCH_IN  (64u << 10) /* bytes to ask for at once */
#define OUT       (64u << 10) /* most bytes that wait to be sent */
#define HEADERS   52u         /* of IPv4 and TCP with time stamps */
#define FRAME_MAX 9000u

void hk_rtc_tcp_close(struct hk_rtc_backend *b)
{
	struct hk_rtc_tcp *t = (struct hk_rtc_tcp *)b;

	hk_rtc_tcp_close_links(t);
	hk_rtc_slab_close(&t->slab);
	if (t->memory)
		munmap(t->memory, t->bytes);
	free(t->conn);
	free(t->up);
	free(t->ready);
	free(t);
}

static int read_option(struct hk_rtc_tcp *t, const char *option, struct hk_error *err)
{
	if (*option && strcmp(option, "batch=1") != 0 && strcmp(option, "batch=0") != 0)
		return hk_error_set(
			err, -EINVAL,
			"backend tcp has no option '%s'; fix: use 'tcp' or 'tcp:batch=1'", option);
	t->batch = strcmp(option, "batch=1") == 0;
	return 0;
}

/* Allocates buffers, and `in` and `out` of each connection. An unused connection touches no memory.
 */
static int make_memory(struct hk_rtc_tcp *t, const struct hk_rtc_config *cfg, struct hk_error *err)
{
	if (cfg->payload_max > UINT16_MAX)
		return hk_error_set(err, -EMSGSIZE,
				    "payload_max %u is too large; fix: use at most %u",
				    cfg->payload_max, UINT16_MAX);
	/* a message fits one segment, for comparison with the other backends; loopback's MTU is
	 * very large */
	t->base.payload_max = cfg->payload_max ? cfg->payload_max
					       : HK_MIN(t->here.mtu, FRAME_MAX) - HEADERS -
							 HK_MSG_HLEN - t->base.trailer;
	t->longest = HK_MSG_HLEN + hk_rtc_longest_payload(&t->base) + t->base.trailer;
	t->in_size = HK_MAX(t->batch ? BATCH_IN : (unsigned)sizeof(struct hk_rtc_tcp_greeting),
			    2 * t->longest);
	t->out_size = HK_MAX(OUT, 2 * t->longest);
	t->bytes = (size_t)t->nodes * (t->in_size + t->out_size);
	t->conn = calloc(t->nodes, sizeof(*t->conn));
	t->up = calloc(t->nodes, sizeof(struct hk_rtc_tcp_conn *));
	t->ready = calloc(t->nodes, sizeof(*t->ready));
	t->memory = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t->memory == MAP_FAILED)
		t->memory = NULL;
	if (!t->conn || !t->up || !t->ready || !t->memory)
		return hk_error_set(err, -ENOMEM,
				    "no memory for %u connections; fix: start fewer nodes",
				    t->nodes);
	for (unsigned i = 0; i < t->nodes; i++) {
		struct hk_rtc_tcp_conn *c = &t->conn[i];
		c->fd = -1;
		c->node = (uint16_t)i;
		c->pause_ms = HK_RTC_TCP_PAUSE_MS;
		c->in = t->memory + (size_t)i * (t->in_size + t->out_size);
		c->out = c->in + t->in_size;
	}
	return hk_rtc_slab_open(&t->slab, &t->base, cfg, 0, err);
}

int hk_rtc_tcp_open(const struct hk_rtc_config *cfg, const char *option, struct hk_rtc_backend **b,
		    struct hk_error *err)
{
	struct hk_rtc_tcp *t = calloc(1, sizeof(*t));
	struct timespec now;
	int rc;

	if (!t)
		return hk_error_set(err, -ENOMEM, "no memory for backend tcp");
	clock_gettime(CLOCK_REALTIME, &now);
	t->base.ops = &hk_rtc_backend_tcp;
	t->node = cfg->node;
	t->nodes = cfg->nodes ? cfg->nodes : 1;
	t->base.trailer = hk_rtc_trailer_len(cfg);
	t->expected = (struct hk_rtc_tcp_expected){
		.node = cfg->node,
		.nodes = t->nodes,
		.key = cfg->key,
		.proved = t->base.trailer != 0,
	};
	t->peers_late = cfg->peers_file != NULL;
	t->incarnation = (uint64_t)now.tv_sec * HK_SEC + (uint64_t)now.tv_nsec;
	t->listener = t->epoll = -1;
	for (unsigned i = 0; i < HK_RTC_TCP_INCOMING; i++)
		t->incoming[i].fd = -1;
	rc = read_option(t, option, err);
	if (rc == 0)
		rc = hk_rtc_inet_local(cfg->address, &t->here, err);
	if (rc == 0)
		rc = make_memory(t, cfg, err);
	if (rc == 0)
		rc = hk_rtc_tcp_listen(t, err);
	if (rc) {
		hk_rtc_tcp_close(&t->base);
		return rc;
	}
	hk_rtc_inet_text(&t->here.addr, t->base.address, sizeof(t->base.address));
	*b = &t->base;
	return 0;
}

int hk_rtc_tcp_peer(struct hk_rtc_backend *b, uint16_t node, const char *address,
		    struct hk_error *err)
{
	struct hk_rtc_tcp *t = (struct hk_rtc_tcp *)b;

	if (node >= t->nodes || node == t->node)
		return hk_error_set(err, -ERANGE, "node %u of %u is not a peer", node, t->nodes);
	t->peers += !t->conn[node].addr.sin_family;
	return hk_rtc_inet_peer(address, &t->conn[node].addr, err);
}

int hk_rtc_tcp_connect(struct hk_rtc_backend *b, int64_t deadline_ms, struct hk_error *err)
{
	return hk_rtc_tcp_connect_all((struct hk_rtc_tcp *)b, deadline_ms, err);
}
