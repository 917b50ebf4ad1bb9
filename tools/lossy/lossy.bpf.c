/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools/lossy/lossy.bpf.c: drops random frames of an interface.
 *
 *   lossy_out  tc egress     sent frames, except those of AF_XDP, which do not pass tc
 *   lossy_in   XDP, generic  received frames, before sockets get them
 *
 * The seed and the number of the frame decide whether it is dropped. The names must not begin with
 * hk_, like the tagger's programs: tests/integration/tagging.py looks for those.
 */
/* clang-format off: bpf_helpers.h needs the types of bpf.h */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

#include "lossy/lossy.h"

char hk_license[] SEC("license") = "Dual BSD/GPL";

/* set before loading */
const volatile uint64_t seed;
const volatile uint64_t below; /* of 2^32: a frame whose random number is below is lost */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HK_LOSSY_WAYS);
	__type(key, uint32_t);
	__type(value, struct hk_lossy_count);
} hk_lossy_counts SEC(".maps");

/* Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014), SplitMix64. */
static uint64_t mixed(uint64_t n)
{
	uint64_t z = seed + n * UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static int is_lost(uint32_t way, uint64_t len)
{
	struct hk_lossy_count *count = bpf_map_lookup_elem(&hk_lossy_counts, &way);
	uint64_t n;

	if (!count)
		return 0;
	n = __sync_fetch_and_add(&count->seen, 1);
	if (mixed(2 * n + way) >> 32 >= below)
		return 0;
	__sync_fetch_and_add(&count->lost, 1);
	__sync_fetch_and_add(&count->bytes, len);
	return 1;
}

/* TC_ACT_STOLEN reports no error to the sender, like a cable: after an error Open vSwitch would
 * drop the rest of its batch, too. */
SEC("tc")
int lossy_out(struct __sk_buff *skb)
{
	return is_lost(HK_LOSSY_OUT, skb->len) ? TC_ACT_STOLEN : TC_ACT_UNSPEC;
}

SEC("xdp")
int lossy_in(struct xdp_md *frame)
{
	return is_lost(HK_LOSSY_IN, frame->data_end - frame->data) ? XDP_DROP : XDP_PASS;
}
