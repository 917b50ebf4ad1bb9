# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, experiments on real switches: Open vSwitch, leaf-spine:2x2x4, the controller, raw
frames.

bcast     1 MiB from rank 0 to 7 others: by the tree of switches, and as the binomial tree of
unicasts that
          Open MPI's tuned Bcast sends; bytes on the link that carried most, of the payload.
failover  1000 frames a second from leaf to leaf, whose cable is cut: frames lost.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from .. import process
from ..errors import HikyakuError
from ..lab import Lab, down_dead, frames, ovs, own_name
from ..lab.controller import LabController, controlled
from ..lab.frames import Ear, ears, register, send
from ..sdn.tag import Function, Tag
from . import goals as verdicts
from .sdn import Experiment, Plan, Progress, Row, row

SHAPE = "leaf-spine:2x2x4"
RANKS = 8
PAYLOAD = 1 << 20
FRAMES = -(-PAYLOAD // (frames.BYTES - 18))
PAUSE = 0.001  # what receivers that write down each frame can take
OF_PAYLOAD = "bytes on the busiest link, of the payload"
LOST = "frames lost of 1000 a second"
RATE = 1000
SECONDS = 3


def _busiest(lab: Lab, what: Callable[[], None]) -> int:
    """Bytes that @what had the link carry that got most."""

    def count() -> list[int]:
        rows = ovs.counters(lab.topology)
        return [r[way]["bytes"] for r in rows for way in ("a_to_b", "b_to_a")]

    before = count()
    what()
    return max(a - b for a, b in zip(count(), before, strict=True))


def binomial(ranks: int) -> list[tuple[int, int]]:
    """Who sends to whom, root 0, in the order in which they can."""
    pairs = []
    step = 1
    while step < ranks:
        pairs += [(r, r + step) for r in range(step) if r + step < ranks]
        step *= 2
    return pairs


def _all_there(heard: dict[str, Ear], counts: dict[str, int]) -> None:
    def there() -> bool:
        return all(len(heard[n].heard()) >= count for n, count in counts.items())

    process.wait_until("every receiver to have every frame", there, 60)
    if any(len(heard[n].heard()) != count for n, count in counts.items()):
        raise HikyakuError("a receiver got a frame twice")


def _bcast(plan: Plan, progress: Progress) -> list[Row]:
    values: dict[str, list[float]] = {"switches": [], "binomial": []}
    down_dead("bench")
    with controlled(own_name("bench", "bcast"), SHAPE) as (lab, controller):
        names = [n.name for n in lab.topology.nodes]
        job = register(lab, controller.client, names)
        for repeat in range(plan.repeats):
            for method, found in values.items():
                text = f"bcast: {method}, repeat {repeat + 1} of {plan.repeats}"
                progress(text, repeat, plan.repeats)
                with tempfile.TemporaryDirectory() as place, ears(lab, Path(place)) as heard:

                    def tree(heard: dict[str, Ear] = heard) -> None:
                        send(lab, names[0], Tag(job, Function.BCAST, 0, 0, True).mac, FRAMES, PAUSE)
                        _all_there(heard, dict.fromkeys(names[1:], FRAMES))

                    def unicasts(heard: dict[str, Ear] = heard) -> None:
                        for a, b in binomial(RANKS):
                            tag = Tag(job, Function.BCAST, a, b).mac
                            send(lab, names[a], tag, FRAMES, PAUSE)
                            _all_there(heard, {names[b]: FRAMES})

                    used = _busiest(lab, tree if method == "switches" else unicasts)
                    found.append(used / PAYLOAD)
    return [row("bcast", m, RANKS, PAYLOAD, OF_PAYLOAD, v) for m, v in values.items()]


def _bcast_goals(rows: list[Row]) -> list[dict]:
    tree = next(r for r in rows if r["method"] == "switches")
    goal = {"goal": "Bcast's busiest link, of the payload"}
    return [verdicts.judged(goal, tree["max"], "≤", 1.1)]


def _cut(lab: Lab, controller: LabController, job: int, far: bool) -> int:
    """Frames that a stream from rank 0 to 4 loses when a cable on its way is cut: the first, or the
    one behind the spine."""
    path = controller.client.get(f"/v1/jobs/{job}/path?source=0&destination=4")["links"]
    ports = controller.client.get("/v1/topology")["switches"]
    names = {s["switch"]: s["name"] for s in ports}
    link = path[-1 if far else 0]
    name = f"{names[link['a']['switch']]}-{names[link['b']['switch']]}"
    count = RATE * SECONDS
    with tempfile.TemporaryDirectory() as place:
        ear = Ear(lab, "node4", Path(place) / "heard")

        def numbers() -> set[int]:
            return {number for _, number in ear.heard()}

        try:
            argv = frames.send_argv(lab, "node0", Tag(job, Function.P2P, 0, 4).mac, count, 1 / RATE)
            with frames.started(argv) as sender:
                process.wait_until(
                    "a third of the frames", lambda: len(ear.heard()) > count // 3, 30
                )
                ovs.set_link(lab.topology, name, up=False)
                sender.wait(timeout=60)
            process.wait_until("the last frame", lambda: (count - 1) in numbers(), 20)
            return count - len(numbers())
        finally:
            ear.close()
            ovs.set_link(lab.topology, name, up=True)
            controller.wait_links(len(lab.topology.wiring.links))


def _failover(plan: Plan, progress: Progress) -> list[Row]:
    values: dict[str, list[float]] = {"next cable": [], "cable behind the spine": []}
    down_dead("bench")
    with controlled(own_name("bench", "failover"), SHAPE) as (lab, controller):
        job = register(lab, controller.client, [n.name for n in lab.topology.nodes])
        for repeat in range(plan.repeats):
            for method, lost in values.items():
                text = f"failover: {method}, repeat {repeat + 1} of {plan.repeats}"
                progress(text, repeat, plan.repeats)
                lost.append(_cut(lab, controller, job, far=method != "next cable"))
    return [row("failover", m, RANKS, frames.BYTES, LOST, v) for m, v in values.items()]


def _failover_goals(rows: list[Row]) -> list[dict]:
    return [
        verdicts.judged({"goal": f"frames lost: {r['method']} is cut"}, r["median"], "≤", 30)
        for r in rows
    ]


BCAST = Experiment(_bcast, _bcast_goals, f"Bcast of 1 MiB on {SHAPE}")
FAILOVER = Experiment(_failover, _failover_goals, f"a cut cable on {SHAPE}")
