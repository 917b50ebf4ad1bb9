/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * halo/report.c: what went wrong, and what HK_HALO_REPORT prints.
 */
#include "halo/internal.h"

#include <string.h>

_Thread_local struct hk_error hk_halo_said;

const char *hk_halo_error(void)
{
	return hk_halo_said.text;
}

static _Thread_local char wrong_next[400], wrong_now[400];

void hk_halo_wrong(const char *what)
{
	snprintf(wrong_next, sizeof(wrong_next), "%s", what);
}

const char *hk_halo_wrong_take(void)
{
	memcpy(wrong_now, wrong_next, sizeof(wrong_now));
	wrong_next[0] = '\0';
	return wrong_now[0] ? wrong_now : NULL;
}

/* One line a neighbour, in one piece, so that ranks' lines do not mix. */
void hk_halo_print(const struct hk_halo *h)
{
	for (int k = 0; k < h->neighbours; k++) {
		const struct hk_neighbour *nb = &h->neighbour[k];
		double n = nb->exchanges ? (double)nb->exchanges : 1;
		char line[512];

		snprintf(
			line, sizeof(line),
			"hk_halo: rank %d with rank %d: %llu bytes out, %llu in, %llu exchanges, "
			"from put to arrival %.2f us (%.2f to %.2f), set-up %.0f us; path %s: %s\n",
			h->rank, nb->rank, (unsigned long long)nb->out.bytes,
			(unsigned long long)nb->in.bytes, (unsigned long long)nb->exchanges,
			1e6 * nb->sum / n, nb->exchanges ? 1e6 * nb->min : 0.0, 1e6 * nb->max,
			1e6 * h->setup_time, nb->path->name, nb->why);
		fputs(line, stderr);
	}
}
