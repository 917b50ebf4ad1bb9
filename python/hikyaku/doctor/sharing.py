# SPDX-License-Identifier: BSD-3-Clause
"""Ports that ranks of a node share: memory for hikyakud, and the abilities of a port."""

import ipaddress
import json
import os
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..called import as_root, make
from ..checkout import STATE_DIR, built
from ..errors import HikyakuError
from ..lab.openmpi import MODE_PARAMETER
from ..process import run
from .finding import MISSING, OK, WARN, Finding, Findings, text_of

# Memory of a job's hikyakud, and of each rank: memory_needed() in hostd/resources.c, with the
# ranks' default number of buffers and the frames of a memif.
_DAEMON_MB = 40
_MODE_DAEMON_MB = "75 to 115"  # by the frames and rings of its port
_RANK_MB = 105
# Ports whose queues secondary processes can poll: port/shared.c.
_QUEUES = "memif:dir="
_ASK_S = 30
_PER_RANK = re.compile(r"\{(local_)?rank\}")
_INTERFACE = re.compile(r"\b(?:iface|addr)=([^,;+]+)")
_PIPES = ("memif:socket=", "af_packet:", "pci:", "vdev:")
# Ports on sockets: each rank has one of its own.
_SOCKETS = ("af_xdp:", "udp:")


@dataclass(frozen=True)
class HugeMount:
    directory: Path
    page_kb: int
    room: int | None  # pages that its size limit leaves; None: it has none
    usable: bool


def huge_mounts(mounts: Path = Path("/proc/self/mounts")) -> list[HugeMount]:
    """Every hugetlbfs, and whether this user may create files in it."""
    found = []
    for line in mounts.read_text().splitlines():
        _, where, kind, *_ = line.split()
        if kind == "hugetlbfs":
            directory = Path(where.replace("\\040", " "))
            try:
                fs = os.statvfs(directory)
            except OSError:
                continue  # another user's, or gone
            room = fs.f_bavail if fs.f_blocks else None
            usable = os.access(directory, os.R_OK | os.W_OK | os.X_OK)
            found.append(HugeMount(directory, fs.f_bsize // 1024, room, usable))
    return found


def _of_a_lab(mount: HugeMount) -> bool:
    return str(mount.directory).startswith(f"{STATE_DIR.parent}/hikyaku-{os.getuid()}-")


def _mount_command() -> str:
    user = f"uid={os.geteuid()},mode=0700," if os.geteuid() else ""
    where = f"/mnt/huge-{os.geteuid()}" if os.geteuid() else "/dev/hugepages"
    return as_root(f"mkdir -p {where} && mount -t hugetlbfs -o {user}pagesize=2M none {where}")


def _pages(sys: Path, page_kb: int) -> tuple[int, int, Path]:
    """The free and unreserved pages of this size, all pages, and the file that sets their
    number."""
    pool = sys / f"kernel/mm/hugepages/hugepages-{page_kb}kB"
    free, reserved, total = (
        int(text_of(pool / f"{what}_hugepages") or 0) for what in ("free", "resv", "nr")
    )
    return max(0, free - reserved), total, pool / "nr_hugepages"


def _memory_of_daemons(mount: HugeMount, sys: Path) -> Finding:
    free, total, number = _pages(sys, mount.page_kb)
    need = -(-(_DAEMON_MB + _RANK_MB) * 1024 // mount.page_kb)
    here = free if mount.room is None else min(free, mount.room)
    text = (
        f"{mount.directory}: a hugetlbfs, {here * mount.page_kb // 1024} MB in pages of "
        f"{mount.page_kb} kB are free; a daemon takes {_DAEMON_MB} MB ({_MODE_DAEMON_MB} in mode "
        f"daemon), and about {_RANK_MB} MB for each rank"
    )
    if here >= need:
        return Finding("shared ports", OK, text)
    if free >= need:
        fix = f"mount -o remount,size=2G {mount.directory}"
    else:
        fix = f"echo {total - free + need} > {number}"
    return Finding("shared ports", WARN, text, as_root(fix))


def shared_ports(mounts: Path = Path("/proc/self/mounts"), sys: Path = Path("/sys")) -> Findings:
    every = huge_mounts(mounts)
    given = os.environ.get("HIKYAKU_HUGE_DIR")
    every = [m for m in every if (str(m.directory) == given if given else not _of_a_lab(m))]
    usable = sorted((m for m in every if m.usable), key=lambda m: m.page_kb)
    if not usable:
        text = "no hugetlbfs is mounted for jobs outside of labs"
        if every:
            text = f"no hugetlbfs lets this user in ({', '.join(str(m.directory) for m in every)})"
        yield Finding(
            "shared ports",
            WARN,
            f"{text}: no hikyakud, so ranks poll for themselves ({MODE_PARAMETER} inline)",
            _mount_command(),
        )
        return
    yield _memory_of_daemons(usable[0], sys)
    yield Finding(
        "shared ports",
        OK,
        f"{_QUEUES}… can be polled by each rank ({MODE_PARAMETER} hybrid or split); "
        f"{', '.join(p + '…' for p in _PIPES[1:])} by hikyakud for all (daemon); of "
        f"{' and '.join(p + '…' for p in _SOCKETS)} each rank has a socket (inline)",
    )


def _ask(spec: str) -> subprocess.CompletedProcess:
    """Lets hikyakud open the port for a moment, if its kind requires that."""
    return subprocess.run(
        [str(built("src/hikyakud")), "ask-port", spec],
        capture_output=True,
        text=True,
        timeout=_ASK_S,
        check=False,
    )


def _is_up(interface: Path) -> bool:
    return bool(int(text_of(interface / "flags") or "0", 16) & 1)  # IFF_UP


def _other_interface(net: Path) -> str:
    """The fix for a port on an interface that does not exist."""
    ethernet = (e.name for e in net.iterdir() if text_of(e / "type") == "1" and _is_up(e))
    there = sorted(ethernet)
    return f"use one of: {', '.join(there)}" if there else "see which there are: ip link"


def _interface_of(spec: str) -> str | None:
    """The interface that the port names; a UDP socket may name an address instead."""
    found = _INTERFACE.search(spec)
    if not found:
        return None
    with suppress(ValueError):
        ipaddress.ip_address(found[1])
        return None
    return found[1]


def own_addresses() -> list[str]:
    """The IP addresses of this machine."""
    shown = json.loads(run(["ip", "-json", "address"]))
    return [a["local"] for each in shown for a in each.get("addr_info", ()) if "local" in a]


def _other_address(own: list[str]) -> str:
    addresses = [ipaddress.ip_address(each) for each in own]
    there = [str(a) for a in addresses if not a.is_loopback and not a.is_link_local]
    return f"use one of: {', '.join(there)}" if there else "see which there are: ip address"


def _is_nic(device: Path) -> bool:
    return (text_of(device / "class") or "").startswith("0x02")  # a network controller


def _absent(spec: str, net: Path, pci: Path) -> Finding | None:
    """An interface, an address or a device that @spec names and that is not here."""
    fix = text = None
    named = _interface_of(spec)
    given = re.search(r"\budp:addr=([^,;+?]+)", spec)
    device = re.match(r"pci:((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b", spec, re.I)
    if named and not (net / named).exists():
        text, fix = f"there is no interface '{named}'", _other_interface(net)
    elif named and not _is_up(net / named):
        text, fix = f"the interface {named} is down", f"ip link set {named} up"
    elif given and not named and given[1] not in (own := own_addresses()):
        text, fix = f"no interface has the address {given[1]}", _other_address(own)
    elif device:
        name = device[1] if device[1].count(":") > 1 else f"0000:{device[1]}"
        if not (pci / name.lower()).exists():
            nics = [e.name for e in sorted(pci.glob("*")) if _is_nic(e)]
            text = f"there is no PCI device {name}"
            fix = f"use one of: {', '.join(nics)}" if nics else f"see which there are: ls {pci}"
    return Finding("shared ports", MISSING, f"port {spec}: {text}", fix) if text else None


# hikyakud's status for an invalid port spec (hostd/hikyakud.c)
_NO_PORT = 2


def port(
    spec: str,
    net: Path = Path("/sys/class/net"),
    pci: Path = Path("/sys/bus/pci/devices"),
) -> Findings:
    """How ranks of a node can share the port @spec, or why it is not a port."""
    if _PER_RANK.search(spec):
        yield sharing_modes(spec)
        return
    if absent := _absent(spec, net, pci):
        yield absent
        return
    try:
        done = _ask(spec)
    except (HikyakuError, OSError, subprocess.TimeoutExpired) as error:
        yield sharing_modes(spec)
        text = f"port {spec} cannot be asked: {error}"
        yield Finding("steering", WARN, text, None if "fix: " in text else make())
        return
    said = HikyakuError.said(done.stderr)
    if done.returncode == _NO_PORT:
        yield Finding("shared ports", MISSING, said.what, said.fix)
        return
    yield sharing_modes(spec)
    if done.returncode:
        text = f"cannot be asked: {said.what}; of a port that a hikyakud has, `hikyaku stats` tells"
        yield Finding("steering", WARN, text, said.fix)
    elif not spec.startswith(_SOCKETS):
        yield from _steering(spec, json.loads(done.stdout))


def _steering(spec: str, answer: dict) -> Findings:
    """How the port tells its ranks apart, and why not better."""
    what = answer["steering"]
    by = f"port {spec} ({answer['driver']}): ranks are told apart by {what['text']}"
    if what["method"] == "software":
        by += ": hikyakud looks into each frame"
    yield Finding("steering", OK, by)
    for better in what["better"]:
        yield Finding("steering", OK, f"no {better['text']}: {better['why']}")


def sharing_modes(spec: str) -> Finding:
    """How ranks of a node can share the port @spec, by the kind of the spec; opens nothing."""
    if _PER_RANK.search(spec):
        text = f"a port for each rank, nothing to share: {MODE_PARAMETER} inline"
    elif spec.startswith(_SOCKETS):
        text = f"each rank has a socket of its own, beside the kernel: {MODE_PARAMETER} inline"
    elif spec.startswith(_QUEUES):
        text = (
            f"each rank polls its own queues ({MODE_PARAMETER} hybrid; split, for bulk; or "
            "daemon); slots of two nodes multiplied: at most 128 (split: 124)"
        )
    else:
        text = f"only its owner can poll it: hikyakud does ({MODE_PARAMETER} daemon)"
    return Finding("shared ports", OK, f"port {spec}: {text}")
