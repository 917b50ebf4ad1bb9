# SPDX-License-Identifier: BSD-3-Clause
"""The router's plans on emulated NICs: bounce, p2p and pktpit.

All send the same frames, byte for byte. With p2p and pktpit, payloads are in the memory of another
device, and never in main memory.
"""

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from hikyaku import guest as guests
from hikyaku.devmem.plans import MACHINE, MARKER, PLANS, Plan, end, run, start, traffic, wrong
from hikyaku.guest import Guest


@pytest.fixture(scope="module")
def guest(lab_name) -> Iterator[Guest]:
    name = lab_name("router")
    guests.down_dead(name.split("-")[0])
    try:
        yield Guest.up(MACHINE, name)
    finally:
        guests.down(name)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_each_plan(guest: Guest, plan: Plan, request: pytest.FixtureRequest) -> None:
    n = 20000 if request.config.getoption("--slow") else 500
    row = run(guest, plan, n)
    said = row.pop("said")
    assert not wrong(row), "\n".join([*wrong(row), said])
    assert row["corrupt"] == 0 and row["missing"] == 0 and row["in_order"], (row, said)
    assert row["packets"] == n and row["header_bytes"] <= 64
    assert row["fragmented"] > 10 and row["icmp"] > 10 and row["longest"] > 9000
    if plan.mode == "bounce":  # shows that the scan of main memory finds payloads
        assert row["in_main_memory"] > min(300, row["marked"] / 2), row
    else:
        assert row["in_main_memory"] == 0, row
    if plan.memory == "ivshmem":
        assert guest.bar().count(MARKER) > 100, "the device's memory, as the host sees it"


def test_frames_that_arrive_while_the_router_starts(guest: Guest) -> None:
    """They may be lost, but must not be forwarded with wrong bytes. This happened to frames that a
    NIC received before it could reach the device's memory: they had bytes of an earlier frame."""
    plan = Plan("pktpit", "nvme", "vfio")
    kinds = set(run(guest, plan, 1000)["results"])  # this run also leaves its bytes in the buffers
    it = traffic(300, plan.mtu)
    got: list[list[bytes]] = [[], []]
    with guest.wire(0) as left, guest.wire(1) as right:
        early = 0
        while left.try_send(it.sent[early]):  # until the queue of the NIC, which is down, is full
            early += 1
        router = start(guest, plan)
        for frame in it.sent[early:]:
            left.send(frame)
        limit = time.monotonic() + 60
        while any(want[-1] not in g for g, want in zip(got, it.want, strict=True)):
            assert time.monotonic() < limit, [len(g) for g in got]
            for wire, g in zip((left, right), got, strict=True):
                while (frame := wire.receive(0.01)) is not None:
                    g.append(frame)
    stats, said = end(router)
    assert early > 0
    assert set(stats["ports"][0]["results"]) <= kinds, said
    for g, want in zip(got, it.want, strict=True):
        assert not Counter(g) - Counter(want), said
    assert sum(map(len, got)) >= sum(it.answers[early:]), said
