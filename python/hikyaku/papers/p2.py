# SPDX-License-Identifier: BSD-3-Clause
"""P2: a network that knows MPI's communication patterns."""

from collections.abc import Callable, Iterator

from .figure import COMPUTED, Comparison, Document, Figure, Measurement, Paper, drawn_by, rows_of


def _sdn(experiment: str, full: tuple[str, ...], quick: tuple[str, ...]) -> Measurement:
    words = ("bench", "sdn", "--experiments", experiment)
    return Measurement(f"sdn-{experiment}", (*words, *full), (*words, *quick))


def _tags(experiment: str) -> Callable[[Document], Iterator[Comparison]]:
    """Time with tags, of that without: the median of all sizes, and the worst size."""

    def compare(document: Document) -> Iterator[Comparison]:
        from ..bench.sdn.tags import RATIO, RATIOS

        for metric, text in (("latency_us", "latency"), ("bandwidth_MBps", "bandwidth")):
            rows = rows_of(document, experiment=experiment, method=RATIO, unit=RATIOS[metric])
            values = sorted(row["median"] for row in rows)
            middle = values[len(values) // 2]
            yield Comparison(f"{text} with tags, of that without; middle of all sizes", 1, middle)
            worst = values[-1 if metric == "latency_us" else 0]
            yield Comparison(f"{text} with tags, of that without; worst size", 1, worst)

    return compare


TAGS = (
    "One switch, two nodes, 1 GbE, osu_bw and osu_latency from 1 B to 2 MB: no visible difference "
    "with and without tags."
)
TAG_SIZES = (("--sizes", "1..2M", "--repeats", "3"), ("--sizes", "8,2K,64K", "--repeats", "1"))


def _bcast(document: Document) -> Iterator[Comparison]:
    from ..bench.sdn.bcast import OF_PAYLOAD

    for row in rows_of(document, experiment="bcast", unit=OF_PAYLOAD):
        text = f"on the busiest link, times the payload; {row['method']}"
        yield Comparison(text, None, row["median"])


def _spread(document: Document) -> Iterator[Comparison]:
    for row in rows_of(document, experiment="spread", unit="ratio"):
        text = f"flows on Allreduce's busiest link, {row['method']}; middle placement"
        yield Comparison(text, None, row["median"])


def _times(
    experiment: str, of: str, what: str, limit: Callable[[str], float | None] = lambda _: None
) -> Callable[[Document], Iterator[Comparison]]:
    """Times of a collective, each of that of @of in the same case. @limit: by the method."""

    def compare(document: Document) -> Iterator[Comparison]:
        for row in rows_of(document, experiment=experiment):
            if row["unit"].startswith("time, "):
                text = f"time of {what}, of that by {of}; {row['method']}"
                most = limit(row["method"])
                more = ("", "≤", "The limit is ours.") if most else ()
                yield Comparison(text, most, row["median"], *more)

    return compare


def _spread_limit(method: str) -> float | None:
    """1.5 times as fast as by hashing in its worst case, and nowhere 2 % slower."""
    if not method.startswith("spread"):
        return None
    return round(1 / 1.5, 3) if "worst" in method else round(1 / 0.98, 2)


def _entries(document: Document) -> Iterator[Comparison]:
    for row in rows_of(document, experiment="entries"):
        text = f"flow entries of a job of {row['ranks']} ranks, switches {row['method']}"
        yield Comparison(text, None, row["median"], "entries")


def _failover(document: Document) -> Iterator[Comparison]:
    for row in rows_of(document, experiment="failover"):
        yield Comparison(f"of 1000 frames a second, lost when {row['method']} is cut", None,
                         row["median"], "frames")  # fmt: skip


LIMITED = (
    "Eight nodes in namespaces on a leaf-spine network of Open vSwitch. Links between switches "
    "carry 20 Mbit/s each way."
)
HASHED = LIMITED + " Hashing gives each pair of ranks a random one of the equal paths."


PAPER = Paper(
    "P2",
    "Kernel module and network control by MPI communication patterns (SDN-MPI)",
    "Takahashi, Date, Khureltulga, Kido and Shimojo",
    (
        Figure(
            "P2-tags-one",
            "Latency and bandwidth with and without tags (Figs. 5 and 6), one switch",
            TAGS,
            _sdn("tags_one", *TAG_SIZES),
            "Two nodes in namespaces, and a switch of Open vSwitch in user space.",
            _tags("tags_one"),
            drawn_by("sdn"),
            kind="virtual",
            wire="Open vSwitch",
        ),
        Figure(
            "P2-tags",
            "The same through three switches",
            TAGS,
            _sdn("tags", *TAG_SIZES),
            "Two nodes in namespaces, and three switches of Open vSwitch in user space.",
            _tags("tags"),
            drawn_by("sdn"),
            kind="virtual",
            wire="Open vSwitch",
        ),
        Figure(
            "P2-tags-direct",
            "The same on one wire, where the receiver restores the address",
            TAGS,
            _sdn("tags_direct", *TAG_SIZES),
            "Two nodes in namespaces, joined by a veth pair.",
            _tags("tags_direct"),
            drawn_by("sdn"),
            kind="virtual",
            wire="veth",
        ),
        Figure(
            "P2-bcast",
            "MPI_Bcast by multicast of the switches",
            "An algorithm of their controller; earlier work of theirs measured it.",
            _sdn("bcast", ("--repeats", "3"), ("--repeats", "1")),
            "Eight nodes in namespaces on a leaf-spine network of Open vSwitch.",
            _bcast,
            drawn_by("sdn"),
            kind="virtual",
            wire="Open vSwitch",
        ),
        Figure(
            "P2-bcast-time",
            "MPI_Bcast on links of a limited rate, in time",
            "An algorithm of their controller; earlier work of theirs measured it.",
            _sdn("bcast_time", ("--repeats", "3"), ("--repeats", "1")),
            LIMITED,
            _times("bcast_time", "Open MPI's own", "a Bcast by multicast"),
            drawn_by("sdn"),
            kind="virtual",
            wire="Open vSwitch, 20 Mbit/s",
        ),
        Figure(
            "P2-allreduce",
            "MPI_Allreduce over redundant links",
            "An algorithm of their controller; earlier work of theirs measured it.",
            _sdn("spread", (), ()),
            COMPUTED,
            _spread,
            kind="computed",
        ),
        Figure(
            "P2-allreduce-time",
            "MPI_Allreduce of stock Open MPI on links of a limited rate, in time",
            "An algorithm of their controller; earlier work of theirs measured it.",
            _sdn("allreduce_time", ("--repeats", "3"), ("--repeats", "1")),
            HASHED,
            _times("allreduce_time", "hashing", "an Allreduce", _spread_limit),
            drawn_by("sdn"),
            kind="virtual",
            wire="Open vSwitch, 20 Mbit/s",
            bound="The ring keeps its links busy. Over two spines, no way of it has less than two "
            "thirds of the bytes that hashing's worst case has on a link. With recursive doubling "
            "links idle, since in each step pairs of ranks wait for each other.",
        ),
        Figure(
            "P2-several-time",
            "Two jobs at once, and several collectives in one program, on links of a limited rate",
            "Left open: applications with several collectives in one run.",
            _sdn("several_time", ("--repeats", "5"), ("--repeats", "1")),
            HASHED,
            _times("several_time", "hashing", "the slowest job"),
            drawn_by("sdn"),
            kind="virtual",
            wire="Open vSwitch, 20 Mbit/s",
        ),
        Figure(
            "P2-entries",
            "Flow entries by the number of ranks",
            "Entries that match addresses alone fit tables of tens of thousands.",
            _sdn("entries", (), ()),
            COMPUTED,
            _entries,
            None,
            "These entries have masks. `hikyaku sdn entries` counts exact ones, for 8 to 10 000 "
            "ranks.",
            kind="computed",
        ),
        Figure(
            "P2-failover",
            "A link is cut",
            "The controller learns the topology by LLDP. The paper has no figure for a cut.",
            _sdn("failover", ("--repeats", "5"), ("--repeats", "1")),
            "Nodes in namespaces on a leaf-spine network of Open vSwitch.",
            _failover,
            kind="virtual",
            wire="Open vSwitch",
        ),
    ),
)
