#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bind DRIVER ADDRESS...: gives PCI devices of the guest to a driver; "none" takes them away from
# theirs. An error has the reason that the kernel gives.
devices=/sys/bus/pci/devices
drivers=/sys/bus/pci/drivers

fail() {
	echo "bind: $1; fix: $2" >&2
	exit 1
}

# @1: the kernel's error text.
refused() {
	what="$driver does not take $d ($1)"
	if [ "$driver" = vfio-pci ] && [ ! -e "$dev/iommu_group" ]; then
		fail "$what: it is in no IOMMU group, since this guest has no IOMMU" \
			"bind uio_pci_generic $d, or add an IOMMU: hikyaku lab guest up --iommu"
	fi
	log=$(dmesg | grep -F "$driver" | grep -F "$d" | tail -n 1)
	other=uio_pci_generic
	[ "$driver" != $other ] || other=vfio-pci
	fail "$what${log:+: ${log#*] }}" "bind $other $d"
}

# A driver of VFIO does not let a device go before the process that uses it ends. Only one process
# at a time can open a group.
in_use() {
	[ "$(basename "$(readlink "$dev/driver")")" = vfio-pci ] || return 1
	group=/dev/vfio/$(basename "$(readlink "$dev/iommu_group")")
	! (: <>"$group") 2>/dev/null
}

[ $# -ge 2 ] || fail "the driver or the address is missing" "bind DRIVER ADDRESS..."
driver=$1
shift
[ "$driver" = none ] || [ -d "$drivers/$driver" ] ||
	fail "this guest has no driver '$driver'" "use uio_pci_generic, vfio-pci or none"
for d; do
	dev=$devices/$d
	[ -e "$dev" ] || fail "there is no device '$d'" "use an address that 'ls $devices' shows"
	if [ -e "$dev/driver" ]; then
		! in_use || fail "a process uses $d" "end it first"
		echo "$d" >"$dev/driver/unbind"
	fi
	if [ "$driver" = none ]; then
		echo >"$dev/driver_override"
		continue
	fi
	echo "$driver" >"$dev/driver_override"
	error=$({ echo "$d" >"$drivers/$driver/bind"; } 2>&1) || refused "${error##*: }"
done
