# SPDX-License-Identifier: BSD-3-Clause
"""A controller for a lab of wire ovs, as a child process: for measurements and tests."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from .. import process
from ..checkout import ROOT
from ..errors import HikyakuError
from ..sdn.client import Client, Unreachable
from . import Lab

LIMIT = 30.0  # seconds


class LabController:
    """@options: of `hikyaku sdn run`. @state: its directory in that of the lab. Its output is in
    the file `log` beside it."""

    def __init__(self, lab: Lab, *options: str, state: str = "sdn"):
        self.lab = lab
        self.state = lab.directory / state
        self.options = ("--state", str(self.state), *options)
        self.log = lab.directory / f"{state}.log"
        self._child: subprocess.Popen | None = None

    def start(self) -> None:
        """Returns when it listens."""
        (self.state / "address").unlink(missing_ok=True)  # of one that was killed
        argv = [str(ROOT / "hikyaku"), "sdn", "run", "--lab", self.lab.name, *self.options]
        with self.log.open("a") as log:
            self._child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        process.wait_until("the controller to listen", self._listens, LIMIT)

    def _listens(self) -> bool:
        if self.ended() is not None:
            raise HikyakuError(f"the controller has ended: {self.last()}")
        return (self.state / "address").exists()

    def last(self) -> str:
        """The end of the log."""
        return self.log.read_text().strip()[-500:]

    def ended(self) -> int | None:
        """The exit status of the controller, if it has ended."""
        return self._child.poll() if self._child else None

    @property
    def client(self) -> Client:
        return Client(self.state)

    def stop(self, *, kill: bool = False) -> None:
        if self._child:
            if kill:
                self._child.kill()
            process.stop(self._child, LIMIT)
            self._child = None

    def wait_links(self, count: int) -> None:
        """Waits until all switches are connected, @count links are known, and the rules are
        written."""
        switches = len(self.lab.topology.wiring.switches)

        def ready() -> bool:
            status = self.client.get("/v1/status")
            found = status["links"] == count and len(status["switches"]) == switches
            return found and status["settled"]

        process.wait_until(f"{count} links to be found and used", ready, LIMIT)


@contextmanager
def controlled(name: str, switches: str, *options: str) -> Iterator[tuple[Lab, LabController]]:
    """A lab with its controller, when all links are known."""
    with Lab.up(wire="ovs", switches=switches, name=name) as lab:
        controller = LabController(lab, *options)
        try:
            controller.start()
            controller.wait_links(len(lab.topology.wiring.links))
            yield lab, controller
        except Unreachable as bad:
            raise HikyakuError(f"{bad.what}; its log ends: {controller.last()}", bad.fix) from None
        finally:
            controller.stop()
