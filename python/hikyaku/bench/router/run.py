# SPDX-License-Identifier: BSD-3-Clause
"""bench router: hk_router and DPDK's own L3 example, in turn on the same memif wires.

The example's source comes with Debian's dpdk-doc. It is built for each measurement, with one
change: without receive checksum offload, since it would not start on memif. It checks neither
checksums nor source addresses. DPDK's software parser tells it packet types, since memif does not.
"""

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from ...checkout import built
from ...errors import HikyakuError
from ...process import option_words, run, stop, wait_until
from . import report

ROUTES = """port 0 mac 02:00:00:00:00:01
neighbour 198.18.1.2 port 1 mac 02:00:00:00:01:99
route 10.0.0.0/16 via 198.18.1.2 port 1
route 10.1.0.0/16 via 198.18.1.2 port 1
"""


def build_l3fwd(source: Path, directory: Path) -> Path:
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
def _running(argv: list[str], sockets: list[Path], cpu: int) -> Iterator[None]:
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            ["taskset", "-c", str(cpu), *argv], stdout=output, stderr=subprocess.STDOUT
        )
        try:
            wait_until(
                f"the sockets of {argv[0]}",
                lambda: child.poll() is not None or all(path.exists() for path in sockets),
                20,
            )
            if child.poll() is not None:
                output.seek(0)
                raise HikyakuError(f"{argv[0]} ended: {output.read().decode()[-2000:]}")
            yield
        finally:
            stop(child)
            for path in sockets:
                path.unlink(missing_ok=True)


def _l3fwd(program: Path, directory: Path, sockets: list[Path], cpu: int) -> list[str]:
    four, six = directory / "four", directory / "six"
    four.write_text("R10.0.0.0/16 1\nR10.1.0.0/16 1\n")
    six.write_text("R2001:0200:0000:0000:0000:0000:0000:0000/64 1\n")
    argv = [str(program), "--no-huge", "-m", "512", "-l", str(cpu), "--no-pci", "--no-shconf"]
    for i, path in enumerate(sockets):
        options = f"role=server,id=0,socket={path},socket-abstract=no,bsize=2048,rsize=8"
        argv += ["--vdev", f"net_memif{i},{options}"]
    argv += ["--", "-p", "3", "-P", "--parse-ptype", f"--config=(0,0,{cpu}),(1,0,{cpu})"]
    argv += [f"--rule_ipv4={four}", f"--rule_ipv6={six}", "--eth-dest=1,02:00:00:00:01:99"]
    return argv


def measure(source: Path, repeats: int, batches: int) -> dict:
    """Measures both in turn: rates in million frames a second, and our share of the example's."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise HikyakuError("the load generator and the router need one CPU each", "allow two CPUs")
    rows: dict[str, list[dict]] = {"l3fwd": [], "bounce": []}
    with tempfile.TemporaryDirectory(prefix="hikyaku-bench-") as name:
        directory = Path(name)
        (directory / "routes").write_text(ROUTES)
        l3fwd = build_l3fwd(source, directory)
        sockets = [directory / "0.sock", directory / "1.sock"]
        server, client = (
            [f"memif:socket={path},role={role},frame=2048" for path in sockets]
            for role in ("server", "client")
        )
        ours = [str(built("systems/devmem/router/hk_router"))]
        ours += option_words(spin=True, routes=directory / "routes", port=server)
        load = ["taskset", "-c", str(cpus[0]), str(built("bench/router_load"))]
        load += ["--in", client[0], *option_words(out=client[1], batches=batches)]
        for _ in range(repeats):
            theirs = _l3fwd(l3fwd, directory, sockets, cpus[1])
            for router, argv in {"l3fwd": theirs, "bounce": ours}.items():
                with _running(argv, sockets, cpus[1]):
                    rows[router].append(json.loads(run(load, timeout=120)))
        fib_bench = ["taskset", "-c", str(cpus[1]), str(built("bench/fib_bench"))]
        table = json.loads(run(fib_bench, timeout=300))
    best = {who: median(row["upper"] for row in each) for who, each in rows.items()}
    return {
        "goals": report.judge(best, table),
        "fib": table,
        "unit": "million frames/s",
        "frame": 64,
        "wire": "memif",
        **best,
        "share": best["bounce"] / best["l3fwd"],
        "refused": {who: median(row["refused"] for row in each) for who, each in rows.items()},
        "runs": rows,
    }
