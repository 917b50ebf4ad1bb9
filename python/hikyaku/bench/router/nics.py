# SPDX-License-Identifier: BSD-3-Clause
"""Emulated NICs that route (hk_nic), in all variants.

The NICs' wire sides give and take frames themselves (devmem/nic/wire.h), because two cores would
not suffice for two NICs and a load. NICs that receive are one process on the first core, and those
that send are one on the second: they take turns of a round. Pktpit's host is a process on the
second core too, and there the two take turns when they have no work.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from ...checkout import built
from ...errors import HikyakuError
from ...process import option_words, run
from . import links

VARIANTS = ("wr", "rd", "bn", "pktpit")
BATCH = 8192  # frames, as in devmem/router/load.h
DELAYS = 4000  # frames, one at a time
LIMIT_S = 120


def routes(pairs: int, table: str = "") -> str:
    """The route file: 10.0.0.0/16 by port @pairs, 10.1.0.0/16 by the next one."""
    lines = []
    for i in range(pairs):
        out = pairs + i
        lines.append(f"neighbour 198.18.0.{2 + i} port {out} mac 02:00:00:00:01:{out:02x}")
        lines.append(f"route 10.{i}.0.0/16 via 198.18.0.{2 + i} port {out}")
    return "\n".join([*lines, table, ""])


def make_table(directory: Path, prefixes: int, pairs: int) -> Path:
    """A route file with a table as large as the Internet's, for Pktpit's host."""
    generate = [str(built("systems/devmem/router/hk_router"))]
    generate += option_words(generate=prefixes, hops=pairs)
    table = run(generate, timeout=60)
    if pairs > 1:  # the load is for 10.0.0.0/8, and each sender must get the same number
        lines = table.splitlines(keepends=True)
        table = "".join(line for line in lines if not line.startswith("10."))
    (directory / f"table{pairs}").write_text(table)
    path = directory / f"full{pairs}"
    path.write_text(routes(pairs, f"table table{pairs}"))
    return path


def _results(running: Sequence[subprocess.Popen]) -> list[dict]:
    """The documents that the processes print at their end. The first that fails ends all."""
    deadline = time.monotonic() + LIMIT_S
    try:
        said = []
        for each in running:
            out, errors = each.communicate(timeout=max(deadline - time.monotonic(), 0.1))
            if each.returncode:
                raise HikyakuError(errors.strip() or f"hk_nic ended with {each.returncode}")
            said += [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return said
    except subprocess.TimeoutExpired:
        raise HikyakuError(f"the emulated NICs did not end within {LIMIT_S} s") from None
    finally:
        for each in running:
            with suppress(ProcessLookupError):
                each.kill()
            each.communicate()


def run_variant(
    variant: str,
    pairs: int,
    cpus: list[int],
    *,
    frames: int,
    single: bool = False,
    prefixes: int = 0,
    full: Path | None = None,
) -> list[dict]:
    """@frames frames through each of @pairs NICs, or one at a time (@single). The documents of all
    processes: the NICs that receive, those that send, and the host. @full: the host's route file,
    with @prefixes."""
    host = variant == "pktpit"
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="hikyaku-nics-", dir=memory) as name:
        own = Path(name) / "routes"
        own.write_text(routes(pairs))
        program = str(built("systems/devmem/nic/hk_nic"))
        base = option_words(variant=variant, nics=2 * pairs, dir=name, wait=60_000)
        load = option_words(single=single, networks=pairs)
        receive = {"routes": own, "frames": frames, "id": list(range(pairs))}
        if host and pairs == 1:
            receive["prefixes"] = prefixes
        send = {"routes": own, "expect": frames, "id": list(range(pairs, 2 * pairs))}
        words = [option_words(**receive) + load]
        words.append(option_words(**send, **{"yield": host}) + load)
        if host:
            words.append(option_words(host=True, routes=full or own, **{"yield": True}))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running = []
        try:
            for i, each in enumerate(words):
                pin = ["taskset", "-c", str(cpus[min(i, 1)])]
                running.append(subprocess.Popen([*pin, program, *base, *each], **pipes))
        except BaseException:
            for each in running:
                each.kill()
                each.communicate()
            raise
        return _results(running)


def rate(processes: list[dict], pairs: int) -> float:
    """Million frames a second of all that send: the upper tenth of batches, as for other routers.
    Those that send take turns of a burst, so a batch of one is as long as a batch of each."""
    return sum(each["rate"]["upper"] for each in processes[pairs : 2 * pairs])


def summary(variant: str, pairs: int, rates: list[list[dict]], delays: list[list[dict]]) -> dict:
    """The row of a variant, from the documents of its runs."""

    def busy(first: int, end: int) -> float | None:
        found = [p["busy_ns"] for each in rates for p in each[first:end]]
        known = [ns for ns in found if ns is not None]
        return median(known) if known else None

    row = {
        "variant": variant,
        "pairs": pairs,
        "rate": median(rate(each, pairs) for each in rates),
        "rates": [rate(each, pairs) for each in rates],
        "receiver_ns": busy(0, pairs),
        "sender_ns": busy(pairs, 2 * pairs),
        "host_ns": busy(2 * pairs, 2 * pairs + 1) if variant == "pktpit" else 0.0,
        "links": links.rows(rates[0]),
        "transfers": [each["transfers"] for each in rates[0]],
    }
    for name in ("p50_us", "p99_us"):
        found = [each[1]["delay"][name] for each in delays]
        row[name] = median(found) if found else None
    return row
