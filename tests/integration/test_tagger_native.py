# SPDX-License-Identifier: BSD-3-Clause
"""Native tags: tags in captured frames of the BTL."""

import itertools
import json
from collections import Counter

import pytest

from hikyaku import process
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab
from hikyaku.sdn.registrar import Registrar
from hikyaku.sdn.tag import Function

from .mpi_programs import assert_passed
from .tagging import Frame, captured

ACK = 3  # HK_WIRE_ACK
RESENT = 2  # HK_WIRE_F_RESENT


def native(lab: Lab, program: str, job: int, *arguments: str, **more: str):
    mca = {"btl_hikyaku_port": "af_packet:iface=hk0", "btl_hikyaku_tag": str(job)} | more
    return lab.mpirun(2, [program, *arguments], mca=mca)


@pytest.mark.parametrize(("function", "sender"), [("bcast", 0), ("gather", 1), ("p2p", 0)])
def test_native_tags(get_lab, program, function: str, sender: int) -> None:
    """Tags of the BTL's frames, captured at the receiver. The messages of bcast and p2p exceed the
    eager limit, so the receiver gets them. Those of gather are half as long, and eager."""
    lab = get_lab(2, "veth", 1)
    frames: list[Frame] = []
    with captured(lab, f"node{1 - sender}", frames, link="hk0"):
        done = native(lab, program("tests/mpi/mpi_functions"), 5, "--mode", function)
    assert done.returncode == 0, done.stderr
    ours = [f for f in frames if not f.outgoing and f.raw[12:14] == b"\x88\xb5"]
    assert ours
    assert {(f.tag.job, f.tag.source, f.tag.destination) for f in ours if f.tag} == {
        (5, sender, 1 - sender)
    }
    # until MPI has told it who a sender is, a rank answers to the sender's own address
    early = list(itertools.takewhile(lambda f: not f.tag, ours))
    assert all(f.raw[38] == ACK for f in early)
    assert all(f.tag for f in ours[len(early) :])
    # Base header: type at byte 24 (DATA 1, PUT 2, ACK 3), flags at byte 25. The tag of a resent
    # frame has the MPI function that the sender is in at that time (docs/tag.md).
    first = [f for f in ours[len(early) :] if not f.raw[39] & RESENT]
    seen = Counter((f.raw[38], f.tag.function) for f in first)
    here = Function[function.upper()]
    assert sum(n for (_, fn), n in seen.items() if fn == here) >= 20, seen
    got = {fn for kind, fn in seen if kind == 2}
    assert got == (set() if function == "gather" else {here}), seen


def test_no_native_tags_unless_asked(get_lab, program) -> None:
    lab = get_lab(2, "veth", 1)
    frames: list[Frame] = []
    with captured(lab, "node1", frames, link="hk0"):
        done = native(lab, program("tests/mpi/mpi_functions"), 0, "--rounds", "1")
    assert done.returncode == 0, done.stderr
    ours = [f for f in frames if not f.outgoing and f.raw[12:14] == b"\x88\xb5"]
    assert ours
    argv = lab.exec_argv("node1", ["ip", "-json", "link", "show", "hk0"])
    assert {f.to for f in ours} == {json.loads(process.run(argv))[0]["address"]}


def test_a_job_number_that_does_not_fit_a_tag(get_lab, program) -> None:
    done = native(get_lab(2, "veth", 1), program("tests/mpi/mpi_functions"), 64)
    assert "btl_hikyaku_tag is 64; fix: give the job a number from 1 to 63" in done.stderr


class FakeController:
    """Replaces the client of a controller. It knows all ranks, except those that it refuses."""

    def __init__(self, refuses: set[str]):
        self.refuses = refuses
        self.ranks: list[int] = []

    def post(self, _path: str, _data: object) -> dict:
        return {"job": 5}

    def put(self, path: str, data: dict[str, str]) -> None:
        if not path.endswith("/ranks"):
            return
        if data.keys() & self.refuses:
            raise HikyakuError("no room")
        self.ranks += map(int, data)

    def get(self, _path: str) -> dict:
        return {"located": self.ranks}

    def delete(self, _path: str) -> None:
        pass


@pytest.mark.parametrize("refused", [set(), {"1"}])
def test_a_rank_that_the_controller_refuses(get_lab, program, tmp_path, refused: set[str]) -> None:
    """The other ranks send it frames without tags. The first switch would drop frames with tags."""
    lab = get_lab(2, "veth", 1)
    frames: list[Frame] = []
    with (
        Registrar(FakeController(refused), "native", tmp_path / "r") as registrar,
        captured(lab, "node1", frames, link="hk0"),
    ):
        argv = program("tests/mpi/mpi_functions"), 5, "--rounds", "1"
        done = native(lab, *argv, btl_hikyaku_registrar=f"{registrar.secret}@{registrar.address}")
    assert done.returncode == 0, done.stderr
    assert ("rank 1 sends without tags: no room" in done.stderr) == bool(refused)
    ours = [f for f in frames if f.raw[12:14] == b"\x88\xb5" and not f.raw[0] & 1]
    assert {(f.outgoing, f.tag is None) for f in ours} == {(False, bool(refused))}


@pytest.mark.parametrize(
    ("mode", "why"),
    [("hybrid", "hikyakud has this node's"), (None, "memif has wires")],
)
def test_ranks_without_a_port_of_their_own_do_not_tag(run, mode: str | None, why: str) -> None:
    """A controller could not distinguish them, so they do not ask the registrar."""
    mca = {"btl_hikyaku_tag": "5", "btl_hikyaku_registrar": "secret@/nobody/there"}
    done = run(("memif", 2, 1), "p2p_modes --rounds 1", mode=mode, mca=mca)
    assert_passed(done, "p2p_modes")
    for rank in (0, 1):
        assert f"rank {rank} sends without tags: a tag stands for a port" in done.stderr
    assert why in done.stderr
