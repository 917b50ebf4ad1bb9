/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/router/fragment.c: headers of fragments.
 */
#include "devmem/router/fragment.h"

#define COPIED 0x80 /* bit of an option's type: every fragment has the option */

/* Copies the options that every fragment has, padded to whole words, and returns their length.
 * hk_ip4_options() has checked the options of @h. They are bounded again here, because others may
 * write to the bytes. */
static unsigned copied_options(const uint8_t *h, unsigned len, uint8_t *out)
{
	unsigned n = 0;

	for (unsigned at = HK_IP4_LEN; at < len && h[at] != 0;) {
		unsigned size = h[at] == 1 || at + 1 >= len ? 1 : h[at + 1];
		if (size == 0 || size > len - at)
			break;
		if (h[at] & COPIED) {
			memcpy(out + n, h + at, size);
			n += size;
		}
		at += size;
	}
	while (n % 4)
		out[n++] = 0;
	return n;
}

enum hk_router_result hk_fragments_begin(struct hk_fragments *s, const uint8_t *h,
					 const struct hk_ip *ip, unsigned mtu)
{
	*s = (struct hk_fragments){.first_len = ip->header,
				   .mtu = (uint16_t)mtu,
				   .fragment = ip->fragment,
				   .header = ip->header,
				   .payload = (unsigned)ip->length - ip->header};
	memcpy(s->first, h, ip->header);
	s->first[8] = (uint8_t)(ip->ttl - 1);
	memcpy(s->other, s->first, HK_IP4_LEN);
	s->other_len = (uint8_t)(HK_IP4_LEN +
				 copied_options(s->first, ip->header, s->other + HK_IP4_LEN));
	s->other[0] = (uint8_t)(0x40 | s->other_len / 4);
	if (mtu < ip->header + 8u)
		return HK_RESULT_TOO_BIG;
	if ((ip->fragment & HK_IP4_OFFSET) + s->payload / 8 > HK_IP4_OFFSET)
		return HK_RESULT_LENGTH;
	return HK_RESULT_FORWARD;
}

/* The payload of a fragment that is not the last. */
static unsigned payload_max(const struct hk_fragments *s, unsigned header)
{
	return (s->mtu - header) & ~7u;
}

unsigned hk_fragments_count(const struct hk_fragments *s)
{
	unsigned first = payload_max(s, s->first_len), other = payload_max(s, s->other_len);

	if (s->payload <= s->mtu - (unsigned)s->first_len)
		return 1;
	unsigned rest = s->payload - first, n = 2;
	while (rest > s->mtu - (unsigned)s->other_len) { /* the last need not be a multiple of 8 */
		rest -= other;
		n++;
	}
	return n;
}

unsigned hk_fragments_next(struct hk_fragments *s, uint8_t header[HK_IP4_HEADER_MAX], unsigned *at,
			   unsigned *len)
{
	const uint8_t *from = s->done ? s->other : s->first;
	unsigned size = s->done ? s->other_len : s->first_len, left = s->payload - s->done;
	bool last = left <= s->mtu - size;
	unsigned more = last ? s->fragment & HK_IP4_MORE : HK_IP4_MORE;

	if (left == 0)
		return 0;
	*at = s->header + s->done;
	*len = last ? left : payload_max(s, size);
	unsigned offset = (s->fragment & HK_IP4_OFFSET) + s->done / 8, total = size + *len;
	s->done += *len;
	memcpy(header, from, size);
	uint8_t fields[6] = {(uint8_t)(total >> 8),           (uint8_t)total, header[4], header[5],
			     (uint8_t)((more | offset) >> 8), (uint8_t)offset};
	memcpy(header + 2, fields, 6);
	memset(header + 10, 0, 2);
	uint16_t sum = (uint16_t)~hk_sum(header, size, 0);
	memcpy(header + 10, &sum, 2);
	return size;
}
