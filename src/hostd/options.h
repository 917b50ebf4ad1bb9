/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostd/options.h: the options of hikyakud, on its command line (`--rx-buffers 512`) and in its
 * configuration file (`rx-buffers = 512`). One table describes both (hostd/options.c).
 *
 * The daemon reads the file first and then the command line. Limits (`max-...`) can only be set in
 * the file; they also apply to daemons that ranks start.
 */
#ifndef HK_HOSTD_OPTIONS_H
#define HK_HOSTD_OPTIONS_H

#include "base/common.h"
#include "hikyaku/error.h"
#include "hostd/control.h"

#define HK_OPTIONS_FILE "/etc/hikyaku/hikyakud.conf"

struct hk_options {
	char name[64], port[256], huge_dir[128], cpus[256], user[64], log[256];
	unsigned job;                           /* job key; 0: an administrator's daemon */
	unsigned starter;                       /* process id of the job's rank; 0: none */
	unsigned slots, rx_buffers, tx_buffers; /* buffers: of each slot */
	unsigned eager_queues;                  /* of each wire; 0: HK_EAGER_QUEUES */
	unsigned slot_memory_mb;                /* of each slot, for its worker */
	unsigned memory_mb;                     /* huge pages; 0: as much as all that needs */
	unsigned linger_ms;                     /* of a job's daemon without ranks */
	enum hk_ctl_mode mode;                  /* 0: the one that the port allows */
	bool poller, realtime, background, help, version;
	/* limits of the options above */
	unsigned max_slots, max_buffers, max_memory_mb;
	char config[256]; /* path of the file that was read; "": none */
};

/* Sets @o from the defaults, then from the file (--config, else HK_OPTIONS_FILE if it exists), then
 * from @argv. Returns 0 or a negative errno; the error names the option, the file and the line. */
int hk_options_read(int argc, char **argv, struct hk_options *o, struct hk_error *err);

/* Writes the options and their meaning, one a line. */
void hk_options_help(FILE *out);

#endif
