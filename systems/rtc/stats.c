/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rtc/stats.c: the counters of a node, as structs and as one line of JSON.
 */
#include "rtc/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

void hk_rtc_stats(const struct hk_rtc *r, struct hk_rtc_stats *out)
{
	*out = r->stats;
	out->tx_full = r->backend->tx_full;
	out->no_buffer = r->backend->no_buffer;
	out->stray = r->backend->stray;
	out->cut_off = r->backend->cut_off;
}

bool hk_rtc_type_stats(const struct hk_rtc *r, uint8_t type, struct hk_rtc_type_stats *out)
{
	if (type >= HK_RTC_MAX_TYPES || !r->type[type].registered)
		return false;
	*out = r->type[type].stats;
	out->recent_ns = hk_rtc_budget_recent(&r->type[type].budget);
	return true;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

struct text {
	char *at;
	size_t capacity, len; /* len counts text that did not fit as well */
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	size_t used = HK_MIN(t->len, t->capacity);
	va_start(ap, fmt);
	int n = vsnprintf(t->at + used, t->capacity - used, fmt, ap);
	va_end(ap);
	t->len += n > 0 ? (size_t)n : 0;
}

static void add_name(struct text *t, const char *name)
{
	add(t, "\"");
	for (const char *p = name; *p; p++) {
		if (*p == '"' || *p == '\\')
			add(t, "\\%c", *p);
		else if ((unsigned char)*p < 0x20)
			add(t, "\\u%04x", *p);
		else
			add(t, "%c", *p);
	}
	add(t, "\"");
}

struct field {
	const char *name;
	size_t at;
};

static void add_fields(struct text *t, const struct field *f, size_t n, const void *from)
{
	for (size_t i = 0; i < n; i++)
		add(t, "%s\"%s\": %" PRIu64, i ? ", " : "", f[i].name,
		    *(const uint64_t *)((const char *)from + f[i].at));
}

#define NODE(x)                                                                                    \
	{                                                                                          \
#x, offsetof(struct hk_rtc_stats, x)                                               \
	}
#define TYPE(x)                                                                                    \
	{                                                                                          \
#x, offsetof(struct hk_rtc_type_stats, x)                                          \
	}

static const struct field node_fields[] = {
	NODE(rx_messages), NODE(tx_messages),  NODE(rx_bytes),   NODE(tx_bytes),
	NODE(tx_full),     NODE(no_buffer),    NODE(bad),        NODE(other_job),
	NODE(not_for_us),  NODE(unknown_type), NODE(not_member), NODE(joined),
	NODE(left),        NODE(lost),         NODE(rounds),     NODE(empty_rounds),
	NODE(stray),       NODE(cut_off),      NODE(forged),     NODE(replayed),
};
static const struct field type_fields[] = {
	TYPE(messages),   TYPE(replies),
	TYPE(replied),    TYPE(sent),
	TYPE(retries),    TYPE(given_up),
	TYPE(stale),      TYPE(repeated),
	TYPE(deferred),   TYPE(bursts_over_budget),
	TYPE(defer_full), TYPE(handler_ns),
	TYPE(thread_ns),
};
_Static_assert(HK_ARRAY_LEN(node_fields) * 8 == sizeof(struct hk_rtc_stats), "all of them");
_Static_assert(HK_ARRAY_LEN(type_fields) * 8 + 8 == sizeof(struct hk_rtc_type_stats),
	       "all of them");

int hk_rtc_stats_json(const struct hk_rtc *r, char *out, size_t size)
{
	struct text t = {out, size, 0};
	struct hk_rtc_stats s;
	bool first = true;

	hk_rtc_stats(r, &s);
	add(&t, "{\"node\": %u, \"nodes\": %u, \"members\": %u, \"backend\": \"%s\", ", r->self,
	    r->nodes, r->members.count, r->ops->name);
	add_fields(&t, node_fields, HK_ARRAY_LEN(node_fields), &s);
	add(&t, ", \"types\": {");
	for (unsigned i = 0; i < HK_RTC_MAX_TYPES; i++) {
		struct hk_rtc_type_stats ts;
		if (!hk_rtc_type_stats(r, (uint8_t)i, &ts))
			continue;
		add(&t, "%s", first ? "" : ", ");
		first = false;
		add_name(&t, r->type[i].name);
		add(&t,
		    ": {\"type\": %u, \"budget_ns\": %u, \"recent_ns\": %u, \"deferring\": %s, ", i,
		    r->type[i].budget.limit, ts.recent_ns,
		    r->type[i].budget.over && r->threads ? "true" : "false");
		add_fields(&t, type_fields, HK_ARRAY_LEN(type_fields), &ts);
		add(&t, "}");
	}
	add(&t, "}}");
	return t.len < size ? (int)t.len : -ENOSPC;
}
