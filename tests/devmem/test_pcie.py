# SPDX-License-Identifier: BSD-3-Clause
"""The model of PCI Express, against figures that pcie-bench published, and by hand."""

import pytest

from hikyaku.devmem import pcie
from hikyaku.devmem.pcie import DOWN, UP, Link


def test_rate_of_a_link():
    """62.96 Gbit/s on the wires of Gen3 x8, of which 57.88 are left for transactions."""
    assert Link().gbps == pytest.approx(57.88, rel=2e-3)
    assert Link(1, 1).gbps == pytest.approx(2.0 * pcie.LINK_SHARE)
    assert Link(4, 8).gbps == pytest.approx(2 * Link(3, 8).gbps)


def test_a_write():
    assert Link().write(64) == {UP: 64 + 24}
    assert Link().write(256) == {UP: 256 + 24}
    assert Link().write(257) == {UP: 257 + 2 * 24}
    assert Link(payload=128).write(256) == {UP: 256 + 2 * 24}


def test_a_read():
    assert Link().read(64) == {UP: 24, DOWN: 64 + 20}
    assert Link().read(1024) == {UP: 2 * 24, DOWN: 1024 + 4 * 20}
    assert Link(request=256).read(1024)[UP] == 4 * 24


def test_throughput_is_that_of_the_busier_direction():
    link = Link()
    assert link.throughput(64, link.write(64)) == pytest.approx(link.gbps * 64 / 88)
    assert link.throughput(64, link.read(64)) == pytest.approx(link.gbps * 64 / 84)
    # one packet more begins at each multiple of the payload: the saw tooth of pcie-bench's plots
    assert link.throughput(257, link.write(257)) < link.throughput(256, link.write(256))
    assert link.throughput(1 << 20, link.write(1 << 20)) == pytest.approx(link.gbps * 256 / 280)


@pytest.mark.parametrize("size", [64, 300, 1518])
def test_paths(size):
    """Main memory is written and read. Between devices each byte crosses both links in one go."""
    link = Link()
    receiver, sender = pcie.of_path(link, "bounce", size)
    assert (receiver, sender) == (link.write(size), link.read(size))
    receiver, sender = pcie.of_path(link, "p2p write", size)
    assert receiver[UP] == sender[DOWN] == link.write(size)[UP]
    assert receiver[DOWN] == sender[UP] == 0
    receiver, sender = pcie.of_path(link, "p2p read", size)
    assert sender == link.read(size)
    assert (receiver[UP], receiver[DOWN]) == (sender[DOWN], sender[UP])


def test_headers_at_line_rate():
    """40 GbE carries 59.5 million frames of 64 bytes a second."""
    assert pcie.packets_per_second(40, 64) == pytest.approx(59.52e6, rel=1e-3)
    (row,) = pcie.rows(Link(), [64], 40)
    assert row["write_headers_gbps"] == pytest.approx(59.52e6 * 24 * 8 / 1e9, rel=1e-3)
    assert row["p2p_write_headers_gbps"] == pytest.approx(2 * row["write_headers_gbps"])
    assert row["bounce_headers_gbps"] > row["p2p_write_headers_gbps"]
