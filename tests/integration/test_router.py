# SPDX-License-Identifier: BSD-3-Clause
"""`hikyaku devmem route` on memif wires, in each mode.

Every byte of every packet that it sends is compared with the output of a router in Python
(hikyaku/devmem/model.py).
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from execute import execute
from hikyaku.devmem.model import SPECIAL, Router
from hikyaku.devmem.packets import IP4, ethernet, ipv4, read_pcap, write_pcap
from hikyaku.devmem.sequences import sequence
from hikyaku.process import wait_until

MACS = ["02:00:00:00:00:01", "02:00:00:00:01:01"]
PEERS = ["02:00:00:00:00:99", "02:00:00:00:01:99"]

ROUTES = f"""# the routes of this test
port 0 mac {MACS[0]}
port 1 mtu 1500 mac {MACS[1]}
address 198.18.0.1/24 port 0
address 198.18.1.1/24 port 1
address fd00:ff::1/64 port 1
neighbour 198.18.0.2 port 0 mac {PEERS[0]}
neighbour 198.18.1.2 port 1 mac {PEERS[1]}
neighbour fe80::2 port 1 mac {PEERS[1]}
neighbour fd00:ff::2 port 1 mac {PEERS[1]}
route 10.0.0.0/8 via 198.18.1.2
route 10.1.0.0/16 via 198.18.0.2
route 10.2.0.0/16 via 10.0.0.1
route 10.3.0.0/17 via 198.18.1.66
route 10.8.0.0/16 blackhole
route 10.9.0.0/16 unreachable
route fd00:0::/32 via fe80::2 port 1
route fd00:1::/32 via fd00:ff::2
route fd00:9::/32 unreachable
route 198.18.8.0/22 via 198.18.0.2
route fd00:99::/32 via fd00:ff::2
"""


def model() -> Router:
    """The router in Python with ROUTES."""
    zero, one = (0, PEERS[0]), (1, PEERS[1])
    return Router(
        macs=MACS,
        addresses=[["198.18.0.1"], ["198.18.1.1", "fd00:ff::1"]],
        mtu=[2034, 1500],
        routes={
            **SPECIAL,
            **dict.fromkeys(["198.18.0.1/32", "198.18.1.1/32", "fd00:ff::1/128"], "no_kernel"),
            **dict.fromkeys(["198.18.0.0/24", "198.18.1.0/24", "fd00:ff::/64"], "unresolved"),
            **dict.fromkeys(["198.18.0.0/32", "198.18.0.255/32"], "broadcast"),
            **dict.fromkeys(["198.18.1.0/32", "198.18.1.255/32"], "broadcast"),
            "198.18.0.2/32": zero,
            "198.18.1.2/32": one,
            "fd00:ff::2/128": one,
            "10.0.0.0/8": one,
            "10.1.0.0/16": zero,
            "10.2.0.0/16": one,
            "10.3.0.0/17": "unresolved",
            "10.8.0.0/16": "blackhole",
            "10.9.0.0/16": "unreachable",
            "fd00:0::/32": one,
            "fd00:1::/32": one,
            "fd00:9::/32": "unreachable",
            "198.18.8.0/22": zero,
            "fd00:99::/32": one,
        },
    )


@contextmanager
def router(
    command: list[str],
    tmp_path: Path,
    mode: str,
    routes: str,
    ports: int = 2,
    env: dict[str, str] | None = None,
) -> Iterator[subprocess.Popen]:
    """A router that is the server of memif sockets in @tmp_path. It ends with the block."""
    (tmp_path / "routes").write_text(routes)
    argv = [*command, "--mode", mode, "--routes", str(tmp_path / "routes")]
    for i in range(ports):
        argv += ["--port", f"memif:socket={tmp_path}/{i}.sock,role=server,frame=2048"]
    if mode != "bounce":
        argv += ["--pool", "pop:huge:size=24M", "--buffers", "4000"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes, env={**os.environ, **(env or {})}) as it:
        try:
            yield it
        except AssertionError as error:
            it.terminate()
            raise AssertionError(
                "\n".join([str(error), "router:", *it.communicate(timeout=20)])
            ) from error
        finally:
            it.terminate()
            try:
                it.wait(timeout=20)
            except subprocess.TimeoutExpired:
                it.kill()


def play(
    program: Callable[[str], str],
    tmp_path: Path,
    frames: list[list[bytes]],
    back: list[list[int]],
) -> list[list[bytes]]:
    """Sends @frames to each port, and returns the frames that each port sends. @back: how many
    frames come back for each frame."""
    expect = sum(map(sum, back))
    argv = [program("tests/integration/wire_player"), "--expect", str(expect)]
    for i, each in enumerate(frames):
        write_pcap(tmp_path / f"{i}-in.pcap", each, back[i])
        argv += ["--port", f"memif:socket={tmp_path}/{i}.sock,role=client,frame=2048"]
        argv += [str(tmp_path / f"{i}-in.pcap"), str(tmp_path / f"{i}-out.pcap")]
    execute(argv)
    return [read_pcap(tmp_path / f"{i}-out.pcap") for i in range(len(frames))]


# split: a simulated NIC splits frames, and puts headers into main memory. refused: the NIC offers
# this, but its queue set-up fails.
@pytest.mark.parametrize("mode", ["bounce", "p2p", "pktpit", "pktpit-split", "pktpit-refused"])
def test_every_byte(mode: str, tmp_path: Path, program, get_lab) -> None:
    mode, _, split = mode.partition("-")
    env = {}
    if split:
        env["LD_PRELOAD"] = program("tests/integration/hk_sim_split.so")
        env["HK_SIM_SPLIT"] = split
    if mode != "bounce":
        get_lab(2, "memif", 1, huge_mb=384)  # the pop is in huge pages: this adds some to the pool
    it = model()
    frames = [sequence(it, port, 3000, seed=port + 1) for port in (0, 1)]
    want: list[list[list[bytes]]] = [[[], []], [[], []]]  # by receiving and sending port
    back: list[list[int]] = [[], []]
    for port in (0, 1):
        for frame in frames[port]:
            out = it.put(port, frame)
            back[port].append(len(out.frames))
            if out.port is not None:
                want[port][out.port] += out.frames
    command = [program("systems/devmem/router/hk_router"), "--icmp-rate", "1000000"]
    with router(command, tmp_path, mode, ROUTES, env=env) as process:
        came = play(program, tmp_path, frames, back)
        process.terminate()
        said, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    # frames from one port stay in order; the frames of the two ports may interleave in any way
    for out in (0, 1):
        assert sorted(came[out]) == sorted(want[0][out] + want[1][out])
        for port in (0, 1):
            mine = set(want[port][out]) - set(want[1 - port][out])
            assert [f for f in came[out] if f in mine] == [f for f in want[port][out] if f in mine]
    stats = json.loads(said.splitlines()[-1])
    counted: dict[str, int] = {}
    for side in stats["ports"]:
        pieces = {name: side[name] for name in ("fragmented", "fragments")}
        for name, n in {**side["results"], **pieces}.items():
            counted[name] = counted.get(name, 0) + n
    assert counted == it.counts
    assert stats["mode"] == mode
    read = sum(side["read_header_bytes"] for side in stats["ports"])
    assert read == sum(min(len(f), 64) for each in frames for f in each)
    reason = {"split": "by the NIC", "refused": "refuses the queue"}.get(
        split, "not offer it" if mode == "pktpit" else "not asked"
    )
    assert all(reason in side["split"] for side in stats["ports"]), stats


def ask(control: Path, hikyaku: list[str], *command: str) -> str:
    argv = [*hikyaku, "devmem", "ask", "--control", str(control), "--json", *command]
    done = execute(argv, code=None)
    return done.stdout if done.returncode == 0 else done.stderr


def test_updates_and_reload_while_packets_flow(tmp_path: Path, program, hikyaku) -> None:
    control = tmp_path / "control"
    command = [program("systems/devmem/router/hk_router"), "--control", str(control)]
    it = model()
    frame = ethernet(MACS[0], PEERS[0], IP4, ipv4("198.18.9.9", "10.0.0.1", b"x" * 20))
    frames = [[frame] * 20000, []]
    with router(command, tmp_path, "bounce", ROUTES) as process:
        with ThreadPoolExecutor() as pool:
            played = pool.submit(play, program, tmp_path, frames, [[1] * 20000, []])
            wait_until("the control socket", control.exists, 20)
            before = json.loads(ask(control, hikyaku, "stats"))
            assert "10.66.0.0/16" not in ask(control, hikyaku, "route", "10.66.0.0/16", "blackhole")
            after = json.loads(ask(control, hikyaku, "stats"))
            assert after["routes4"] == before["routes4"] + 1
            assert after["implied_routes"] == before["implied_routes"]
            (tmp_path / "routes").write_text(ROUTES + "route 10.77.0.0/16 port 7\n")
            said = ask(control, hikyaku, "reload")
            assert f"{tmp_path}/routes:{len(ROUTES.splitlines()) + 1}: port 7" in said, said
            (tmp_path / "routes").write_text(ROUTES + "route 10.77.0.0/16 blackhole\n")
            assert json.loads(ask(control, hikyaku, "reload"))["done"]
            came = played.result()
        stats = json.loads(ask(control, hikyaku, "stats"))
        assert stats["reloads"] == 1
        # an address is also the route to its subnet
        own = [line for line in ROUTES.splitlines() if line.startswith(("route ", "address "))]
        six = sum(line.split()[1].startswith("fd00:") for line in own)
        # with the one that was added
        assert (stats["routes4"], stats["routes6"]) == (len(own) - six + 1, six)
        assert stats["implied_routes"] > 0
        assert "no route" not in ask(control, hikyaku, "unroute", "10.77.0.0/16")
        said = ask(control, hikyaku, "unroute", "10.66.0.0/16")
        assert "there is no route to 10.66.0.0/16; fix: " in said, "the reload did not remove it"
        said = ask(control, hikyaku, "unroute", "10.0.0.0/7")
        assert "10.0.0.0/7 is shorter than /8 and cannot" in said, said
        said = ask(control, hikyaku, "route", "10.8.0.0/33", "blackhole")
        assert said.startswith("hikyaku: '10.8.0.0/33' is not a prefix; fix: "), said
        said = ask(control, hikyaku, "route", "10.0.0.0/9", "via", "9.9.9.9")
        assert "cannot be resolved" in said
        process.terminate()
        assert process.wait(timeout=20) == 0
    assert came[1] == it.put(0, frame).frames * 20000
    assert not control.exists()


def test_the_fix_for_small_buffers_names_the_frames_that_fit(tmp_path, hikyaku, get_lab) -> None:
    """A veth's frames are longer than the buffers that a pool has by default."""
    lab = get_lab(2, "veth", 1, huge_mb=64)
    routes = tmp_path / "routes"
    routes.write_text("")
    command = [*hikyaku, "devmem", "route", "--mode", "p2p", "--pool", "pop:huge:size=64M"]
    command += ["--routes", str(routes), "--buffers", "4096", "--port"]
    argv = lab.exec_argv("node0", [*command, "af_xdp:iface=hk0,take=all"])
    done = execute(argv, code=None, timeout=60)
    assert done.returncode == 1
    said = "needs buffers of 3520 bytes, and those of the pool hold 2048; fix: --frame 3520"
    assert said in done.stderr


def test_huge_pages_that_are_not_free(tmp_path, hikyaku) -> None:
    """The fix names the number of pages, and the command for a lab."""
    routes = tmp_path / "routes"
    routes.write_text("")
    command = [*hikyaku, "devmem", "route", "--mode", "p2p", "--pool", "pop:huge:size=900G"]
    done = execute([*command, "--routes", str(routes), "--port", "vdev:net_null0"], code=None)
    assert done.returncode == 1
    assert re.search(
        r"no 460800 free huge pages of 2 MB: .*; fix: as root: echo \d+ > /sys/kernel/mm/hugepages/"
        r"hugepages-2048kB/nr_hugepages; in a lab: make it again with --huge 921600",
        done.stderr,
    ), done.stderr


def test_wrong_options_and_missing_files(tmp_path: Path, hikyaku) -> None:
    routes = tmp_path / "routes"
    routes.write_text("route 10.0.0.0/8 via 10.0.0.1 port 5\n")
    port = ["--port", "vdev:net_null0"]
    wrong = {
        f"{routes}:1: port 5": ["devmem", "route", "--routes", str(routes), *port],
        "No such file": ["devmem", "route", "--check", "--routes", str(tmp_path / "none"), *port],
        "needs memory on a device; fix: add --pool": [
            *["devmem", "route", "--mode", "pktpit", "--routes", str(routes), *port]
        ],
        "fix: remove --pool": [
            *["devmem", "route", "--pool", "pop:huge:size=2M", "--routes", str(routes), *port]
        ],
        "no router answers": ["devmem", "ask", "--control", str(tmp_path / "none"), "stats"],
        "apt-get install dpdk-doc": ["bench", "router", "--l3fwd", str(tmp_path / "none")],
    }
    ports = ["--port", "af_xdp:iface=lo", "--port", "udp:addr=lo"]
    taken = [*ports[:1], f"{ports[1]},take=all"]
    pool = ["--mode", "pktpit", "--pool", "pop:huge:size=2M"]
    routes = tmp_path / "empty"
    routes.write_text("")
    run = ["devmem", "route", "--routes", str(routes)]
    wrong |= {
        "a router needs all; fix: --port 'af_xdp:iface=lo,take=all'": [*run, *ports],
        "a UDP socket carries no frames of other stations; fix: ": [*run, *ports[2:]],
        "mode pktpit takes ports of kinds pci:, memif:, ": [*run, *pool, *taken],
    }
    for error, command in wrong.items():
        done = execute([*hikyaku, *command], code=None, timeout=30)
        assert done.returncode != 0 and error in done.stderr, (error, done.stderr)
