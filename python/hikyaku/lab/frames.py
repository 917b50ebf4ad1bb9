# SPDX-License-Identifier: BSD-3-Clause
"""Sends and receives numbered Ethernet frames between the nodes of a lab, for measurements and
tests."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .. import process
from ..sdn.client import Client
from . import Lab, network

TYPE = 0x88B6  # IEEE 802's second one for experiments; nothing else here sends it
LIMIT = 60  # seconds, for what takes a moment where nothing else runs
BYTES = 1014  # of each frame, without its checksum

# Each frame has its own time of sending, so that a late one does not delay others.
_SEND = """
import socket, sys, time
to = [bytes.fromhex(each.replace(":", "")) for each in sys.argv[1].split(",")]
count, pause = int(sys.argv[2]), float(sys.argv[3])
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("tcp0", 0))
src = bytes.fromhex(sys.argv[4].replace(":", "")) if sys.argv[4:] else s.getsockname()[4]
kind = TYPE.to_bytes(2, "big")
start = time.monotonic()
for i in range(count):
    time.sleep(max(0, start + i * pause - time.monotonic()))
    s.send(to[i % len(to)] + src + kind + i.to_bytes(4, "big") + bytes(BYTES - 18))
"""

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
"""


def _python(lab: Lab, node: str, code: str, *arguments: str) -> list[str]:
    code = code.replace("TYPE", f"({TYPE})").replace("BYTES", str(BYTES))
    return lab.exec_argv(node, ["/usr/bin/python3", "-c", code, *arguments])


def send_argv(lab: Lab, node: str, dst: str, count: int, pause: float = 0, *src: str) -> list[str]:
    """The command that sends frames. @dst: an address, or several in turn, with commas. @pause:
    seconds between two frames. @src: another source address than its own."""
    return _python(lab, node, _SEND, dst, str(count), str(pause), *src)


def send(lab: Lab, node: str, dst: str, count: int, pause: float = 0, *src: str) -> None:
    process.run(send_argv(lab, node, dst, count, pause, *src), timeout=60 + count * pause)


@contextmanager
def started(argv: list[str]) -> Iterator[subprocess.Popen]:
    """A process that ends with the block."""
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        yield child
    finally:
        process.stop(child)


class Receiver:
    """Receives the frames of send() on a node, and writes them to @path."""

    def __init__(self, lab: Lab, node: str, path: Path):
        self.path = path
        with path.open("w") as file:
            self._child = subprocess.Popen(
                _python(lab, node, _HEAR), stdin=subprocess.PIPE, stdout=file
            )
        process.wait_until(f"{node} to listen", lambda: bool(path.read_text()), LIMIT)

    def received(self) -> list[tuple[str, int]]:
        """The destination and number of each received frame."""
        lines = self.path.read_text().split("\n")[1:-1]
        return [(mac, int(number)) for mac, number in (line.split() for line in lines)]

    def close(self) -> None:
        self._child.stdin.close()  # which ends it
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout=LIMIT)
        process.stop(self._child)


@contextmanager
def receivers(lab: Lab, directory: Path) -> Iterator[dict[str, Receiver]]:
    """A receiver on every node."""
    made: dict[str, Receiver] = {}
    try:
        for node in lab.topology.nodes:
            made[node.name] = Receiver(lab, node.name, directory / node.name)
        yield made
    finally:
        for receiver in made.values():
            receiver.close()


def address(lab: Lab, node: str) -> str:
    """The address of @node's tcp0."""
    links = network.links(lab.node(node).netns)
    return next(link["mac"] for link in links if link["name"] == "tcp0")


def register(lab: Lab, client: Client, nodes: list[str], **more: object) -> int:
    """Registers a job with one rank on each of @nodes, at its tcp0; returns its number. First waits
    until the controller knows the nodes: unknown ones send again, since a port that was not settled
    ignores hosts.
    """
    addresses = {node: address(lab, node) for node in nodes}
    ranks = {str(i): addresses[node] for i, node in enumerate(nodes)}

    def known() -> bool:
        found = {h["address"] for h in client.get("/v1/topology")["hosts"]}
        missing = [node for node in nodes if addresses[node] not in found]
        for node in missing:
            send(lab, node, "ff:ff:ff:ff:ff:ff", 1)
        return not missing

    process.wait_until("all hosts to be known", known, LIMIT)
    return client.post("/v1/jobs", {"ranks": ranks, **more})["job"]
