#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: BSD-3-Clause
# The guest's first process: makes it ready, then runs what comes by the second serial port, one
# command a line: "ID SECONDS BASE64". The output goes back as it comes, and after it "@ID STATUS".
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
chmod 755 / # DPDK loads no drivers from where everybody may write
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t hugetlbfs huge /huge
mkdir -p /dev/net /var/run
ip link set lo up
# The kernel's own drivers of NICs and NVMe would take the devices: modprobe loads them on demand.
while read -r module; do
	modprobe "$module" || echo "init: cannot load $module"
done < /etc/modules

stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
echo "@ready 0" >&3
cd /root || exit 1
# The loop has a shell of its own. When a child of a shell ends, the `read` of that shell starts
# again and loses the part of the line that it has read. The first process is the parent of all
# orphans.
(
	while read -r id seconds text <&3; do
		echo "$text" | base64 -d > "/tmp/command.$id"
		timeout -s KILL "$seconds" sh "/tmp/command.$id" < /dev/null >&3 2>&3
		printf '\n@%s %d\n' "$id" $? >&3
		rm -f "/tmp/command.$id"
	done
)
poweroff -f
