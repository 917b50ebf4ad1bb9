#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# test_cli.sh HIKYAKU DAEMON: `hikyaku daemon` with a hikyakud that needs no huge pages.
set -eu
hikyaku=$1
HIKYAKU_DAEMON=$2
dir=$(mktemp -d)
export HIKYAKU_DAEMON HIKYAKU_RUNDIR="$dir/run" XDG_RUNTIME_DIR="$dir"
finish() {
	status=$?
	"$hikyaku" daemon stop --all >/dev/null 2>&1 || true
	rm -rf "$dir"
	exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

fail() {
	echo "FAIL: $*" >&2
	exit 1
}

# want STATUS TEXT COMMAND...: the command exits with STATUS (0 or 1) and prints TEXT
want() {
	status=$1 text=$2
	shift 2
	got=0
	out=$("$hikyaku" daemon "$@" 2>&1) || got=1
	[ "$got" = "$status" ] || fail "daemon $*: status $got: $out"
	case $out in
	*Traceback*) fail "daemon $*: $out" ;;
	*"$text"*) ;;
	*) fail "daemon $*: '$text' is not in: $out" ;;
	esac
}

want 1 "no hikyakud runs here" status
want 0 "nothing to stop" stop
want 1 "fix: say --port" start
want 1 "hikyakud cannot run on 1000-1023" start --port fake:port --cpus 1000-1023
want 1 "there are no huge pages" start --port fake:broken
want 0 "is ready" start --port "fake:$dir" --slots 2 --rx-buffers 128
want 1 "another hikyakud 'default' runs" start --port "fake:$dir"
want 0 "is ready" start --name two --port "fake:$dir" --poller off --realtime off
want 0 "since the option 'realtime' is off" status --name two
want 0 "slot 1  free" status --name default
want 0 '"rx_buffers": 128' status --json
want 1 "is for the administrator" start --name three --port "fake:$dir" --max-slots 3
want 1 "no hikyakud 'three'" status --name three
want 0 "'default' has ended" stop
want 0 "'two' has ended" stop --all
left=$(find "$dir" -mindepth 1 ! -path "$dir/run")
[ -z "$left" ] || fail "files are left: $left"
echo ok
