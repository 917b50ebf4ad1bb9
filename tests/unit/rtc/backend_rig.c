/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/rtc/backend_rig.c: see backend_rig.h.
 */
#include "tests/unit/rtc/backend_rig.h"

#include <endian.h>
#include <pthread.h>

static uint8_t byte_of(uint32_t number, unsigned at)
{
	return (uint8_t)((number + 1) * 2654435761u >> 13 ^ at * 167u);
}

void rig_fill(struct hk_rtc_buf *buf, unsigned from, unsigned to, uint32_t number, unsigned len)
{
	struct hk_msg_hdr h = {
		.ver_flags = HK_MSG_VERSION,
		.type = 1,
		.len = htole16((uint16_t)len),
		.src = htole16((uint16_t)from),
		.dst = htole16((uint16_t)to),
		.key = htole32(RIG_KEY),
		.number = htole32(number),
		.epoch = htole16(1),
	};
	memcpy(buf->hdr, &h, sizeof(h));
	for (unsigned i = 0; i < len; i++)
		buf->hdr[HK_MSG_HLEN + i] = byte_of(number, i);
	buf->len = HK_MSG_HLEN + len;
	if (rig_protect) { /* the trailer is the node's */
		*buf->hdr |= HK_MSG_F_TAG;
		memset(buf->hdr + buf->len, 0, HK_MSG_TRAILER_LEN);
		buf->len += HK_MSG_TRAILER_LEN;
	}
	buf->dst = (uint16_t)to;
}

uint32_t rig_check(unsigned node, const struct hk_rtc_buf *buf, unsigned *from, unsigned *len)
{
	struct hk_msg_hdr h;

	CHECK_CMP(buf->len, >=, HK_MSG_HLEN);
	memcpy(&h, buf->hdr, sizeof(h));
	*len = le16toh(h.len);
	*from = le16toh(h.src);
	uint32_t number = le32toh(h.number);
	CHECK_EQ(h.ver_flags, HK_MSG_VERSION | (rig_protect ? HK_MSG_F_TAG : 0u));
	CHECK_EQ(le32toh(h.key), RIG_KEY);
	CHECK_EQ(le16toh(h.dst), node);
	CHECK_CMP(buf->len, >=, HK_MSG_HLEN + *len);
	for (unsigned i = 0; i < *len; i++)
		CHECK_MSG(buf->hdr[HK_MSG_HLEN + i] == byte_of(number, i),
			  "message %u of %u bytes: byte %u is wrong", number, *len, i);
	return number;
}

bool rig_send(struct rig *r, unsigned from, unsigned to, uint32_t number, unsigned len)
{
	struct hk_rtc_buf *buf;

	if (r->ops->alloc(r->b[from], &buf, 1) == 0)
		return false;
	rig_fill(buf, from, to, number, len);
	r->ops->tx(r->b[from], &buf, 1);
	return true;
}

unsigned rig_rx(struct rig *r, unsigned node, uint32_t *number)
{
	struct hk_rtc_buf *m[HK_RTC_BURST];
	unsigned n = r->ops->rx(r->b[node], m, HK_RTC_BURST), from, len;

	CHECK_CMP(n, <=, HK_RTC_BURST);
	for (unsigned i = 0; i < n; i++) {
		CHECK_CMP(m[i]->index, <, r->b[node]->buffers);
		CHECK(r->b[node]->buf[m[i]->index] == m[i]);
		uint32_t got = rig_check(node, m[i], &from, &len);
		CHECK_CMP(from, <, r->nodes);
		if (number)
			number[i] = got;
	}
	r->ops->free(r->b[node], m, n);
	return n;
}

void rig_meet(struct rig *r, unsigned mask)
{
	bool received[RIG_NODES][RIG_NODES] = {0};
	int64_t end = hk_clock_ms() + RIG_MS;
	unsigned left;

	do {
		CHECK_MSG(hk_clock_ms() < end, "nodes do not reach each other");
		left = 0;
		for (unsigned i = 0; i < r->nodes; i++) {
			if (!(mask & 1u << i))
				continue;
			for (unsigned j = 0; j < r->nodes; j++)
				if (j != i && mask & 1u << j && !received[j][i])
					rig_send(r, i, j, i, 8);
			struct hk_rtc_buf *m[HK_RTC_BURST];
			unsigned n = r->ops->rx(r->b[i], m, HK_RTC_BURST), from, len;
			for (unsigned k = 0; k < n; k++) {
				rig_check(i, m[k], &from, &len);
				CHECK_CMP(from, <, r->nodes);
				received[i][from] = true;
			}
			r->ops->free(r->b[i], m, n);
			for (unsigned j = 0; j < r->nodes; j++)
				left += j != i && mask & 1u << j && !received[i][j];
		}
	} while (left);
	/* receive repeated messages now, so that later tests do not see them */
	for (unsigned quiet = 0; quiet < 100; quiet++)
		for (unsigned i = 0; i < r->nodes; i++)
			if (mask & 1u << i && rig_rx(r, i, NULL))
				quiet = 0;
}

struct hk_rtc_protect *(*rig_protect)(const struct hk_rtc_config *cfg);

static void open_one(struct rig *r, unsigned node)
{
	r->cfg[node].protection = rig_protect ? HK_RTC_PROTECTION_AUTH : HK_RTC_PROTECTION_OFF;
	CHECK_OK(r->ops->open(&r->cfg[node], r->option, &r->b[node], ERR));
	CHECK(r->b[node]->ops == r->ops);
	if (rig_protect)
		r->b[node]->protect = rig_protect(&r->cfg[node]);
}

static void add_peers(struct rig *r, unsigned node)
{
	for (unsigned i = 0; i < r->nodes; i++)
		if (i != node)
			CHECK_OK(r->ops->peer(r->b[node], (uint16_t)i, r->address[i], ERR));
}

static void *connect_one(void *backend)
{
	struct hk_rtc_backend *b = backend;

	if (b->ops->connect)
		CHECK_OK(b->ops->connect(b, hk_clock_ms() + RIG_MS, ERR));
	return NULL;
}

void rig_up(struct rig *r, const struct hk_rtc_backend_ops *ops, const char *option, unsigned nodes,
	    const char *const *addresses, void (*change)(struct hk_rtc_config *cfg))
{
	pthread_t thread[RIG_NODES];

	*r = (struct rig){.ops = ops, .option = option, .nodes = nodes};
	for (unsigned i = 0; i < nodes; i++) {
		r->cfg[i] = (struct hk_rtc_config){.backend = ops->name,
						   .address = *addresses,
						   .node = (uint16_t)i,
						   .nodes = (uint16_t)nodes,
						   .key = RIG_KEY,
						   .buffers = 512};
		if (addresses[1])
			addresses++;
		if (change)
			change(&r->cfg[i]);
		open_one(r, i);
		snprintf(r->address[i], sizeof(r->address[i]), "%s", r->b[i]->address);
	}
	for (unsigned i = 0; i < nodes; i++)
		add_peers(r, i);
	for (unsigned i = 0; i < nodes; i++)
		CHECK(pthread_create(&thread[i], NULL, connect_one, r->b[i]) == 0);
	for (unsigned i = 0; i < nodes; i++)
		pthread_join(thread[i], NULL);
}

void rig_close(struct rig *r, unsigned node)
{
	struct hk_rtc_protect *p = r->b[node]->protect;

	r->ops->close(r->b[node]);
	if (p)
		p->close(p);
	r->b[node] = NULL;
}

void rig_reopen(struct rig *r, unsigned node)
{
	if (strcmp(r->ops->name, "raw") != 0) /* raw: its address is not an interface name */
		r->cfg[node].address = r->address[node];
	r->cfg[node].peers_file = "of a node that comes late";
	open_one(r, node);
	CHECK(strcmp(r->b[node]->address, r->address[node]) == 0);
	add_peers(r, node);
	if (r->ops->connect)
		CHECK_OK(r->ops->connect(r->b[node], hk_clock_ms() + RIG_MS, ERR));
}

void rig_down(struct rig *r)
{
	for (unsigned i = 0; i < r->nodes; i++)
		if (r->b[i])
			rig_close(r, i);
}

void rig_all_free(struct rig *r, unsigned node, unsigned kept)
{
	struct hk_rtc_buf *m[1024];
	struct hk_rtc_backend *b = r->b[node];
	unsigned n = 0, got;

	CHECK_CMP(b->buffers, <=, HK_ARRAY_LEN(m));
	uint64_t before = b->no_buffer;
	while ((got = r->ops->alloc(b, m + n, HK_MIN(b->buffers - n + 1, 7u))) > 0)
		n += got;
	CHECK_CMP(b->no_buffer, >, before);
	CHECK_CMP(n, >=, b->buffers - kept);
	for (unsigned i = 0; i < n; i++)
		for (unsigned j = i + 1; j < n; j++)
			CHECK(m[i] != m[j]);
	r->ops->free(b, m, n);
}
