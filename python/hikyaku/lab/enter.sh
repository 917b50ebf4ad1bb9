#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# enter.sh NODE CPUS COMMAND...: runs COMMAND as a process of a lab's node.
#
# A node is a network namespace, a host name and a list of cores. Entered by nsenter and not by
# `ip netns exec`, which would remount /sys and so hide pinned eBPF programs. The host name, the
# hosts file and /dev/shm are private to each command that is started: nodes of a real cluster
# share no memory either, and nothing of it is left when the command ends. What lasts as long as the
# node is told by the environment: HIKYAKU_RUNDIR, where daemons are found; HIKYAKU_HUGE_DIR, its
# hugetlbfs, if it has huge pages; RUNTIME_DIRECTORY, where DPDK keeps its own files.
#
# `hikyaku lab up` copies this file into the lab's directory, where it finds `nodes/NODE`.
set -eu

dir=$(dirname "$0")
node=$1
cpus=$2
shift 2
if [ ! -f "$dir/nodes/$node" ]; then
	echo "hikyaku lab: no node '$node' here; nodes are: $(cd "$dir/nodes" && echo *)" >&2
	exit 127
fi
{
	read -r netns
	read -r own
} <"$dir/nodes/$node"
if [ ! -e "/run/netns/$netns" ]; then
	echo "hikyaku lab: namespace $netns of $node is gone; run 'hikyaku lab down', then 'up'" >&2
	exit 127
fi

export HIKYAKU_RUNDIR="$own/run" RUNTIME_DIRECTORY="$own"
unset HIKYAKU_HUGE_DIR # of the machine, if it was set
if [ -d "$own/huge" ]; then
	export HIKYAKU_HUGE_DIR="$own/huge"
fi

# shellcheck disable=SC2016 # expanded by the inner shell
exec nsenter --net="/run/netns/$netns" unshare --uts --mount taskset -c "$cpus" sh -c '
	hostname "$1"
	mount --bind "$2" /etc/hosts
	mount -t tmpfs -o mode=1777 hikyaku /dev/shm
	shift 2
	exec "$@"' "$node" "$node" "$dir/hosts" "$@"
