# SPDX-License-Identifier: BSD-3-Clause
"""The tagger on the distribution's own kernel, which has no tcx, in a virtual machine."""

import json
from collections.abc import Iterator

import pytest

from hikyaku import guest as guests
from hikyaku.checkout import built
from hikyaku.guest import Guest, Machine

READY = """
mkdir -p /tmp/cgroup && mount -t cgroup2 none /tmp/cgroup && ip link set dummy0 up
check() { hk-tagger --check; }
wait_for() {
  for _ in $(seq 500); do eval "$1" && return; sleep 0.02; done
  echo "in vain: $1"; exit 1
}
"""
TAG = "hk-tagger --iface dummy0 --restore"


@pytest.fixture(scope="module")
def guest(lab_name) -> Iterator[Guest]:
    name = lab_name("tagger")
    guests.down_dead(name.split("-")[0])
    try:
        yield Guest.up(Machine(), name, [built("systems/sdn/tagger/hk-tagger")])
    finally:
        guests.down(name)


def test_a_kernel_without_tcx(guest: Guest) -> None:
    """All programs load there. Filters come and go with the job; those of a holder that was killed
    are named, and go with the next job."""
    release = guest.run("uname -r")
    assert tuple(map(int, release.split(".")[:2])) < (6, 6), release
    said = guest.run(
        f"{READY}check\n{TAG} -- sh -c 'exit 7'; echo $?\n"
        "wait_for '[ -z \"$(pidof hk-tagger)\" ]'; check\n"
        f"{TAG} --attach tcx -- true 2>&1; echo $?\n"
        f"{TAG} -- sleep 1000 > /dev/null 2>&1 &\n"
        "wait_for 'pidof sleep > /dev/null'; kill -9 $(pidof hk-tagger)\n"
        "wait_for 'check | grep -q dummy0'; check; kill $(pidof sleep)\n"
        f"{TAG} -- true; wait_for '[ -z \"$(pidof hk-tagger)\" ]'; check",
        timeout=60,
    )
    before, seven, clean, refused, two, killed, after = said.strip().splitlines()
    assert json.loads(before) == json.loads(clean) == {"attach": "clsact", "stale": []}
    assert (seven, two) == ("7", "2")
    assert "cannot attach the tagger to dummy0 by tcx" in refused
    assert "fix: use Linux 6.6 or newer, or --attach clsact" in refused
    where = [{"interface": "dummy0", "job": 1, "direction": way} for way in ("egress", "ingress")]
    assert json.loads(killed)["stale"] == where
    assert json.loads(after)["stale"] == []
