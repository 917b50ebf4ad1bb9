# SPDX-License-Identifier: BSD-3-Clause
"""bench router: hk_router against DPDK's own L3 example, on the same memif wires, in turns.

The example's source comes with Debian's dpdk-doc. It is built where the measurement runs, with one
change, without which it does not start on memif: no receive checksum offload. It does not look at
checksums nor at source addresses, and is told packet types by DPDK's software parser, as memif has
none.
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

from ..checkout import built
from ..errors import HikyakuError
from ..process import run, wait_until
from . import goals

EXAMPLE = Path("/usr/share/dpdk/examples/l3fwd")
ROUTES = """port 0 mac 02:00:00:00:00:01
neighbour 198.18.1.2 port 1 mac 02:00:00:00:01:99
route 10.0.0.0/16 via 198.18.1.2 port 1
route 10.1.0.0/16 via 198.18.1.2 port 1
"""


def build_l3fwd(source: Path, directory: Path) -> Path:
    """The example, built in @directory."""
    if not (source / "main.c").exists():
        raise HikyakuError(
            f"DPDK's L3 example is not at {source}",
            "apt-get install dpdk-doc, or say where it is by --l3fwd",
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
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            ["taskset", "-c", str(cpu), *argv], stdout=said, stderr=subprocess.STDOUT
        )
        try:
            wait_until(
                f"the sockets of {argv[0]}",
                lambda: child.poll() is not None or all(path.exists() for path in sockets),
                20,
            )
            if child.poll() is not None:
                said.seek(0)
                raise HikyakuError(f"{argv[0]} ended: {said.read().decode()[-2000:]}")
            yield
        finally:
            child.terminate()
            try:
                child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
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


def judge(best: dict[str, float], table: dict) -> list[dict]:
    """What is asked of the router, and of a table of a million prefixes (fib_bench)."""
    lookups = min(table[kind]["mlps"] for kind in ("any_address", "routed_address"))
    load = max(table[form]["load_s"] for form in ("text", "mrt"))
    update = max(each["worst"] for each in table["update_us"].values())
    asked = (
        ("bounce, times l3fwd", best["bounce"] / best["l3fwd"], "≥", 0.8),
        ("lookups, million a second", lookups, "≥", 30),
        ("a million prefixes are loaded, seconds", load, "<", 3),
        ("the slowest update, µs", update, "<", 1000),
    )
    return [goals.judged({"goal": goal}, *rest) for goal, *rest in asked]


def measure(source: Path, repeats: int, batches: int) -> dict:
    """Both in turns: rates in million frames a second, and ours as a share of the example's."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise HikyakuError("one CPU: the load and the router need one each", "allow it two CPUs")
    rows: dict[str, list[dict]] = {"l3fwd": [], "bounce": []}
    with tempfile.TemporaryDirectory(prefix="hikyaku-bench-") as name:
        directory = Path(name)
        (directory / "routes").write_text(ROUTES)
        l3fwd = build_l3fwd(source, directory)
        sockets = [directory / "0.sock", directory / "1.sock"]
        ours = [str(built("p2p/router/hk_router")), "--spin", "--routes", f"{directory}/routes"]
        for path in sockets:
            ours += ["--port", f"memif:socket={path},role=server,frame=2048"]
        load = ["taskset", "-c", str(cpus[0]), str(built("bench/router_load"))]
        load += ["--in", f"memif:socket={sockets[0]},role=client,frame=2048"]
        load += ["--out", f"memif:socket={sockets[1]},role=client,frame=2048"]
        load += ["--batches", str(batches)]
        for _ in range(repeats):
            theirs = _l3fwd(l3fwd, directory, sockets, cpus[1])
            for who, argv in {"l3fwd": theirs, "bounce": ours}.items():
                with _running(argv, sockets, cpus[1]):
                    rows[who].append(json.loads(run(load, timeout=120)))
        table = json.loads(
            run(["taskset", "-c", str(cpus[1]), str(built("bench/fib_bench"))], timeout=300)
        )
    best = {who: median(row["upper"] for row in each) for who, each in rows.items()}
    return {
        "goals": judge(best, table),
        "fib": table,
        "unit": "million frames/s",
        "frame": 64,
        "wire": "memif",
        **best,
        "share": best["bounce"] / best["l3fwd"],
        "refused": {who: median(row["refused"] for row in each) for who, each in rows.items()},
        "runs": rows,
    }
