# SPDX-License-Identifier: BSD-3-Clause
"""`devmem measure`: which cells run, in which order, and what becomes of their results."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rich.console import Console

from hikyaku.devmem.measure import Settings, cells, measure, show
from hikyaku.errors import HikyakuError

POP = "pop:bar:0000:5e:00.0,bar=2"


class Fake:
    """A place that notes the cells. Loads halve the rate of the NIC."""

    def __init__(self) -> None:
        self.said: list[list[str]] = []
        self.peers: list[str] = []

    def run(self, argv: list[str]) -> dict:
        self.said.append(argv)
        options = dict(zip(argv, [*argv[1:], ""], strict=True))
        threads = int(options["--load-threads"])
        loop = "--direction" not in options
        thread = {"core": None, "read_mb_per_s": 3.0, "written_mb_per_s": 2.0}
        return {
            "gbit_per_s": 8.0 / (1 + threads),
            "transmit_gbit_per_s": 0.0,
            "receive_gbit_per_s": 8.0 / (1 + threads),
            "latency_us": 5.0 if loop else None,
            "latency_p99_us": 6.0 if loop else None,
            "load_mb_per_s": 5.0 * threads,
            "threads": [thread] * threads,
            "ring_bytes": 4096 * ("--rings" in argv),
            "driver_bytes": 0,
            "lost": 1,
            "wrong": 0,
        }

    @contextmanager
    def peer(self, nic: str) -> Iterator[None]:
        self.peers.append(f"{nic} begins after {len(self.said)}")
        yield
        self.peers.append(f"{nic} ends after {len(self.said)}")


def test_the_baseline_is_in_every_run() -> None:
    chosen = Settings([POP], ["write"], nics="a,b", nvme="c", load_threads=(4, 0, 1), rings=True)
    found = [(c.device, c.load, c.load_threads, c.pop != "none", c.rings) for c in cells(chosen)]
    loads = [("nothing", 0), ("write", 1), ("write", 4)]
    memories = [(False, False), (True, False), (True, True)]
    nvme = [("nvme", *load, *memory) for load in loads for memory in memories[:2]]
    assert found == nvme + [("nic", *load, *memory) for load in loads for memory in memories]


def test_a_peer_of_ours_is_there_for_its_cells_alone() -> None:
    place = Fake()
    chosen = Settings([], ["nothing"], nics="a,b", directions=("both", "loop"), repeats=2)
    measure(place, chosen)
    assert place.peers == [
        "b begins after 1",
        "b ends after 2",
        "b begins after 3",
        "b ends after 4",
    ]
    assert place.said[0][:2] == ["--nics", "a,b"]
    assert place.said[1][:4] == ["--nics", "a", "--direction", "both"]


def test_one_nic_has_its_peer_elsewhere() -> None:
    place = Fake()
    chosen = Settings([POP], ["write"], nics="a", directions=("receive",), load_threads=(2,),
                      rings=True, repeats=2, load_cores="3-4")  # fmt: skip
    results = measure(place, chosen)
    assert place.peers == []
    assert len(results) == 6 and all("--load-cores" in argv for argv in place.said)
    last = results[-1]
    assert (last["rings"], last["ring_bytes"], last["lost"]) == (True, 4096, 2)
    assert last["latency_us"] is None
    assert [t["read_mb_per_s"]["median"] for t in last["threads"]] == [3.0, 3.0]
    assert last["load_mb_per_s"]["median"] == 10.0
    console = Console(width=200, record=True)
    show({"cells": results, "emulated": False}, console)
    text = console.export_text()
    assert "nic receive to pop:bar:0000:5e:00.0,bar=2, rings too" in text
    assert "write, 2 threads" in text and "33 %" in text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings([], ["nothing"]), "no device to measure"),
        (Settings([], ["nothing"], nics="a"), "a loop needs two NICs"),
        (Settings([], ["nothing"], nics="a,b,c", directions=("both",)), "a loop needs two NICs"),
        (Settings([], ["nothing"], nics="a,b", rings=True), "no memory to place rings in"),
        (Settings([POP], ["nothing"], nvme="c", rings=True), "no memory to place rings in"),
    ],
)
def test_mistakes(settings: Settings, said: str) -> None:
    with pytest.raises(HikyakuError, match=said):
        measure(Fake(), settings)
