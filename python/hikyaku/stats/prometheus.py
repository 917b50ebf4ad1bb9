# SPDX-License-Identifier: BSD-3-Clause
"""The counters of ranks and daemons as Prometheus' metrics."""

from prometheus_client.core import Metric

from . import Sample, ranks
from .counters import defined, rank_counters
from .exposition import text


class _Families:
    """Families of metrics, in the order of their first sample."""

    def __init__(self) -> None:
        self.by_name: dict[str, Metric] = {}

    def add(self, prefix: str, table: dict, values: dict | None, **labels: object) -> None:
        """Adds a sample with @labels for each member of @table that @values has."""
        texts = {key: str(value) for key, value in labels.items()}
        for member, (kind, about) in table.items():
            if values is None or values.get(member) is None:
                continue
            name = f"hikyaku_{prefix}_{member}"
            family = self.by_name.setdefault(name, Metric(name, about, kind))
            suffix = "_total" if kind == "counter" else ""
            family.add_sample(name + suffix, texts, values[member])


def prometheus(sample: Sample) -> str:
    """@sample in the text exposition format."""
    out = _Families()
    for daemon in sample.daemons:
        whose = {"daemon": daemon["name"]}
        out.add("daemon", defined("daemon"), daemon, **whose)
        out.add("poller", defined("poller"), daemon["poller"], **whose)
        out.add("switch", defined("switch"), daemon["switch"], **whose)
        steering = daemon["port"]["steering"]
        what = {"port": daemon["port"]["spec"], "method": steering["method"]}
        out.add("port_steering", defined("steering"), steering, **whose, **what)
        out.add("port", defined("port"), daemon["port"]["counters"], **whose, port=what["port"])
        for wire in daemon["wires"]:
            out.add("wire", defined("port"), wire, **whose, node=wire["node_id"])
        for slot in ranks(daemon):
            who = {"job": slot["job"], "endpoint": slot["endpoint"], **whose}
            out.add("rank", defined("slot"), slot, **who)
            out.add("rank", rank_counters(), slot["counters"], **who)
            out.add("rank_pipe", defined("pipe"), slot["pipe"], **who)
    for each in sample.ranks:
        out.add(
            "rank", rank_counters(), each["counters"], job=each["job"], endpoint=each["endpoint"]
        )
    return text(out.by_name.values())
