# SPDX-License-Identifier: BSD-3-Clause
"""The router's three buffer plans on emulated NICs: what bounce, p2p and pktpit send is the same,
byte for byte, and payloads of the latter two lie in another device's memory."""

import json
from collections.abc import Iterator

import pytest

from hikyaku import guest as guests
from hikyaku.guest import Guest, Machine
from hikyaku.guest.wire import exchange
from packets import IP4, SPECIAL, Router, ethernet, ipv4, ipv6, sequence

IVSHMEM, NVME = "0000:00:08.0", "0000:00:09.0"
NICS = ["0000:00:03.0", "0000:00:04.0"]
MACHINE = Machine(
    devices=("ivshmem", "nvme"), iommu=True, memory_mb=1100, huge_mb=480, device_mb=64
)
PEER = "02:00:00:00:01:99"
ROUTES = f"""port 0 mtu 9000
port 1 mtu 9000
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


def model() -> Router:
    zero, one = (0, PEER), (1, PEER)
    return Router(
        macs=[MACHINE.mac(0), MACHINE.mac(1)],
        addresses=[["198.18.0.1", "fd00:aa::1"], []],
        mtu=[9000, 9000],
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


@pytest.fixture(scope="module")
def guest(lab_name) -> Iterator[Guest]:
    name = lab_name("router")
    guests.down_dead(name.split("-")[0])
    try:
        yield Guest.up(MACHINE, name)
    finally:
        guests.down(name)


def packets(longest: int, n: int) -> tuple[list[bytes], list[list[bytes]]]:
    """Frames for port 0 that have an answer, and what comes out of each port."""
    it = model()
    us, them = it.macs[0], "02:00:00:00:99:01"
    sent = sequence(it, 0, n, seed=3)
    for i, size in enumerate(range(1500, longest - 60, 97)):
        body = b"HIKYAKU!" * (size // 8)
        four = ipv4("198.18.9.9", "10.0.0.9", body)
        six = ipv6("fd00:99::1", "fd00:1::9", body)
        sent.insert(
            i * 7, ethernet(us, them, IP4, four) if i % 2 else ethernet(us, them, 0x86DD, six)
        )
    kept: list[bytes] = []
    want: list[list[bytes]] = [[], []]
    for frame in sent:
        out = it.put(0, frame)
        if out.port is not None and len(frame) >= 60:
            kept.append(frame)
            want[out.port] += out.frames
    return kept, want


@pytest.mark.parametrize("driver", ["uio_pci_generic", "vfio-pci"])
@pytest.mark.parametrize(
    "mode,pool,longest",
    [
        ("bounce", "", 9000),
        ("p2p", f"pop:ivshmem:{IVSHMEM}", 9000),
        ("pktpit", f"pop:ivshmem:{IVSHMEM}", 9000),
        ("p2p", f"pop:cmb:{NVME}", 4000),  # QEMU sends from a CMB by one page
        ("pktpit", f"pop:cmb:{NVME}", 4000),
    ],
    ids=["bounce", "p2p-ivshmem", "pktpit-ivshmem", "p2p-cmb", "pktpit-cmb"],
)
def test_three_plans(
    guest: Guest, driver: str, mode: str, pool: str, longest: int, request: pytest.FixtureRequest
) -> None:
    n = 32000 if request.config.getoption("--slow") else 500  # two of three have an answer
    sent, want = packets(longest, n)
    options = f"--pool {pool} --frame 9216 --buffers 2900" if pool else "--buffers 1000"
    ports = " ".join(f"--port pci:{nic}" for nic in NICS)
    guest.run(
        f"bind {driver} {' '.join(NICS)}\n"
        f"cat > /tmp/routes <<'END'\n{ROUTES}END\n"
        f"hk_router --mode {mode} --routes /tmp/routes --memory 448 --icmp-rate 1000000 "
        f"{options} {ports} > /tmp/out 2>&1 &\n"
        "pid=$!; echo $pid > /tmp/pid\n"
        "while ! grep -q ^ready /tmp/out; do\n"
        "  kill -0 $pid 2>/dev/null || { cat /tmp/out; exit 1; }; sleep 0.05; done"
    )
    with guest.wire(0) as left, guest.wire(1) as right:
        got = exchange([(left, sent)], [left, right], sum(map(len, want)), window=128)
    said = guest.run(
        "pid=$(cat /tmp/pid); kill $pid\n"
        "while kill -0 $pid 2>/dev/null; do sleep 0.05; done; cat /tmp/out"
    )
    stats = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    assert [len(each) for each in got] == [len(each) for each in want], said
    assert got == want, said
    assert stats["ports"][0]["read_header_bytes"] <= 64 * stats["ports"][0]["in_packets"]
    if "ivshmem" in pool:
        bar = guest.bar()
        assert sum(frame[54:] in bar for frame in sent[-100:]) > 20
