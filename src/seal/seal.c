/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/seal.c: contexts of peers, and the protection of a frame.
 */
#include "seal/internal.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>

struct context {
	struct hk_seal_key send, receive[2]; /* receive: by generation modulo 2 */
	struct hk_seal_peer *peer;           /* whose it is; NULL: free */
	uint8_t secret[HK_AGREE_LEN];
	bool used; /* since the hand of the clock passed */
};

struct hk_seal {
	struct hk_seal_config cfg;
	uint64_t counter; /* of the next frame */
	uint64_t try_at;  /* ns: no key is computed before, because one was in vain */
	uint32_t fresh;   /* contexts from here on have not been written */
	uint32_t hand;    /* where the search for an idle context goes on */
	uint8_t job_key[HK_AGREE_LEN];
	uint8_t private_key[HK_AGREE_LEN], public_key[HK_AGREE_LEN];
	_Alignas(64) struct context context[];
};

#define RETRY (100 * HK_USEC)

/* ---- keys ------------------------------------------------------------------------------------ */

/* Everything that a key depends on beside the secret. Its bytes are all written. */
struct info {
	char label[20];
	uint32_t job, from, from_epoch, to, to_epoch, generation;
	uint8_t from_key[HK_AGREE_LEN], to_key[HK_AGREE_LEN];
};
_Static_assert(sizeof(struct info) == 20 + 6 * 4 + 2 * HK_AGREE_LEN, "no padding");

static uint32_t le32(uint32_t v)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap32(v);
#else
	return v;
#endif
}

bool hk_seal_derive(const struct hk_seal *s, const uint8_t secret[HK_AGREE_LEN],
		    const struct hk_seal_use *use, struct hk_seal_key *key)
{
	struct info info = {
		.label = "hikyaku-frame-key-1",
		.job = le32(use->job),
		.from = le32(use->from),
		.from_epoch = le32(use->from_epoch),
		.to = le32(use->to),
		.to_epoch = le32(use->to_epoch),
		.generation = le32(use->generation),
	};

	if (use->from_key)
		memcpy(info.from_key, use->from_key, HK_AGREE_LEN);
	if (use->to_key)
		memcpy(info.to_key, use->to_key, HK_AGREE_LEN);
	if (!hk_seal_key_make(key, secret, s->cfg.job_key, &info, sizeof(info)))
		return false;
	key->generation = use->generation;
	return true;
}

/* Computes a key of @p from @secret. */
static bool derive(const struct hk_seal *s, const struct hk_seal_peer *p,
		   const uint8_t secret[HK_AGREE_LEN], bool sending, uint32_t generation,
		   struct hk_seal_key *key)
{
	const struct hk_seal_config *c = &s->cfg;
	const struct hk_seal_use use = {
		.job = c->job,
		.from = sending ? c->endpoint : p->endpoint,
		.from_epoch = sending ? c->epoch : p->epoch,
		.to = sending ? p->endpoint : c->endpoint,
		.to_epoch = sending ? p->epoch : c->epoch,
		.generation = generation,
		.from_key = sending ? s->public_key : p->public_key,
		.to_key = sending ? p->public_key : s->public_key,
	};

	return hk_seal_derive(s, secret, &use, key);
}

static struct context *context_of(struct hk_seal *s, const struct hk_seal_peer *p)
{
	struct context *c = &s->context[p->context - 1];

	return HK_LIKELY(p->context != 0) ? c : NULL;
}

/* A context that no peer has used of late. Of each context the hand passes, the next pass takes it
 * unless its peer has used it meanwhile. */
static struct context *context_take(struct hk_seal *s)
{
	struct context *c;

	if (s->fresh < s->cfg.contexts)
		return &s->context[s->fresh++];
	for (;; c->used = false) {
		c = &s->context[s->hand];
		s->hand = s->hand + 1 < s->cfg.contexts ? s->hand + 1 : 0;
		if (!c->used)
			break;
	}
	if (c->peer)
		c->peer->context = 0;
	return c;
}

static struct context *context_give(struct hk_seal *s, struct hk_seal_peer *p,
				    const uint8_t secret[HK_AGREE_LEN])
{
	struct context *c = context_take(s);

	c->send.known = c->receive[0].known = c->receive[1].known = false;
	c->peer = p;
	c->used = true;
	memcpy(c->secret, secret, HK_AGREE_LEN);
	p->context = (uint32_t)(c - s->context) + 1;
	return c;
}

/* ---- the endpoint ---------------------------------------------------------------------------- */

size_t hk_seal_size(const struct hk_seal_config *cfg)
{
	return sizeof(struct hk_seal) + cfg->contexts * sizeof(struct context);
}

int hk_seal_attach(struct hk_error *err)
{
	return hk_gcm_start(err);
}

struct hk_seal *hk_seal_init(void *memory, const struct hk_seal_config *cfg, struct hk_error *err)
{
	struct hk_seal *s = memory;

	if (hk_gcm_start(err) != 0)
		return NULL;
	memset(s, 0, sizeof(*s));
	s->cfg = *cfg;
	s->cfg.rotate = cfg->rotate ? cfg->rotate : HK_SEAL_ROTATE;
	s->counter = 1;
	if (cfg->job_key) {
		memcpy(s->job_key, cfg->job_key, sizeof(s->job_key));
		s->cfg.job_key = s->job_key;
	}
	return hk_agree_keys(s->private_key, s->public_key, err) == 0 ? s : NULL;
}

void hk_seal_end(struct hk_seal *s)
{
	OPENSSL_cleanse(s, sizeof(*s) + s->fresh * sizeof(struct context));
}

uint64_t hk_seal_count(struct hk_seal *s)
{
	return s->counter++;
}

const struct hk_seal_config *hk_seal_cfg(const struct hk_seal *s)
{
	return &s->cfg;
}

const uint8_t *hk_seal_public_key(const struct hk_seal *s)
{
	return s->public_key;
}

void hk_seal_peer_set(struct hk_seal *s, struct hk_seal_peer *p, uint32_t endpoint, uint32_t epoch,
		      const uint8_t public_key[HK_AGREE_LEN])
{
	struct context *c = context_of(s, p);

	if (p->endpoint == endpoint && p->epoch == epoch &&
	    memcmp(p->public_key, public_key, HK_AGREE_LEN) == 0)
		return;
	if (c) {
		c->peer = NULL;
		c->used = false;
	}
	*p = (struct hk_seal_peer){.endpoint = endpoint, .epoch = epoch};
	memcpy(p->public_key, public_key, HK_AGREE_LEN);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* The key for frames to @p of @generation; computes it if it must. */
static HK_NOINLINE struct hk_seal_key *send_key_new(struct hk_seal *s, struct hk_seal_peer *p,
						    uint32_t generation)
{
	struct context *c = context_of(s, p);
	uint8_t secret[HK_AGREE_LEN];

	if (!c && hk_agree_secret(s->private_key, p->public_key, secret)) {
		c = context_give(s, p, secret);
		OPENSSL_cleanse(secret, sizeof(secret));
	}
	return c && derive(s, p, c->secret, true, generation, &c->send) ? &c->send : NULL;
}

static inline struct hk_seal_key *send_key(struct hk_seal *s, struct hk_seal_peer *p,
					   uint64_t counter)
{
	struct context *c = context_of(s, p);
	uint32_t generation = (uint32_t)(counter >> s->cfg.rotate);

	if (HK_LIKELY(c && c->send.known && c->send.generation == generation)) {
		c->used = true;
		return &c->send;
	}
	return send_key_new(s, p, generation);
}

bool hk_seal_sign(struct hk_seal *s, struct hk_seal_peer *p, void *base,
		  const struct hk_gcm_piece *body)
{
	uint64_t counter = hk_seal_count(s);
	const struct hk_seal_key *k = send_key(s, p, counter);

	if (HK_UNLIKELY(!k))
		return false;
	hk_seal_write_tag(k, counter, base, body);
	return true;
}

size_t hk_seal_encrypt(struct hk_seal *s, struct hk_seal_peer *p, const struct hk_gcm_piece *piece,
		       unsigned count, void *to)
{
	uint64_t counter = hk_seal_count(s);
	const struct hk_seal_key *k = send_key(s, p, counter);

	return HK_UNLIKELY(!k) ? 0 : hk_seal_write_encrypted(k, counter, piece, count, to);
}

#define PIECES 4

size_t hk_seal_write_encrypted(const struct hk_seal_key *k, uint64_t counter,
			       const struct hk_gcm_piece *piece, unsigned count, uint8_t *base)
{
	struct hk_gcm_piece secret[PIECES];
	uint8_t nonce[HK_GCM_NONCE_LEN];
	size_t covered = 0;

	if (HK_UNLIKELY(count > PIECES))
		return 0;
	for (unsigned i = 0; i < count; covered += piece[i].len, i++)
		secret[i] = piece[i];
	secret[0].base = (const uint8_t *)piece[0].base + HK_WIRE_CLEAR_LEN;
	secret[0].len = piece[0].len - HK_WIRE_CLEAR_LEN;
	uint8_t *trailer = base + covered;

	memmove(base, piece[0].base, HK_WIRE_CLEAR_LEN);
	hk_wire_seal_encode(base, HK_WIRE_SEAL, (uint8_t)k->generation, counter, trailer);
	hk_seal_nonce(nonce, k, trailer);
	hk_gcm_encrypt(&k->gcm, nonce, base, HK_WIRE_CLEAR_LEN, secret, count,
		       base + HK_WIRE_CLEAR_LEN, trailer + offsetof(struct hk_wire_seal, tag));
	return covered + HK_WIRE_SEAL_LEN;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static inline bool opens(const struct hk_seal *s, const struct hk_seal_key *k,
			 const struct hk_wire_sealed *f)
{
	return hk_seal_read(k, f, s->cfg.protection == HK_WIRE_SEAL);
}

/* There is no key at hand for this frame. Its sender's state changes only if the frame is right. */
static HK_NOINLINE bool open_with_new_key(struct hk_seal *s, struct hk_seal_peer *p,
					  const struct hk_wire_sealed *f, uint32_t generation,
					  uint64_t now)
{
	struct context *c = context_of(s, p);
	uint8_t secret[HK_AGREE_LEN];
	struct hk_seal_key key = {0};

	if (now < s->try_at)
		return false;
	bool known = c || hk_agree_secret(s->private_key, p->public_key, secret);

	if (c)
		memcpy(secret, c->secret, sizeof(secret));
	bool right = known && derive(s, p, secret, false, generation, &key) && opens(s, &key, f);

	if (right) {
		if (!c)
			c = context_give(s, p, secret);
		c->receive[generation & 1] = key;
		p->generation = HK_MAX(p->generation, generation);
	} else {
		s->try_at = now + RETRY;
	}
	OPENSSL_cleanse(secret, sizeof(secret));
	OPENSSL_cleanse(&key, sizeof(key));
	return right;
}

bool hk_seal_open(struct hk_seal *s, struct hk_seal_peer *p, const struct hk_wire_sealed *f,
		  uint64_t now)
{
	uint64_t generation = f->counter >> s->cfg.rotate;

	if (HK_UNLIKELY(f->job != s->cfg.job || f->dst != s->cfg.endpoint ||
			f->dst_epoch != s->cfg.epoch || f->src != p->endpoint ||
			f->src_epoch != p->epoch || f->key_index != (uint8_t)generation ||
			generation + 1 < p->generation || generation > UINT32_MAX))
		return false;
	struct context *c = context_of(s, p);
	struct hk_seal_key *k = c ? &c->receive[generation & 1] : NULL;

	if (HK_UNLIKELY(!k || !k->known || k->generation != generation))
		return open_with_new_key(s, p, f, (uint32_t)generation, now);
	c->used = true;
	return opens(s, k, f);
}
