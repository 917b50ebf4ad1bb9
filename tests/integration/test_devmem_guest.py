# SPDX-License-Identifier: BSD-3-Clause
"""Peer-to-peer DMA on emulated devices. One NIC of the guest receives frames into the memory of
another device, and the second NIC sends them from there. The host compares every byte, because
counters prove nothing.

All tests share one guest, because booting takes most of their time.
"""

import json
import random
import signal
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from execute import execute
from hikyaku import guest as guests
from hikyaku.devmem.places import InGuest
from hikyaku.errors import HikyakuError
from hikyaku.guest import Guest, Machine
from hikyaku.guest.wire import exchange
from hikyaku.process import wait_until

MARKER = b"HIKYAKU!"
IVSHMEM, NVME = "0000:00:08.0", "0000:00:09.0"
NICS = "0000:00:03.0,0000:00:04.0"
RINGS = 2 << 20  # bytes of a pop that hk_pop_rings() takes
MACHINE = Machine(devices=("ivshmem", "nvme"), iommu=True, processors=2)  # of load threads


@pytest.fixture(scope="module")
def guest(lab_name) -> Iterator[Guest]:
    name = lab_name("devmem")
    guests.down_dead(name.split("-")[0])
    try:
        yield Guest.up(MACHINE, name)
    finally:
        guests.down(name)


class Forwarder:
    """hk_devmem forward in the guest."""

    def __init__(self, guest: Guest, driver: str, pop: str, options: str):
        guest.run(f"bind {driver} {NICS.replace(',', ' ')}")
        self.program = guest.start(
            f"hk_devmem forward --pop {pop} --nics {NICS} --timeout 50 {options}"
        )

    def end(self, *, stop: bool = False) -> tuple[dict, str]:
        """Waits for its end, with @stop after a signal. Returns its report and its output."""
        output = self.program.end(stop=stop)
        report = next(line for line in output.splitlines() if line.startswith("{"))
        return json.loads(report), output


def frames(n: int, seed: int, longest: int, mac: str = MACHINE.mac(0)) -> list[bytes]:
    """Frames for a NIC, each with the marker, of all sizes from 60 bytes (64 with the FCS)."""
    rng = random.Random(seed)
    head = bytes.fromhex(mac.replace(":", "")) + bytes.fromhex("02000000000188b5")
    sizes = [60, 61, 128, 594, 1514, longest]
    made = []
    for i in range(n):
        body = MARKER + i.to_bytes(4, "big")
        size = rng.choice(sizes) if i % 3 else rng.randint(60, longest)
        made.append(head + body + rng.randbytes(size - len(head) - len(body)))
    return made


# QEMU maps memory of a CMB that a NIC sends by a bounce buffer of one page.
@pytest.mark.parametrize("driver", ["uio_pci_generic", "vfio-pci"])
@pytest.mark.parametrize(
    "pop,longest",
    [(f"pop:ivshmem:{IVSHMEM}", 9000), (f"pop:cmb:{NVME}", 4000)],
    ids=["ivshmem", "cmb"],
)
def test_frames_lie_in_the_device(guest: Guest, driver: str, pop: str, longest: int) -> None:
    n = 2000
    sent = frames(n, 7, longest)
    forward = Forwarder(
        guest, driver, pop, f"--count {n} --check --scan {(MARKER + bytes(3)).hex()}"
    )
    with guest.wire(0) as left, guest.wire(1) as right:
        [got] = exchange([(left, sent)], [right], n, window=128)
    report, output = forward.end()
    assert [len(f) for f in got] == [len(f) for f in sent], output
    assert got == sent, output
    assert report["frames"] == n and report["unlanded"] == 0, output
    assert report["in_main_memory"] == 0, output
    assert report["iova"] == ("physical" if driver == "uio_pci_generic" else "virtual")
    if "ivshmem" in pop:
        # the host reads the device: it has payloads of this run
        bar = guest.bar()
        assert sum(f[14:60] in bar for f in sent[-200:]) > 50


def test_rings_are_as_long_as_the_buffers_allow(guest: Guest) -> None:
    sent = frames(600, 9, 1514)
    forward = Forwarder(
        guest, "vfio-pci", f"pop:ivshmem:{IVSHMEM}", f"--count {len(sent)} --buffers 300"
    )
    with guest.wire(0) as left, guest.wire(1) as right:
        [got] = exchange([(left, sent)], [right], len(sent), window=32)
    _, output = forward.end()
    assert got == sent, output
    pop = f"--pop pop:ivshmem:{IVSHMEM}"
    output = guest.run(f"hk_devmem forward {pop} --nics {NICS},{NICS} --buffers 500 2>&1 || true")
    assert "500 buffers are too few for the rings of 4 NICs; fix: use --buffers 512" in output


@pytest.mark.parametrize("driver", ["uio_pci_generic", "vfio-pci"])
def test_memory_of_a_device_at_vfio(guest: Guest, driver: str) -> None:
    """The memory of a device bound to vfio-pci is mapped by the descriptor of vfio."""
    both = [f"pop:ivshmem:{IVSHMEM}", f"pop:cmb:{NVME}"]
    guest.run(f"bind vfio-pci {IVSHMEM} {NVME}")
    try:
        assert [pop["size"] for pop in pops(guest, *both)] == [MACHINE.device_mb << 20] * 2
        [refused] = pops(guest, f"pop:ivshmem:{IVSHMEM},wc=1")
        assert "which cannot make it write-combining" in refused["error"]
        n = 300
        sent = frames(n, 11, 1514)
        forward = Forwarder(guest, driver, both[0], f"--count {n} --check")
        [second] = pops(guest, both[0])
        assert "is in use by process" in second["error"]
        with guest.wire(0) as left, guest.wire(1) as right:
            [got] = exchange([(left, sent)], [right], n, window=128)
        report, output = forward.end()
    finally:
        guest.run(f"bind none {IVSHMEM} {NVME}")
    assert got == sent and report["unlanded"] == 0, output
    bar = guest.bar()
    assert sum(f[14:60] in bar for f in sent) > 50


def test_main_memory_is_scanned(guest: Guest) -> None:
    """The scan, which finds nothing in other tests, finds frames in main memory."""
    n = 300
    sent = frames(n, 8, 1514)
    scan = f"--count {n} --scan {(MARKER + bytes(3)).hex()}"
    forward = Forwarder(guest, "uio_pci_generic", "none", scan)
    with guest.wire(0) as left, guest.wire(1) as right:
        [got] = exchange([(left, sent)], [right], n, window=128)
    report, output = forward.end()
    assert got == sent, output
    assert report["in_main_memory"] > 100, output


def test_unmapped_iommu_is_reported(guest: Guest) -> None:
    """The BAR is not mapped in the IOMMU: the NIC counts frames, but writes no bytes."""
    n = 300
    sent = frames(n, 10, 1514)  # of no other test: the BAR still holds what those left
    forward = Forwarder(guest, "vfio-pci", f"pop:ivshmem:{IVSHMEM}", "--check --unmapped")
    [second] = pops(guest, f"pop:ivshmem:{IVSHMEM}")
    owner = forward.program.pid
    assert f"BAR 2 of PCI device {IVSHMEM} is in use by process {owner};" in second["error"]
    with guest.wire(0) as left, guest.wire(1) as right:
        [got] = exchange([(left, sent)], [right], n, window=64, timeout=4)
    report, output = forward.end(stop=True)
    assert report["frames"] > 0, output  # the counters show no error
    assert report["unlanded"] == min(report["frames"], 1024), output
    assert "never landed" in output
    assert not any(f in sent for f in got)
    bar = guest.bar()
    assert not any(f[14:60] in bar for f in sent)


BAD = {
    f"pop:bar:{IVSHMEM},bar=3": "no usable memory in BAR 3",
    f"pop:bar:{IVSHMEM},bar=2,size=32M": "lie past the end of BAR 2",
    f"pop:bar:{IVSHMEM},bar=2,offset=100": "not whole pages",
    "pop:bar:0000:00:1e.7,bar=2": "there is no PCI device 0000:00:1e.7",
    f"pop:ivshmem:{NVME}": "not ivshmem",
    f"pop:cmb:{IVSHMEM}": "not an NVMe controller",
    f"pop:cmb:{NVME},size=1G": "its buffer has 16777216 bytes",
    "pop:gpu:0,size=1M": "DPDK has no GPU 0",
    "pop:physical:0x100000,size=4096": "accept=corruption",
    "pop:huge:size=100G": "free huge pages",
}


def pops(guest: Guest, *specs: str) -> list[dict]:
    _, output = guest.exec(f"hk_devmem pops {' '.join(specs)}")
    found = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    assert len(found) == len(specs), output
    return found


def test_bad_pops(guest: Guest) -> None:
    """The error names the device, and nothing is mapped."""
    for got, want in zip(pops(guest, *BAD), BAD.values(), strict=True):
        assert want in got["error"] and "; fix: " in got["error"], got


def test_device_of_a_kernel_driver(guest: Guest) -> None:
    """A kernel driver owns the device. After its removal the device is free."""
    spec = f"pop:cmb:{NVME}"
    guest.run(f"modprobe nvme; bind nvme {NVME}")
    try:
        [bound] = pops(guest, spec)
    finally:
        guest.run(f"bind none {NVME}; rmmod nvme")
    assert f"{NVME} is bound to the kernel driver 'nvme'" in bound["error"]
    [free] = pops(guest, spec)
    assert free["size"] == MACHINE.device_mb << 20 and free["slow_read"]


@pytest.mark.parametrize(
    "pop", [f"pop:cmb:{NVME}", f"pop:ivshmem:{IVSHMEM}"], ids=["cmb", "ivshmem"]
)
def test_blocks_go_to_the_network(guest: Guest, pop: str) -> None:
    """The NIC sends an SSD's blocks from a device's memory. They are never in main memory."""
    n, blocks = 200, 7
    disk = MARKER + bytes(8) + random.Random(3).randbytes((1 << 20) - 16)
    with guest.disk().open("r+b") as file:
        file.write(disk)
    nic = NICS.split(",", maxsplit=1)[0]
    guest.run(f"bind none {NVME}; bind uio_pci_generic {NICS.replace(',', ' ')}")
    got = []
    with guest.wire(0) as wire:
        output = guest.run(
            f"hk_devmem nvme --pop {pop} --nvme {NVME} --nic {nic} --count {n} --blocks {blocks} "
            f"--scan {disk[:16].hex()}"
        )
        while (frame := wire.receive(0.2)) is not None:
            if frame[12:14] == b"\x88\xb5":
                got.append(frame)
    report = json.loads(output.strip().splitlines()[-1])
    assert len(got) == report["frames"] == n
    starts = [int.from_bytes(f[14:22], "little") for f in got]
    assert sorted(starts) == [i * blocks for i in range(n)]
    for start, frame in zip(starts, got, strict=True):
        assert frame[22:] == disk[start * 512 : (start + blocks) * 512]
    assert report["in_main_memory"] == 0 and report["cpu_read"] == 0


@pytest.mark.parametrize(
    "command",
    [
        f"nvme --nvme {NVME} --nic {NICS[:12]} --count 1000000000",
        f"measure --nvme {NVME} --seconds 1000",
        f"measure --nics {NICS} --seconds 1000",
    ],
    ids=["nvme", "measure-nvme", "measure-nics"],
)
def test_signals(guest: Guest, command: str) -> None:
    """A signal stops the devices, then frees their memory. The next program can use both."""
    pop = f"pop:ivshmem:{IVSHMEM}"
    guest.run(f"bind none {NVME}; bind uio_pci_generic {NICS.replace(',', ' ')}")
    with guest.wire(0) as wire:
        output = guest.run(
            f"hk_devmem {command} --pop {pop} > /tmp/output 2>&1 & pid=$!\n"
            f'until hk_devmem pops {pop} | grep -q "in use by process $pid"; do\n'
            "  kill -0 $pid || exit 1; done\n"
            "kill $pid; wait $pid; echo status $?; cat /tmp/output"
        )
        while wire.receive(0) is not None:
            pass
    assert "status 1\n" in output and "ended by a signal" in output, output
    [free] = pops(guest, pop)
    assert free["size"] == MACHINE.device_mb << 20


def test_device_is_removed(guest: Guest) -> None:
    """The error names a removed device. When the device is back, it can be used."""
    spec = f"pop:ivshmem:{IVSHMEM}"
    guest.run(f"echo 1 > /sys/bus/pci/devices/{IVSHMEM}/remove")
    try:
        [gone] = pops(guest, spec)
    finally:
        guest.run("echo 1 > /sys/bus/pci/rescan")
    assert f"there is no PCI device {IVSHMEM}" in gone["error"]
    [back] = pops(guest, spec)
    assert back["size"] == MACHINE.device_mb << 20


def test_measure(guest: Guest, hikyaku: list[str], tmp_path: Path) -> None:
    """Each table says that an emulator's figures mean nothing. The data is correct."""
    guest.run(f"bind none {NVME}; bind uio_pci_generic {NICS.replace(',', ' ')}")
    argv = [*hikyaku, "devmem", "measure", "--lab", guest.name, "--nics", NICS, "--nvme", NVME]
    argv += ["--pop", f"pop:ivshmem:{IVSHMEM}", "--load", "network", "--repeats", "1"]
    argv += ["--load-threads", "2", "--load-mb", "1", "--load-cores", "0-1", "--seconds", "0.2"]
    argv += ["--json", str(tmp_path / "m.json"), "--plot", str(tmp_path / "m.png")]
    done = execute(argv, timeout=240)
    assert "only addresses and data mean anything here" in " ".join(done.stdout.split())
    document = json.loads((tmp_path / "m.json").read_text())
    assert document["emulated"] and "emulator" in document["note"]
    cells = {(c["device"], c["pop"], c["load"]): c for c in document["cells"]}
    assert set(cells) == {
        (device, pop, load)
        for device in ("nic", "nvme")
        for pop in ("none", f"pop:ivshmem:{IVSHMEM}")
        for load in ("nothing", "network")
    }
    for (_, _, load), cell in cells.items():
        assert cell["gbit_per_s"]["median"] > 0 and cell["latency_us"]["median"] > 0, cell
        assert cell["wrong"] == 0, cell
        cores = [thread["core"] for thread in cell["threads"]]
        assert cores == ([] if load == "nothing" else [0, 1]), cell
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")


WORDS = ["--load", "write", "--load-mb", "1", "--rate", "2000", "--rings"]


def descriptors(guest: Guest, base: int) -> int:
    """The addresses of packet buffers in the part of the device's memory that holds rings."""
    memory = guest.bar()
    words = struct.unpack_from(f"<{RINGS // 8}Q", memory)
    return len({word for word in words if base + RINGS <= word < base + len(memory)})


def test_one_nic_with_a_peer(guest: Guest) -> None:
    """The NIC only sends, then only receives. Its rings are on the device, with its packets."""
    pop = f"pop:ivshmem:{IVSHMEM}"
    guest.run(f"bind uio_pci_generic {NICS.replace(',', ' ')}")
    base = int(pops(guest, pop)[0]["bus"], 16)
    tested, other = NICS.split(",")
    with InGuest(guest) as place, place.peer(other), ThreadPoolExecutor(1) as pool:

        def cell(direction: str, seconds: str) -> Future[dict]:
            argv = ["--nics", tested, "--direction", direction, "--pop", pop, *WORDS]
            return pool.submit(place.run, [*argv, "--seconds", seconds])

        running = cell("transmit", "0.5")
        sees = []
        wait_until(
            "the measurement to end",
            lambda: sees.append(descriptors(guest, base)) or running.done(),
            120,
        )
        transmit, receive = running.result(), cell("receive", "0.2").result()
    for one in (transmit, receive):
        assert one["wrong"] == 0 and one["ring_bytes"] > 8192, one
        assert len(one["threads"]) == 1, one
        sends, receives = one["transmit_gbit_per_s"], one["receive_gbit_per_s"]
        assert (sends > 0, receives > 0) == (one is transmit, one is receive), one
    assert max(sees) > 200, sees


def test_commands(guest: Guest, hikyaku: list[str]) -> None:
    """Status and output of a command are returned; a command that hangs is killed in the guest."""
    argv = [*hikyaku, "lab", "guest", "exec", "--lab", guest.name]
    done = execute([*argv, "echo hi; exit 3"], code=None)
    assert (done.returncode, done.stdout.strip()) == (3, "hi"), done.stderr
    status, _ = guest.exec("sleep 1000", timeout=1)
    assert status == 137
    first = guest.start("{ echo ready; sleep 1000; }")
    with pytest.raises(HikyakuError, match="ended with 1 in the guest: not now"):
        guest.start("{ echo not now; exit 1; }")  # the output of the first does not count for it
    assert first.end(stop=True) == "ready\n"
    argv = [*hikyaku, "lab", "guest", "exec", "--lab", "nowhere", "true"]
    done = execute(argv, code=None)
    assert done.returncode == 1 and "hikyaku lab guest up" in done.stderr


def test_commands_arrive_whole_while_orphans_end(guest: Guest) -> None:
    """The first process of the guest reaps orphans while another one reads commands."""
    orphans = "for i in $(seq 300); do (true &); sleep 0.01; done"
    guest.run(f"({orphans}) > /dev/null 2>&1 &")
    for n in range(20):
        assert guest.run(f": {'x' * 1500}\necho {n}", timeout=20) == f"{n}\n"


NIC = MACHINE.nic(0)


@pytest.mark.parametrize(
    "command,said",
    [
        (
            f"vfio-pci {NIC}",
            f"vfio-pci does not take {NIC} (Invalid argument): it is in no IOMMU group, since this "
            f"guest has no IOMMU; fix: bind uio_pci_generic {NIC}, or add an IOMMU: "
            "hikyaku lab guest up --iommu",
        ),
        (
            f"serial {NIC}",
            f"serial does not take {NIC} (No such device); fix: bind uio_pci_generic {NIC}",
        ),
        (
            f"igb_uio {NIC}",
            "this guest has no driver 'igb_uio'; fix: use uio_pci_generic, vfio-pci or none",
        ),
        (
            "none 03.0",
            "there is no device '03.0'; fix: use an address that 'ls /sys/bus/pci/devices' shows",
        ),
        (NIC, "the driver or the address is missing; fix: bind DRIVER ADDRESS..."),
    ],
)
def test_bind_gives_the_reason(four_nics: Guest, command: str, said: str) -> None:
    assert four_nics.exec(f"bind {command}") == (1, f"bind: {said}\n")


def test_bind_does_not_wait_for_a_process_that_uses_the_device(guest: Guest) -> None:
    forward = Forwarder(guest, "vfio-pci", f"pop:ivshmem:{IVSHMEM}", "")
    said = guest.exec(f"bind uio_pci_generic {NIC}", timeout=20)
    forward.end(stop=True)
    assert said == (1, f"bind: a process uses {NIC}; fix: end it first\n")
    guest.run(f"bind uio_pci_generic {NIC}")


@pytest.fixture(scope="module")
def four_nics(lab_name) -> Iterator[Guest]:
    """A guest with another kind of NIC, and without an IOMMU."""
    name = lab_name("devmem4")
    try:
        yield Guest.up(Machine(nics=4, nic_model="vmxnet3", device_mb=32), name)
    finally:
        guests.down(name)


def test_four_nics_with_another_driver(four_nics: Guest) -> None:
    """Two pairs, in both directions at once. The driver of vmxnet3 uses rings in another way."""
    guest, machine, n = four_nics, four_nics.machine, 400
    nics = [machine.nic(i) for i in range(4)]
    sent = [frames(n, 20 + i, 9000, machine.mac(i)) for i in range(4)]
    guest.run(f"bind uio_pci_generic {' '.join(nics)}")
    program = guest.start(
        f"hk_devmem forward --pop pop:ivshmem:{IVSHMEM} --nics {','.join(nics)} --timeout 50 "
        f"--count {4 * n} --check"
    )
    with ExitStack() as stack:
        wires = [stack.enter_context(guest.wire(i)) for i in range(4)]
        got = exchange(list(zip(wires, sent, strict=True)), wires, 4 * n, window=128)
    output = program.end()
    bar = guest.bar()
    assert [got[i ^ 1] for i in range(4)] == sent, output
    assert json.loads(output.splitlines()[-1])["unlanded"] == 0, output
    for one in sent:
        assert sum(f[14:60] in bar for f in one[-100:]) > 50


def test_rings_of_another_driver(four_nics: Guest) -> None:
    """vmxnet3 has rings for completions as well, and one for small packets."""
    nics = [four_nics.machine.nic(i) for i in range(2)]
    four_nics.run(f"bind uio_pci_generic {' '.join(nics)}")
    argv = ["--nics", nics[0], "--direction", "both", "--pop", f"pop:ivshmem:{IVSHMEM}"]
    with InGuest(four_nics) as place, place.peer(nics[1]):
        done = place.run([*argv, "--seconds", "0.2", *WORDS])
    assert done["wrong"] == 0 and done["ring_bytes"] > 30_000, done
    assert done["transmit_gbit_per_s"] > 0 and done["receive_gbit_per_s"] > 0, done


def test_bench_that_is_ended_leaves_no_guest(hikyaku: list[str]) -> None:
    """Repeated signals, as timeout(1) sends them, do not interrupt the clean-up."""
    argv = [*hikyaku, "bench", "devmem", "--packets", "100", "--mode", "bounce"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as bench:
        name = f"bench-{bench.pid}"
        try:
            agent = Guest(name, MACHINE).directory / "agent"
            wait_until("QEMU to open its sockets", agent.exists, 60)

            def ended() -> bool:
                bench.send_signal(signal.SIGTERM)
                return bench.poll() is not None

            wait_until("bench devmem to end", ended, 60)
            # the second value if Python was already exiting
            assert bench.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)
            assert guests.down(name) == []
        finally:
            bench.kill()
            guests.down(name)


def test_without_qemu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(HikyakuError, match=r"qemu-system-x86_64 is not installed.*install-deps"):
        Guest.up(MACHINE, "none")
    with pytest.raises(HikyakuError, match="a guest has 2 or 4"):
        Guest.up(Machine(nics=3), "none")
