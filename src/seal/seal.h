/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seal/seal.h: authenticated and encrypted frames (protections `auth` and `seal`, docs/wire.md).
 *
 * A struct hk_seal is one endpoint's side: its own pair of keys, and the keys that it shares with
 * its peers at present. The caller keeps a struct hk_seal_peer for each peer that it knows by an
 * address. There is no handshake: the first frame to a peer carries data. A frame of somebody else
 * is refused, and nothing answers it.
 *
 * Nonces. An endpoint has one 64-bit counter for its frames to all peers. A resend gets a value of
 * its own. A key is made from the sender's key pair, which is new in each incarnation. So no
 * counter repeats under a key. A process that was made by fork() must not use its parent's
 * endpoint.
 *
 * Rotation. The upper bits of the counter are the *generation* of the key (HK_SEAL_ROTATE). So
 * sender and receiver change to the next key by themselves. The receiver refuses generations before
 * the one that precedes the newest. Packet numbers wrap after more frames than two generations
 * have, so a recorded frame cannot pass for a new one.
 *
 * Memory. A struct hk_seal has a fixed number of contexts, each with the expanded keys of one peer.
 * A peer gets one with its first frame, and may lose it to another when it has been idle. Then its
 * next frame costs some 50 µs more, to compute its keys. Everything lies in memory that the
 * caller gives. It contains pointers into itself and to peers, so processes that share it map it at
 * the same address.
 *
 * Threads: one caller at a time for each struct hk_seal.
 */
#ifndef HK_SEAL_SEAL_H
#define HK_SEAL_SEAL_H

#include "hikyaku/error.h"
#include "seal/agree.h"
#include "seal/gcm.h"
#include "wire/wire.h"

#define HK_SEAL_ROTATE 30 /* a key protects 2^30 frames */

struct hk_seal_config {
	enum hk_wire_protection protection; /* HK_WIRE_AUTH or HK_WIRE_SEAL */
	uint32_t job, endpoint, epoch;      /* of this endpoint, as in its frames */
	uint32_t contexts;                  /* peers with keys at hand, at least 1 */
	uint8_t rotate;                     /* in place of HK_SEAL_ROTATE, for tests; 0: that */
	const uint8_t *job_key; /* HK_AGREE_LEN bytes that all of the job have; or NULL */
};

/* A peer, which belongs to the caller and stays at its place. */
struct hk_seal_peer {
	uint8_t public_key[HK_AGREE_LEN];
	uint32_t endpoint, epoch;
	uint32_t generation; /* the newest of a frame that came from it */
	uint32_t context;    /* number of its context plus 1; 0: none */
};

struct hk_seal;

/* Returns the bytes of memory that @cfg needs, for hk_seal_init(). */
size_t hk_seal_size(const struct hk_seal_config *cfg);

/* Makes an endpoint's side in @memory, which is aligned to 64 bytes, and draws its keys. Memory
 * beyond the first page is touched only when it is used. NULL: @err says why. */
struct hk_seal *hk_seal_init(void *memory, const struct hk_seal_config *cfg, struct hk_error *err);

/* Overwrites all keys. */
void hk_seal_end(struct hk_seal *s);

/* Prepares another process that has the memory of @s mapped. */
int hk_seal_attach(struct hk_error *err);

/* Returns the HK_AGREE_LEN bytes that peers need, as part of the address. */
const uint8_t *hk_seal_public_key(const struct hk_seal *s);

/* Says who @p is: a new peer, or the next incarnation of one. */
void hk_seal_peer_set(struct hk_seal *s, struct hk_seal_peer *p, uint32_t endpoint, uint32_t epoch,
		      const uint8_t public_key[HK_AGREE_LEN]);

/* Writes protection, key index and trailer of a frame to @p, whose base header, extensions and
 * payload lie at @base and stay as they are. The last bytes of the payload may lie elsewhere: at
 * @body, or NULL. Also then the trailer is written to where it belongs behind all of them at @base.
 * Only with HK_WIRE_AUTH. False: there is no key for @p, so the frame cannot be sent. */
bool hk_seal_sign(struct hk_seal *s, struct hk_seal_peer *p, void *base,
		  const struct hk_gcm_piece *body);

/* Writes the frame whose bytes from the base header on are the @count pieces to @to, encrypted,
 * with its trailer. The first piece has the whole base header. Only with HK_WIRE_SEAL. Returns the
 * bytes written, or 0 if there is no key for @p. */
size_t hk_seal_encrypt(struct hk_seal *s, struct hk_seal_peer *p, const struct hk_gcm_piece *piece,
		       unsigned count, void *to);

/* Checks a frame from @p, and decrypts it in place with HK_WIRE_SEAL. False: @p did not make this
 * frame for this endpoint, or it is of an old generation. A key that is not at hand is computed. If
 * that was in vain, the next one is not computed for 100 µs. @now is the time in ns. */
bool hk_seal_open(struct hk_seal *s, struct hk_seal_peer *p, const struct hk_wire_sealed *f,
		  uint64_t now);

#endif
