/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/unit/sdn/tagger/vectors.bpf.c: wire/tag.h in the kernel, for tag_vectors.c.
 */
/* clang-format off: bpf_helpers.h needs the types of bpf.h */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

#include "tests/unit/sdn/tagger/vectors.h"

SEC("syscall")
int both_ways(struct vector *v)
{
	uint64_t address = hk_tag_from_mac(v->mac);
	struct hk_tag in = v->tag, out = {0};

	hk_tag_to_mac(hk_tag_pack(&in), v->packed);
	v->is_tag = hk_tag_is(address);
	v->taken = hk_tag_unpack(address, &out);
	v->unpacked = out;
	return 0;
}
