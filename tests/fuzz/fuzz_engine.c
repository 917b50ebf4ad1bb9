/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/fuzz/fuzz_engine.c: arbitrary bytes as the life of an engine.
 *
 * The target reads the input as a list of steps: frames arrive, packets are sent, time passes, the
 * caller reaps, holds buffers and adds peers. Frames are raw bytes, or raw fields in a frame that
 * is otherwise valid (key, endpoints, epochs, checksum). Packet numbers are near those in use. So
 * the fuzzer reaches the code behind the checks.
 *
 * Invariants for every input:
 *   - no access out of bounds, which the sanitizers check;
 *   - every token comes out once, and only if it went in;
 *   - no window is exceeded, and polling ends;
 *   - when no peer answers any longer, time alone returns every buffer.
 */
#include "engine/engine.h"
#include "tests/support/frames.h"
#include "tests/support/hk_test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SELF   1u
#define KEY    7u
#define EPOCH  1000u
#define PEERS  5 /* endpoints 2 to 6 send; the table has space for four */
#define TOKENS 4096

enum token_state { TOKEN_NEW = 0, TOKEN_OUT, TOKEN_DONE };

struct world {
	const uint8_t *data;
	size_t left;
	struct hk_engine *e;
	struct hk_engine_config cfg;
	uint64_t now;
	uint32_t tx_tokens, rx_tokens;
	uint8_t tx[TOKENS], rx[TOKENS]; /* enum token_state */
	int held[PEERS + 4];            /* delivered buffers that are held, for each peer index */
	uint32_t epoch[PEERS];
	uint32_t sent[PEERS]; /* packets sent so far, to each endpoint */
};

/* ---- reading the input --------------------------------------------------------------------- */

static uint8_t byte(struct world *w)
{
	if (w->left == 0)
		return 0;
	w->left--;
	return *w->data++;
}

static uint16_t two(struct world *w)
{
	uint16_t low = byte(w);
	return (uint16_t)(low | byte(w) << 8);
}

/* ---- tokens -------------------------------------------------------------------------------- */

static void tx_token_back(struct world *w, uint64_t token)
{
	CHECK(token < TOKENS && w->tx[token] == TOKEN_OUT);
	w->tx[token] = TOKEN_DONE;
}

static void rx_token_back(struct world *w, uint64_t token)
{
	CHECK(token < TOKENS && w->rx[token] == TOKEN_OUT);
	w->rx[token] = TOKEN_DONE;
}

static void reap(struct world *w, unsigned max)
{
	uint64_t tokens[64];
	unsigned n = hk_engine_reap(w->e, tokens, max);

	CHECK(n <= max);
	for (unsigned i = 0; i < n; i++)
		tx_token_back(w, tokens[i] & ~HK_TOKEN_LOST);
	n = hk_engine_reap_rx(w->e, tokens, max);
	CHECK(n <= max);
	for (unsigned i = 0; i < n; i++)
		rx_token_back(w, tokens[i]);
}

/* ---- steps --------------------------------------------------------------------------------- */

static void poll_some(struct world *w, unsigned max)
{
	struct hk_out out[64];
	unsigned got, rounds = 0;

	do {
		got = hk_engine_poll(w->e, w->now, out, max);
		CHECK(got <= max);
		for (unsigned i = 0; i < got; i++) {
			CHECK(out[i].len >= HK_WIRE_HLEN && out[i].len <= sizeof(out[i].bytes));
			if (out[i].kind == HK_OUT_RESEND)
				CHECK(out[i].token < TOKENS && w->tx[out[i].token] == TOKEN_OUT);
		}
		/* polls at one time must come to an end */
		CHECK(++rounds < 10000);
	} while (got == max);
}

static void read_disconnects(struct world *w)
{
	enum hk_disconnect_reason why;
	hk_peer p;

	for (unsigned i = 0; (p = hk_engine_next_disconnect(w->e, &why)) != HK_PEER_NONE; i++) {
		CHECK(i < w->cfg.max_peers);
		CHECK(why != HK_DISCONNECT_NONE);
		CHECK(hk_engine_available(w->e, p) == 0 && hk_engine_unacked(w->e, p) == 0);
	}
}

static void send(struct world *w, uint8_t how)
{
	hk_peer p = hk_engine_peer_find(w->e, 2 + how % PEERS);
	struct hk_packet pkt = {.type = HK_WIRE_DATA, .len = 32, .frags = 1};
	uint8_t hdr[HK_WIRE_HLEN];

	if (p == HK_PEER_NONE || w->tx_tokens == TOKENS)
		return;
	uint8_t frags = how & 0x80 ? 1 + (how >> 3) % HK_WIRE_MAX_FRAGS : 1;
	if (how & 0x40)
		pkt.type = HK_WIRE_PUT, pkt.frags = 0, frags = 1;
	else
		pkt.frags = frags;
	if (how & 0x20)
		pkt.len = 1200; /* bulk, where that needs grants */
	for (uint8_t i = 0; i < frags && w->tx_tokens < TOKENS; i++) {
		unsigned room = hk_engine_available(w->e, p);
		bool granted = hk_engine_granted(w->e, p, pkt.len, w->now);
		pkt.token = w->tx_tokens;
		pkt.frag = pkt.type == HK_WIRE_PUT ? 0 : i;
		bool took = hk_engine_send(w->e, p, &pkt, w->now, hdr);
		CHECK(took == (room > 0 && granted));
		if (!granted)
			hk_engine_want(w->e, p, how * 100u, w->now);
		if (!took)
			return;
		w->tx[w->tx_tokens++] = TOKEN_OUT;
		w->sent[how % PEERS]++;
	}
}

static void input(struct world *w, const uint8_t *frame, size_t len)
{
	struct hk_rx rx;
	uint64_t token = w->rx_tokens;

	if (w->rx_tokens == TOKENS)
		return;
	memset(&rx, 0xa5, sizeof(rx));
	hk_engine_input(w->e, frame, len, token, w->now, &rx);
	switch (rx.result) {
	case HK_RX_DROP:
	case HK_RX_CONTROL:
	case HK_RX_PUT:
		return;
	case HK_RX_MCAST:
		CHECK(rx.f.payload >= frame && rx.f.payload + rx.f.payload_len <= frame + len);
		CHECK(rx.peer == HK_PEER_NONE && !rx.new_peer);
		return;
	case HK_RX_HOLD:
		w->rx[w->rx_tokens++] = TOKEN_OUT;
		return;
	case HK_RX_DELIVER:
		break;
	}
	CHECK(rx.result == HK_RX_DELIVER);
	CHECK(rx.count >= 1 && rx.count <= HK_WIRE_MAX_FRAGS);
	CHECK(rx.f.payload >= frame && rx.f.payload + rx.f.payload_len <= frame + len);
	w->rx[w->rx_tokens++] = TOKEN_OUT;
	bool saw_this = rx.count == 1;
	if (saw_this)
		rx_token_back(w, token);
	for (unsigned i = 0; i < rx.count && rx.count > 1; i++) {
		saw_this |= rx.tokens[i] == token;
		rx_token_back(w, rx.tokens[i]);
	}
	CHECK(saw_this);
}

static void raw_frame(struct world *w)
{
	size_t want = byte(w), len = HK_MIN(want, w->left);
	uint8_t *frame = malloc(len ? len : 1);

	CHECK(frame != NULL);
	memcpy(frame, w->data, len);
	w->data += len;
	w->left -= len;
	input(w, frame, len);
	free(frame);
}

/* Makes a frame with header fields from the input that passes the first checks. */
static void patched_frame(struct world *w)
{
	uint8_t who = byte(w) % PEERS, kind = byte(w), how = byte(w);
	struct hk_wire_hdr h = {
		.version = HK_WIRE_VERSION_BYTE(HK_WIRE_BARE),
		.type = kind % 5 + 1,
		.flags = kind >> 5 | (how & 64 ? HK_WIRE_F_GRANT : 0) |
			 (how & 128 ? HK_WIRE_F_BULK : 0),
		.credit = two(w),
		.job = KEY,
		.src = 2 + who,
		.dst = SELF,
		.src_epoch = w->epoch[who] + (how & 1 ? byte(w) : 0),
		.dst_epoch = EPOCH + (how & 2 ? 1 : 0),
		.psn = (uint32_t)(int16_t)two(w),
		.ack = how & 4 ? w->sent[who] - byte(w) : (uint32_t)(int16_t)two(w),
		.tsval = (uint32_t)(w->now >> HK_WIRE_TS_SHIFT),
		.tsecr = (uint32_t)(w->now >> HK_WIRE_TS_SHIFT) - (how & 8 ? two(w) : 0),
	};
	uint8_t body[64];

	if (h.src_epoch == 0)
		h.src_epoch = 1;
	if (how & 16) /* RESET: the refused epoch */
		h.tsecr = w->epoch[who];
	if (h.type == HK_WIRE_DATA) {
		h.am = byte(w);
		h.frags = how & 32 ? 1 + byte(w) % HK_WIRE_MAX_FRAGS : 1;
		h.frag = how & 32 ? byte(w) % h.frags : 0;
		h.len = 8;
	} else if (h.type == HK_WIRE_PUT) {
		h.len = HK_WIRE_PUT_LEN + 8;
	} else if (h.type == HK_WIRE_ACK) {
		h.len = HK_WIRE_SACK_LEN;
	}
	if (h.type > HK_WIRE_PUT)
		h.flags &= (uint8_t)~HK_WIRE_F_BULK;
	if (h.type > HK_WIRE_ACK)
		h.flags &= (uint8_t)~HK_WIRE_F_GRANT;
	unsigned grant = h.flags & HK_WIRE_F_GRANT ? HK_WIRE_GRANT_LEN : 0;

	h.len = (uint16_t)(h.len + grant);
	for (unsigned i = 0; i < h.len; i++)
		body[i] = byte(w);
	if (h.type == HK_WIRE_ACK)
		body[grant] &= 0xfe;

	/* of exactly its size, so that a sanitizer sees each read beyond it */
	uint8_t *frame = malloc(FRAME_BYTES(h.len) - (w->cfg.protection ? 0 : HK_WIRE_CRC_LEN));
	CHECK(frame != NULL);
	input(w, frame, frame_encode(frame, &h, body, w->cfg.protection));
	free(frame);
}

static void hold(struct world *w, uint8_t how)
{
	hk_peer p = hk_engine_peer_find(w->e, 2 + how % PEERS);

	if (p == HK_PEER_NONE)
		return;
	int delta = how & 0x80 ? -HK_MIN(w->held[p], how >> 3 & 7) : how >> 3 & 7;
	w->held[p] += delta;
	hk_engine_rx_held(w->e, p, delta);
}

static void add(struct world *w, uint8_t how)
{
	unsigned who = how % PEERS;
	uint32_t epoch = w->epoch[who] + (how >> 4 & 3);

	if (hk_engine_peer_add(w->e, 2 + who, epoch, w->now) == HK_PEER_NONE)
		return;
	if (epoch != w->epoch[who])
		w->sent[who] = 0;
	w->epoch[who] = epoch;
}

static void invariants(struct world *w)
{
	unsigned sum = 0;

	for (hk_peer p = 0; p < w->cfg.max_peers; p++) {
		unsigned unacked = hk_engine_unacked(w->e, p);
		if (hk_engine_peer_state(w->e, p) == HK_PEER_FREE)
			continue;
		struct hk_peer_info info;
		hk_engine_peer_info(w->e, p, &info);
		CHECK(unacked <= w->cfg.window && info.in_flight <= unacked);
		CHECK(info.credit <= 0xffff);
		CHECK(hk_engine_available(w->e, p) + unacked <= w->cfg.window);
		sum += unacked;
	}
	CHECK(sum == hk_engine_unacked(w->e, HK_PEER_NONE));
}

/* ---- one input ----------------------------------------------------------------------------- */

static void step(struct world *w)
{
	uint8_t op = byte(w);

	switch (op & 7) {
	case 0:
		raw_frame(w);
		break;
	case 1:
	case 2:
		patched_frame(w);
		break;
	case 3:
		send(w, byte(w));
		break;
	case 4: /* from nanoseconds to hours */
		w->now += (uint64_t)two(w) << (op >> 3 & 31);
		poll_some(w, 1 + (op >> 3) % 64);
		break;
	case 5:
		poll_some(w, 1 + (op >> 3) % 64);
		reap(w, 1 + (op >> 3) % 64);
		break;
	case 6:
		hold(w, byte(w));
		break;
	case 7:
		if (op >> 3 == 31)
			hk_engine_bye(w->e);
		else if (op >> 3 == 30)
			read_disconnects(w);
		else if (op >> 3 == 29)
			hk_engine_set_not_polling(w->e, byte(w) & 1);
		else
			add(w, byte(w));
		break;
	}
	invariants(w);
}

/* Ends all answers: time alone must return every packet's buffer. */
static void end(struct world *w)
{
	for (unsigned i = 0; hk_engine_unacked(w->e, HK_PEER_NONE); i++) {
		CHECK(i < 20000);
		uint64_t at = hk_engine_deadline(w->e);
		CHECK(at != UINT64_MAX); /* a packet is unacknowledged, so a timer must run */
		w->now = HK_MAX(w->now + 1, at);
		poll_some(w, 64);
		read_disconnects(w);
		reap(w, 64);
	}
	while (hk_engine_reap(w->e, (uint64_t[1]){0}, 0))
		;
	for (unsigned i = 0; i < TOKENS / 64 + 1; i++)
		reap(w, 64);
	for (uint32_t i = 0; i < w->tx_tokens; i++)
		CHECK(w->tx[i] == TOKEN_DONE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;
	static _Alignas(64) uint8_t arena[1 << 19];

	memset(&w, 0, sizeof(w));
	w.data = data;
	w.left = size;
	uint8_t shape = byte(&w);
	hk_engine_config_default(&w.cfg);
	w.cfg.key = KEY;
	w.cfg.endpoint = SELF;
	w.cfg.epoch = EPOCH;
	w.cfg.max_peers = 4;
	w.cfg.tx_blocks = 1 + (shape & 3);
	w.cfg.window = (uint16_t)(8 << (shape >> 4 & 3) * 5 / 3);
	w.cfg.rx_budget = 64;
	w.cfg.link_mbps = shape & 8 ? 10000 : 0;
	w.cfg.protection = shape & 0x40 ? HK_PROTECTION_CRC : 0;
	w.cfg.keepalive = shape & 0x80 ? HK_SEC : 0;
	w.cfg.peer_timeout = 2 * HK_SEC;
	w.now = HK_SEC;
	size_t need = hk_engine_size(&w.cfg);
	CHECK(need != 0 && need <= sizeof(arena));
	w.e = hk_engine_init(arena, need, &w.cfg);
	CHECK(w.e != NULL);
	for (unsigned i = 0; i < PEERS; i++)
		w.epoch[i] = 50;
	for (unsigned i = 0; i < 2; i++)
		CHECK(hk_engine_peer_add(w.e, 2 + i, w.epoch[i], w.now) != HK_PEER_NONE);
	while (w.left)
		step(&w);
	end(&w);
	return 0;
}
