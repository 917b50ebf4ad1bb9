# SPDX-License-Identifier: BSD-3-Clause
"""The table in the terminal while nodes train."""

import math

from rich import box
from rich.table import Table


def short(value: float | None, digits: int = 4) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.{digits}g}"


def count(value: float) -> str:
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= limit:
            return f"{value / limit * (10 if limit == 1e4 else 1):.1f}{unit}"
    return f"{value:.0f}"


_WHY = {
    "bytes": "its messages are not those of hk_learn",
    "model": "it trains another model, or merges otherwise, or is another release",
    "not_finite": "its parameters were not finite",
    "far": "its parameters were far from the others'",
    "stale": "it was far behind in training",
}


class Board:
    """The last report of each node."""

    def __init__(self, nodes: int, title: str):
        self.title = title
        self.last: list[dict | None] = [None] * nodes
        self.before: list[dict | None] = [None] * nodes
        self.events: list[str] = []
        self.refused: dict[tuple[int, str], set[int]] = {}  # (peer, why): by whom

    def take(self, lines: list[dict]) -> None:
        for line in lines:
            node = line["node"]
            if line["event"] in ("progress", "end"):
                self.before[node], self.last[node] = self.last[node], line
            elif line["event"] == "refused":
                self.refused.setdefault((line["peer"], line["why"]), set()).add(node)
            elif line["event"] == "member" and not line["joined"] and not self.ended(node):
                self.note(f"node {node} lost node {line['peer']}")
            elif line["event"] == "absent":
                self.note(f"node {node} began without {line['nodes']}")

    def note(self, text: str) -> None:
        if text not in self.events:
            self.events.append(text)

    def notes(self) -> list[str]:
        """The notes for the user. A neighbour that is briefly far away or behind is normal."""
        found = list(self.events)
        for (peer, why), by in sorted(self.refused.items()):
            text = _WHY.get(why)
            usual = why in ("far", "stale")
            if text and not (usual and 2 * len(by) < len(self.last)) and len(self.last) > 2 * usual:
                found.append(f"node {peer} was refused by {len(by)}: {text}")
        return found

    def ended(self, node: int) -> bool:
        last = self.last[node]
        return last is not None and last["stop"] != "none"

    def _rate(self, node: int) -> float:
        last, before = self.last[node], self.before[node]
        if not last:
            return 0.0
        since = {"time": 0.0, "messages": 0}
        if before and last["state"] == "training" and before["messages"] < last["messages"]:
            since = before
        passed = last["time"] - since["time"]
        return (last["messages"] - since["messages"]) / passed if passed > 0 else 0.0

    def table(self) -> Table:
        said = [line for line in self.last if line]
        latest = max(said, key=lambda line: line["time"], default=None)
        table = Table(
            title=self.title,
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            caption=None
            if latest is None
            else f"{latest['time']:.1f} s, loss of all {short(latest['loss_all'], 6)}",
        )
        for name in ("node", "state", "epochs", "loss", "apart", "sent", "per s"):
            side = "left" if name == "state" else "right"
            table.add_column(name, justify=side, no_wrap=True)
        for name in ("drops", "rejects", "bytes"):
            table.add_column(name, justify="right", no_wrap=True)
        for node, line in enumerate(self.last):
            if line is None:
                table.add_row(str(node), "starting")
                continue
            table.add_row(
                str(node),
                line["state"],
                str(line["epochs"]),
                short(line["loss"], 5),
                short(line["consensus"], 2),
                count(line["messages"]),
                count(self._rate(node)),
                count(line["drops"]),
                count(line["rejects"]),
                count(line["bytes"]),
            )
        return table
