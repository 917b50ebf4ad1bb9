# SPDX-License-Identifier: BSD-3-Clause
"""Bytes on the PCI Express links of emulated NICs, by hand."""

import pytest

from hikyaku.bench.router import links, nics


def moved(region: str, what: str, way: str, transfers: int, size: int) -> dict:
    named = {"region": region, "what": what, "way": way}
    return named | {"transfers": transfers, "bytes": transfers * size}


def pair(receiver: list[dict], sender: list[dict], host: list[dict] | None = None) -> list[dict]:
    """The documents of two NICs, of which the second has sent ten frames."""
    said = [{"nic": 0, "sent": 0, "transfers": receiver}]
    said.append({"nic": 1, "sent": 10, "transfers": sender})
    return said + ([{"host": True, "transfers": host}] if host is not None else [])


def test_a_write_crosses_both_links_and_its_own_bar_none():
    found = links.loads(
        pair(
            [moved("bar1", "payload", "write", 10, 64), moved("bar1", "doorbell", "write", 1, 4)],
            [moved("bar1", "payload", "read", 10, 64), moved("bar0", "doorbell", "write", 1, 4)],
        )
    )
    one_way = 10 * (64 + 24) + 2 * (4 + 24)
    assert [load.carried for load in found] == [one_way, one_way]
    assert [load.payload for load in found] == [640, 640]
    assert found[0].header_share == pytest.approx(1 - 640 / one_way)


def test_a_read_has_a_request_and_a_completion():
    found = links.loads(pair([], [moved("bar0", "payload", "read", 10, 300)]))
    assert [load.carried for load in found] == [10 * (24 + 300 + 2 * 20)] * 2


def test_main_memory_is_on_no_link_of_its_own():
    found = links.loads(
        pair(
            [moved("main0", "payload", "write", 10, 64)],
            [moved("main0", "payload", "read", 10, 64)],
        )
    )
    assert [load.carried for load in found] == [10 * (64 + 24), 10 * (24 + 64 + 20)]


def test_the_host_writes_next_hops_to_the_nic():
    found = links.rows(
        pair(
            [
                moved("host", "address", "write", 1, 40),
                moved("bar0", "hop", "read", 1, 80),
            ],
            [],
            [moved("bar0", "hop", "write", 1, 80), moved("host", "address", "read", 1, 40)],
        )
    )
    assert [row["bytes_a_frame"] for row in found] == [(40 + 24 + 80 + 24) / 10, 0]
    assert found[0]["header_share"] == 1.0 and found[1]["header_share"] == 0.0


def test_the_rate_is_that_of_all_that_send():
    receive, send = ({"rate": {"upper": upper}} for upper in (99.0, 8.0))
    assert nics.rate([receive, send], 1) == 8.0
    assert nics.rate([receive, receive, send, send], 2) == 16.0
