# SPDX-License-Identifier: BSD-3-Clause
"""The page in a real browser, with a controller without switches: networks of 4 to 64 nodes."""

import asyncio
import io
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from urllib.parse import quote

import networks
import numpy as np
import pytest
from aiohttp.test_utils import TestServer
from browser import Page, browsing
from matplotlib.image import imread
from networks import FIRST_HOST

from hikyaku.checkout import ROOT
from hikyaku.lab import wiring
from hikyaku.sdn.controller import Controller
from hikyaku.sdn.names import Names
from hikyaku.sdn.program import compute
from hikyaku.sdn.rest.app import make_app
from hikyaku.sdn.store import Store
from hikyaku.sdn.switch import Switch
from hikyaku.sdn.tag import Function, to_mac

NETWORKS = ["leaf-spine:1x2x2", "leaf-spine:2x4x4", "fat-tree:4", "leaf-spine:4x4x8"]
NETWORKS += ["leaf-spine:8x8x8", "leaf-spine:4x32x2"]

# The texts on the map, with their boxes on the screen: left, top, right, bottom.
TEXTS = """[...document.querySelectorAll('#map text')].filter((t) => t.textContent).map((t) => {
    const b = t.getBoundingClientRect();
    return [t.textContent, b.left, b.top, b.right, b.bottom];
})"""
BOX = """(() => { const b = document.getElementById('map').getBoundingClientRect();
    return [b.left, b.top, b.right, b.bottom]; })()"""
LINES = """[...document.querySelectorAll('#map .link')].map((l) => {
    const style = getComputedStyle(l), half = l.getPointAtLength(l.getTotalLength() / 4);
    const at = half.matrixTransform(l.getScreenCTM());
    return {name: l.dataset.link, cut: l.classList.contains('cut'), width: style.strokeWidth,
            colour: style.stroke, x: at.x, y: at.y};
})"""


@dataclass
class Site:
    """A controller with the network @wiring, and the page that shows it."""

    c: Controller
    wiring: wiring.Wiring
    page: Page
    url: str

    @property
    def number(self) -> dict[str, int]:
        return {name: i + 1 for i, name in enumerate(self.wiring.switches)}

    def cut(self, name: str) -> None:
        """As when the switches say that both ports are down."""
        link, graph = self.wiring.link(name), self.c.network.graph
        b = (self.number[link.b], link.port_b)
        if not link.port_a:  # of a node
            graph.port_down(*b)
            return
        a = (self.number[link.a], link.port_a)
        self.c.discovery._known.add((min(a, b), max(a, b)))
        graph.port_down(*a)
        self.route()

    def route(self) -> None:
        self.c.masked = self.c.wanted = compute(self.c.network, self.c.jobs.values())

    async def show(self, path: str = "") -> None:
        await self.page.go(self.url + (f"?show={quote(path, safe='')}" if path else ""))

    async def text(self, name: str) -> str:
        return await self.page.ask(f"document.getElementById('{name}').innerText")


@asynccontextmanager
async def site(directory: Path, text: str, jobs: int = 1, ranks: int = 0) -> AsyncIterator[Site]:
    """@jobs jobs, with @ranks ranks each; 0: two on each node."""
    made = wiring.parse(text)
    c = Controller(Store(directory), lambda _: None)
    c.network = networks.of_wiring(text)
    c.discovery.graph = c.network.graph
    for i, name in enumerate(made.switches, 1):
        c.switches[i] = switch = Switch(i, None)
        switch.name = name
        switch.ports = {p: made.port_name(name, p) for p in c.network.graph.ports[i]}
    c.names = Names({FIRST_HOST + i: (f"node{i}", "hk0") for i in range(made.nodes)})
    for i, switch in c.switches.items():
        c.names.learn_ports(i, switch.ports)
    for job in range(1, jobs + 1):
        c.jobs[job] = networks.job_on(c.network, ranks or 2 * made.nodes, number=job)
        c.jobs[job].name = "solver"
    server = TestServer(make_app(c, "token", pytest.fail))
    await server.start_server()
    async with browsing() as page:
        found = Site(c, made, page, str(server.make_url("/")))
        found.route()
        yield found
        assert page.messages == []
    await server.close()


def overlaps(a: list, b: list) -> bool:
    """Do two texts share more than a hair?"""
    return min(a[3], b[3]) - max(a[1], b[1]) > 1 and min(a[4], b[4]) - max(a[2], b[2]) > 1


@pytest.mark.parametrize("text", NETWORKS)
def test_everything_is_on_the_map_and_can_be_read(tmp_path, text):
    async def look() -> None:
        async with site(tmp_path, text) as it:
            name = it.wiring.links[0].name
            it.cut(name)
            await it.show("/v1/jobs/1/path?source=0&function=bcast&group=0")
            texts = await it.page.ask(TEXTS)
            said = [each[0] for each in texts]
            assert said.count(name) == 1
            assert set(it.wiring.switches) <= set(said)
            for i in range(it.wiring.nodes):
                near = [each for each in said if re.match(rf"node{i}\b", each)]
                assert len(near) == 1
            ranks = "\n".join(said)
            assert f"ranks 0, {it.wiring.nodes}" in ranks
            left, top, right, bottom = await it.page.ask(BOX)
            for each in texts:
                assert each[1] >= left and each[2] >= top, each
                assert each[3] <= right and each[4] <= bottom, each
            bad = [(a, b) for a, b in combinations(texts, 2) if overlaps(a, b)]
            assert not bad

    asyncio.run(look())


def test_the_width_of_a_link_is_its_load_and_cut_ones_are_red(tmp_path):
    async def look() -> None:
        async with site(tmp_path, "leaf-spine:2x2x2") as it:
            number, links = it.number, it.wiring.links
            for link, load in zip(links[1:], (1e5, 2e7, 3e9), strict=True):
                it.c.network.load[number[link.b], link.port_b] = load
            it.cut(links[0].name)
            it.cut("node3-leaf1")
            it.c._say_separated()
            await it.show()
            text = "node3 cannot reach node0, node1, node2; fix: repair the link leaf1-node3"
            assert await it.text("separated") == text
            lines = {line["name"]: line for line in await it.page.ask(LINES)}
            widths = [float(lines[link.name]["width"][:-2]) for link in links[1:]]
            assert widths == sorted(set(widths))
            assert {n for n, line in lines.items() if line["cut"]} == {
                links[0].name,
                "leaf1-node3",
            }
            assert "leaf1-node3 cut" in await it.text("hosts")
            colours = {line["cut"]: line["colour"] for line in lines.values()}
            red, grey = (list(map(int, re.findall(r"\d+", colours[c]))) for c in (True, False))
            assert red[0] > 1.5 * max(red[1:]) and grey[0] < 1.5 * max(grey[1:])
            legend = await it.text("legend")
            for word in ("switch", "node", "cut link", "10 Gbit/s", "hops"):
                assert word in legend

    asyncio.run(look())


def test_the_screenshot_shows_the_cut_and_the_way(tmp_path):
    """The pixels along the lines have the colours of the style sheet."""

    async def look() -> None:
        async with site(tmp_path, "leaf-spine:2x2x2") as it:
            it.cut("leaf0-spine0")
            await it.show("/v1/jobs/1/path?source=0&function=bcast&group=0")
            shot = tmp_path / "page.png"
            await it.page.screenshot(shot)
            seen = (imread(io.BytesIO(shot.read_bytes()))[..., :3] * 255).astype(int)

            def near(x: float, y: float, colour: tuple[int, int, int]) -> bool:
                part = seen[int(y) - 8 : int(y) + 9, int(x) - 8 : int(x) + 9]
                return bool((np.abs(part - np.array(colour)).sum(axis=2) < 60).any())

            red, blue = (0xC6, 0x2F, 0x2F), (0x24, 0x57, 0xC5)
            lines = {line["name"]: line for line in await it.page.ask(LINES)}
            assert near(*(lines["leaf0-spine0"][k] for k in "xy"), red)
            assert near(*(lines["leaf0-spine1"][k] for k in "xy"), blue)
            assert near(*(lines["leaf1-node3"][k] for k in "xy"), blue)
            assert not near(*(lines["leaf1-spine0"][k] for k in "xy"), blue)
            assert not near(*(lines["leaf1-spine0"][k] for k in "xy"), red)

    asyncio.run(look())


@pytest.mark.parametrize("text", ["leaf-spine:2x2x4", "fat-tree:4"])
def test_the_way_from_any_node_to_any_other(tmp_path, text):
    """Chosen in the form, as a user does: the way begins and ends there, and each hop goes on where
    the one before ended."""

    async def look() -> None:
        async with site(tmp_path, text) as it:
            await it.show()
            await it.page.choose("job", "untagged")
            pairs = [(a, b) for a in range(it.wiring.nodes) for b in range(it.wiring.nodes)]
            for a, b in random.Random(1).sample([p for p in pairs if p[0] != p[1]], 12):
                await it.page.choose("source", to_mac(FIRST_HOST + a))
                await it.page.choose("destination", to_mac(FIRST_HOST + b))
                hops = [line.split(" → ") for line in (await it.text("hops")).split("\n")]
                assert hops[0][0] == f"node{a}" and hops[-1][1] == f"node{b}"
                assert all(one[1] == two[0] for one, two in pairwise(hops))
                drawn = "[...document.querySelectorAll('.way[data-hop]')].map((w) => w.dataset.hop)"
                assert sorted(map(int, await it.page.ask(drawn))) == list(range(1, len(hops) + 1))

    asyncio.run(look())


def test_the_tree_of_a_broadcast_reaches_every_node_once(tmp_path):
    async def look() -> None:
        async with site(tmp_path, "fat-tree:4", jobs=2) as it:
            await it.show()
            await it.page.choose("job", "2")
            assert await it.page.ask("document.getElementById('function').value") == "bcast"
            hops = (await it.text("hops")).split("\n")
            to = [
                name
                for line in hops
                for each in line.split("; ")
                for name in each.split(" → ")[1].split(", ")
            ]
            assert sorted(n for n in to if n.startswith("node")) == sorted(
                f"node{i}" for i in range(1, 16)
            )
            assert len(to) == len(set(to)), "no switch and no node gets it twice"
            receivers = "document.querySelectorAll('.host.receiver').length"
            assert await it.page.ask(receivers) == 15
            assert await it.page.ask("document.querySelectorAll('.host.source').length") == 1

    asyncio.run(look())


def test_every_address_of_a_way_opens_it(tmp_path):
    """Each function, ranks and groups; the form shows it, and a choice changes the address."""

    async def look() -> None:
        async with site(tmp_path, "leaf-spine:2x2x2", ranks=4) as it:
            for function in Function:
                path = f"/v1/jobs/1/path?function={function.name.lower()}&source=1&destination=3"
                await it.show(path)
                assert "1 receiver" in await it.text("path"), function
                field = "document.getElementById('{}').value"
                assert await it.page.ask(field.format("function")) == function.name.lower()
                assert await it.page.ask(field.format("destination")) == "3"
            await it.page.choose("source", "2")
            assert "source%3D2%26destination%3D3" in await it.page.ask("location.search")
            await it.page.choose("job", "")
            assert await it.page.ask("location.search") == ""
            assert await it.text("hops") == ""

    asyncio.run(look())


@pytest.mark.parametrize(
    ("show", "reason"),
    [
        ("/v1/jobs/9/path?source=0", "there is no job 9"),
        ("/v1/jobs/1/path?source=77", "the host of rank 77 of job 1 is unknown"),
        (
            "/v1/jobs/1/path?function=dance",
            "there is no function 'dance'; fix: use one of other, p2p",
        ),
        ("/v1/path?source=no", "source: 'no' is not a MAC address"),
        ("/v1/status", "/v1/status cannot be shown: give /?show=/v1/path?"),
        ("//elsewhere.example/v1/path?source=0", "cannot be shown"),
        ("<b>no</b>", "<b>no</b> cannot be shown"),
    ],
)
def test_a_way_that_cannot_be_shown_is_named(tmp_path, show, reason):
    async def look() -> None:
        async with site(tmp_path, "leaf-spine:1x2x2") as it:
            await it.show(show)
            assert reason in await it.text("path")
            assert "2 switches" not in await it.text("summary")
            assert "3 switches, 2 links, 4 nodes, 1 job" in await it.text("summary")
            it.page.messages.clear()  # the browser reports refused calls

    asyncio.run(look())


def test_names_are_text(tmp_path):
    async def look() -> None:
        async with site(tmp_path, "leaf-spine:1x2x2") as it:
            evil = "<img src=x onerror=alert(1)>"
            it.c.jobs[1].name = evil
            it.c.names = Names({FIRST_HOST: (evil, evil)}, {(2, 1): evil})
            it.c.switches[1].name = evil
            it.c.say(evil)
            await it.show("/v1/jobs/1/path?source=0&function=bcast&group=0")
            assert await it.page.ask("document.querySelectorAll('img').length") == 0
            assert evil in await it.text("events")

    asyncio.run(look())


def test_a_controller_that_has_ended_is_named(tmp_path):
    async def look() -> None:
        async with site(tmp_path, "leaf-spine:1x2x2") as it:
            await it.show()
            await it.page.ask("window.fetch = async () => { throw new Error('refused') }")
            await it.page.wait("document.getElementById('summary').className === 'bad'")
            assert "the controller does not answer (refused)" in await it.text("summary")

    asyncio.run(look())


def test_the_page_asks_nobody_else():
    page = ROOT / "python/hikyaku/sdn/rest/page"
    text = "".join(path.read_text() for path in sorted(page.iterdir()))
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
