# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku learn`: trains a model on several nodes, and writes the result."""

import math
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape

from ..process import option_words
from .bench.common import check_output
from .options import ExistingFile, lab_option, seed_option

if TYPE_CHECKING:
    from ..learn import job
    from ..learn.data import Data
    from ..learn.live import Board

NODES_MAX = 1024  # HK_RTC_MAX_NODES of hikyaku/rtc.h


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="CSV, svmlight (.svm) or .npy.  [default: an included sample]",
)
@click.option(
    "--target",
    metavar="COLUMN",
    help="Column to predict: its name, or its number from 1.  [default: the last]",
)
@click.option(
    "--task",
    type=click.Choice(["auto", "regression", "classification"]),
    default="auto",
    help="auto: text, or at most 20 different integers, are classes.",
)
@click.option(
    "--model",
    "kind",
    type=click.Choice(["linear", "logistic", "svm", "mlp"]),
    default="linear",
    help="mlp: one hidden layer.",
)
@click.option("--hidden", type=click.IntRange(1, 4096), default=16, help="Hidden units of the mlp.")
@click.option(
    "--l2",
    type=click.FloatRange(min=0),
    default=1e-4,
    help="Penalty: l2/2 times the sum of the squared weights.",
)
@click.option("--hinge", is_flag=True, help="svm: the plain hinge, not its square.")
@click.option(
    "--nodes",
    type=click.IntRange(1, NODES_MAX),
    default=2,
    help="Number of nodes; the seed assigns each its share of the rows.",
)
@click.option(
    "--topology",
    type=click.Choice(["all", "ring", "random", "exponential", "file"]),
    default="all",
    help="Neighbours of each node.",
)
@click.option(
    "--topology-file",
    type=ExistingFile(),
    metavar="FILE",
    help="Lines 'NODE NEIGHBOUR NEIGHBOUR …', for --topology file.",
)
@click.option(
    "--degree", type=click.IntRange(1), default=2, help="Neighbours of a node in topology random."
)
@click.option(
    "--merge",
    type=click.Choice(["mean", "age", "trimmed", "push-sum"]),
    default="mean",
    help="How nodes merge parameters; see above.",
)
@click.option(
    "--backend",
    type=click.Choice(["dpdk", "af_xdp", "raw", "udp", "tcp", "tcp:batch=1"]),
    help="Backend of the messages.  [default: the lab's wire, or udp where nodes lack ports]",
)
@click.option(
    "--protection",
    type=click.Choice(["auto", "off", "auth", "seal"]),
    default="auto",
    help="Of messages. auth: against forged ones; seal: encrypted, too. auto: auth, except on "
    "memif wires.",
)
@click.option(
    "--secret",
    type=ExistingFile(),
    metavar="FILE",
    help="With --launch: the secret of the job, beside the launcher's keys (docs/rtc.md).",
)
@click.option(
    "--target-loss",
    type=float,
    metavar="L",
    help="Stop when the loss of all nodes is at most L.  [default: when it no longer falls]",
)
@seed_option("Seed of the shares, the order of rows, the first parameters and the neighbours.")
@click.option("--batch", type=click.IntRange(1), default=16, help="Rows of a batch.")
@click.option(
    "--gossip-every",
    type=click.IntRange(0),
    default=4,
    help="Batches between two messages to a neighbour; 0: no messages.",
)
@click.option(
    "--schedule",
    type=click.Choice(["plateau", "inverse", "constant"]),
    default="plateau",
    help="Step of SGD. plateau: halved when the loss stops falling. inverse: falls as 1/t.",
)
@click.option(
    "--trim",
    type=click.FloatRange(0, 0.5, max_open=True),
    default=0.2,
    help="trimmed: share of the neighbours' values dropped at either end.",
)
@click.option(
    "--norm-limit",
    type=click.FloatRange(min=0),
    default=8.0,
    help="Refuse parameters that are this many times further away than usual; 0: refuse none.",
)
@click.option("--max-epochs", type=click.IntRange(1), default=10000, help="Limit of each node.")
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    help="Time limit of the training.",
)
@click.option(
    "--fault",
    metavar="LIST",
    help="Nodes that send wrong parameters, for tests: NODE:nan or NODE:outlier=LENGTH, …",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("out/learn"),
    metavar="DIR",
    help="Directory for model.npz, learn.jsonl and learn.png.",
)
@click.option(
    "--shards",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Do not train: write the nodes' rows to DIR, and print the command that each node runs.",
)
@lab_option("The lab; if it is not up, the training brings one up.", parameter="lab_name")
@click.option(
    "--launch",
    metavar="COMMAND",
    help="On a cluster: the command that starts the nodes, such as "
    "'srun -n 4' or 'mpirun -np 4'. All nodes must see DIR.",
)
@click.option(
    "--address",
    metavar="WHERE",
    help="With --launch or --shards: port spec, interface or IP address.",
)
def learn(**given: object) -> None:
    """Train a model on several nodes that gossip.

    Each node trains on its own rows and sometimes sends its parameters to a neighbour. There is no
    server. Training goes on if messages are lost, or if nodes send wrong parameters, crash or
    restart (docs/learn.md).

    Rows are standardised first. The loss includes the penalty. It is half the squared error of the
    standardised target (linear, mlp), log loss (logistic, mlp with classes) or squared hinge (svm).

    \b
    How nodes merge parameters (--merge):
      mean      the mean of the node's parameters and its neighbour's
      age       a mean weighted by the number of rows that each has trained on
      trimmed   the mean of several neighbours without the extremes, against wrong parameters
      push-sum  a mean by weights with a constant sum, also under loss: for one-way topologies

    Parameters that do not fit one frame are cut into slices. Each slice has its own message type
    and is merged separately. The limit is 200 slices: 35 600 parameters if a frame has 1500 bytes.

    \b
    Examples:
      hikyaku learn
      hikyaku learn --model logistic --nodes 4 --topology ring
      hikyaku learn --data houses.csv --target price --nodes 4 --backend udp
      hikyaku learn --nodes 8 --merge trimmed --fault 3:nan,5:outlier=50
      hikyaku learn --launch 'srun -n 16' --nodes 16 --backend dpdk --address pci:0000:3b:02.0
    """
    _learn(given)


def _options(o: dict) -> list[str]:
    """The options of hk_learn."""
    names = ("topology", "merge", "schedule", "batch", "trim", "degree", "gossip_every")
    names += ("norm_limit", "max_epochs", "target_loss", "fault", "protection")
    files = {name: o[name] and o[name].resolve() for name in ("topology_file", "secret")}
    return option_words(**{name: o[name] for name in names}, **files)


def _check_fault(text: str, nodes: int) -> None:
    """Checks the form before any node starts. The nodes check the lengths."""
    from ..errors import HikyakuError

    for each in text.split(","):
        match = re.fullmatch(r"(\d+):(nan|outlier=.+)", each.strip())
        if not match:
            raise HikyakuError(
                f"--fault: '{each}' is malformed",
                "write NODE:nan or NODE:outlier=LENGTH, such as 3:nan,5:outlier=50",
            )
        if int(match[1]) >= nodes:
            raise HikyakuError(f"--fault: there is no node {match[1]}", f"name 0 to {nodes - 1}")


_ADDRESSES = {
    "dpdk": "the port spec, such as --address pci:0000:3b:02.0",
    "af_xdp": "the interface, such as --address eth1",
    "raw": "the interface, such as --address eth1",
    "udp": "an interface or IP address, such as --address eth0",
    "tcp": "an interface or IP address, such as --address eth0",
}


def _check_launch(launcher: str, backend: str | None, address: str | None) -> None:
    """Checks that the nodes will have a backend and an address. They may also take both from the
    environment, which the launcher may set."""
    from ..errors import HikyakuError
    from ..lab.rtc import BACKEND, PREFIX

    def by_environment(name: str) -> bool:
        return bool(os.environ.get(name)) or name in launcher

    if not backend and not by_environment(BACKEND):
        raise HikyakuError(
            "--launch needs the backend of the messages and the address of each node",
            f"add --backend udp and {_ADDRESSES['udp']}",
        )
    name = (backend or os.environ.get(BACKEND, "")).partition(":")[0]
    known = address or by_environment(f"{PREFIX}ADDRESS_{name.upper()}")
    if name in _ADDRESSES and not known:
        raise HikyakuError(
            f"--launch with backend {name} needs the address of each node",
            f"add {_ADDRESSES[name]}",
        )


TRIMMED_MIN = 3  # neighbours, of systems/learn/gossip_take.c


def _neighbours(topology: str, nodes: int, degree: int) -> int:
    """The neighbours of a node; of topologies that are drawn or given, at most."""
    most = nodes - 1
    known = {"ring": min(2, most), "exponential": most.bit_length(), "random": min(degree, most)}
    return known.get(topology, most)


def _that_trims(topology: str, nodes: int, degree: int) -> str:
    """The options of the nearest job whose nodes have enough neighbours."""
    enough = TRIMMED_MIN + 1
    jobs = (
        (name, count, drawn)
        for name, drawn in ((topology, degree), (topology, enough), ("all", degree))
        for count in range(nodes, max(nodes, NODES_MAX) + 1)
        if _neighbours(name, count, drawn) >= TRIMMED_MIN
    )
    name, count, drawn = next(jobs)
    changes = {"topology": (topology, name), "degree": (degree, drawn), "nodes": (nodes, count)}
    return " ".join(f"--{option} {new}" for option, (old, new) in changes.items() if new != old)


def _too_few_to_trim(topology: str, nodes: int, degree: int = 2) -> str | None:
    """A note if a node with false parameters spoils the trimmed mean, or keeps nodes from it."""
    count = _neighbours(topology, nodes, degree)
    if count >= TRIMMED_MIN:
        return None
    of = "1 neighbour" if count == 1 else f"{count} neighbours"
    but = "is the mean" if count == 1 else "merges nothing if one of them is faulty"
    return (
        f"each node has {of}, so --merge trimmed {but}; fix: {_that_trims(topology, nodes, degree)}"
    )


def _board(o: dict, title: str) -> "Board":
    from ..learn.live import Board

    asked = o["merge"] == "trimmed"
    few = _too_few_to_trim(o["topology"], o["nodes"], o["degree"]) if asked else None
    board = Board(o["nodes"], title, trims=asked and few is None)
    if few:
        board.note(few)
    return board


def _data(o: dict) -> "Data":
    """The file of --data, or the sample for the model."""
    from ..learn import data, samples

    how = {"target": o["target"], "task": o["task"]}
    if o["data"]:
        return data.read(o["data"], **how)
    make = samples.classes if o["kind"] in ("logistic", "svm") else samples.line
    return data.from_csv(Path(f"{make.__name__}.csv"), make(), **how)


def _train(
    plan: "job.Plan", launch: Callable, out: Path, board: "Board", console: Console
) -> "job.Outcome":
    """Trains, and shows the table of @board meanwhile. @out: the parent of the nodes' files."""
    from rich.live import Live

    from ..learn import job

    try:
        with Live(board.table(), console=console, auto_refresh=False) as live:

            def show(lines: list[dict]) -> None:
                board.take(lines)
                for text in board.warnings():
                    console.print(f"note: {escape(text)}")
                live.update(board.table(), refresh=console.is_terminal)

            try:
                outcome = job.train(plan, launch, out, show)
            finally:
                live.transient = not any(board.last)  # no row says anything
            live.update(board.table(), refresh=True)
    finally:
        if not console.is_terminal and any(board.last):
            console.line()  # on a terminal Live adds it
    return outcome


def _check(o: dict) -> None:
    """Checks options that need each other, before any node starts."""
    from ..errors import HikyakuError

    if (o["topology"] == "file") != (o["topology_file"] is not None):
        raise HikyakuError(
            "--topology file needs --topology-file FILE, and the reverse", "give both, or neither"
        )
    if o["address"] and not (o["launch"] or o["shards"]):
        raise HikyakuError(
            "--address needs --launch or --shards; a lab has its own addresses",
            "leave out --address",
        )
    if o["launch"]:
        _check_launch(o["launch"], o["backend"], o["address"])
    if o["fault"]:
        _check_fault(o["fault"], o["nodes"])


def _learn(o: dict) -> None:
    from ..learn import job, result
    from ..learn.plot import draw

    _check(o)
    kind = o["kind"]
    plan = job.Plan(
        data=_data(o),
        hidden=o["hidden"] if kind == "mlp" else 0,
        options=_options(o),
        **{name: o[name] for name in ("kind", "nodes", "seed", "l2", "hinge", "max_seconds")},
    )
    job.check(plan)
    if o["shards"]:
        command = job.prepare(plan, o["shards"], o["backend"], o["address"])
        click.echo(f"wrote {o['shards']}/shard-0 to shard-{plan.nodes - 1}; each node runs")
        click.echo(shlex.join(command))
        return
    out: Path = o["out"]
    check_output(out / "model.npz", "name another place by --out DIR, where you may write")
    if o["launch"]:
        launch = job.by_command(o["launch"], backend=o["backend"], address=o["address"])
    else:
        launch = job.in_lab(plan.nodes, backend=o["backend"], lab_name=o["lab_name"])

    console = Console(emoji=False)
    title = f"{plan.data.name}: {kind}, {plan.nodes} nodes, {o['merge']} over {o['topology']}"
    board = _board(o, title)
    outcome = _train(plan, launch, out.resolve(), board, console)
    x, y = outcome.scaling.x(plan.data.x), outcome.scaling.y(plan.data.y)
    losses = [plan.model.loss(each, x, y) for each in outcome.w]
    node, among = result.best_node(losses, board.faulty())
    best_of = f"{among} that others accept" if among < plan.nodes else f"{among}"
    measure, value = result.quality(plan.model, outcome.w[node], outcome.scaling, plan.data)
    ends = [line for line in outcome.lines if line["event"] == "end"]
    start = next(line for line in outcome.lines if line["event"] == "start")
    seconds = max(line["time"] for line in ends)
    summary = {
        "event": "summary",
        "stop": ends[0]["stop"],
        "seconds": seconds,
        "node": node,
        "loss": losses[node],
        "losses": [each if math.isfinite(each) else None for each in losses],
        measure: value,
        **{name: sum(line[name] for line in ends) for name in _SUMS},
    }
    head = {"event": "job", **{k: str(v) if isinstance(v, Path) else v for k, v in o.items()}}
    data = plan.data
    head |= {"data": str(o["data"] or data.name), "rows": data.rows}
    head |= {"features": len(data.features), "classes": data.classes}
    target = math.nan if o["target_loss"] is None else o["target_loss"]
    result.write_log(out / "learn.jsonl", head, outcome.lines, summary)
    figure = draw(outcome.lines, plan.nodes, title=title, target=target, faulty=board.faulty())
    result.write_whole(out / "learn.png", figure.savefig)
    arrays = result.arrays(plan.model, outcome.w[node], outcome.scaling, data, losses[node])
    result.write_model(out / "model.npz", arrays)
    least = result.constant_loss(plan.model, x, y)
    loss = losses[node]  # perhaps NaN
    useless = [] if loss < result.HARDLY * least else [_useless(summary, loss, least, board)]
    for text in board.notes() + useless:
        console.print(f"note: {escape(text)}")
    why = _STOPS[summary["stop"]]
    if o["target_loss"] is not None and summary["stop"] != "target":
        why += f", and the target {o['target_loss']:g} is not reached"
    console.print(
        f"ended after {seconds:.2f} s: {why}\n"
        f"loss on all {plan.data.rows} rows {losses[node]:.6g} (node {node}'s model, the best of "
        f"{best_of}), {measure} {value:.4f}\n"
        f"sent {summary['messages']} messages, {summary['bytes'] / 1e6:.2f} MB, over "
        f"{start['backend']} with protection {start['protection']}; "
        f"{summary['drops']} dropped (later ones replace them), {summary['rejects']} refused\n"
        f"wrote {out / 'model.npz'}, {out / 'learn.jsonl'}, {out / 'learn.png'}"
    )


def _useless(summary: dict, loss: float, least: float, board: "Board") -> str:
    """A note that the model of @loss knows nothing. @least: the loss of the best constant."""
    fixes = {"time": "more time: --max-seconds", "epochs": "more epochs: --max-epochs"}
    fix = fixes.get(summary["stop"], "check --target and the columns, or try --model mlp")
    if not board.trims:
        trimmed = "--merge trimmed, with 4 nodes or more"
        fix = trimmed if board.faulty() else f"{trimmed}, if a node may be faulty; else {fix}"
    hardly = "hardly better" if loss <= least else "worse"
    return f"this model is {hardly} than the best constant, whose loss is {least:.6g}; fix: {fix}"


_SUMS = ("bytes", "messages", "drops", "rejects", "rows")
_STOPS = {
    "target": "the target loss is reached",
    "converged": "the loss no longer falls",
    "epochs": "the limit of epochs is reached",
    "time": "the time limit is reached",
    "asked": "it was asked to end",
    "none": "the last messages did not arrive",
}
