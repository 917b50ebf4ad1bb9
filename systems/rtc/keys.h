/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/keys.h: keys of a node's frames, by src/seal. Internal to rtc/.
 *
 * DESIGN NOTES
 *
 * Problem: a receiver must believe a message only if the node that it names made it, for this
 * incarnation of the receiver, and only once. Nodes may restart at any time, and may have nothing
 * in common but a file.
 *
 * Approach: each pair of nodes has a *session*, with a key for each direction. HKDF makes the keys
 * from a secret, the job, the two numbers, and a nonce of 32 bytes from either end. A message has a
 * counter and a tag by AES-128-GCM over header, payload and counter. With seal the payload is
 * encrypted as well. The keys of auth and seal differ, so neither is believed by the other.
 *
 * With a launcher the nonces are X25519 public keys, which travel with the addresses, and the
 * secret is what the two have in common. So no third node of the job can speak for either, and the
 * first frame carries data. A secret of the job, if there is one, goes in as well.
 *
 * With a file of addresses the secret is that of the job. Nodes learn nonces by *greetings*: each
 * node sends its nonce to every node that is not a member, once in an interval. The tag of a
 * greeting is an HKDF of its bytes. A recorded greeting passes that check. It makes a candidate
 * session, and changes nothing else. A candidate becomes the session when a message arrives under
 * its keys: only an incarnation that has read our present nonce can make that. We draw another
 * nonce then. So the sender of that message is alive now. Messages of an old incarnation are
 * refused, since their keys contain a nonce of ours that is no longer offered.
 *
 * Nothing is sent because a greeting arrived. So a recorded one has no answer. A node that has
 * crashed joins again when the others have found that it is silent, or at once if it left.
 *
 * An attacker that repeats recorded greetings all the time could always have sent the last one.
 * So of the greetings of an interval each has the same chance to make the candidate.
 *
 * Nonces of AES-GCM: a node has one counter for its messages to each peer, over all sessions, which
 * never repeats a value. Another incarnation has other nonces, so other keys. So no counter repeats
 * under a key. A process that was made by fork() must not use its parent's node. Keys
 * are not changed after some time, since only one AES block of each frame depends on the key. Ten
 * million frames a second to one peer are 2^48 after 325 days. Then the chance to forge one is
 * still below 2^-30.
 *
 * A resend has another counter, and with auth the same buffer. If a driver still has the earlier
 * frame, it may send a mix of both. The receiver drops that, as if it were lost. With seal each
 * resend is an encrypted copy of the message, which the sender keeps unencrypted.
 *
 * Replays: a session remembers the last counters (seal/window.h).
 *
 * Memory: about 5 KiB a peer, touched when it is first used. Threads: one.
 */
#ifndef HK_RTC_KEYS_H
#define HK_RTC_KEYS_H

#include "rtc/protect.h"
#include "seal/agree.h"

struct hk_rtc_keys_config {
	uint16_t node, nodes;
	uint32_t key;          /* of the job */
	const uint8_t *secret; /* HK_AGREE_LEN bytes; NULL: none, only with a launcher */
	bool launcher;         /* peers are set by hk_rtc_keys_peer() */
	bool seal;             /* payloads are encrypted */
};

/* -ENOSYS, -EIO or -ENOMEM: @err says why. */
int hk_rtc_keys_open(const struct hk_rtc_keys_config *cfg, struct hk_rtc_protect **out,
		     struct hk_error *err);

/* The HK_AGREE_LEN bytes that the other nodes need, with a launcher. */
const uint8_t *hk_rtc_keys_public(const struct hk_rtc_protect *p);

/* Sets the public key of @node. */
int hk_rtc_keys_peer(struct hk_rtc_protect *p, uint16_t node, const uint8_t public[HK_AGREE_LEN],
		     struct hk_error *err);

/* Reads the secret of a job from the file @path: 64 hexadecimal digits. It refuses a file that
 * others can read. */
int hk_rtc_secret_read(const char *path, uint8_t secret[HK_AGREE_LEN], struct hk_error *err);

#endif
