# SPDX-License-Identifier: BSD-3-Clause
"""The routers' three buffer plans on a guest's NICs: what bounce, p2p and pktpit send is compared,
byte for byte, with what a router in Python says (packets.py); main memory is scanned for payload.

Packets have from 60 bytes (64 with the FCS) to what the NIC takes, are IPv4 and IPv6, some with
options, some cut up on the way, some answered by ICMP. From byte 64 on, where no mode reads, they
have a marker.
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
from .packets import IP4, IP6, SPECIAL, Router, ethernet, ipv4, ipv6, sequence

MARKER = b"HIKYAKU!payload!"
MARK_AT = 64  # of the frame
MACHINE = Machine(
    devices=("ivshmem", "nvme"), iommu=True, memory_mb=1100, huge_mb=480, device_mb=64
)
MODES = ("bounce", "p2p", "pktpit")
DRIVERS = {"uio": "uio_pci_generic", "vfio": "vfio-pci"}
POPS = {"ivshmem": "pop:ivshmem:", "nvme": "pop:cmb:"}
LONGEST = 9000  # bytes of IP
# QEMU sends what lies in a CMB by a page of its own: what is longer is cut up, or refused, before.
# And a fragment must not lie in two buffers: e1000 fills them to a power of two.
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
    """What _routes() means."""
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
    """Not in IPv6's extension headers: a chain of them that leads past the packet's end is lost by
    QEMU's e1000e when it is sent."""
    udp = frame[20] if frame[12:14] == IP6.to_bytes(2) else 17
    return len(frame) >= MARK_AT + len(MARKER) and udp == 17


def _sized(us: str, draw: random.Random, longest: int) -> bytes:
    """A packet that goes through, or is cut up, of any size."""
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
    """@count frames for port 0 that have an answer, and what it is. Every third is of all kinds
    that there are, right and wrong."""
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
    """The router by @plan, ready."""
    nics = [guest.machine.nic(i) for i in (0, 1)]
    options = ""
    if plan.memory != "main":
        pop = POPS[plan.memory] + guest.machine.device(plan.memory)
        options = f"--pool {pop}"
    ports = " ".join(f"--port pci:{nic},ring=512" for nic in nics)
    guest.run(
        f"bind {DRIVERS[plan.driver]} {' '.join(nics)}\n"
        f"cat > /tmp/routes <<'END'\n{_routes(plan.mtu)}END\n"
    )
    return guest.start(
        f"hk_router --mode {plan.mode} --wait 60000 --routes /tmp/routes --memory 448 "
        f"--icmp-rate 1000000 {BUFFERS[plan.memory]} --scan {MARKER.hex()} {options} {ports}"
    )


def end(router: Background) -> tuple[dict, str]:
    """Its counters, when it has been told to end, and all that it said."""
    said = router.end(stop=True)
    report = [line for line in said.splitlines() if line.startswith("{")]
    if not report:
        raise HikyakuError(f"the router ended without its counters: {said[-1500:]}")
    return json.loads(report[-1]), said


def run(guest: Guest, plan: Plan, count: int) -> dict:
    """@count packets through the router by @plan: what came, and what is wrong with it."""
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
        # what tells a frame lost on the way to the router, in it, and behind it
        "received": port["in_packets"],
        "verdicts": port["verdicts"],
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
    """For people: which frames of a plan's run were wrong or missing, and where they may have been
    lost. Empty: none."""
    found = lines(row["differences"])
    if not found:
        return []
    return [
        f"{row['plan']}: of {row['packets']} frames the router received {row['received']} "
        f"({json.dumps(row['verdicts'])}); of {row['wanted']} answers it sent "
        f"{row['transmitted']} and dropped {row['tx_full']} for a full NIC; {row['came']} came",
        *found,
    ]
