# SPDX-License-Identifier: BSD-3-Clause
"""The routers' three buffer plans on a guest's NICs, checked byte by byte.

The frames of bounce, p2p and pktpit are compared with those of a router in Python (model.py). Main
memory is scanned for payload. Packets have from 60 bytes (64 with the FCS) to the largest that the
NIC takes. They are IPv4 and IPv6; some have options, some are fragmented, some get an ICMP answer.
From byte 64 on, which no mode reads, they contain a marker.
"""

import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from ..errors import HikyakuError
from ..guest import Background, Guest, Machine
from ..guest.wire import exchange
from .differences import differences, lines
from .model import SPECIAL, Router
from .packets import IP4, IP6, ethernet, ipv4, ipv6
from .sequences import sequence

MARKER = b"HIKYAKU!payload!"
MARK_AT = 64  # of the frame
MACHINE = Machine(
    devices=("ivshmem", "nvme"),
    iommu=True,
    memory_mb=1100,
    huge_mb=480,
    device_mb=64,
)
MODES = ("bounce", "p2p", "pktpit")
DRIVERS = {"uio": "uio_pci_generic", "vfio": "vfio-pci"}
POPS = {"ivshmem": "pop:ivshmem:", "nvme": "pop:cmb:"}
LONGEST = 9000  # bytes of IP
# QEMU copies frames in a CMB through one page, so longer packets are fragmented or refused first. A
# fragment must not span two buffers: e1000 fills them to a power of two.
CMB_MTU = 4000
BUFFERS = {
    "main": "--buffers 1000",
    "ivshmem": "--frame 9216 --buffers 2900",
    "nvme": "--frame 16384 --buffers 1850",
}
PEER = "02:00:00:00:01:99"


@dataclass(frozen=True)
class Plan:
    mode: str
    memory: str  # "main", or a device of the machine
    driver: str  # of DRIVERS

    def __str__(self) -> str:
        return f"{self.mode}-{self.memory}-{self.driver}"

    @property
    def mtu(self) -> int:
        return CMB_MTU if self.memory == "nvme" else LONGEST


PLANS = [Plan("bounce", "main", driver) for driver in DRIVERS] + [
    Plan(mode, memory, driver)
    for memory in POPS
    for mode in ("p2p", "pktpit")
    for driver in DRIVERS
]


def _routes(mtu: int) -> str:
    return f"""port 0 mtu 1300
port 1 mtu {mtu}
address 198.18.0.1/24 port 0
address fd00:aa::1/64 port 0
neighbour 198.18.1.2 port 1 mac {PEER}
neighbour fd00:ff::2 port 1 mac {PEER}
neighbour 198.18.0.2 port 0 mac {PEER}
neighbour fd00:aa::2 port 0 mac {PEER}
route 10.0.0.0/8 via 198.18.1.2 port 1
route 10.3.0.0/16 via 198.18.0.2
route fd00:0::/31 via fd00:ff::2 port 1
route 198.18.9.0/24 via 198.18.0.2
route fd00:99::/32 via fd00:aa::2
"""


def _model(mtu: int) -> Router:
    """The model of _routes()."""
    zero, one = (0, PEER), (1, PEER)
    return Router(
        macs=[MACHINE.mac(0), MACHINE.mac(1)],
        addresses=[["198.18.0.1", "fd00:aa::1"], []],
        mtu=[1300, mtu],
        routes={
            **SPECIAL,
            "198.18.0.1/32": "no_kernel",
            **dict.fromkeys(["198.18.0.0/32", "198.18.0.255/32"], "broadcast"),
            **dict.fromkeys(["198.18.0.0/24", "fd00:aa::/64"], "unresolved"),
            "10.0.0.0/8": one,
            "10.3.0.0/16": zero,
            "fd00:0::/31": one,
            "198.18.9.0/24": zero,
            "fd00:99::/32": zero,
        },
    )


def _may_mark(frame: bytes) -> bool:
    """May @frame carry the marker? Not in IPv6's extension headers: QEMU's e1000e loses a frame
    whose chain of headers exceeds the packet."""
    udp = frame[20] if frame[12:14] == IP6.to_bytes(2) else 17
    return len(frame) >= MARK_AT + len(MARKER) and udp == 17


def _sized(us: str, draw: random.Random, longest: int) -> bytes:
    """A packet of any size that is forwarded or fragmented."""
    size = draw.choice([46, 47, 64, 128, 594, 1500, longest, draw.randint(46, 1500)])
    if draw.random() < 0.1:
        size = draw.randint(46, longest)
    if draw.random() < 0.4:
        body = draw.randbytes(size - 40)
        return ethernet(us, PEER, IP6, ipv6("fd00:99::1", f"fd00:{draw.randrange(2)}::9", body))
    dst = f"10.{draw.randrange(4)}.7.{draw.randrange(256)}"
    flags = draw.choice([0, 0, 0x4000])
    ident = draw.randrange(65536)
    packet = ipv4("198.18.9.9", dst, draw.randbytes(size - 20), flags=flags, ident=ident)
    return ethernet(us, PEER, IP4, packet)


@dataclass
class Traffic:
    sent: list[bytes]
    want: list[list[bytes]]  # what comes out of each port
    answers: list[int]  # frames that come out for each
    marked: int = 0  # frames with the marker


@lru_cache(maxsize=4)
def traffic(count: int, mtu: int, longest: int = LONGEST) -> Traffic:
    """@count frames for port 0 that have an answer, with these answers. Every third frame is of any
    kind, correct or wrong."""
    it, draw = _model(mtu), random.Random(3)
    mixed = iter(sequence(it, 0, count, seed=3))
    made = Traffic([], [[], []], [])
    while len(made.sent) < count:
        frame = (next(mixed, b"") if len(made.sent) % 3 == 0 else b"") or _sized(
            it.macs[0], draw, longest
        )
        if mark := _may_mark(frame):
            frame = frame[:MARK_AT] + MARKER + frame[MARK_AT + len(MARKER) :]
        out = it.put(0, frame)
        if out.port is not None and len(frame) >= 60:
            made.sent.append(frame)
            made.want[out.port] += out.frames
            made.answers.append(len(out.frames))
            made.marked += mark
    return made


def start(guest: Guest, plan: Plan) -> Background:
    """Starts the router with @plan; returns when it is ready."""
    nics = [guest.machine.nic(i) for i in (0, 1)]
    options = ""
    if plan.memory != "main":
        pop = POPS[plan.memory] + guest.machine.device(plan.memory)
        options = f"--pool {pop}"
    ports = " ".join(f"--port pci:{nic},frame=9216,ring=512" for nic in nics)
    guest.run(
        f"bind {DRIVERS[plan.driver]} {' '.join(nics)}\n"
        f"cat > /tmp/routes <<'END'\n{_routes(plan.mtu)}END\n"
    )
    return guest.start(
        f"hk_router --mode {plan.mode} --wait 60000 --routes /tmp/routes --memory 448 "
        f"--icmp-rate 1000000 {BUFFERS[plan.memory]} --scan {MARKER.hex()} {options} {ports}"
    )


def end(router: Background) -> tuple[dict, str]:
    """Ends the router; returns its counters and its output."""
    said = router.end(stop=True)
    report = [line for line in said.splitlines() if line.startswith("{")]
    if not report:
        raise HikyakuError(f"the router ended without its counters: {said[-1500:]}")
    return json.loads(report[-1]), said


def run(guest: Guest, plan: Plan, count: int) -> dict:
    """Sends @count packets through the router with @plan; returns the result and the
    differences."""
    it = traffic(count, plan.mtu)
    want = it.want
    router = start(guest, plan)
    began = time.monotonic()
    with guest.wire(0) as left, guest.wire(1) as right:
        expected = sum(map(len, want))
        ends = [left, right]
        got = exchange(
            [(left, it.sent)], ends, expected, window=128, timeout=300, answers=it.answers
        )
    took = time.monotonic() - began
    stats, said = end(router)
    came, right_ones = Counter(got[0] + got[1]), Counter(want[0] + want[1])
    port = stats["ports"][0]
    return {
        "plan": str(plan),
        "mode": plan.mode,
        "memory": plan.memory,
        "driver": plan.driver,
        "packets": len(it.sent),
        "shortest": min(map(len, it.sent)) + 4,  # as Ethernet counts, with the FCS
        "longest": max(map(len, it.sent)) + 4,
        "marked": it.marked,
        "wanted": expected,
        "came": sum(map(len, got)),
        "corrupt": (came - right_ones).total(),
        "missing": (right_ones - came).total(),
        "in_order": got == want,
        "differences": differences(got, want),
        # these show whether a frame was lost before, in, or after the router
        "received": port["in_packets"],
        "results": port["results"],
        "tx_full": sum(p["tx_full"] for p in stats["ports"]),
        "transmitted": sum(p["out_packets"] for p in stats["ports"]),
        "fragmented": port["fragmented"],
        "icmp": port["icmp_sent"],
        "header_bytes": port["read_header_bytes"] / max(1, port["in_packets"]),
        "in_main_memory": stats["in_main_memory"],
        "seconds": took,
        "said": said,
    }


def wrong(row: dict) -> list[str]:
    """The text for wrong or missing frames of a run, with the place where they may have been lost.
    Empty if there are none."""
    found = lines(row["differences"])
    if not found:
        return []
    return [
        f"{row['plan']}: of {row['packets']} frames the router received {row['received']} "
        f"({json.dumps(row['results'])}); of {row['wanted']} answers it sent "
        f"{row['transmitted']} and dropped {row['tx_full']} for a full NIC; {row['came']} came",
        *found,
    ]
