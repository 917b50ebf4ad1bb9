# SPDX-License-Identifier: BSD-3-Clause
"""`bench sdn`, failover: frames lost of 1000 a second from leaf to leaf, while a link is cut.

Runs on real switches: Open vSwitch, leaf-spine:2x2x4, the controller, raw frames.
"""

import tempfile
from pathlib import Path

from ... import process
from ...lab import Lab, down_dead, frames, links, own_name
from ...lab.controller import LabController, controlled
from ...lab.frames import Receiver, register
from ...sdn.tag import Function, Tag
from ..common.goals import judged
from .run import Experiment, Plan, Progress, Row, row

SHAPE = "leaf-spine:2x2x4"
RANKS = 8
LOST = "frames lost of 1000 a second"
RATE = 1000
SECONDS = 3
LIMIT_S = 60


def cut(lab: Lab, controller: LabController, job: int, *, far: bool, rate: int = RATE) -> int:
    """The frames that a stream from rank 0 to 4 loses when a link on its path is cut. The link is
    the first one, or with @far the one behind the spine. @rate: frames a second, for SECONDS."""
    path = controller.client.get(f"/v1/jobs/{job}/path?source=0&destination=4")["links"]
    ports = controller.client.get("/v1/topology")["switches"]
    names = {s["switch"]: s["name"] for s in ports}
    link = path[-1 if far else 0]
    name = f"{names[link['a']['switch']]}-{names[link['b']['switch']]}"
    count = rate * SECONDS
    with tempfile.TemporaryDirectory() as place:
        receiver = Receiver(lab, "node4", Path(place) / "received")

        def numbers() -> set[int]:
            return {number for _, number in receiver.received()}

        try:
            argv = frames.send_argv(lab, "node0", Tag(job, Function.P2P, 0, 4).mac, count, 1 / rate)
            with frames.started(argv) as sender:
                process.wait_until(
                    "a third of the frames", lambda: len(receiver.received()) > count // 3, LIMIT_S
                )
                links.set_link(lab.topology, name, up=False)
                sender.wait(timeout=LIMIT_S)
            process.wait_until("the last frame", lambda: (count - 1) in numbers(), LIMIT_S)
            return count - len(numbers())
        finally:
            receiver.close()
            links.set_link(lab.topology, name, up=True)
            controller.wait_links(len(lab.topology.wiring.links))


def _failover(plan: Plan, progress: Progress) -> list[Row]:
    values: dict[str, list[float]] = {"next link": [], "link behind the spine": []}
    down_dead("bench")
    with controlled(own_name("bench", "failover"), SHAPE) as (lab, controller):
        job = register(lab, controller.client, [n.name for n in lab.topology.nodes])
        for repeat in range(plan.repeats):
            for method, lost in values.items():
                text = f"failover: {method}, repeat {repeat + 1} of {plan.repeats}"
                progress(text, repeat, plan.repeats)
                lost.append(cut(lab, controller, job, far=method != "next link"))
    return [row("failover", m, RANKS, frames.BYTES, LOST, v) for m, v in values.items()]


def _failover_goals(rows: list[Row]) -> list[dict]:
    return [judged(f"frames lost: {r['method']} is cut", r["median"], "≤", 30) for r in rows]


FAILOVER = Experiment(_failover, _failover_goals, f"a cut link on {SHAPE}")
