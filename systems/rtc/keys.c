/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/keys.c: see rtc/keys.h.
 */
#include "rtc/keys.h"

#include "seal/key.h"
#include "seal/window.h"

#include <endian.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RETRY (100 * HK_USEC) /* no proof is checked for so long after a wrong one */

struct session {
	struct hk_seal_key send, receive; /* unknown: there is no session */
	struct hk_seal_window window;     /* of received counters */
};

struct peer {
	struct session current, candidate;
	uint64_t counter;               /* of the next message to it */
	uint8_t secret[HK_AGREE_LEN];   /* with a launcher: in common with it */
	uint8_t ours[HK_RTC_NONCE_LEN]; /* for the next session */
	uint8_t our_proof[HK_RTC_PROOF_LEN];
	bool proved; /* our_proof is that of our nonce */
	/* of the greeting that made the candidate */
	uint8_t theirs[HK_RTC_NONCE_LEN], their_proof[HK_RTC_PROOF_LEN];
	unsigned heard; /* greetings since our last one */
};

struct keys {
	struct hk_rtc_protect base;
	struct hk_rtc_keys_config cfg;
	uint64_t try_at; /* ns: no proof is checked before */
	uint8_t secret[HK_AGREE_LEN];
	uint8_t private_key[HK_AGREE_LEN], public_key[HK_AGREE_LEN];
	size_t bytes;
	struct peer *peer; /* [nodes] */
};

/* ---- keys ------------------------------------------------------------------------------------ */

/* All that a key depends on beside the secret. Its bytes are all written. */
struct info {
	char label[24];
	uint32_t job;
	uint16_t from, to;
	uint8_t from_nonce[HK_RTC_NONCE_LEN], to_nonce[HK_RTC_NONCE_LEN];
};
_Static_assert(sizeof(struct info) == 32 + 2 * HK_RTC_NONCE_LEN, "no padding");
_Static_assert(HK_RTC_NONCE_LEN == HK_AGREE_LEN, "a public key is a nonce");

/* The secret of the pair, and the salt. */
static const uint8_t *secret_with(const struct keys *k, uint16_t node, const uint8_t **salt)
{
	bool pairs = k->cfg.launcher;

	*salt = pairs ? k->cfg.secret : NULL;
	return pairs ? k->peer[node].secret : k->secret;
}

static bool make_key(struct keys *k, uint16_t node, bool sending, const uint8_t *ours,
		     const uint8_t *theirs, struct hk_seal_key *key)
{
	struct info info = {
		.job = htole32(k->cfg.key),
		.from = htole16(sending ? k->cfg.node : node),
		.to = htole16(sending ? node : k->cfg.node),
	};
	const uint8_t *salt, *secret = secret_with(k, node, &salt);

	strcpy(info.label, k->cfg.seal ? "hikyaku-rtc-sealed-1" : "hikyaku-rtc-message-1");
	memcpy(info.from_nonce, sending ? ours : theirs, HK_RTC_NONCE_LEN);
	memcpy(info.to_nonce, sending ? theirs : ours, HK_RTC_NONCE_LEN);
	return hk_seal_key_make(key, secret, salt, &info, sizeof(info));
}

/* Makes the session of two nonces, in which nothing was received. */
static bool make_session(struct keys *k, uint16_t node, const uint8_t *ours, const uint8_t *theirs,
			 struct session *s)
{
	s->send.known = false;
	memset(&s->window, 0, sizeof(s->window));
	return make_key(k, node, false, ours, theirs, &s->receive) &&
	       make_key(k, node, true, ours, theirs, &s->send);
}

/* @label: says for what the proof is. */
static bool proof_of(const struct keys *k, uint16_t node, const char *label, const void *bytes,
		     size_t len, uint8_t proof[HK_RTC_PROOF_LEN])
{
	uint8_t info[24 + HK_RTC_PROVABLE_MAX] = {0};
	const uint8_t *salt, *secret = secret_with(k, node, &salt);

	if (len > HK_RTC_PROVABLE_MAX)
		return false;
	memcpy(info, label, strlen(label));
	memcpy(info + 24, bytes, len);
	return hk_agree_derive(secret, salt, info, 24 + len, proof, HK_RTC_PROOF_LEN);
}

static bool prove(struct hk_rtc_protect *p, uint16_t node, const void *bytes, size_t len,
		  uint8_t proof[HK_RTC_PROOF_LEN])
{
	return proof_of((struct keys *)p, node, "hikyaku-rtc-connect-1", bytes, len, proof);
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct session *sending(struct peer *p)
{
	return HK_UNLIKELY(p->candidate.send.known) ? &p->candidate : &p->current;
}

static bool ready(const struct hk_rtc_protect *p, uint16_t node)
{
	return sending(&((const struct keys *)p)->peer[node])->send.known;
}

/* Writes the next counter, which is authenticated as the nonce. Returns the key. */
static const struct hk_gcm_key *next_nonce(struct keys *k, uint16_t dst, struct hk_msg_trailer *t,
					   uint8_t nonce[HK_GCM_NONCE_LEN])
{
	struct peer *p = &k->peer[dst];
	const struct session *s = sending(p);

	t->counter = htole64(++p->counter);
	hk_seal_nonce(nonce, &s->send, &t->counter);
	return &s->send.gcm;
}

static void sign(struct hk_rtc_protect *p, struct hk_rtc_buf **m, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		size_t covered = m[i]->len - HK_MSG_TRAILER_LEN;
		struct hk_msg_trailer *t = (void *)(m[i]->hdr + covered);
		const struct hk_gcm_piece whole = {m[i]->hdr, covered};
		uint8_t nonce[HK_GCM_NONCE_LEN];
		const struct hk_gcm_key *key = next_nonce((struct keys *)p, m[i]->dst, t, nonce);

		hk_gcm_sign(key, nonce, &whole, 1, t->tag);
	}
}

/* Encrypts the payload of @m to @frame, which has its header and may be its own. */
static void encrypt(struct hk_rtc_protect *p, const struct hk_rtc_buf *m, uint8_t *frame)
{
	size_t covered = m->len - HK_MSG_TRAILER_LEN;
	struct hk_msg_trailer *t = (void *)(frame + covered);
	const struct hk_gcm_piece payload = {m->hdr + HK_MSG_HLEN, covered - HK_MSG_HLEN};
	uint8_t nonce[HK_GCM_NONCE_LEN];
	const struct hk_gcm_key *key = next_nonce((struct keys *)p, m->dst, t, nonce);

	hk_gcm_encrypt(key, nonce, frame, HK_MSG_HLEN, &payload, 1, frame + HK_MSG_HLEN, t->tag);
}

static void seal(struct hk_rtc_protect *p, struct hk_rtc_buf **m, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		encrypt(p, m[i], m[i]->hdr);
}

static void seal_copy(struct hk_rtc_protect *p, const struct hk_rtc_buf *m, struct hk_rtc_buf *to)
{
	to->len = m->len;
	to->dst = m->dst;
	memcpy(to->hdr, m->hdr, HK_MSG_HLEN);
	encrypt(p, m, to->hdr);
}

/* A received message. */
struct received {
	uint8_t *frame;
	size_t clear, encrypted; /* bytes of header and payload that are, and are not, readable */
	const struct hk_msg_trailer *t;
};

static bool is_right(const struct session *s, const struct received *m)
{
	uint8_t nonce[HK_GCM_NONCE_LEN];

	hk_seal_nonce(nonce, &s->receive, &m->t->counter);
	return hk_gcm_open(&s->receive.gcm, nonce, m->frame, m->clear, m->frame + m->clear,
			   m->encrypted, m->t->tag);
}

/* Takes back what is_right() did to a payload that is not right by @s. */
static void restore(const struct session *s, const struct received *m)
{
	const struct hk_gcm_piece payload = {m->frame + m->clear, m->encrypted};
	uint8_t nonce[HK_GCM_NONCE_LEN], unused[HK_GCM_TAG_LEN];

	hk_seal_nonce(nonce, &s->receive, &m->t->counter);
	hk_gcm_encrypt(&s->receive.gcm, nonce, m->frame, m->clear, &payload, 1, m->frame + m->clear,
		       unused);
}

/* A message came under the keys of the candidate. So its sender knows our present nonce. */
static HK_NOINLINE void promote(struct peer *p, uint64_t counter)
{
	p->current = p->candidate;
	hk_seal_window_mark(&p->current.window, counter);
	OPENSSL_cleanse(&p->candidate, sizeof(p->candidate));
	hk_rtc_nonce_draw(p->ours);
	p->proved = false;
}

/* @m is not right by the present session, if there is one. */
static HK_NOINLINE enum hk_rtc_belief judge_by_candidate(struct peer *p, const struct received *m)
{
	uint64_t counter = le64toh(m->t->counter);

	if (!p->candidate.send.known || counter == 0)
		return HK_RTC_FORGED;
	if (p->current.send.known && m->encrypted)
		restore(&p->current, m);
	if (!is_right(&p->candidate, m))
		return HK_RTC_FORGED;
	promote(p, counter);
	return HK_RTC_GENUINE;
}

static enum hk_rtc_belief judge(struct hk_rtc_protect *protect, uint8_t *frame,
				const struct hk_msg_hdr *h)
{
	struct keys *k = (struct keys *)protect;
	struct peer *p = &k->peer[h->src];
	size_t encrypted = k->cfg.seal ? h->len : 0;
	const struct received m = {
		.frame = frame,
		.clear = HK_MSG_HLEN + (h->len - encrypted),
		.encrypted = encrypted,
		.t = (const void *)(frame + HK_MSG_HLEN + h->len),
	};
	uint64_t counter = le64toh(m.t->counter);

	if (HK_UNLIKELY(!p->current.send.known || !is_right(&p->current, &m)))
		return judge_by_candidate(p, &m);
	if (HK_UNLIKELY(!hk_seal_window_is_new(&p->current.window, counter)))
		return HK_RTC_REPLAYED;
	hk_seal_window_mark(&p->current.window, counter);
	/* it lives in its old session, so it does not know of another one */
	if (HK_UNLIKELY(p->candidate.send.known))
		OPENSSL_cleanse(&p->candidate, sizeof(p->candidate));
	return HK_RTC_GENUINE;
}

/* ---- greetings ------------------------------------------------------------------------------- */

#define GREETING_LEN (HK_MSG_HLEN + HK_RTC_NONCE_LEN + sizeof(uint64_t)) /* without its tag */
_Static_assert(GREETING_LEN <= HK_RTC_PROVABLE_MAX, "a proof covers it");

static bool prove_greeting(const struct keys *k, uint16_t node, const uint8_t *frame,
			   uint8_t proof[HK_RTC_PROOF_LEN])
{
	return proof_of(k, node, "hikyaku-rtc-greeting-1", frame, GREETING_LEN, proof);
}

static bool greet(struct hk_rtc_protect *protect, uint16_t node, uint8_t *frame)
{
	struct keys *k = (struct keys *)protect;
	struct peer *p = &k->peer[node];
	uint8_t *nonce = frame + HK_MSG_HLEN;
	struct hk_msg_trailer *t = (void *)(nonce + HK_RTC_NONCE_LEN);

	memcpy(nonce, p->ours, HK_RTC_NONCE_LEN);
	t->counter = 0;
	p->heard = 0;
	if (!p->proved)
		p->proved = prove_greeting(k, node, frame, p->our_proof);
	memcpy(t->tag, p->our_proof, HK_RTC_PROOF_LEN);
	return p->proved;
}

static bool greeted(struct hk_rtc_protect *protect, const uint8_t *frame,
		    const struct hk_msg_hdr *h, uint64_t now)
{
	struct keys *k = (struct keys *)protect;
	struct peer *p = &k->peer[h->src];
	const uint8_t *nonce = frame + HK_MSG_HLEN;
	const struct hk_msg_trailer *t = (const void *)(nonce + HK_RTC_NONCE_LEN);
	uint8_t proof[HK_RTC_PROOF_LEN], draw[HK_RTC_NONCE_LEN];
	uint32_t chance;

	if (h->len != HK_RTC_NONCE_LEN)
		return false;
	if (p->candidate.send.known && memcmp(p->theirs, nonce, HK_RTC_NONCE_LEN) == 0 &&
	    hk_rtc_proof_equal(p->their_proof, t->tag)) {
		p->heard++;
		return true;
	}
	if (now < k->try_at)
		return false;
	if (!prove_greeting(k, h->src, frame, proof) || !hk_rtc_proof_equal(proof, t->tag)) {
		k->try_at = now + RETRY;
		return false;
	}
	p->heard++;
	hk_rtc_nonce_draw(draw);
	memcpy(&chance, draw, sizeof(chance));
	if (p->candidate.send.known && chance % p->heard != 0)
		return true;
	memcpy(p->theirs, nonce, HK_RTC_NONCE_LEN);
	memcpy(p->their_proof, proof, HK_RTC_PROOF_LEN);
	make_session(k, h->src, p->ours, p->theirs, &p->candidate);
	return true;
}

/* ---- open and close -------------------------------------------------------------------------- */

static void keys_close(struct hk_rtc_protect *p)
{
	struct keys *k = (struct keys *)p;

	for (unsigned i = 0; k->peer && i < k->cfg.nodes; i++)
		if (k->peer[i].counter || k->peer[i].current.send.known ||
		    k->peer[i].candidate.send.known)
			OPENSSL_cleanse(&k->peer[i], sizeof(k->peer[i]));
	if (k->peer)
		munmap(k->peer, k->bytes);
	OPENSSL_cleanse(k, sizeof(*k));
	free(k);
}

int hk_rtc_keys_open(const struct hk_rtc_keys_config *cfg, struct hk_rtc_protect **out,
		     struct hk_error *err)
{
	struct keys *k = calloc(1, sizeof(*k));
	int rc = hk_gcm_start(err);

	*out = NULL;
	if (rc || !k) {
		free(k);
		return rc ? rc : hk_error_set(err, -ENOMEM, "no memory for keys");
	}
	k->base = (struct hk_rtc_protect){
		.apply = cfg->seal ? seal : sign,
		.apply_copy = cfg->seal ? seal_copy : NULL,
		.judge = judge,
		.ready = ready,
		.greet = cfg->launcher ? NULL : greet,
		.greeted = cfg->launcher ? NULL : greeted,
		.prove = prove,
		.close = keys_close,
	};
	k->cfg = *cfg;
	if (cfg->secret) {
		memcpy(k->secret, cfg->secret, sizeof(k->secret));
		k->cfg.secret = k->secret;
	}
	k->bytes = cfg->nodes * sizeof(*k->peer);
	k->peer = mmap(NULL, k->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (k->peer == MAP_FAILED) {
		k->peer = NULL;
		rc = hk_error_set(err, -ENOMEM, "no memory for the keys of %u nodes", cfg->nodes);
	}
	if (rc == 0 && cfg->launcher)
		rc = hk_agree_keys(k->private_key, k->public_key, err);
	for (unsigned i = 0; rc == 0 && !cfg->launcher && i < cfg->nodes; i++)
		hk_rtc_nonce_draw(k->peer[i].ours);
	if (rc) {
		keys_close(&k->base);
		return rc;
	}
	*out = &k->base;
	return 0;
}

const uint8_t *hk_rtc_keys_public(const struct hk_rtc_protect *p)
{
	return ((const struct keys *)p)->public_key;
}

int hk_rtc_keys_peer(struct hk_rtc_protect *protect, uint16_t node,
		     const uint8_t public[HK_AGREE_LEN], struct hk_error *err)
{
	struct keys *k = (struct keys *)protect;
	struct peer *p = &k->peer[node];

	if (hk_agree_secret(k->private_key, public, p->secret) &&
	    make_session(k, node, k->public_key, public, &p->current))
		return 0;
	return hk_error_set(err, -EPROTO,
			    "the public key of node %u is not valid; fix: run the same version on "
			    "all nodes",
			    node);
}
