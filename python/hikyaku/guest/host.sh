#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# host [--user ID] COMMAND...: runs a command with the files of the host, which are read-only.
# These are its programs and libraries, and this checkout under its own path. /run and /dev are the
# guest's own.
set -e
user=0
if [ "$1" = --user ]; then
	user=$2
	shift 2
fi
if [ ! -d /host/usr ]; then
	modprobe -a virtio_pci 9pnet_virtio 9p
	mkdir -p /host /dev/shm /dev/hugepages
	options=ro,trans=virtio,cache=loose,version=9p2000.L,msize=131072
	mount -t 9p -o "$options" host /host || {
		echo "host: this guest has no files of the host; fix: Machine(host_files=True)" >&2
		exit 1
	}
	mount -t tmpfs shm /dev/shm
	mount --bind /huge /dev/hugepages
	for directory in dev proc sys run; do
		mount --rbind "/$directory" "/host/$directory"
	done
	# DPDK loads each driver that it finds, which takes 10 s in an emulator. So it finds the
	# guest's.
	for drivers in /usr/lib/*/dpdk/pmds-*; do
		mount --bind "$drivers" "/host$drivers"
	done
fi
own=/run/user/$user
if [ ! -d "$own" ]; then
	mkdir -p "$own"
	chmod 700 "$own"
	chown "$user:$user" "$own"
fi
# shellcheck disable=SC3045 # busybox has it
ulimit -l unlimited # VFIO pins the memory of a process
export PATH=/usr/sbin:/usr/bin HOME="$own" TMPDIR="$own" XDG_RUNTIME_DIR="$own"
exec chroot /host /usr/bin/setpriv --reuid="$user" --regid="$user" --clear-groups "$@"
