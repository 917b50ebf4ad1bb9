#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# agent.sh NODE COMMAND-LINE...: what mpirun calls in place of ssh.
#
# Like ssh, it joins its arguments into one line for the remote shell. HIKYAKU_LAB_CPUS tells the
# cores of each node ("node0=0 node1=1 ..."), as the run wants them.
set -eu

node=$1
shift
cpus=
for pair in $HIKYAKU_LAB_CPUS; do
	if [ "${pair%%=*}" = "$node" ]; then
		cpus=${pair#*=}
	fi
done
if [ -z "$cpus" ]; then
	echo "hikyaku lab: mpirun asks for host '$node', which this lab does not have" >&2
	exit 127
fi
exec "${0%/*}/enter.sh" "$node" "$cpus" sh -c "$*"
