# SPDX-License-Identifier: BSD-3-Clause
"""The router's three buffer plans on emulated NICs: what bounce, p2p and pktpit send is the same,
byte for byte, and payloads of the latter two lie in another device's memory and nowhere else."""

from collections.abc import Iterator

import pytest

from hikyaku import guest as guests
from hikyaku.guest import Guest
from hikyaku.p2p.plans import MACHINE, MARKER, PLANS, Plan, run, wrong


@pytest.fixture(scope="module")
def guest(lab_name) -> Iterator[Guest]:
    name = lab_name("router")
    guests.down_dead(name.split("-")[0])
    try:
        yield Guest.up(MACHINE, name)
    finally:
        guests.down(name)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_three_plans(guest: Guest, plan: Plan, request: pytest.FixtureRequest) -> None:
    n = 20000 if request.config.getoption("--slow") else 500
    row = run(guest, plan, n)
    said = row.pop("said")
    assert not wrong(row), "\n".join([*wrong(row), said])
    assert row["corrupt"] == 0 and row["missing"] == 0 and row["in_order"], (row, said)
    assert row["packets"] == n and row["header_bytes"] <= 64
    assert row["fragmented"] > 10 and row["icmp"] > 10 and row["longest"] > 9000
    if plan.mode == "bounce":  # the scan does find what is there
        assert row["in_main_memory"] > min(300, row["marked"] / 2), row
    else:
        assert row["in_main_memory"] == 0, row
    if plan.memory == "ivshmem":
        assert guest.bar().count(MARKER) > 100, "seen from outside of the machine"
