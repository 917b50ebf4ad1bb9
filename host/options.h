/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host/options.h: what hikyakud can be told, on its command line (`--rx-buffers 512`) and in its
 * configuration file (`rx-buffers = 512`): one table for both (host/options.c).
 *
 * The file is read first, then the command line; limits (`max-…`) can be set by the file only, and
 * bind daemons that ranks start too.
 */
#ifndef HK_HOST_OPTIONS_H
#define HK_HOST_OPTIONS_H

#include "base/common.h"
#include "base/error.h"
#include "host/control.h"

#define HK_OPTIONS_FILE "/etc/hikyaku/hikyakud.conf"

struct hk_options {
	char name[64], port[256], huge_dir[128], cpus[256], user[64], log[256];
	unsigned job;                           /* key; 0: an administrator's daemon */
	unsigned slots, rx_buffers, tx_buffers; /* buffers: of each slot */
	unsigned eager_queues;                  /* 0: the default */
	unsigned slot_memory_mb;                /* of each slot: for its fabric */
	unsigned memory_mb;                     /* 0: what all that needs */
	unsigned linger_ms;
	enum hk_ctl_mode mode;
	bool poller, realtime, background, help, version;
	/* limits */
	unsigned max_slots, max_buffers, max_memory_mb;
	char config[256]; /* the file that was read; "": none */
};

/* Defaults, then the file (--config, else HK_OPTIONS_FILE if it is there), then @argv. 0 or -EINVAL
 * and the like with a sentence that names the option, the file and the line. */
int hk_options_read(int argc, char **argv, struct hk_options *o, struct hk_error *err);

/* The table as text for people. */
void hk_options_help(FILE *out);

#endif
