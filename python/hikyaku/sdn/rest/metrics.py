# SPDX-License-Identifier: BSD-3-Clause
"""The controller's metrics for Prometheus."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ...stats.exposition import text
from ..controller import Controller

_PORT_COUNTERS = ("sent_bytes", "received_bytes", "sent_frames", "received_frames")


def _family(
    kind: type[Metric], name: str, about: str, labels: list[str], rows: Iterable[tuple]
) -> Metric:
    """A family; each of @rows has the values of @labels, and then the sample's value."""
    family = kind(f"hikyaku_sdn_{name}", about, labels=labels)
    for *values, value in rows:
        family.add_metric([str(each) for each in values], value)
    return family


def _families(c: Controller) -> Iterator[Metric]:
    graph = c.network.graph
    switches = sorted(c.switches.items())
    for name, about, value in (
        ("switches", "Connected switches.", len(c.switches)),
        (
            "switches_disconnected",
            "Switches that forward without a connection.",
            len(c.disconnected),
        ),
        ("links", "Links between switches.", len(graph.links) // 2),
        ("hosts", "Known hosts.", len(graph.hosts)),
        ("jobs", "Registered jobs.", len(c.jobs)),
    ):
        yield _family(GaugeMetricFamily, name, about, [], [(value,)])
    for name, about, count in (
        ("rules", "Rules in a switch.", lambda s: len(s.rules)),
        ("groups", "Groups in a switch.", lambda s: len(s.groups)),
        ("refused_rules", "Rules that a switch has refused.", lambda s: len(s.refused)),
    ):
        rows = [(number, c.switch_name(number), count(s)) for number, s in switches]
        yield _family(GaugeMetricFamily, name, about, ["switch", "name"], rows)
    for i, name in enumerate(_PORT_COUNTERS):
        rows = [
            (n, c.switch_name(n), port, c.names.link((n, port)) or "", counts[i])
            for n, s in switches
            for port, counts in s.counts.items()
        ]
        about = f"{name.replace('_', ' ').capitalize()} of a port."
        labels = ["switch", "name", "port", "link"]
        yield _family(CounterMetricFamily, f"port_{name}", about, labels, rows)
    counts = sorted((c.counts + c.discovery.counts).items())
    yield _family(CounterMetricFamily, "events", "Events, by kind.", ["kind"], counts)


def metrics(controller: Controller) -> str:
    return text(_families(controller))
