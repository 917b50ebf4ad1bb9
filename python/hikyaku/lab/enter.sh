#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# enter.sh NODE CPUS COMMAND...: runs COMMAND as a process of a lab's node.
#
# A node is a network namespace, a host name and a list of cores. nsenter enters the namespace:
# `ip netns exec` would remount /sys and so hide pinned eBPF programs.
#
# Each command has a host name, a hosts file and a /dev/shm of its own, which end with it. Nodes of
# a real cluster share no memory either. /sys shows the interfaces of the namespace, and DPDK finds
# the drivers of virtual devices alone (drivers.py). Other directories last as long as the node:
#
#   HIKYAKU_RUNDIR      run directories of daemons
#   HIKYAKU_HUGE_DIR    the hugetlbfs, if the node has huge pages
#   RUNTIME_DIRECTORY   files of DPDK
#
# `hikyaku lab up` copies this file into the lab's directory, which has the file `nodes/NODE`.
set -eu

dir=${0%/*}
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
unset HIKYAKU_HUGE_DIR # the machine's own is not the node's
if [ -d "$own/huge" ]; then
	export HIKYAKU_HUGE_DIR="$own/huge"
fi
place=
if [ -f "$dir/drivers.place" ]; then
	read -r place <"$dir/drivers.place"
fi

# shellcheck disable=SC2016 # expanded by the inner shell
exec nsenter --net="/run/netns/$netns" unshare --uts --mount taskset -c "$cpus" sh -c '
	echo "$1" >/proc/sys/kernel/hostname
	mount --bind "$2" /etc/hosts
	mount -t sysfs hikyaku /dev/shm
	mount --bind /dev/shm/class/net /sys/class/net
	mount --bind /dev/shm/devices/virtual/net /sys/devices/virtual/net
	umount /dev/shm
	mount -t tmpfs -o mode=1777 hikyaku /dev/shm
	if [ "$4" ]; then
		mount --bind "$3" "$4"
	fi
	shift 4
	exec "$@"' "$node" "$node" "$dir/hosts" "$dir/drivers" "$place" "$@"
