/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * helper/xdp.bpf.c: the XDP program that takes our frames from an interface, and leaves all others
 * to the kernel.
 *
 * A frame can only go to a socket of the queue on which it arrived. Of the sockets on a queue, one
 * may take what nobody has claimed. The others take frames for endpoints that they have claimed, or
 * datagrams for the address and port of one UDP socket.
 */
/* clang-format off: bpf_helpers.h needs the types of bpf.h */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

#include "helper/xdp.h"

#include <stdbool.h>

#define ETH_HLEN  14
#define TYPE_AT   12
#define VLAN_HLEN 4
#define VLAN      bpf_htons(0x8100)
#define FRAMES    bpf_htons(0x88B5) /* HK_WIRE_ETHERTYPE */
#define MESSAGES  bpf_htons(0x88B6) /* HK_MSG_ETHERTYPE */
#define IPV4      bpf_htons(0x0800)
#define IPV6      bpf_htons(0x86DD)
#define UDP       17

char hk_license[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, HK_XDP_QUEUES + 1); /* by slot */
	__type(key, uint32_t);
	__type(value, uint32_t);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HK_XDP_QUEUES);
	__type(key, uint32_t);
	__type(value, struct hk_xdp_queue);
} queues SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HK_XDP_CLAIMS);
	__type(key, struct hk_xdp_claim);
	__type(value, uint32_t); /* slot */
} claims SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HK_XDP_CLAIMS);
	__type(key, struct hk_xdp_datagrams);
	__type(value, uint32_t); /* slot */
} datagrams SEC(".maps");

static uint32_t load32(const uint8_t *at)
{
	return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Reads whom a datagram of UDP is for. False: it is none, or only a part of one, or has options or
 * headers that are rare. The kernel takes those. */
static __always_inline bool is_datagram(const uint8_t *at, const uint8_t *end, uint16_t type,
					struct hk_xdp_datagrams *to)
{
	const uint8_t *port;

	if (type == IPV4 && at + 28 <= end) {
		if (at[0] != 0x45 || at[6] & 0x3f || at[7] || at[9] != UDP)
			return false;
		to->address[10] = to->address[11] = 0xff;
		__builtin_memcpy(to->address + 12, at + 16, 4);
		port = at + 22;
	} else if (type == IPV6 && at + 48 <= end) {
		if (at[6] != UDP)
			return false;
		__builtin_memcpy(to->address, at + 24, 16);
		port = at + 42;
	} else {
		return false;
	}
	__builtin_memcpy(&to->port, port, 2);
	return true;
}

SEC("xdp")
int hikyaku_take(struct xdp_md *ctx)
{
	const uint8_t *at = (const void *)(long)ctx->data, *end = (const void *)(long)ctx->data_end;
	struct hk_xdp_claim claim = {.queue = ctx->rx_queue_index};
	const struct hk_xdp_queue *queue = bpf_map_lookup_elem(&queues, &claim.queue);

	if (!queue)
		return XDP_PASS;
	if (queue->all)
		return bpf_redirect_map(&sockets, queue->all, XDP_PASS);
	if (at + ETH_HLEN > end)
		return XDP_PASS;
	if (queue->datagrams) {
		struct hk_xdp_datagrams to = {.queue = claim.queue};

		if (is_datagram(at + ETH_HLEN, end, *(const uint16_t *)(at + TYPE_AT), &to)) {
			const uint32_t *slot = bpf_map_lookup_elem(&datagrams, &to);

			return slot ? bpf_redirect_map(&sockets, *slot, XDP_PASS) : XDP_PASS;
		}
	}
	if (*(const uint16_t *)(at + TYPE_AT) == VLAN) { /* port/priority.h */
		at += VLAN_HLEN;
		/* keeps the branch: a sum with a computed offset needs CAP_PERFMON */
		asm volatile("" : "+r"(at));
	}
	if (at + ETH_HLEN > end)
		return XDP_PASS;
	uint16_t type = *(const uint16_t *)(at + TYPE_AT);

	if (type != FRAMES && type != MESSAGES)
		return XDP_PASS;
	at += ETH_HLEN;
	if (queue->claims && type == FRAMES && at + HK_XDP_ENDPOINT_AT + 4 <= end) {
		claim.job = load32(at + HK_XDP_JOB_AT);
		claim.endpoint = load32(at + HK_XDP_ENDPOINT_AT);
		const uint32_t *slot = bpf_map_lookup_elem(&claims, &claim);

		if (slot)
			return bpf_redirect_map(&sockets, *slot, XDP_PASS);
	}
	return queue->ours ? bpf_redirect_map(&sockets, queue->ours, XDP_PASS) : XDP_PASS;
}
