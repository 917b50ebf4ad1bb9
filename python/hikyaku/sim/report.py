# SPDX-License-Identifier: BSD-3-Clause
"""The table of a simulation."""

from rich.console import Console

from ..bench.common.tables import left_titled, number, size_text


def duration(us: float) -> str:
    if us >= 1e6:
        return f"{us / 1e6:.3g} s"
    return f"{us / 1e3:.3g} ms" if us >= 1e3 else f"{us:.3g} µs"


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def described(result: dict) -> str:
    """One line that says which network was simulated."""
    mtu, buffer = result["frame"], size_text(result["buffer"])
    where = "leaves and spines" if result["topology"] == "leafspine" else "one network switch"
    hosts = f"{result['hosts']} hosts" + (" with real workers" if result["workers"] else "")
    return (
        f"{result['scenario']}: {hosts}, {result['rate_gbit']} Gb/s, "
        f"{mtu}-byte frames, {where}, {buffer} a port, seed {result['seed']}"
    )


def _end(result: dict) -> str:
    if not result["ended"]:
        return f"no: {number(result['undelivered'])} messages are missing"
    return f"after {duration(1e3 * result['last_delivery_ms'])}"


def lines(result: dict) -> list[tuple[str, str]]:
    """The names and values that this scenario has."""
    count = result["completions"]
    shown = []
    if "ideal_ms" in result:
        shown.append(("everything was delivered", _end(result)))
        shown.append(("the links alone need", duration(1e3 * result["ideal_ms"])))
    elif result["scenario"] not in ("idle", "pingpong"):
        shown.append(("simulated time", duration(1e3 * result["time_ms"])))
    if "exchange_us" in result:
        how = f"MPI, eager up to {size_text(result['eager'])}" if result["eager"] else "puts"
        shown += [
            (f"an exchange by {how} takes", duration(result["exchange_us"])),
            ("most bytes that a rank sends", number(result["bytes"])),
            ("  to neighbours, at most", str(result["neighbours"])),
        ]
    if result["scenario"] not in ("idle", "silent"):
        shown.append(("share of the links", percent(result["share"])))
    if len(result["flow_bytes"]) > 1:
        shown.append(("fairness (Jain)", f"{result['jain']:.3f}"))
    if "starved" in result:
        if len(result["flow_bytes"]) > 1:
            shown.append(("flows that completed nothing", str(result["starved"])))
        shown.append(("a fair share takes", duration(1e3 * result["fair_ms"])))
        shown.append(("oldest that is not complete", duration(1e3 * result["oldest_ms"])))
    name = "round trips" if result["scenario"] in ("idle", "pingpong") else "completions"
    shown.append((name, number(count)))
    if count:
        shown += [
            ("  median", duration(result["p50_us"])),
            ("  99th percentile", duration(result["p99_us"])),
            ("  longest", duration(result["max_us"])),
        ]
    shown += [
        ("queue of the busiest port", f"{number(result['queue_mean'])}B on average"),
        ("  longest", f"{number(result['queue_max'])}B"),
        ("  lost there", percent(result["loss"])),
        ("frames sent again", number(result["resends"])),
        ("timeouts", number(result["timeouts"])),
    ]
    optional = {
        "marked": "frames marked (ECN)",
        "lost_by_links": "frames lost by links",
        "no_rx_buffer": "lost without a receive buffer",
        "disconnects": "peers given up",
    }
    shown += [(text, number(result[key])) for key, text in optional.items() if result[key]]
    if "work_ratio" in result:
        shown += [
            ("blocks of code a round trip, alone", number(result["work_alone"])),
            ("  beside idle hosts", number(result["work_beside"])),
            ("  ratio", f"{result['work_ratio']:.3f}"),
        ]
    return shown


def show(result: dict, console: Console) -> None:
    table = left_titled(described(result))
    table.show_header = False
    table.add_column()
    table.add_column(justify="right")
    for line in lines(result):
        table.add_row(*line)
    console.print(table)
    if "classes" in result:
        sizes = left_titled("times as long as alone in the network, by size")
        for column in ("from", "to", "messages", "median", "99th percentile"):
            sizes.add_column(column, justify="right")
        for each in result["classes"]:
            slow = (each["slowdown_p50"], each["slowdown_p99"])
            bounds = (size_text(each["from"]), size_text(each["to"]))
            sizes.add_row(*bounds, number(each["messages"]), *map(number, slow))
        console.print(sizes)
