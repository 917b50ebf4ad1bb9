# SPDX-License-Identifier: BSD-3-Clause
"""A receiver under the load of bench/rtc_load.c, whose sender has a rate of its own.

The interfaces of a veth hand each packet to the core of its receiver, as a NIC's interrupt would
(receive packet steering, RPS). Without that the sender's core would do the kernel's work for the
receiver, and the receiver could not be overloaded. AF_XDP frames are not steered: the kernel hands
them over on the sender's core.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...checkout import built
from ...errors import HikyakuError
from ...lab import Lab, network
from ...lab.topology import Node
from ...process import option_words
from ..common.sample import printed

# Two receivers are not backends. SOCKET is a program that sleeps on a UDP socket.
SOCKET = "socket"
# PIPELINE is an rtc node over dpdk: one thread receives and sends, and a second one computes. Its
# node has two cores if the machine has four. Otherwise both threads share one.
PIPELINE = "pipeline"
RECEIVERS = {SOCKET: "veth", "udp": "veth", "raw": "veth", "af_xdp": "veth", "dpdk": "memif"}
USUAL = tuple(RECEIVERS)
RECEIVERS[PIPELINE] = "memif"
CLOSED = 0.0  # in place of a load: the sender keeps a window open
WINDOW = 64  # requests that it then keeps open

PORT = 4711

# The unit of each value of a run.
METRICS = {
    "offered": "million/s",
    "delivered": "million/s",
    "answered": "million/s",
    "lost": "%",
    "cpu": "ns",
    "softirq": "ns",
    "core": "ns",
    "p50": "us",
    "p99": "us",
}
# The rate handled, divided by that of the closed loop just before. If the machine's speed changes
# from minute to minute, it changes less than the rates.
KEPT = "kept"
COLLAPSE_METRICS = {**METRICS, KEPT: "ratio"}


@dataclass(frozen=True)
class Load:
    """@rate: messages a second; 0: the sender keeps WINDOW requests open. @hold: ns a message in
    place of @repeat sums."""

    rate: int
    ms: int
    repeat: int = 1
    plain: bool = False
    hold: int = 0


def steer(lab: Lab) -> None:
    """Hands packets to the core of the node that receives them."""
    cpus = lab.topology.cpus(one_core=True)

    def commands(_: Path) -> list[tuple[str, list[str]]]:
        each = "for f in /sys/class/net/[th]*/queues/rx-*/rps_cpus; do echo $0 >$f || exit; done"
        return [
            (node.name, ["sh", "-c", each, f"{1 << cpus[node.name][0]:x}"])
            for node in lab.topology.nodes
        ]

    for ran in lab.run_each(commands):
        printed(ran, "the steering of packets to cores")


def _addresses(lab: Lab, backend: str, run_dir: Path) -> Iterator[tuple[Node, str, str]]:
    """Each node, with the address that it opens and the one that its peer uses."""
    for node in lab.topology.nodes:
        if backend == "dpdk":
            yield node, f"memif:dir={run_dir},frame=2048", f"memif:dir={run_dir}"
        elif backend == "udp":
            yield node, f"{node.tcp_ip}:{PORT}", f"{node.tcp_ip}:{PORT}"
        else:
            macs = {link["name"]: link["mac"] for link in network.links(node.netns)}
            yield node, "hk0", macs["hk0"]


def values(receiver: dict, sender: dict, what: str) -> dict[str, float]:
    """The values of METRICS, of what the two nodes printed. @what: the run's name."""
    handled, offered = receiver["handled"], sender["offered"]
    if handled < 2 or not receiver["handling_ns"]:
        raise HikyakuError(
            f"{what}: {handled} of {offered} messages arrived, too few to measure",
            "send for longer, or at a higher rate",
        )
    handling_ns = receiver["handling_ns"]
    return {
        "offered": 1e3 * offered / sender["sending_ns"],
        "delivered": 1e3 * handled / handling_ns,
        "answered": 1e3 * sender["returned"] / handling_ns,
        "lost": 100 * (1 - handled / offered),
        "cpu": receiver["process_ns"] / handled,
        "softirq": receiver["core_softirq_ns"] / handled,
        "core": receiver["core_ns"] / handled,
        "p50": sender["p50_us"],
        "p99": sender["p99_us"],
    }


def run(lab: Lab, receiver: str, load: Load, what: str) -> dict[str, float]:
    """The values of one run. @what: its name, for errors."""
    backend = {SOCKET: "udp", PIPELINE: "dpdk"}.get(receiver, receiver)
    both = option_words(repeat=load.repeat, plain=int(load.plain), hold=load.hold, backend=backend)
    roles = [
        option_words(socket=int(receiver == SOCKET), threads=int(receiver == PIPELINE)),
        option_words(rate=load.rate, ms=load.ms, window=None if load.rate else WINDOW),
    ]

    def commands(run_dir: Path) -> list[tuple[str, list[str]]]:
        peers = run_dir / "peers"
        ends = list(_addresses(lab, backend, run_dir))
        peers.write_text("".join(f"{node.index} {to}\n" for node, _, to in ends))
        program = [str(built("bench/rtc_load")), *option_words(peers=peers), *both]
        return [
            (node.name, [*program, *option_words(node=node.index, address=at), *role])
            for (node, at, _), role in zip(ends, roles, strict=True)
        ]

    ran = lab.run_each(commands, one_core=receiver != PIPELINE, timeout=60 + load.ms / 1e3)
    lines = [printed(result, what) for result in ran]
    return values(lines[0][0], lines[1][0], what)
