# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's L3 example: builds it, runs it on memif wires, and measures it without wires.

The example's source comes with Debian's dpdk-doc. It is built for each measurement, with one
change: without receive checksum offload, since it would not start on memif. It checks neither
checksums nor source addresses. DPDK's software parser tells it packet types, since memif does not.
"""

import json
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...devmem.packets import IP4, ethernet, ipv4, write_pcap
from ...errors import HikyakuError
from ...process import run, stop, wait_until

SAMPLE_S, SAMPLES = 0.02, 25
FRAMES = 4096  # as many different ones as the other loads have


def build(source: Path, directory: Path) -> Path:
    """Builds the example in @directory, and returns its program."""
    if not (source / "main.c").exists():
        raise HikyakuError(
            f"DPDK's L3 example is not at {source}",
            "apt-get install dpdk-doc, or give its directory by --l3fwd",
        )
    copy = directory / "l3fwd"
    copy.mkdir()
    for each in [*source.glob("*.c"), *source.glob("*.h")]:
        text = re.sub(
            r"\.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM", ".offloads = 0", each.read_text()
        )
        (copy / each.name).write_text(text)
    flags = ["-DALLOW_EXPERIMENTAL_API", f"-I{source.parent / 'common'}"]
    flags += run(["pkg-config", "--cflags", "--libs", "libdpdk"]).split()
    parts = "_route_parse.c"  # included by others
    sources = [str(path) for path in sorted(copy.glob("*.c")) if not path.name.endswith(parts)]
    program = copy / "l3fwd"
    run(["cc", "-O3", "-w", "-o", str(program), *sources, *flags, "-lm"], timeout=300)
    return program


@contextmanager
def running(
    argv: list[str], sockets: list[Path], cpu: int, directory: Path | None = None
) -> Iterator[None]:
    """A router on @cpu, from when its @sockets exist to the end of the block. @directory: where
    DPDK keeps its files."""
    env = {**os.environ, **({"RUNTIME_DIRECTORY": str(directory)} if directory else {})}
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            ["taskset", "-c", str(cpu), *argv], stdout=output, stderr=subprocess.STDOUT, env=env
        )
        try:
            wait_until(
                f"the sockets of {argv[0]}",
                lambda: child.poll() is not None or all(path.exists() for path in sockets),
                20,
            )
            if child.poll() is not None:
                raise HikyakuError("a router ended at its start")
            yield
        except HikyakuError as why:
            if child.poll() is None:
                raise
            output.seek(0)
            said = output.read().decode()[-2000:]
            raise HikyakuError(f"{argv[0]} ended with {child.returncode}: {said}") from why
        finally:
            stop(child)
            for path in sockets:
                path.unlink(missing_ok=True)


def _argv(program: Path, directory: Path, cpu: int, options: list[str], out: int) -> list[str]:
    """The command line, with routes to ports @out and so on."""
    four, six = directory / "four", directory / "six"
    four.write_text(f"R10.0.0.0/16 {out}\nR10.1.0.0/16 {2 * out - 1}\n")
    six.write_text(f"R2001:0200:0000:0000:0000:0000:0000:0000/64 {out}\n")
    argv = [str(program), "--no-huge", "-m", "512", "-l", str(cpu), "--no-pci", *options]
    argv += ["-P", "--parse-ptype", f"--rule_ipv4={four}", f"--rule_ipv6={six}"]
    return [*argv, *(f"--eth-dest={out + i},02:00:00:00:01:99" for i in range(out))]


def on_memif(program: Path, directory: Path, sockets: list[Path], cpu: int) -> list[str]:
    """The command line for memif wires, whose server it is."""
    options = ["--no-shconf"]
    for i, path in enumerate(sockets):
        values = f"role=server,id=0,socket={path},socket-abstract=no,bsize=2048,rsize=8"
        options += ["--vdev", f"net_memif{i},{values}"]
    options += ["--", "-p", "3", f"--config=(0,0,{cpu}),(1,0,{cpu})"]
    return _argv(program, directory, cpu, options, 1)


def alone(program: Path, directory: Path, cpu: int, pairs: int) -> float:
    """Million frames a second on @cpu, from @pairs ports to as many others, without a wire. The
    driver pcap gives it frames from memory, and the driver null takes them."""
    options = ["--file-prefix", "l3fwd"]
    for i in range(pairs):
        path = directory / f"{i}.pcap"
        write_pcap(path, [_frame(pairs, n) for n in range(FRAMES)])
        options += ["--vdev", f"net_pcap{i},rx_pcap={path},infinite_rx=1"]
    options += [word for i in range(pairs) for word in ("--vdev", f"net_null{i},size=64")]
    config = ",".join(f"({i},0,{cpu})" for i in range(pairs))
    options += ["--", "-p", hex((1 << 2 * pairs) - 1), f"--config={config}"]
    telemetry = directory / "dpdk/l3fwd/dpdk_telemetry.v2"
    argv = _argv(program, directory, cpu, options, pairs)
    with running(argv, [telemetry], cpu, directory):
        return _rate(telemetry, range(pairs, 2 * pairs))


def _frame(pairs: int, n: int) -> bytes:
    """Frame @n of devmem/router/load.c."""
    to = f"10.{n % pairs}.{n * 13 >> 8 & 255}.{n * 13 & 255}"
    packet = ipv4("23.9.9.9", to, bytes(30))
    return ethernet("02:00:00:00:00:01", "02:00:00:00:00:99", IP4, packet)


def _rate(telemetry: Path, ports: range) -> float:
    """The upper tenth of samples of the frames that @ports send, in millions a second."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as to:
        to.settimeout(10)
        to.connect(str(telemetry))
        to.recv(16384)  # its greeting

        def sent() -> int:
            total = 0
            for port in ports:
                to.send(f"/ethdev/stats,{port}".encode())
                stats = json.loads(to.recv(16384))["/ethdev/stats"]
                total += stats["opackets"] if stats else 0
            return total

        wait_until("frames of l3fwd", lambda: sent() > 0, 20)
        rates, frames, since = [], sent(), time.monotonic()
        for _ in range(SAMPLES):
            time.sleep(SAMPLE_S)  # the length of a sample
            more, now = sent(), time.monotonic()
            rates.append((more - frames) / (now - since) / 1e6)
            frames, since = more, now
    return sorted(rates)[-1 - SAMPLES // 10]
