/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/interpose/report.c: what HK_HALO_REPORT=1 prints at MPI_Finalize: each channel that sent, with what share by
 * puts, and why not more; and the rank's sum.
 */
#include "halo/interpose/interpose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES 32 /* of channels to one rank that had no puts; others are counted */

#define TEXT(number)  TEXT_OF(number)
#define TEXT_OF(text) #text
/* clang-format off */
#define MANY "; nothing by puts any more: too many tags to this rank (" TEXT(HK_PAIR_TAGS) \
	     " to a rank and " TEXT(HK_CHANNELS_MOST) " of a communicator are watched)"
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
	if (o->never)
		return o->never;
	if (o->why)
		return o->why;
	return o->promoted ? "sizes repeat" : "no sizes that repeat";
}

static double percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0;
}

void hk_report_keep(const struct hk_sender *o)
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
	if (!o->puts && o->pair->told++ >= LINES) {
		o->pair->untold++;
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

/* What has no line of its own: channels without puts where there are many, and those that are not watched. */
void hk_report_rest(const struct hk_comm *c)
{
	struct hk_pair *p;
	char line[400];

	sum.messages += c->unwatched;
	sum.bytes += c->unwatched_bytes;
	for (uint32_t k = 0; wanted() && (p = hk_table_next(&c->pair, &k));) {
		if (p->many || p->untold) {
			snprintf(
				line, sizeof(line),
				"hikyaku_halo: rank %d to rank %d of communicator %u: %u more tags "
				"without puts%s\n",
				c->rank, p->peer, c->cid, p->untold, p->many ? MANY : "");
			fputs(line, stderr);
		}
	}
	if (wanted() && c->unwatched) {
		snprintf(line, sizeof(line),
			 "hikyaku_halo: rank %d in communicator %u: %llu messages of %llu bytes "
			 "with "
			 "tags that are too many\n",
			 c->rank, c->cid, (unsigned long long)c->unwatched,
			 (unsigned long long)c->unwatched_bytes);
		fputs(line, stderr);
	}
}

void hk_report(void)
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
