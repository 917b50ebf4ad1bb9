/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devmem/tool/main.c: chooses the command of hk_devmem, and has the functions that commands share.
 */
#include "devmem/tool/tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"

int hk_devmem_eal(char *const *nics, unsigned n, unsigned mb, struct hk_error *err)
{
	struct hk_eal_config cfg = {.role = HK_EAL_ALONE, .memory_mb = mb, .hugepages = true};
	size_t used = 0;

	for (unsigned i = 0; i < n; i++)
		used += (size_t)snprintf(cfg.pci_allow + used, sizeof(cfg.pci_allow) - used, "%s%s",
					 i ? " " : "", nics[i]);
	if (n == 0)
		cfg.extra_args = "--iova-mode=pa"; /* devices without a NIC's driver use physical
						      addresses */
	return hk_eal_init(&cfg, err);
}

volatile sig_atomic_t hk_devmem_stop;

static void on_signal(int sig)
{
	(void)sig;
	hk_devmem_stop = 1;
}

void hk_devmem_on_signals(void)
{
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
}

bool hk_devmem_number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 10);
	return isdigit((unsigned char)*text) && !*end && !errno;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int, char **);
	} commands[] = {{"forward", hk_devmem_forward},
			{"measure", hk_devmem_measure},
			{"nvme", hk_devmem_nvme},
			{"peer", hk_devmem_peer},
			{"pops", hk_devmem_pops}};

	for (size_t i = 0; argc > 1 && i < HK_ARRAY_LEN(commands); i++) {
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	}
	if (argc > 1)
		fprintf(stderr, "hk_devmem: there is no command '%s'\n", argv[1]);
	fprintf(stderr, "usage: hk_devmem COMMAND [OPTION...]; commands:");
	for (size_t i = 0; i < HK_ARRAY_LEN(commands); i++)
		fprintf(stderr, " %s", commands[i].name);
	fprintf(stderr, "\n");
	return 2;
}
