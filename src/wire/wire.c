/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/wire.c: the frame codec. The rules it enforces are the tables of docs/wire.md.
 *
 * Parsing is on the hot path: it runs for every received frame. A valid frame meets one branch for
 * each group of rules. Only for an invalid frame does classify() find out which rule it broke. The
 * structs have the layout of the wire, so that decoding is a memcpy on little-endian machines.
 */
#include "wire/wire.h"
#include "wire/crc32c.h"

/* ---- byte order ---------------------------------------------------------------------------- */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SWAPS 0
#elif __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define SWAPS 1
#else
#error "neither little-endian nor big-endian"
#endif

static inline void swap16(uint16_t *v)
{
	*v = SWAPS ? __builtin_bswap16(*v) : *v;
}

static inline void swap32(uint32_t *v)
{
	*v = SWAPS ? __builtin_bswap32(*v) : *v;
}

static inline void swap64(uint64_t *v)
{
	*v = SWAPS ? __builtin_bswap64(*v) : *v;
}

/* Each swap function converts in either direction. */
static inline void swap_hdr(struct hk_wire_hdr *h)
{
	swap16(&h->len);
	swap32(&h->job);
	swap32(&h->src);
	swap32(&h->dst);
	swap32(&h->src_epoch);
	swap32(&h->dst_epoch);
	swap16(&h->credit);
	swap32(&h->psn);
	swap32(&h->ack);
	swap32(&h->tsval);
	swap32(&h->tsecr);
}

static inline void swap_grant(struct hk_wire_grant *g)
{
	swap32(&g->granted);
	swap32(&g->wanted);
}

static inline void swap_put(struct hk_wire_put *p)
{
	swap32(&p->region);
	swap32(&p->xfer);
	swap64(&p->offset);
}

static inline void swap_get(struct hk_wire_get *g)
{
	swap32(&g->status);
	swap32(&g->region);
	swap64(&g->offset);
	swap64(&g->len);
	swap64(&g->to_offset);
	swap32(&g->to_region);
	swap32(&g->zero);
}

static inline void swap_sack(struct hk_wire_sack *s)
{
	for (size_t i = 0; i < HK_ARRAY_LEN(s->bits); i++)
		swap64(&s->bits[i]);
}

static inline uint16_t load_le16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t load_le32(const uint8_t *p)
{
	return load_le16(p) | (uint32_t)load_le16(p + 2) << 16;
}

static inline uint64_t load_le64(const uint8_t *p)
{
	return load_le32(p) | (uint64_t)load_le32(p + 4) << 32;
}

/* ---- writing ------------------------------------------------------------------------------- */

void hk_wire_hdr_encode(void *dst, const struct hk_wire_hdr *h)
{
	struct hk_wire_hdr w = *h;
	swap_hdr(&w);
	memcpy(dst, &w, sizeof(w));
}

void hk_wire_grant_encode(void *dst, const struct hk_wire_grant *g)
{
	struct hk_wire_grant w = *g;
	swap_grant(&w);
	memcpy(dst, &w, sizeof(w));
}

void hk_wire_put_encode(void *dst, const struct hk_wire_put *p)
{
	struct hk_wire_put w = *p;
	swap_put(&w);
	memcpy(dst, &w, sizeof(w));
}

size_t hk_wire_sack_encode(void *dst, const struct hk_wire_sack *s)
{
	struct hk_wire_sack w = *s;
	size_t words = HK_ARRAY_LEN(w.bits);

	while (words && w.bits[words - 1] == 0)
		words--;
	swap_sack(&w);
	memcpy(dst, &w, words * sizeof(w.bits[0]));
	return words * sizeof(w.bits[0]);
}

void hk_wire_get_encode(void *dst, const struct hk_wire_get *g)
{
	struct hk_wire_get w = *g;
	swap_get(&w);
	memcpy(dst, &w, sizeof(w));
}

bool hk_wire_get_parse(const void *payload, size_t len, struct hk_wire_get *out)
{
	if (len != HK_WIRE_GET_LEN)
		return false;
	memcpy(out, payload, sizeof(*out));
	swap_get(out);
	return out->len != 0 && out->to_region != 0 && out->zero == 0 &&
	       out->status <= HK_WIRE_GET_DENIED;
}

void hk_wire_eth_encode(void *dst, const uint8_t dst_mac[6], const uint8_t src_mac[6])
{
	uint8_t *d = dst;
	memcpy(d, dst_mac, 6);
	memcpy(d + 6, src_mac, 6);
	d[12] = HK_WIRE_ETHERTYPE >> 8; /* Ethernet's field, hence big-endian */
	d[13] = HK_WIRE_ETHERTYPE & 0xff;
}

size_t hk_wire_len(const void *base)
{
	return load_le16((const uint8_t *)base + offsetof(struct hk_wire_hdr, len));
}

void hk_wire_seal_encode(void *base, enum hk_wire_protection p, uint8_t key_index, uint64_t counter,
			 void *trailer)
{
	uint8_t *b = base;

	b[offsetof(struct hk_wire_hdr, version)] = HK_WIRE_VERSION_BYTE(p);
	b[offsetof(struct hk_wire_hdr, key_index)] = key_index;
	swap64(&counter);
	memcpy(trailer, &counter, sizeof(counter));
}

size_t hk_wire_frame_checksum(void *base)
{
	uint8_t *b = base;
	size_t covered = HK_WIRE_HLEN + hk_wire_len(base);
	uint8_t *crc_at = b + covered;

	/* The checksum covers the protection, so that must be set first. */
	b[offsetof(struct hk_wire_hdr, version)] = HK_WIRE_VERSION_BYTE(HK_WIRE_CRC);
	uint32_t crc = hk_crc32c(b, covered);
	swap32(&crc);
	memcpy(crc_at, &crc, sizeof(crc));
	return HK_WIRE_CRC_LEN;
}

/* ---- checking ------------------------------------------------------------------------------ */

/* Rules for every type. `&` instead of `&&` avoids branches. */
static inline bool common_fields_ok(const struct hk_wire_hdr *h)
{
	return ((h->flags & ~HK_WIRE_F_ALL) == 0) & (h->src_epoch != 0) & (h->dst_epoch != 0);
}

_Static_assert(HK_WIRE_BARE == 0 && HK_WIRE_CRC == 1 && HK_WIRE_AUTH == 2 && HK_WIRE_SEAL == 3,
	       "bit 1 says whether there is a key");

static inline bool has_key(unsigned protection)
{
	return protection & 2;
}

/* Is the protection of @h acceptable to a receiver that demands @need? Without a key the receiver
 * also takes a frame with a checksum, or reports later that it is missing. */
static inline bool protection_ok(const struct hk_wire_hdr *h, unsigned need)
{
	unsigned any = has_key(need) ? 0 : HK_WIRE_CRC, want = has_key(need) ? need : HK_WIRE_BARE;

	return ((h->version & ~any) == HK_WIRE_VERSION_BYTE(want)) &
	       (has_key(need) | (h->key_index == 0));
}

/* Flags of packets do not fit frames without one. */
static inline bool no_packet_flags(const struct hk_wire_hdr *h, unsigned allowed)
{
	return (h->flags & (HK_WIRE_F_GRANT | HK_WIRE_F_BULK) & ~allowed) == 0;
}

/* Only DATA uses am, frag and frags. */
static inline bool no_fragment(const struct hk_wire_hdr *h)
{
	return (h->am | h->frag | h->frags) == 0;
}

/* A multicast does not belong to a conversation: it carries no acknowledgement, timestamps or
 * marks.
 */
static inline bool no_stream(const struct hk_wire_hdr *h)
{
	return (h->credit | h->ack | h->tsval | h->tsecr | h->marks) == 0;
}

static inline bool data_fields_ok(const struct hk_wire_hdr *h)
{
	/* frag < frags implies that frags is not 0 */
	return (h->frags <= HK_WIRE_MAX_FRAGS) & (h->frag < h->frags);
}

/* Returns which rule a frame breaks that is at least as long as the base header. */
static enum hk_wire_status classify(const struct hk_wire_hdr *h, unsigned need, size_t available)
{
	unsigned protection = h->version & 0xf;

	if (h->version >> 4 != HK_WIRE_VERSION || protection > HK_WIRE_SEAL)
		return HK_WIRE_E_VERSION;
	if (has_key(protection | need) && protection != need)
		return HK_WIRE_E_PROTECTION;
	if (h->len + hk_wire_trailer_len(protection) > available)
		return HK_WIRE_E_SHORT;
	if (h->type < HK_WIRE_DATA || h->type > HK_WIRE_MCAST)
		return HK_WIRE_E_TYPE;
	return HK_WIRE_E_FIELD;
}

/* Reads a bitmap of @len bytes. */
static bool sack_parse(const uint8_t *ext, size_t len, struct hk_wire_sack *s)
{
	if (HK_UNLIKELY((len % sizeof(s->bits[0])) | (len > HK_WIRE_SACK_MAX)))
		return false;
	memset(s, 0, sizeof(*s));
	memcpy(s, ext, HK_MIN(len, sizeof(*s)));
	swap_sack(s);
	return !(s->bits[0] & 1);
}

static bool crc_matches(const uint8_t *base, size_t len)
{
	size_t covered = HK_WIRE_HLEN + len;
	return hk_crc32c(base, covered) == load_le32(base + covered);
}

/* Returns whether @f is a frame of ours with a whole base header. */
static inline enum hk_wire_status framing_check(const uint8_t *f, size_t len)
{
	if (HK_UNLIKELY(len < HK_ETH_HLEN))
		return HK_WIRE_E_SHORT;
	if (HK_UNLIKELY(f[12] != HK_WIRE_ETHERTYPE >> 8 || f[13] != (HK_WIRE_ETHERTYPE & 0xff)))
		return HK_WIRE_E_ETHERTYPE;
	if (HK_UNLIKELY(len < HK_ETH_HLEN + HK_WIRE_HLEN))
		return HK_WIRE_E_SHORT;
	return HK_WIRE_OK;
}

enum hk_wire_status hk_wire_sealed_parse(void *frame, size_t len, enum hk_wire_protection need,
					 struct hk_wire_sealed *out)
{
	uint8_t *base = (uint8_t *)frame + HK_ETH_HLEN;
	enum hk_wire_status st = framing_check(frame, len);
	struct hk_wire_hdr h;

	if (HK_UNLIKELY(st != HK_WIRE_OK))
		return st;
	memcpy(&h, base, sizeof(h));
	swap_hdr(&h);
	size_t available = len - HK_ETH_HLEN - HK_WIRE_HLEN;

	if (HK_UNLIKELY((h.version != HK_WIRE_VERSION_BYTE(need)) |
			(h.len + (size_t)HK_WIRE_SEAL_LEN > available)))
		return classify(&h, need, available);
	if (HK_UNLIKELY((h.src_epoch == 0) | (h.dst_epoch == 0)))
		return HK_WIRE_E_FIELD;
	size_t covered = HK_WIRE_HLEN + (size_t)h.len;

	*out = (struct hk_wire_sealed){
		.job = h.job,
		.src = h.src,
		.dst = h.dst,
		.src_epoch = h.src_epoch,
		.dst_epoch = h.dst_epoch,
		.key_index = h.key_index,
		.counter = load_le64(base + covered),
		.base = base,
		.len = covered,
		.tag = base + covered + offsetof(struct hk_wire_seal, tag),
	};
	return HK_WIRE_OK;
}

enum hk_wire_status hk_wire_frame_parse(const void *frame, size_t len, enum hk_wire_protection need,
					struct hk_frame *out)
{
	const uint8_t *f = frame, *base = f + HK_ETH_HLEN, *ext = base + HK_WIRE_HLEN;
	enum hk_wire_status st = framing_check(f, len);

	if (HK_UNLIKELY(st != HK_WIRE_OK))
		return st;
	size_t available = len - HK_ETH_HLEN - HK_WIRE_HLEN;
	memcpy(&out->h, base, sizeof(out->h));
	swap_hdr(&out->h);
	const struct hk_wire_hdr *h = &out->h;
	bool has_crc = hk_wire_has_crc(h);
	size_t trailer = has_key(need) ? HK_WIRE_SEAL_LEN : has_crc ? HK_WIRE_CRC_LEN : 0u;

	if (HK_UNLIKELY((unsigned)!protection_ok(h, need) | (h->len + trailer > available) |
			(unsigned)!common_fields_ok(h)))
		return classify(h, need, available);

	size_t ext_len = 0;
	if (HK_UNLIKELY(h->flags & HK_WIRE_F_GRANT)) {
		if (HK_UNLIKELY(h->len < HK_WIRE_GRANT_LEN))
			return classify(h, need, available);
		memcpy(&out->grant, ext, sizeof(out->grant));
		swap_grant(&out->grant);
		ext_len = HK_WIRE_GRANT_LEN;
	}
	switch (h->type) {
	case HK_WIRE_DATA:
		if (HK_UNLIKELY(!data_fields_ok(h)))
			return HK_WIRE_E_FIELD;
		break;
	case HK_WIRE_PUT:
		if (HK_UNLIKELY(!no_fragment(h) | (h->len < ext_len + HK_WIRE_PUT_LEN)))
			return HK_WIRE_E_FIELD;
		memcpy(&out->put, ext + ext_len, sizeof(out->put));
		swap_put(&out->put);
		ext_len += HK_WIRE_PUT_LEN;
		break;
	case HK_WIRE_ACK:
		if (HK_UNLIKELY(!no_fragment(h) || !no_packet_flags(h, HK_WIRE_F_GRANT)) ||
		    !sack_parse(ext + ext_len, h->len - ext_len, &out->sack))
			return HK_WIRE_E_FIELD;
		ext_len = h->len;
		break;
	case HK_WIRE_RESET:
	case HK_WIRE_BYE:
		if (HK_UNLIKELY(!no_fragment(h) || !no_packet_flags(h, 0) || h->len != 0))
			return HK_WIRE_E_FIELD;
		break;
	case HK_WIRE_MCAST:
		if (HK_UNLIKELY(!no_fragment(h) || !no_packet_flags(h, 0) || !no_stream(h)))
			return HK_WIRE_E_FIELD;
		break;
	default:
		return HK_WIRE_E_TYPE;
	}

	out->counter = 0;
	if (has_key(need)) {
		out->counter = load_le64(ext + h->len);
	} else if (has_crc) {
		if (HK_UNLIKELY(!crc_matches(base, h->len)))
			return HK_WIRE_E_CRC;
	} else if (HK_UNLIKELY(need == HK_WIRE_CRC)) {
		return HK_WIRE_E_CRC;
	}

	out->payload = ext + ext_len;
	out->payload_len = (uint16_t)(h->len - ext_len);
	out->src_mac = f + 6;
	return HK_WIRE_OK;
}

bool hk_wire_frame_address(const void *frame, size_t len, uint32_t *job, uint32_t *endpoint)
{
	const uint8_t *f = frame, *base = f + HK_ETH_HLEN;

	if (len < HK_ETH_HLEN + HK_WIRE_HLEN || f[12] != HK_WIRE_ETHERTYPE >> 8 ||
	    f[13] != (HK_WIRE_ETHERTYPE & 0xff) || base[0] >> 4 != HK_WIRE_VERSION)
		return false;
	*job = load_le32(base + offsetof(struct hk_wire_hdr, job));
	*endpoint = load_le32(base + offsetof(struct hk_wire_hdr, dst));
	return true;
}

const char *hk_wire_status_name(enum hk_wire_status s)
{
	static const char *const names[HK_WIRE_STATUS_MAX] = {
		[HK_WIRE_OK] = "ok",
		[HK_WIRE_E_ETHERTYPE] = "ethertype",
		[HK_WIRE_E_SHORT] = "short",
		[HK_WIRE_E_VERSION] = "version",
		[HK_WIRE_E_PROTECTION] = "protection",
		[HK_WIRE_E_TYPE] = "type",
		[HK_WIRE_E_FIELD] = "field",
		[HK_WIRE_E_CRC] = "crc",
	};
	return (unsigned)s < HK_WIRE_STATUS_MAX ? names[s] : "unknown";
}
