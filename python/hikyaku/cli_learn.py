# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku learn`: parses, trains, shows, writes."""

import math
import re
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

SAMPLES = Path(__file__).parent / "learn/samples"


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="CSV, svmlight (.svm) or .npy.  [default: a sample of our own]",
)
@click.option(
    "--target",
    metavar="COLUMN",
    help="What to predict: name, or number from 1.  [default: the last]",
)
@click.option(
    "--task",
    type=click.Choice(["auto", "regression", "classification"]),
    default="auto",
    show_default=True,
    help="auto: text, or at most 20 different whole numbers, are classes.",
)
@click.option(
    "--model",
    "kind",
    type=click.Choice(["linear", "logistic", "svm", "mlp"]),
    default="linear",
    show_default=True,
    help="mlp: one hidden layer.",
)
@click.option(
    "--hidden",
    type=click.IntRange(1, 4096),
    default=16,
    show_default=True,
    help="Hidden units of the mlp.",
)
@click.option(
    "--l2",
    type=click.FloatRange(min=0),
    default=1e-4,
    show_default=True,
    help="Penalty: l2/2 times the sum of squared weights.",
)
@click.option("--hinge", is_flag=True, help="svm: the plain hinge, not its square.")
@click.option(
    "--nodes",
    type=click.IntRange(1, 1024),
    default=2,
    show_default=True,
    help="How many train; each gets its share of the rows, drawn by the seed.",
)
@click.option(
    "--topology",
    type=click.Choice(["all", "ring", "random", "exponential", "file"]),
    default="all",
    show_default=True,
    help="Who is whose neighbour.",
)
@click.option(
    "--topology-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Lines 'NODE NEIGHBOUR NEIGHBOUR …', for --topology file.",
)
@click.option(
    "--degree",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Neighbours of a node in topology random.",
)
@click.option(
    "--merge",
    type=click.Choice(["mean", "age", "trimmed", "push-sum"]),
    default="mean",
    show_default=True,
    help="How parameters of neighbours meet; see above.",
)
@click.option(
    "--backend",
    type=click.Choice(["dpdk", "af_xdp", "raw", "udp", "tcp", "tcp:batch=1"]),
    help="What carries messages.  [default: the lab's own wire]",
)
@click.option(
    "--target-loss",
    type=float,
    metavar="L",
    help="Stop when the loss of all nodes is L.  [default: when it falls no more]",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Of shares, order of rows, start and neighbours.",
)
@click.option(
    "--batch", type=click.IntRange(1), default=16, show_default=True, help="Rows of a batch."
)
@click.option(
    "--gossip-every",
    type=click.IntRange(0),
    default=4,
    show_default=True,
    help="Batches between two messages to a neighbour; 0: never.",
)
@click.option(
    "--schedule",
    type=click.Choice(["plateau", "inverse", "constant"]),
    default="plateau",
    show_default=True,
    help="Of the step of SGD: halved when the loss stands still; falling as 1/t; or constant.",
)
@click.option(
    "--trim",
    type=click.FloatRange(0, 0.5, max_open=True),
    default=0.2,
    show_default=True,
    help="trimmed: share of neighbours dropped at either end.",
)
@click.option(
    "--norm-limit",
    type=click.FloatRange(min=0),
    default=8.0,
    show_default=True,
    help="Parameters so many times further away than usual are refused; 0: none are.",
)
@click.option(
    "--max-epochs", type=click.IntRange(1), default=10000, show_default=True, help="Of each node."
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    help="Training ends then at the latest.",
)
@click.option(
    "--fault",
    metavar="LIST",
    help="Nodes that lie, to see the others cope: NODE:nan or NODE:outlier=LENGTH, by commas.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("out/learn"),
    show_default=True,
    metavar="DIR",
    help="Where model.npz, learn.jsonl and learn.png go.",
)
@click.option(
    "--lab",
    "lab_name",
    default="default",
    show_default=True,
    envvar="HIKYAKU_LAB",
    metavar="NAME",
    help="In which lab; one is brought up for the training if it is not up.",
)
@click.option(
    "--launch",
    metavar="COMMAND",
    help="On a cluster, no lab: what starts the nodes, as "
    "'srun -n 4' or 'mpirun -np 4'. All of them must see DIR.",
)
@click.option(
    "--address", metavar="WHERE", help="With --launch: port spec, interface or IP address."
)
def learn(**given: object) -> None:
    """Train a model on several nodes that gossip.

    Each node trains on its own rows, and now and then sends its parameters to a neighbour. There is
    no server and no message that must arrive; nodes may lose frames, lie, crash and come back
    (docs/learn.md).

    Rows are standardised first. The loss is half the squared error of the standardised target
    (linear, mlp), log loss (logistic, mlp with classes) or squared hinge (svm), and the penalty.

    \b
    How parameters meet (--merge):
      mean      half mine, half the neighbour's
      age       by how many rows stand behind each
      trimmed   of several neighbours, number by number, without the extremes: for nodes that lie
      push-sum  by weights whose sum stays, whatever is lost: for topologies of one way

    Parameters that do not fit a frame are cut into slices, each a message type of its own that is
    merged by itself; more than 200 slices are refused (a frame of 1500 bytes holds 178 parameters,
    so 35 600).

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
    """hk_learn's words."""
    words = []
    for name in ("topology", "merge", "schedule", "batch", "trim", "degree"):
        words += [f"--{name}", str(o[name])]
    for name in ("gossip_every", "norm_limit", "max_epochs"):
        words += [f"--{name.replace('_', '-')}", str(o[name])]
    for name in ("target_loss", "fault"):
        if o[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(o[name])]
    if o["topology_file"]:
        words += ["--topology-file", str(o["topology_file"].resolve())]
    return words


def _check_fault(text: str, nodes: int) -> None:
    """The form, before anything is started; lengths are looked at by the nodes themselves."""
    from .errors import HikyakuError

    for each in text.split(","):
        match = re.fullmatch(r"(\d+):(nan|outlier=.+)", each.strip())
        if not match:
            raise HikyakuError(f"--fault: '{each}' is not understood", "as in 3:nan,5:outlier=50")
        if int(match[1]) >= nodes:
            raise HikyakuError(f"--fault: there is no node {match[1]}", f"name 0 to {nodes - 1}")


def _learn(o: dict) -> None:
    from rich.live import Live

    from .errors import HikyakuError
    from .learn import data, job, result
    from .learn.live import Board

    if (o["topology"] == "file") != (o["topology_file"] is not None):
        raise HikyakuError(
            "--topology file and --topology-file FILE belong together", "give both, or neither"
        )
    if o["address"] and not o["launch"]:
        raise HikyakuError(
            "--address is for --launch; a lab has addresses of its own", "leave out --address"
        )
    if o["fault"]:
        _check_fault(o["fault"], o["nodes"])
    kind = o["kind"]
    path = o["data"]
    if path is None:
        path = SAMPLES / ("classes.csv" if kind in ("logistic", "svm") else "line.csv")
    plan = job.Plan(
        data=data.read(path, target=o["target"], task=o["task"]),
        kind=kind,
        nodes=o["nodes"],
        seed=o["seed"],
        l2=o["l2"],
        hidden=o["hidden"] if kind == "mlp" else 0,
        hinge=o["hinge"],
        options=_options(o),
        max_seconds=o["max_seconds"],
    )
    job.check(plan)
    out: Path = o["out"]
    out.mkdir(parents=True, exist_ok=True)
    if o["launch"]:
        launch = job.by_command(o["launch"], backend=o["backend"], address=o["address"])
    else:
        launch = job.in_lab(plan.nodes, backend=o["backend"], lab_name=o["lab_name"])

    console = Console()
    title = f"{plan.data.name}: {kind}, {plan.nodes} nodes, {o['merge']} over {o['topology']}"
    board = Board(plan.nodes, title)
    with Live(board.table(), console=console, auto_refresh=False) as live:

        def show(lines: list[dict]) -> None:
            board.take(lines)
            live.update(board.table(), refresh=console.is_terminal)

        outcome = job.train(plan, launch, out.resolve(), show)
        live.update(board.table(), refresh=True)
    if not console.is_terminal:
        console.line()  # which Live adds on a terminal alone

    x, y = outcome.scaling.x(plan.data.x), outcome.scaling.y(plan.data.y)
    node, losses = result.best_node(plan.model, outcome.w, x, y)
    measure, value = result.quality(plan.model, outcome.w[node], outcome.scaling, plan.data)
    ends = [line for line in outcome.lines if line["event"] == "end"]
    seconds = max(line["time"] for line in ends)
    summary = {
        "event": "summary",
        "stop": ends[0]["stop"],
        "seconds": seconds,
        "node": node,
        "loss": losses[node],
        "losses": [each if math.isfinite(each) else None for each in losses],
        measure: value,
        "bytes": sum(line["bytes"] for line in ends),
        "messages": sum(line["messages"] for line in ends),
        "drops": sum(line["drops"] for line in ends),
        "rejects": sum(line["rejects"] for line in ends),
        "rows": sum(line["rows"] for line in ends),
    }
    head = {"event": "job", **{k: str(v) if isinstance(v, Path) else v for k, v in o.items()}}
    head |= {"data": str(path), "rows": plan.data.rows, "features": len(plan.data.features)}
    head["classes"] = plan.data.classes
    target = math.nan if o["target_loss"] is None else o["target_loss"]
    result.write_log(out / "learn.jsonl", head, outcome.lines, summary)
    result.write_plot(out / "learn.png", outcome.lines, plan.nodes, title=title, target=target)
    result.write_model(
        out / "model.npz",
        result.arrays(plan.model, outcome.w[node], outcome.scaling, plan.data, losses[node]),
    )
    for text in board.notes():
        console.print(f"note: {escape(text)}")
    console.print(
        f"ended after {seconds:.2f} s: {_STOPS[summary['stop']]}\n"
        f"loss on all {plan.data.rows} rows {losses[node]:.6g} (node {node}'s model, the best of "
        f"{plan.nodes}), {measure} {value:.4f}\n"
        f"sent {summary['messages']} messages, {summary['bytes'] / 1e6:.2f} MB; "
        f"{summary['drops']} dropped, {summary['rejects']} refused\n"
        f"wrote {out / 'model.npz'}, {out / 'learn.jsonl'}, {out / 'learn.png'}"
    )


_STOPS = {
    "target": "the target loss is reached",
    "converged": "the loss falls no more",
    "epochs": "all epochs are used up",
    "time": "the time is used up",
    "asked": "it was asked to end",
    "none": "the last messages did not arrive",
}
