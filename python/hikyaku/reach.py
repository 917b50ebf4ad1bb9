# SPDX-License-Identifier: BSD-3-Clause
"""Tests whether two nodes reach each other by a kind of port.

mpirun, which reaches both nodes already, runs bench/reach on both. It reports the frames that each
side sent and received; this module judges each direction. Then bench/raw_pingpong measures the
latency.

UDP sockets find each other only by what MPI's ranks tell each other. So for these mpirun runs an
MPI program on both, bench/mpi_bench, over Hikyaku alone.
"""

import json
import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field

from .checkout import built
from .errors import HikyakuError
from .lab.openmpi import fabric_settings
from .process import option_words

_JOIN_S = 60  # mpirun's own start and end
_PING = ["--sizes", "64", "--iters", "2000", "--warmup", "100", "--timeout", "10", "--json"]
_ON_THE_WAY = (
    "`ip -s link show` and `ethtool -S` on both. Not sent: see the driver. Sent and not received: "
    "see the switch (VLAN, EtherTypes 0x88B5 and 0x88B6). Received by the NIC only: it went to "
    "another queue (ethtool -L IFACE combined 1). docs/cluster.md, 8"
)

_REACHES = "see that `mpirun --host A,B hostname` works, and that Hikyaku lies at the same path"
_MESSAGES = (8, 64 << 10)  # bytes; the longer one takes frames of the largest size
_UDP_ON_THE_WAY = (
    "let the firewalls of both nodes pass UDP between them (any port, or the one of "
    "udp:addr=IFACE,port=N). If only short messages pass: name the MTU of the whole path, "
    "udp:addr=IFACE,mtu=1400. docs/cluster.md, 9"
)

# Runs mpirun's arguments; returns its exit status, its output and its errors.
Launch = Callable[[list[str], float], tuple[int, str, str]]


@dataclass(frozen=True)
class Line:
    ok: bool
    text: str
    fix: str | None = None


@dataclass(frozen=True)
class Direction:
    """The direction from @source to @target."""

    source: dict
    target: dict

    @property
    def name(self) -> str:
        return f"{self.source['host']} to {self.target['host']}"

    def passed(self) -> list[tuple[int, int, int]]:
        """By size: frames sent and received, of sizes that the other port takes, too."""
        received = {s["size"]: s["received"] for s in self.target["sizes"]}
        most = min(self.source["frame_max"], self.target["frame_max"])
        return [
            (s["size"], s["sent"], received.get(s["size"], 0))
            for s in self.source["sizes"]
            if s["size"] <= most and s["size"] in received
        ]

    def judge(self) -> list[Line]:
        if not self.target["receives"]:
            return [Line(False, f"{self.name}: no frame passes", _ON_THE_WAY)]
        sizes = self.passed()
        through = [size for size, _, received in sizes if received]
        if not through:
            text = f"{self.name}: only a few frames pass, and none of the test frames"
            return [Line(False, text, _ON_THE_WAY)]
        sent = sum(n for size, n, _ in sizes if size <= through[-1])
        lost = 1 - sum(received for size, _, received in sizes if size <= through[-1]) / sent
        text = f"{self.name}: frames pass, up to {through[-1]} bytes; {lost:.1%} of {sent} lost"
        lines = [Line(lost < 0.5, text, None if lost < 0.5 else _ON_THE_WAY)]
        if through[-1] < sizes[-1][0]:
            text = (
                f"{self.name}: frames of {sizes[len(through)][0]} bytes do not pass, though both "
                f"ports take {sizes[-1][0]}"
            )
            fix = "raise the switch's MTU, or lower the ports': --mca btl_hikyaku_frame_max"
            lines.append(Line(False, text, f"{fix} {through[-1]}"))
        return lines


def _sides(output: str) -> dict[str, dict]:
    found = {}
    for line in output.splitlines():
        if line.startswith('{"reach": 1'):
            try:
                report = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[report["side"]] = report
    return found


def judge(a: dict, b: dict) -> list[Line]:
    lines = [*Direction(a, b).judge(), *Direction(b, a).judge()]
    if a["frame_max"] != b["frame_max"]:
        text = (
            f"the ports differ: frames of {a['frame_max']} bytes at {a['host']}, "
            f"{b['frame_max']} at {b['host']}"
        )
        lines.append(Line(False, text, "give both the same MTU"))
    if a["release"] != b["release"]:
        text = f"releases differ: {a['release']} at {a['host']}, {b['release']} at {b['host']}"
        lines.append(Line(False, text, "install the same on all nodes"))
    return lines


def by_mpirun(command: str, hosts: tuple[str, str]) -> Launch:
    """Runs mpirun as the user does, with all options."""

    def launch(arguments: list[str], limit: float) -> tuple[int, str, str]:
        argv = [*shlex.split(command), "--host", ",".join(f"{h}:1" for h in hosts), *arguments]
        # a user who is root has decided that already
        root = {f"OMPI_ALLOW_RUN_AS_ROOT{end}": "1" for end in ("", "_CONFIRM")}
        env = {**os.environ, **(root if os.geteuid() == 0 else {})}
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, timeout=limit, check=False, env=env
            )
        except FileNotFoundError:
            raise HikyakuError(f"{argv[0]} is not there", "hikyaku doctor") from None
        except subprocess.TimeoutExpired:
            raise HikyakuError(
                f"'{shlex.join(argv)}' did not end within {limit:g} s",
                "see that mpirun reaches both: mpirun --host A,B hostname; and by which network: "
                "--mpirun 'mpirun --mca oob_tcp_if_include eth0'",
            ) from None
        return done.returncode, done.stdout, done.stderr

    return launch


def _apart(one: list[str], other: list[str]) -> list[str]:
    return ["-np", "1", *one, ":", "-np", "1", *other]


def _latency(launch: Launch, port: str) -> Line:
    pingpong = [str(built("bench/raw_pingpong")), "--spec", port, "--role"]
    _, out, err = launch(_apart([*pingpong, "pong"], [*pingpong, "ping", *_PING]), _JOIN_S)
    for line in out.splitlines():
        if line.startswith('{"spec"'):
            (row,) = json.loads(line)["rows"]
            return Line(True, f"64 bytes take {row['latency_us']['median']:.1f} µs one way")
    return Line(False, f"the time of a frame cannot be measured: {err.strip()[-300:]}", _ON_THE_WAY)


@dataclass(frozen=True)
class Answer:
    lines: list[Line] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(line.ok for line in self.lines)


_SILENCE = " has not answered for "


def _beginning(said: str, lines: int = 2) -> str:
    """The first @lines that tell something: Open MPI frames its messages, and adds many."""
    words = [line.strip() for line in said.splitlines() if re.search(r"[a-z]{2}", line)]
    return " / ".join(words[:lines]) or "it printed nothing"


def _ours(said: str) -> str | None:
    """The last thing that a rank said of Hikyaku, which is why the job failed."""
    found = re.findall(r"hikyaku: (?!\d+ ranks on )(.*\S)", said)
    if not found:
        return None
    # its fix for a silent peer is to run reach
    return found[-1].partition("; fix: ")[0] if _SILENCE in found[-1] else found[-1]


def _by_messages(port: str, launch: Launch, timeout_s: float) -> Answer:
    """The answer for UDP sockets."""
    settings = {
        name.removeprefix("OMPI_MCA_"): value
        for name, value in fabric_settings().items()
        if name.startswith("OMPI_MCA_")
    } | {
        "btl": "hikyaku,self",
        "btl_hikyaku_port": port,
        "btl_hikyaku_peer_timeout_ms": str(int(timeout_s * 1e3)),
    }
    options = [word for pair in settings.items() for word in ("--mca", *pair)]
    bench = [str(built("bench/mpi_bench")), "--metrics", "latency_us"]
    bench += ["--sizes", ",".join(map(str, _MESSAGES))]
    status, out, err = launch([*options, "-np", "2", *bench], 4 * timeout_s + _JOIN_S)
    took = {
        row["size"]: row["value"]
        for row in map(json.loads, re.findall(r'^{"metric":"latency_us".*}$', out, re.MULTILINE))
    }
    lines = [
        Line(True, f"messages of {size} bytes pass both ways, in {took[size]:.1f} µs one way")
        for size in _MESSAGES
        if size in took
    ]
    if len(lines) < len(_MESSAGES) or status:
        why = _ours(err)
        if not lines and (why is None or "; fix: " in why):
            if why:
                raise HikyakuError.said(why)
            raise HikyakuError(f"mpirun failed (status {status}): {_beginning(err)}", _REACHES)
        lines.append(Line(False, why or f"the program ended with {status}", _UDP_ON_THE_WAY))
    return Answer(lines)


def reach(port: str, launch: Launch, timeout_s: float = 10) -> Answer:
    if port.startswith("memif:"):
        raise HikyakuError(
            f"{port} joins processes of one machine: there is no network to try",
            "give udp:addr=…, af_xdp:iface=…, af_packet:iface=… or pci:…",
        )
    if port.startswith("udp:"):
        return _by_messages(port, launch, timeout_s)
    key, limit = 1 + secrets.randbelow(2**62), int(timeout_s * 1e3)
    program = [str(built("bench/reach")), *option_words(spec=port, key=key, timeout_ms=limit)]
    arguments = _apart([*program, "--side", "a"], [*program, "--side", "b"])
    status, out, err = launch(arguments, 2 * timeout_s + _JOIN_S)
    sides = _sides(out)
    for report in sides.values():
        if "error" in report:
            raise HikyakuError.said(report["error"], f"{report['host']}: ")
    if len(sides) < 2:
        raise HikyakuError(
            f"mpirun did not run both sides (status {status}): {_beginning(err)}",
            _REACHES,
        )
    answer = Answer(judge(sides["a"], sides["b"]))
    if sides["a"]["receives"] and sides["b"]["receives"]:
        answer.lines.append(_latency(launch, port))
    return answer
