# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on the controller of a lab of wire ovs, and on its REST.

claim     a node sends one frame with the address of another one, before that registers as a rank
lldp      a node forges the controller's probes, so that its port looks like a link
switch    a program pretends to be a switch of the lab
idle      strangers open connections to OpenFlow and to REST, and send nothing
rebind    a page of another site, whose name resolves to the controller, asks REST
"""

import contextlib
import http.client
import secrets
import socket
import struct
from dataclasses import dataclass
from urllib.parse import urlsplit

from .. import process
from ..errors import HikyakuError
from ..netns import inside
from ..sdn import lldp
from ..sdn.client import Client, Refused
from . import Lab, network, ovs
from .attack import check_nodes
from .frames import address

LIMIT_S = 15.0
IDLE = 1100  # connections
FRAMES = 50
_LEASE_S = 10
_HELLO, _ERROR, _FEATURES = 0, 1, 5  # types of OpenFlow's messages


@dataclass(frozen=True)
class Result:
    """How an attack ended. @got: the attacker's gain, or the reason for which it has none."""

    attack: str
    succeeded: bool
    got: str


class Attacks:
    """On the controller of @lab, by node @attacker, in the name of node @victim."""

    def __init__(self, lab: Lab, attacker: str, victim: str):
        if not lab.topology.wiring:
            raise HikyakuError(
                f"lab '{lab.name}' has no switches", lab.topology.again(**lab.topology.switched())
            )
        check_nodes(lab, attacker, victim)
        start = f"hikyaku sdn run --background --lab {lab.name}"
        self._client = Client(lab.directory / "sdn", start=start)
        self._lab, self._attacker, self._victim = lab, attacker, victim

    def run(self, name: str) -> Result:
        return Result(name, *getattr(self, f"_{name}")())

    def _send(self, *frames: bytes, node: str | None = None) -> None:
        """Sends @frames from @node, or else the attacker."""
        with (
            inside(network.NETNS_DIR / self._lab.node(node or self._attacker).netns),
            socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as s,
        ):
            s.bind(("tcp0", 0))
            for frame in frames:
                s.send(frame)

    def _place(self, mac: str) -> tuple[int, int] | None:
        hosts = self._client.get("/v1/topology")["hosts"]
        return next(((h["switch"], h["port"]) for h in hosts if h["address"] == mac), None)

    def _is_back(self, mac: str, place: tuple[int, int], frame: bytes) -> bool:
        """Whether the switches send frames for @mac to @place again. The victim sends @frame until
        the controller sees it: at first the switches still have rules by which it does not."""
        if self._place(mac) != place:
            self._send(frame, node=self._victim)
            return False
        return self._client.get("/v1/status")["settled"]

    # ---- by frames ------------------------------------------------------------------------------

    def _claim(self) -> tuple[bool, str]:
        own, mac = address(self._lab, self._attacker), address(self._lab, self._victim)
        wrong, right = self._place(own), self._place(mac)
        if wrong is None or right is None:
            raise HikyakuError(
                "the controller does not know both nodes yet",
                f"hikyaku lab exec {self._victim} ping -c 1 -b 10.255.255.255   # and the other",
            )
        source = bytes.fromhex(mac.replace(":", ""))
        frame = b"\xff" * 6 + source + b"\x88\xb6" + bytes(46)
        self._send(frame)
        process.wait_until("the frame to be seen", lambda: self._place(mac) == wrong, LIMIT_S)
        try:
            job = self._client.post("/v1/jobs", {"ranks": {"0": mac}, "lease": _LEASE_S})["job"]
            self._client.delete(f"/v1/jobs/{job}")
        except Refused as refused:
            return False, f"rank 0 sends without tags: {refused}"
        finally:
            # Until the victim sends, untagged frames for it go to the attacker. Without a
            # controller they would for ever, since nothing else learns where it is.
            process.wait_until(
                "the victim to be found", lambda: self._is_back(mac, right, frame), LIMIT_S
            )
        return True, f"tags of rank 0 on {self._victim} go to {self._attacker}"

    def _refused_probes(self) -> int:
        return self._client.get("/v1/status")["counts"].get("forged", 0)

    def _lldp(self) -> tuple[bool, str]:
        links, before = self._client.get("/v1/status")["links"], self._refused_probes()
        probes = lldp.Probes(secrets.token_bytes(32))  # the key is not the controller's
        number = int(next(iter(self._client.get("/v1/status")["switches"])))
        self._send(*(probes.make((number, 1 + i % 8), 0.0) for i in range(FRAMES)))
        process.wait_until(
            "the probes to be seen", lambda: self._refused_probes() >= before + FRAMES, LIMIT_S
        )
        now = self._client.get("/v1/status")["links"]
        if now != links:
            return True, f"{now} links, and {links} before"
        return False, f"{FRAMES} forged probes were counted, and no link was made of them"

    # ---- by connections -------------------------------------------------------------------------

    def _openflow(self) -> socket.socket:
        with inside(network.NETNS_DIR / self._lab.topology.switch_netns):
            return socket.create_connection(("127.0.0.1", ovs.OPENFLOW_PORT), LIMIT_S)

    def _switch(self) -> tuple[bool, str]:
        number = int(next(iter(self._client.get("/v1/status")["switches"])))
        try:
            with self._openflow() as s, s.makefile("rb") as answers:
                s.sendall(struct.pack("!BBHI", 4, _HELLO, 8, 1))
                while True:
                    head = answers.read(8)
                    if len(head) < 8:
                        return False, "the controller has closed the connection"
                    _, kind, length, xid = struct.unpack("!BBHI", head)
                    answers.read(length - 8)
                    if kind == _FEATURES:
                        body = struct.pack("!QIBB2xII", number, 0, 2, 0, 0, 0)
                        s.sendall(struct.pack("!BBHI", 4, _FEATURES + 1, 32, xid) + body)
                    elif kind not in (_HELLO, _ERROR):
                        return True, f"the controller takes it for switch {number}"
        except OSError as bad:
            return False, f"no connection: {bad}"

    def _rest(self, host: str | None = None) -> http.client.HTTPResponse:
        url = urlsplit(self._client.address)
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=LIMIT_S)
        connection.request("GET", "/v1/topology", headers={"Host": host} if host else {})
        return connection.getresponse()

    def _idle(self) -> tuple[bool, str]:
        url = urlsplit(self._client.address)
        with contextlib.ExitStack() as opened:
            try:
                for _ in range(IDLE):
                    opened.enter_context(self._openflow())
                    opened.enter_context(
                        socket.create_connection((url.hostname, url.port), LIMIT_S)
                    )
            except TimeoutError:
                return True, "the controller accepts no connection"
            try:
                self._rest().read()
                with self._openflow() as s:
                    s.sendall(struct.pack("!BBHI", 4, _HELLO, 8, 1))
                    if not s.recv(8):
                        return True, "no new switch is served"
            except (OSError, http.client.HTTPException) as bad:
                return True, f"neither REST nor a new switch is served: {bad}"
        return False, f"beside {2 * IDLE} idle connections, a new switch and REST are served"

    def _rebind(self) -> tuple[bool, str]:
        status = self._rest("evil.example").status
        if status == 200:
            return True, "REST answers a page of evil.example"
        return False, f"REST refuses a page of evil.example by status {status}"
