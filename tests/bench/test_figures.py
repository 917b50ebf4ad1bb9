# SPDX-License-Identifier: BSD-3-Clause
"""Every plot that a command can draw, from a small document: its texts can be read, and it hides no
value. Nothing is measured here."""

import math
from collections.abc import Callable
from functools import cache

import documents
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from readable import tick_labels, unreadable

from hikyaku.bench.common.figure import looks
from hikyaku.bench.halo import plot as halo
from hikyaku.bench.learn import plot as nodes_learn
from hikyaku.bench.mpi import plot as mpi
from hikyaku.bench.protocols import plot as protocols
from hikyaku.bench.rtc import plot as rtc
from hikyaku.bench.scale import plot as ranks
from hikyaku.bench.sdn import plot as sdn
from hikyaku.devmem import plot as devmem
from hikyaku.learn import plot as learn
from hikyaku.sim import plot as sim

LATENCY = "latency, half round trip, µs (lower is better)"
BANDWIDTH = "bandwidth, window 64, MB/s"
BOTH_WAYS = "bidirectional bandwidth, window 64, MB/s, both directions"
RATE = "message rate, window 64, messages/s"
METRICS = ["latency_us", "bandwidth_MBps", "bibandwidth_MBps", "messages_per_s"]
LIAR = {3: 9.0}


def training(
    first: float, last: float, *, nodes: int = 4, false: dict[int, float], target: float = math.nan
) -> Figure:
    lines = documents.training(nodes, first, last, false)
    name = "MEASUREMENTS-of-NOVEMBER-and-DECEMBER-WITHOUT-OUTLIERS-and-without-the-first-week.csv"
    title = f"{name}: logistic, {nodes} nodes, push-sum over exponential"
    return learn.draw(lines, nodes, title=title, target=target, faulty=false)


# By name: how to draw it, and (horizontal, vertical) labels of its panels.
CASES: dict[str, tuple[Callable[[], Figure], list[tuple[str, str]]]] = {
    "demo": (
        lambda: mpi.draw(documents.mpi(["memif"], METRICS[:2], documents.DEMO_SIZES)),
        [("size, bytes", LATENCY), ("size, bytes", BANDWIDTH)],
    ),
    "mpi": (
        lambda: mpi.draw(documents.mpi(["memif", "veth"], METRICS, [8, 2048, 1 << 20])),
        2 * [("size, bytes", unit) for unit in (LATENCY, BANDWIDTH, BOTH_WAYS, RATE)],
    ),
    "mpi, one size": (
        lambda: mpi.draw(documents.mpi(["memif"], METRICS, [8], ("auth", "seal"))),
        [(LATENCY, ""), (BANDWIDTH, ""), (BOTH_WAYS, ""), (RATE, "")],
    ),
    "protocols": (
        lambda: protocols.draw(documents.protocols(["tcp", "inline", "split"], [256, 2048, 65536])),
        3 * [("size, bytes", "latency, half round trip, µs")],
    ),
    "halo": (
        lambda: halo.draw(documents.halo_exchange([1, 4])),
        [
            *(2 * [("size, bytes", "time of an exchange, µs")]),
            *(2 * [("time of an exchange, µs", "")]),
            ("size, bytes", "time of an exchange, µs"),
            ("time of a solve, ms", ""),
        ],
    ),
    "scale": (
        lambda: ranks.draw(documents.scale([6, 12, 48, 96, 192])),
        [*(2 * [("ranks", "time of an exchange, µs")])],
    ),
    "rtc": (
        lambda: rtc.draw(documents.run_to_completion()),
        [
            ("time that a message is held, ns", "rate, million messages/s"),
            *2 * [("repetitions of the sum", "rate, million messages/s")],
            ("rate, million messages/s", ""),
            *(
                ("rate asked of the sender, million messages/s", unit)
                for unit in (
                    "rate, million messages/s",
                    "lost, %",
                    "ns a message",
                    "latency, µs",
                )
            ),
            *6
            * [
                (
                    "rate asked of the sender, times that of the closed loop",
                    "handled, times the closed loop's rate",
                )
            ],
        ],
    ),
    "gossip": (
        lambda: nodes_learn.draw(documents.learning([1, 2, 4, 8, 16])),
        4 * [("nodes", "time, s"), ("nodes", "iterations/s")],
    ),
    "gossip, two nodes": (
        lambda: nodes_learn.draw(documents.learning([1, 2])),
        4 * [("time, s", ""), ("iterations/s", "")],
    ),
    "sdn": (
        lambda: sdn.draw(documents.network()),
        [
            *2
            * [
                ("size, bytes", "µs, half round trip"),
                ("size, bytes", "latency ratio"),
                ("size, bytes", "MB/s, windows of 64 or 4 MiB"),
                ("size, bytes", "bandwidth ratio"),
            ],
            ("ns a packet", ""),
            ("bytes on the busiest link, of the payload", ""),
            ("frames that links lost in a long run", ""),
            ("flows on the busiest link", ""),
            ("ratio", ""),
            ("ms, the slowest rank", ""),
            ("time, of hashing's", ""),
            ("ms, the slowest rank", ""),
            ("time, of hashing's", ""),
            ("frames lost of 1000 a second", ""),
            ("ranks", "entries of a job in a switch"),
            ("s of CPU time", ""),
        ],
    ),
    "sdn, one experiment": (
        lambda: sdn.draw(documents.network(["failover"])),
        [("frames lost of 1000 a second", "")],
    ),
    "devmem": (
        lambda: devmem.draw(documents.dma({"write": 1200})),
        [
            ("rate, Gbit/s", "load of the CPU"),
            ("latency, µs", "load of the CPU"),
            ("number lost", "load of the CPU"),
            ("number wrong", "load of the CPU"),
        ],
    ),
    "sim": (
        lambda: sim.draw(documents.simulation("incast", fair_ms=14.3)),
        [("time, ms", "KB"), ("percent that took at most so long", "µs")],
    ),
    "sim, round trips": (
        lambda: sim.draw(documents.simulation("pingpong", fair_ms=900)),
        [("time, ms", "KB"), ("percent that took at most so long", "µs")],
    ),
    "learn": (
        lambda: training(0.7, 0.55, false=LIAR),
        [("time, s", "loss"), ("sent by all nodes, MB", "loss")],
    ),
    "learn, many nodes": (
        lambda: training(40, 0.02, nodes=9, false={2: 9, 5: 8, 7: 1e9}, target=0.01),
        [("time, s", "loss"), ("sent by all nodes, MB", "loss")],
    ),
}


@cache
def drawn(name: str) -> Figure:
    figure = CASES[name][0]()
    figure.canvas.draw()
    return figure


@pytest.fixture(params=CASES)
def figure(request: pytest.FixtureRequest) -> Figure:
    return drawn(request.param)


def panels(figure: Figure) -> dict[tuple[str, str], Axes]:
    """By their titles and the labels of their values."""
    return {(a.get_title("left"), a.get_xlabel() or a.get_ylabel()): a for a in figure.axes}


def of_unit(name: str, unit: str) -> Axes:
    (found,) = [a for a in drawn(name).axes if unit in (a.get_xlabel(), a.get_ylabel())]
    return found


def legend_texts(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    return [text.get_text() for text in legend.get_texts()] if legend else []


# ---- every plot ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_axes_say_what_they_show_and_the_unit(name: str) -> None:
    labels = [(a.get_xlabel(), a.get_ylabel()) for a in drawn(name).axes]
    assert [tuple(label.replace("\n", " ") for label in pair) for pair in labels] == CASES[name][1]
    assert all(a.get_title("left") for a in drawn(name).axes)


def test_no_text_covers_another_or_is_cut_off(figure: Figure) -> None:
    assert not unreadable(figure)


def test_legends_stand_beside_the_data(figure: Figure) -> None:
    """Data fill the box of the axes, so a legend must not."""
    for axes in figure.axes:
        if not (legend := axes.get_legend()):
            continue
        box, data = legend.get_window_extent(), axes.get_window_extent()
        assert box.y0 >= data.y1 - 1
        assert box.x1 <= figure.bbox.x1


def test_ticks_are_plain_numbers(figure: Figure) -> None:
    for axes in figure.axes:
        labels = tick_labels(axes, "xaxis") + tick_labels(axes, "yaxis")
        bad = [t.get_text() for t in labels if any(c in t.get_text() for c in "$^×\\")]
        assert not bad
        assert len(tick_labels(axes, "xaxis")) >= 2


def test_linear_axes_of_values_begin_at_zero(figure: Figure) -> None:
    for axes in figure.axes:
        if axes.patches:
            assert axes.get_xlim()[0] == 0
        elif axes.get_yscale() == "linear":
            assert axes.get_ylim()[0] == 0


def test_every_value_is_within_its_axes(figure: Figure) -> None:
    """The curves of nodes that sent false parameters need not be: their labels say it."""
    for axes in figure.axes:
        low, high = axes.get_ylim()
        for line in axes.get_lines():
            if "false parameters" not in line.get_label() and not axes.patches:
                assert low <= min(line.get_ydata()) <= max(line.get_ydata()) <= high
        for bar in axes.patches:
            assert bar.get_width() <= axes.get_xlim()[1]


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(("learn", "sim"))])
def test_each_median_has_its_range(name: str) -> None:
    for axes in drawn(name).axes:
        if axes.patches:
            assert all(bar.errorbar for bar in axes.containers if isinstance(bar, BarContainer))
            assert len(axes.texts) == len(axes.patches)  # each bar has its number
        else:
            assert len(axes.collections) == len(axes.get_lines()) > 0


def test_categories_are_not_joined_by_lines() -> None:
    for name in ("devmem", "mpi, one size"):
        for axes in drawn(name).axes:
            assert axes.patches
            assert all(line.get_linestyle() == "None" for line in axes.get_lines())


# ---- what each must show -------------------------------------------------------------------------


def test_lost_frames_are_shown_also_if_there_are_none() -> None:
    axes = of_unit("devmem", "number lost")
    shown = dict(zip(legend_texts(axes), axes.containers[1::2], strict=True))
    bars = {label: [bar.get_width() for bar in of] for label, of in shown.items()}
    memories = ("main memory", "pop:bar:0000:5e:00.0,bar=2")
    assert bars == {f"nic to {m}": [0, 0, 1200, 0] for m in memories} | {
        f"nvme to {m}": [0, 0, 0, 0] for m in memories
    } | {f"nic {one} main memory": [0, 0] for one in ("transmit from", "receive to")}
    assert sorted(t.get_text() for t in axes.texts) == ["0"] * 18 + ["1200"] * 2
    assert [t.get_text() for t in of_unit("sdn", "frames that links lost in a long run").texts] == [
        *("0", "45", "0", "130")
    ]


def test_faulty_nodes_are_dashed_and_named() -> None:
    axes = of_unit("learn, many nodes", "time, s")
    curves = {line.get_label(): line for line in axes.get_lines()}
    dashed = {label for label, line in curves.items() if line.get_linestyle() == "--"}
    assert dashed == {
        "node 2, false parameters",
        "node 5, false parameters",
        "node 7, false parameters, outside the range",
    }
    assert len({curves[label].get_color() for label in dashed}) == 3
    assert set(legend_texts(axes)) == dashed | {"all nodes", "other nodes, on their rows", "target"}


def test_a_run_that_converges_shows_its_first_loss_and_no_false_one() -> None:
    for name, first, scale in (("learn", 0.7, "linear"), ("learn, many nodes", 40, "log")):
        over_time, over_bytes = drawn(name).axes
        low, high = over_time.get_ylim()
        assert over_bytes.get_ylim() == (low, high)
        assert over_time.get_yscale() == over_bytes.get_yscale() == scale
        assert low < first < high < 2 * first


def test_a_plot_of_a_training_without_any_loss() -> None:
    """All nodes may end before the first one."""
    learn.draw([], 2, title="short", target=math.nan, faulty=[1])


def test_one_metric_has_one_range() -> None:
    found = panels(drawn("mpi"))
    assert found["memif wire: latency", "size, bytes"].get_ylim() == (
        found["veth wire: latency", "size, bytes"].get_ylim()
    )


def test_the_legend_has_all_transports() -> None:
    latency, bandwidth = drawn("demo").axes
    without = ["TCP", "Hikyaku", "shared memory, same node"]
    assert legend_texts(bandwidth) == without
    assert set(legend_texts(latency)) == {*without, "raw DPDK, same frame"}


def test_tcp_and_ours_look_the_same_in_all_plots() -> None:
    def colour(axes: Axes, label: str) -> str:
        (line,) = [line for line in axes.get_lines() if line.get_label() == label]
        return to_hex(line.get_color())

    demo, first, sums = (drawn(name).axes for name in ("demo", "halo", "rtc"))
    reference, ours = (look.colour.lower() for look in looks("ab").values())
    assert [colour(demo[0], "TCP"), colour(demo[0], "Hikyaku")] == [reference, ours]
    assert [colour(first[0], "mpi-tcp"), colour(first[0], "halo")] == [reference, ours]
    assert [colour(sums[1], "tcp (veth)"), colour(sums[1], "dpdk (memif)")] == [reference, ours]


# ---- the machine ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("load", "told"), [(15.33, True), (0.5, False)])
@pytest.mark.parametrize(
    ("draw", "document"),
    [
        (mpi.draw, documents.mpi(["memif"], METRICS[:2], documents.DEMO_SIZES)),
        (mpi.draw, documents.mpi(["memif"], METRICS[:1], [8])),  # the narrowest
        (halo.draw, documents.halo_exchange([1])),
        (rtc.draw, documents.run_to_completion()),
        (sdn.draw, documents.network(["failover"])),
    ],
)
def test_a_plot_says_that_the_machine_was_busy(
    draw: Callable[[dict], Figure], document: dict, load: float, told: bool
) -> None:
    about = document["machine"] | {"load_at_start": load}
    figure = draw({**document, "machine": about})
    figure.canvas.draw()
    note = " ".join(figure._supxlabel.get_text().split())
    assert ("busy machine (load 15): do not trust times or ratios" in note) == told
    assert not unreadable(figure)


def test_each_size_of_the_demo_has_a_label() -> None:
    for axes in drawn("demo").axes:
        labels = [text.get_text() for text in tick_labels(axes, "xaxis")]
        assert len(labels) == len(documents.DEMO_SIZES)
