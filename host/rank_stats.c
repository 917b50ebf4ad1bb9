/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/rank_stats.c: counters as JSON.
 */
#include "host/rank_stats.h"

#include <inttypes.h>

void hk_stats_object(FILE *f, const void *values, const struct hk_stat *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const uint64_t *v = (const void *)((const char *)values + fields[i].at);

		fprintf(f, "%s\"%s\": %" PRIu64, i ? ", " : "{", fields[i].name, *v);
	}
	fprintf(f, "}");
}

static const struct hk_stat rank_fields[] = {
#define FIELD(name)                                                                                \
	{                                                                                          \
#name, offsetof(struct hk_res_rank, name)                                          \
	}
	FIELD(tx_packets),
	FIELD(tx_bytes),
	FIELD(rx_packets),
	FIELD(rx_bytes),
	FIELD(tx_acks),
	FIELD(rx_acks),
	FIELD(resends),
	FIELD(duplicates),
	FIELD(loss_time),
	FIELD(loss_rto),
	FIELD(no_credit),
	FIELD(no_cwnd),
	FIELD(no_block),
	FIELD(refused),
	FIELD(dead_peers),
	FIELD(messages_sent),
	FIELD(messages_delivered),
	FIELD(queued),
	FIELD(early),
	FIELD(tx_dropped),
	FIELD(tx_bulk),
	FIELD(no_buffer),
	FIELD(async_polls),
	FIELD(kept),
	FIELD(kept_now),
	FIELD(rings),
	FIELD(puts),
	FIELD(gets),
	FIELD(gets_served),
	FIELD(put_bytes),
	FIELD(put_bytes_in),
	FIELD(rx_frames),
	FIELD(tx_frames),
	FIELD(tx_full),
	FIELD(unpolled_ns),
#undef FIELD
};
_Static_assert(HK_ARRAY_LEN(rank_fields) * sizeof(uint64_t) == sizeof(struct hk_res_rank),
	       "every counter is shown");

void hk_stats_rank(FILE *f, const struct hk_res_rank *n)
{
	hk_stats_object(f, n, rank_fields, HK_ARRAY_LEN(rank_fields));
}
