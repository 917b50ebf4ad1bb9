# SPDX-License-Identifier: BSD-3-Clause
"""Priority tags of small frames, as they are on the wire between the nodes."""

import pytest

from .tagging import Frame, captured

pytestmark = pytest.mark.one_core

SMALL = 1118  # HK_PORT_SMALL_FRAME
ETHERTYPE = b"\x88\xb5"


@pytest.mark.parametrize("mode", ["inline", "daemon"])
@pytest.mark.parametrize("kind", ["af_packet", "af_xdp"])
def test_small_frames_have_the_priority(get_lab, program, kind, mode):
    """Both ports take tags off, and the job runs. Short messages and acknowledgements
    have the priority; pieces of long messages have none. The capture is on the switch's port of
    node0: no tap of a node sees frames of AF_XDP."""
    lab = get_lab(3, "veth", 1, huge_mb=384)  # two nodes would have no switch
    argv = [program("tests/mpi/mpi_functions"), "--mode", "p2p", "--rounds", "5"]
    mca = {"btl_hikyaku_port": f"{kind}:iface=hk0,priority=6", "btl_hikyaku_mode": mode}
    frames: list[Frame] = []
    with captured(lab, None, frames, link="hk0-0"):
        done = lab.mpirun(2, argv, mca=mca)
    assert done.returncode == 0, done.stderr
    ours = [f for f in frames if f.raw[12:14] == ETHERTYPE]
    assert {f.vlan for f in ours if f.size < SMALL} == {0x8100 << 16 | 6 << 13}
    assert {f.vlan for f in ours if f.size >= SMALL} == {None}
    for outgoing in (False, True):
        assert sum(f.size < SMALL for f in ours if f.outgoing == outgoing) > 10
    assert sum(f.size >= SMALL for f in ours) > 10
