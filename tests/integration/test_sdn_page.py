# SPDX-License-Identifier: BSD-3-Clause
"""The page in a browser shows the network as it is. Leaves a screenshot in out/."""

import re
import shutil
from pathlib import Path

import pytest

from execute import execute
from hikyaku import process
from hikyaku.checkout import ROOT
from hikyaku.lab import Lab, links
from hikyaku.lab.controller import controlled
from hikyaku.lab.frames import register

BROWSER = "chromium-headless-shell"
SCREENSHOT = ROOT / "out" / "sdn-page.png"


@pytest.fixture(scope="module")
def network(lab_name):
    with controlled(lab_name("sdn-page"), "leaf-spine:2x2x2") as (lab, controller):
        yield lab, controller


def browse(url: str, home: Path, *options: str) -> str:
    if shutil.which(BROWSER) is None:
        pytest.fail(f"{BROWSER} is not installed; run scripts/install-deps")
    argv = [BROWSER, "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}"]
    argv += ["--window-size=1280,800", "--virtual-time-budget=6000", *options, url]
    return execute(argv, timeout=90).stdout


def speak(lab: Lab, node: str, link: str) -> None:
    """A frame from @link, so that the controller learns its address."""
    code = (
        "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); "
        f"s.bind(('{link}', 0)); "
        "s.send(bytes([255] * 6) + s.getsockname()[4] + bytes.fromhex('88b6') + bytes(50))"
    )
    process.run(lab.exec_argv(node, ["/usr/bin/python3", "-c", code]))


def filled(page: str) -> None:
    """The drawing has the shape of its section, and reaches from its top to its bottom."""
    (box,) = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', page)
    width, height = map(float, box)
    assert 0.4 < height / width < 1
    tops = [float(y) for y in re.findall(r'<rect x="[-\d.]+" y="([\d.]+)"', page)]
    hosts = [float(y) for y in re.findall(r'<circle cx="[-\d.]+" cy="([\d.]+)"', page)]
    assert min(tops) < 0.15 * height
    assert min(hosts) > 0.8 * height


def test_topology_jobs_trees_and_failed_links(network, tmp_path):
    lab, controller = network
    job = register(lab, controller.client, [f"node{i}" for i in range(4)], name="<b>solver</b>")
    links.set_link(lab.topology, "leaf0-spine0", up=False)
    process.wait_until(
        "the cut to be known",
        lambda: len(controller.client.get("/v1/topology")["lost_links"]) == 1,
        20,
    )
    show = f"?show=/v1/jobs/{job}/path?source=0%26function=bcast%26group=0"
    speak(lab, "node2", "hk0")
    process.wait_until(
        "the data link of node2 to be known",
        lambda: len(controller.client.get("/v1/topology")["hosts"]) == 5,
        20,
    )
    page = browse(controller.client.address + "/" + show, tmp_path, "--dump-dom")
    assert "4 switches, 3 links, 4 hosts, 1 jobs" in page, "a node with two links is one host"
    assert re.findall(r'y="[\d.]+">(node\d)</text>', page) == [f"node{i}" for i in range(4)]
    assert len(re.findall(r"<title>node2\n", page)) == 1
    filled(page)
    assert len(re.findall(r'class="switch"', page)) == 4
    assert len(re.findall(r'class="host tree"', page)) == 3, "receivers of the tree"
    assert len(re.findall(r'class="link[^"]*tree', page)) == 2, "leaf, the other spine, leaf"
    assert len(re.findall(r'class="link lost', page)) == 1
    assert "leaf0" in page
    assert "<b>solver" not in page, "names are text"
    SCREENSHOT.parent.mkdir(exist_ok=True)
    SCREENSHOT.unlink(missing_ok=True)
    browse(controller.client.address + "/" + show, tmp_path, f"--screenshot={SCREENSHOT}")
    assert SCREENSHOT.read_bytes().startswith(b"\x89PNG")


def test_the_log_is_quiet(network):
    """Late probes of a busy machine are not reported as replays."""
    _, controller = network
    texts = [event["text"] for event in controller.client.get("/v1/status")["events"]]
    assert texts
    assert not [text for text in texts if "refused" in text or "replay" in text]


def test_the_page_asks_nobody_else(network):
    text = (ROOT / "python/hikyaku/sdn/rest/page.html").read_text()
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
