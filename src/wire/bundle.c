/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire/bundle.c: the records of a bundle.
 */
#include "wire/bundle.h"

#define ALIGN 4u

void *hk_wire_bundle_add(void *bundle, size_t *used, uint8_t am, uint16_t len)
{
	uint8_t *b = bundle;

	while (*used % ALIGN)
		b[(*used)++] = 0;
	uint8_t *r = b + *used;

	r[0] = (uint8_t)len;
	r[1] = (uint8_t)(len >> 8);
	r[2] = am;
	r[3] = 0;
	*used += HK_WIRE_RECORD_LEN + len;
	return r + HK_WIRE_RECORD_LEN;
}

const uint8_t *hk_wire_bundle_next(const void *bundle, size_t len, size_t *at,
				   struct hk_wire_record *out)
{
	const uint8_t *r = (const uint8_t *)bundle + *at;
	size_t left = len - *at;

	if (left < HK_WIRE_RECORD_LEN)
		return NULL;
	*out = (struct hk_wire_record){
		.len = (uint16_t)(r[0] | r[1] << 8), .am = r[2], .zero = r[3]};
	if (HK_UNLIKELY((out->am >= HK_WIRE_AM_BUNDLE) | (out->zero != 0) |
			(out->len > left - HK_WIRE_RECORD_LEN)))
		return NULL;
	size_t message = HK_WIRE_RECORD_LEN + (size_t)out->len;

	/* the last message is not padded */
	*at += HK_MIN((message + ALIGN - 1) & ~(size_t)(ALIGN - 1), left);
	return r + HK_WIRE_RECORD_LEN;
}
