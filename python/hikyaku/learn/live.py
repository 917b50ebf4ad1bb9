# SPDX-License-Identifier: BSD-3-Clause
"""The table in the terminal while nodes train."""

import math

from rich import box
from rich.table import Table

from ..bench.common.tables import number


def short(value: float | None, digits: int = 4) -> str:
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.{digits}g}"


_WHY = {
    "bytes": "these are not messages of hk_learn",
    "model": "it trains another model, or merges otherwise, or is another release",
    "not_finite": "its parameters are not finite",
}
_JUDGED_MIN = 5  # a node must have refused more slices than that to judge its peer
_WARN_AFTER = 2.0  # seconds
_JUDGED_ALL = 20  # all judges together, more than that


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


class Board:
    """The last report of each node."""

    def __init__(self, nodes: int, title: str, *, trims: bool = False):
        """@trims: nodes leave out the parameters that are farthest from the others'."""
        self.title = title
        self.trims = trims
        self.last: list[dict | None] = [None] * nodes
        self.before: list[dict | None] = [None] * nodes
        self.events: list[str] = []
        self.lost: dict[tuple[int, int], float] = {}  # (node, the peer that it lost): when
        self.refused: dict[tuple[int, str], set[int]] = {}  # (peer, why): by whom
        self.judged: dict[int, dict[int, tuple[int, int]]] = {}  # peer: by: (taken, false)
        self.now = 0.0  # the latest time of a line
        self.since: dict[int, float] = {}  # when a node became one of faulty()
        self.warned: set[int] = set()

    def take(self, lines: list[dict]) -> None:
        for line in lines:
            node = line["node"]
            self.now = max(self.now, line.get("time") or 0.0)
            if line["event"] in ("progress", "end"):
                self.before[node], self.last[node] = self.last[node], line
            elif line["event"] == "refused":
                self.refused.setdefault((line["peer"], line["why"]), set()).add(node)
            elif line["event"] == "judged":
                self.judged.setdefault(line["peer"], {})[node] = line["taken"], line["false"]
            elif line["event"] == "member" and not line["joined"] and not line["left"]:
                if not self.ended(node):
                    self.lost.setdefault((node, line["peer"]), line["time"] or 0.0)
            elif line["event"] == "absent":
                self.note(f"node {node} began without {line['nodes']}")

    def note(self, text: str) -> None:
        if text not in self.events:
            self.events.append(text)

    def notes(self) -> list[str]:
        """The notes for the user. A neighbour that is far away or behind for a while is normal."""
        found = list(self.events)
        for (node, peer), when in sorted(self.lost.items()):
            # the message by which a node leaves may be lost, too
            if not (self.ended(peer) and when >= (self.last[peer]["time"] or 0.0)):
                found.append(f"node {node} lost node {peer}")
        for (peer, why), by in sorted(self.refused.items()):
            if text := _WHY.get(why):
                found.append(f"{_nodes(len(by))} refused messages of node {peer}: {text}")
        return found + self.liars()

    def _against(self, peer: int) -> list[tuple[int, int]]:
        """The slices taken and refused, for each node that refused two thirds of @peer's slices. A
        node that gets little of the processor may be so late that others refuse half of them."""
        return [
            (taken, false)
            for taken, false in self.judged.get(peer, {}).values()
            if false > max(2 * taken, _JUDGED_MIN)
        ]

    def faulty(self) -> list[int]:
        """The nodes whose parameters most others refused most of the time. A node that is wrong
        refuses everybody, so one judge among many says nothing."""
        others = len(self.last) - 1
        return [
            peer
            for peer in sorted(self.judged)
            if 2 * len(against := self._against(peer)) > others
            and sum(false for _, false in against) > _JUDGED_ALL
        ]

    def _about(self, peer: int, *, running: bool = False) -> str:
        """A sentence for a node of faulty(). @running: the training goes on."""
        against = self._against(peer)
        refused, came = sum(f for _, f in against), sum(t + f for t, f in against)
        share = f"{100 * refused // came}%"  # rounded down: 100 % only if all were refused
        refuse, sent, ending = ("refuse", "sends", "s") if running else ("refused", "sent", "")
        if len(self.last) == 2:
            text = f"node {1 - peer} {refuse}{ending} {share} of node {peer}'s slices: one of the "
            text += "two has false parameters"
        else:
            text = f"node {peer} {sent} false parameters: {len(against)} of "
            text += f"{len(self.last) - 1} other nodes {refuse} {share} of its slices"
            if not self.trims and any(taken for taken, _ in self.judged[peer].values()):
                text += "; to keep them out of the model: --merge trimmed, with 4 nodes or more"
        return f"{text}; Ctrl-C ends this run" if running and not self.trims else text

    def liars(self) -> list[str]:
        """A sentence for each node of faulty()."""
        return [self._about(peer) for peer in self.faulty()]

    def warnings(self) -> list[str]:
        """The sentences to print now, while nodes train: each node that has been one of faulty()
        for a while is named once."""
        faulty = self.faulty()
        self.since = {peer: self.since.get(peer, self.now) for peer in faulty}
        due = [
            peer
            for peer, since in self.since.items()
            if self.now - since >= _WARN_AFTER and peer not in self.warned
        ]
        self.warned.update(due)
        return [self._about(peer, running=True) for peer in due]

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

    def _caption(self) -> str | None:
        """The agreed loss that some node saw last; at the end, the one that it decided by."""
        said = [line for line in self.last if line]
        if not said:
            return None
        latest = max(said, key=lambda line: line["time"])
        decided = [loss for line in said if (loss := line.get("stop_loss")) is not None]
        agreed = decided[0] if decided else latest["loss_all"]
        return f"{latest['time']:.1f} s, agreed loss {short(agreed, 6)}"

    def table(self) -> Table:
        table = Table(
            title=self.title,
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            show_edge=False,
            pad_edge=False,
            caption=self._caption(),
        )
        names = ("node", "state", "epochs", "loss", "apart", "sent", "per s")
        for name in (*names, "drops", "refused", "bytes"):
            # numbers fit 80 columns; a narrower terminal folds them, since a cut one is wrong
            side = "left" if name == "state" else "right"
            table.add_column(name, justify=side, overflow="fold")
        for node, line in enumerate(self.last):
            if line is None:
                table.add_row(str(node), "starting")
                continue
            table.add_row(
                str(node),
                line["state"],
                number(line["epochs"]),
                short(line["loss"]),
                short(line["consensus"], 2),
                number(line["messages"]),
                number(self._rate(node)),
                number(line["drops"]),
                number(line["rejects"]),
                number(line["bytes"]),
            )
        return table
