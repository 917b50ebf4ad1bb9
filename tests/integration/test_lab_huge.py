# SPDX-License-Identifier: BSD-3-Clause
"""Huge pages of labs.

The tests of the accounting use a simulated pool of plain files, because other programs may change
the machine's pool at any time. Tests with real labs use the machine's pool.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from execute import execute
from hikyaku import process
from hikyaku.errors import HikyakuError
from hikyaku.lab import Lab, down, huge

FIRST = 5  # pages that another program has reserved


# ---- the accounting ------------------------------------------------------------------------------


class Pool:
    """A simulated pool, and a lab in each of two checkouts that take pages from it."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch):
        self.number = base / "pool" / "nr_hugepages"
        self.surplus = base / "pool" / "surplus_hugepages"
        self.number.parent.mkdir()
        self.number.write_text(f"{FIRST}\n")
        self.surplus.write_text("0\n")
        self.labs = [base / f"hikyaku-{os.getuid()}-{c}" / "labs" / "x" for c in "ab"]
        for lab in self.labs:
            lab.mkdir(parents=True)
        monkeypatch.setattr(huge, "POOL", self.number.parent)
        monkeypatch.setattr(huge, "STATE_DIR", self.labs[0].parents[1])

    @property
    def pages(self) -> int:
        return int(self.number.read_text())

    def kill_in_step(self, lab: Path, pages: int, step: tuple[int, int], pool: int) -> None:
        """Simulates a tool that was killed while it changed the pool from step[0] to step[1] pages.
        Then the pool had @pool pages."""
        (lab / huge.BOOK).write_text(json.dumps({"pages": pages, "step": step}))
        self.number.write_text(str(pool))


@pytest.fixture
def pool(tmp_path, monkeypatch) -> Pool:
    return Pool(tmp_path, monkeypatch)


def test_each_lab_adds_its_pages_and_gives_back_as_many(pool):
    a, b = pool.labs
    huge.take(a, 8)
    huge.take(b, 3)
    assert pool.pages == FIRST + 11
    pool.number.write_text(str(pool.pages + 2))  # the administrator adds pages as well
    assert huge.give_back(a) == 8
    assert pool.pages == FIRST + 3 + 2
    assert huge.give_back(b) == 3
    assert pool.pages == FIRST + 2
    assert huge.give_back(b) == 0
    assert pool.pages == FIRST + 2
    assert [*a.iterdir(), *b.iterdir()] == []


@pytest.mark.parametrize("done", [0, 3, 8], ids=lambda n: f"after-{n}")
def test_killed_while_taking(pool, done):
    pool.kill_in_step(pool.labs[0], 0, (FIRST, FIRST + 8), FIRST + done)
    assert huge.give_back(pool.labs[0]) == done
    assert pool.pages == FIRST


@pytest.mark.parametrize("done", [0, 3, 8], ids=lambda n: f"after-{n}")
def test_killed_while_giving_back(pool, done):
    pool.kill_in_step(pool.labs[0], 8, (FIRST + 8, FIRST), FIRST + 8 - done)
    assert huge.give_back(pool.labs[0]) == 8 - done
    assert pool.pages == FIRST


def test_the_next_lab_completes_the_record_of_a_killed_tool(pool):
    """After the next change of the pool, the pages of the two labs cannot be distinguished."""
    a, b = pool.labs
    pool.kill_in_step(a, 0, (FIRST, FIRST + 8), FIRST + 3)
    huge.take(b, 4)
    assert huge.give_back(a) == 3
    assert huge.give_back(b) == 4
    assert pool.pages == FIRST


def test_surplus_pages_do_not_count(pool):
    """Surplus pages are beyond the pool's number but still mapped. They go when the programs that
    map them end."""
    pool.number.write_text(str(FIRST + 2))
    pool.surplus.write_text("2")
    assert huge.pool_pages() == FIRST


def test_the_pool_is_restored_if_memory_is_short(pool, monkeypatch):
    real = huge.pool_pages
    monkeypatch.setattr(huge, "pool_pages", lambda: min(real(), FIRST + 6))
    with pytest.raises(HikyakuError, match="only 12 MB to make huge pages of, not 16"):
        huge.take(pool.labs[0], 8)
    assert pool.pages == FIRST
    assert list(pool.labs[0].iterdir()) == []


def test_damaged_record_is_reported(pool):
    (pool.labs[0] / huge.BOOK).write_text("{")
    with pytest.raises(HikyakuError, match=r"huge\.json is damaged"):
        huge.give_back(pool.labs[0])


@pytest.mark.parametrize("mb", [-2, 3])
def test_impossible_sizes_are_refused(lab_name, mb):
    with pytest.raises(HikyakuError, match="multiple"):
        Lab.up(name=lab_name("odd"), huge_mb=mb)


# ---- real labs -----------------------------------------------------------------------------------

# Fills a page of the node's hugetlbfs, then prints the node's name and directories.
TOUCH = """
import mmap, os, socket
path = os.environ["HIKYAKU_HUGE_DIR"] + "/" + (os.environ.get("OMPI_COMM_WORLD_RANK") or "x")
with open(path, "w+b") as file:
    os.truncate(path, 2 << 20)
    with mmap.mmap(file.fileno(), 2 << 20) as page:
        page[:] = b"7" * (2 << 20)
line = [socket.gethostname(), os.environ["HIKYAKU_HUGE_DIR"], os.environ["HIKYAKU_RUNDIR"]]
os.write(1, (" ".join(line) + "\\n").encode())  # in one call, or mpirun mixes lines of ranks
"""


def mounts() -> list[str]:
    return [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]


def test_several_ranks_of_a_node_share_its_huge_pages(lab_name):
    name = lab_name("huge")
    lab = Lab.up(2, "memif", 2, name=name, huge_mb=4)
    homes = [lab.node_directory(n.name) for n in lab.topology.nodes]
    try:
        assert huge.pool_pages() >= 4
        python = ["/usr/bin/python3", "-c", TOUCH]
        result = lab.mpirun(4, python, tcp=True, timeout=60)
        assert result.returncode == 0, result.stderr
        expected = [f"node{i} {home}/huge {home}/run" for i, home in enumerate(homes)]
        assert sorted(result.stdout.splitlines()) == sorted(expected * 2)
        # each node has its own hugetlbfs; consecutive ranks are on different nodes
        assert sorted(p.name for p in (homes[0] / "huge").iterdir()) == ["0", "2"]
        assert sorted(p.name for p in (homes[1] / "huge").iterdir()) == ["1", "3"]
        # each node has two pages, so a third file cannot be filled
        sizes = [os.statvfs(home / "huge") for home in homes]
        assert [s.f_blocks * s.f_frsize for s in sizes] == [4 << 20] * 2
        third = subprocess.run(
            lab.exec_argv("node0", python), capture_output=True, timeout=30, check=False
        )
        assert third.returncode != 0
        assert all(str(home / "huge") in mounts() for home in homes)
        assert (homes[0] / "run").stat().st_mode & 0o777 == 0o700
    finally:
        removed = down(name)
    assert "4 huge pages" in removed
    assert not any(home.exists() or str(home / "huge") in mounts() for home in homes)


def test_a_lab_without_huge_pages_unsets_the_variable(get_lab):
    lab = get_lab(2, "memif", 1)
    script = 'echo "${HIKYAKU_HUGE_DIR-none}"; test -d "$HIKYAKU_RUNDIR" && echo there'
    outer = {**os.environ, "HIKYAKU_HUGE_DIR": "/of/the/machine"}
    done = execute(lab.exec_argv("node1", ["sh", "-c", script]), timeout=30, env=outer)
    assert done.stdout.split() == ["none", "there"]


def test_killed_tool_leaves_pages_that_down_finds(lab_name, tmp_path, python_script):
    """A process that still has a page mapped survives the kill of the tool."""
    name = lab_name("hugekill")
    script = python_script(
        tmp_path / "up.py",
        "import subprocess, sys, time\n"
        "from hikyaku.lab import Lab\n"
        f"lab = Lab.up(2, 'memif', name={name!r}, huge_mb=4)\n"
        f"hold = {TOUCH!r} + 'import sys, time; sys.stdout.flush(); time.sleep(300)'\n"
        "subprocess.Popen(lab.exec_argv('node1', ['/usr/bin/python3', '-c', hold]),\n"
        "                 start_new_session=True)\n"
        "time.sleep(300)\n",
    )
    tool = subprocess.Popen(script, stdout=subprocess.PIPE, text=True)
    home = Path(tool.stdout.readline().split()[2]).parent
    tool.send_signal(signal.SIGKILL)
    tool.wait(timeout=20)
    tool.stdout.close()
    removed = down(name)
    assert "4 huge pages" in removed
    assert not home.exists()
    assert str(home / "huge") not in mounts()
    assert process.find(tag=f"HIKYAKU_RUNDIR={home}/run") == []


def test_up_that_fails_gives_its_pages_back(lab_name, monkeypatch):
    name = lab_name("hugefail")
    taken = []
    real = huge.give_back

    def fail(path: Path, mb: int) -> None:
        raise HikyakuError("no more mounts")

    monkeypatch.setattr(huge, "mount", fail)
    monkeypatch.setattr(huge, "give_back", lambda d: taken.append(real(d)) or taken[-1])
    with pytest.raises(HikyakuError, match="no more mounts"):
        Lab.up(name=name, huge_mb=4)
    assert taken == [4]
    assert down(name) == []
