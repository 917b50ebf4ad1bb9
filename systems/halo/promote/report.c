/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/promote/report.c: the lines that HK_HALO_REPORT=1 prints at MPI_Finalize. Each channel that
 * sent has a line with the share of its puts, and the reason why it is not larger. The last line
 * has the sum of the rank.
 */
#include "halo/promote/promote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES 32 /* printed channels to one rank without puts; others are only counted */

#define TEXT(number)  TEXT_OF(number)
#define TEXT_OF(text) #text
/* clang-format off */
#define MANY "; nothing goes by puts any longer: too many tags to this rank (" TEXT(HK_PAIR_TAGS) \
	     " to a rank and " TEXT(HK_CHANNELS_MAX) " of a communicator are watched)"
/* clang-format on */

static struct {
	uint64_t bytes, put_bytes, messages, puts;
	int channels, promoted;
} sum;

static bool wanted(void)
{
	const char *report = getenv("HK_HALO_REPORT");

	return report && *report && strcmp(report, "0") != 0;
}

static const char *why(const struct hk_sender *o)
{
	if (o->unpromotable)
		return o->unpromotable;
	if (o->why)
		return o->why;
	return o->promoted ? "sizes repeat" : "no sizes that repeat";
}

static double percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

void hk_promote_report_sender(const struct hk_sender *o)
{
	char line[400], ports[32] = "";

	if (o->sent == 0)
		return;
	sum.bytes += o->bytes;
	sum.put_bytes += o->put_bytes;
	sum.messages += o->sent;
	sum.puts += o->puts;
	sum.channels++;
	sum.promoted += o->promoted > 0;
	if (!o->puts && o->pair->lines++ >= LINES) {
		o->pair->lines_omitted++;
		return;
	}
	if (!wanted())
		return;
	if (o->ports > 1)
		snprintf(ports, sizeof(ports), ", by %u ports", o->ports);
	snprintf(line, sizeof(line),
		 "hikyaku_halo: rank %d to rank %d of communicator %u, tag %d: %llu of %llu "
		 "messages by puts, %.1f %% of %llu bytes; promoted %u times, demoted %u, period "
		 "%d%s; %s\n",
		 o->comm->rank, o->peer, o->comm->cid, o->tag, (unsigned long long)o->puts,
		 (unsigned long long)o->sent, percent(o->put_bytes, o->bytes),
		 (unsigned long long)o->bytes, o->promoted, o->demoted,
		 o->promoted ? o->schedule.period : 0, ports, why(o));
	fputs(line, stderr);
}

/* The channels without a line of their own: those without puts where there are many, and those that
 * are not watched. */
void hk_promote_report_comm(const struct hk_comm *c)
{
	struct hk_send_pair *p;
	char line[400];

	sum.messages += c->unwatched;
	sum.bytes += c->unwatched_bytes;
	for (uint32_t k = 0; wanted() && (p = hk_table_next(&c->send_pairs, &k));) {
		if (p->too_many_tags || p->lines_omitted) {
			snprintf(
				line, sizeof(line),
				"hikyaku_halo: rank %d to rank %d of communicator %u: %u more tags "
				"without puts%s\n",
				c->rank, p->peer, c->cid, p->lines_omitted,
				p->too_many_tags ? MANY : "");
			fputs(line, stderr);
		}
	}
	if (wanted() && c->unwatched) {
		snprintf(line, sizeof(line),
			 "hikyaku_halo: rank %d in communicator %u: %llu messages of %llu bytes on "
			 "tags that are not watched\n",
			 c->rank, c->cid, (unsigned long long)c->unwatched,
			 (unsigned long long)c->unwatched_bytes);
		fputs(line, stderr);
	}
}

void hk_promote_report(void)
{
	char line[400];
	int rank;

	if (!wanted())
		return;
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (hk_service)
		snprintf(line, sizeof(line),
			 "hikyaku_halo: rank %d: %llu of %llu messages by puts, %.1f %% of %llu "
			 "bytes, on %d of %d channels\n",
			 rank, (unsigned long long)sum.puts, (unsigned long long)sum.messages,
			 percent(sum.put_bytes, sum.bytes), (unsigned long long)sum.bytes,
			 sum.promoted, sum.channels);
	else
		snprintf(line, sizeof(line), "hikyaku_halo: rank %d: nothing by puts: %s\n", rank,
			 hk_service_why);
	fputs(line, stderr);
}
