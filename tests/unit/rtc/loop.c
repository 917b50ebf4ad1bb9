/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/loop.c: see loop.h.
 *
 * The backend counts its buffers: at the end none may be missing, and none may be freed twice.
 */
#include "tests/unit/rtc/loop.h"

#include <errno.h>

struct loop_backend {
	struct hk_rtc_backend b;
	struct loop_net *net;
	uint16_t node;
	struct hk_rtc_buf *bufs;
	uint8_t *bytes;
	bool *out; /* [buffers] whether it is in use */
	unsigned free;
};

static struct loop_net *net_of_open; /* network of the next backend to open */

static struct hk_rtc_buf *take(struct loop_backend *l)
{
	for (unsigned i = 0; l->free && i < l->b.buffers; i++) {
		if (l->out[i])
			continue;
		l->out[i] = true;
		l->free--;
		return &l->bufs[i];
	}
	return NULL;
}

static void give(struct loop_backend *l, struct hk_rtc_buf *b)
{
	CHECK_MSG(l->out[b->index], "buffer %u was freed twice", b->index);
	memset(b->hdr, 0xdd, LOOP_FRAME); /* a freed buffer must not be read */
	l->out[b->index] = false;
	l->free++;
}

static int loop_be_open(const struct hk_rtc_config *cfg, const char *option,
			struct hk_rtc_backend **out, struct hk_error *err)
{
	struct loop_backend *l = calloc(1, sizeof(*l));
	unsigned n = cfg->buffers;

	CHECK(l != NULL);
	l->net = net_of_open;
	l->node = cfg->node;
	l->bufs = calloc(n, sizeof(*l->bufs));
	l->bytes = aligned_alloc(64, n * (size_t)512);
	l->out = calloc(n, sizeof(*l->out));
	l->b.buf = calloc(n, sizeof(struct hk_rtc_buf *));
	CHECK(l->bufs && l->bytes && l->out && l->b.buf);
	l->b.ops = &loop_ops;
	l->b.buffers = l->free = n;
	l->b.payload_max = LOOP_PAYLOAD;
	l->b.trailer = hk_rtc_trailer_len(cfg);
	snprintf(l->b.address, sizeof(l->b.address), "loop:%u", cfg->node);
	for (unsigned i = 0; i < n; i++) {
		l->bufs[i] = (struct hk_rtc_buf){.hdr = l->bytes + i * (size_t)512 + 14,
						 .index = i};
		l->b.buf[i] = &l->bufs[i];
	}
	*out = &l->b;
	return 0;
}

static void loop_be_close(struct hk_rtc_backend *b)
{
	struct loop_backend *l = (struct loop_backend *)b;
	CHECK_MSG(l->free == b->buffers, "%u buffers of node %u are missing", b->buffers - l->free,
		  l->node);
	free(l->bufs);
	free(l->bytes);
	free(l->out);
	free(l->b.buf);
	free(l);
}

static void put_packet(struct loop_net *net, uint16_t node, const void *bytes, size_t len,
		       uint64_t at)
{
	struct loop_packet *p = malloc(sizeof(*p)), **where = &net->to[node];
	CHECK(p && len <= sizeof(p->bytes));
	p->at = at;
	p->len = (uint32_t)len;
	memcpy(p->bytes, bytes, len);
	while (*where && (*where)->at <= at)
		where = &(*where)->next;
	p->next = *where;
	*where = p;
}

void loop_inject(struct loop_net *net, uint16_t node, const void *bytes, size_t len)
{
	put_packet(net, node, bytes, len, net->now);
}

static void transmit(struct loop_backend *l, const struct hk_rtc_buf *b)
{
	struct loop_net *net = l->net;
	unsigned copies = 1 + hk_rng_chance(&net->rng, net->dup);

	CHECK(l->out[b->index] && b->dst < LOOP_NODES && b->dst != l->node);
	CHECK(b->len >= HK_MSG_HLEN && b->len <= LOOP_FRAME);
	net->sent++;
	if (net->tap)
		net->tap(l->node, b->dst, b->hdr, b->len);
	if (net->cut[l->node] || net->mute[l->node] || net->cut[b->dst] ||
	    hk_rng_chance(&net->rng, net->drop)) {
		net->lost++;
		return;
	}
	while (copies--) {
		uint64_t delay = net->delay;
		if (hk_rng_chance(&net->rng, net->late))
			delay += hk_rng_below(&net->rng, 20 * net->delay + 1);
		put_packet(net, b->dst, b->hdr, b->len, net->now + delay);
	}
}

static unsigned loop_be_rx(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	struct loop_backend *l = (struct loop_backend *)b;
	struct loop_packet **from = &l->net->to[l->node];
	unsigned got = 0;

	while (got < n && *from && (*from)->at <= l->net->now) {
		struct loop_packet *p = *from;
		struct hk_rtc_buf *buf = take(l);
		*from = p->next;
		if (buf) {
			memcpy(buf->hdr, p->bytes, p->len);
			buf->len = p->len;
			m[got++] = buf;
		} else {
			b->no_buffer++;
		}
		free(p);
	}
	return got;
}

static void loop_be_tx_copy(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		transmit((struct loop_backend *)b, m[i]);
}

static void loop_be_free(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		give((struct loop_backend *)b, m[i]);
}

static void loop_be_tx(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	loop_be_tx_copy(b, m, n);
	loop_be_free(b, m, n);
}

static unsigned loop_be_alloc(struct hk_rtc_backend *b, struct hk_rtc_buf **m, unsigned n)
{
	unsigned got = 0;
	while (got < n && (m[got] = take((struct loop_backend *)b)))
		got++;
	b->no_buffer += n - got;
	return got;
}

static int loop_be_peer(struct hk_rtc_backend *b, uint16_t node, const char *address,
			struct hk_error *err)
{
	return 0;
}

const struct hk_rtc_backend_ops loop_ops = {
	.name = "loop",
	.open = loop_be_open,
	.peer = loop_be_peer,
	.close = loop_be_close,
	.rx = loop_be_rx,
	.tx = loop_be_tx,
	.tx_copy = loop_be_tx_copy,
	.alloc = loop_be_alloc,
	.free = loop_be_free,
};

/* ---- for tests ------------------------------------------------------------------------------- */

static uint64_t loop_clock(void *arg)
{
	struct loop_net *net = arg;
	/* handler threads read it too */
	return __atomic_add_fetch(&net->now, net->step, __ATOMIC_SEQ_CST);
}

void loop_init(struct loop_net *net, uint64_t seed)
{
	*net = (struct loop_net){.now = 1000 * HK_SEC, .rng = {seed}, .delay = 5 * HK_USEC};
}

void loop_done(struct loop_net *net)
{
	for (unsigned i = 0; i < LOOP_NODES; i++)
		while (net->to[i]) {
			struct loop_packet *p = net->to[i];
			net->to[i] = p->next;
			free(p);
		}
}

int loop_try(struct loop_net *net, const struct hk_rtc_config *cfg, uint16_t epoch,
	     struct hk_rtc **rtc, struct hk_error *err)
{
	struct hk_rtc_config c = *cfg;
	struct hk_rtc_parts parts = {
		.ops = &loop_ops, .epoch = epoch, .clock = {.fake = loop_clock, .arg = net}};

	*rtc = NULL;
	int rc = hk_rtc_check_config(&c, err);
	if (rc)
		return rc;
	net_of_open = net;
	if (net->protect) {
		c.protection = HK_RTC_PROTECTION_AUTH;
		parts.protect = net->protect(&c);
	}
	rc = loop_ops.open(&c, "", &parts.backend, err);
	return rc ? rc : hk_rtc_create(&c, &parts, rtc, err);
}

struct hk_rtc *loop_open(struct loop_net *net, const struct hk_rtc_config *cfg, uint16_t epoch)
{
	struct hk_rtc *rtc;
	CHECK_OK(loop_try(net, cfg, epoch, &rtc, ERR));
	return rtc;
}

void loop_close(struct loop_net *net, struct hk_rtc *rtc, bool crash)
{
	uint16_t node = hk_rtc_node(rtc);
	bool before = net->cut[node];
	net->cut[node] |= crash;
	hk_rtc_close(rtc);
	net->cut[node] = before;
}

void loop_run(struct loop_net *net, struct hk_rtc **node, unsigned n, unsigned rounds,
	      uint64_t step)
{
	for (; rounds; rounds--) {
		net->now += step;
		for (unsigned i = 0; i < n; i++)
			if (node[i])
				hk_rtc_poll(node[i]);
	}
}
