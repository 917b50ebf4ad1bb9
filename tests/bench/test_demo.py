# SPDX-License-Identifier: BSD-3-Clause
"""The pictures and sentences of `hikyaku demo`, from small results. Nothing is started here."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import documents
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from readable import texts, unreadable

from hikyaku.demo import halo, halo_plot, learn, p2p, sdn, sdn_plot
from hikyaku.devmem import pcie
from hikyaku.errors import HikyakuError
from hikyaku.lab import wiring

LEAF_SPINE = wiring.parse(sdn.SHAPE)
NODES = {link.name for link in LEAF_SPINE.access}
SHOWN = sdn.Shown(
    LEAF_SPINE,
    NODES | {"leaf0-spine0", "leaf1-spine0"},
    NODES | {"leaf0-spine1", "leaf1-spine1"},
    "leaf0-spine0",
    17,
    0,
)
CUTS = [link.name for link in LEAF_SPINE.links]


def heat(points: int = 24, boxes: tuple[int, int] = (2, 2)) -> halo.Heat:
    fields = np.linspace(0, 1, 26 * points * points).reshape(26, points, points)
    return halo.Heat(fields, [100_000 * i for i in range(26)], boxes, 0.123, 0.0456)


def training(recognised: list[int]) -> learn.Training:
    lines = documents.training(learn.NODES, 0.7, 0.1, {learn.LIAR: 9.0})
    notes = [f"node {n} sent false parameters: 4 of 4" for n in recognised]
    return learn.Training(lines, recognised, notes, 0.5, 1, ("accuracy", 0.89))


def network(cut: str) -> Figure:
    return sdn_plot.draw(LEAF_SPINE, SHOWN.before, SHOWN.after, cut)


PICTURES: dict[str, Callable[[], Figure]] = {
    "halo": lambda: halo_plot.draw(heat()),
    "halo, blocks of rows": lambda: halo_plot.draw(heat(boxes=(4, 1))),
    "learn": lambda: learn.draw(training([learn.LIAR])),
    "p2p": p2p.draw,
    **{f"sdn, {cut}": lambda cut=cut: network(cut) for cut in CUTS},
}


@pytest.mark.parametrize("name", PICTURES)
def test_each_text_can_be_read(name: str) -> None:
    figure = PICTURES[name]()
    figure.canvas.draw()
    assert not unreadable(figure)
    assert all(axes.get_title("left") for axes in figure.axes[:2])


@pytest.mark.parametrize("name", [n for n in PICTURES if n.startswith(("p2p", "sdn"))])
def test_no_line_crosses_a_text_beside_it(name: str) -> None:
    """The names of switches and devices have a box, which hides lines."""
    figure = PICTURES[name]()
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = [t.get_window_extent() for t in axes.texts if t.get_bbox_patch() is None]
        for line in axes.get_lines():
            ends = axes.transData.transform(line.get_xydata())
            points = [ends[0] + (ends[1] - ends[0]) * part for part in np.linspace(0, 1, 500)]
            assert not any(box.contains(*point) for box in boxes for point in points)


# ---- sdn -----------------------------------------------------------------------------------------


def test_the_tree_is_the_links_of_the_controllers_answer() -> None:
    """A rank that polls its own port hangs on the node's second cable, 100 above the first."""

    def end(switch: str, link: str, more: int = 0) -> dict[str, int]:
        of = LEAF_SPINE.link(link)
        port = of.port_a if of.a == switch else of.port_b
        return {"switch": LEAF_SPINE.switches.index(switch) + 1, "port": port + more}

    way = {
        "source": end("leaf0", "node0-leaf0", 100),
        "links": [
            {"a": end("leaf0", "leaf0-spine1"), "b": end("spine1", "leaf0-spine1")},
            {"a": end("spine1", "leaf1-spine1"), "b": end("leaf1", "leaf1-spine1")},
        ],
        "receivers": [end("leaf0", "node2-leaf0"), end("leaf1", "node7-leaf1", 100)],
    }
    found = sdn.tree(LEAF_SPINE, way)
    assert found == {"node0-leaf0", "node2-leaf0", "node7-leaf1", "leaf0-spine1", "leaf1-spine1"}
    assert sdn.between_switches(LEAF_SPINE, found) == ["leaf0-spine1", "leaf1-spine1"]


def test_the_network_shows_its_tree_and_the_cut() -> None:
    for axes, tree, cut in zip(
        network(SHOWN.cut).axes, (SHOWN.before, SHOWN.after), (None, SHOWN.cut), strict=True
    ):
        lines = {line.get_label(): line for line in axes.get_lines()}
        assert set(lines) == {link.name for link in LEAF_SPINE.all}
        assert {name for name, line in lines.items() if line.get_color() == sdn_plot.TREE} == tree
        assert [name for name, line in lines.items() if line.get_linestyle() == "--"] == (
            [cut] if cut else []
        )
        said = {text.get_text().strip() for text in axes.texts}
        assert said >= {*LEAF_SPINE.switches, *(link.a for link in LEAF_SPINE.access)}
        assert (f"{SHOWN.cut}, cut" in said) == bool(cut)


def test_bcasts_that_were_not_multicasts_are_told() -> None:
    assert sdn.sentence(SHOWN) == (
        "17 Bcasts of 1 MiB to 7 nodes by multicast, every byte compared; leaf0-spine0 was cut "
        "meanwhile, and the tree now crosses leaf0-spine1, leaf1-spine1"
    )
    assert " by multicast and 3 by Open MPI's own tree, " in sdn.sentence(
        replace(SHOWN, otherwise=3)
    )


# ---- halo ----------------------------------------------------------------------------------------


def test_the_output_of_heat() -> None:
    line = "heat: 4 ranks (2 x 2), 9 x 9 points, 8 steps: by MPI 0.250 s, by halo 0.125 s; "
    assert halo.parse(f"noise\nPASS {line}0 points differ\n") == ((2, 2), 0.25, 0.125)
    for bad in (f"FAIL {line}0 points differ", f"PASS {line}7 points differ", ""):
        with pytest.raises(HikyakuError, match="did not print its result"):
            halo.parse(bad)


def test_four_moments_with_the_first_and_the_last() -> None:
    assert halo_plot.chosen(26) == [0, 3, 11, 25]
    first, *_, last = (axes for axes in halo_plot.draw(heat()).axes if axes.get_images())
    assert first.get_title("left") == "step 0"
    assert last.get_title("left") == "step 2500000"
    assert (last.get_images()[0].get_array() == heat().fields[-1]).all()


def test_borders_are_where_heat_cuts_the_plate() -> None:
    """Of 10 points, 3 boxes have 3, 3 and 4."""
    assert halo_plot.borders(10, 3) == [3, 6]
    assert halo_plot.borders(10, 1) == []
    (axes, *_) = halo_plot.draw(heat(boxes=(2, 2))).axes
    assert sorted(line.get_xydata()[0].tolist() for line in axes.get_lines()) == [
        [0, 11.5],
        [11.5, 0],
    ]


def test_the_moving_picture_has_all_moments(tmp_path: Path) -> None:
    halo_plot.animate(heat(), tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as image:
        assert image.n_frames == 26
        assert image.size == (72, 72)
        assert image.convert("RGB").getpixel((36, 5)) == (255, 255, 255)  # a border


# ---- learn ---------------------------------------------------------------------------------------


def test_the_liar_is_named() -> None:
    assert learn.sentence(training([2])) == (
        "nodes 0, 1, 3 and 4 learnt in 0.50 s, accuracy 0.8900 (node 1's model); "
        "node 2 sent false parameters: 4 of 4"
    )
    assert learn.sentence(training([])).endswith("; no node was recognised as faulty")


def test_only_a_recognised_node_is_dashed() -> None:
    for recognised in ([], [learn.LIAR]):
        axes = learn.draw(training(recognised)).axes[0]
        dashed = [line for line in axes.get_lines() if line.get_linestyle() == "--"]
        assert len(dashed) == len(recognised)


# ---- p2p -----------------------------------------------------------------------------------------


def test_payload_crosses_main_memory_or_not() -> None:
    bounce, direct = (p2p.carried(path, 1000) for path in (p2p.BOUNCE, p2p.P2P))
    assert bounce["memory"] == Counter(up=1000, down=1000)
    assert direct["memory"].total() == 0
    assert bounce["root"].total() > 2000
    assert direct["root"].total() < 1000, "headers of one packet"


def test_the_bytes_are_those_of_the_model() -> None:
    """Those of `hikyaku devmem model`, and the CPU's share of the header."""
    link = pcie.Link()
    for path, name in ((p2p.BOUNCE, "bounce"), (p2p.P2P, "p2p write")):
        found = p2p.carried(path)
        receiver, sender = pcie.of_path(link, name, p2p.SIZE)
        assert found["nic0"] == receiver
        assert found["nic1"] - sender == (found["root"] if path == p2p.P2P else Counter())
    header = link.read(p2p.HEADER).total() + link.write(p2p.HEADER).total()
    assert p2p.carried(p2p.P2P)["root"].total() == header


def test_the_picture_says_that_it_is_computed() -> None:
    said = " ".join(text.get_text() for text in texts(p2p.draw()))
    assert "computed by the model of pcie-bench" in said
    assert "not measured" in said
    assert ", computed: " in p2p.sentence()
