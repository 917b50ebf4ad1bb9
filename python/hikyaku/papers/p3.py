# SPDX-License-Identifier: BSD-3-Clause
"""P3: halo exchange by one-sided writes."""

from collections.abc import Iterator

from .figure import MEMIF, Comparison, Document, Figure, Measurement, Paper, drawn_by

_HALO = ("bench", "halo", "--experiments")
PIECES = Measurement(
    "halo-pieces",
    (*_HALO, "A,E", "--repeats", "5"),
    (*_HALO, "A,E", "--repeats", "1", "--doubles", "100,3000,30000,100000"),
)
MATRIX = Measurement(
    "halo-matrix",
    (*_HALO, "B,C", "--repeats", "5", "--ports", "1,4"),
    (*_HALO, "B,C", "--repeats", "1", "--ports", "1,4"),
)

SCALE = Measurement(
    "halo-scale",
    ("bench", "scale", "--counted", "6,12,48"),
    ("bench", "scale", "--processes", "6,192", "--counted", "6", "--rounds", "3"),
)

SOLVES = Measurement(
    "halo-solves",
    (*_HALO, "F", "--repeats", "5"),
    (*_HALO, "F", "--repeats", "1"),
)

# ms an exchange with 6, 12, 48, 96 and 192 processes: MPI, RDMA with one NIC, with four
THEIRS = {
    "B": ((0.304, 0.306, 0.278, 0.285, 0.217), (0.310, 0.320, 0.291, 0.293, 0.225),
          (0.187, 0.186, 0.177, 0.178, 0.115)),
    "C": ((0.436, 0.428, 0.301, 0.296, 0.293), (0.306, 0.255, 0.172, 0.141, 0.131),
          (0.275, 0.217, 0.122, 0.095, 0.086)),
}  # fmt: skip
PARTS = {"B": "blocks of rows", "C": "METIS"}
PROCESSES = (6, 12, 48, 96, 192)  # of their columns


def _pieces(document: Document) -> Iterator[Comparison]:
    from ..bench.halo.report import cells

    for size, by in cells(document["rows"], "A").items():
        halo = by["halo"]["median"]
        doubles = size // 8
        text = f"one-sided, of Isend and Irecv; {doubles} doubles"
        yield Comparison(text, None, halo / by["mpi-btl"]["median"], note="both over Hikyaku")
        yield Comparison(f"the same, of MPI over TCP; {doubles} doubles", None,
                         halo / by["mpi-tcp"]["median"])  # fmt: skip
    for size, by in cells(document["rows"], "E").items():
        text = f"one-sided, of Isend and Irecv, within a node; {size // 8} doubles"
        within = by["halo-shm"]["median"] / by["mpi-shm"]["median"]
        yield Comparison(text, None, within, note="MPI by its own shared memory")


def _matrix(document: Document) -> Iterator[Comparison]:
    from ..bench.halo.report import cells
    from ..bench.halo.run import COPIES

    for experiment, part in PARTS.items():
        mpi, one, four = THEIRS[experiment]
        for ports, theirs in ((1, one), (4, four)):
            for by in cells(document["rows"], experiment, ports).values():
                ours = by["halo"]["median"] / by["mpi-btl"]["median"]
                ends = f"{theirs[0] / mpi[0]:.2f} with 6 processes, {theirs[-1] / mpi[-1]:.2f} "
                what = f"one-sided, of Isend and Irecv; {part}, ports of a rank: {ports}"
                limit = 1.0 if experiment == "B" and ports == 1 else theirs[0] / mpi[0]
                yield Comparison(what, limit, ours, "", "≤", f"theirs: {ends}with 192")
                if COPIES in by:
                    copies = by[COPIES]["median"] / by["mpi-btl"]["median"]
                    what = f"the wire's copies alone, of Isend and Irecv; {part}"
                    yield Comparison(what, None, copies)


def _scale(document: Document) -> Iterator[Comparison]:
    from ..bench.scale.run import HALO, MPI, REAL_GBIT, time_of

    for experiment, part in PARTS.items():
        mpi, *puts = THEIRS[experiment]
        for ports, theirs in zip((1, 4), puts, strict=True):
            for i, processes in enumerate(PROCESSES):
                key = {"experiment": experiment, "processes": processes}
                by_mpi = time_of(document, **key, method=MPI)
                ours = time_of(document, **key, method=HALO, ports=ports)
                if not by_mpi or not ours:
                    continue
                what = f"one-sided, of Isend and Irecv; {part}, {processes} processes, "
                what += f"ports of a rank: {ports}; simulated"
                limit = theirs[i] / mpi[i]
                note = f"theirs {1e3 * theirs[i]:.0f} of {1e3 * mpi[i]:.0f} µs; "
                note += f"ours {ours:.1f} of {by_mpi:.1f}"
                yield Comparison(what, limit, ours / by_mpi, "", "≤", note)
    for row in document["counts"]:
        part, processes = PARTS[row["experiment"]], row["processes"]
        if row["counted"] is not None:
            what = f"messages as computed, counted by {processes} real ranks; {part}"
            yield Comparison(what, 1, float(row["counted"]), "", "≥")
    for row in document["measured"]:
        real, model = row["measured_us"]["median"], row["exchange_us"]
        what = f"difference of measured from simulated; 2 ranks, links of {REAL_GBIT} Gb/s, "
        what += f"{PARTS[row['experiment']]}, {row['method']}"
        note = f"The limit is ours. {real:.0f} and {model:.0f} µs"
        yield Comparison(what, 0.15, abs(real / model - 1), "", "≤", note)


def _solves(document: Document) -> Iterator[Comparison]:
    from ..bench.common.tables import number
    from ..bench.halo.solves import HALO, MPI, TCP, cases, ratio

    names = {"rows": PARTS["B"], "metis": PARTS["C"]}
    for (partition, language), by in cases(document["solves"]).items():
        case = f"{language}, {names[partition]}"
        note = f"{by[HALO]['steps']} steps, {number(by[HALO]['median'])} ms"
        what = f"a whole solve by one-sided writes, of that by Isend and Irecv; {case}"
        yield Comparison(what, 1, ratio(by, MPI), "", "≤", f"The limit is ours. {note}")
        yield Comparison(f"the same, of that by MPI over TCP; {case}", None, ratio(by, TCP))


PAPER = Paper(
    "P3",
    "Neighbour communication by RDMA in place of messages",
    "Noguchi, Fujii and Tanaka",
    (
        Figure(
            "P3-pieces",
            "Transfers of 100 to 100 000 doubles, between two nodes and within one (Fig. 1)",
            "One-sided writes are faster than Isend and Irecv, within a node and between nodes.",
            PIECES,
            MEMIF,
            _pieces,
            drawn_by("halo"),
            kind="virtual",
            wire="memif",
        ),
        Figure(
            "P3-matrix",
            "An exchange of the 27-point matrix on 100³ points (tables 1 and 2)",
            "With METIS and one NIC up to 55 % less time than MPI. With blocks of rows and one NIC "
            "2 to 5 % more. With four NICs less in both.",
            MATRIX,
            MEMIF + " Two ranks.",
            _matrix,
            drawn_by("halo"),
            "Two processes in place of 6 to 192, which P3-scale has. With blocks of rows and one "
            "port the goal is 1, MPI's own time, which the paper did not reach. Four ports of a "
            "rank share its core, so they gain nothing here.",
            kind="virtual",
            wire="memif",
            bound="A memif wire copies each byte, for messages and for one-sided writes alike. The "
            "baseline is MPI over Hikyaku, which needs little beside these copies.",
        ),
        Figure(
            "P3-scale",
            "6 to 192 processes, one a node (tables 1 and 2)",
            "See the tables above. One-sided writes gain more with METIS, which gives each process "
            "more neighbours, and with four NICs.",
            SCALE,
            "Times are simulated: this engine in virtual time, one rank a node, one network "
            "switch, links of 100 Gb/s, frames of 9000 bytes. A CPU's work takes no time there. "
            "Real ranks, of which many share a core, count the messages. Two real ranks are timed "
            "on links that the kernel limits to 1 Gb/s, beside the simulation of these.",
            _scale,
            drawn_by("scale"),
            "The model of MPI has the messages of eager and rendezvous protocols, and no matching.",
            kind="simulated",
            wire="100 Gb/s",
            bound="With METIS all messages of 48 and more processes are below 16 KB, and most of "
            "those of 12. MPI sends these at once, in the same frames as one-sided writes. They "
            "differ in the work of the CPU, which takes no time here.",
        ),
        Figure(
            "P3-solves",
            "Whole solves by conjugate gradients, in C and in Fortran (beyond the paper)",
            "The paper times an exchange, and not a solver that needs it.",
            SOLVES,
            MEMIF + " Two ranks solve with the 27-point matrix on 40³ points.",
            _solves,
            drawn_by("halo"),
            "Products and sums take most of a solve, so a faster exchange changes little.",
            kind="virtual",
            wire="memif",
            bound="Exchanges take less than a fiftieth of a solve. Such a difference lies within "
            "the spread of the measurement.",
        ),
    ),
)
