/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/api/report.c: error texts, and the lines that HK_HALO_REPORT prints.
 */
#include "halo/api/internal.h"

#include <string.h>

_Thread_local struct hk_error hk_halo_last_error;

const char *hk_halo_error(void)
{
	return hk_halo_last_error.text;
}

static _Thread_local char refusal_next[400], refusal_now[400];

void hk_halo_refuse_next(const char *message)
{
	snprintf(refusal_next, sizeof(refusal_next), "%s", message);
}

const char *hk_halo_refusal_take(void)
{
	memcpy(refusal_now, refusal_next, sizeof(refusal_now));
	refusal_next[0] = '\0';
	return refusal_now[0] ? refusal_now : NULL;
}

/* Prints each line by one call, so that the lines of several ranks do not mix. */
void hk_halo_print(const struct hk_halo *h)
{
	for (int k = 0; k < h->neighbours; k++) {
		const struct hk_halo_neighbour *nb = &h->neighbour[k];
		double n = nb->exchanges ? (double)nb->exchanges : 1;
		char line[512];

		snprintf(line, sizeof(line),
			 "hk_halo: rank %d with rank %d: %llu bytes out, %llu in, %llu exchanges, "
			 "from put to arrival %.2f us (%.2f to %.2f), set-up %.0f us; transport "
			 "%s: %s\n",
			 h->rank, nb->rank, (unsigned long long)nb->out.bytes,
			 (unsigned long long)nb->in.bytes, (unsigned long long)nb->exchanges,
			 1e6 * nb->sum / n, nb->exchanges ? 1e6 * nb->min : 0.0, 1e6 * nb->max,
			 1e6 * h->setup_time, nb->transport->name, nb->why);
		fputs(line, stderr);
	}
}
