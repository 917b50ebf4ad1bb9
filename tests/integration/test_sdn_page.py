# SPDX-License-Identifier: BSD-3-Clause
"""The page in a browser shows the network of a lab as it is. Leaves a screenshot in out/.

tests/sdn/test_page.py has the rest of the page, with networks without switches."""

import asyncio
import re
from urllib.parse import quote

import pytest
from browser import browsing

from execute import execute
from hikyaku import process
from hikyaku.checkout import ROOT
from hikyaku.lab import Lab, links
from hikyaku.lab.controller import controlled
from hikyaku.lab.frames import register

SCREENSHOT = ROOT / "out" / "sdn-page.png"


@pytest.fixture(scope="module")
def network(lab_name):
    with controlled(lab_name("sdn-page"), "leaf-spine:2x2x2") as (lab, controller):
        yield lab, controller


def speak(lab: Lab, node: str, link: str) -> None:
    """A frame from @link, so that the controller learns its address."""
    code = (
        "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); "
        f"s.bind(('{link}', 0)); "
        "s.send(bytes([255] * 6) + s.getsockname()[4] + bytes.fromhex('88b6') + bytes(50))"
    )
    process.run(lab.exec_argv(node, ["/usr/bin/python3", "-c", code]))


def test_topology_jobs_trees_and_failed_links(network):
    lab, controller = network
    job = register(lab, controller.client, [f"node{i}" for i in range(4)], name="solver")
    links.set_link(lab.topology, "leaf0-spine0", up=False)
    process.wait_until(
        "the cut to be known",
        lambda: len(controller.client.get("/v1/topology")["lost_links"]) == 1,
        20,
    )
    speak(lab, "node2", "hk0")
    process.wait_until(
        "the data link of node2 to be known",
        lambda: len(controller.client.get("/v1/topology")["hosts"]) == 5,
        20,
    )
    show = quote(f"/v1/jobs/{job}/path?source=0&function=bcast&group=0", safe="")

    async def look() -> None:
        async with browsing() as page:
            await page.go(f"{controller.client.address}/?show={show}")
            summary = await page.ask("document.getElementById('summary').textContent")
            assert summary == "4 switches, 3 links, 4 nodes, 1 job", "two links, and one node"
            hops = await page.ask("document.getElementById('hops').innerText")
            assert hops.split("\n") == [
                "node0 → leaf0",
                "leaf0 → node1, spine1",
                "spine1 → leaf1",
                "leaf1 → node2, node3",
            ]
            cut = "[...document.querySelectorAll('#map .note.cut')].map((note) => note.textContent)"
            assert await page.ask(cut) == ["leaf0-spine0"]
            await page.screenshot(SCREENSHOT)

    asyncio.run(look())


def test_a_link_has_one_name(network, hikyaku):
    """In `lab links`, REST, status and events."""
    lab, controller = network
    known = {row["link"]: row["up"] for row in links.counters(lab.topology)}
    found = controller.client.get("/v1/topology")
    assert {link["name"] for link in (*found["links"], *found["lost_links"])} == {
        name for name in known if ":" not in name
    }
    assert {(host["name"], host["interface"], host["link"]) for host in found["hosts"]} == {
        (name.partition(":")[0], re.split("[:-]", name)[1], name)
        for name in known
        if ":tcp0" in name or name.startswith("node2:hk0")
    }
    source, to = (
        next(h for h in found["hosts"] if (h["name"], h["interface"]) == (node, "tcp0"))
        for node in ("node0", "node3")
    )
    query = f"source={source['address']}&destination={to['address']}"
    way = controller.client.get(f"/v1/path?{query}")
    assert [way["source"][k] for k in ("name", "interface", "switch_name")] == [
        "node0",
        "tcp0",
        "leaf0",
    ]
    assert [each["name"] for each in way["links"]] == ["leaf0-spine1", "leaf1-spine1"]
    assert [(x["a"]["switch_name"], x["b"]["switch_name"]) for x in way["links"]] == [
        ("leaf0", "spine1"),
        ("spine1", "leaf1"),
    ]
    assert [each["name"] for each in way["receivers"]] == ["node3"]
    path = [*hikyaku, "sdn", "path", "--lab", lab.name, "node0:tcp0", "node3"]
    assert process.run(path).splitlines() == [
        "node0 → leaf0 (node0:tcp0-leaf0)",
        "leaf0 → spine1 (leaf0-spine1)",
        "spine1 → leaf1 (leaf1-spine1)",
        "leaf1 → node3 (node3:tcp0-leaf1)",
    ]
    texts = [event["text"] for event in controller.client.get("/v1/status")["events"]]
    assert "leaf0 port 1 (leaf0-spine0) is down" in texts
    assert "spine0 port 1 (leaf0-spine0) is down" in texts
    assert "leaf0 is connected, 6 ports are up" in texts
    assert not [text for text in texts if "switch " in text]
    shown = process.run([*hikyaku, "sdn", "status", "--lab", lab.name])
    assert "node2:hk0-leaf1" in shown
    links.set_link(lab.topology, "node1:tcp0-leaf0", up=False)
    process.wait_until(
        "the cut to be known",
        lambda: [h["link"] for h in controller.client.get("/v1/topology")["hosts"] if not h["up"]],
        20,
    )


def test_the_log_is_quiet(network):
    """Late probes of a busy machine are not reported as replays."""
    _, controller = network
    texts = [event["text"] for event in controller.client.get("/v1/status")["events"]]
    assert texts
    assert not [text for text in texts if "refused" in text or "replay" in text]


def test_the_way_of_a_frame_that_does_not_arrive(network, hikyaku):
    """The answer names the repair, which works as printed."""
    lab, controller = network
    path = [*hikyaku, "sdn", "path", "--lab", lab.name, "node0:tcp0", "node3:tcp0"]
    for link in ("leaf0-spine0", "leaf0-spine1"):
        links.set_link(lab.topology, link, up=False)

    def arrives() -> bool:
        query = "source=node0:tcp0&destination=node3:tcp0"
        return controller.client.get(f"/v1/path?{query}")["arrives"]

    process.wait_until("the cut to be known", lambda: not arrives(), 20)
    done = execute(path, code=1)
    first, second, *_ = done.stdout.splitlines()
    assert first == "node0 → leaf0 (node0:tcp0-leaf0)"
    assert second == "the switches know no way to node3:tcp0, and flood the frame:"
    cause, fix = done.stderr.strip().split("; fix: ")
    assert cause == (
        "hikyaku: a frame to node3:tcp0 does not arrive: node0:tcp0 cannot reach node3:tcp0"
    )
    assert fix == f"{hikyaku[0]} lab repair --lab {lab.name} leaf0-spine0"
    execute(["sh", "-c", fix])
    process.wait_until("the repair to be known", arrives, 20)
    assert "flood" not in execute(path).stdout
