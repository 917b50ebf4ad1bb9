# SPDX-License-Identifier: BSD-3-Clause
"""For tests of the controller: a lab of wire ovs with one, and frames sent and heard there."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hikyaku import process
from hikyaku.checkout import ROOT
from hikyaku.lab import Lab, network
from hikyaku.sdn.client import Client

TYPE = 0x88B6  # IEEE 802's second one for experiments; nothing else here sends it

_SEND = """
import socket, sys, time
dst, count, pause = bytes.fromhex(sys.argv[1].replace(":", "")), int(sys.argv[2]), sys.argv[3]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("tcp0", 0))
src = bytes.fromhex(sys.argv[4].replace(":", "")) if sys.argv[4:] else s.getsockname()[4]
for i in range(count):
    s.send(dst + src + TYPE.to_bytes(2, "big") + i.to_bytes(4, "big") + bytes(996))
    time.sleep(float(pause))
""".replace("TYPE", f"({TYPE})")

_HEAR = """
import select, socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
s.bind(("tcp0", TYPE))
print("ready", flush=True)
while True:
    ready, _, _ = select.select([s, sys.stdin], [], [])
    if s in ready:
        frame = s.recv(65536)
        print(frame[:6].hex(":"), int.from_bytes(frame[14:18], "big"), flush=True)
    elif sys.stdin in ready:
        break
""".replace("TYPE", f"({TYPE})")


class Controller:
    def __init__(self, lab: Lab, *options: str):
        self.lab = lab
        self.options = options
        self.child: subprocess.Popen | None = None
        self.log = lab.directory / "sdn.log"

    def start(self) -> None:
        argv = [str(ROOT / "hikyaku"), "sdn", "run", "--lab", self.lab.name, *self.options]
        with self.log.open("a") as log:
            self.child = subprocess.Popen(argv, stdout=log, stderr=log)
        process.wait_until("the controller to listen", self._listens, 20)

    def _listens(self) -> bool:
        if self.child.poll() is not None:
            raise AssertionError(self.log.read_text())
        return (self.lab.directory / "sdn" / "address").exists()

    @property
    def client(self) -> Client:
        return Client(self.lab.directory / "sdn")

    def kill(self, *, gently: bool = False) -> None:
        if self.child:
            (self.child.terminate if gently else self.child.kill)()
            self.child.wait(timeout=20)
            (self.lab.directory / "sdn" / "address").unlink(missing_ok=True)
            self.child = None

    def wait_ready(self, links: int) -> None:
        """All links found, and rules for them written."""

        def ready() -> bool:
            status = self.client.get("/v1/status")
            rules = [s["rules"] for s in status["switches"].values()]
            switches = len(self.lab.topology.wiring.switches)
            written = status["counts"].get("updates", 0) > 0
            return (
                written and status["links"] == links and len(rules) == switches and min(rules) > 5
            )

        process.wait_until(f"{links} links to be found and used", ready, 30)


@contextmanager
def controlled(name: str, switches: str, *options: str) -> Iterator[tuple[Lab, Controller]]:
    with Lab.up(wire="ovs", switches=switches, name=name) as lab:
        controller = Controller(lab, *options)
        try:
            controller.start()
            controller.wait_ready(len(lab.topology.wiring.links))
            yield lab, controller
        finally:
            controller.kill(gently=True)


def address(lab: Lab, node: str) -> str:
    links = network.links(lab.node(node).netns)
    return next(link["mac"] for link in links if link["name"] == "tcp0")


def introduce(lab: Lab) -> None:
    """Every node says something, so that the controller knows it."""
    for node in lab.topology.nodes:
        send(lab, node.name, "ff:ff:ff:ff:ff:ff", 1)


def python(lab: Lab, node: str, code: str, *arguments: str) -> list[str]:
    return lab.exec_argv(node, ["/usr/bin/python3", "-c", code, *arguments])


def send(lab: Lab, node: str, dst: str, count: int, pause: float = 0, *src: str) -> None:
    process.run(python(lab, node, _SEND, dst, str(count), str(pause), *src), timeout=60)


class Ear:
    """Hears the frames of send() on a node."""

    def __init__(self, lab: Lab, node: str, path: Path):
        self.path = path
        self.child = subprocess.Popen(
            python(lab, node, _HEAR), stdin=subprocess.PIPE, stdout=path.open("w")
        )
        process.wait_until(f"{node} to listen", lambda: bool(path.read_text()), 20)

    def heard(self) -> list[tuple[str, int]]:
        """(destination, number) of each frame."""
        lines = self.path.read_text().split("\n")[1:-1]
        return [(mac, int(number)) for mac, number in (line.split() for line in lines)]

    def close(self) -> None:
        self.child.stdin.close()
        self.child.wait(timeout=20)


@contextmanager
def ears(lab: Lab, directory: Path) -> Iterator[dict[str, Ear]]:
    made: dict[str, Ear] = {}
    try:
        for node in lab.topology.nodes:
            made[node.name] = Ear(lab, node.name, directory / node.name)
        yield made
    finally:
        for ear in made.values():
            ear.close()


def numbers(ear: Ear) -> Counter:
    return Counter(number for _, number in ear.heard())


def register(lab: Lab, client: Client, nodes: list[str], **more: object) -> int:
    """A job with one rank on each of @nodes, at its tcp0."""
    introduce(lab)
    process.wait_until(
        "all hosts to be known",
        lambda: (
            {address(lab, n) for n in nodes}
            <= {h["address"] for h in client.get("/v1/topology")["hosts"]}
        ),
        20,
    )
    ranks = {str(i): address(lab, node) for i, node in enumerate(nodes)}
    return client.post("/v1/jobs", {"ranks": ranks, **more})["job"]


def log_tail(controller: Controller) -> str:
    return json.dumps(controller.log.read_text().splitlines()[-20:], indent=1)
