# SPDX-License-Identifier: BSD-3-Clause
"""bench router: routers of the CPU and of emulated NICs, in turn.

hk_router and DPDK's L3 example forward on the same memif wires. The NICs (nics.py) have no wires,
so the example is also measured without (l3fwd.py).
"""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from ...checkout import built
from ...errors import HikyakuError
from ...process import option_words, run
from ..common.machine import describe
from . import l3fwd, nics, report

ROUTES = """port 0 mac 02:00:00:00:00:01
neighbour 198.18.1.2 port 1 mac 02:00:00:00:01:99
route 10.0.0.0/16 via 198.18.1.2 port 1
route 10.1.0.0/16 via 198.18.1.2 port 1
"""
PAIRS = (1, 2)

Progress = Callable[[str, int, int], None]


def _cpu_routers(
    program: Path, directory: Path, cpus: list[int], batches: int
) -> dict[str, dict[str, dict]]:
    """One run of each router of the CPU on memif wires: its rate and delays by router."""
    sockets = [directory / "0.sock", directory / "1.sock"]
    server, client = (
        [f"memif:socket={path},role={role},frame=2048" for path in sockets]
        for role in ("server", "client")
    )
    ours = [str(built("systems/devmem/router/hk_router"))]
    ours += option_words(spin=True, routes=directory / "routes", port=server)
    load = ["taskset", "-c", str(cpus[0]), str(built("bench/router_load"))]
    load += ["--in", client[0], "--out", client[1]]
    found: dict[str, dict[str, dict]] = {}
    theirs = l3fwd.on_memif(program, directory, sockets, cpus[1])
    for router, argv in {"l3fwd": theirs, "bounce": ours}.items():
        found[router] = {}
        for kind, options in {"rate": {"batches": batches}, "delay": {"delays": 2000}}.items():
            with l3fwd.running(argv, sockets, cpus[1]):
                said = run([*load, *option_words(**options)], timeout=120)
                found[router][kind] = json.loads(said)
    return found


def measure(source: Path, repeats: int, batches: int, prefixes: int, progress: Progress) -> dict:
    """Measures all in turn: rates in million frames a second, and shares of the example's."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise HikyakuError("the load generator and the router need one CPU each", "allow two CPUs")
    about = describe()
    rows: dict[str, list[dict]] = {"l3fwd": [], "bounce": []}
    delays: dict[str, list[dict]] = {"l3fwd": [], "bounce": []}
    alone: dict[int, list[float]] = {pairs: [] for pairs in PAIRS}
    cases = [(variant, pairs) for pairs in PAIRS for variant in nics.VARIANTS]
    rates: dict = {case: [] for case in cases}
    lone: dict = {case: [] for case in cases}  # frames one at a time
    with tempfile.TemporaryDirectory(prefix="hikyaku-bench-") as name:
        directory = Path(name)
        (directory / "routes").write_text(ROUTES)
        program = l3fwd.build(source, directory)
        full = {pairs: nics.make_table(directory, prefixes, pairs) for pairs in PAIRS}
        for repeat in range(repeats):
            progress(f"routers of the CPU, repeat {repeat + 1}", repeat, repeats + 1)
            for router, each in _cpu_routers(program, directory, cpus, batches).items():
                rows[router].append(each["rate"])
                delays[router].append(each["delay"])
            for pairs in PAIRS:
                alone[pairs].append(l3fwd.alone(program, directory, cpus[1], pairs))
            progress(f"emulated NICs, repeat {repeat + 1}", repeat, repeats + 1)
            for variant, pairs in cases:
                table = {"prefixes": prefixes, "full": full[pairs]}
                frames = batches * nics.BATCH
                rates[variant, pairs].append(
                    nics.run_variant(variant, pairs, cpus, frames=frames, **table)
                )
                if pairs == 1:
                    one = {"frames": nics.DELAYS, "single": True}
                    lone[variant, pairs].append(nics.run_variant(variant, 1, cpus, **one, **table))
        progress("table", repeats, repeats + 1)
        fib_bench = ["taskset", "-c", str(cpus[1]), str(built("bench/fib_bench"))]
        table = json.loads(run(fib_bench, timeout=300))
    best = {who: median(row["upper"] for row in each) for who, each in rows.items()}
    result = {
        "machine": about,
        "fib": table,
        "unit": "million frames/s",
        "frame": 64,
        "wire": "memif",
        **best,
        "share": best["bounce"] / best["l3fwd"],
        "refused": {who: median(row["refused"] for row in each) for who, each in rows.items()},
        "delay": {
            who: {q: median(row[q] for row in each) for q in ("p50_us", "p99_us")}
            for who, each in delays.items()
        },
        "l3fwd_alone": {str(pairs): median(each) for pairs, each in alone.items()},
        "prefixes": prefixes,
        "nics": [nics.summary(*case, rates[case], lone[case]) for case in cases],
        "runs": {**rows, "l3fwd_alone": alone},
    }
    return {"goals": report.judge(result), **result}
