/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/sdn/tagger/vectors.h: input and output of the eBPF program of tag_vectors.
 */
#ifndef HK_TEST_VECTORS_H
#define HK_TEST_VECTORS_H

#include "wire/tag.h"

struct vector {
	struct hk_tag tag;      /* in: to pack */
	uint8_t mac[6];         /* in: to unpack */
	uint8_t packed[6];      /* out */
	uint8_t is_tag;         /* out: hk_tag_is() */
	uint8_t taken;          /* out: hk_tag_unpack() */
	struct hk_tag unpacked; /* out, if taken */
};

#endif
