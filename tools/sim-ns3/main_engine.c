/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sim-ns3/main_engine.c: hikyaku-sim-ns3: the options and results of hikyaku-sim, with the network
 * of ns-3.
 */
#include "sim-ns3/program.h"

int main(int argc, char **argv)
{
	return ns3_run(argc, argv, NULL);
}
