/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sdn/tagger/tagger.bpf.c: the programs in the kernel that tag a job's TCP packets
 * (docs/tagger.md).
 *
 *   hk_socket   cgroup/sock_create  records a rank's number in each socket that the rank makes
 *   hk_connect  sockops             exchanges ranks in SYN and SYN-ACK, and makes the tag
 *   hk_egress   tc egress           writes the tag into the destination address of each packet
 *   hk_ingress  tc ingress          optional: writes the interface's own address into a tagged
 *                                   frame for a rank of this node
 *   hk_…_jump   clsact              run the same while hk-tagger lives (sdn/tagger/attach.h)
 *
 * hk-tagger loads them once for each job and node, and attaches them to the job's cgroup and the
 * node's interfaces. They are removed when hk-tagger ends. Of clsact filters, the jumps remain and
 * lead nowhere.
 */
/* clang-format off: bpf_helpers.h needs the types of bpf.h */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
/* clang-format on */

#include "sdn/tagger/shared.h"

#define AF_INET     2
#define AF_INET6    10
#define SOCK_STREAM 1
#define SOL_TCP     6
#define SAVE_SYN    27 /* TCP_SAVE_SYN */
#define TCP_SYN     0x02
#define TCP_ACK     0x10
#define NEXT        (-1) /* the next program that is attached here decides */
#define TO_HOST     0    /* PACKET_HOST */

char hk_license[] SEC("license") = "Dual BSD/GPL";

const volatile uint16_t job; /* set before loading */

/* The slots of registered ranks, by process. hk-tagger writes the map. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HK_TAGGER_SLOTS);
	__type(key, uint32_t);
	__type(value, uint32_t); /* lower half: slot; upper half: rank */
} processes SEC(".maps");

/* Whether a rank is on this node. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HK_TAG_RANKS);
	__type(key, uint32_t);
	__type(value, uint32_t);
} local SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, HK_TAGGER_SLOTS);
	__type(key, uint32_t);
	__type(value, struct hk_tagger_slot);
} slots SEC(".maps");

/* The connections of ranks. A socket that accept(2) returns has a copy of its listener's entry. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct hk_tagger_conn);
} conns SEC(".maps");

/* The rank that listens at a port. A SYN-ACK is written before its socket exists. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * HK_TAGGER_SLOTS);
	__type(key, uint32_t);
	__type(value, uint32_t);
} listeners SEC(".maps");

/* The own address of each interface. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, uint32_t);
	__type(value, uint64_t);
} own_macs SEC(".maps");

/* The same as an array, which needs no hash and no call. It serves interfaces whose numbers do not
 * collide. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HK_TAGGER_OWN_SLOTS);
	__type(key, uint32_t);
	__type(value, struct hk_tagger_own);
} own_macs_by_slot SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, HK_TAGGER_COUNTS);
	__type(key, uint32_t);
	__type(value, struct hk_tagger_sum);
} counts SEC(".maps");

/* The programs that filters jump to. The kernel empties such a map when the last descriptor of it
 * is closed, even if filters still use it. That is when hk-tagger ends. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, HK_TAGGER_JUMPS);
	__type(key, uint32_t);
	__type(value, uint32_t);
} jumps SEC(".maps");

static void count(uint32_t what, uint32_t frames, uint32_t bytes)
{
	struct hk_tagger_sum *sum = bpf_map_lookup_elem(&counts, &what);

	if (sum) {
		sum->frames += frames;
		sum->bytes += bytes;
	}
}

SEC("cgroup/sock_create")
int hk_socket(struct bpf_sock *sk)
{
	uint32_t pid = bpf_get_current_pid_tgid() >> 32;
	struct hk_tagger_conn *conn;
	uint32_t *found;

	if (sk->type != SOCK_STREAM || (sk->family != AF_INET && sk->family != AF_INET6))
		return 1;
	found = bpf_map_lookup_elem(&processes, &pid);
	if (!found)
		return 1;
	conn = bpf_sk_storage_get(&conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (conn) {
		conn->slot = *found & (HK_TAGGER_SLOTS - 1);
		conn->rank = (uint16_t)(*found >> 16) & (HK_TAG_RANKS - 1);
	}
	return 1;
}

/* ---- connections ----------------------------------------------------------------------------- */

/* Returns the rank in the other end's option, or -1: no option, or of another job. */
static int option_rank(struct bpf_sock_ops *ops, uint64_t flags)
{
	uint8_t opt[HK_TAGGER_OPT_LEN] = {HK_TAGGER_OPT_KIND, 4, HK_TAGGER_OPT_MAGIC0,
					  HK_TAGGER_OPT_MAGIC1};
	uint32_t rank;

	if (bpf_load_hdr_opt(ops, opt, sizeof(opt), flags) != HK_TAGGER_OPT_LEN)
		return -1;
	rank = (uint32_t)opt[6] << 8 | opt[7];
	if (((uint32_t)opt[4] << 8 | opt[5]) != job || rank >= HK_TAG_RANKS)
		return -1;
	return (int)rank;
}

/* Returns the rank to send in this SYN or SYN-ACK, or -1: it is neither, or its socket is not a
 * rank's. A peer that has not sent its rank does not receive ours. */
static int rank_to_send(struct bpf_sock_ops *ops)
{
	uint32_t flags = ops->skb_tcp_flags, port = ops->local_port;
	struct hk_tagger_conn *conn;
	uint32_t *rank;

	if (!(flags & TCP_SYN))
		return -1;
	if (flags & TCP_ACK) {
		rank = bpf_map_lookup_elem(&listeners, &port);
		if (!rank || option_rank(ops, BPF_LOAD_HDR_OPT_TCP_SYN) < 0)
			return -1;
		return (int)*rank;
	}
	if (!ops->sk)
		return -1;
	conn = bpf_sk_storage_get(&conns, ops->sk, 0, 0);
	return conn ? conn->rank : -1;
}

static void write_option(struct bpf_sock_ops *ops)
{
	int rank = rank_to_send(ops);
	uint8_t opt[HK_TAGGER_OPT_LEN] = {
		HK_TAGGER_OPT_KIND,  HK_TAGGER_OPT_LEN, HK_TAGGER_OPT_MAGIC0, HK_TAGGER_OPT_MAGIC1,
		(uint8_t)(job >> 8), (uint8_t)job,      (uint8_t)(rank >> 8), (uint8_t)rank};

	if (rank >= 0)
		bpf_store_hdr_opt(ops, opt, sizeof(opt), 0);
}

static void established(struct bpf_sock_ops *ops, uint64_t from)
{
	struct hk_tagger_conn *conn;
	int peer;

	if (!ops->sk)
		return;
	conn = bpf_sk_storage_get(&conns, ops->sk, 0, 0);
	if (!conn)
		return;
	bpf_sock_ops_cb_flags_set(ops, 0);
	peer = option_rank(ops, from);
	if (peer < 0) {
		count(HK_TAGGER_STRANGERS, 1, 0);
		return;
	}
	struct hk_tag tag = {.job = job, .source = conn->rank, .destination = (uint16_t)peer};
	conn->peer = (uint16_t)peer;
	conn->base = hk_tag_pack(&tag);
	count(HK_TAGGER_CONNECTIONS, 1, 0);
}

/* A rank's socket begins to listen. Its SYN-ACKs, and the sockets that it accepts, are the
 * rank's. */
static void listens(struct bpf_sock_ops *ops)
{
	struct hk_tagger_conn *conn;
	uint32_t port, rank;
	int yes = 1;

	if (!ops->sk)
		return;
	conn = bpf_sk_storage_get(&conns, ops->sk, 0, 0);
	if (!conn)
		return;
	port = ops->local_port;
	rank = conn->rank;
	bpf_map_update_elem(&listeners, &port, &rank, BPF_ANY);
	bpf_setsockopt(ops, SOL_TCP, SAVE_SYN, &yes, sizeof(yes));
	bpf_sock_ops_cb_flags_set(ops,
				  BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG);
}

SEC("sockops")
int hk_connect(struct bpf_sock_ops *ops)
{
	uint32_t port;

	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		if (ops->sk && bpf_sk_storage_get(&conns, ops->sk, 0, 0))
			bpf_sock_ops_cb_flags_set(ops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		listens(ops);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (rank_to_send(ops) >= 0)
			bpf_reserve_hdr_opt(ops, HK_TAGGER_OPT_LEN, 0);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		write_option(ops);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		established(ops, 0);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(ops, BPF_LOAD_HDR_OPT_TCP_SYN);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		port = ops->local_port;
		if (ops->args[0] == BPF_TCP_LISTEN)
			bpf_map_delete_elem(&listeners, &port);
		break;
	}
	return 1;
}

/* ---- packets --------------------------------------------------------------------------------- */

SEC("tc")
int hk_egress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct hk_tagger_conn *conn;
	struct hk_tagger_slot *slot;
	uint32_t function, frames;
	uint8_t mac[6];

	if (!sk)
		return NEXT;
	conn = bpf_sk_storage_get(&conns, sk, 0, 0);
	if (!conn || !conn->base)
		return NEXT;
	slot = bpf_map_lookup_elem(&slots, &conn->slot);
	if (!slot)
		return NEXT;
	function = *(volatile uint32_t *)&slot->function;
	if (function >= HK_TAG_FUNCTION_MAX)
		function = HK_TAG_OTHER;
	hk_tag_to_mac(conn->base | (uint64_t)function << HK_TAG_FUNCTION_SHIFT, mac);
	if (bpf_skb_store_bytes(skb, 0, mac, sizeof(mac), 0) != 0) {
		count(HK_TAGGER_FAILED, 1, 0);
		return NEXT;
	}
	frames = skb->gso_segs > 1 ? skb->gso_segs : 1;
	conn->frames += frames; /* not concurrent: the socket is locked while it sends */
	conn->bytes += skb->len;
	count(function, frames, skb->len);
	return NEXT;
}

static const uint64_t *own_mac(uint32_t ifindex)
{
	uint32_t at = ifindex % HK_TAGGER_OWN_SLOTS;
	const struct hk_tagger_own *entry = bpf_map_lookup_elem(&own_macs_by_slot, &at);

	return entry && entry->ifindex == ifindex ? &entry->mac
						  : bpf_map_lookup_elem(&own_macs, &ifindex);
}

SEC("tc")
int hk_ingress(struct __sk_buff *skb)
{
	const uint8_t *data = (const uint8_t *)(long)skb->data;
	const uint8_t *end = (const uint8_t *)(long)skb->data_end;
	const uint64_t *own;
	uint32_t rank, *here;
	uint8_t mac[6];
	struct hk_tag tag;

	if (data + 14 > end || !hk_tag_unpack(hk_tag_from_mac(data), &tag))
		return NEXT;
	if (tag.job != job || tag.group)
		return NEXT;
	rank = tag.destination;
	here = bpf_map_lookup_elem(&local, &rank);
	own = own_mac(skb->ifindex);
	if (!here || !*here || !own)
		return NEXT;
	hk_tag_to_mac(*own, mac);
	if (bpf_skb_store_bytes(skb, 0, mac, sizeof(mac), 0) != 0) {
		count(HK_TAGGER_FAILED, 1, 0);
		return NEXT;
	}
	bpf_skb_change_type(skb, TO_HOST);
	count(HK_TAGGER_RESTORED, 1, skb->len);
	return NEXT;
}

SEC("tc")
int hk_egress_jump(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &jumps, HK_TAGGER_JUMP_EGRESS);
	return NEXT;
}

SEC("tc")
int hk_ingress_jump(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &jumps, HK_TAGGER_JUMP_INGRESS);
	return NEXT;
}
